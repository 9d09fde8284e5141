"""Replicas on padded batches as CUDA graphs: the same numbers as ordinary steps, also after a checkpoint."""

import numpy as np
import pytest
import torch

from softcut.graph import Split
from softcut.paper.regression import POOLERS, regressor, squared_error
from softcut.training import Checkpoint, DenseBatchTask, Loop

REPLICAS = 3


def made(method: str, capturable: bool, compiled: bool = False) -> DenseBatchTask:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(9) < torch.randint(2, 10, (200, 1), generator=generator)
    x = torch.nn.functional.one_hot(torch.randint(0, 4, (200, 9), generator=generator), 4).double()
    upper = (torch.rand(200, 9, 9, generator=generator) < 0.3).double().triu(1)
    upper = upper * mask.unsqueeze(1) * mask.unsqueeze(2)
    given = [t.cuda() for t in (x * mask.unsqueeze(-1), upper + upper.mT, mask)]
    targets = torch.randn(REPLICAS, 200, generator=generator, dtype=torch.float64).cuda()
    order = [np.random.default_rng(r).permutation(200) for r in range(REPLICAS)]
    parts = [Split(own[: 150 - r], own[150:170], own[170:]) for r, own in enumerate(order)]
    models = [regressor(method, 4, seed).double() for seed in range(REPLICAS)]
    task = DenseBatchTask(
        models,
        given,
        targets,
        parts,
        squared_error,
        range(REPLICAS),
        compiled=compiled,
    )
    task.capturable = capturable
    return task


def trained(task: DenseBatchTask, **run):
    settings = task.settings(12, 0.01, {"mse": 1.0, "auxiliary": 1.0}, watch="mse")
    return Loop(task, settings).run(**run)


@pytest.mark.parametrize("method", POOLERS)
def test_captured_steps_equal_ordinary_ones(method):
    captured, ordinary = made(method, True), made(method, False)
    first, second = trained(captured), trained(ordinary)
    for name, value in captured.parameters.items():
        torch.testing.assert_close(value, ordinary.parameters[name], atol=1e-9, rtol=0)
    for name, values in first.validation.items():
        np.testing.assert_allclose(values, second.validation[name], atol=1e-9, err_msg=name)


def test_a_stopped_training_continues_where_it_was(tmp_path):
    whole = made("mincut", True)
    expected = trained(whole)
    saved = Checkpoint(tmp_path / "half.pt")
    assert trained(made("mincut", True), checkpoint=saved, time_limit=0.0).timed_out
    rest = made("mincut", True)
    resumed = trained(rest, checkpoint=saved)
    assert resumed.iterations == expected.iterations
    for name, value in whole.parameters.items():
        torch.testing.assert_close(value, rest.parameters[name], atol=1e-9, rtol=0)


def test_a_compiled_step_makes_the_same_training():
    plain, compiled = made("mincut", True), made("mincut", True, compiled=True)
    trained(plain)
    trained(compiled)
    for name, value in plain.parameters.items():
        torch.testing.assert_close(value, compiled.parameters[name], atol=1e-6, rtol=0)
