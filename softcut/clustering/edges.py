"""Clusters from the edges alone: many small groups of nodes, moved and merged until K are left.

    positions -> k-means with several times K clusters -> moves -> merges down to K -> moves

Moves and merges raise G_e, what clusters say about the other end of an edge (:mod:`softcut.metrics.judge`). A
k-means of positions finds round clusters of one size; groups that are merged may have any shape. No features are read:
where they say nothing, or less than the edges, such clusters explain more than those of the replicas
(:func:`softcut.clustering.fit.from_edges` compares them).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.features import propagate, unit_rows
from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.sampling import sample_rows
from softcut.ops import Operator
from softcut.ops.information import mutual_information

__all__ = ["around", "edge_clusters", "merge_order", "moved", "shares"]

# Groups for each cluster, for positions propagated 0, 1 and 2 times, and the most there are: merging takes time with
# their cube.
_GROUPS, _MOST_GROUPS = (4, 8, 16), 256
# Numbers in a table of nodes and groups; there are fewer groups where a graph is larger.
_TABLE = 1 << 24
_TRIES = 2  # k-means for each
_ROWS = 20_000  # nodes that the k-means of a large graph is found on
_ROUNDS = 30
_RISE = 1e-7  # less is rounding
_PRIOR = 1e-3  # share of the edges that any two clusters may have between them
_OWN = 0.6  # share of a node's own cluster in its soft one; its neighbours have the rest


def edge_clusters(op: Operator, starts: Sequence[Tensor], k: int, random_state: int = 0) -> Tensor:
    """Clusterings [N, starts x 2] into at most `k` clusters.

    >>> from softcut.clustering.features import positions
    >>> from softcut.datasets import attributed_communities
    >>> from softcut.metrics import nmi
    >>> from softcut.ops import CSR
    >>> graph = attributed_communities(n_nodes=300, n_clusters=3, edge_signal=0.9, seed=0)
    >>> op = CSR.from_graph(graph)
    >>> found = edge_clusters(op, around(op, positions(op)), 3)
    >>> found.shape, nmi(graph.y, found[:, 0].numpy()) > 0.8
    (torch.Size([300, 6]), True)

    Parameters
    ----------
    op : Operator
        A, with weights of at most 1.
    starts : sequence of Tensor
        Positions [N, F], as from :func:`around`.
    k : int
        Clusters.
    random_state : int
        Of the k-means.
    """
    found = []
    for hops, z in enumerate(starts):
        n, times = z.shape[0], _GROUPS[hops % len(_GROUPS)]
        groups = max(k, min(times * k, _MOST_GROUPS, n // 4, _TABLE // max(1, n)))
        rows = z if n <= _ROWS else z[sample_rows(n, _ROWS, random_state=random_state, device=z.device)]
        centres = kmeans_restarts(rows, groups, _TRIES, max_iter=30, random_state=random_state + hops)[1]
        found += [_merged(op, labels, groups, k) for labels in assign(z, centres)]
    return torch.stack(found, dim=1)


def around(op: Operator, x: Tensor) -> list[Tensor]:
    """Positions [N, F] propagated 0, 1 and 2 times, in rows of unit length.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> [z.flatten().tolist() for z in around(op, torch.tensor([[1.0], [0.0]]))]
    [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]

    Parameters
    ----------
    op : Operator
        A, with the weights of the graph.
    x : Tensor
        See :func:`softcut.clustering.features.positions`.
    """
    found = [x]
    for _ in range(len(_GROUPS) - 1):
        found.append(propagate(op, found[-1], 1))
    return [unit_rows(z) for z in found]


def _merged(op: Operator, labels: Tensor, groups: int, k: int) -> Tensor:
    labels = moved(op, labels, groups)
    if groups == k:
        return labels
    _, table = _edges_to(op, labels, groups)
    clusters = torch.from_numpy(merge_order(table.cpu().numpy(), k)).to(labels.device)
    return moved(op, clusters[labels], k)


def _indicator(labels: Tensor, k: int) -> Tensor:
    return torch.zeros(len(labels), k, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)


def _edges_to(op: Operator, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Edges of each node to each cluster AS [N, K], and between clusters S'AS [K, K], float64."""
    indicator = _indicator(labels, k)
    counts = op @ indicator
    return counts, (indicator.mT @ counts).double()


def moved(op: Operator, labels: Tensor, k: int) -> Tensor:
    """Labels [N] after nodes moved to the cluster that says most about their edges, while G_e rises.

    A node adds log(T_ab / (t_a t_b)) for each edge to cluster b when it is in cluster a, with T the shares of the
    edges between clusters and t those of their ends. All nodes move at once, against the table of the last round; once
    that no longer helps, half of them in turn.

    >>> import torch
    >>> from softcut import Graph
    >>> from softcut.ops import CSR
    >>> two_triangles = CSR.from_graph(Graph.from_edges([[0, 1, 0, 3, 4, 3, 2], [1, 2, 2, 4, 5, 5, 3]]))
    >>> moved(two_triangles, torch.tensor([0, 0, 1, 1, 1, 1]), 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    counts, table = _edges_to(op, labels, k)
    most, waits, failed = float(mutual_information(table)), False, False
    odd = torch.arange(len(labels), device=labels.device) % 2 == 1
    for turn in range(_ROUNDS):
        joint = table / table.sum().clamp(min=1e-300) + _PRIOR / k**2
        ends = joint.sum(0)
        score = counts @ (joint / torch.outer(ends, ends)).log().to(counts.dtype)
        own = score.gather(1, labels.unsqueeze(1)).squeeze(1)
        highest, other = score.max(1)
        # Nodes without edges, and those that two clusters suit alike, stay.
        better = highest > own + 1e-6 * own.abs()
        if waits:
            better &= odd == bool(turn % 2)
        proposed = torch.where(better, other, labels)
        to, between = _edges_to(op, proposed, k)
        gain = float(mutual_information(between))
        if gain > most * (1 + _RISE):
            labels, counts, table, most, failed = proposed, to, between, gain, False
        elif failed:  # neither half of the nodes helps
            break
        else:
            failed, waits = waits, True  # neighbours changed places: from now on half of the nodes move
    return labels


def merge_order(table: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] goes to, when the two whose union loses least of G_e are merged.

    >>> import numpy as np
    >>> merge_order(np.array([[8.0, 4, 0], [4, 8, 1], [0, 1, 9]]), 2).tolist()
    [0, 0, 1]

    Parameters
    ----------
    table : array [groups, groups]
        S'AS of the groups.
    k : int
        Clusters to be left.
    """
    t = np.asarray(table, dtype=np.float64)
    t = t / max(t.sum(), 1e-300)
    members = [[i] for i in range(len(t))]
    together = _pairs(t[:, None, :], t[None, :, :]).sum(2)  # sum over c of f(T_ac + T_bc), f(x) = x log x
    while len(t) > k:
        a, b = _least_loss(t, together)
        before = _pairs(t[:, [a]], t[:, a]) + _pairs(t[:, [b]], t[:, b])
        t[a] += t[b]
        t[:, a] += t[:, b]
        together += _pairs(t[:, [a]], t[:, a]) - before  # columns a and b are one
        kept = np.delete(np.arange(len(t)), b)
        t, together = t[np.ix_(kept, kept)], together[np.ix_(kept, kept)]
        members[a] += members.pop(b)
        together[a] = together[:, a] = _pairs(t[a], t).sum(1)
    found = np.empty(len(table), dtype=np.int64)
    for cluster, groups in enumerate(members):
        found[groups] = cluster
    return found


def _pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _xlogx(a + b)


def _xlogx(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1e-300))


def _least_loss(t: np.ndarray, together: np.ndarray) -> tuple[int, int]:
    """The two groups, a < b, whose union keeps most of the mutual information of the table."""
    f, own, ends = _xlogx(t), t.diagonal(), t.sum(0)
    # Rows a and b as one, without their own two columns, twice (the table is symmetric), and the new diagonal.
    apart = together - _pairs(own[:, None], t) - _pairs(t, own[None, :])
    after = 2 * apart + _xlogx(own[:, None] + own[None, :] + 2 * t)
    rows, corner = f.sum(1), f.diagonal()
    before = 2 * (rows[:, None] + rows[None, :]) - corner[:, None] - corner[None, :] - 2 * f
    single = _xlogx(ends)
    gain = after - before - 2 * (_pairs(ends[:, None], ends[None, :]) - single[:, None] - single[None, :])
    gain[np.diag_indices_from(gain)] = -np.inf
    first, second = divmod(int(gain.argmax()), len(t))
    return min(first, second), max(first, second)


def shares(op: Operator, labels: Tensor, k: int) -> Tensor:
    """Soft clusters [N, K] of labels [N]: a node's own cluster, and for two fifths those of its neighbours.

    >>> import torch
    >>> from softcut import Graph
    >>> from softcut.ops import CSR
    >>> path = CSR.from_graph(Graph.from_edges([[0, 1], [1, 2]]))
    >>> shares(path, torch.tensor([0, 0, 1]), 2).numpy().round(1).tolist()
    [[1.0, 0.0], [0.8, 0.2], [0.4, 0.6]]
    """
    indicator = _indicator(labels, k)
    near = op @ indicator
    total = near.sum(1, keepdim=True)
    near = torch.where(total > 0, near / torch.where(total > 0, total, 1.0), indicator)
    return _OWN * indicator + (1 - _OWN) * near
