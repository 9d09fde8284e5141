"""The last steps of a fit: one consensus of the networks, refined once.

**Consensus.** The rows of

    T = [ sqrt(w_r) S_r for every network r ; fusion * sqrt(v_h) Z_h for every distance h ]

(both halves centred and scaled to unit mean squared row length) are clustered by k-means: two nodes are close when
most of the networks that explain the graph put them together. The weights w fall with the evidence of a network
(:func:`evidence_weights`); v_h is the total weight of the networks that read distance h.

**Refinement.** The consensus looks at propagated features, in which a node's own words hardly count. A softmax
regression from the features of single nodes to the clusters found so far takes them into account: its prediction and
the consensus are averaged, the prediction weighted by how much of the clusters it can tell, and a few steps of
personalised PageRank let neighbours decide what both leave open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.networks import Networks, evidence_weights
from softcut.clustering.prepare import Prepared, Tell
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.errors import Detail
from softcut.ops import Operator, entropy
from softcut.training import ReplicaNet

_NEWTON_STEPS = 40  # of the regression: its loss is then within 0.1 % of the smallest
_WIDE = 4096  # columns of T whose products with each other are always made


class _Tensors:
    """A step of the clustering function that is learned from the training graph: some tensors."""

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with every tensor changed."""
        return type(self)(**{name: change(value) for name, value in vars(self).items()})

    def to(self, device: torch.device) -> Self:
        return self.mapped(lambda value: value.to(device))


@dataclass
class Consensus(_Tensors):
    """The map from the assignments of networks to final clusters."""

    mean: Tensor  # centre of T's columns
    scale: Tensor  # of T's columns
    basis: Tensor  # leading directions of T: k-means sees these d coordinates only
    centres: Tensor  # [K, d]
    spread: Tensor  # mean squared distance to the nearest centre: the width of `proba`
    weights: Tensor  # [R], of the networks

    @classmethod
    def fit(
        cls,
        s: Tensor,
        z: Tensor,
        k: int,
        *,
        scales: Sequence[int] | None = None,
        weights: Tensor | None = None,
        fusion: float = 1.0,
        dimensions: int = 64,
        n_init: int = 20,
        finalists: int | None = None,
        random_state: int = 0,
    ) -> Consensus:
        """Cluster the rows of T, made of assignments s [N, R, K] and features z [N, scales, F], where F may be 0.

        `scales` says which distance each network reads (by default all the first one) and `weights` [R] how much it
        counts (by default all the same). `dimensions` leading directions of T are kept; k-means has `n_init` starts, of
        which `finalists` (by default all) are run to their end; then the clusters of the best network are a start, too.
        """
        r, own = s.shape[1:]
        weights = s.new_full((r,), 1 / r) if weights is None else weights.to(s.dtype)
        t = torch.cat([s.flatten(1), z.flatten(1).to(s.dtype)], dim=1)
        mean = t.mean(0)
        t -= mean
        index = torch.as_tensor([0] * r if scales is None else list(scales), device=s.device)
        per_scale = s.new_zeros(z.shape[1]).index_add_(0, index, weights)
        scale = torch.cat(
            [
                _scale(t[:, : r * own], weights.repeat_interleave(own), 1.0),
                _scale(t[:, r * own :], per_scale.repeat_interleave(z.shape[2]), fusion),
            ]
        )
        t *= scale
        # Contiguous: a loaded one computes the same bits.
        basis = _leading(t, dimensions).to(t.dtype).contiguous()
        t = t @ basis
        # Where few starts are run to their end, all may end in clusters worse than those of a single network.
        best = s[:, int(weights.argmax())].argmax(1) if finalists is not None and own == k else None
        result = kmeans(t, k, n_init=n_init, finalists=finalists, also=best, random_state=random_state)
        spread = squared_distances(t, result.centres).amin(1).mean().clamp(min=torch.finfo(t.dtype).tiny)
        return cls(mean, scale, basis, result.centres, spread, weights)

    def transform(self, s: Tensor, z: Tensor) -> Tensor:
        """The coordinates of nodes in which k-means was run."""
        # (T - mean) diag(scale) basis, with the part of each network and distance where it lies: T is never made.
        turn = self.scale.unsqueeze(1) * self.basis
        columns, width = s.shape[1] * s.shape[2], z.shape[2]
        coordinates = torch.addmm(-(self.mean @ turn), s.flatten(1), turn[:columns])
        for distance in range(z.shape[1]):
            first = columns + distance * width
            coordinates.addmm_(z[:, distance].to(s.dtype), turn[first : first + width])
        return coordinates

    def proba(self, s: Tensor, z: Tensor) -> Tensor:
        """Soft clusters [N, K]: exp(-d^2 / 2 spread), normalised, with d the distance to a centre."""
        distance = squared_distances(self.transform(s, z), self.centres)
        return torch.softmax(-distance / (2 * self.spread), dim=1)


def _leading(t: Tensor, dimensions: int) -> Tensor:
    """Leading right singular vectors of T [n, c], float64: from T'T, or, where that would be huge, from TT'."""
    if t.shape[1] <= max(len(t), _WIDE):
        return torch.linalg.eigh((t.mT @ t).double())[1].flip(1)[:, :dimensions]
    square, left = (each.flip(-1)[..., :dimensions] for each in torch.linalg.eigh((t @ t.mT).double()))
    length = square.clamp(min=0).sqrt()
    real = length > 1e-6 * length[0]
    return t.mT.double() @ (left[:, real] / length[real])


def _scale(part: Tensor, weight: Tensor, total: float) -> Tensor:
    """Scale of each (centred) column: the square root of its weight, so that rows have length `total` on average."""
    root = weight.clamp(min=0).sqrt()
    length = (part * root).square().sum(1).mean().sqrt()
    return torch.where(length > torch.finfo(part.dtype).tiny, total * root / length, 0.0)


@dataclass
class Refiner(_Tensors):
    """A softmax regression from single nodes' features to clusters, and its weight beside the consensus."""

    centre: Tensor  # [F], taken from the features
    scale: Tensor  # one number, times the centred features
    kernel: Tensor  # [F, K]
    bias: Tensor  # [K]
    weight: Tensor  # one number from 0 to 1/2: the share of the regression in the average

    @classmethod
    def fit(cls, x: Tensor, labels: Tensor, k: int, recipe: Recipe = DEFAULT) -> Refiner:
        """Learn to tell the clusters of nodes, labels [N], from their own features x [N, F]."""
        x = x.float()
        centre = x.mean(0)
        spread = (x - centre).square().mean().sqrt()
        scale = torch.where(spread > 1e-12, 1 / spread, 0.0)
        z = (x - centre) * scale
        kernel, bias = _regression(z, labels, k, recipe.ridge)
        whole = entropy(torch.bincount(labels, minlength=k).to(x.dtype))
        left = torch.nn.functional.cross_entropy(z @ kernel + bias, labels)
        # The share of the clusters' entropy that features explain: nothing from noise.
        told = torch.relu(1 - left / whole.clamp(min=1e-12))
        return cls(centre, scale, kernel, bias, told / (1 + told))

    def apply(self, x: Tensor, proba: Tensor, op: Operator, recipe: Recipe = DEFAULT) -> Tensor:
        """Soft clusters [N, K] from features, what the consensus says (`proba`) and the neighbours in A."""
        op = op.normalise()
        # The centre and the scale are parts of the regression here: no second table [N, F] of features is made.
        kernel = self.scale * self.kernel
        alone = torch.softmax(torch.addmm(self.bias - self.centre @ kernel, x.float(), kernel), dim=1)
        evidence = self.weight * alone + (1 - self.weight) * proba.to(alone.dtype)
        out = evidence
        for _ in range(recipe.steps):
            out = recipe.restart * evidence + (1 - recipe.restart) * (op @ out)
        return out / out.sum(1, keepdim=True)


def _regression(z: Tensor, labels: Tensor, k: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Kernel [F, K] and bias [K] of a softmax regression with a penalty on the kernel.

    Newton's method with the Hessian replaced by its upper bound Z'Z / 2N (Bohning 1992), which needs to be factored
    once only, with Nesterov's momentum, restarted where the loss would rise.
    """
    n, f = z.shape
    z = torch.cat([z, z.new_ones(n, 1)], dim=1)
    wanted = z.new_zeros(k, n).scatter_(0, labels.unsqueeze(0), 1.0)
    penalty = z.new_full((f + 1,), 2 * ridge)
    penalty[-1] = 0.0
    inverse = torch.linalg.inv((z.mT @ z / (2 * n) + penalty.diag()).double()).to(z.dtype)
    weights = ahead = z.new_zeros(k, f + 1)
    momentum = z.new_ones(())
    for _ in range(_NEWTON_STEPS):
        slope = ((ahead @ z.mT).softmax(0) - wanted) @ z / n + penalty * ahead
        new = ahead - slope @ inverse
        momentum = torch.where((slope * (new - weights)).sum() > 0, 1.0, momentum)
        following = (1 + (1 + 4 * momentum * momentum).sqrt()) / 2
        ahead = new + (momentum - 1) / following * (new - weights)
        weights, momentum = new, following
    turned = weights.mT.clone(memory_format=torch.contiguous_format)
    return turned[:-1], turned[-1]


@dataclass(frozen=True)
class Merged:
    """One soft clustering of the nodes, and the function that finds it in any graph."""

    net: ReplicaNet  # the networks that count
    weights: Tensor  # how much each counts
    consensus: Consensus | None  # None for a single network
    refiner: Refiner | None  # None where nothing was refined
    soft: Tensor  # [n, K]


def merge(prepared: Prepared, networks: Networks, recipe: Recipe, seed: int, tell: Tell) -> Merged:
    """Weigh the networks, merge them, and refine the result."""
    keep, weights = _select(networks, recipe, tell)
    net, s, consensus = networks.net, networks.s, None
    if len(keep) < net.replicas:
        net, s = net.keep(keep), s[:, keep]
    soft = s[:, 0]
    if recipe.select == "consensus" and networks.full:
        nodes, rows, k = prepared.nodes, prepared.encoded.rows, net.k
        large = nodes.count > recipe.large
        if large:
            said = f"consensus found on {recipe.large:,} of {nodes.count:,} nodes; the others join the nearest centre."
            tell(Detail("consensus_on_a_sample", said, sample=recipe.large, nodes=nodes.count))
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
        ).mapped(nodes.agreed)
        soft = consensus.proba(s, rows)
    soft, refiner = refine(prepared, soft, recipe, tell)
    return Merged(net, weights, consensus, refiner, soft)


def _select(networks: Networks, recipe: Recipe, tell: Tell) -> tuple[list[int], Tensor]:
    """Which networks count, and their weights."""
    keep, replicas, k = networks.full, networks.replicas, networks.net.k
    count = len(replicas)
    lost = count - len(keep)
    if lost:
        said = f"{lost} of {count} networks found fewer than {k} clusters and did not count."
        if not keep:
            said = f"all {lost} networks found fewer than {k} clusters; the one that found most of them was taken."
        tell(Detail("clusters_lost", said, networks=lost, of=count))
    if keep and recipe.select == "consensus":
        weights = evidence_weights(networks.evidence[keep], recipe.width).cpu()
        return [r for r, w in zip(keep, weights.tolist(), strict=True) if w > 0], weights[weights > 0]
    # One network; also where all lost clusters: merging them would invent clusters that none of them has.
    most = max(replica.clusters_used for replica in replicas)

    def merit(r: int) -> float:
        """The evidence; of the paper's networks the loss, the lower the better."""
        return -replicas[r].loss if recipe.paper else replicas[r].evidence

    return [max((r for r in range(count) if replicas[r].clusters_used == most), key=merit)], torch.ones(1)


def refine(prepared: Prepared, soft: Tensor, recipe: Recipe, tell: Tell) -> tuple[Tensor, Refiner | None]:
    """Let own features and neighbours settle what is open; left out if it would empty a cluster."""
    encoded, nodes, k = prepared.encoded, prepared.nodes, soft.shape[1]
    if not recipe.refine or encoded.x.shape[1] == 0:
        return soft, None
    labels = soft.argmax(1)
    x, known = (nodes.sample(each, recipe.large) for each in (encoded.x, labels))
    refiner = Refiner.fit(x, known, k, recipe).mapped(nodes.agreed)
    after = refiner.apply(encoded.x, soft, encoded.op, recipe)
    before, now = (
        nodes.total(torch.bincount(each, minlength=k)).count_nonzero() for each in (labels, after.argmax(1))
    )
    if now < before:
        said = "nodes were not moved to the cluster that suits them best: that would have emptied a cluster."
        tell(Detail("not_refined", said))
        return soft, None
    return after, refiner


def by_size(sizes: Tensor) -> np.ndarray:
    """The order of the clusters by size: the largest becomes number 0."""
    return np.argsort(-sizes.cpu().numpy(), kind="stable")
