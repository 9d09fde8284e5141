"""Bytes that the processes of a distributed training send each other: what is counted, and the model of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Traffic", "parameter_count", "step_traffic"]


@dataclass(frozen=True)
class Traffic:
    """Bytes between processes.

    >>> Traffic(100, 20) - Traffic(40, 5)
    Traffic(halo=60, reduced=15)

    Attributes
    ----------
    halo : int
        Bytes of rows sent to other processes.
    reduced : int
        Bytes of numbers that are added up over all processes; a ring of P processes sends 2 (P - 1) / P times as
        many from each.
    """

    halo: int
    reduced: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo + other.halo, self.reduced + other.reduced)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo - other.halo, self.reduced - other.reduced)

    def ring(self, processes: int) -> float:
        """Bytes that one process of a ring sends for `reduced`."""
        return 2 * (processes - 1) / processes * self.reduced


def parameter_count(k: int, columns: int, hidden: int = 16, replicas: int = 1, terms: int = 1) -> int:
    """Parameters of R networks: first kernels and bias, second kernel and bias.

    >>> parameter_count(k=2, columns=3, hidden=4)
    26
    """
    return replicas * (terms * hidden * columns + hidden + k * hidden + k)


def step_traffic(
    sent_rows: int,
    k: int,
    columns: int,
    *,
    hidden: int = 16,
    replicas: int = 1,
    terms: int = 1,
    itemsize: int = 4,
    objective: str = "evidence",
    vocabulary: int = 0,
    held: bool = True,
) -> Traffic:
    """Bytes of one step of one process (or of all, with the rows that all of them send).

    >>> step_traffic(sent_rows=10, k=2, columns=3, hidden=4, vocabulary=5)
    Traffic(halo=80, reduced=184)

    Parameters
    ----------
    sent_rows : int
        Rows that the process sends to others: how often its nodes are in other parts' halos.
    k, columns, hidden, replicas, terms : int
        Of the networks.
    itemsize : int
        Bytes a number.
    objective : {"evidence", "mincut"}
        Whose sums are added up.
    vocabulary : int
        Words that the evidence counts besides edges.
    held : bool
        Whether the evidence holds clusters to the sizes of their start, for which S'S is needed.
    """
    # Evidence: S'AS, S'1, S'X, and S'S. Cut: Tr S'A~S, Tr S'D~S and S'S.
    sums = k * k + k + k * vocabulary + held * k * k if objective == "evidence" else k * k + 2
    numbers = replicas * sums + parameter_count(k, columns, hidden, replicas, terms)
    return Traffic(itemsize * replicas * k * sent_rows, itemsize * numbers)
