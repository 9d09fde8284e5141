"""The one training loop: R replicas of a model, trained side by side.

Every parameter has the replica as its first axis, the loss is summed over replicas and Adam works element by element,
so that a replica follows exactly the path it would follow alone.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.ops.adam import Adam
from softcut.training.task import (
    BestValues,
    Checkpoint,
    LoopProgress,
    LoopResult,
    LoopSettings,
    Patience,
    Plateau,
    Task,
    has_converged,
)

_PARAMETER = "parameter of the best moment: "  # prefix of their names among the kept values
# What a checkpoint holds as it is.
_SAVED = ("warmed", "done", "names", "validation_names", "validations", "validated_at")
_WARM = 3  # ordinary steps before a capture: allocations and lazy initialisation happen in these


def repeat(step: Callable[[], object], times: int, capture: bool = False) -> Iterator[None]:
    """Call `step` `times` times, yielding after each.

    With `capture` (on a CUDA device), the fourth and later ones are replays of a CUDA graph. Whatever a
    step reads of an earlier one must then live in fixed tensors, and its optimiser must be `capturable`.

    >>> done = []
    >>> for _ in repeat(lambda: done.append(len(done)), 3):
    ...     pass
    >>> done
    [0, 1, 2]
    """
    if not capture:
        for _ in range(times):
            step()
            yield
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(min(_WARM, times)):
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)  # whoever looks after this step sees it done
        yield
    if times > _WARM:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(times - _WARM):
            graph.replay()
            yield


class Loop:
    """Trains a :class:`Task`: Adam, histories, stopping, best values, checkpoints, time limits, Ctrl-C, CUDA graphs.

    Four least-squares fits side by side; each stops on its own:

    >>> import torch
    >>> from softcut.training import Loop, LoopSettings, Patience, Task
    >>> class Lines(Task):
    ...     def __init__(self, x, y):                              # x [N], y [R, N]
    ...         self.x, self.y, self.all = x, y, y
    ...         self.slope = torch.zeros(len(y), requires_grad=True)
    ...         self.parameters = {"slope": self.slope}
    ...     def step(self):
    ...         error = self.slope.unsqueeze(1) * self.x - self.y
    ...         return {"mse": error.square().mean(1)}
    ...     def select(self, active):
    ...         self.y = self.all[active]
    >>> x = torch.linspace(0, 1, 8)
    >>> task = Lines(x, torch.tensor([[1.0], [2.0], [3.0], [4.0]]) * x)
    >>> stop = Patience(patience=20, tolerance=1e-7)
    >>> settings = LoopSettings(2000, lr=0.1, minimise={"mse": 1.0}, stop=stop, drop_finished=True)
    >>> result = Loop(task, settings).run()
    >>> result.converged, [round(v, 2) for v in task.slope.tolist()]
    (True, [1.0, 2.0, 3.0, 4.0])
    """

    def __init__(self, task: Task, settings: LoopSettings) -> None:
        self.task, self.settings = task, settings
        self.parameters = dict(task.parameters)
        sizes = sorted({len(p) if p.dim() else 0 for p in self.parameters.values()})
        if len(sizes) != 1 or 0 in sizes:
            raise ParameterError(
                f"task.parameters must be tensors that share their first axis, the replicas, got {sizes}.",
                argument="task",
            )
        (self.replicas,) = sizes
        self.device = next(iter(self.parameters.values())).device
        cuda = self.device.type == "cuda"
        self.capture = cuda and task.capturable
        rate: float | Tensor = settings.lr
        if settings.decay:
            kind = torch.float32 if cuda else torch.float64  # Adam's fused kernel reads float32 on a GPU
            rate = torch.tensor(settings.lr, device=self.device, dtype=kind)
        self.optimiser = Adam(self.parameters, rate)
        self.active = torch.arange(self.replicas, device=self.device)  # replicas that are still computed
        self.warmed = self.done = 0
        # Everything a step reads or writes is in fixed tensors, so that a CUDA graph can replay it.
        self.position = torch.zeros((), dtype=torch.long, device=self.device)
        self.names: list[str] = []
        self.history: Tensor | None = None  # [T, R, names]
        self.validation_names: list[str] = []
        self.validations: list[Tensor] = []  # [R, names] each
        self.validated_at: list[int] = []
        self.best: BestValues | None = None
        if isinstance(settings.stop, Patience):
            self.best = BestValues(settings.stop, self.replicas, settings.iterations, self.device)
        self.ended = ""  # why, once it has
        self._recapture = False

    def run(
        self,
        callback: Callable[[LoopProgress], None] | None = None,
        checkpoint: Checkpoint | None = None,
        time_limit: float | None = None,
    ) -> LoopResult:
        """Train until the stop rule, the last iteration, the time limit (in seconds) or Ctrl-C.

        The callback is called at every check; raising KeyboardInterrupt in it ends training. The training is saved to
        the checkpoint now and then and when it ends, and resumed from it.
        """
        self._began = self._saved = time.perf_counter()
        self._spent = 0.0
        state = None if checkpoint is None else checkpoint.read(self._described(), self.device)
        if state is not None:
            self._load(state)
        with _deferred_interrupts() as asked:

            def pause() -> str | None:
                """Why to stop after this iteration; saves the training when it is time to."""
                now = time.perf_counter()
                if asked.is_set():
                    return "interrupted"
                if time_limit is not None and now - self._began >= time_limit:
                    return "timed out"
                if checkpoint is not None and now - self._saved >= checkpoint.every:
                    self._save(checkpoint)
                return None

            try:
                reason = self._iterate(callback, pause)
            except KeyboardInterrupt:
                if asked.is_set():  # the second one: leave at once
                    raise
                reason = "interrupted"
        if reason not in ("interrupted", "timed out"):
            self.ended = reason
        if checkpoint is not None:  # at the end too: the result is not stored yet
            self._save(checkpoint)
        return self._result(reason)

    def _iterate(
        self, callback: Callable[[LoopProgress], None] | None, pause: Callable[[], str | None]
    ) -> str:
        """Run until something ends the training, and say what."""
        settings = self.settings
        if self.ended:  # before it was resumed
            return self.ended
        for _ in repeat(self._warm_up, settings.warm_up - self.warmed, self.capture):
            self.warmed += 1
            if reason := pause():
                return reason
        while self.done < settings.iterations:
            for _ in repeat(self._step, settings.iterations - self.done, self.capture):
                self.done += 1
                checked = self.done % settings.check_every == 0 or self.done == settings.iterations
                if checked and self._check(callback):
                    return "converged"
                if reason := pause():
                    return reason
                if self._recapture:
                    self._recapture = False
                    break
        return "finished"

    def _minimised(self, values: Mapping[str, Tensor]) -> Tensor:
        """The weighted sum of the losses that are minimised."""
        terms = []
        for name, weight in self.settings.minimise.items():
            if name not in values:
                raise ParameterError(
                    f"minimise names {name!r}, but the step returns {', '.join(values)}.", argument="minimise"
                )
            terms.append(values[name] if weight == 1 else weight * values[name])
        return sum(terms[1:], terms[0])

    def _warm_up(self) -> None:
        self.task.warm_up().sum().backward()
        self._apply()

    def _step(self) -> None:
        values = self.task.step()
        total = self._minimised(values)
        if total.shape != self.active.shape:
            raise ParameterError(
                f"the losses of a step must be [{len(self.active)}], one per active replica, got {list(total.shape)}.",
                argument="task",
            )
        self.task.backward(total, self.settings.minimise)
        with torch.no_grad():
            self._record(values, total)
            if self.best is not None and not self.task.validates:
                watch = self.best.rule.watch
                self._look(values, total if watch is None else values[watch])
        self._apply()
        self.position += 1
        rate = self.optimiser.rate
        if isinstance(rate, Tensor):  # it decays
            angle = torch.pi * self.position.to(rate.dtype) / self.settings.iterations
            rate.copy_(self.settings.lr * 0.5 * (1 + torch.cos(angle)))

    def _apply(self) -> None:
        self.optimiser.step()
        for p in self.parameters.values():
            p.grad = None  # in a CUDA graph, too: it neither fills it with zeros nor adds to it

    def _record(self, values: Mapping[str, Tensor], total: Tensor) -> None:
        if self.history is None:
            self.names = [name for name, value in values.items() if value.shape == total.shape]
            self.history = self._new_history(len(self.names), total.dtype)
        numbers = torch.stack([values[name].to(total.dtype) for name in self.names], dim=1)
        if not self.capture:
            self.history[self.done // self.settings.record_every].index_copy_(0, self.active, numbers)
            return
        row = self.position // self.settings.record_every  # on the device, where a replay finds it
        self.history.index_put_((row.expand(len(self.active)), self.active), numbers)

    def _new_history(self, names: int, dtype: torch.dtype) -> Tensor:
        shape = (self._recorded(self.settings.iterations), self.replicas, names)
        return torch.full(shape, torch.nan, dtype=dtype, device=self.device)

    def _recorded(self, iterations: int) -> int:
        """Rows of the history after a number of iterations."""
        return -(-iterations // self.settings.record_every)

    def _look(self, values: Mapping[str, Tensor], watched: Tensor) -> None:
        assert self.best is not None
        rule = self.best.rule
        kept = {name: values[name] for name in rule.keep}
        if rule.restore:
            kept |= {_PARAMETER + name: value for name, value in self.parameters.items()}
        self.best.look(watched, kept, self.active, self.position)

    def _check(self, callback: Callable[[LoopProgress], None] | None) -> bool:
        """Validate, tell the callback, drop finished replicas; whether the stop rule ends training."""
        validation = self._validate() if self.task.validates else {}
        if callback is not None:
            assert self.history is not None
            before = (self.done - 1) // self.settings.check_every * self.settings.check_every
            end = self._recorded(self.done)
            rows = _array(self.history[min(self._recorded(before), end - 1) : end][:, self.active])
            last, mean = rows[-1], rows.mean(0)
            progress = LoopProgress(
                self.done,
                self.settings.iterations,
                {name: last[:, i] for i, name in enumerate(self.names)},
                {name: _array(value) for name, value in validation.items()},
                tuple(self.active.tolist()),
                None if self.best is None else _array(self.best.tensors["loss"]),
                {name: mean[:, i] for i, name in enumerate(self.names)},
            )
            callback(progress)
        rule = self.settings.stop
        if isinstance(rule, Plateau):
            assert self.history is not None
            past = {name: self.history[: self.done, :, i] for i, name in enumerate(self.names)}
            return bool(has_converged(self._minimised(past), rule).all())
        if self.best is None:
            return False
        running = self.best.tensors["running"].index_select(0, self.active)
        if not bool(running.any()):
            return True
        if self.settings.drop_finished and not bool(running.all()):
            self._drop(running.nonzero().flatten())
        return False

    @torch.no_grad()
    def _validate(self) -> dict[str, Tensor]:
        values = dict(self.task.validate())
        numbers = {name: value for name, value in values.items() if value.shape == self.active.shape}
        if not numbers:
            raise ParameterError(
                "validate must return at least one loss with one number per active replica.", argument="task"
            )
        self.validation_names = list(numbers)
        row = torch.full((self.replicas, len(numbers)), torch.nan, dtype=torch.float64, device=self.device)
        row[self.active] = torch.stack([v.double() for v in numbers.values()], dim=1)
        self.validations.append(row)
        self.validated_at.append(self.done)
        if self.best is not None:
            watch = self.best.rule.watch or next(iter(numbers))
            if watch not in numbers:
                raise ParameterError(
                    f"watch is {watch!r}, but validate returns {', '.join(numbers)}.", argument="watch"
                )
            self._look(values, numbers[watch])
        return numbers

    def _drop(self, rows: Tensor) -> None:
        """Go on with some of the active replicas only; the others' best values are kept aside."""
        self.active = self.active[rows]
        for p in self.parameters.values():
            p.grad = None
            p.data = p.data[rows]
        self.optimiser.select(rows)
        self.task.select(self.active)
        self._recapture = self.capture

    def _described(self) -> dict[str, Any]:
        shapes = {name: [self.replicas, *p.shape[1:]] for name, p in self.parameters.items()}
        return {**asdict(self.settings), "parameters": shapes}

    def _seconds(self) -> float:
        return self._spent + time.perf_counter() - self._began

    def _save(self, checkpoint: Checkpoint) -> None:
        best = self.best
        state = {
            **{name: getattr(self, name) for name in _SAVED},
            "active": self.active,
            "ended": self.ended,
            "parameters": {name: p.detach() for name, p in self.parameters.items()},
            "moments": {name: dict(moments) for name, moments in self.optimiser.moments.items()},
            "rate": float(self.optimiser.rate),
            "history": None if self.history is None else self.history[: self._recorded(self.done)].clone(),
            "best": None if best is None else best.tensors,
            "kept": None if best is None else best.kept,
            "seconds": self._seconds(),
            "task": self.task.state(),
        }
        checkpoint.write(state, self._described())
        self._saved = time.perf_counter()

    @torch.no_grad()
    def _load(self, state: dict[str, Any]) -> None:
        if len(state["active"]) < len(self.active):
            self._drop(state["active"].to(self.device))
        for name, p in self.parameters.items():
            p.copy_(state["parameters"][name])
            self.optimiser.moments[name] = dict(state["moments"][name])
        if isinstance(self.optimiser.rate, Tensor):
            self.optimiser.rate.fill_(state["rate"])
        for name in _SAVED:
            setattr(self, name, state[name])
        self.ended = state.get("ended", "")
        self.position.fill_(self.done)
        past = state["history"]
        if past is not None:
            self.history = self._new_history(past.shape[-1], past.dtype)
            self.history[: len(past)] = past
        if self.best is not None:
            self.best.tensors, self.best.kept = state["best"], state["kept"]
        self._spent = state["seconds"]
        self.task.load_state(state["task"])

    def _result(self, reason: str) -> LoopResult:
        best = self.best
        if best is not None and best.rule.restore and best.kept:
            for name, p in self.parameters.items():
                p.data = best.kept[_PARAMETER + name].clone()
            if len(self.active) < self.replicas:
                self.active = torch.arange(self.replicas, device=self.device)
                self.task.select(self.active)
        numbers = {} if best is None else {name: _array(value) for name, value in best.tensors.items()}
        history: dict[str, np.ndarray] = {}
        if self.history is not None:
            past = _array(self.history[: self._recorded(self.done)])
            history = {name: past[:, :, i] for i, name in enumerate(self.names)}
        validations = np.array([row.cpu().numpy() for row in self.validations])
        return LoopResult(
            iterations=self.done,
            history=history,
            validation={name: validations[:, :, i] for i, name in enumerate(self.validation_names)},
            validated_at=np.array(self.validated_at, dtype=np.int64),
            best_loss=numbers.get("loss"),
            best_iteration=numbers["at"].astype(np.int64) if numbers else None,
            ran=np.minimum(numbers["ran"], self.done).astype(np.int64) if numbers else None,
            best={name: best.kept[name] for name in best.rule.keep if name in best.kept} if best else {},
            converged=reason == "converged",
            interrupted=reason == "interrupted",
            timed_out=reason == "timed out",
            seconds=self._seconds(),
        )


def _array(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


@contextmanager
def _deferred_interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets the event and is acted upon after the iteration; a second one raises KeyboardInterrupt as usual."""
    asked = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield asked  # somebody else looks after Ctrl-C
        return

    def note(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
