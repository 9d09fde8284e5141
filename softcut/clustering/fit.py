"""The last steps of a fit: select, merge, refine, number. Every step returns a value.

prepare   the graph with its features, encoded once, and the operator whose cut is minimised (prepare.py)
train     R replicas in one vectorised pass (replicas.py)
select    which replicas count, and how much: those that use every cluster, by their evidence; or the best one
merge     one soft clustering from theirs (the consensus)
refine    a node's own features and its neighbours settle what the replicas leave open, once or twice
number    the largest cluster becomes number 0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import Consensus, agreement_weights, evidence_weights
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.refine import Refiner
from softcut.clustering.replicas import Trained
from softcut.clustering.settings import Settings
from softcut.training import ReplicaNet

__all__ = ["Merged", "Selected", "merge", "number", "refine", "select"]

CONSENSUS_ROWS = 50_000


@dataclass(frozen=True)
class Selected:
    """The replicas that count, their networks, assignments [N, R', K] and weights [R']."""

    index: list[int]
    net: ReplicaNet
    s: Tensor
    weights: Tensor


def select(trained: Trained, settings: Settings, note: Note) -> Selected:
    """The replicas that use every cluster and have a weight; with ``select="best"`` the best of them."""
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
        weights = _weights(keep, trained, settings)
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


def _weights(keep: list[int], trained: Trained, settings: Settings) -> Tensor:
    if settings.judge == "agreement":
        return agreement_weights(trained.nmi[keep][:, keep])
    chosen = [trained.replicas[r] for r in keep]
    return evidence_weights(torch.tensor([r.evidence for r in chosen]), [r.objective for r in chosen])


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
    """Let own features and neighbours settle what is open: once, or twice where the second time explains most.

    Left out if it would empty a cluster. Where evidence judges, a second refinement starts from the first, and is
    kept only if its clusters have more evidence than those of the first and those of the consensus: it gains
    where features tell the clusters, and blurs them elsewhere.
    """
    if not settings.refine or prepared.encoded.x.shape[1] == 0:
        return soft, []
    once = _refined(prepared, soft, settings)
    if once is None:
        note("no refinement: it would have emptied a cluster.")
        return soft, []
    twice = _refined(prepared, once[0], settings) if settings.judge == "evidence" else None
    if twice is not None:
        steps = torch.stack([s.argmax(1) for s in (soft, once[0], twice[0])], dim=1)
        before, first, second = prepared.judge(steps, soft.shape[1]).value.tolist()
        if second > max(before, first):
            note(f"refined twice: evidence {before:.4g}, then {first:.4g} and {second:.4g}.")
            return twice[0], [once[1], twice[1]]
    return once[0], [once[1]]


def _refined(prepared: Prepared, soft: Tensor, settings: Settings) -> tuple[Tensor, Refiner] | None:
    """Refined clusters and what made them; None where one of the clusters would be lost."""
    labels, encoded = soft.argmax(1), prepared.encoded
    refiner = Refiner.fit(encoded.x, labels, soft.shape[1], settings.seed)
    after = refiner.apply(encoded.x, soft, encoded.op)
    if torch.unique(after.argmax(1)).numel() < torch.unique(labels).numel():
        return None
    return after, refiner


def number(soft: Tensor) -> np.ndarray:
    """The order of the clusters by size: the largest becomes number 0.

    >>> import torch
    >>> number(torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]])).tolist()
    [1, 0]
    """
    sizes = np.bincount(soft.argmax(1).cpu().numpy(), minlength=soft.shape[1])
    return np.argsort(-sizes, kind="stable")
