"""Consensus: one clustering from the soft assignments of many replicas.

Replicas started from different seeds and reading features from different distances disagree, and where they
disagree is information. The rows of

    T = [ sqrt(w_r) S_r for every replica r ; fusion * sqrt(v_h) Z_h for every distance h ]

(both halves centred and scaled to unit mean squared row length) are clustered by k-means: two nodes are close
when most of the replicas that explain the graph put them together. The weights w fall with a replica's
evidence, from the best one on (:func:`evidence_weights`). v_h is the total weight of the replicas that read distance h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.metrics import Evidence

__all__ = ["Consensus", "agreement", "evidence_weights", "mean_agreement"]

_ROWS = 50_000  # rows that agreements are counted on
_NO_WEIGHT = 1e-3  # a replica with less is left out


def agreement(hard: Tensor, k: int) -> Tensor:
    """Adjusted Rand index [R, R] of every pair of replicas, whose labels are `hard` [N, R]."""
    hard = hard[:: max(1, hard.shape[0] // _ROWS)]
    n, r = hard.shape
    indicator = torch.zeros(n, r, k, device=hard.device).scatter_(2, hard.unsqueeze(-1), 1.0).view(n, r * k)
    counts = (indicator.mT @ indicator).double()
    size = counts.diagonal()

    def pairs(count: Tensor) -> Tensor:
        return count * (count - 1) / 2

    together = pairs(counts).view(r, k, r, k).sum((1, 3))
    own = pairs(size).view(r, k).sum(1)
    expected = torch.outer(own, own) / pairs(torch.tensor(max(2.0, float(n))))
    most = (own.unsqueeze(0) + own.unsqueeze(1)) / 2
    room = most - expected
    differs = room.abs() > 1e-9
    return torch.where(differs, (together - expected) / torch.where(differs, room, 1.0), 1.0)


def mean_agreement(ari: Tensor) -> float:
    """The mean of agreements [R, R] over pairs of different replicas; 1 where there is only one."""
    r = len(ari)
    return 1.0 if r == 1 else float((ari.sum() - ari.diagonal().sum()) / (r * (r - 1)))


def evidence_weights(evidence: Evidence, width: float) -> Tensor:
    """Weights [R] that sum to one: in proportion to exp(-((e_max - e) / width)^2), with e the evidence of a replica.

    A little less evidence hardly changes the weight, much less takes all of it.
    """
    value = evidence.value.double()
    weight = torch.exp(-((value.max() - value) / width).square())
    weight = torch.where(weight < _NO_WEIGHT, 0.0, weight)
    return (weight / weight.sum()).float()


@dataclass
class Consensus:
    """The map from replicas' assignments to final clusters; kept with the model, so it serves unseen nodes."""

    mean: Tensor  # centre of T's columns
    scale: Tensor  # of T's columns
    basis: Tensor  # leading directions of T: k-means sees these d coordinates only
    centres: Tensor  # [K, d]
    spread: Tensor  # mean squared distance to the nearest centre: the width of `proba`
    weights: Tensor  # [R], of the replicas

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

        `scales` says which distance each replica reads (by default all the first one) and `weights` [R] how much it
        counts (by default all the same). `dimensions` leading directions of T are kept; k-means has `n_init` starts, of
        which `finalists` (by default all) are run to their end.
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
        _, vectors = torch.linalg.eigh((t.mT @ t).double())
        # Contiguous: a loaded one computes the same bits.
        basis = vectors.flip(1)[:, :dimensions].to(t.dtype).contiguous()
        t = t @ basis
        result = kmeans(t, k, n_init=n_init, finalists=finalists, random_state=random_state)
        spread = squared_distances(t, result.centres).amin(1).mean().clamp(min=torch.finfo(t.dtype).tiny)
        return cls(mean, scale, basis, result.centres, spread, weights)

    def transform(self, s: Tensor, z: Tensor) -> Tensor:
        """The coordinates of nodes in which k-means was run."""
        # (T - mean) diag(scale) basis, with the part of each replica and distance where it lies: T is never made.
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

    def to(self, device: torch.device) -> Consensus:
        """The same consensus on another device."""
        return Consensus(**{name: value.to(device) for name, value in vars(self).items()})


def _scale(part: Tensor, weight: Tensor, total: float) -> Tensor:
    """Scale of each (centred) column: the square root of its weight, so that rows have length `total` on average."""
    root = weight.clamp(min=0).sqrt()
    length = (part * root).square().sum(1).mean().sqrt()
    tiny = torch.finfo(part.dtype).tiny
    return torch.where(length > tiny, total * root / length.clamp(min=tiny), 0.0)
