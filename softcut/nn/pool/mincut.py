"""MinCutPool, the paper's pooling layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.layers import graph_input
from softcut.nn.number_checks import check_number
from softcut.nn.pool.base import MLPPool, dense_output, given_selection
from softcut.nn.pool.output import PoolOutput
from softcut.ops import ClusterTables, Dense, Operator, get_objective, pooled_adjacency
from softcut.ops.numerics import no_autocast
from softcut.ops.products import PooledProducts
from softcut.ops.tensor_checks import can_be_read

__all__ = ["MinCutPool", "ObjectivePool", "mincut_pool"]


class ObjectivePool(MLPPool):
    """A pooler that is trained by an objective of :mod:`softcut.ops.objectives`."""

    objective = "mincut"
    normalise = True
    count_words = False

    def operator(self, op: Operator) -> Operator:
        return _operator(op, self.objective, self.normalise)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        return _losses(op, s, products, self.objective, self.count_words)


class MinCutPool(ObjectivePool):
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
        Weights of the two losses: the objective, and the term that keeps clusters apart where it has one.
    objective : {"mincut", "ratio_trace", "dmon", "just_balance", "evidence"}
        The paper's cut loss, the classic one (appendix A), or another of the family (:mod:`softcut.ops.objectives`):
        losses `spectral` and `cluster`, `balance`, or `evidence`, in place of `cut` and `ortho`.
    normalise : bool
        True: A is normalised to A~ first, as in the paper. False: A is used as it comes, in the losses and
        in A', as PyTorch Geometric's ``dense_mincut_pool`` uses the adjacency it is given. "dmon" and "evidence"
        count edges and always use A as it comes.
    keep_diagonal : bool
        Keep the diagonal of A', which the paper sets to zero: clusters then pass messages mostly to themselves.
    count_words : bool
        For "evidence": whether clusters are to explain the features, too. These must then be data, and counts
        (0 or more, such as words or one-hot labels). False: the edges alone.

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
        objective: str = "mincut",
        normalise: bool = True,
        keep_diagonal: bool = False,
        count_words: bool = False,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        _check_objective(objective, count_words)
        if not isinstance(normalise, bool):
            raise ParameterError(f"normalise must be True or False, got {normalise!r}.")
        self.objective, self.normalise = objective, normalise
        self.cut_weight = check_number(cut_weight, "cut_weight")
        self.ortho_weight = check_number(ortho_weight, "ortho_weight")
        self.keep_diagonal, self.count_words = bool(keep_diagonal), bool(count_words)

    def features(self, x: Tensor, op: Operator) -> Tensor:
        return _refuse_negative_words(x) if self.count_words else x

    def weights(self) -> dict[str, float]:
        names = get_objective(self.objective).names
        return dict(zip(names, (self.cut_weight, self.ortho_weight)[: len(names)], strict=True))

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return pooled_adjacency(quadratic, symmetric=op.symmetric, keep_diagonal=self.keep_diagonal)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.objective!r}, normalise={self.normalise}"


def _check_objective(objective: str, count_words: bool) -> None:
    get_objective(objective)
    if count_words and objective != "evidence":
        raise ParameterError(
            f"count_words is an option of objective='evidence' and has no effect with {objective!r}."
        )


def _refuse_negative_words(x: Tensor) -> Tensor:
    if can_be_read(x) and bool((x < 0).any()):
        raise ParameterError(
            f"x must hold counts, which are not negative, for count_words=True, got {x.min().item():g}; "
            "leave count_words out to count the edges alone."
        )
    return x


def _operator(op: Operator, objective: str, normalise: bool) -> Operator:
    if normalise and get_objective(objective).normalised:
        return op.normalise()
    op.refuse_negative()  # the loss divides by degrees either way
    return op


def _losses(
    op: Operator, s: Tensor, products: PooledProducts, objective: str, count_words: bool
) -> dict[str, Tensor]:
    """The losses of every graph, by name."""
    chosen = get_objective(objective)
    tables = ClusterTables(op, s, products)
    if count_words:
        tables = ClusterTables(op, s, products, words=products.x, num_words=products.x.sum((-2, -1)))
    return dict(zip(chosen.names, chosen.losses(tables), strict=True))


def mincut_pool(
    x: Tensor,
    adj: Any,
    s: Tensor,
    mask: Tensor | None = None,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    objective: str = "mincut",
    normalise: bool = True,
    count_words: bool = False,
) -> PoolOutput:
    r"""MinCutPool with an assignment matrix of one's own: S'X, the pooled graph and the losses of the objective.

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
    objective, normalise, count_words
        As for :class:`~softcut.nn.MinCutPool`.
    """
    _check_objective(objective, count_words)
    x, op = graph_input(x, adj, edge_weight, batch, mask)
    x = _refuse_negative_words(x) if count_words else x
    selection = given_selection(s, op)
    with no_autocast(selection.s):
        op = _operator(op, objective, normalise)

    def auxiliary(op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        return _losses(op, s, products, objective, count_words)

    return dense_output(
        x, op, selection, auxiliary, lambda op, q: pooled_adjacency(q, symmetric=op.symmetric)
    )
