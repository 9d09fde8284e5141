"""The rules of the loop: what it minimises, when it stops, what it watches, its settings, who looks after Ctrl-C."""

import itertools
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from softcut.errors import ParameterError
from softcut.training import (
    Checkpoint,
    Loop,
    LoopProgress,
    LoopSettings,
    Patience,
    Plateau,
    Task,
    TrainSettings,
)
from softcut.training.loop import repeat
from softcut.training.task import BestValues, Progress, has_converged, held


class Two(Task):
    """Two replicas with two losses, the distances from 1 and from -1, and a validation that returns two more."""

    def __init__(self, validates: bool = False, press: bool = False) -> None:
        self.parameters = {"p": torch.zeros(2, dtype=torch.float64, requires_grad=True)}
        self.validates, self.press = validates, press

    def step(self):
        if self.press:
            os.kill(os.getpid(), signal.SIGINT)
        up, down = (self.parameters["p"] - 1).square(), (self.parameters["p"] + 1).square()
        return {"up": up, "down": down, "number": up.mean(), "one": up.mean()[None]}

    def validate(self):
        assert not torch.is_grad_enabled()
        p = self.parameters["p"].detach()
        return {"first": p.clone(), "second": -p}


def run(task: Task, iterations: int = 3, lr: float = 0.05, **settings):
    return Loop(task, LoopSettings(iterations, lr, **{"minimise": {"up": 1.0}, **settings})).run()


def test_tasks_are_checked():
    task, uneven = Two(), torch.zeros(3, 1, requires_grad=True)
    for name, parameters, words in (
        ("number", task.parameters, r"must be \[2\], one per active replica, got \[\]"),
        ("one", task.parameters, r"must be \[2\], one per active replica, got \[1\]"),
        ("nothing", task.parameters, "minimise names 'nothing', but the step returns up, down, number, one"),
        ("up", {**task.parameters, "other": uneven}, r"share their first axis, the replicas, got \[2, 3\]"),
        ("up", {}, r"share their first axis, the replicas, got \[\]"),
    ):
        task.parameters = parameters
        with pytest.raises(ParameterError, match=words):
            run(task, minimise={name: 1.0})


# ------------------------------------------------------------------------------------------------ stopping


def test_converging_is_improving_by_less_than_the_tolerance():
    losses = torch.tensor([[4.0, 4.0], [3.0, 3.0], [2.75, 2.5]])
    assert has_converged(losses, Plateau(0.5, 1)).tolist() == [True, False]
    assert has_converged(losses, Plateau(0.25, 1)).tolist() == [False, False]
    assert has_converged(losses, Plateau(2.0, 2)).tolist() == [True, True]
    assert has_converged(losses, Plateau(9.0, 3)).tolist() == [False, False], "too early"
    assert has_converged(torch.cat([losses, losses[:1]]), Plateau(9.0, 3)).tolist() == [True, True]


def test_the_best_values_of_each_replica():
    best = BestValues(Patience(patience=2, tolerance=0.5), 2, 10, torch.device("cpu"))
    for position, losses in enumerate([[3.0, 3.0], [2.5, 2.0], [2.75, 1.75], [2.0, 1.6], [0.0, 0.0]]):
        values = {"x": torch.full((2, 1), float(position))}
        best.look(
            torch.tensor(losses, requires_grad=True), values, torch.tensor([0, 1]), torch.tensor(position)
        )
    # 2.5 is not better than 3 by more than 0.5; two looks without improvement end the replica.
    state = {name: value.tolist() for name, value in best.tensors.items()}
    assert (state["loss"], state["at"], state["ran"]) == ([3.0, 2.0], [0, 1], [2, 3])
    assert state["running"] == [False, False]
    assert best.kept["x"].flatten().tolist() == [0, 1]
    assert not best.tensors["loss"].requires_grad  # or what every loss was made of would stay in memory


def test_an_improvement_may_be_a_share_of_the_best_loss():
    best = BestValues(Patience(patience=9, tolerance=0.25, relative=True), 3, 10, torch.device("cpu"))
    for position, losses in enumerate([[8.0, -8.0, 0.0], [6.5, -9.5, -0.5], [5.5, -10.5, -0.6]]):
        best.look(torch.tensor(losses), {}, torch.arange(3), torch.tensor(position))
    # 6.5 is not below 8 by more than a quarter, nor -9.5 below -8; every loss below 0 is better than 0.
    assert best.tensors["loss"].tolist() == [5.5, -10.5, -0.5]
    assert best.tensors["at"].tolist() == [2, 2, 1] and best.tensors["since"].tolist() == [0, 0, 1]


def test_replicas_that_left_hold_their_last_value():
    history = np.array([[3.0, 4.0], [2.0, np.nan], [1.0, np.nan]])
    assert held(history).tolist() == [[3, 4], [2, 4], [1, 4]]
    assert held(history, 5).tolist() == [[3, 4], [2, 4], [1, 4], [1, 4], [1, 4]]
    assert held(history[:0], 5).shape == (0, 2)


def test_what_is_told_does_not_depend_on_what_is_kept():
    told: list[list[LoopProgress]] = [[], []]
    for every, heard in zip((1, 2), told, strict=True):
        settings = LoopSettings(5, 0.05, {"up": 1.0}, check_every=1, record_every=every)
        result = Loop(Two(), settings).run(heard.append)
        assert len(result.history["up"]) == -(-5 // every)
    for one, other in zip(*told, strict=True):
        for name in ("losses", "means"):
            np.testing.assert_array_equal(getattr(one, name)["up"], getattr(other, name)["up"])
    assert "net" not in repr(Progress(1, 2, np.zeros(1), np.zeros(1), 0.5, (0,), net=None))


@pytest.mark.parametrize("watch", [None, "first", "second"])
def test_the_watched_loss_of_a_validation(watch):
    stop = Patience(patience=50, watch=watch, restore=False)
    result = run(Two(validates=True), 18, 0.01, check_every=5, stop=stop)
    assert result.validated_at.tolist() == [5, 10, 15, 18], "the last iteration is checked too"
    first = result.validation["first"]
    np.testing.assert_allclose(first, -result.validation["second"])
    assert (np.diff(first, axis=0) > 0).all()
    best, at = (-first[-1], 18) if watch == "second" else (first[0], 5)
    np.testing.assert_allclose(result.best_loss, best)
    assert result.best_iteration.tolist() == [at, at]
    with pytest.raises(ParameterError, match="watch is 'third', but validate returns first, second"):
        run(Two(validates=True), stop=Patience(5, watch="third"))


def test_the_clock_stops_and_saves(monkeypatch, tmp_path):
    """A clock that goes on by a second whenever it is looked at: after every step, and twice when saving."""
    for limit, every, done, seconds in ((5.0, 60.0, 5, 8.0), (6.0, 4.0, 10, 16.0), (99.0, 99.0, 50, 57.0)):
        ticks = itertools.count(1000.0)
        monkeypatch.setattr(time, "perf_counter", lambda ticks=ticks: next(ticks))
        saved = Checkpoint(tmp_path / "a.pt", every=every)
        result = Loop(Two(), LoopSettings(50, 0.05, {"up": 1.0})).run(None, saved, limit)
        assert (result.iterations, result.seconds) == (done, seconds)
        assert result.timed_out == (done < 50)


def test_steps_on_a_gpu_are_replayed_from_the_fourth_on(monkeypatch):
    done, stream = [], SimpleNamespace(wait_stream=lambda other: None)
    graph = SimpleNamespace(replay=lambda: done.append("replay"))
    fakes = {"Stream": stream, "current_stream": stream, "CUDAGraph": graph}
    for name, fake in (fakes | {"stream": nullcontext(), "graph": nullcontext()}).items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, fake=fake: fake)
    for times, expected in ((2, ["step"] * 2), (3, ["step"] * 3), (6, ["step"] * 4 + ["replay"] * 3)):
        done.clear()
        assert len(list(repeat(lambda: done.append("step"), times, capture=True))) == times
        assert done == expected


# ------------------------------------------------------------------------------------------------ settings

LOOP = {"iterations": 5, "lr": 0.1}
DROP = {**LOOP, "drop_finished": True}


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        *((LoopSettings, {**LOOP, n: 0}, f"{n} must be positive, got 0") for n in (*LOOP, "check_every")),
        (LoopSettings, {**LOOP, "warm_up": -1}, "warm_up must not be negative, got -1"),
        (LoopSettings, {**LOOP, "minimise": {}}, "minimise must name at least one loss"),
        *(
            (LoopSettings, {**DROP, "stop": s}, "drop_fin")
            for s in (None, Patience(3, restore=False), Plateau())
        ),
        (LoopSettings, {**LOOP, "record_every": 2, "stop": Plateau()}, "record_every must be 1"),
        *(
            (TrainSettings, {name: bad}, f"{name} must be positive, got {bad}")
            for name in ("iterations", "lr", "temperature", "patience", "check_every")
            for bad in (0, -1)
        ),
        *((TrainSettings, {n: -1}, f"{n} must not be negative") for n in ("ortho_weight", "start")),
        (TrainSettings, {"objective": "cut"}, "objective"),
        *((rule, {"patience": 0}, "patience must be positive, got 0") for rule in (Plateau, Patience)),
        (Patience, {"patience": 1, "tolerance": -1.0}, "tolerance must not be negative"),
    ],
)
def test_settings_out_of_range_are_refused(kind, arguments, words):
    with pytest.raises(ParameterError, match=words):
        kind(**arguments)


def test_what_is_not_said_and_settings_at_the_edge():
    usual = {"iterations": 700, "lr": 2e-3, "temperature": 1.0, "objective": "mincut", "ortho_weight": 1.0}
    rules = {"start": 40, "tolerance": 1e-4, "patience": 50, "check_every": 25, "one_by_one": False}
    assert asdict(TrainSettings()) == usual | rules
    assert Plateau() == Plateau(1e-4, 50) and Patience(3) == Patience(3, 0.0, None, (), True, False)
    loop = LoopSettings(5, 0.1, {"loss": 1.0}, False, 0, 25, None, False, 1)
    assert LoopSettings(**LOOP) == loop and Checkpoint("a") == Checkpoint("a", {}, 60.0)
    Plateau(patience=1)
    LoopSettings(1, 1e-9, warm_up=0, check_every=1, drop_finished=True, stop=Patience(1))
    TrainSettings(ortho_weight=0.0, start=0, patience=1, check_every=1, iterations=1)


# ------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def listen():
    """Sets a handler of Ctrl-C for the time of the test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_callers_is_left_alone(listen):
    own = Mock()
    listen(own)
    result = run(Two(press=True))
    assert signal.getsignal(signal.SIGINT) is own
    assert [heard.args[0] for heard in own.call_args_list] == [signal.SIGINT] * 3
    assert not result.interrupted and result.iterations == 3


def test_training_in_a_thread_has_nothing_to_do_with_ctrl_c(listen):
    listen(signal.default_int_handler)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, Two()).result().iterations == 3
