"""Which device computes, and with how many threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from softcut.errors import ParameterError

if TYPE_CHECKING:
    import torch

# With fewer numbers (rows x networks x units) in a training, one thread is as fast as two: waking the others at every
# operation costs what they save, and more beside other jobs.
_ONE_THREAD = 1 << 21
# The largest block that glibc learns from (32 MiB, its own bytes included): larger ones always go back to the system.
_KEPT_BYTES = (32 << 20) - 8192


def choose_device(name: str | torch.device) -> torch.device:
    """The device for a name; "auto" is a GPU where there is one.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    import torch  # here: `softcut --help` need not wait for it

    if not isinstance(name, str | torch.device):
        raise ParameterError(
            f"device must be 'auto', 'cpu', 'cuda' or a torch.device, got {name!r}.", argument="device"
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" and the like make tensors, but compute nothing
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ParameterError(
            f"device {name!r} cannot be used here; try 'auto' or 'cpu'.", argument="device"
        ) from error
    return device


def memory_of(device: torch.device) -> float:
    """Bytes of memory that a device has; without end where that cannot be told.

    >>> import torch
    >>> memory_of(torch.device("cpu")) > 2**20
    True
    """
    import torch

    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    names = getattr(os, "sysconf_names", {})  # not on Windows
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return float("inf")
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def threads_for(numbers: float, device: torch.device) -> Iterator[None]:
    """One thread while a CPU works on a few numbers; as many as before for the rest.

    >>> import torch
    >>> with threads_for(1000, torch.device("cpu")):
    ...     torch.get_num_threads()
    1
    """
    import torch

    if device.type == "cpu" and 4 * numbers <= _KEPT_BYTES:
        _keep_freed_memory()
    before = torch.get_num_threads()
    with _threads(1 if numbers < _ONE_THREAD and device.type == "cpu" else before):
        yield


def _keep_freed_memory() -> None:
    """Let glibc keep what tensors free: it would give memory back at every step, and ask the system for it anew.

    How much it keeps follows the largest block that was freed, here one that nothing was written to; no effect
    elsewhere.
    """
    import torch

    torch.empty(_KEPT_BYTES, dtype=torch.uint8)


@contextmanager
def shared_threads(jobs: int) -> Iterator[None]:
    """The threads of single operations, shared between jobs that run side by side.

    >>> import torch
    >>> with shared_threads(1000):
    ...     torch.get_num_threads()
    1
    """
    import torch

    with _threads(max(1, torch.get_num_threads() // jobs)):
        yield


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    if wanted != before:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if wanted != before:
            torch.set_num_threads(before)
