"""Arrays from any input that holds numbers, and parts of messages; shared by the other modules of tables/."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}


def as_array(value: Any, argument: str) -> np.ndarray:
    """A NumPy array of an array, list or torch tensor, or a GraphError that names the argument."""
    if hasattr(value, "detach"):  # torch, without importing it
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    refuse_masked(value, argument)
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise GraphError(
            f"{argument} has rows of different lengths, or values that are not numbers: pass a full array."
        ) from None


def refuse_masked(value: Any, argument: str) -> None:
    """Refuse a masked array, or a list with one in it: NumPy would pass on the values behind the mask."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    hidden = sum(np.ma.count_masked(part) for part in parts if isinstance(part, np.ma.MaskedArray))
    if hidden:
        raise GraphError(
            f"{argument} is a masked array with {plural(int(hidden), 'masked value')}: fill them in, or leave out "
            "such rows or edges."
        )


def are_whole(values: np.ndarray) -> np.ndarray:
    """Which floats are integers that a float holds exactly."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)


def to_dense(x: Any) -> np.ndarray:
    """A dense array of a dense or sparse one."""
    return x.toarray() if sp.issparse(x) else x


def is_torch_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor of torch."""
    return str(getattr(value, "layout", "")).startswith("torch.sparse")


def torch_sparse_to_scipy(value: Any) -> sp.csr_array:
    """A sparse tensor of torch as a matrix of scipy."""
    coo = value.detach().cpu().to_sparse_coo().coalesce()
    index = coo.indices().numpy()
    return sp.csr_array(sp.coo_array((coo.values().numpy(), (index[0], index[1])), shape=tuple(coo.shape)))


def is_missing(field: str) -> bool:
    """Whether a field means that there is no value."""
    return field.strip().lower() in _MISSING


def warn_caller(message: str) -> None:
    """Warn at the first caller outside softcut, however deep the constructor was called from."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("softcut."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an array as plain integers, for messages."""
    return tuple(int(size) for size in array.shape)


def plural(count: int, noun: str) -> str:
    """A count and its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a message, in quotes, the rest counted."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def shown(text: str) -> str:
    """A text in quotes for a message, cut where it is long."""
    text = text.strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")
