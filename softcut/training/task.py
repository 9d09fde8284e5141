"""What the training loop is given and gives back: a task, settings, progress and a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from softcut.errors import ParameterError
from softcut.training.stopping import Patience, Plateau

__all__ = ["LoopProgress", "LoopResult", "LoopSettings", "Task"]


class Task:
    """What is trained: parameters with a replica axis, and the losses of one step.

    Subclasses set :attr:`parameters` and write :meth:`step`; the rest is for those who need it.

    Attributes
    ----------
    parameters : mapping of str to Tensor
        Leaf tensors that require gradients, [R, ...] each (an ``nn.Module``'s own, or stacked ones). The loop
        changes them in place; where finished replicas are dropped, their ``.data`` shrinks to [A, ...], A being
        the number of replicas still active.
    capturable : bool
        Whether, on a GPU, a step may be recorded as a CUDA graph: it reads and writes the same tensors every
        time, asks the device for no number and takes no decision in Python.
    validates : bool
        Whether :meth:`validate` exists.
    """

    parameters: Mapping[str, Tensor]
    capturable: bool = False
    validates: bool = False

    def step(self) -> Mapping[str, Tensor]:
        """Named tensors with the active replicas as first axis, computed from the parameters.

        Those with one number per replica ([A]) are recorded in the history; the ones named in
        :attr:`LoopSettings.minimise` are minimised.
        """
        raise NotImplementedError

    def warm_up(self) -> Tensor:
        """Losses [A] of an iteration before the first one (see :attr:`LoopSettings.warm_up`)."""
        raise NotImplementedError

    def validate(self) -> Mapping[str, Tensor]:
        """Named tensors [A, ...] on data that are not trained on, at every check, where `validates` is True.

        Called without gradients. Those with one number per replica are recorded; the stop rule watches one.
        """
        raise NotImplementedError

    def select(self, active: Tensor) -> None:
        """From now on the parameters are those of the replicas `active` (their original numbers, rising).

        Called when finished replicas were dropped, when a training resumes without them, and, with all numbers, at
        the end of a training that dropped some. A task with data or buffers per replica picks theirs here.
        """

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold besides the parameters: orders of data, states of random generators."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""


@dataclass(frozen=True)
class LoopSettings:
    """How a task is trained.

    Attributes
    ----------
    iterations : int
        The most iterations.
    lr : float
        Adam's step size.
    minimise : mapping of str to float
        The weights of the losses that are minimised, by the names the task's step gives them.
    decay : bool
        Let the step size fall to zero over all iterations, along half a cosine.
    warm_up : int
        Iterations of the task's ``warm_up`` before the first step (same optimiser, not recorded).
    check_every : int
        Iterations between checks: callbacks are called, validation is run, stopping is decided.
    stop : Plateau, Patience or None
        The stop rule; None: all iterations are run.
    drop_finished : bool
        With :class:`Patience`: replicas that have stopped leave the computation at the next check.
    record_every : int
        Keep the numbers of every so many iterations (the last of each group) in the history. Long trainings of many
        replicas keep their checkpoints small with it. :class:`Plateau` needs all of them.
    """

    iterations: int
    lr: float
    minimise: Mapping[str, float] = field(default_factory=lambda: {"loss": 1.0})
    decay: bool = False
    warm_up: int = 0
    check_every: int = 25
    stop: Plateau | Patience | None = None
    drop_finished: bool = False
    record_every: int = 1

    def __post_init__(self) -> None:
        for name in ("iterations", "lr", "check_every", "record_every"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.warm_up < 0:
            raise ParameterError(f"warm_up must not be negative, got {self.warm_up}.")
        if not self.minimise:
            raise ParameterError("minimise must name at least one loss.")
        if self.drop_finished and not (isinstance(self.stop, Patience) and self.stop.restore):
            raise ParameterError("drop_finished needs stop=Patience(..., restore=True).")
        if self.record_every != 1 and isinstance(self.stop, Plateau):
            raise ParameterError(
                "record_every must be 1 with stop=Plateau(...), which looks at every iteration."
            )


@dataclass(frozen=True)
class LoopProgress:
    """What a callback is told at each check.

    Attributes
    ----------
    iteration, iterations : int
        Iterations done, and the most there will be.
    losses : dict of str to array [A]
        The numbers of the last iteration of every active replica.
    validation : dict of str to array [A]
        The numbers of the validation just run; empty without one.
    active : tuple of int
        Which replicas these are.
    best : array [R] or None
        The best watched loss of every replica so far (:class:`Patience` only).
    """

    iteration: int
    iterations: int
    losses: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    active: tuple[int, ...]
    best: np.ndarray | None = None


@dataclass
class LoopResult:
    """What training left behind; replicas are in their original order.

    Attributes
    ----------
    iterations : int
        How many were run.
    history : dict of str to array [T, R]
        Every number per replica that the steps returned; NaN after a replica was dropped. T counts iterations, or
        groups of :attr:`LoopSettings.record_every`.
    validation : dict of str to array [C, R]
        The same for the C validations; `validated_at` holds the number of iterations done before each.
    best_loss, best_iteration, ran : array [R]
        With :class:`Patience`: the best watched loss, the number of updates made before it was measured, and how
        many iterations the replica ran before it stopped.
    best : dict of str to Tensor [R, ...]
        What ``Patience.keep`` named, at each replica's best moment.
    converged : bool
        Whether the stop rule ended training.
    interrupted, timed_out : bool
        Whether Ctrl-C or the time limit did; parameters and histories are those of the last finished iteration
        (with ``Patience.restore``, the parameters are the best so far).
    seconds : float
        Time spent, including that before a resumed checkpoint was written.
    """

    iterations: int
    history: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    validated_at: np.ndarray
    best_loss: np.ndarray | None
    best_iteration: np.ndarray | None
    ran: np.ndarray | None
    best: dict[str, Tensor]
    converged: bool
    interrupted: bool
    timed_out: bool
    seconds: float
