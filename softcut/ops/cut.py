r"""The relaxed normalised cut of the paper, the classic one, and the orthogonality term.

    trace ratio     L_c = - Tr(S' A~ S) / Tr(S' D~ S)               in [-1, 0]   (the paper's)
    ratio trace     L_c = - Tr((S' D~ S)^-1 S' A~ S) / K            in [-1, 1)   (appendix A, classic)
    orthogonality   L_o = || S'S / ||S'S||_F - I_K / sqrt(K) ||_F   in [0, sqrt(2 - 2/sqrt(K))]

L_o is 0 when clusters are hard and of one size, and largest where a single cluster is used.

One sparse product Y = A~ S a step and none in backward: Tr(S' A~ S) = sum(S * Y) and, because A~ is
symmetric, its gradient is 2 Y; the gradient of S' A~ S under a cotangent G is Y (G + G'). Y is saved, so
backward is dense and small. Only a second derivative, if one asks for it, multiplies by A~ again: the saved
Y would count as a constant there, so it is tied to S by its own derivative A~. An asymmetric
operator, or one whose entries are learned, takes the plain autograd path instead.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import in_gradient_batch, is_wrapped, keeps_graph, saving_is_hooked, signed
from softcut.ops.batching import Layout, Padded, Segments, batch_to_ptr, over_replicas
from softcut.ops.convert import assignment_input
from softcut.ops.numerics import (
    check_assignments,
    check_tensor,
    full_precision,
    no_autocast,
    per_row,
    reduce_graphs,
    safe_ratio,
    sum_type,
    zero_padding,
)
from softcut.ops.operator import Operator


def takes_fast_path(op: Operator) -> bool:
    """Whether Y may be saved in place of the graph of operations that made it."""
    return not torch.compiler.is_compiling() and op.symmetric and not op.requires_grad


def _row_dots(a: Tensor, b: Tensor) -> Tensor:
    """sum_k a * b."""
    if a.is_cuda:  # an einsum is a product of two vectors per row there, one small launch after another
        return (a * b).sum(-1)
    # No temporary the size of S: making one costs more than the arithmetic.
    return torch.einsum("...k,...k->...", a, b)


def transformed(t: Tensor) -> bool:
    """Whether a tensor belongs to a transform of ``torch.func``, or to a batch of gradients."""
    return is_wrapped(t) or in_gradient_batch(t)


class Recall(torch.autograd.Function):
    """The saved Y = A~ S again, without computing it; its derivative is A~ all the same."""

    @staticmethod
    def forward(op: Operator, s: Tensor, y: Tensor) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.op = inputs[0]

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        return None, ctx.op @ g, None

    @staticmethod
    def vmap(info, in_dims, op, s, y):  # type: ignore[no-untyped-def]
        rows = op.layout.rows
        return over_replicas(partial(Recall.apply, op), info, in_dims[1:], (s, y), rows, (rows,))


@signed
class _CutTerms(torch.autograd.Function):
    """(Tr(S' A~ S), Tr(S' D~ S)) per graph; gradient 2 Y and 2 D~ S."""

    @staticmethod
    def forward(op: Operator, s: Tensor, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = s.contiguous()
        if op.fuses_cut(s):
            return op.cut_sums(s, degree)
        t, y, _ = op.factors(s)
        num = op.layout.total(_row_dots(t, y))
        den = op.layout.total(per_row(degree, s) * _row_dots(s, s))
        return num, den, y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        op, s, degree = inputs
        ctx.op = op
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)  # for Y it would be zeros of the size of S
        # Nobody else holds Y: no hook was given it, and it is not S under another name.
        same = not is_wrapped(s) and s.untyped_storage().data_ptr() == output[2].untyped_storage().data_ptr()
        ctx.owns_y = not same and not saving_is_hooked()
        ctx.save_for_backward(s, degree, output[2])

    @staticmethod
    def backward(ctx, g_num, g_den, _):  # type: ignore[no-untyped-def]
        s, degree, y = ctx.saved_tensors
        layout = ctx.op.layout
        if g_num is None or g_den is None:  # only one of the two was used
            known = g_den if g_num is None else g_num
            if known is None:
                return None, None, None
            g_num, g_den = (torch.zeros_like(known) if g is None else g for g in (g_num, g_den))
        first = not torch.is_grad_enabled() and not transformed(g_num) and not transformed(g_den)
        in_place = ctx.owns_y and first and not keeps_graph()
        if first and ctx.op.fuses_cut(s):
            return None, _fused_gradient(ctx.op, s, y, degree, g_num, g_den, in_place), None
        own = 2 * layout.spread(g_den).unsqueeze(-1) * per_row(degree, s).unsqueeze(-1)
        factor = 2 * layout.spread(g_num).unsqueeze(-1)
        scale = ctx.op.row_scale(s.dtype)
        scale = None if scale is None else per_row(scale, s).unsqueeze(-1)
        if first:
            # Nobody will differentiate again: the scaling of Y is done in the same pass, and where Y is not needed
            # again either, the gradient is written over it. A fresh array costs more than the arithmetic.
            factor = factor if scale is None else factor * scale
            if in_place:
                return None, y.mul_(factor).addcmul_(s, own.expand_as(s)), None
            return None, (s * own).addcmul_(y, factor.expand_as(y)), None
        y = Recall.apply(ctx.op, s, y if scale is None else scale * y)
        return None, s * own + y * factor if own.dtype != s.dtype else torch.addcmul(s * own, y, factor), None

    @staticmethod
    def vmap(info, in_dims, op, s, degree):  # type: ignore[no-untyped-def]
        rows = op.layout.rows
        terms = partial(_CutTerms.apply, op)
        return over_replicas(lambda s: terms(s, degree), info, in_dims[1:2], (s,), rows, (1, 1, rows))


def _fused_gradient(
    op: Operator, s: Tensor, y: Tensor, degree: Tensor, g_num: Tensor, g_den: Tensor, in_place: bool
) -> Tensor:
    """Both terms in one pass of a GPU kernel, over Y where it is not needed again."""
    from softcut.ops.kernels.product import cut_gradient  # imports Triton, which takes a while

    rows, scale = s.contiguous().flatten(1), op.row_scale(sum_type(s))
    return cut_gradient(y.flatten(1), rows, scale, degree, g_num, g_den, in_place=in_place).view(s.shape)


@signed
class _QuadraticForm(torch.autograd.Function):
    """S' A~ S per graph; gradient Y (G + G')."""

    @staticmethod
    def forward(op: Operator, s: Tensor) -> tuple[Tensor, Tensor]:
        y = op @ s
        return op.layout.gram(s, y), y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.op = inputs[0]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # for Y it would be zeros of the size of S
        ctx.save_for_backward(inputs[1], output[1])

    @staticmethod
    def backward(ctx, g, _):  # type: ignore[no-untyped-def]
        if g is None:
            return None, None
        s, y = ctx.saved_tensors
        return None, ctx.op.layout.matmul(Recall.apply(ctx.op, s, y), g + g.mT)

    @staticmethod
    def vmap(info, in_dims, op, s):  # type: ignore[no-untyped-def]
        rows = op.layout.rows
        return over_replicas(partial(_QuadraticForm.apply, op), info, in_dims[1:], (s,), rows, (1, rows))


@signed
class _SelfGram(torch.autograd.Function):
    """S'S per graph; gradient S (G + G') in one product instead of two."""

    @staticmethod
    def forward(layout: Layout, s: Tensor) -> Tensor:
        return layout.gram(s, s)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.layout = inputs[0]
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        (s,) = ctx.saved_tensors
        return None, ctx.layout.matmul(s, g + g.mT)

    @staticmethod
    def vmap(info, in_dims, layout, s):  # type: ignore[no-untyped-def]
        return over_replicas(partial(_SelfGram.apply, layout), info, in_dims[1:], (s,), layout.rows)


def self_gram(layout: Layout, s: Tensor) -> Tensor:
    """S'S of every graph: [B, K, K]."""
    if torch.compiler.is_compiling():
        return layout.gram(s, s)
    return _SelfGram.apply(layout, s)


def cut_terms(op: Operator, s: Tensor) -> tuple[Tensor, Tensor]:
    """Tr(S' A S) and Tr(S' D S) of every graph: two vectors [B] (or [B, R] with replicas).

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> [t.tolist() for t in cut_terms(op, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))]
    [[2.0], [2.0]]
    """
    op.check_rows(s, "s")
    if takes_fast_path(op):
        if not op.fuses_cut(s):
            s = full_precision(s)
        num, den, _ = _CutTerms.apply(op, s, op.degree_like(s.new_empty(0, dtype=sum_type(s))))
        return num, den
    s = full_precision(s)
    y = op.product(s)
    num = op.layout.total((s * y).sum(-1))
    den = op.layout.total(per_row(op.degree_like(s), s) * s.square().sum(-1))
    return num, den


def quadratic_form(op: Operator, s: Tensor) -> Tensor:
    """S' A S of every graph: [B, K, K].

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> quadratic_form(op, torch.eye(2)).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    if takes_fast_path(op):
        return _QuadraticForm.apply(op, s)[0]
    return op.layout.gram(s, op.product(s))


def mincut_loss(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""The cut loss L_c = -Tr(S' A~ S) / Tr(S' D~ S), in [-1, 0].

    >>> import torch
    >>> from softcut.ops import mincut_loss
    >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])     # two separate edges
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> mincut_loss(s, edge_index)                                  # no edge is cut
    tensor(-1.)

    Parameters
    ----------
    s : Tensor
        Soft assignments [N, K] ([B, N, K] for a dense batch), or [N, R, K] for R replicas.
    adj : Operator, Graph, edge_index or dense adjacency
        A; normalised here unless it is a normalised operator.
    edge_weight, batch, mask
        As in PyTorch Geometric.
    reduction : {"mean", "sum", "none"}
        Mean over the graphs that have nodes, sum over the graphs, or one value per graph. A graph without edges has
        L_c = 0.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask, half=True)
        num, den = cut_terms(op.normalise(), s)
        return reduce_graphs(-safe_ratio(num, den), reduction, op.layout.occupied)


def ratio_trace_loss(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
    ridge: float = 1e-3,
) -> Tensor:
    r"""The classic objective -Tr((S' D~ S)^-1 S' A~ S) / K, in [-1, 1) for non-negative A.

    It is positive where several clusters follow the sides of bipartite parts; the paper's never is.
    S' D~ S is singular where clusters coincide (uniform S) or are empty: `ridge` times its mean
    diagonal is added before it is inverted.

    >>> import torch
    >>> from softcut.ops import ratio_trace_loss
    >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> ratio_trace_loss(s, edge_index, ridge=0.0)
    tensor(-1.)

    Parameters
    ----------
    s, adj, edge_weight, batch, mask, reduction
        As for :func:`mincut_loss`.
    ridge : float
        Relative size of the ridge.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask)
        return reduce_graphs(-ratio_trace(op.normalise(), s, ridge), reduction, op.layout.occupied)


def ratio_trace(op: Operator, s: Tensor, ridge: float = 1e-3, quadratic: Tensor | None = None) -> Tensor:
    """Tr((S' D S + ridge)^-1 S' A S) / K per graph; `quadratic` is S' A S where it is known already."""
    k = s.shape[-1]
    cut = quadratic_form(op, s) if quadratic is None else quadratic
    volume = op.layout.gram(s, per_row(op.degree_like(s), s).unsqueeze(-1) * s)
    mean = volume.diagonal(dim1=-2, dim2=-1).mean(-1)
    eye = torch.eye(k, dtype=s.dtype, device=s.device)
    empty = mean <= 0
    shift = torch.where(empty, torch.ones_like(mean), ridge * mean)
    volume = volume + shift[..., None, None] * eye
    return torch.linalg.solve(volume, cut).diagonal(dim1=-2, dim2=-1).sum(-1) / k


def orthogonality(gram: Tensor, sizes: Tensor | None = None) -> Tensor:
    """L_o from S'S, for a stack of K x K matrices.

    With `sizes` q, the target I/sqrt(K) becomes diag(q)/|q|: clusters are held to be hard and of these
    relative sizes, instead of hard and equal.

    >>> import torch
    >>> orthogonality(torch.eye(4)).item()
    0.0
    >>> orthogonality(torch.diag(torch.tensor([3.0, 4.0])), torch.tensor([3.0, 4.0])).item()
    0.0
    """
    k = gram.shape[-1]
    eye = torch.eye(k, dtype=gram.dtype, device=gram.device) / math.sqrt(k)
    if sizes is not None:
        eye = torch.diag_embed(sizes / torch.linalg.vector_norm(sizes, dim=-1, keepdim=True))
    size = torch.linalg.matrix_norm(gram, keepdim=True)
    empty = size <= 0  # a graph without nodes: L_o = 0, as L_c
    return torch.linalg.matrix_norm(torch.where(empty, eye, gram / torch.where(empty, 1.0, size)) - eye)


def orthogonality_loss(
    s: Tensor,
    adj: Any = None,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""The orthogonality loss L_o = ||S'S/||S'S||_F - I/sqrt(K)||_F, in [0, sqrt(2 - 2/sqrt(K))].

    >>> import torch
    >>> from softcut.ops import orthogonality_loss
    >>> orthogonality_loss(torch.eye(4)).item()
    0.0
    >>> round(orthogonality_loss(torch.eye(4)[[0, 0, 0, 0]]).item(), 6)   # one cluster used
    1.0

    Parameters
    ----------
    s : Tensor
        Soft assignments [N, K], or [B, N, K] for a dense batch ([N, R, K] with replicas needs `adj` or
        `batch` to be told from one).
    adj : Operator, Graph, edge_index or dense adjacency, optional
        Only says which rows belong to which graph, as `batch` does; the loss does not depend on the edges.
    edge_weight, batch, mask, reduction
        As for :func:`softcut.ops.mincut_loss`.
    """
    s = full_precision(check_assignments(s))
    with no_autocast(s):
        layout: Layout
        if adj is not None:
            s, op = assignment_input(s, adj, edge_weight, batch, mask)
            layout, mask = op.layout, op.mask
        elif edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; pass adj too.")
        elif batch is not None or s.dim() == 2:
            if mask is not None:
                raise GraphError("mask belongs to a dense batch [B, N, K]; pass batch with [N, K].")
            layout = Segments(s.shape[0], None if batch is None else batch_to_ptr(batch, s.shape[0]))
        else:
            if mask is not None and check_tensor(mask, "mask", "one value per node").shape != s.shape[:2]:
                raise GraphError(f"mask must have shape {list(s.shape[:2])}, got {list(mask.shape)}.")
            layout = Padded(s.shape[0], mask)
        s = zero_padding(s, mask)
        return reduce_graphs(orthogonality(self_gram(layout, s)), reduction, layout.occupied)
