"""R trainings of one model in one step: each on its own examples, with its own weights, order and targets.

Examples are gathered by index on the device, and ``torch.func.vmap`` gives the model its replica axis. Shapes never
change and no number leaves the device within an epoch, so that on a GPU a step is one CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from softcut.errors import ParameterError
from softcut.graph.collection import Split
from softcut.training.task import LoopSettings, Patience, Task

# From what a model returns for a batch, and the targets, to named losses with one number per example: [B] each.
Losses = Callable[[Any, Tensor], Mapping[str, Tensor]]
_MEASURED = ("validation", "test")


class DenseBatchTask(Task):
    """R models of one architecture, trained side by side on mini-batches of padded examples.

    Three lines through noise, each fitted to its own third of the examples:

    >>> import numpy as np, torch
    >>> from softcut.graph import Split
    >>> from softcut.training import DenseBatchTask, Loop
    >>> x = torch.linspace(-1, 1, 60).unsqueeze(1)
    >>> y = torch.stack([slope * x[:, 0] for slope in (1.0, 2.0, 3.0)])
    >>> rows = np.random.default_rng(0).permutation(60).reshape(3, 20)
    >>> parts = [Split(own[:12], own[12:16], own[16:]) for own in rows]
    >>> def losses(output, target):
    ...     return {"mse": (output.squeeze(-1) - target).square()}
    >>> models = [torch.nn.Linear(1, 1) for _ in range(3)]
    >>> task = DenseBatchTask(models, [x], y, parts, losses, seeds=[0, 1, 2], batch=4)
    >>> result = Loop(task, task.settings(epochs=200, lr=0.05, minimise={"mse": 1.0})).run()
    >>> [round(v, 2) for v in task.parameters["weight"].flatten().tolist()]
    [1.0, 2.0, 3.0]
    >>> bool((result.validation["test_mse"][-1] < 1e-4).all())
    True

    Parameters
    ----------
    models : sequence of nn.Module
        One per replica; they differ in their parameters and buffers alone. A model is called with one tensor per
        input, [B, ...] each, and must not look at the values (no ``if`` on a tensor). Linear layers are fastest on
        two axes: flatten [B, N, F] to [B * N, F] first.
    inputs, targets : sequence of Tensor [G, ...], and Tensor [R, G, ...]
        The examples that all replicas share, on the device, and what each replica should predict.
    parts, seeds : sequences of Split and int
        Which examples each replica uses, and what for; the seed of its order.
    losses : callable
        ``losses(output, target)``: named losses with one number per example.
    batch, evaluation_batch : int
        Examples of each replica in a step, and at once when no gradients are needed. A batch that reaches the end of
        an order goes on with the next one; ``steps`` is the longest training part in batches.
    compiled : bool
        Compile the step with ``torch.compile``, which merges small operations; takes a minute once.
    """

    validates = True
    capturable = True

    def __init__(
        self,
        models: Sequence[nn.Module],
        inputs: Sequence[Tensor],
        targets: Tensor,
        parts: Sequence[Split],
        losses: Losses,
        seeds: Sequence[int],
        batch: int = 32,
        evaluation_batch: int = 1024,
        compiled: bool = False,
    ) -> None:
        counts = {"models": len(models), "targets": len(targets), "parts": len(parts), "seeds": len(seeds)}
        if len(set(counts.values())) != 1 or not models:
            raise ParameterError(f"there must be one of each per replica, got {counts}.", argument="models")
        for name, size in (("batch", batch), ("evaluation_batch", evaluation_batch)):
            if size < 1:
                raise ParameterError(f"{name} must be at least 1, got {size}.", argument=name)
        if any(not len(getattr(own, part)) for own in parts for part in ("train", *_MEASURED)):
            raise ParameterError(
                "parts must not be empty: every replica trains, is validated and is tested.", argument="parts"
            )
        self.device = targets.device
        self.model = models[0]
        stacked, buffers = stack_module_state(list(models))
        self.parameters = {n: value.detach().to(self.device).requires_grad_() for n, value in stacked.items()}
        self._all_buffers = {name: value.to(self.device) for name, value in buffers.items()}
        self.inputs, self._all_targets = list(inputs), targets
        self.losses, self.batch, self.evaluation_batch = losses, batch, evaluation_batch
        self.seeds, self.parts = list(seeds), list(parts)
        self._train = [torch.from_numpy(np.asarray(own.train)).to(self.device) for own in parts]
        self.steps = math.ceil(max(len(own.train) for own in parts) / batch)
        self._step_values = torch.compile(self._values, dynamic=False) if compiled else self._values
        self._within = torch.arange(batch, device=self.device)
        self._cursor = torch.zeros((), dtype=torch.long, device=self.device)  # the next step of this epoch
        self.epoch = 0
        self.select(torch.arange(len(models), device=self.device))

    def settings(
        self, epochs: int, lr: float, minimise: Mapping[str, float], watch: str | None = None
    ) -> LoopSettings:
        """For the loop: all epochs are run, the parameters are those of the last one; the best is that by `watch`.

        The result's `validation` holds the losses of every epoch by their names, on the validation part and, with
        ``test_`` and ``training_`` (mean over the epoch's batches) before them, on the others.
        """
        return LoopSettings(
            iterations=self.steps * epochs,
            lr=lr,
            minimise=minimise,
            check_every=self.steps,
            record_every=self.steps,
            stop=Patience(patience=epochs, watch=watch or next(iter(minimise)), restore=False),
        )

    def order(self, replica: int, epoch: int) -> Tensor:
        """Examples of one replica in an epoch, batch after batch: a window of an endless row of permutations."""
        own, length = self._train[replica], self.steps * self.batch
        first, start = divmod(epoch * length, len(own))
        pieces = []
        for number in range(first, (epoch * length + length - 1) // len(own) + 1):
            mixed = np.random.SeedSequence([self.seeds[replica], number]).generate_state(1, np.uint64)[0]
            generator = torch.Generator(self.device).manual_seed(int(mixed >> np.uint64(1)))
            pieces.append(own[torch.randperm(len(own), generator=generator, device=self.device)])
        return torch.cat(pieces)[start : start + length]

    def _begin_epoch(self, epoch: int, cursor: int = 0) -> None:
        self.epoch = epoch
        for row, replica in enumerate(self.active):
            self._order[row] = self.order(replica, epoch)
        self._cursor.fill_(cursor)
        for total in self._training.values():
            total.zero_()

    def _values(
        self, parameters: Mapping[str, Tensor], inputs: Sequence[Tensor], targets: Tensor
    ) -> dict[str, Tensor]:
        """Losses of every example [A, B]."""

        def one(own: Mapping[str, Tensor], batch: Sequence[Tensor], target: Tensor) -> dict[str, Tensor]:
            return dict(self.losses(functional_call(self.model, dict(own), tuple(batch)), target))

        return vmap(one)(parameters, inputs, targets)

    def _gather(self, rows: Tensor) -> tuple[list[Tensor], Tensor]:
        return [x[rows] for x in self.inputs], self.targets[self._rank, rows]

    def step(self) -> Mapping[str, Tensor]:
        rows = self._order.index_select(1, self._cursor * self.batch + self._within)
        values = self._step_values({**self.parameters, **self._buffers}, *self._gather(rows))
        means = {name: value.mean(1) for name, value in values.items()}
        with torch.no_grad():
            for name, mean in means.items():
                if name not in self._training:
                    self._training[name] = torch.zeros_like(mean)
                self._training[name] += mean
            self._cursor += 1
        return means

    @torch.no_grad()
    def evaluate(self, part: str) -> dict[str, Tensor]:
        """Mean losses [A] of the active replicas on their part "validation" or "test"."""
        table, weight = self._tables[part]
        total: dict[str, Tensor] = {}
        for rows, counted in zip(*(t.split(self.evaluation_batch, 1) for t in (table, weight)), strict=True):
            values = self._values({**self.parameters, **self._buffers}, *self._gather(rows))
            for name, value in values.items():
                new = (value.double() * counted).sum(1)
                total[name] = total[name] + new if name in total else new
        return {name: value / weight.sum(1) for name, value in total.items()}

    def validate(self) -> Mapping[str, Tensor]:
        """Losses on the validation and test parts, and the mean of the training losses since the last look."""
        values = self.evaluate("validation")
        values |= {f"test_{name}": value for name, value in self.evaluate("test").items()}
        values |= {f"training_{name}": total / self._cursor for name, total in self._training.items()}
        self._begin_epoch(self.epoch + 1)
        return values

    def select(self, active: Tensor) -> None:
        self.active = active.tolist()
        self._buffers = {name: value[active] for name, value in self._all_buffers.items()}
        self.targets = self._all_targets[active]
        count = len(self.active)
        self._rank = torch.arange(count, device=self.device).unsqueeze(1)
        self._order = torch.zeros(count, self.steps * self.batch, dtype=torch.long, device=self.device)
        self._training: dict[str, Tensor] = {}  # sums of this epoch's losses [A]
        self._tables = {part: self._table(part) for part in _MEASURED}
        self._begin_epoch(self.epoch)

    def _table(self, part: str) -> tuple[Tensor, Tensor]:
        """The examples of a part of every active replica, filled up to the longest, and 0 for what was filled."""
        own = [np.asarray(getattr(self.parts[replica], part)) for replica in self.active]
        table = np.zeros((len(own), max(map(len, own))), np.int64)
        weight = np.zeros(table.shape)
        for row, numbers in enumerate(own):
            table[row, : len(numbers)], weight[row, : len(numbers)] = numbers, 1.0
        return torch.from_numpy(table).to(self.device), torch.from_numpy(weight).to(self.device)

    def state(self) -> dict[str, Any]:
        sums = {name: total.clone() for name, total in self._training.items()}
        return {"epoch": self.epoch, "cursor": int(self._cursor), "training": sums}

    def load_state(self, state: dict[str, Any]) -> None:
        self._begin_epoch(int(state["epoch"]), int(state["cursor"]))
        self._training = {name: total.to(self.device) for name, total in state["training"].items()}
