"""One step of distributed training: the losses of the whole graph, the gradients of all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from softcut.ops.halo import Group, Halo
from softcut.training.checkpoint import Checkpoint
from softcut.training.distributed.group import JobGroup
from softcut.training.distributed.inputs import Start
from softcut.training.distributed.traffic import Traffic
from softcut.training.inputs import FirstLayer
from softcut.training.mincut import replica_losses
from softcut.training.net import ReplicaNet
from softcut.training.task import Task

__all__ = ["PartTask", "SharedCheckpoint"]


@dataclass(frozen=True)
class SharedCheckpoint(Checkpoint):
    """A checkpoint of values that all processes share: process 0 writes it, and reads it for all.

    Attributes
    ----------
    group : JobGroup
        The processes.
    resumed_at : list of int
        The iterations that a training had done when it was resumed from here; empty for a new one.
    """

    group: JobGroup = field(default_factory=JobGroup)
    resumed_at: list[int] = field(default_factory=list)

    def write(self, state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        if self.group.rank == 0:
            super().write(state, settings)

    def read(self, settings: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
        read = super().read
        state = self.group.shared(lambda: read(settings, torch.device("cpu")))
        if state is None:
            return None
        self.resumed_at.append(state["done"])
        return _moved(state, device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    return [_moved(each, device) for each in value] if isinstance(value, list) else value


class _SharedParameters(torch.autograd.Function):
    """The parameters as they are; their gradients are added up over all processes, in one message."""

    @staticmethod
    def forward(group: Group, *parameters: Tensor) -> tuple[Tensor, ...]:
        return tuple(p.view_as(p) for p in parameters)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.group = inputs[0]

    @staticmethod
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        flat = ctx.group.all_reduce(torch.cat([g.reshape(-1) for g in gradients]))
        pieces = flat.split([g.numel() for g in gradients])
        return None, *(piece.view_as(g) for piece, g in zip(pieces, gradients, strict=True))


class PartTask(Task):
    """The step of :func:`softcut.training.train`, with the sums and gradients of all processes.

    Parameters
    ----------
    net : ReplicaNet
        The same on every process.
    inputs : FirstLayer
        Features of the own nodes.
    op : Halo
        The own rows of A~.
    nodes : int
        Nodes of the whole graph.
    temperature : float
        Of the softmax.
    start : Start, optional
        What replicas learn first.

    Attributes
    ----------
    step_began : Traffic
        What this process had sent when the last step began.
    """

    def __init__(
        self,
        net: ReplicaNet,
        inputs: FirstLayer,
        op: Halo,
        nodes: int,
        temperature: float = 1.0,
        start: Start | None = None,
    ) -> None:
        self.net, self.inputs, self.op, self.nodes = net, inputs, op, nodes
        self.temperature, self.start = temperature, start
        self.parameters = dict(net.named_parameters())
        self.step_began = Traffic(0, 0)

    def _logits(self) -> Tensor:
        shared = _SharedParameters.apply(self.op.layout.group, *self.parameters.values())
        return functional_call(self.net, dict(zip(self.parameters, shared, strict=True)), (self.inputs,))

    def step(self) -> dict[str, Tensor]:
        self.step_began = getattr(self.op.layout.group, "traffic", self.step_began)
        s = torch.softmax(self._logits() / self.temperature, dim=1).permute(2, 0, 1)
        sizes = None if self.start is None else self.start.sizes
        cut, ortho = replica_losses(self.op, s, sizes=sizes)
        return {"cut": cut, "ortho": ortho}

    def warm_up(self) -> Tensor:
        assert self.start is not None
        errors = nn.functional.cross_entropy(self._logits(), self.start.labels, reduction="none")  # [R, n]
        return self.op.layout.total(errors.mT).squeeze(0) / self.nodes
