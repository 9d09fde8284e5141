"""Replicas on padded batches against trainings one by one: plain modules, torch.optim.Adam, loops in Python."""

import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from softcut.errors import ParameterError
from softcut.graph import Split
from softcut.paper.regression import POOLERS, regressor, squared_error
from softcut.training import Checkpoint, DenseBatchTask, Loop, LoopSettings

EXAMPLES, FEATURES, BATCH = 70, 3, 8
BOTH = {"mse": 1.0, "auxiliary": 1.0}


def examples() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(2, 7, (EXAMPLES,), generator=generator)
    mask = torch.arange(6) < sizes.unsqueeze(1)
    x = torch.rand(EXAMPLES, 6, FEATURES, generator=generator, dtype=torch.float64) * mask.unsqueeze(-1)
    upper = (torch.rand(EXAMPLES, 6, 6, generator=generator) < 0.5).double().triu(1)
    upper = upper * mask.unsqueeze(1) * mask.unsqueeze(2)
    return [x, upper + upper.mT, mask]


def part_of(replica: int) -> Split:
    """Training, validation and test parts of different lengths."""
    order, train = np.random.default_rng(replica).permutation(EXAMPLES), 43 - replica
    return Split(order[:train], order[train : train + 10], order[train + 10 : 67])


TARGETS = torch.randn(3, EXAMPLES, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def model_of(method: str, seed: int) -> nn.Module:
    return regressor(method, FEATURES, seed, hidden=6, k=2).double()


def made(method: str, replicas=(0, 1), **changed) -> DenseBatchTask:
    given = {
        "models": [model_of(method, r) for r in replicas],
        "inputs": examples(),
        "targets": TARGETS[list(replicas)],
        "parts": [part_of(r) for r in replicas],
        "losses": squared_error,
        "seeds": replicas,
        "batch": BATCH,
        "evaluation_batch": 4,
    }
    return DenseBatchTask(**{**given, **changed})


def trained_alone(task: DenseBatchTask, method: str, replica: int, epochs: int, lr: float) -> nn.Module:
    """One replica in a plain loop, on the same batches."""
    model, inputs = model_of(method, replica), examples()
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    for batch in torch.cat([task.order(replica, epoch) for epoch in range(epochs)]).view(-1, BATCH):
        losses = squared_error(model(*(t[batch] for t in inputs)), TARGETS[replica, batch])
        optimiser.zero_grad()
        sum(loss.mean() for loss in losses.values()).backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("method", POOLERS)
def test_replicas_together_equal_trainings_alone(method):
    """Three replicas, fifty steps and more, float64."""
    task, epochs = made(method, range(3)), 9
    assert task.steps * epochs >= 50
    result = Loop(task, task.settings(epochs, 0.01, BOTH)).run()
    for replica in range(3):
        alone = trained_alone(task, method, replica, epochs, 0.01)
        for name, value in alone.named_parameters():
            assert (task.parameters[name][replica] - value).abs().max() < 1e-9, name
        for part, prefix in (("validation", ""), ("test", "test_")):
            rows = torch.from_numpy(getattr(task.parts[replica], part))
            with torch.no_grad():
                losses = squared_error(alone(*(t[rows] for t in examples())), TARGETS[replica, rows])
            for name, values in losses.items():
                measured = result.validation[prefix + name][-1, replica]
                assert abs(measured - values.mean().item()) < 1e-9, (part, name)


def test_every_permutation_is_used_up_before_the_next_whatever_the_other_replicas_do():
    task, single = made("flat"), made("flat", [1])
    assert task.steps == 6  # 43 examples in batches of 8
    for replica in range(2):
        own = part_of(replica).train
        stream = torch.cat([task.order(replica, epoch) for epoch in range(12)]).numpy()
        whole = stream[: len(stream) // len(own) * len(own)].reshape(-1, len(own))
        assert (np.sort(whole, axis=1) == np.sort(own)).all()
        assert len({tuple(row) for row in whole}) == len(whole)  # a new permutation each time
    assert torch.equal(single.order(0, 0), task.order(1, 0)[: single.steps * BATCH])


def test_interrupted_and_resumed_training_is_the_uninterrupted_one(tmp_path):
    whole, first, second = made("mincut"), made("mincut"), made("mincut")
    settings, saved = whole.settings(4, 0.01, BOTH), Checkpoint(tmp_path / "half.pt", every=1e9)
    expected = Loop(whole, settings).run()
    step, left = first.step, iter(range(8, -1, -1))  # in the middle of the second epoch

    def press():
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return step()

    first.step = press  # type: ignore[method-assign]
    halted = Loop(first, settings).run(checkpoint=saved)
    assert halted.interrupted and halted.iterations == 9
    resumed = Loop(second, settings).run(checkpoint=saved)
    for name, value in whole.parameters.items():
        assert torch.equal(value, second.parameters[name]), name
    for name in ("mse", "test_mse", "auxiliary", "training_mse"):
        assert np.array_equal(expected.validation[name], resumed.validation[name]), name


def test_training_losses_are_the_means_of_their_epoch():
    task, seen = made("flat"), []
    original = task.step
    task.step = lambda: seen.append(original()) or seen[-1]  # type: ignore[method-assign]
    result = Loop(task, task.settings(3, 0.01, BOTH)).run()
    steps = torch.stack([values["mse"].detach() for values in seen]).view(3, task.steps, 2).mean(1)
    assert np.allclose(result.validation["training_mse"], steps.numpy(), atol=1e-12)
    assert result.best_iteration is not None
    best = result.validation["mse"].argmin(0)
    assert ((best + 1) * task.steps == result.best_iteration).all()


def test_history_of_groups_of_iterations():
    every, grouped = (
        Loop(made("flat"), LoopSettings(12, 0.01, {"mse": 1.0}, check_every=6, record_every=n)).run()
        for n in (1, 5)
    )
    assert np.array_equal(grouped.history["mse"], every.history["mse"][[4, 9, 11]])


def test_buffers_belong_to_their_replicas():
    class Shifted(nn.Module):
        def __init__(self, shift: float) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.register_buffer("shift", torch.tensor(shift))

        def forward(self, x):
            return self.scale * x + self.shift

    own = [Split(np.arange(33), np.arange(2, 4), np.arange(1025))] * 2
    models, x, y = [Shifted(0.0), Shifted(3.0)], torch.arange(1025.0), torch.zeros(2, 1025)
    at_once = []

    def miss(output, target):
        at_once.append(len(output))
        return {"miss": output - target}

    task = DenseBatchTask(models, [x], y, own, miss, [0, 1])
    assert task.steps == 2  # of 32 examples
    assert task.evaluate("test")["miss"].tolist() == [512, 515]
    assert at_once == [1024, 1]
    task.select(torch.tensor([1]))
    task.parameters = {"scale": torch.ones(1)}
    assert task.evaluate("validation")["miss"].tolist() == [5.5]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match=r"one of each per replica, got .*'targets': 3"):
        made("flat", targets=TARGETS)
    for name in ("batch", "evaluation_batch"):
        with pytest.raises(ParameterError, match=f"{name} must be at least 1, got 0"):
            made("flat", **{name: 0})
    with pytest.raises(ParameterError, match="parts must not be empty"):
        made("flat", parts=[Split(np.arange(5), np.arange(0), np.arange(5))] * 2)


def test_what_is_measured_has_no_gradient_and_usual_batches_have_32_examples():
    given = [[model_of("flat", 0)], examples(), TARGETS[:1], [part_of(0)], squared_error, [0]]
    task = DenseBatchTask(*given)
    assert (task.batch, task.evaluation_batch, task.steps) == (32, 1024, 2)  # of 43 examples
    assert not any(value.requires_grad for value in task.evaluate("test").values())
    assert task.step()["mse"].requires_grad
    settings = task.settings(3, 0.1, {"mse": 1.0})
    assert (settings.iterations, settings.check_every, settings.record_every) == (6, 2, 2)
