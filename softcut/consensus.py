"""Consensus: one clustering from the soft assignments of many replicas.

Replicas started from different seeds disagree, and where they disagree is information. The rows of

    T = [ S of all replicas ; w Z ]

(both parts centred and scaled to unit mean squared row length, Z the propagated features) are clustered by
k-means: two nodes are close when most replicas put them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.kmeans import kmeans, nearest, squared_distances

__all__ = ["Consensus"]


@dataclass
class Consensus:
    """The map from replicas' assignments to final clusters; kept with the model, so it serves unseen nodes.

    >>> import torch
    >>> s = torch.eye(2)[[0, 0, 1, 1]].unsqueeze(1)                 # [N, R, K], one replica
    >>> consensus = Consensus.fit(s, torch.zeros(4, 0), k=2)
    >>> labels = consensus.predict(s, torch.zeros(4, 0))
    >>> bool(labels[0] == labels[1] != labels[2])
    True

    Attributes
    ----------
    mean, scale : Tensor
        Centre of T's columns and the scale of each.
    basis : Tensor
        Leading directions of T: k-means sees these coordinates only.
    centres : Tensor
        [K, d].
    spread : Tensor
        Mean squared distance to the nearest centre: the width of :meth:`proba`.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor
    centres: Tensor
    spread: Tensor

    @classmethod
    def fit(
        cls,
        s: Tensor,
        z: Tensor,
        k: int,
        *,
        fusion: float = 2.0,
        dimensions: int = 64,
        n_init: int = 20,
        sample: int | None = None,
        random_state: int = 0,
    ) -> Consensus:
        """Cluster the rows of T.

        Parameters
        ----------
        s : Tensor
            [N, R, K] assignments of the replicas.
        z : Tensor
            [N, F] propagated features (F may be 0).
        k : int
            Clusters.
        fusion : float
            Weight of `z`.
        dimensions : int
            Leading directions of T to keep.
        n_init : int
            Starts of k-means.
        sample : int, optional
            Fit on this many rows only; all rows are labelled by their nearest centre.
        """
        n = s.shape[0]
        if sample is not None and sample < n:
            generator = torch.Generator().manual_seed(random_state)
            rows = torch.randperm(n, generator=generator)[:sample].to(s.device)
            s, z = s[rows], z[rows]
            n = sample
        t = torch.cat([s.reshape(n, -1), z.to(s.dtype)], dim=1)
        mean = t.mean(0)
        t -= mean
        width = t.shape[1] - z.shape[1]
        scale = torch.cat([_scale(t[:, :width], 1.0), _scale(t[:, width:], fusion)])
        t *= scale
        _, vectors = torch.linalg.eigh((t.mT @ t).double())
        basis = vectors.flip(1)[:, :dimensions].to(t.dtype)
        t = t @ basis
        result = kmeans(t, k, n_init=n_init, random_state=random_state)
        # Clusters numbered by size, largest first.
        sizes = torch.bincount(result.labels, minlength=k)
        centres = result.centres[torch.argsort(sizes, descending=True, stable=True)]
        spread = squared_distances(t, centres).amin(1).mean().clamp(min=torch.finfo(t.dtype).tiny)
        return cls(mean, scale, basis, centres, spread)

    def transform(self, s: Tensor, z: Tensor) -> Tensor:
        """The coordinates of nodes in which k-means was run."""
        t = torch.cat([s.reshape(s.shape[0], -1), z.to(s.dtype)], dim=1)
        t -= self.mean
        t *= self.scale
        return t @ self.basis

    def predict(self, s: Tensor, z: Tensor) -> Tensor:
        """Cluster of each node."""
        return nearest(self.transform(s, z), self.centres)

    def proba(self, s: Tensor, z: Tensor) -> Tensor:
        """Soft clusters [N, K]: exp(-d^2 / 2 spread), normalised; the largest is what predict says."""
        distance = squared_distances(self.transform(s, z), self.centres)
        return torch.softmax(-distance / (2 * self.spread), dim=1)


def _scale(part: Tensor, weight: float) -> Tensor:
    """One number for all columns of a part: unit mean squared row length, times the weight."""
    if part.shape[1] == 0:
        return part.new_ones(0)
    length = part.square().sum(1).mean().sqrt()
    tiny = torch.finfo(part.dtype).tiny
    return torch.where(length > tiny, weight / length.clamp(min=tiny), 0.0).expand(part.shape[1])
