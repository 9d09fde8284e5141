"""GPU kernels for the sparse product and the cut loss, in Triton, behind the same calls as everything else.

Nothing here is needed: where Triton or a GPU is absent, or a product is small, PyTorch's own operations are used. This
file decides which product goes to a kernel.

    plan.py       how rows are shared out to programs; tile sizes, or measured ones (benchmarks/gpu_tuning.py)
    product.py    A S, the two sums of the cut loss with it, and their gradient; S'Y and S M per graph or replica
    programs.py   the Triton programs
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.ops._torch import is_wrapped

__all__ = ["FEWEST", "FEWEST_SMALL", "installed", "mode", "takes", "use"]

MODES = ("auto", "torch", "triton")
# With fewer gathered numbers (entries times columns), PyTorch's own product is as fast as a kernel.
FEWEST = 1 << 22
# With fewer multiplications, PyTorch's own products of small matrices are as fast.
FEWEST_SMALL = 1 << 19
_PRECISIONS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def _checked(mode: str, name: str) -> str:
    if mode not in MODES:
        raise ParameterError(
            f"{name} must be one of {', '.join(map(repr, MODES))}, got {mode!r}.", argument=name
        )
    return mode


_mode = [_checked(os.environ.get("SOFTCUT_KERNELS", "auto"), "the environment variable SOFTCUT_KERNELS")]


@contextmanager
def use(mode: str) -> Iterator[None]:
    """Products in here go to the kernels that `mode` names; for comparisons and tests.

    "auto" decides by device, size and precision; "torch" is PyTorch only; "triton" takes the kernels wherever they can
    run, however small the product. The environment variable SOFTCUT_KERNELS sets the mode for a whole process.

    >>> import torch
    >>> from softcut.ops.kernels import takes, use
    >>> with use("torch"):
    ...     takes(torch.ones(2, 2), entries=10**9)
    False
    """
    _mode.append(_checked(mode, "mode"))
    try:
        yield
    finally:
        _mode.pop()


def mode() -> str:
    """The mode of now: "auto", or what was asked for.

    >>> with use("torch"):
    ...     mode()
    'torch'
    """
    return _mode[-1]


@cache
def installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


@cache
def _works(device: torch.device) -> bool:
    """Whether a kernel compiles and runs on this device; Triton needs a C compiler, for one."""
    try:
        from softcut.ops.kernels.plan import row_plan
        from softcut.ops.kernels.product import gram, matmul, row_product

        rowptr = torch.tensor([0, 1, 2], dtype=torch.int32, device=device)
        x = torch.ones(2, 4, device=device)
        rows, kernel = torch.ones(2, 1, 4, device=device), torch.ones(1, 1, 4, 4, device=device)
        checks = (
            row_product(rowptr[:-1].clone(), None, x, None, row_plan(rowptr))[0] == 1,
            gram(rows, rows) == 2,
            matmul(rows, kernel) == 4,
        )
        return all(bool(right.all()) for right in checks)
    except Exception as error:  # whatever a compiler or a driver may raise
        warnings.warn(
            f"the GPU kernels of softcut cannot be used here ({type(error).__name__}: {error}); "
            "PyTorch's own products are used, which are slower.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False


def on_cpu(s: Tensor) -> bool:
    """Whether what is written out for CPUs may be used: not where kernels are asked for by name.

    >>> import torch
    >>> on_cpu(torch.ones(3, 2))
    True
    """
    return s.device.type == "cpu" and mode() != "triton"


def takes(s: Tensor, entries: int, fewest: int = FEWEST) -> bool:
    """Whether the product of a matrix that has `entries` entries with `s` [N, K] goes to a kernel.

    Its device, precision and number of columns decide; a kernel is faster where entries times
    columns are at least `fewest`.

    >>> import torch
    >>> takes(torch.ones(3, 2), entries=4)  # a CPU
    False
    """
    asked = mode()
    if asked == "torch" or (asked == "auto" and not s.is_cuda):
        return False
    if torch.compiler.is_compiling() or is_wrapped(s) or s.dtype not in _PRECISIONS:
        return False
    if asked == "triton":
        return installed()
    if entries * s.shape[-1] < fewest or not installed():
        return False
    if os.environ.get("TRITON_INTERPRET") == "1":  # hours, on a large product
        return False
    device = torch.device("cuda", s.device.index or 0)
    # The first launch compiles and waits, which must not happen while a CUDA graph is captured.
    if _works.cache_info().currsize == 0 and torch.cuda.is_current_stream_capturing():
        return False
    return _works(device)
