"""The last step of a clustering: each node's own features and its neighbours correct what the replicas say.

The consensus looks at features that were propagated already, so a node's own words hardly count in it. A
softmax regression from the features of single nodes to the clusters found so far takes them into account: its
prediction and the consensus are averaged, the prediction weighted by how much of the clusters it can tell, and
a few steps of personalised PageRank let neighbours decide what both leave open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.ops import Operator

__all__ = ["Refiner"]


@dataclass
class Refiner:
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
        scale = torch.where(spread > 1e-12, 1 / spread.clamp(min=1e-12), torch.zeros_like(spread))
        z = (x - centre) * scale
        kernel, bias = _regression(z, labels, k, recipe.ridge)
        share = torch.bincount(labels, minlength=k).to(x.dtype) / max(1, len(labels))
        entropy = -(share * share.clamp(min=1e-12).log()).sum()
        left = torch.nn.functional.cross_entropy(z @ kernel + bias, labels)
        # The share of the clusters' entropy that features explain: nothing from noise.
        told = (1 - left / entropy.clamp(min=1e-12)).clamp(0, 1)
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

    def to(self, device: torch.device) -> Refiner:
        """The same on another device."""
        return Refiner(**{name: value.to(device) for name, value in vars(self).items()})


def _regression(z: Tensor, labels: Tensor, k: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Kernel [F, K] and bias [K] of a softmax regression with a penalty on the kernel."""
    shape = (z.shape[1] + 1, k)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.from_numpy(flat.reshape(shape)).to(z).requires_grad_()
        with torch.enable_grad():
            error = torch.nn.functional.cross_entropy(z @ weights[:-1] + weights[-1], labels)
            total = error + ridge * weights[:-1].square().sum()
        (slope,) = torch.autograd.grad(total, weights)
        return float(total.detach()), slope.double().cpu().numpy().ravel()

    start = np.zeros(shape[0] * shape[1])
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 30})
    weights = torch.from_numpy(minimum.x.reshape(shape)).to(z)
    return weights[:-1], weights[-1]
