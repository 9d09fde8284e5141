"""The processes of a job: exchanging rows, adding up numbers, and stopping together."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import safetensors.torch
import torch
import torch.distributed as dist

# Imported before a group is started: its functions keep the group of that moment as a default argument, which would
# then never be closed, and threads of gloo would now and then end a finished process with SIGABRT.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from softcut.errors import ParameterError, SoftcutError

_T = TypeVar("_T")
_LAST_MESSAGE = 0.2  # seconds that threads get to drop it


class JobError(SoftcutError, ValueError):
    """An error of one process (a damaged part, say) that all of them raise."""


class ProcessError(SoftcutError, RuntimeError):
    """Another process of the job ended or cannot be reached, so this one cannot go on."""


@dataclass(frozen=True)
class Traffic:
    """Bytes between processes."""

    halo: int  # of rows sent to other processes
    reduced: int  # of numbers that are added up over all processes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo + other.halo, self.reduced + other.reduced)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.halo - other.halo, self.reduced - other.reduced)


def step_traffic(
    sent_rows: int,
    k: int,
    columns: int,
    *,
    hidden: int = 16,
    replicas: int = 1,
    terms: int = 1,
    itemsize: int = 4,
    objective: str = "evidence",
    vocabulary: int = 0,
    held: bool = True,
) -> Traffic:
    """Bytes of one step of a process that sends `rows` rows (or of all processes, with the rows of all).

    `vocabulary` is the number of words that the evidence counts besides edges; `held` says whether clusters are held to
    the sizes of their start, which needs S'S. Other arguments are those of the networks.
    """
    # Evidence: S'AS, S'1, S'X, and S'S. Cut: Tr S'A~S, Tr S'D~S and S'S.
    sums = k * k + k + k * vocabulary + held * k * k if objective == "evidence" else k * k + 2
    parameters = terms * hidden * columns + hidden + k * hidden + k
    return Traffic(itemsize * replicas * k * sent_rows, itemsize * replicas * (sums + parameters))


@contextmanager
def _speaking(rank: int) -> Iterator[None]:
    """What PyTorch says about a lost connection, in one sentence."""
    try:
        yield
    except RuntimeError as error:
        # gloo: "[file:line] Read error [address]: reason. Advice ..."
        reason = re.sub(r"^\[\S+\] (.*error \[\S+: )?", "", str(error).strip()).split(". ")[0].splitlines()[0]
        raise ProcessError(
            f"process {rank}: another process of the job ended or cannot be reached ({reason}); run the same "
            "command again to go on from the last checkpoint; torchrun --max-restarts does so by itself."
        ) from error


def packed(value: Any) -> Tensor:
    """Numbers, text, tensors, and lists and dictionaries of them as bytes [n] that :func:`unpacked` reads.

    JSON beside the tensors: what comes from another process is never unpickled, which would run its code.

    >>> unpacked(packed({"done": 3, "best": [torch.ones(2)]}))
    {'done': 3, 'best': [tensor([1., 1.])]}
    """
    tensors: dict[str, Tensor] = {}

    def stored(each: Any) -> Any:
        if isinstance(each, Tensor):
            tensors[str(len(tensors))] = each.detach().cpu().clone(memory_format=torch.contiguous_format)
            return {"tensor": str(len(tensors) - 1)}
        if isinstance(each, dict):
            return {"items": {key: stored(item) for key, item in each.items()}}
        return [stored(item) for item in each] if isinstance(each, list | tuple) else each

    text = json.dumps(stored(value)).encode()
    tensors["value"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return torch.frombuffer(bytearray(safetensors.torch.save(tensors)), dtype=torch.uint8)


def unpacked(data: Tensor) -> Any:
    """The reverse of :func:`packed`."""
    tensors = safetensors.torch.load(data.cpu().numpy().tobytes())

    def value_of(each: Any) -> Any:
        if isinstance(each, list):
            return [value_of(item) for item in each]
        if not isinstance(each, dict):
            return each
        return (
            tensors[each["tensor"]]
            if "tensor" in each
            else {k: value_of(v) for k, v in each["items"].items()}
        )

    return value_of(json.loads(tensors["value"].numpy().tobytes()))


class JobGroup:
    """The processes of a job; counts the bytes that this one sends. Subclasses say how they are sent.

    By itself, a job of a single process:

    >>> group = JobGroup()
    >>> group.all_reduce(torch.ones(2)).tolist(), group.traffic
    ([1.0, 1.0], Traffic(halo=0, reduced=8))
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank, self.size = rank, size  # which process this is, and how many there are
        self.device = torch.device(device)  # where tensors are exchanged
        self.traffic = Traffic(0, 0)  # what this process sent so far

    def add_up(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        return values

    def deliver(self, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        """Rows of all processes for this one."""
        return rows

    def gather(self, value: Any) -> list[Any]:
        """What every process has (see :func:`packed`), in their order; for small things, and never in a step."""
        return [value]

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same on all of them; `values` may be overwritten."""
        self.traffic += Traffic(0, values.numel() * values.element_size())
        return self.add_up(values)

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Rows for every process, one after another; returns those received."""
        self.traffic += Traffic(rows.numel() * rows.element_size(), 0)
        return self.deliver(rows.contiguous(), list(send), list(receive))

    def together(self, work: Callable[[], _T]) -> _T:
        """Do what each process does by itself; where it fails in one, all stop with its sentence."""
        result: Any = None
        problem: str | None = None
        try:
            result = work()
        except (SoftcutError, OSError) as error:
            problem = str(error)
        problems = [each for each in self.gather(problem) if each is not None]
        if problems:
            raise JobError(" ".join(dict.fromkeys(problems)))
        return result

    def shared(self, work: Callable[[], _T]) -> _T:
        """What `work` returns on process 0, on all of them."""
        return self.gather(self.together(lambda: work() if self.rank == 0 else None))[0]


class TorchGroup(JobGroup):
    """The processes of ``torch.distributed``, which :func:`process_group` starts."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        super().__init__(dist.get_rank(), dist.get_world_size(), device)

    def add_up(self, values: Tensor) -> Tensor:
        with _speaking(self.rank):
            dist.all_reduce(values)
        return values

    def deliver(self, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        with _speaking(self.rank):
            dist.all_to_all_single(received, rows, receive, send)
        return received

    def gather(self, value: Any) -> list[Any]:
        own = packed(value).to(self.device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        with _speaking(self.rank):
            dist.all_gather(sizes, torch.tensor([len(own)], device=self.device))
            most = max(map(int, sizes))
            every = [own.new_empty(most) for _ in sizes]
            dist.all_gather(every, torch.cat([own, own.new_zeros(most - len(own))]))
        return [unpacked(each[: int(size)]) for each, size in zip(every, sizes, strict=True)]


@contextmanager
def process_group(device: str = "auto", timeout: float = 600.0) -> Iterator[JobGroup]:
    """The processes that ``torchrun`` started; without torchrun, this process alone.

    >>> with process_group("cpu") as group:
    ...     group.size, group.all_reduce(torch.ones(2)).tolist()
    (1, [1.0, 1.0])

    The `device` "cuda" is one GPU per process and nccl, "cpu" is gloo, "auto" takes GPUs where there are enough for
    all processes of this machine. A process waits `timeout` seconds for another one before it gives up.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.", argument="device")
    local, here = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    gpus = torch.cuda.device_count() if device != "cpu" else 0
    if device == "cuda" and gpus < here:
        raise ParameterError(
            f"device is 'cuda', but {here} processes of this machine have {gpus} GPUs; start as many as there are.",
            argument="device",
        )
    chosen = torch.device("cuda", local) if gpus >= here else torch.device("cpu")
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if "RANK" not in os.environ:
        yield JobGroup(device=chosen)
        return
    wait = timedelta(seconds=timeout)
    with _speaking(int(os.environ["RANK"])):
        store, rank, size = next(iter(rendezvous("env://", timeout=wait)))
        # torchrun keeps one store for all restarts: without a name of its own, a restarted process would look for
        # the others at the addresses of those that ended.
        attempt = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=attempt, rank=rank, world_size=size, timeout=wait)
    try:
        group = TorchGroup(chosen)
        yield group
        group.gather(None)  # all leave together: none closes its connections while another still works
    finally:
        # In older versions of PyTorch the end holds the interpreter while it waits for threads that may need it, to
        # drop their last message: they get the time before.
        time.sleep(_LAST_MESSAGE)
        dist.destroy_process_group()
