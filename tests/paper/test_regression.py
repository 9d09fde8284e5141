"""The runner of table 3: records, resuming, trials, merging, the table."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.molecule_samples import made_molecules
from torch_geometric.utils import dense_to_sparse

from softcut.datasets.qm9 import PROPERTIES
from softcut.errors import ParameterError
from softcut.graph.collection import hold_out
from softcut.paper import default_regression, regression
from softcut.paper.regression import (
    POOLERS,
    RegressionSettings,
    build_task,
    folds_of,
    label_of,
    regressor,
    squared_error,
    table_of,
)
from softcut.paper.runs import Records
from softcut.training import Loop

RESULTS = Path(__file__).parents[2] / "results"
QUICK = RegressionSettings(batch=8, epochs=2, hidden=4, k=2, lr=0.01)


def without_seconds(path: Path) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in read(path)]


_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from helpers.molecule_samples import made_molecules
from softcut.paper import regression
from softcut.paper.regression import RegressionSettings
from softcut.training import Checkpoint
Checkpoint.__init__.__defaults__ = (*Checkpoint.__init__.__defaults__[:-1], 0.0)
regression.load_molecules = lambda data: made_molecules()
seen = []
def kill(job, folds, state):
    seen.append(state)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
settings = RegressionSettings(batch=8, epochs=5, hidden=4, k=2, lr=0.01)
regression.run(sys.argv[2], ["mu", "cv"], ["mincut"], 2, settings=settings, progress=kill)
"""


@pytest.fixture(autouse=True)
def few_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())


def read(path: Path) -> list[dict]:
    return json.loads(path.read_text())


def test_folds_are_a_partition_and_differ_by_seed():
    parts = folds_of(203)
    assert sorted(np.concatenate([part.test for part in parts])) == list(range(203))
    for part in parts:
        assert sorted(np.concatenate(part)) == list(range(203))
        assert abs(len(part.validation) - 0.1 * (203 - len(part.test))) <= 1
    assert not np.array_equal(folds_of(203, seed=1)[0].test, parts[0].test)
    third = folds_of(203, seed=2)[3]
    rest = np.sort(np.concatenate([third.train, third.validation]))
    own = hold_out(np.zeros(len(rest), int), 0.1, seed=2003)  # one of its own for every fold
    np.testing.assert_array_equal(third.validation, rest[own.validation])


def test_targets_are_standardised_by_training_molecules_and_every_replica_has_its_own_weights_and_order():
    molecules = made_molecules()
    pairs = [("mu", 0), ("cv", 3), ("mu", 3)]
    task, other = (build_task(molecules, "flat", pairs, QUICK, seed=seed) for seed in (0, 2))
    for row, (name, fold) in enumerate(pairs):
        own = task.targets[row].double().numpy()
        train, values = folds_of(130)[fold].train, molecules.targets[:, PROPERTIES.index(name)].astype(float)
        assert abs(own[train].mean()) < 1e-6 and abs(own[train].std() - 1) < 1e-6
        np.testing.assert_allclose(own * values[train].std() + values[train].mean(), values, atol=1e-4)
    weights = [made.parameters["net.head.weight"][row] for made in (task, other) for row in range(3)]
    for own, seed in zip(weights, (0, 803, 3, 2000, 2803, 2003), strict=True):
        expected = regressor("flat", task.inputs[0].shape[-1], seed, hidden=4, k=2).net.head.weight
        assert torch.equal(own, expected)
    assert not torch.equal(task.order(0, 0), task.order(2, 0))


def test_a_record_holds_the_errors_of_the_best_and_the_last_epoch(tmp_path):
    settings = RegressionSettings(batch=8, epochs=12, hidden=4, k=2, lr=0.1)
    regression.run(tmp_path, ["mu"], ["mincut"], 2, settings=settings)
    runs = read(tmp_path / "table3_trials_runs.json")
    task = build_task(made_molecules(), "mincut", [("mu", 0), ("mu", 1)], settings)
    steps = task.settings(settings.epochs, settings.lr, {"mse": 1.0, "auxiliary": 1.0}, watch="mse")
    values = Loop(task, steps).run().validation
    for row, run in enumerate(runs):
        best = values["mse"][:, row].argmin()
        assert run["best_epoch"] == best + 1
        assert run["mse"] == pytest.approx(values["test_mse"][best, row], abs=1e-5)
        assert run["mse_last"] == pytest.approx(values["test_mse"][-1, row], abs=1e-5)
        assert run["validation_mse"] == pytest.approx(values["mse"][best, row], abs=1e-5)
        assert run["training_mse"] == pytest.approx(values["training_mse"][best, row], abs=1e-5)
        assert run["auxiliary"] == pytest.approx(values["test_auxiliary"][best, row], abs=1e-5)
        errors = [run[name] for name in ("mse", "mse_last", "validation_mse", "training_mse", "auxiliary")]
        assert errors == [round(value, 6) for value in errors] and run["epochs"] == 12
        assert {"device", "commit", "seconds", "auxiliary", "settings"} <= set(run)
    (curve,) = read(tmp_path / "table3_trials_curves.json")
    for part, name in (("training", "training_mse"), ("validation", "mse"), ("test", "test_mse")):
        np.testing.assert_allclose(curve[part], values[name].mean(1), atol=1e-4)
        assert curve[part] == [round(value, 5) for value in curve[part]]


def test_the_default_learns_all_properties_with_one_network_per_fold(tmp_path, monkeypatch):
    monkeypatch.setattr(default_regression, "EPOCHS", 3)
    trial, said, began = RegressionSettings(molecules=120, batch=8), [], time.perf_counter()
    regression.run(tmp_path, ["mu", "cv"], ["default"], 2, settings=trial, tell=said.append)
    took = time.perf_counter() - began
    assert "120 molecules of QM9" in said
    runs = read(tmp_path / "table3_trials_runs.json")
    assert [(run["dataset"], run["seed"]) for run in runs] == [("cv", 0), ("cv", 1), ("mu", 0), ("mu", 1)]
    assert 0 < sum(run["seconds"] for run in runs) < took and {run["trained_together"] for run in runs} == {2}
    chosen = np.random.default_rng(0).choice(130, 120, replace=False)
    molecules = made_molecules()[chosen]
    task = default_regression.build_task(molecules, [0, 1], folds_of(120), 0, torch.device("cpu"))
    known = default_regression.known(120)
    steps = task.settings(3, known["lr"], {"mse": 1.0, "l2": known["l2"]}, watch="mse")
    values = Loop(task, steps).run().validation
    for run in runs:
        name, row = run["dataset"], run["seed"]
        best = values["mse"][:, row].argmin()
        assert (run["best_epoch"], run["epochs"]) == (best + 1, 3)
        for key, value in (
            ("mse", values[f"test_{name}"][best]),
            ("mse_last", values[f"test_{name}"][-1]),
            ("validation_mse", values[name][best]),
            ("training_mse", values[f"training_{name}"][best]),
        ):
            assert run[key] == pytest.approx(value[row], abs=1e-5) and run[key] == round(run[key], 6)


def test_the_default_has_its_own_weights_and_standardised_targets_in_every_fold():
    molecules = made_molecules()[:120]
    target, known = molecules.targets[:, 0].astype(float), default_regression.known(120)
    for split_seed, seed in ((0, 1), (2, 2001)):
        parts = folds_of(120, split_seed)
        task = default_regression.build_task(molecules, [1], parts, split_seed, torch.device("cpu"))
        train = target[parts[1].train]
        np.testing.assert_allclose(task.targets[0, :, 0], (target - train.mean()) / train.std(), atol=1e-5)
        torch.manual_seed(seed)
        fresh = dict(default_regression.PaddedReadout(known["hidden"], known["levels"]).named_parameters())
        assert all(torch.equal(values[0], fresh[name]) for name, values in task.parameters.items())


def test_out_of_time_leaves_a_checkpoint_that_the_same_call_continues(tmp_path):
    said: list[str] = []
    regression.run(tmp_path / "whole", ["mu"], ["topk"], 1, settings=QUICK)
    regression.run(tmp_path / "whole", ["mu"], ["topk"], 2, settings=QUICK, tell=said.append)
    assert "topk: 1 network, 2 epochs" in said, "the first fold is not repeated"
    # The limit is reached before the first step; a training that has begun stops after a step.
    assert regression.run(tmp_path / "part", ["mu"], ["topk"], 2, settings=QUICK, minutes=1e-6) == []
    while not regression.run(tmp_path / "part", ["mu"], ["topk"], 2, settings=QUICK, minutes=1e-3):
        assert list((tmp_path / "part/checkpoints").glob("table3_trials-topk-*.pt"))
    one, two = (read(tmp_path / name / "table3_trials_runs.json") for name in ("whole", "part"))
    assert [run["mse"] for run in one] == pytest.approx([run["mse"] for run in two], abs=1e-5)


def test_trials_stand_in_files_of_their_own_and_say_what_is_different(tmp_path, capsys):
    assert table_of(RegressionSettings()) == "table3"
    base = "--quick --epochs 1 --molecules 120 --batch 8 --folds 1 --property mu --device cpu --method mincut"
    changes = [[], ["--unmasked"], ["--k", "2"]]
    for change in changes:
        regression.main([*base.split(), "--out", str(tmp_path), *change])
    cells = [cell for cell in read(tmp_path / "table3_trials.json") if cell["metric"] == "mse"]
    assert len({cell["mean"] for cell in cells}) == len(changes)
    said = capsys.readouterr().out
    assert "not the table of the paper" in said
    for text in ("", "unmasked, ", "k 2, "):
        name = f"mincut (batch 8, epochs 1, {text}molecules 120)"
        assert name in {cell["method"] for cell in cells} and f"| mu | {name} | mse |" in said
    assert not (tmp_path / "table3.json").exists()
    assert "the time was up" not in said
    regression.main([*base.split(), "--out", str(tmp_path), "--minutes", "0", "--seed", "5"])
    assert "the time was up before everything was finished" in capsys.readouterr().out


def test_recorded_runs_are_those_that_the_runner_would_make():
    """A change of the settings' form would orphan every run on disk."""
    known = {**RegressionSettings().known, "split_seed": 0, "folds": 10, "validation": 0.1}
    records = Records(RESULTS / "table3_runs.json")
    default = {**default_regression.known(130_831), "split_seed": 0, "folds": 10, "validation": 0.1}
    for method in regression.METHODS:
        own = default if method == "default" else known
        assert not any(records.missing(name, method, range(10), own) for name in PROPERTIES)
    runs = Records(RESULTS / "table3_trials_runs.json").runs
    names = {label_of(run["method"], run["settings"]) for run in runs}
    assert {f"mincut (epochs 20, {text}molecules 12000)" for text in ("", "k 2, ")} <= names


def test_merged_folders_make_the_cells_of_one(tmp_path):
    regression.run(tmp_path / "a", ["mu"], ["flat"], 2, settings=QUICK)
    regression.run(tmp_path / "b", ["mu"], ["mincut"], 2, settings=QUICK)
    regression.merge(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    regression.run(tmp_path / "one", ["mu"], ["flat", "mincut"], 2, settings=QUICK)
    tables = (read(tmp_path / name / "table3_trials.json") for name in ("all", "one"))
    mine, theirs = ([(c["method"], c["metric"], c["mean"]) for c in table] for table in tables)
    assert mine == theirs
    assert len(read(tmp_path / "all/table3_trials_curves.json")) == 2


def test_settings_that_cannot_be_are_refused():
    for name in ("batch", "lr", "epochs", "hidden", "k"):
        with pytest.raises(ParameterError, match=f"{name} must be positive, got 0"):
            RegressionSettings(**{name: 0})
    assert RegressionSettings(molecules=100, lr=0.1).changed() == {"lr": 0.1, "molecules": 100}
    with pytest.raises(ParameterError, match="molecules must be at least 100, got 99"):
        RegressionSettings(molecules=99)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, None) for method in POOLERS),
        ("topk", {"connect": "two_hop"}),
        ("mincut", {"keep_diagonal": True}),
        ("diffpool", {"link_weight": 0.3}),
    ],
)
@pytest.mark.parametrize("unmasked", [False, True])  # True: padding is nodes without edges and features
def test_same_predictions_losses_and_gradients_as_the_ragged_model(method, options, unmasked):
    torch.manual_seed(0)
    net = regressor(method, 4, seed=3, hidden=8, k=3, pool_args=options).double()
    with torch.no_grad():  # biases as a training leaves them: padding is then more than zeros
        for name, parameter in net.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.5, 0.5)
    # Padded graphs of 1 to 9 nodes with weighted edges; the third has none.
    mask = torch.arange(9) < torch.tensor([1, 9, 5, *range(2, 9)] * 4).unsqueeze(1)
    x = torch.eye(4, dtype=torch.float64)[torch.randint(0, 4, mask.shape)] * mask.unsqueeze(-1)
    upper = torch.rand(40, 9, 9, dtype=torch.float64)
    upper = torch.where(upper < 0.3, 1 + upper, 0.0).triu(1) * mask.unsqueeze(1) * mask.unsqueeze(2)
    upper[2] = 0
    adjacency, counted = upper + upper.mT, torch.ones_like(mask) if unmasked else mask
    predicted, auxiliary = net(x, adjacency, counted)
    edges, weight = dense_to_sparse(adjacency, counted)
    expected = net.net(x[counted], edges, weight, counted.nonzero()[:, 0])
    assert torch.allclose(predicted, expected.y[:, 0], atol=1e-12, rtol=0)
    assert torch.allclose(auxiliary.mean(), expected.loss, atol=1e-12, rtol=0)
    losses = squared_error((predicted, auxiliary), torch.ones(len(x), dtype=torch.float64))
    total = sum(loss.mean() for loss in losses.values())
    other = (expected.y[:, 0] - 1).square().mean() + expected.loss
    assert torch.allclose(total, other, atol=1e-12, rtol=0)
    parameters = list(net.parameters())
    for one, two in zip(*(torch.autograd.grad(loss, parameters) for loss in (total, other)), strict=True):
        assert torch.allclose(one, two, atol=1e-10, rtol=0)
    if unmasked:
        masked, full = net(x, adjacency, mask)[0], mask.all(1)
        assert torch.allclose(predicted[full], masked[full], atol=1e-12, rtol=0)
        assert (predicted[~full] - masked[~full]).abs().max() > 1e-3


def test_a_run_that_was_killed_continues_to_the_undisturbed_result(tmp_path):
    words = [sys.executable, "-c", _KILLED, str(Path(__file__).parents[1]), str(tmp_path / "killed")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((tmp_path / "killed/checkpoints").glob("*.pt"))
    assert not (tmp_path / "killed/table3_trials_runs.json").exists()
    settings, looks = RegressionSettings(batch=8, epochs=5, hidden=4, k=2, lr=0.01), Counter()
    for name in ("killed", "straight"):
        told = {"settings": settings, "progress": lambda *state, name=name: looks.update([name])}
        regression.run(tmp_path / name, ["mu", "cv"], ["mincut"], 2, **told)
    assert looks["killed"] < looks["straight"] == 5  # what was trained before the kill is not repeated
    for file in ("table3_trials.json", "table3_trials_runs.json", "table3_trials_curves.json"):
        killed, straight = (without_seconds(tmp_path / name / file) for name in ("killed", "straight"))
        assert killed == straight, file
