"""The processes of a job: exchanging rows, adding up numbers, and stopping together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from softcut.errors import ParameterError, SoftcutError
from softcut.training.distributed.traffic import Traffic

__all__ = ["ProcessError", "TorchGroup", "process_group"]

_T = TypeVar("_T")


class ProcessError(SoftcutError, RuntimeError):
    """Another process of the job ended or failed, so this one cannot go on."""


@contextmanager
def _speaking(rank: int) -> Iterator[None]:
    """What PyTorch says about a lost connection, in one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ProcessError(
            f"process {rank}: another process of the job ended or cannot be reached ({reason}); run the same "
            "command again to go on from the last checkpoint, or start it with torchrun --max-restarts."
        ) from error


@dataclass
class _Counter:
    """Bytes so far: rows sent to other processes, and numbers added up."""

    halo: int = 0
    reduced: int = 0


class TorchGroup:
    """The processes of ``torch.distributed`` (see :func:`process_group`); counts what this one sends.

    Attributes
    ----------
    rank, size : int
        Which process this is, and how many there are.
    device : torch.device
        Where tensors are exchanged.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(device)
        self._sent = _Counter()

    @property
    def traffic(self) -> Traffic:
        """Bytes that this process sent as rows, and bytes of the numbers it added up, so far."""
        return Traffic(self._sent.halo, self._sent.reduced)

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same on all of them; `values` is overwritten."""
        self._sent.reduced += values.numel() * values.element_size()
        if self.size > 1:
            with _speaking(self.rank):
                dist.all_reduce(values)
        return values

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Rows for every process, one after another; returns those received."""
        rows = rows.contiguous()
        self._sent.halo += rows[0].numel() * rows.element_size() * sum(send) if len(rows) else 0
        if self.size == 1:
            return rows
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        with _speaking(self.rank):
            dist.all_to_all_single(received, rows, list(receive), list(send))
        return received

    def together(self, work: Callable[[], _T]) -> _T:
        """Do what each process does by itself; where it fails in one, all stop with its sentence."""
        result: Any = None
        problem: str | None = None
        try:
            result = work()
        except (SoftcutError, OSError) as error:
            problem = str(error)
        problems = self._gathered(problem)
        found = list(dict.fromkeys(each for each in problems if each is not None))
        if found:
            raise ProcessError(" ".join(found))
        return result

    def _gathered(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _speaking(self.rank):
            dist.all_gather_object(values, value)
        return values

    def shared(self, work: Callable[[], _T]) -> _T:
        """What `work` returns on process 0, on all of them."""
        first = self.together(lambda: work() if self.rank == 0 else None)
        if self.size == 1:
            return first  # type: ignore[return-value]
        box = [first]
        with _speaking(self.rank):
            dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]  # type: ignore[return-value]


@contextmanager
def process_group(device: str = "auto", timeout: float = 600.0) -> Iterator[TorchGroup]:
    """The processes that ``torchrun`` started; without torchrun, this process alone.

    >>> with process_group("cpu") as group:
    ...     group.size, group.all_reduce(torch.ones(2)).tolist()
    (1, [1.0, 1.0])

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        "cuda": one GPU per process and nccl; "cpu": gloo. "auto": GPUs where there are enough for all processes of
        this machine.
    timeout : float
        Seconds to wait for another process before giving up.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.")
    local, here = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    gpus = torch.cuda.device_count() if device != "cpu" else 0
    if device == "cuda" and gpus < here:
        raise ParameterError(
            f"device is 'cuda', but {here} processes of this machine have {gpus} GPUs; start as many as there are."
        )
    chosen = torch.device("cuda", local) if gpus >= here and gpus else torch.device("cpu")
    backend = "gloo"
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        backend = "nccl"
    wait = timedelta(seconds=timeout)
    if "RANK" in os.environ:
        with _speaking(int(os.environ["RANK"])):
            dist.init_process_group(backend, timeout=wait)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=wait)
    try:
        yield TorchGroup(chosen)
    finally:
        dist.destroy_process_group()
