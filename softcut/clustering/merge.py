"""The last steps of a fit: one consensus of the networks, refined once.

select    the networks that use every cluster, weighted by their evidence; or the best one
merge     one soft clustering from theirs (the consensus)
refine    a node's own features and its neighbours settle what the networks leave open
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import Consensus, evidence_weights
from softcut.clustering.networks import Networks
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.recipe import Recipe
from softcut.clustering.refine import Refiner
from softcut.training import ReplicaNet

__all__ = ["Merged", "by_size", "merge", "refine"]


@dataclass(frozen=True)
class Merged:
    """One soft clustering of the nodes, and the parts of the function that finds it in any graph."""

    net: ReplicaNet  # the networks that count
    weights: Tensor  # how much each counts
    consensus: Consensus | None  # None for a single network
    refiner: Refiner | None  # None where nothing was refined
    soft: Tensor  # [n, K]


def merge(prepared: Prepared, networks: Networks, recipe: Recipe, seed: int, note: Note) -> Merged:
    """Weigh the networks, merge them, and refine the result."""
    keep, weights = _select(networks, recipe, note)
    every = len(keep) == networks.net.replicas
    net = networks.net if every else networks.net.keep(keep)
    s = networks.s if every else networks.s[:, keep]
    consensus = None
    soft = s[:, 0]
    if recipe.select == "consensus" and networks.full:
        nodes, rows, k = prepared.nodes, prepared.encoded.rows, net.k
        large = nodes.count > recipe.large
        if large:
            some = f"{recipe.large:,} of {nodes.count:,} nodes"
            note(f"consensus found on {some}; the others join the nearest centre.")
        consensus = Consensus.fit(
            nodes.sample(s, recipe.large),
            nodes.sample(rows, recipe.large),
            k,
            scales=net.scales,
            weights=weights.to(s.device),
            fusion=recipe.fusion,
            dimensions=recipe.consensus_columns,
            n_init=recipe.consensus_restarts,
            finalists=recipe.finalists if large else None,
            random_state=seed,
        )
        consensus = Consensus(**{name: nodes.agreed(value) for name, value in vars(consensus).items()})
        soft = consensus.proba(s, rows)
    soft, refiner = refine(prepared, soft, recipe, note)
    return Merged(net, weights, consensus, refiner, soft)


def _select(networks: Networks, recipe: Recipe, note: Note) -> tuple[list[int], Tensor]:
    """Which networks count, and their weights."""
    keep, count, k = networks.full, networks.net.replicas, networks.net.k
    lost = count - len(keep)
    if lost and keep:
        note(f"{lost} of {count} networks used fewer than {k} clusters and were left out.")
    elif lost:
        note(f"all {lost} networks used fewer than {k} clusters; the one that used most of them was taken.")
    if not keep:  # the one that says most; merging them would invent clusters that none of them has
        most = max(replica.clusters_used for replica in networks.replicas)
        members = [r for r in range(count) if networks.replicas[r].clusters_used == most]
        return [_best(members, networks, recipe)], torch.ones(1)
    if recipe.select == "best":
        return [_best(keep, networks, recipe)], torch.ones(1)
    weights = evidence_weights(networks.evidence[keep], recipe.width).cpu()
    return [r for r, w in zip(keep, weights.tolist(), strict=True) if w > 0], weights[weights > 0]


def _best(among: list[int], networks: Networks, recipe: Recipe) -> int:
    """The network with most evidence; of the paper's, the one with the lowest loss."""
    if recipe.paper:
        return min(among, key=lambda r: networks.replicas[r].loss)
    return max(among, key=lambda r: networks.replicas[r].evidence)


def refine(prepared: Prepared, soft: Tensor, recipe: Recipe, note: Note) -> tuple[Tensor, Refiner | None]:
    """Let own features and neighbours settle what is open; left out if it would empty a cluster."""
    encoded, nodes, k = prepared.encoded, prepared.nodes, soft.shape[1]
    if not recipe.refine or encoded.x.shape[1] == 0:
        return soft, None
    labels = soft.argmax(1)
    x, known = (nodes.sample(each, recipe.large) for each in (encoded.x, labels))
    refiner = Refiner.fit(x, known, k, recipe)
    refiner = Refiner(**{name: nodes.agreed(value) for name, value in vars(refiner).items()})
    after = refiner.apply(encoded.x, soft, encoded.op, recipe)
    before, now = (
        nodes.total(torch.bincount(each, minlength=k)).count_nonzero() for each in (labels, after.argmax(1))
    )
    if now < before:
        note("no refinement: it would have emptied a cluster.")
        return soft, None
    return after, refiner


def by_size(sizes: Tensor) -> np.ndarray:
    """The order of the clusters by size: the largest becomes number 0."""
    return np.argsort(-sizes.cpu().numpy(), kind="stable")
