"""What the training loop is given and gives back: a task, stop rules, settings, progress, a result, checkpoints.

:class:`Plateau` ends training for all replicas together and leaves the last parameters. :class:`Patience` ends
each replica on its own, and keeps what it had at its best moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.errors import FileFormatError, ParameterError
from softcut.files import atomic_write


def check_numbers(settings: Any, positive: Sequence[str], not_negative: Sequence[str] = ()) -> None:
    """An error where a number of the settings is out of its range."""
    for name in positive:
        if not getattr(settings, name) > 0:
            raise ParameterError(f"{name} must be positive, got {getattr(settings, name)}.", argument=name)
    for name in not_negative:
        if not getattr(settings, name) >= 0:
            raise ParameterError(
                f"{name} must not be negative, got {getattr(settings, name)}.", argument=name
            )


class Task:
    """What is trained: parameters with a replica axis, and the losses of one step.

    Subclasses set :attr:`parameters` and write :meth:`step`; the rest is for those who need it (see :class:`Loop` for
    an example).
    """

    # Leaf tensors that require gradients, [R, ...] each. The loop changes them in place; where finished replicas are
    # dropped, their ``.data`` shrinks to [A, ...], A being the number of replicas still active.
    parameters: Mapping[str, Tensor]
    # Whether, on a GPU, a step may be recorded as a CUDA graph: it reads and writes the same tensors every time, asks
    # the device for no number and takes no decision in Python.
    capturable: bool = False
    validates: bool = False  # whether `validate` exists

    def step(self) -> Mapping[str, Tensor]:
        """Named tensors [A, ...] of the active replicas, computed from the parameters.

        Those with one number per replica are recorded in the history, and minimised where the settings name them.
        """
        raise NotImplementedError

    def backward(self, total: Tensor, weights: Mapping[str, float]) -> None:
        """Set the gradients of the parameters: those of `total` [A], the losses of the last step by their `weights`.

        A task that writes its gradients out does not need autograd here.
        """
        total.sum().backward()

    def warm_up(self) -> Tensor:
        """Losses [A] of an iteration before the first one (see :attr:`LoopSettings.warm_up`)."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, Tensor]:
        """Named tensors [A, ...] on data that are not trained on; called at every check, without gradients.

        Those with one number per replica are recorded; the stop rule watches one.
        """
        raise NotImplementedError

    def select(self, active: Tensor) -> None:
        """From now on the parameters are those of the replicas `active` (their original numbers, rising).

        Called when finished replicas are dropped, and with all numbers at the end. A task with data or buffers per
        replica picks theirs here.
        """

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold besides the parameters: orders of data, states of random generators."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""


@dataclass(frozen=True)
class Plateau:
    """Stop when no replica's minimised loss has improved by `tolerance` over the last `patience` iterations.

    All replicas stop together, at one of the loop's checks; the parameters are those of the last iteration.
    """

    tolerance: float = 1e-4
    patience: int = 50

    def __post_init__(self) -> None:
        check_numbers(self, positive=("patience",))


@dataclass(frozen=True)
class Patience:
    """Stop a replica when its watched loss has not improved by more than `tolerance` within `patience` looks.

    The watched loss is looked at in every iteration, or, for a task that validates, at every check.
    """

    patience: int
    tolerance: float = 0.0  # with `relative`, as a share of the best loss
    # Name of the watched loss among what ``validate`` (else ``step``) returns. None: the first that ``validate``
    # returns (else what is minimised).
    watch: str | None = None
    keep: tuple[str, ...] = ()  # tensors, from the same place, whose values at the best moment are kept
    restore: bool = True  # keep the parameters of the best moment as well, and put them back at the end
    relative: bool = False

    def __post_init__(self) -> None:
        check_numbers(self, positive=("patience",), not_negative=("tolerance",))


@dataclass(frozen=True)
class LoopSettings:
    """How a task is trained."""

    iterations: int  # the most
    lr: float  # Adam's step size
    # The weights of the losses that are minimised, by the names the task's step gives them.
    minimise: Mapping[str, float] = field(default_factory=lambda: {"loss": 1.0})
    decay: bool = False  # let the step size fall to zero over all iterations, along half a cosine
    warm_up: int = 0  # iterations of the task's ``warm_up`` before the first step, not recorded
    check_every: int = 25  # iterations between checks: callbacks, validation, the stop rule
    stop: Plateau | Patience | None = None  # None: all iterations are run
    drop_finished: bool = False  # with Patience: stopped replicas leave the computation at the next check
    # The history keeps one of this many iterations, which makes checkpoints smaller; Plateau needs all of them (1).
    record_every: int = 1

    def __post_init__(self) -> None:
        check_numbers(self, ("iterations", "lr", "check_every", "record_every"), ("warm_up",))
        if not self.minimise:
            raise ParameterError("minimise must name at least one loss.", argument="minimise")
        if self.drop_finished and not (isinstance(self.stop, Patience) and self.stop.restore):
            raise ParameterError(
                "drop_finished needs stop=Patience(..., restore=True).", argument="drop_finished"
            )
        if self.record_every != 1 and isinstance(self.stop, Plateau):
            raise ParameterError(
                "record_every must be 1 with stop=Plateau(...), which looks at every iteration.",
                argument="record_every",
            )


@dataclass(frozen=True)
class LoopProgress:
    """What a callback is told at each check."""

    iteration: int  # iterations done
    iterations: int  # the most there will be
    losses: dict[str, np.ndarray]  # [A]: the numbers of the last iteration
    validation: dict[str, np.ndarray]  # [A]: those of the validation just run (empty without one)
    active: tuple[int, ...]  # which replicas these are
    best: np.ndarray | None = None  # [R]: the best watched loss of every replica so far (Patience only)
    means: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # [A]: over the iterations since the last check


@dataclass
class LoopResult:
    """What training left behind; replicas are in their original order.

    After Ctrl-C or the time limit, parameters and histories are those of the last finished iteration (with
    ``Patience.restore``, the parameters are the best so far).
    """

    iterations: int  # how many were run
    # [T, R]: every number per replica that the steps returned; NaN after a replica was dropped. T counts iterations, or
    # groups of LoopSettings.record_every.
    history: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]  # [C, R]: the same for the C validations
    validated_at: np.ndarray  # [C]: iterations done before each
    best_loss: np.ndarray | None  # [R]: the best watched loss (Patience only, as the next two)
    best_iteration: np.ndarray | None  # [R]: updates made before it was measured
    ran: np.ndarray | None  # [R]: iterations that the replica ran before it stopped
    best: dict[str, Tensor]  # [R, ...]: what ``Patience.keep`` named, at each replica's best moment
    converged: bool  # whether the stop rule, Ctrl-C or the time limit ended training
    interrupted: bool
    timed_out: bool
    seconds: float  # time spent, including that before a resumed checkpoint was written


@dataclass(frozen=True)
class Progress:
    """What a callback is told: `iteration` of `iterations`, and each replica's losses [R]."""

    iteration: int
    iterations: int
    cut: np.ndarray
    ortho: np.ndarray
    seconds_left: float  # at most, at the speed so far: replicas may stop before
    active: tuple[int, ...]  # the replicas that are still trained
    net: Any = field(repr=False)  # the ReplicaNet


@dataclass
class TrainResult:
    """What training left behind.

    `cut` and `ortho` are L_c and L_o of every replica at every iteration. Other objectives: the objective, and its term
    that keeps clusters apart (zeros where it has none).
    """

    cut: np.ndarray  # [T, R]
    ortho: np.ndarray
    iterations: int  # how many were run
    converged: bool  # whether every replica's loss had stopped improving
    interrupted: bool  # whether Ctrl-C ended the training


def held(history: np.ndarray, length: int | None = None) -> np.ndarray:
    """A history [T, R] in which replicas that left hold their last value, made `length` long in the same way."""
    ran = np.maximum.accumulate(np.where(np.isnan(history), 0, np.arange(len(history))[:, None]), axis=0)
    history = np.take_along_axis(history, ran, axis=0)
    missing = 0 if length is None or len(history) == 0 else length - len(history)
    return np.concatenate([history, np.repeat(history[-1:], missing, axis=0)])


def has_converged(losses: Tensor, rule: Plateau) -> Tensor:
    """Whether each replica's losses [T, R] improved by less than the rule's tolerance over its patience: [R]."""
    if len(losses) <= rule.patience:
        return torch.zeros(losses.shape[1], dtype=torch.bool, device=losses.device)
    before, now = losses[: -rule.patience].amin(0), losses.amin(0)
    return before - now < rule.tolerance


class BestValues:
    """The best watched loss of each replica and what was kept with it, in the original order of the replicas.

    Everything lives in fixed tensors on the device, so that a CUDA graph can replay :meth:`look`.
    """

    def __init__(self, rule: Patience, replicas: int, iterations: int, device: torch.device) -> None:
        self.rule = rule
        zeros = torch.zeros(replicas, dtype=torch.long, device=device)
        self.tensors = {
            "at": zeros.clone(),
            "since": zeros.clone(),
            "ran": zeros + iterations,
            "running": torch.ones(replicas, dtype=torch.bool, device=device),
        }
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def look(self, watched: Tensor, values: Mapping[str, Tensor], active: Tensor, position: Tensor) -> None:
        """Compare the watched loss [A] of the active replicas with their best, and keep `values` where it is better.

        `position` is the number of updates made before the loss was measured.
        """
        state = self.tensors
        if "loss" not in state:
            state["loss"] = watched.new_full(state["at"].shape, torch.inf)
        mine = {name: value.index_select(0, active) for name, value in state.items()}
        margin: Tensor | float = self.rule.tolerance
        if self.rule.relative:
            margin = margin * mine["loss"].abs().nan_to_num(posinf=0.0)  # the first loss improves on nothing
        better = mine["running"] & (watched < mine["loss"] - margin)
        for name, value in values.items():
            if name not in self.kept:  # a replica that never improves (NaN) keeps its first values
                self.kept[name] = value.detach().clone()
                continue
            chosen = better.view(-1, *[1] * (value.dim() - 1))
            old = self.kept[name].index_select(0, active)
            self.kept[name].index_copy_(0, active, torch.where(chosen, value.detach(), old))
        since = torch.where(better, 0, mine["since"] + 1)
        tired = mine["running"] & (since >= self.rule.patience)
        new = {
            "loss": torch.where(better, watched, mine["loss"]),
            "at": torch.where(better, position, mine["at"]),
            "since": since,
            "ran": torch.where(tired, position, mine["ran"]),
            "running": mine["running"] & ~tired,
        }
        for name, value in new.items():
            state[name].index_copy_(0, active, value)


@dataclass(frozen=True)
class Checkpoint:
    """Where a training is saved, how often, and which training it belongs to; a file is written whole or not at all."""

    # Training resumes from the file where it exists. The caller removes it once the result is stored.
    path: str | Path
    # Whatever decides the result besides the loop's own settings: data set, method, seeds, settings of the task. A file
    # with another identity is refused.
    identity: Mapping[str, Any] = field(default_factory=dict)
    every: float = 60.0  # seconds between two writings

    def write(self, state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Write a state (tensors, numbers, text, lists and dictionaries of them), replacing the file at once."""
        described = {**state, "described": _describe(self.identity, settings)}
        atomic_write(self.path, lambda file: torch.save(described, file))

    def read(self, settings: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
        """The state last written, or None where there is no file; an error where it belongs to other settings."""
        path = Path(self.path)
        if not path.exists():
            return None
        try:
            state = torch.load(path, map_location=device, weights_only=True)
            stored = json.loads(state["described"])
        except Exception as error:
            raise FileFormatError(f"{path} is not a checkpoint of softcut; move it away.") from error
        expected = json.loads(_describe(self.identity, settings))
        changed = [name for name in {**stored, **expected} if stored.get(name) != expected.get(name)]
        if changed:
            name = changed[0]
            raise ParameterError(
                f"checkpoint {path} was written with {name} = {stored.get(name)}, not {expected.get(name)}: "
                "train with the same settings, or move it away.",
                argument="checkpoint",
            )
        return state


def _describe(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    return json.dumps({**settings, **identity}, sort_keys=True, default=str)
