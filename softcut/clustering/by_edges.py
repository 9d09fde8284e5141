"""A fit from the edges alone: communities at the scale that stands out, at a given one, or a given number of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from softcut.clustering.fit_task import Candidate, FitTask, Fitted, Levels
from softcut.clustering.networks import agreement, mean_agreement
from softcut.clustering.numbers import candidate, choose
from softcut.communities.tree import Scales
from softcut.errors import Detail, Note
from softcut.graph import Graph
from softcut.metrics import Judge

if TYPE_CHECKING:  # these load numba, which only a fit needs
    from softcut.communities.fixed_number import FixedNumber
    from softcut.communities.network import Network
    from softcut.communities.scales import Search

_OWN = 0.6  # share of a node's own community in its soft one; its neighbours have the rest


@dataclass(frozen=True)
class _Found:
    """Labels [N] of the nodes with edges, and what was compared."""

    labels: np.ndarray
    k: int  # clusters of the finest level, used or not
    agreement: float
    levels: np.ndarray  # [L, N], nested
    level: int
    marks: tuple[float, ...]
    scales: Scales | None = None
    candidates: dict[int, Candidate] | None = None


def fit_edges(graph: Graph, task: FitTask) -> Fitted:
    """Communities of one graph, by its edges."""
    from softcut.communities.engine import quality
    from softcut.communities.network import Network
    from softcut.communities.scales import Search

    network = Network(graph.adjacency)
    search = Search(network, _random_graphs(graph, network), task.seed, task.largest, bool(graph.neighbors))
    verdict, deviations, surplus = "none", 0.0, 0.0
    found = _by_number(graph, network, task) if not task.open else _by_scale(network, search, task)
    compared = None
    if network.edges and not search.interrupted:
        try:
            asked = (
                search if task.largest is None else replace(search, largest=None)
            )  # sizes are not the question
            compared = asked.compared(task.recipe.clear_deviations)
        except KeyboardInterrupt:
            search.interrupted = True
    if search.interrupted:
        verdict = "unknown"
    if compared is not None:
        deviations, surplus = compared.deviations, compared.surplus
        verdict = task.recipe.verdict_of_edges(deviations, surplus, search.of_rows)
        how = (
            "nearest-neighbour graphs of rows without clusters"
            if graph.neighbors
            else "random graphs like it"
        )
        said = (
            f"modularity is {surplus:.3f} above that of {how}, {deviations:.1f} of their standard deviations "
            f"({compared.random_graphs} were made)."
        )
        task.tell(Detail("compared_with_random", said, deviations=deviations, surplus=surplus))
    bounded = task.largest is not None and task.largest < network.nodes
    if verdict == "none" and task.open and task.scale is None and not bounded:
        one = np.zeros(network.nodes, dtype=np.int64)
        found = replace(found, labels=one, k=1, levels=one[None], level=0, marks=(0.0,))
    labels = found.labels
    if (
        verdict != "none"
        and not task.open
        and quality(network, labels) <= 0
        and task.pattern == "communities"
    ):
        said = (
            "the graph has communities, but these clusters keep no more edges inside than chance would; leave the "
            "number of clusters out to see the levels that stand out."
        )
        task.tell(Note("labels_explain_nothing", said))
    return Fitted(
        None,
        shares(graph.adjacency, found.levels[-1], found.k),
        Judge(graph.adjacency)(
            torch.from_numpy(labels), found.k if len(found.levels) == 1 else int(labels.max()) + 1
        ),
        found.agreement,
        candidates=found.candidates or {},
        levels=Levels(found.levels, found.level, found.marks),
        scales=found.scales,
        verdict=verdict,
        deviations=deviations,
        surplus=surplus,
        interrupted=search.interrupted,
    )


def _random_graphs(graph: Graph, network: Network):  # type: ignore[no-untyped-def]
    """What makes the graphs that this one is compared with."""
    from softcut.communities.random_graphs import rewired

    if graph.neighbors:
        from softcut.communities.random_rows import neighbour_graph_without_clusters  # loads scipy.stats

        return partial(neighbour_graph_without_clusters, graph)
    kinds = None
    if graph.node_kinds is not None:
        kinds = np.unique(np.asarray(graph.node_kinds, dtype=str), return_inverse=True)[1].reshape(-1)
    return lambda seed: rewired(network, seed, kinds)


# ------------------------------------------------------------------------------------------------ no number given


def _by_scale(network: Network, search: Search, task: FitTask) -> _Found:
    """The scale that stands out, or the one that was asked for, and the levels around it."""
    from softcut.communities.engine import communities

    given = task.scale if isinstance(task.scale, float) else None
    if task.start is not None and task.start.resolution is not None and given is None:
        given = task.start.resolution
    scales = search.scales(given)
    if task.start is not None and given is None:
        given = search.nearest(scales, task.start.labels)
        scales = scales.at(given)
    if task.start is not None and given is not None:
        begun = communities(network, given, task.seed, largest=task.largest, start=task.start.labels)
        search.put(given, begun)
    labels, chosen, marks = search.levels(scales, task.smallest)
    if isinstance(task.scale, str):
        chosen = 0 if task.scale == "coarse" else len(labels) - 1
    row = int(np.argmin(np.abs(scales.resolution - marks[chosen])))
    finest = int(labels[-1].max()) + 1
    agreed = float(scales.agreement[row])
    return _Found(labels[chosen], finest, agreed, labels, chosen, tuple(marks), scales)


# --------------------------------------------------------------------------------------------------- number given


def _by_number(graph: Graph, network: Network, task: FitTask) -> _Found:
    """Merges down to K, then moves; of several K the one with the highest score."""
    from softcut.communities.fixed_number import FixedNumber

    nodes = graph.num_nodes
    search = FixedNumber(
        network, task.numbers, task.seed, pattern=task.pattern, smallest=task.smallest, largest=task.largest
    )
    judge = Judge(graph.adjacency)

    def judged(k: int, labels: np.ndarray) -> Candidate:
        rows = torch.from_numpy(labels.astype(np.int64))
        return candidate(judge, rows, k, judge(rows, k), agreement(rows, k), task.recipe)

    k, candidates, _ = choose(
        task, lambda k: judged(k, search.begun(k)), lambda k: judged(k, search.settled(k))
    )
    if k == 1:
        labels = np.zeros((nodes, 1), dtype=np.int64)
    else:
        labels = search.settled(k).astype(np.int64)
        _tell_outcome(search, k, task)
    order = np.argsort(-np.bincount(labels[:, 0], minlength=k), kind="stable")
    best = np.argsort(order)[labels[:, 0]]
    rows = torch.from_numpy(labels)
    mean = mean_agreement(agreement(rows, k))
    return _Found(best, k, mean, best[None], 0, (float(k),), candidates=candidates)


def _tell_outcome(search: FixedNumber, k: int, task: FitTask) -> None:
    outcome = search.outcome(k)
    if outcome.shared_components:
        said = (
            f"{outcome.shared_components} small connected components share a cluster with others, so that {k} clusters "
            "divide what is connected; leave the number out to have every component apart."
        )
        task.tell(Note("components_share", said, count=outcome.shared_components))
    if not outcome.sizes_met:
        said = f"not every cluster has an allowed size: {k} clusters of this graph cannot all have one."
        task.tell(Note("sizes_not_met", said))


# -------------------------------------------------------------------------------------------------------- results


def shares(adjacency: sp.csr_array, labels: np.ndarray, k: int) -> sp.csr_array:
    """Soft clusters [N, K] of labels [N]: a node's own, and for two fifths those of its neighbours."""
    n = len(labels)
    own = sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, k))
    near = sp.csr_array(adjacency.astype(np.float64) @ own)
    total = np.asarray(near.sum(axis=1)).ravel()
    scale = np.divide(1 - _OWN, total, out=np.zeros(n), where=total > 0)
    near.data *= np.repeat(scale, np.diff(near.indptr))
    own.data[:] = np.where(total > 0, _OWN, 1.0)
    return sp.csr_array((own + near).astype(np.float32))
