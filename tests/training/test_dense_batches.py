"""Replicas on padded batches against trainings one by one: plain modules, torch.optim.Adam, loops in Python."""

from __future__ import annotations

import copy
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from softcut.errors import ParameterError
from softcut.graph import Split
from softcut.paper.regression import POOLERS, regressor, squared_error
from softcut.training import Checkpoint, DenseBatchTask, Loop, LoopSettings

EXAMPLES, FEATURES, BATCH = 70, 3, 8


def examples(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 7, (EXAMPLES,), generator=generator)
    mask = torch.arange(6) < sizes.unsqueeze(1)
    x = torch.rand(EXAMPLES, 6, FEATURES, generator=generator, dtype=torch.float64) * mask.unsqueeze(-1)
    upper = (torch.rand(EXAMPLES, 6, 6, generator=generator) < 0.5).double().triu(1)
    upper = upper * mask.unsqueeze(1) * mask.unsqueeze(2)
    return x, upper + upper.mT, mask


def parts(replicas: int) -> list[Split]:
    """Training parts of different lengths; validation and test parts too."""
    found = []
    for replica in range(replicas):
        order = np.random.default_rng(replica).permutation(EXAMPLES)
        train = 43 - replica
        found.append(Split(order[:train], order[train : train + 10], order[train + 10 : 67]))
    return found


def targets(replicas: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(replicas, EXAMPLES, generator=generator, dtype=torch.float64)


def made(method: str, replicas: int, **changed):
    x, adjacency, mask = examples()
    models = [regressor(method, FEATURES, seed, hidden=6, k=2).double() for seed in range(replicas)]
    inputs = [x, adjacency, mask]
    given = {"batch": BATCH, "evaluation_batch": 4, **changed}
    task = DenseBatchTask(
        models, inputs, targets(replicas), parts(replicas), squared_error, range(replicas), **given
    )
    return task, models, inputs


def trained_alone(
    task: DenseBatchTask, model: nn.Module, inputs, replica: int, steps: int, lr: float
) -> nn.Module:
    """One replica in a plain loop, on the same batches."""
    model = copy.deepcopy(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    epochs = -(-steps // task.steps)
    rows = torch.cat([task.order(replica, epoch) for epoch in range(epochs)]).view(-1, task.batch)[:steps]
    for batch in rows:
        losses = squared_error(model(*(t[batch] for t in inputs)), targets(3)[replica, batch])
        optimiser.zero_grad()
        sum(loss.mean() for loss in losses.values()).backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("method", POOLERS)
def test_replicas_together_equal_trainings_alone(method):
    """Three replicas, fifty steps and more, float64."""
    task, models, inputs = made(method, 3)
    epochs = 9
    assert task.steps * epochs >= 50
    settings = task.settings(epochs, 0.01, {"mse": 1.0, "auxiliary": 1.0})
    result = Loop(task, settings).run()
    for replica, model in enumerate(models):
        alone = trained_alone(task, model, inputs, replica, task.steps * epochs, 0.01)
        for name, value in alone.named_parameters():
            assert (task.parameters[name][replica] - value).abs().max() < 1e-9, name
        for part, prefix in (("validation", ""), ("test", "test_")):
            rows = torch.from_numpy(getattr(task.parts[replica], part))
            with torch.no_grad():
                losses = squared_error(alone(*(t[rows] for t in inputs)), targets(3)[replica, rows])
            for name, values in losses.items():
                found = result.validation[prefix + name][-1, replica]
                assert abs(found - values.mean().item()) < 1e-9, (part, name)


def test_every_permutation_is_used_up_before_the_next():
    task, _, _ = made("flat", 2)
    for replica, own in enumerate(parts(2)):
        stream = torch.cat([task.order(replica, epoch) for epoch in range(12)]).numpy()
        size = len(own.train)
        whole = stream[: len(stream) // size * size].reshape(-1, size)
        assert (np.sort(whole, axis=1) == np.sort(own.train)).all()
        assert len({tuple(row) for row in whole}) == len(whole)  # a new permutation each time
    assert task.steps == 6  # 43 examples in batches of 8


def test_an_order_does_not_depend_on_the_other_replicas():
    pair, _, _ = made("flat", 2)
    x, adjacency, mask = examples()
    model = regressor("flat", FEATURES, 1, hidden=6).double()
    own = [parts(2)[1]]
    single = DenseBatchTask([model], [x, adjacency, mask], targets(2)[1:], own, squared_error, [1], BATCH)
    length = min(len(single.order(0, 0)), len(pair.order(1, 0)))
    assert torch.equal(single.order(0, 0)[:length], pair.order(1, 0)[:length])


def test_interrupted_and_resumed_training_is_the_uninterrupted_one(tmp_path):
    whole, _, _ = made("mincut", 2)
    settings = whole.settings(4, 0.01, {"mse": 1.0, "auxiliary": 1.0})
    expected = Loop(whole, settings).run()
    saved = Checkpoint(tmp_path / "half.pt", every=1e9)

    class Stop(DenseBatchTask):
        left = 9  # in the middle of the second epoch

        def step(self):
            Stop.left -= 1
            if Stop.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().step()

    first, _, _ = made("mincut", 2)
    first.__class__ = Stop
    halted = Loop(first, settings).run(checkpoint=saved)
    assert halted.interrupted and halted.iterations == 9
    second, _, _ = made("mincut", 2)
    resumed = Loop(second, settings).run(checkpoint=saved)
    for name, value in whole.parameters.items():
        assert torch.equal(value, second.parameters[name]), name
    for name in ("mse", "test_mse", "auxiliary", "training_mse"):
        assert np.array_equal(expected.validation[name], resumed.validation[name]), name


def test_training_losses_are_the_means_of_their_epoch():
    task, _, _ = made("flat", 2)
    settings = task.settings(3, 0.01, {"mse": 1.0, "auxiliary": 1.0})
    seen = []
    original = task.step
    task.step = lambda: seen.append(original()) or seen[-1]  # type: ignore[method-assign]
    result = Loop(task, settings).run()
    steps = torch.stack([values["mse"].detach() for values in seen]).view(3, task.steps, 2).mean(1)
    assert np.allclose(result.validation["training_mse"], steps.numpy(), atol=1e-12)
    assert result.best_iteration is not None
    best = result.validation["mse"].argmin(0)
    assert ((best + 1) * task.steps == result.best_iteration).all()


def test_history_of_groups_of_iterations():
    every, _, _ = made("flat", 2)
    full = LoopSettings(12, 0.01, minimise={"mse": 1.0}, check_every=6)
    complete = Loop(every, full).run()
    few, _, _ = made("flat", 2)
    grouped = LoopSettings(12, 0.01, minimise={"mse": 1.0}, check_every=6, record_every=5)
    result = Loop(few, grouped).run()
    assert np.array_equal(result.history["mse"], complete.history["mse"][[4, 9, 11]])


def test_buffers_belong_to_their_replicas():
    class Shifted(nn.Module):
        def __init__(self, shift: float) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.register_buffer("shift", torch.tensor(shift))

        def forward(self, x):
            return self.scale * x + self.shift

    x = torch.arange(6.0)
    own = [Split(np.arange(2), np.arange(2, 4), np.arange(4, 6))] * 2
    task = DenseBatchTask(
        [Shifted(0.0), Shifted(3.0)],
        [x],
        torch.zeros(2, 6),
        own,
        lambda found, target: {"miss": found - target},
        [0, 1],
    )
    assert task.evaluate("test")["miss"].tolist() == [4.5, 7.5]
    task.select(torch.tensor([1]))
    task.parameters = {"scale": torch.ones(1)}
    assert task.evaluate("validation")["miss"].tolist() == [5.5]


def test_what_does_not_fit_is_refused():
    x, adjacency, mask = examples()
    inputs = [x, adjacency, mask]
    models = [regressor("flat", FEATURES, seed) for seed in range(2)]
    with pytest.raises(ParameterError, match=r"one of each per replica, got .*'targets': 3"):
        DenseBatchTask(models, inputs, targets(3), parts(2), squared_error, range(2))
    with pytest.raises(ParameterError, match="batch must be at least 1, got 0"):
        DenseBatchTask(models, inputs, targets(2), parts(2), squared_error, range(2), batch=0)
    empty = [Split(np.arange(5), np.arange(0), np.arange(5))] * 2
    with pytest.raises(ParameterError, match="parts must not be empty"):
        DenseBatchTask(models, inputs, targets(2), empty, squared_error, range(2))


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs/regression.md").read_text(encoding="utf-8")
    (example,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SetRegressor" in block
    )
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(example, names)
    variance = names["targets"].var(1).numpy()  # type: ignore[attr-defined]
    assert (names["test_mse"] < 0.1 * variance).all()  # type: ignore[operator]
