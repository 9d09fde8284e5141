"""One step of distributed training: the losses of the whole graph, the gradients of all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from softcut.clustering.distributed.group import JobGroup
from softcut.clustering.distributed.traffic import Traffic
from softcut.clustering.networks import Start
from softcut.clustering.prepare import Prepared
from softcut.ops.halo import Group
from softcut.training import Checkpoint, DenseInput, FirstLayer, ReplicaNet, TrainSettings
from softcut.training.mincut import ClusteringTask, named_loss, start_rows

__all__ = ["PartTask", "SharedCheckpoint"]


@dataclass(frozen=True)
class SharedCheckpoint(Checkpoint):
    """A checkpoint of values that all processes share: process 0 writes it, and reads it for all."""

    group: JobGroup = field(default_factory=JobGroup)  # the processes
    resumed_at: list[int] = field(
        default_factory=list
    )  # iterations done when a training was resumed from here

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


class PartTask(ClusteringTask):
    """The step of :func:`softcut.training.train`, with the sums and gradients of all processes.

    `own` are the numbers of the own nodes in the whole graph. `began` is what this process had sent when the last step
    began, `trained` the networks of that step.
    """

    def __init__(
        self,
        net: ReplicaNet,
        prepared: Prepared,
        own: np.ndarray,
        settings: TrainSettings,
        group: JobGroup,
        start: Start | None = None,
    ) -> None:
        worth = torch.tensor([prepared.judge.edges], dtype=torch.float64, device=prepared.device)
        op, loss = named_loss(
            prepared.encoded.op,
            settings,
            None if start is None else start.sizes,
            prepared.adjacency,
            prepared.words,
            worth,
        )
        op.degree_like(net.bias)  # constant, and asked of the other processes once: here
        super().__init__(net, prepared.encoded.inputs, op, settings, loss, None)
        self.capturable = False  # messages are no part of a CUDA graph
        self.group, self.began, self.trained = group, Traffic(0, 0), net.replicas
        if start is not None:
            self.start, self.learned = start.labels, prepared.nodes.count
            if isinstance(self.inputs, DenseInput):  # the nodes that a single process learns it from
                chosen = start_rows(prepared.nodes.count)
                rows = torch.from_numpy(np.flatnonzero(own % chosen.step == 0)).to(start.labels.device)
                self.start, self.start_inputs = start.labels[:, rows], DenseInput(self.inputs.z[:, rows])
                self.learned = len(chosen)

    def logits(self, inputs: FirstLayer) -> Tensor:
        shared = _SharedParameters.apply(self.group, *self.parameters.values())
        return functional_call(self.net, dict(zip(self.parameters, shared, strict=True)), (inputs,))

    def step(self) -> dict[str, Tensor]:
        self.began, self.trained = self.group.traffic, self.net.replicas
        return super().step()

    def warm_up(self) -> Tensor:
        assert self.start is not None
        errors = nn.functional.cross_entropy(self.logits(self.start_inputs), self.start, reduction="none")
        return self.op.layout.over_all(errors.sum(1)) / self.learned
