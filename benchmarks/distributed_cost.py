r"""What a step of distributed training costs: operations, bytes of memory and bytes between processes.

With N nodes, E stored entries (two for each undirected edge), F columns that the networks read, H hidden units, K
clusters, R replicas, P parts with h_p halo rows each, and b bytes a number:

    product A~S             2 E R K operations       reads E (4 + b R K) + b N R K bytes
    network, both ways      6 N R (F H + H K)        reads b N F twice, b N R (H + K) a few times
    halo rows sent          b R K sum_p h_p          in all; none in backward
    numbers added up        b (R (K^2 + 2) + parameters),  parameters = R (T H F + H + K H + K)

for a network of T kernels in its first layer. Nothing else is sent in a step. Before the training, features are
propagated in float64: 8 F h_p bytes received by part p for each hop.

Memory is counted from the code: the arrays that are alive at the same time, where their sum is largest. What does not
grow with the graph (samples, blocks of rows, parameters) is left out. PyTorch's own record of allocations is
compared with it in ``tests/training/test_distributed_cost.py``.

    python -m softcut.clustering.distributed.cost --nodes 111e6 --entries 3.2e9 --columns 128 -k 16 --parts 8
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from softcut.clustering.distributed.inputs import COLUMNS_AT_ONCE
from softcut.clustering.distributed.traffic import step_traffic

__all__ = ["Scale", "random_halo_share"]


def random_halo_share(parts: int, degree: float) -> float:
    """Halo rows per own row where nodes of one degree are divided at random; less where degrees differ.

    >>> round(random_halo_share(8, 20.0), 2)
    6.52
    """
    return (parts - 1) * (1 - (1 - 1 / parts) ** degree)


@dataclass(frozen=True)
class Scale:
    """A job, described by its sizes alone.

    >>> job = Scale(nodes=1e6, entries=6.4e7, columns=64, k=16)
    >>> round(job.product_bytes / 1e9, 1), job.halo_bytes
    (4.4, 0.0)

    Attributes
    ----------
    nodes, entries : float
        N and E (two entries for each undirected edge).
    columns, k, hidden, replicas, distances : int
        Of the networks; `distances` propagated copies of the features are kept.
    parts : int
        P.
    halo_share : float
        Halo rows of a part as a share of its own rows. It depends on the graph and on how it is divided:
        manifest.json says it (halo / rows); for random parts see :func:`random_halo_share`.
    itemsize : int
        Bytes a number.
    """

    nodes: float
    entries: float
    columns: int
    k: int
    hidden: int = 16
    replicas: int = 1
    distances: int = 1
    parts: int = 1
    halo_share: float = 0.0
    itemsize: int = 4

    @property
    def rows(self) -> float:
        """Own nodes of a part."""
        return self.nodes / self.parts

    @property
    def halo(self) -> float:
        """Halo rows of a part."""
        return 0.0 if self.parts == 1 else self.halo_share * self.rows

    @property
    def product_operations(self) -> float:
        """Of A~S, per part and step."""
        return 2 * self.entries / self.parts * self.replicas * self.k

    @property
    def network_operations(self) -> float:
        """Of the networks forward and backward, per part and step."""
        return 6 * self.rows * self.replicas * self.hidden * (self.columns + self.k)

    @property
    def product_bytes(self) -> float:
        """Read and written by A~S, per part and step, where nothing is found in a cache: the gather limit."""
        width = self.itemsize * self.replicas * self.k
        return self.entries / self.parts * (4 + width) + width * self.rows

    @property
    def network_bytes(self) -> float:
        """Features read forward and backward, and a few passes over hidden units and S, per part and step."""
        return self.itemsize * self.rows * (2 * self.columns + 8 * self.replicas * (self.hidden + self.k))

    @property
    def halo_bytes(self) -> float:
        """Rows received by a part in a step."""
        return self.itemsize * self.replicas * self.k * self.halo

    @property
    def reduced_bytes(self) -> float:
        """Numbers added up in a step."""
        return step_traffic(
            0, self.k, self.columns, hidden=self.hidden, replicas=self.replicas, itemsize=self.itemsize
        ).reduced

    @property
    def graph_memory(self) -> float:
        """Bytes of a part's rows of the graph: pointer, columns, rows to send."""
        return 4 * (self.entries / self.parts + self.rows + 2 * self.halo)

    @property
    def feature_memory(self) -> float:
        """Bytes of a part's features at all distances."""
        return self.itemsize * self.distances * self.rows * self.columns

    @property
    def node_memory(self) -> float:
        """Bytes per node that stay: degree and scale in float64 and float32, the first labels of each replica."""
        return self.rows * (24 + 8 * self.replicas)

    @property
    def step_memory(self) -> float:
        """Bytes of activations and their gradients at the peak of a step, which is one of three moments.

        Autograd keeps two arrays of hidden units (before and after the activation) and two like S (the softmax, and S
        with the nodes first). While the halo is put below S there are two more, and the halo twice; after
        the product, two more and Y, with the halo once, and two integers per row. Backward through the hidden layer,
        there are three of hidden units and one like S.
        """
        h, k, halo = self.rows * self.hidden, self.rows * self.k, self.halo * self.k
        joined = 2 * h + 4 * k + 2 * halo
        multiplied = 2 * h + 5 * k + halo + 2 * self.rows / self.replicas
        return self.itemsize * self.replicas * max(joined, multiplied, 3 * h + k)

    def _product_memory(self, columns: int) -> float:
        """Bytes at the peak of a product in float64 of some columns, on a CPU.

        The columns, the same with the halo below, the result twice and the entries of A; or, before that, the
        columns, the halo, and both together.
        """
        during = columns * (4 * self.rows + self.halo) + self.entries / self.parts
        return 8 * max(during, 2 * columns * (self.rows + self.halo))

    @property
    def judging_memory(self) -> float:
        """Bytes of the evidence after the training: S and labels of all replicas, A times the labels of one."""
        return self.rows * self.replicas * (self.itemsize * self.k + 8) + self._product_memory(self.k)

    @property
    def memory(self) -> float:
        """Bytes of a part in training, or right after it."""
        kept = self.graph_memory + self.feature_memory + self.node_memory
        return kept + max(self.step_memory, self.judging_memory)

    @property
    def preparation_memory(self) -> float:
        """Bytes of a part while features are propagated: all of them in float64, a few columns at a time."""
        few = self._product_memory(min(COLUMNS_AT_ONCE, self.columns))
        return self.graph_memory + self.feature_memory + 8 * self.rows * (self.columns + 2) + few

    @property
    def hop_bytes(self) -> float:
        """Rows received by a part when features are propagated once, in float64."""
        return 8 * self.columns * self.halo

    @property
    def disk(self) -> float:
        """Bytes of all parts on disk: rows of the graph, features, words (one per column), node numbers."""
        return self.parts * self.graph_memory + self.nodes * (self.columns * (self.itemsize + 4) + 24)

    def seconds(self, memory_speed: float, network_speed: float) -> tuple[float, float]:
        """Seconds of a step: memory traffic at `memory_speed` and messages at `network_speed` bytes a second.

        They are not overlapped: a product waits for its halo.
        """
        compute = (self.product_bytes + self.network_bytes) / memory_speed
        ring = 2 * (self.parts - 1) / self.parts * self.reduced_bytes
        return compute, (self.halo_bytes + ring) / network_speed


def _table(job: Scale, memory_speed: float, network_speed: float) -> str:
    compute, messages = job.seconds(memory_speed, network_speed)
    rows = [
        ("own nodes of a part", f"{job.rows / 1e6:,.1f} M"),
        ("halo rows of a part", f"{job.halo / 1e6:,.1f} M"),
        ("memory of a part: graph", f"{job.graph_memory / 2**30:,.1f} GiB"),
        ("memory of a part: features", f"{job.feature_memory / 2**30:,.1f} GiB"),
        ("memory of a part: per node", f"{job.node_memory / 2**30:,.1f} GiB"),
        ("memory of a part: a step", f"{job.step_memory / 2**30:,.1f} GiB"),
        ("memory of a part: evidence", f"{job.judging_memory / 2**30:,.1f} GiB"),
        ("memory of a part in training", f"{job.memory / 2**30:,.1f} GiB"),
        ("memory of a part in preparation", f"{job.preparation_memory / 2**30:,.1f} GiB"),
        ("disk of all parts", f"{job.disk / 2**30:,.0f} GiB"),
        ("operations of a part: product", f"{job.product_operations / 1e9:,.1f} G"),
        ("operations of a part: networks", f"{job.network_operations / 1e9:,.1f} G"),
        ("memory traffic of a part: product", f"{job.product_bytes / 1e9:,.1f} GB"),
        ("memory traffic of a part: networks", f"{job.network_bytes / 1e9:,.1f} GB"),
        ("halo received by a part", f"{job.halo_bytes / 1e9:,.2f} GB"),
        ("halo received by a part, once a hop", f"{job.hop_bytes / 1e9:,.2f} GB"),
        ("numbers added up", f"{job.reduced_bytes / 1e3:,.1f} kB"),
        ("seconds of a step: memory", f"{compute:,.3f}"),
        ("seconds of a step: messages", f"{messages:,.3f}"),
        ("seconds of 240 steps", f"{240 * (compute + messages):,.0f}"),
    ]
    return "\n".join(f"{name:36s} {value:>14s}" for name, value in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what a job of the given sizes needs."""
    parser = argparse.ArgumentParser(
        prog="python -m softcut.clustering.distributed.cost", description=main.__doc__
    )
    parser.add_argument("--nodes", type=float, default=111e6)
    parser.add_argument("--entries", type=float, default=3.2e9, help="two for each undirected edge")
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--distances", type=int, default=1)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument(
        "--halo-share", type=float, help="halo rows / own rows of a part; by default that of random parts"
    )
    parser.add_argument("--itemsize", type=int, default=4)
    parser.add_argument("--memory-speed", type=float, default=3.5e12, help="bytes a second of a device")
    parser.add_argument("--network-speed", type=float, default=5e10, help="bytes a second between devices")
    given = vars(parser.parse_args(arguments))
    memory_speed, network_speed = given.pop("memory_speed"), given.pop("network_speed")
    if given["halo_share"] is None:
        given["halo_share"] = random_halo_share(given["parts"], given["entries"] / given["nodes"])
    print(_table(Scale(**given), memory_speed, network_speed))


if __name__ == "__main__":
    main()
