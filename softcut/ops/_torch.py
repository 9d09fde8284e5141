"""Every private name of PyTorch that softcut uses, each with a fallback where PyTorch does not have it.

Nothing else in softcut reads a name of PyTorch that begins with an underscore. The fallbacks are correct
everywhere outside the transforms of ``torch.func`` and never faster than what they stand in for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

_Function = TypeVar("_Function", bound=type[torch.autograd.Function])


def signed(function: _Function) -> _Function:
    """The same function with the signature of its forward kept: PyTorch looks it up at every call, slowly."""
    forward: Any = function.forward
    forward.__signature__ = inspect.signature(forward)
    return function


try:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as _clear_stack
except ImportError:
    _clear_stack = nullcontext  # type: ignore[assignment]

_functorch: Any = getattr(torch._C, "_functorch", None)
_autograd: Any = getattr(torch._C, "_autograd", None)
_dispatch_keys: Any = getattr(torch._C, "_dispatch_keys", None)
_parse_key: Any = getattr(torch._C, "_parse_dispatch_key", None)
_BATCHED: Any = None if _parse_key is None else _parse_key("Batched")


def is_wrapped(t: Tensor) -> bool:
    """Whether a tensor belongs to a running transform of ``torch.func``."""
    ask = getattr(_functorch, "is_functorch_wrapped_tensor", None)
    return ask is not None and not torch.compiler.is_compiling() and bool(ask(t))


def records(t: Tensor) -> bool:
    """Whether autograd, a transform of ``torch.func`` or ``torch.compile`` follows what is done with a tensor."""
    return torch.is_grad_enabled() or torch.compiler.is_compiling() or is_wrapped(t)


def unwrapped_once(t: Tensor) -> Tensor | None:
    """The tensor one transform further out; None where the transform is ``torch.func.vmap``, over this very tensor."""
    return None if _functorch.is_batchedtensor(t) else _functorch.get_unwrapped(t)


def outside_transforms() -> AbstractContextManager[Any]:
    """Operations in here are not seen by the transforms of ``torch.func`` that are running."""
    ask = getattr(torch._C, "_are_functorch_transforms_active", None)
    return nullcontext() if ask is not None and not ask() else _clear_stack()


def in_gradient_batch(t: Tensor) -> bool:
    """Whether a tensor belongs to a batch of gradients (``torch.autograd.grad(..., is_grads_batched=True)``).

    True where PyTorch does not say: the caller then keeps to operations that are right in either case.
    """
    if _dispatch_keys is None or _BATCHED is None:
        return True
    return bool(_dispatch_keys(t).has(_BATCHED))


def keeps_graph() -> bool:
    """Whether the running backward pass may be run again; True where PyTorch does not say."""
    ask = getattr(_autograd, "_get_current_graph_task_keep_graph", None)
    return True if ask is None else bool(ask())


def saving_is_hooked() -> bool:
    """Whether tensors saved for the backward pass go through hooks; True where PyTorch does not say."""
    ask = getattr(_autograd, "_top_saved_tensors_default_hooks", None)
    if ask is None:
        return True
    try:
        return ask(True) is not None
    except TypeError:  # versions of PyTorch in which it takes no argument
        return ask() is not None


# Whether torch.export is running; before PyTorch 2.7, which cannot tell, torch.compile counts too.
is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


def known_size(t: Tensor) -> int:
    """A whole number that is 0 or more, and which an exported program finds out when it runs."""
    size = t.item()  # not int(t), which would ask for the number now
    if hasattr(torch.compiler, "is_exporting"):
        torch._check(size >= 0)
    else:  # PyTorch 2.6 has to be told that it is the size of a tensor
        torch._check_is_size(size)
    return size  # type: ignore[return-value]


def version(t: Tensor) -> int | None:
    """How often a tensor was changed in place; None where that is not counted (``torch.inference_mode``)."""
    return None if t.is_inference() else getattr(t, "_version", None)


# Gradients of a softmax (gradient, result, axis, type), of a ReLU (gradient, result, 0) and of an ELU (gradient,
# three factors of 1, True, result).
softmax_backward, relu_backward = torch._softmax_backward_data, torch.ops.aten.threshold_backward
elu_backward = torch.ops.aten.elu_backward

# One step of Adam on lists of parameters, gradients and moments, and an addition to all tensors of a list; in place.
fused_adam, add_to_each = torch._fused_adam_, torch._foreach_add_
