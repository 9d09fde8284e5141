"""Bytes that the processes of a distributed training send each other: what is counted, and the model of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Traffic", "step_traffic"]


@dataclass(frozen=True)
class Traffic:
    """Bytes between processes."""

    halo: int  # of rows sent to other processes
    reduced: int  # of numbers that are added up over all processes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo + other.halo, self.reduced + other.reduced)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo - other.halo, self.reduced - other.reduced)


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
    """Bytes of one step of a process that sends so many rows (or of all, with the rows that all of them send).

    `vocabulary` is the number of words that the evidence counts besides edges; `held` says whether clusters are held to
    the sizes of their start, which needs S'S. Other arguments are those of the networks.

    >>> step_traffic(sent_rows=10, k=2, columns=3, hidden=4, vocabulary=5)
    Traffic(halo=80, reduced=184)
    """
    # Evidence: S'AS, S'1, S'X, and S'S. Cut: Tr S'A~S, Tr S'D~S and S'S.
    sums = k * k + k + k * vocabulary + held * k * k if objective == "evidence" else k * k + 2
    parameters = terms * hidden * columns + hidden + k * hidden + k
    return Traffic(itemsize * replicas * k * sent_rows, itemsize * replicas * (sums + parameters))
