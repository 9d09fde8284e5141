"""MinCutPool, the paper's pooling layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.pool.base import MLPPool
from softcut.ops import OBJECTIVES, Dense, Operator, PooledProducts, orthogonality, pooled_adjacency
from softcut.ops.cut import per_row, ratio_trace, safe_ratio

__all__ = ["MinCutPool"]


class MinCutPool(MLPPool):
    r"""Pooling by the relaxed normalised cut.

    .. math::
        S = softmax(MLP(X) / \tau), \quad X' = S^T X, \quad A' = S^T \tilde A S

    with the diagonal of A' set to zero and A' normalised symmetrically, and the losses
    L_c = -Tr(S' A~ S) / Tr(S' D~ S) and L_o = ||S'S/||S'S||_F - I/sqrt(K)||_F.

    >>> import torch
    >>> from softcut.nn import MinCutPool
    >>> pool = MinCutPool(in_channels=8, k=2, hidden=16)
    >>> edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> out = pool(torch.rand(4, 8), edge_index)
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['cut', 'ortho'])
    >>> pool.lift(out.x, out.selection).shape
    torch.Size([4, 8])

    Parameters
    ----------
    in_channels : int
        Size of the node features.
    k : int
        Clusters of every graph (may exceed the nodes of a small graph).
    hidden : int, sequence of int or None
        Hidden sizes of the MLP.
    act : str, callable or None
        Activation between the layers of the MLP.
    temperature : float
        Below 1: harder assignments; above 1: fuzzier ones.
    cut_weight, ortho_weight : float
        Weights of the two losses.
    objective : {"trace_ratio", "ratio_trace"}
        The paper's cut loss, or the classic one (appendix A).
    normalise : bool
        True: A is normalised to A~ first, as in the paper. False: A is used as it comes, in the losses and
        in A', as PyTorch Geometric's ``dense_mincut_pool`` uses the adjacency it is given.
    keep_diagonal : bool
        Keep the diagonal of A', which the paper sets to zero: clusters then pass messages mostly to themselves.

    Notes
    -----
    Pass A, not A~: the layer normalises it itself (a pooled operator of the layer before is normalised
    already and is left alone). A matrix that you normalised yourself needs ``normalise=False``. No N x N
    matrix and no E x K tensor is made for a sparse graph. A graph without edges has L_c = 0.
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        cut_weight: float = 1.0,
        ortho_weight: float = 1.0,
        objective: str = "trace_ratio",
        normalise: bool = True,
        keep_diagonal: bool = False,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        if objective not in OBJECTIVES:
            raise ParameterError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}.")
        self.objective, self.normalise = objective, bool(normalise)
        self.cut_weight, self.ortho_weight = float(cut_weight), float(ortho_weight)
        self.keep_diagonal = bool(keep_diagonal)

    def operator(self, op: Operator) -> Operator:
        return op.normalise() if self.normalise else op

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        if self.objective == "trace_ratio":
            num = products.quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)  # Tr(S' A~ S)
            den = op.layout.total(per_row(op.degree_like(s), s) * s.square().sum(-1))  # Tr(S' D~ S)
            cut = -safe_ratio(num, den)
        else:
            cut = -ratio_trace(op, s, quadratic=products.quadratic)
        ortho = orthogonality(products.gram)
        return {"cut": self.cut_weight * cut, "ortho": self.ortho_weight * ortho}

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return pooled_adjacency(quadratic, symmetric=op.symmetric, keep_diagonal=self.keep_diagonal)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.objective!r}, normalise={self.normalise}"
