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
_OF_GRAPH = "The graph has clear clusters."  # where the verdict is not about those that are shown
_ALONE = "No communities: all nodes are in one cluster."
_LEVELS = 12  # whose numbers of clusters a heading lists
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
_AT_ONCE = 1 << 22  # numbers of a table that are looked at together
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
    is_community: bool = (
        True  # False: no more of its edges stay inside than by chance, though that was looked for
    )

    @property
    def heading(self) -> str:
        """Size and cohesion in a line."""
        nodes = "1 node" if self.size == 1 else f"{self.size:,} nodes"
        edges = "no edges"
        if not math.isnan(self.cohesion):
            edges = f"{percent(self.cohesion)} of its edges stay inside ({percent(self.by_chance)} by chance)"
        return f"{nodes} ({percent(self.share)}), {edges}" + ("" if self.is_community else ": no community")

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

    `verdict` and `structure` are those of the fit, None where the clusters were not fitted on this graph; `levels` are
    the numbers of clusters of nested levels, coarse to fine, of which these are those of `level`.
    """

    clusters: tuple[ClusterSummary, ...]
    nodes: int
    unplaced: int  # nodes in no cluster
    verdict: str | None
    structure: float | None
    of_graph: bool = False  # whether the verdict is about the graph, and not about these clusters
    level: int | None = None
    levels: tuple[int, ...] = ()

    @property
    def said(self) -> str:
        """What the clusters are worth, in a sentence; "" without a verdict, as after a prediction."""
        of_graph = self.of_graph or not all(cluster.is_community for cluster in self.clusters)
        return verdict_sentence(self.verdict, len(self.clusters), of_graph)

    @property
    def counted(self) -> str:
        """Nodes and clusters, and how many clusters the other levels have."""
        k = len(self.clusters)
        counted = f"{self.nodes:,} nodes in {k:,} {'cluster' if k == 1 else 'clusters'}"
        if len(self.levels) > 1 and self.level is not None:
            shown = [f"{each:,}" for each in self.levels[:_LEVELS]]
            more = ", ..." if len(self.levels) > _LEVELS else ""
            counted += (
                f" (level {self.level} of 0 to {len(self.levels) - 1}: {', '.join(shown)}{more} clusters)"
            )
        return counted + (f", {self.unplaced:,} in none" if self.unplaced else "")

    @property
    def heading(self) -> str:
        """The verdict and the number of clusters, in a line."""
        return f"{self.said} {self.counted}." if self.said else f"{self.counted}."

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


def verdict_sentence(verdict: str | None, n_clusters: int, of_graph: bool = False) -> str:
    """What a clustering is worth, in a sentence; "" without a verdict, as after a prediction.

    `of_graph`: the verdict is about the graph, but these clusters, whose number or level was asked for, are not those
    that stand out.

    >>> verdict_sentence("clear", 3), verdict_sentence("none", 1)
    ('The clusters are clear.', 'No communities: all nodes are in one cluster.')
    """
    if n_clusters <= 1 and verdict is not None:
        return "" if n_clusters == 0 else _ALONE if verdict == "none" else "All nodes are in one cluster."
    if verdict == "clear" and of_graph:
        return _OF_GRAPH
    return VERDICTS.get(str(verdict), "")


def judged(estimator: Any, level: int | None = None) -> dict[str, Any]:
    """What :func:`summarise` is told about the clusters of a fitted estimator, those of a level or the chosen ones.

    One rule for everything that says what clusters are worth. The verdict is about the graph where they are not those
    that stand out: of another level, of a scale or sizes that were asked for, or of a number that was asked for and
    explain less than they take. It is "unknown", and nothing is said, where the search was ended before the graph was
    compared with random ones.
    """
    levels = estimator.levels_
    given = not (estimator.n_clusters is None or isinstance(estimator.n_clusters, str))
    by_edges = estimator.deviations_ is not None
    other = level is not None and level != estimator.level_
    other |= any(each is not None for each in (estimator.scale, estimator.min_size, estimator.max_size))
    told: dict[str, Any] = {
        "verdict": estimator.verdict_,
        "structure": estimator.structure_,
        "of_graph": other or (by_edges and given and estimator.structure_ < 1),
        "communities": estimator.pattern != "any",
    }
    if estimator.tree_ is not None and levels is not None and len(levels.labels) > 1:
        told["level"] = estimator.level_ if level is None else level
        told["levels"] = tuple(len(np.unique(labels[labels >= 0])) for labels in levels.labels)
    return told


def summarise(
    graph: Graph,
    labels: Any,
    soft: Any = None,
    *,
    verdict: str | None = None,
    structure: float | None = None,
    of_graph: bool = False,
    communities: bool = True,
    level: int | None = None,
    levels: Sequence[int] = (),
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
    soft : array or sparse array [N, K], optional
        Probabilities, which say who is typical and who doubtful; without them every node is certain.
    verdict, structure, of_graph, level, levels : optional
        Of the fit: the first line says them (:func:`judged`).
    communities : bool
        Whether clusters are to keep their edges inside: one that does not is said to be no community.
    """
    labels = np.asarray(labels)
    if labels.shape != (graph.num_nodes,):
        raise ParameterError(
            f"labels must hold one label per node ({graph.num_nodes}), got {labels.shape}.", argument="labels"
        )
    labels = labels.astype(np.int64)
    k = max(int(labels.max()) + 1, 0 if soft is None else soft.shape[1])
    placed = labels >= 0
    nodes = np.flatnonzero(placed)
    member = sp.csr_array((np.ones(len(nodes)), (nodes, labels[nodes])), shape=(graph.num_nodes, k))
    near = sp.csr_array(graph.adjacency.astype(np.float64) @ member)  # [N, K]: weight from nodes to clusters
    flow = sp.csr_array(member.T @ near)
    traits: list[list[Trait]] = [[] for _ in range(k)]
    if graph.x is not None:
        dates = [rule.title for rule in _rules(graph) if rule.kind == "date"]
        traits = traits_of_clusters(graph.x, graph.kinds, graph.feature_names, labels, k, dates)
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    used = np.unique(labels[placed])
    order = np.argsort(labels, kind="stable")[int((~placed).sum()) :]
    parts = np.split(order, np.searchsorted(labels[order], used)[1:]) if len(used) else []
    chances = Chances.of(labels, soft)
    inside = _entries(near, labels)
    volume = np.asarray(flow.sum(axis=1)).ravel()
    total = volume.sum()
    clusters = []
    for c, members in zip(used.tolist(), parts, strict=True):
        row = slice(flow.indptr[c], flow.indptr[c + 1])
        to = dict(zip(flow.indices[row].tolist(), flow.data[row].tolist(), strict=True))
        described = _cluster(c, members, chances, near, inside, names, to)
        cohesion = to.get(c, 0.0) / volume[c] if volume[c] > 0 else math.nan
        by_chance = volume[c] / total if total > 0 else math.nan
        clusters.append(
            ClusterSummary(
                cluster=c,
                size=len(members),
                share=len(members) / len(nodes),
                cohesion=float(cohesion),
                by_chance=float(by_chance),
                traits=tuple(traits[c]),
                is_community=not (communities and len(used) > 1 and cohesion <= by_chance),
                **described,
            )
        )
    of_fit: dict[str, Any] = {"of_graph": of_graph, "level": level, "levels": tuple(levels)}
    return Summary(tuple(clusters), graph.num_nodes, int((~placed).sum()), verdict, structure, **of_fit)


def _rules(graph: Graph) -> Sequence[Any]:
    """What the columns of the features' table were taken for, where that is known."""
    schema = getattr(graph, "schema", None)
    return () if schema is None else schema.columns


@dataclass(frozen=True)
class Chances:
    """Of every node: the probability of its own cluster, the next one, and its probability."""

    own: np.ndarray
    second: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, soft: Any) -> Chances:
        """From soft clusters [N, K], of which no second copy is made."""
        n = len(labels)
        own, second, chance = np.ones(n), (labels == 0).astype(np.int64), np.zeros(n)
        if soft is None:
            return cls(own, second, chance)
        if sp.issparse(soft):
            soft = sp.csr_array(soft)
            soft.sort_indices()
            own = _entries(soft, labels)
            rows = np.repeat(np.arange(n), np.diff(soft.indptr))
            others = soft.indices != labels[rows]
            rows, columns, values = rows[others], soft.indices[others], soft.data[others].astype(np.float64)
            best = np.lexsort((columns, -values, rows))
            first = best[np.unique(rows[best], return_index=True)[1]]
            second[rows[first]], chance[rows[first]] = columns[first], values[first]
            return cls(own, second, chance)
        for start in range(0, n, step := max(1, _AT_ONCE // max(1, soft.shape[1]))):
            block = np.array(soft[start : start + step], dtype=np.float64)
            here = np.arange(len(block)), labels[start : start + step]
            own[start : start + step] = block[here]
            block[here] = -1
            second[start : start + step] = block.argmax(1)
            chance[start : start + step] = block.max(1)
        return cls(own, second, chance)


def _entries(table: sp.csr_array, columns: np.ndarray) -> np.ndarray:
    """One entry of every row, in the column that is given for it; 0 where the column is -1."""
    rows = np.repeat(np.arange(len(columns)), np.diff(table.indptr))
    here = table.indices == columns[rows]
    return np.bincount(rows[here], table.data[here], minlength=len(columns)).astype(np.float64)


def _cluster(
    c: int,
    members: np.ndarray,
    chances: Chances,
    near: sp.csr_array,
    inside: np.ndarray,
    names: Sequence[str],
    flow: dict[int, float],
) -> dict[str, Any]:
    """Certainty, typical and doubtful members, and bridges; `flow` is the weight of its edges to each cluster."""
    weights = near[members]  # of its members to every cluster
    own = chances.own[members]
    volume = sum(flow.values())

    def called(i: int) -> str:
        return shortened(names[members[i]], _NAME)

    # Many are equally certain: those with most edges inside come first, then those with fewest to others.
    total = np.asarray(weights.sum(axis=1)).ravel()
    order = np.lexsort((total, -inside[members], -np.round(own, 3)))
    typical = order[:_TYPICAL]
    most = sorted((d for d in flow if d != c and flow[d] > 0), key=lambda d: (-flow[d], d))[:_BRIDGES]
    from_whom = weights[:, most].toarray().argmax(0).tolist() if most else []
    return {
        "certainty": float(own.mean()),
        "typical": tuple(map(called, typical)),
        "doubtful": tuple(_doubts(members, chances, called, typical)),
        "bridges": tuple(
            Bridge(d, flow[d], flow[d] / volume, called(i)) for d, i in zip(most, from_whom, strict=True)
        ),
    }


def _doubts(
    members: np.ndarray, chances: Chances, called: Callable[[int], str], typical: np.ndarray
) -> list[Doubt]:
    """The members whose own cluster is least ahead of the next one, and that are not typical."""
    own, chance, second = chances.own[members], chances.chance[members], chances.second[members]
    order = np.argsort(own - chance, kind="stable")
    doubted = order[(chance[order] >= _SEEN) & ~np.isin(order, typical)][:_DOUBTFUL]
    return [Doubt(called(i), float(own[i]), int(second[i]), float(chance[i])) for i in doubted]
