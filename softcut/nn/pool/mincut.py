"""MinCutPool, the paper's pooling layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.checks import check_number
from softcut.nn.layers import graph_input
from softcut.nn.pool.base import MLPPool, dense_output, given_selection
from softcut.nn.pool.output import PoolOutput
from softcut.ops import OBJECTIVES, Dense, Operator, PooledProducts, orthogonality, pooled_adjacency
from softcut.ops.cut import no_autocast, per_row, ratio_trace, safe_ratio

__all__ = ["MinCutPool", "mincut_pool"]


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
    matrix and no E x K tensor is made for a sparse graph. A graph without edges has L_c = 0. Negative edge
    weights are an error.
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
        _check_objective(objective)
        if not isinstance(normalise, bool):
            raise ParameterError(f"normalise must be True or False, got {normalise!r}.")
        self.objective, self.normalise = objective, normalise
        self.cut_weight = check_number(cut_weight, "cut_weight")
        self.ortho_weight = check_number(ortho_weight, "ortho_weight")
        self.keep_diagonal = bool(keep_diagonal)

    def operator(self, op: Operator) -> Operator:
        return _operator(op, self.normalise)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        cut, ortho = _cut_and_orthogonality(op, s, products, self.objective)
        return {"cut": self.cut_weight * cut, "ortho": self.ortho_weight * ortho}

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return pooled_adjacency(quadratic, symmetric=op.symmetric, keep_diagonal=self.keep_diagonal)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.objective!r}, normalise={self.normalise}"


def _check_objective(objective: str) -> None:
    if objective not in OBJECTIVES:
        raise ParameterError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}.")


def _operator(op: Operator, normalise: bool) -> Operator:
    if normalise:
        return op.normalise()
    op.refuse_negative()  # the loss divides by degrees either way
    return op


def _cut_and_orthogonality(
    op: Operator, s: Tensor, products: PooledProducts, objective: str
) -> tuple[Tensor, Tensor]:
    """The two losses of every graph."""
    if objective == "trace_ratio":
        num = products.quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)  # Tr(S' A~ S)
        den = op.layout.total(per_row(op.degree_like(s), s) * s.square().sum(-1))  # Tr(S' D~ S)
        cut = -safe_ratio(num, den)
    else:
        cut = -ratio_trace(op, s, quadratic=products.quadratic)
    return cut, orthogonality(products.gram)


def mincut_pool(
    x: Tensor,
    adj: Any,
    s: Tensor,
    mask: Tensor | None = None,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    objective: str = "trace_ratio",
    normalise: bool = True,
) -> PoolOutput:
    r"""MinCutPool with an assignment matrix of one's own: S'X, the pooled graph and the losses `cut` and `ortho`.

    >>> import torch
    >>> from softcut.nn import mincut_pool
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> out = mincut_pool(torch.rand(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), s)
    >>> out.x.shape, out.losses["cut"].item(), out.losses["ortho"].item()
    (torch.Size([1, 2, 3]), -1.0, 0.0)

    Parameters
    ----------
    x, adj, mask, edge_weight, batch
        As for the layer: [N, F] with an edge_index, or [B, N, F] with a dense adjacency and a mask.
    s : Tensor
        Assignments [N, K] or [B, N, K]: 0 or more, 1 in sum per node. Not the scores before the softmax, which
        PyTorch Geometric's ``dense_mincut_pool`` takes: pass ``scores.softmax(-1)``.
    objective, normalise
        As for :class:`~softcut.nn.MinCutPool`.
    """
    _check_objective(objective)
    x, op = graph_input(x, adj, edge_weight, batch, mask)
    selection = given_selection(s, op)
    with no_autocast(selection.s):
        op = _operator(op, normalise)

    def auxiliary(op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        cut, ortho = _cut_and_orthogonality(op, s, products, objective)
        return {"cut": cut, "ortho": ortho}

    return dense_output(
        x, op, selection, auxiliary, lambda op, q: pooled_adjacency(q, symmetric=op.symmetric)
    )
