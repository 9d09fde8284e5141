"""A summary of every cluster: size, cohesion, what characterises it, its members, its bridges to other clusters."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import ParameterError, require
from softcut.graph import Graph
from softcut.metrics.traits import Trait, traits_of_clusters
from softcut.tables.display_text import percent, shortened

VERDICTS = {
    "none": "The graph may have no clusters: do not rely on these.",
    "weak": "There is some structure; look at the clusters before you rely on them.",
    "clear": "The clusters are clear.",
}
# Columns of clusters.csv and of Summary.to_frame.
ROW = (
    *("cluster", "size", "share", "cohesion", "by_chance", "certainty"),
    *("differs_by", "typical", "doubtful", "bridges"),
)
_TYPICAL, _DOUBTFUL = 5, 3  # members of a cluster
_BRIDGES = 3  # to other clusters
_PRINTED = 20  # clusters; to_frame has all
_NAME = 40  # characters of a node's name
_WIDTH = 100  # of a printed line
_SEEN = 0.005  # a smaller probability would be printed as 0.00


@dataclass(frozen=True)
class Doubt:
    """A member that is nearly as likely to be in another cluster."""

    node: str
    probability: float
    other: int
    other_probability: float

    def __str__(self) -> str:
        return f"{self.node} ({self.probability:.2f}; cluster {self.other}: {self.other_probability:.2f})"


@dataclass(frozen=True)
class Bridge:
    """The edges from a cluster to another one, and the member that has most of them."""

    to: int
    weight: float
    share: float  # of the weight of the cluster's edges
    node: str

    def text(self, edges: str = " of its edges", most: str = "most from ") -> str:
        """Where to, how much, and from whom; what is said once may be left out."""
        return f"to {self.to}: {percent(self.share)}{edges} ({most}{self.node})"

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster, as people would describe it."""

    cluster: int
    size: int
    share: float  # of all nodes
    cohesion: float  # share of the weight of its edges that stays inside; nan without edges
    by_chance: float  # the same, if edges took no notice of clusters
    certainty: float  # mean probability of its members
    traits: tuple[Trait, ...]  # features that set it apart, the strongest first
    typical: tuple[str, ...]  # the members with the largest probabilities, those with most edges inside first
    doubtful: tuple[Doubt, ...]  # the members whose first two clusters are closest
    bridges: tuple[Bridge, ...]  # to the clusters that most of its edges go to

    @property
    def heading(self) -> str:
        """Size and cohesion in a line."""
        nodes = "1 node" if self.size == 1 else f"{self.size:,} nodes"
        edges = "no edges"
        if not math.isnan(self.cohesion):
            edges = f"{percent(self.cohesion)} of its edges stay inside ({percent(self.by_chance)} by chance)"
        return f"{nodes} ({percent(self.share)}), {edges}"

    @property
    def parts(self) -> dict[str, str]:
        """Everything else, each in a line; empty where there is nothing to say."""
        return {name: ", ".join(pieces) for name, pieces in self.pieces.items()}

    @property
    def pieces(self) -> dict[str, list[str]]:
        """The same in pieces, where each has a line of its own; the names of typical nodes are one."""
        names = ("; " if any("," in name for name in self.typical) else ", ").join(self.typical)
        return {
            "differs by": [trait.text(*[""] * (i > 0)) for i, trait in enumerate(self.traits)],
            "typical": [names] if names else [],
            "doubtful": list(map(str, self.doubtful)),
            "bridges": [b.text("", "") if i else b.text() for i, b in enumerate(self.bridges)],
        }

    @property
    def row(self) -> dict[str, Any]:
        """The values of :data:`ROW`."""
        numbers = {name: getattr(self, name) for name in ("cohesion", "by_chance", "certainty")}
        rounded = {name: None if math.isnan(value) else round(value, 6) for name, value in numbers.items()}
        return {
            "cluster": self.cluster,
            "size": self.size,
            "share": round(self.share, 6),
            **rounded,
            **{name.replace(" ", "_"): text for name, text in self.parts.items()},
        }

    def __str__(self) -> str:
        lines = [f"cluster {self.cluster}: {self.heading}"]
        for name, text in self.parts.items():
            if text:
                first = f"  {name + ':':<12}"
                kept = text.replace(" %", "\N{NO-BREAK SPACE}%")  # a number and its sign stay in one line
                kept = textwrap.fill(kept, _WIDTH, initial_indent=first, subsequent_indent=" " * 14)
                lines.append(kept.replace("\N{NO-BREAK SPACE}%", " %"))
        return "\n".join(lines)


@dataclass(frozen=True)
class Summary:
    """Every cluster that is used, by its number; printing it shows it.

    `verdict` and `structure` are those of the fit, None where the clusters were not fitted on this graph.
    """

    clusters: tuple[ClusterSummary, ...]
    nodes: int
    unplaced: int  # nodes in no cluster
    verdict: str | None
    structure: float | None

    @property
    def heading(self) -> str:
        """The verdict and the number of clusters, in a line."""
        k = len(self.clusters)
        counted = f"{self.nodes:,} nodes in {k} {'cluster' if k == 1 else 'clusters'}"
        if self.unplaced:
            counted += f", {self.unplaced:,} in none"
        said = verdict_sentence(self.verdict, k)
        return f"{said} {counted}." if said else f"{counted}."

    def to_frame(self) -> Any:
        """A pandas data frame with a row per cluster, as in ``clusters.csv``."""
        pandas = require("pandas", "tables", "to_frame")
        return pandas.DataFrame([cluster.row for cluster in self.clusters], columns=ROW).set_index("cluster")

    def __len__(self) -> int:
        return len(self.clusters)

    def __repr__(self) -> str:
        lines = [self.heading, *(f"\n{cluster}" for cluster in self.clusters[:_PRINTED])]
        if len(self.clusters) > _PRINTED:
            lines.append(f"\nand {len(self.clusters) - _PRINTED} more clusters; to_frame() has all of them.")
        return "\n".join(lines)


def verdict_sentence(verdict: str | None, n_clusters: int) -> str:
    """What a clustering is worth, in a sentence; "" without a verdict, as after a prediction.

    >>> verdict_sentence("clear", 3)
    'The clusters are clear.'
    """
    if verdict == "none" and n_clusters == 1:
        return "All nodes are in one cluster."
    return VERDICTS.get(str(verdict), "")


def summarise(
    graph: Graph,
    labels: Any,
    soft: np.ndarray | None = None,
    *,
    verdict: str | None = None,
    structure: float | None = None,
) -> Summary:
    """Describe every cluster of a graph.

    >>> from softcut.graph import Graph
    >>> names = ["ann", "bob", "cy", "dan", "eve", "fay"]
    >>> graph = Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]], node_names=names)
    >>> summarise(graph, [0, 0, 0, 1, 1, 1])
    6 nodes in 2 clusters.
    <BLANKLINE>
    cluster 0: 3 nodes (50 %), 86 % of its edges stay inside (50 % by chance)
      typical:    ann, bob, cy
      bridges:    to 1: 14 % of its edges (most from cy)
    <BLANKLINE>
    cluster 1: 3 nodes (50 %), 86 % of its edges stay inside (50 % by chance)
      typical:    eve, fay, dan
      bridges:    to 0: 14 % of its edges (most from dan)

    Parameters
    ----------
    graph : Graph
        Its features say what characterises a cluster: those that pay by the price list of the evidence
        (:mod:`softcut.metrics.traits`).
    labels : array [N]
        Clusters from 0; -1 for a node in none.
    soft : array [N, K], optional
        Probabilities, which say who is typical and who doubtful; without them every node is certain.
    verdict, structure : optional
        Of the fit: the first line says them.
    """
    labels = np.asarray(labels)
    if labels.shape != (graph.num_nodes,):
        raise ParameterError(
            f"labels must hold one label per node ({graph.num_nodes}), got {labels.shape}.", argument="labels"
        )
    labels = labels.astype(np.int64)
    k = max(int(labels.max()) + 1, 0 if soft is None else soft.shape[1])
    chances = np.asarray(labels[:, None] == np.arange(k) if soft is None else soft, dtype=np.float64)
    placed = labels >= 0
    nodes = np.flatnonzero(placed)
    member = sp.csr_array((np.ones(len(nodes)), (nodes, labels[nodes])), shape=(graph.num_nodes, k))
    near = sp.csr_array(graph.adjacency.astype(np.float64) @ member)  # [N, K]: weight from nodes to clusters
    flow = np.asarray((member.T @ near).toarray())
    traits: list[list[Trait]] = [[] for _ in range(k)]
    if graph.x is not None:
        dates = [rule.title for rule in _rules(graph) if rule.kind == "date"]
        traits = traits_of_clusters(graph.x, graph.kinds, graph.feature_names, labels, k, dates)
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    clusters = tuple(
        _cluster(c, np.flatnonzero(labels == c), len(nodes), chances, near, flow, names, traits[c])
        for c in np.unique(labels[placed]).tolist()
    )
    return Summary(clusters, graph.num_nodes, int((~placed).sum()), verdict, structure)


def _rules(graph: Graph) -> Sequence[Any]:
    """What the columns of the features' table were taken for, where that is known."""
    schema = getattr(graph, "schema", None)
    return () if schema is None else schema.columns


def _cluster(
    c: int,
    members: np.ndarray,
    nodes: int,
    soft: np.ndarray,
    near: sp.csr_array,
    flow: np.ndarray,
    names: Sequence[str],
    traits: list[Trait],
) -> ClusterSummary:
    weights = np.asarray(near[members].toarray())  # of its members to every cluster
    own = soft[members, c]
    volume, total = flow[c].sum(), flow.sum()

    def called(i: int) -> str:
        return shortened(names[members[i]], _NAME)

    # Many are equally certain: those with most edges inside come first, then those with fewest to others.
    order = np.lexsort((weights.sum(1), -weights[:, c], -np.round(own, 3)))
    typical = order[:_TYPICAL]
    return ClusterSummary(
        cluster=c,
        size=len(members),
        share=len(members) / nodes,
        cohesion=float(flow[c, c] / volume) if volume > 0 else math.nan,
        by_chance=float(volume / total) if total > 0 else math.nan,
        certainty=float(own.mean()),
        traits=tuple(traits),
        typical=tuple(map(called, typical)),
        doubtful=tuple(_doubts(c, soft[members], called, typical)),
        bridges=tuple(
            Bridge(int(d), float(flow[c, d]), float(flow[c, d] / volume), called(int(weights[:, d].argmax())))
            for d in np.argsort(-flow[c], kind="stable")[: _BRIDGES + 1]  # itself may be among them
            if d != c and flow[c, d] > 0
        )[:_BRIDGES],
    )


def _doubts(c: int, soft: np.ndarray, called: Callable[[int], str], typical: np.ndarray) -> list[Doubt]:
    """The members whose own cluster is least ahead of the next one, and that are not typical."""
    others = soft.copy()
    others[:, c] = -1
    second = others.argmax(1)
    chance = others.max(1)
    order = np.argsort(soft[:, c] - chance, kind="stable")
    doubted = order[(chance[order] >= _SEEN) & ~np.isin(order, typical)][:_DOUBTFUL]
    return [Doubt(called(i), float(soft[i, c]), int(second[i]), float(chance[i])) for i in doubted]
