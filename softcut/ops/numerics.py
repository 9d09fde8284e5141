"""Helpers that operators and losses share: checks of arguments, precision, indices, divisions with finite gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError, ParameterError
from softcut.ops._torch import add_to_each, elu_backward, is_wrapped, relu_backward, softmax_backward

# The first number that int32 does not hold.
_INT32_END = 2**31


def counts_to_ptr(counts: Tensor) -> Tensor:
    """[B] counts to the pointer [B + 1]: where each of them begins."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def index_type(size: int) -> torch.dtype:
    """The type of indices up to `size`: int32 while it fits."""
    return torch.int32 if size < _INT32_END else torch.int64


def row_blocks(n: int, length: int) -> list[slice]:
    """The rows 0 to n, at most `length` at a time.

    >>> row_blocks(5, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return [slice(i, min(i + length, n)) for i in range(0, n, length)]


def full_precision(s: Tensor) -> Tensor:
    """`s` in float32 at least: the precision in which losses are accumulated."""
    return s.to(sum_type(s))


def sum_type(s: Tensor) -> torch.dtype:
    """The precision in which rows of `s` are added up: float32 at least."""
    return torch.promote_types(s.dtype, torch.float32)


def narrower(t: Tensor | None, dtype: torch.dtype) -> bool:
    """Whether a tensor holds numbers of less precision than `dtype`."""
    return t is not None and t.is_floating_point() and torch.finfo(t.dtype).bits < torch.finfo(dtype).bits


def no_autocast(s: Tensor) -> AbstractContextManager[Any]:
    """A context in which autocast is off on the device of `s`."""
    kind = s.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def safe_ratio(num: Tensor, den: Tensor) -> Tensor:
    """num / den, and 0 with a zero gradient where den is 0 (a graph without edges)."""
    empty = den <= 0
    return torch.where(empty, torch.zeros_like(num), num / torch.where(empty, 1.0, den))


def above_zero(x: Tensor) -> Tensor:
    """Whether numbers are positive; NaN counts as if it were, so that no `where` puts 0 in its place."""
    return ~(x <= 0)


def safe_sqrt(x: Tensor) -> Tensor:
    """sqrt(x), and 0 with a zero gradient where x is not positive (the true gradient at 0 is infinite)."""
    positive = above_zero(x)
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


def inverse_sqrt(degree: Tensor) -> Tensor:
    """d^-1/2, and 0 where d is 0, with a finite gradient everywhere (why the inner `where`).

    A learned degree that is next to nothing beside the largest one of its graph, such as that of a cluster nobody
    chose, is raised to a floor: the gradient of its scale, d^-3/2, would overflow.
    """
    positive = above_zero(degree)
    safe = torch.where(positive, degree, 1.0)
    if (degree.requires_grad or is_wrapped(degree)) and degree.numel() > 0:
        known = degree.detach()  # NaN in one graph is not the largest of the others
        known = torch.where(known.isnan(), 0.0, known)
        floor = known.amax(-1, keepdim=True) * torch.finfo(degree.dtype).eps ** 2
        safe = torch.maximum(safe, floor)
    return torch.where(positive, safe.rsqrt(), 0.0)


def softmax_gradient(grad: Tensor, result: Tensor, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """From the gradient of a softmax over an axis to that of its input, written into `out` where it is given."""
    given = {} if out is None else {"grad_input": out}
    return softmax_backward(grad, result, dim, result.dtype, **given)


def relu_gradient(grad: Tensor, result: Tensor) -> Tensor:
    """From the gradient of a ReLU to that of its input."""
    return relu_backward(grad, result, 0)


def elu_gradient(grad: Tensor, result: Tensor, out: Tensor | None = None) -> Tensor:
    """From the gradient of an ELU to that of its input, written into `out` (which may be `grad`) where it is given."""
    given = {} if out is None else {"grad_input": out}
    return elu_backward(grad, 1, 1, 1, True, result, **given)


def add_multiples(to: Sequence[Tensor], tensors: Sequence[Tensor], factor: float) -> None:
    """Add a multiple of each tensor to its fellow in `to`, in place."""
    add_to_each(to, tensors, alpha=factor)  # type: ignore[call-overload]


def per_row(values: Tensor, s: Tensor) -> Tensor:
    """One value per row in the precision of `s`, shaped to be multiplied with [rows, (R)]."""
    return values.to(s.dtype).view(*values.shape, *[1] * (s.dim() - 1 - values.dim()))


def zero_padding(s: Tensor, mask: Tensor | None) -> Tensor:
    """Rows that `mask` leaves out become 0, whatever they held; their gradient is 0."""
    if mask is None:
        return s
    return s.masked_fill(~mask.bool().view(*mask.shape, *[1] * (s.dim() - mask.dim())), 0.0)


def mean_of_graphs(values: Tensor, occupied: Tensor | None) -> Tensor:
    """Mean of one value per graph over the `occupied` graphs, those with nodes (None: all); 0 where there are none."""
    if occupied is None:
        return values.mean(0)
    kept = torch.where(occupied.view(-1, *[1] * (values.dim() - 1)), values, 0.0)
    return kept.sum(0) / occupied.sum().clamp(min=1)


def reduce_graphs(loss: Tensor, reduction: str, occupied: Tensor | None = None) -> Tensor:
    """Mean over the graphs of the batch that have nodes, sum over all graphs, or one value per graph."""
    if reduction == "mean":
        return mean_of_graphs(loss, occupied)
    if reduction == "sum":
        return loss.sum(0)
    if reduction == "none":
        return loss
    raise ParameterError(
        f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}.", argument="reduction"
    )


def check_tensor(value: Any, name: str, what: str) -> Tensor:
    """`value` itself, or a sentence where it is not an ordinary (strided) tensor."""
    if not isinstance(value, Tensor):
        raise GraphError(
            f"{name} must be a tensor of {what}, got {type(value).__name__}; convert it with torch.as_tensor."
        )
    if value.layout != torch.strided:
        raise GraphError(f"{name} must be a dense tensor of {what}, got a sparse one; call to_dense() first.")
    return value


def check_assignments(s: Any) -> Tensor:
    """`s` itself, or a sentence where it cannot be a matrix of assignments."""
    if not isinstance(s, Tensor) or not s.is_floating_point() or s.dim() < 2:
        got = f"{s.dtype} of shape {list(s.shape)}" if isinstance(s, Tensor) else type(s).__name__
        raise GraphError(f"s must be a floating-point tensor of assignments, [N, K] or [B, N, K], got {got}.")
    return check_tensor(s, "s", "assignments")


def can_be_read(t: Tensor) -> bool:
    """Whether the values of a tensor may be looked at now: not while operations are recorded or transformed."""
    if torch.compiler.is_compiling() or is_wrapped(t):
        return False
    return not (t.is_cuda and torch.cuda.is_current_stream_capturing())


def extremes(values: Tensor) -> tuple[float, float]:
    """The smallest and the largest of some values, in one pass; both are NaN where one value is."""
    low, high = torch.stack(values.detach().aminmax()).tolist()
    return low, high


def check_finite(values: Tensor, name: str) -> None:
    """A sentence where a value is NaN or infinite: it would spread without a word.

    Values that cannot be looked at pass, and those on a GPU, where every call would wait for the device.
    """
    if values.is_cuda or not can_be_read(values) or not values.numel():
        return
    low, high = extremes(values)
    if -math.inf < low and high < math.inf:
        return
    at = (~values.detach().isfinite()).nonzero()[0].tolist()
    place = at[0] if len(at) == 1 else tuple(at)
    raise GraphError(
        f"{name} must hold finite numbers, got {values[tuple(at)].item():g} at position {place}; "
        "correct or drop those edges."
    )


def segment_sums(v: Tensor, ptr: Tensor | None) -> Tensor:
    """Sums of the rows from each place of `ptr` to the next, row after row: a scatter on a GPU adds in any order."""
    assert ptr is not None
    if v.dim() == 1:
        return torch.segment_reduce(v.contiguous(), "sum", offsets=ptr, axis=0, initial=0)
    rows = v.flatten(1).contiguous()
    if v.is_cuda:
        sums = torch.segment_reduce(rows, "sum", offsets=ptr, axis=0, initial=0)
    else:  # the same sums, many times faster on a CPU
        number = torch.arange(len(rows), dtype=ptr.dtype, device=v.device)
        sums = torch.embedding_bag(rows, number, ptr, include_last_offset=True)[0]
    return sums.view(len(ptr) - 1, *v.shape[1:])
