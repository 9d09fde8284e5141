"""The last steps of a fit: select, merge, refine, compare, number. Every step returns a value.

prepare   the graph with its features, encoded once, and the operator whose cut is minimised (prepare.py)
train     R replicas in one vectorised pass (replicas.py)
select    which replicas count, and how much: those that use every cluster, by their evidence; or the best one
merge     one soft clustering from theirs (the consensus)
refine    a node's own features and its neighbours settle what the replicas leave open, once or twice
compare   where evidence judges: several weightings of the replicas, and clusters found from the edges alone
number    the largest cluster becomes number 0
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from softcut.clustering.consensus import WIDTHS, Consensus, agreement_weights, evidence_weights
from softcut.clustering.edges import around, edge_clusters, moved, shares
from softcut.clustering.features import positions
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.refine import REFINEMENTS, Refiner
from softcut.clustering.replicas import LEAST, Trained
from softcut.clustering.sampling import LARGE
from softcut.clustering.settings import Settings
from softcut.metrics import modularity
from softcut.training import ReplicaNet

__all__ = [
    "Finished",
    "Merged",
    "Selected",
    "finish",
    "from_edges",
    "matching",
    "merge",
    "number",
    "refine",
    "select",
]

CONSENSUS_ROWS = 50_000
# Clusters from the edges alone must have this share of the modularity of the consensus: evidence counts every pattern
# of edges, also one with many edges between clusters.
_ASSORTATIVE = 0.95


@dataclass(frozen=True)
class Selected:
    """The replicas that count, their networks, assignments [N, R', K] and weights [R']."""

    index: list[int]
    net: ReplicaNet
    s: Tensor
    weights: Tensor


def select(trained: Trained, settings: Settings, note: Note, width: float = WIDTHS[0]) -> Selected:
    """The replicas that use every cluster and have a weight; with ``select="best"`` the best of them.

    `width` is that of :func:`~softcut.clustering.consensus.evidence_weights`.
    """
    keep, count = trained.full, trained.net.replicas
    lost = count - len(keep)
    if lost and keep:
        note(f"{lost} of {count} replicas used fewer than {trained.k} clusters and were left out.")
    elif lost:
        note(
            f"all {lost} replicas used fewer than {trained.k} clusters; the one that used most of them was taken."
        )
    weights = torch.ones(1)
    if not keep:  # the one that says most; merging them would invent clusters that none of them has
        most = max(replica.clusters_used for replica in trained.replicas)
        keep = [
            _best([r for r in range(count) if trained.replicas[r].clusters_used == most], trained, settings)
        ]
    elif settings.select == "best":
        keep = [_best(keep, trained, settings)]
    else:
        weights = _weights(keep, trained, settings, width)
        keep = [r for r, weight in zip(keep, weights.tolist(), strict=True) if weight > 0]
        weights = weights[weights > 0]
    s = trained.s if len(keep) == count else trained.s[:, keep]
    return Selected(keep, trained.net.keep(keep), s, weights)


def _best(among: list[int], trained: Trained, settings: Settings) -> int:
    """The replica with most evidence; or with the lowest loss, which only those of one objective share."""
    if settings.judge == "evidence":
        return max(among, key=lambda r: trained.replicas[r].evidence)
    first = [r for r in among if trained.replicas[r].objective == settings.objectives[0]] or among
    return min(first, key=lambda r: trained.replicas[r].loss)


def _weights(keep: list[int], trained: Trained, settings: Settings, width: float) -> Tensor:
    if settings.judge == "agreement":
        return agreement_weights(trained.nmi[keep][:, keep])
    chosen = [trained.replicas[r] for r in keep]
    evidence = torch.tensor([r.evidence for r in chosen])
    return evidence_weights(evidence, [r.objective for r in chosen], width)


@dataclass(frozen=True)
class Merged:
    """One soft clustering [N, K], and the consensus that made it (None for a single replica)."""

    soft: Tensor
    consensus: Consensus | None


def merge(prepared: Prepared, trained: Trained, selected: Selected, settings: Settings, note: Note) -> Merged:
    """The consensus of the selected replicas, by their weights."""
    if settings.select == "best" or not trained.full:
        return Merged(selected.s[:, 0], None)
    n = selected.s.shape[0]
    sample = CONSENSUS_ROWS if n > CONSENSUS_ROWS else None
    if sample:
        note(f"consensus found on {sample:,} of {n:,} nodes; the others join the nearest centre.")
    consensus = Consensus.fit(
        selected.s,
        prepared.encoded.rows,
        trained.k,
        scales=selected.net.scales,
        weights=selected.weights.to(selected.s.device),
        fusion=settings.fusion,
        sample=sample,
        random_state=settings.seed,
    )
    return Merged(consensus.proba(selected.s, prepared.encoded.rows), consensus)


def refine(prepared: Prepared, soft: Tensor, settings: Settings, note: Note) -> tuple[Tensor, list[Refiner]]:
    """Let own features and neighbours settle what is open: once, and again where that explains more.

    Left out if it would empty a cluster. Where evidence judges, a further refinement starts from the last one, and is
    kept only if its clusters have more evidence than all before them, those of the consensus included: it gains
    where features tell the clusters, and blurs them elsewhere. There are at most
    :data:`~softcut.clustering.refine.REFINEMENTS`.
    """
    if not settings.refine or prepared.encoded.x.shape[1] == 0:
        return soft, []
    once = _refined(prepared, soft, settings)
    if once is None:
        note("no refinement: it would have emptied a cluster.")
        return soft, []
    (last, refiner), k = once, soft.shape[1]
    refiners = [refiner]
    if settings.judge != "evidence":
        return last, refiners
    evidence = prepared.judge(torch.stack([soft.argmax(1), last.argmax(1)], dim=1), k).value.tolist()
    while len(refiners) < REFINEMENTS:
        again = _refined(prepared, last, settings)
        if again is None:
            break
        found = float(prepared.judge(again[0].argmax(1), k).value)
        if found <= max(evidence):
            break
        evidence.append(found)
        last, refiner = again
        refiners.append(refiner)
    if len(refiners) > 1:
        values = ", ".join(f"{e:.4g}" for e in evidence[1:])
        note(f"refined {len(refiners)} times: evidence {evidence[0]:.4g}, then {values}.")
    return last, refiners


def _refined(prepared: Prepared, soft: Tensor, settings: Settings) -> tuple[Tensor, Refiner] | None:
    """Refined clusters and what made them; None where one of the clusters would be lost."""
    labels, encoded = soft.argmax(1), prepared.encoded
    refiner = Refiner.fit(encoded.x, labels, soft.shape[1], settings.seed)
    after = refiner.apply(encoded.x, soft, encoded.op)
    if torch.unique(after.argmax(1)).numel() < torch.unique(labels).numel():
        return None
    return after, refiner


@dataclass(frozen=True)
class Finished:
    """The clusters of the training nodes, and the parts of the function that finds clusters in any graph.

    Attributes
    ----------
    selected, consensus, refiners
        The parts, in the order they are applied.
    soft : Tensor
        [N, K], what they say about the training nodes.
    own : Tensor or None
        [N, K], clusters that were found from the edges of the training graph alone and explain more; they take the
        place of `soft` there.
    """

    selected: Selected
    consensus: Consensus | None
    refiners: list[Refiner]
    soft: Tensor
    own: Tensor | None = None


def finish(prepared: Prepared, trained: Trained, settings: Settings, note: Note) -> Finished:
    """Select, merge and refine; where evidence judges, in several ways, of which the one with most evidence is kept.

    How steeply weights should fall with the evidence differs between graphs: where all replicas see the same clusters,
    more of them make a better consensus; where far hops see noise, they spoil it. The evidence of the result tells.
    Positions are propagated a few times only, and large graphs have few replicas: one way is enough for both.
    """
    judged = settings.judge == "evidence" and settings.select != "best" and bool(trained.full)
    several = judged and len(trained.full) > 1 and not prepared.positional
    several = several and prepared.encoded.graph.num_nodes <= LARGE
    found: list[Finished] = []
    told: list[list[str]] = []
    for width in WIDTHS if several else WIDTHS[:1]:
        told.append([])
        selected = select(trained, settings, told[-1].append, width)
        merged = merge(prepared, trained, selected, settings, told[-1].append)
        soft, refiners = refine(prepared, merged.soft, settings, told[-1].append)
        found.append(Finished(selected, merged.consensus, refiners, soft))
    best = 0
    if several:
        labels = torch.stack([way.soft.argmax(1) for way in found], dim=1)
        evidence = prepared.judge(labels, trained.k).value.tolist()
        best = evidence.index(max(evidence))
        if min(evidence) < max(evidence):
            values = ", ".join(f"{e:.5g} with {w:g}" for w, e in zip(WIDTHS, evidence, strict=True))
            told[best].append(
                f"replicas weighted by evidence with a width of {WIDTHS[best]:g}, whose consensus has most evidence: "
                f"{values}."
            )
    for text in told[best]:
        note(text)
    chosen = found[best]
    if not judged or not settings.refine or trained.result.interrupted:
        return chosen
    return replace(chosen, own=from_edges(prepared, chosen.soft, settings, note))


def from_edges(prepared: Prepared, soft: Tensor, settings: Settings, note: Note) -> Tensor | None:
    """Soft clusters [N, K] found from the edges alone, where they have more evidence than `soft`; None elsewhere.

    Positions in a graph without features are there already; for other graphs they are computed up to
    :data:`~softcut.clustering.sampling.LARGE` nodes. Without features, the clusters of `soft` whose nodes were
    moved to where their edges go are compared, too. Clusters much smaller than those of the replicas may be, or much
    less assortative than `soft`, are not taken.
    """
    graph, k = prepared.encoded.graph, soft.shape[1]
    if graph.num_graphs > 1 or k < 2 or (graph.num_nodes > LARGE and not prepared.positional):
        return None
    if prepared.positional:
        x = torch.from_numpy(np.asarray(graph.x)).to(soft.device)
    else:
        x = positions(prepared.encoded.op, random_state=0)
    if not bool(x.any()):
        return None
    before = soft.argmax(1)
    found = list(edge_clusters(prepared.adjacency, around(prepared.encoded.op, x), k, settings.seed).mT)
    if prepared.positional:
        found.append(moved(prepared.adjacency, before, k))
    # What has no edges keeps the cluster that its features give it.
    alone = prepared.encoded.op.degree == 0
    smallest = min(LEAST * len(before) / k, int(torch.bincount(before, minlength=k).min()))
    least = _ASSORTATIVE * modularity(graph.adjacency, before.cpu().numpy())
    labels = [before]
    for other in (_with_alone(clusters, soft, alone) for clusters in found):
        sizes = torch.bincount(other, minlength=k)
        if sizes.min() >= max(1, smallest) and modularity(graph.adjacency, other.cpu().numpy()) >= least:
            labels.append(other)
    evidence = prepared.judge(torch.stack(labels, dim=1), k).value.tolist()
    best = evidence.index(max(evidence))
    if best == 0:
        return None
    note(
        f"clusters found from the edges, without the networks, were taken: evidence {evidence[best]:.6g}, against "
        f"{evidence[0]:.6g} of the consensus of the networks."
    )
    own = shares(prepared.adjacency, labels[best], k)
    own[alone] = soft[alone][:, matching(soft, own)].to(own.dtype)
    return own


def _with_alone(labels: Tensor, soft: Tensor, alone: Tensor) -> Tensor:
    """Labels [N] in which nodes without edges have the cluster of `soft`, by the number it has among the labels."""
    if not bool(alone.any()):
        return labels
    k = soft.shape[1]
    theirs = torch.from_numpy(matching(soft, torch.nn.functional.one_hot(labels, k))).to(labels.device)
    return torch.where(alone, theirs.argsort()[soft.argmax(1)], labels)


def number(soft: Tensor) -> np.ndarray:
    """The order of the clusters by size: the largest becomes number 0.

    >>> import torch
    >>> number(torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]])).tolist()
    [1, 0]
    """
    sizes = np.bincount(soft.argmax(1).cpu().numpy(), minlength=soft.shape[1])
    return np.argsort(-sizes, kind="stable")


def matching(soft: Tensor, other: Tensor) -> np.ndarray:
    """For each cluster of `other` [N, K] the cluster of `soft` that shares most nodes with it, each taken once.

    >>> import torch
    >>> soft = torch.eye(2)[[0, 0, 1, 1]]
    >>> matching(soft, soft.flip(1)).tolist()
    [1, 0]
    """
    k = soft.shape[1]
    pairs = other.argmax(1) * k + soft.argmax(1)
    shared = torch.bincount(pairs, minlength=k * k).view(k, k).cpu().numpy()
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])
