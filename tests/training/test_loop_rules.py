"""The rules of the loop: what it minimises, when it stops, what it watches, its settings, who looks after Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading

import numpy as np
import pytest
import torch

from softcut.errors import ParameterError
from softcut.training import Loop, LoopSettings, Patience, Plateau, Task, TrainSettings
from softcut.training.task import BestValues, has_converged


class Two(Task):
    """Two replicas with two losses: the distances from 1 and from -1."""

    def __init__(self, shape: str = "right") -> None:
        self.parameters = {"p": torch.zeros(2, dtype=torch.float64, requires_grad=True)}
        self.shape = shape

    def step(self):
        up, down = (self.parameters["p"] - 1).square(), (self.parameters["p"] + 1).square()
        if self.shape == "number":
            return {"up": up.mean()}
        if self.shape == "one":
            return {"up": up.mean()[None]}
        return {"up": up, "down": down}


@pytest.mark.parametrize(("up", "down"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (3.0, 1.0)])
def test_losses_count_by_their_weights(up, down):
    task = Two()
    Loop(task, LoopSettings(400, 0.05, {"up": up, "down": down})).run()
    wanted = torch.full(
        (2,), (up - down) / (up + down)
    ).double()  # where up (p - 1)^2 + down (p + 1)^2 is smallest
    torch.testing.assert_close(task.parameters["p"].detach(), wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("shape", "said"), [("number", r"got \[\]"), ("one", r"got \[1\]")])
def test_a_loss_of_all_replicas_together_is_refused(shape, said):
    with pytest.raises(ParameterError, match=rf"must be \[2\], one per active replica, {said}"):
        Loop(Two(shape), LoopSettings(2, 0.05, {"up": 1.0})).run()


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
        best.look(torch.tensor(losses), values, torch.tensor([0, 1]), torch.tensor(position))
    # 2.5 is not better than 3 by more than 0.5; two looks without improvement end the replica.
    assert best.tensors["loss"].tolist() == [3.0, 2.0]
    assert best.tensors["at"].tolist() == [0, 1]
    assert best.tensors["ran"].tolist() == [2, 3]
    assert best.tensors["running"].tolist() == [False, False]
    assert best.kept["x"].flatten().tolist() == [0, 1]


def test_a_relative_tolerance_is_a_share_of_the_best_loss():
    best = BestValues(Patience(3, tolerance=0.1, relative=True), 1, 10, torch.device("cpu"))
    for position, loss in enumerate([-10.0, -10.9, -11.1, -12.0]):
        best.look(torch.tensor([loss]), {}, torch.tensor([0]), torch.tensor(position))
    assert best.tensors["loss"].item() == pytest.approx(-11.1), "-10.9 and -12.0 are too small steps"
    assert best.tensors["at"].item() == 2


class Quadratic(Task):
    """(p - target)^2, with a validation that returns two losses."""

    validates = True

    def __init__(self) -> None:
        self.parameters = {"p": torch.zeros(2, dtype=torch.float64, requires_grad=True)}

    def step(self):
        return {"loss": (self.parameters["p"] - torch.tensor([1.0, 2.0])).square()}

    def validate(self):
        p = self.parameters["p"].detach()
        return {"first": p.clone(), "second": -p}


@pytest.mark.parametrize("watch", [None, "first", "second"])
def test_the_watched_loss_of_a_validation(watch):
    stop, seen = Patience(patience=50, watch=watch, restore=False), []
    result = Loop(Quadratic(), LoopSettings(18, 0.01, check_every=5, stop=stop)).run(
        lambda progress: seen.append(progress.iteration)
    )
    assert result.validated_at.tolist() == seen == [5, 10, 15, 18], "the last iteration is checked too"
    first = result.validation["first"]
    np.testing.assert_allclose(first, -result.validation["second"])
    assert (np.diff(first, axis=0) > 0).all()
    best, at = (-first[-1], 18) if watch == "second" else (first[0], 5)
    np.testing.assert_allclose(result.best_loss, best)
    assert result.best_iteration.tolist() == [at, at]


def test_a_loss_that_validate_does_not_return_cannot_be_watched():
    with pytest.raises(ParameterError, match="watch is 'third', but validate returns first, second"):
        Loop(Quadratic(), LoopSettings(20, 0.01, stop=Patience(5, watch="third"))).run()


def test_the_time_limit_leaves_one_iteration():
    result = Loop(Quadratic(), LoopSettings(50, 0.01)).run(time_limit=0.0)
    assert result.iterations == 1 and result.timed_out
    assert not result.converged and not result.interrupted
    assert result.history["loss"].shape == (1, 2)


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"iterations": 0}, "iterations must be positive"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"check_every": 0}, "check_every must be positive"),
        ({"warm_up": -1}, "warm_up must not be negative"),
        ({"minimise": {}}, "minimise must name at least one loss"),
        ({"drop_finished": True}, "drop_finished needs"),
        ({"drop_finished": True, "stop": Patience(3, restore=False)}, "drop_finished needs"),
        ({"drop_finished": True, "stop": Plateau()}, "drop_finished needs"),
        ({"record_every": 2, "stop": Plateau()}, "record_every must be 1"),
    ],
)
def test_settings_of_the_loop(arguments, words):
    LoopSettings(1, 1e-9, warm_up=0, check_every=1, drop_finished=True, stop=Patience(3))
    with pytest.raises(ParameterError, match=words):
        LoopSettings(**{"iterations": 5, "lr": 0.1, **arguments})


def test_settings_of_the_training():
    TrainSettings(ortho_weight=0.0, start=0, patience=1, check_every=1, iterations=1)
    for name in ("iterations", "lr", "temperature", "patience", "check_every"):
        for bad in (0, -1):
            with pytest.raises(ParameterError, match=f"{name} must be positive, got {bad}"):
                TrainSettings(**{name: bad})
    for name in ("ortho_weight", "start"):
        with pytest.raises(ParameterError, match=f"{name} must not be negative, got -1"):
            TrainSettings(**{name: -1})
    with pytest.raises(ParameterError, match="objective"):
        TrainSettings(objective="cut")


@pytest.mark.parametrize("rule", [Plateau, Patience])
def test_rules_are_checked(rule):
    with pytest.raises(ParameterError, match="patience must be positive, got 0"):
        rule(patience=0)
    with pytest.raises(ParameterError, match="tolerance must not be negative"):
        Patience(patience=1, tolerance=-1.0)


@pytest.mark.parametrize(
    "record", [Plateau(), Patience(3), TrainSettings(), LoopSettings(5, 0.1, {"loss": 1.0})]
)
def test_checked_settings_cannot_be_changed_behind_the_checks(record):
    for field in dataclasses.fields(record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field.name, -1)


# ------------------------------------------------------------------------------------------------- Ctrl-C


class Interrupted(Two):
    def step(self):
        os.kill(os.getpid(), signal.SIGINT)
        return super().step()


def test_a_handler_of_the_callers_is_left_alone():
    heard = []

    def own(number, frame):
        heard.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        result = Loop(Interrupted(), LoopSettings(3, 0.05, {"up": 1.0})).run()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT] * 3
    assert not result.interrupted and result.iterations == 3


def test_training_in_a_thread_has_nothing_to_do_with_ctrl_c():
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(
            target=lambda: done.append(Loop(Two(), LoopSettings(3, 0.05, {"up": 1.0})).run())
        )
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert done[0].iterations == 3
