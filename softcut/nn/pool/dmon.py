"""DMoN pooling (Tsitsulin et al., 2023): soft clusters of high modularity."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softcut.nn.activations import Activation
from softcut.nn.number_checks import check_number
from softcut.nn.pool.mincut import ObjectivePool
from softcut.ops import Operator, orthogonality
from softcut.ops.products import PooledProducts

__all__ = ["DMoNPool"]


class DMoNPool(ObjectivePool):
    r"""Pooling by modularity: S = softmax(MLP(X) / \tau), X' = selu(S'X), A' = S'AS.

    .. math::
        L_{spectral} = -\frac{Tr(S^T B S)}{2m}, \quad B = A - \frac{d d^T}{2m}, \qquad
        L_{cluster} = \frac{\sqrt{K}}{N} \Big\|\sum_i s_i\Big\|_2 - 1

    The N x N matrix B is never made: Tr(S'BS) = Tr(S'AS) - ||S'd||^2 / 2m.
    ``MinCutPool(objective="dmon")`` has the same losses; this layer is the published one, which passes S'X through
    a SELU, and can add the third loss of PyTorch Geometric's.

    >>> import torch
    >>> from softcut.nn import DMoNPool
    >>> pool = DMoNPool(in_channels=8, k=2)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['cluster', 'spectral'])

    Parameters
    ----------
    in_channels, k, hidden, act, temperature
        As for :class:`~softcut.nn.MinCutPool`.
    spectral_weight, cluster_weight, ortho_weight : float
        Weights of the losses. The last one, the orthogonality loss of MinCutPool, is not part of the
        published method; PyTorch Geometric's ``DMoNPooling`` returns it too.

    Notes
    -----
    A is used as it comes, not normalised, and must not hold negative weights; the diagonal of A' is set to
    zero and A' is normalised symmetrically. A graph without edges has a spectral loss of 0. Every loss is that
    of a graph by itself; in a batch of graphs of different sizes ``DMoNPooling`` of PyTorch Geometric 2.8 divides
    the cluster loss of each graph by the number of nodes of every graph.
    """

    objective = "dmon"

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        spectral_weight: float = 1.0,
        cluster_weight: float = 1.0,
        ortho_weight: float = 0.0,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        self.spectral_weight = check_number(spectral_weight, "spectral_weight")
        self.cluster_weight = check_number(cluster_weight, "cluster_weight")
        self.ortho_weight = check_number(ortho_weight, "ortho_weight")

    def activate(self, x_pool: Tensor) -> Tensor:
        return torch.nn.functional.selu(x_pool)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        losses = super().auxiliary(op, s, products)
        if self.ortho_weight:
            losses["ortho"] = orthogonality(products.gram)
        return losses

    def weights(self) -> dict[str, float]:
        return {"spectral": self.spectral_weight, "cluster": self.cluster_weight, "ortho": self.ortho_weight}
