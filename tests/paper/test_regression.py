"""The runner of table 3: records, resuming, trials, merging, the table."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.molecule_samples import made_molecules

from softcut.datasets.qm9 import PROPERTIES
from softcut.errors import ParameterError
from softcut.paper import regression, table3
from softcut.paper.regression import (
    RegressionSettings,
    build_task,
    folds_of,
    label_of,
    table_of,
)
from softcut.paper.runs import Records
from softcut.training import Loop

RESULTS = Path(__file__).parents[2] / "results"
QUICK = RegressionSettings(batch=8, epochs=2, hidden=4, k=2, lr=0.01)


@pytest.fixture(autouse=True)
def few_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())


def read(path: Path) -> list[dict]:
    return json.loads(path.read_text())


def test_paper_table_is_complete():
    assert len(table3.PAPER) == 36
    assert table3.PAPER["mu", "topk", "mse"] == (0.6, 0.085)
    assert table3.PAPER["cv", "flat", "mse"] == (0.127, 0.002)


def test_folds_are_a_partition_and_differ_by_seed():
    parts = folds_of(203)
    assert sorted(np.concatenate([part.test for part in parts])) == list(range(203))
    for part in parts:
        assert sorted(np.concatenate(part)) == list(range(203))
        assert abs(len(part.validation) - 0.1 * (203 - len(part.test))) <= 1
    assert not np.array_equal(folds_of(203, seed=1)[0].test, parts[0].test)


def test_targets_are_standardised_by_the_training_molecules_alone():
    molecules = made_molecules()
    pairs = [("mu", 0), ("cv", 3)]
    task = build_task(molecules, "flat", pairs, QUICK)
    for row, (name, fold) in enumerate(pairs):
        own = task.targets[row].double().numpy()
        train, values = folds_of(130)[fold].train, molecules.targets[:, PROPERTIES.index(name)].astype(float)
        assert abs(own[train].mean()) < 1e-6 and abs(own[train].std() - 1) < 1e-6
        np.testing.assert_allclose(own * values[train].std() + values[train].mean(), values, atol=1e-4)


def test_every_replica_has_weights_and_an_order_of_its_own():
    task = build_task(made_molecules(), "flat", [("mu", 0), ("mu", 1), ("cv", 0)], QUICK)
    weights = task.parameters["net.head.weight"]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
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
        assert {"device", "commit", "seconds", "auxiliary", "settings"} <= set(run)
    (curve,) = read(tmp_path / "table3_trials_curves.json")
    np.testing.assert_allclose(curve["test"], values["test_mse"].mean(1), atol=1e-4)


def test_finished_runs_are_not_repeated_and_more_can_be_asked_for(tmp_path):
    said: list[str] = []
    options = {"settings": QUICK, "tell": said.append}
    cells = regression.run(tmp_path, ["mu"], ["flat"], 1, **options)
    assert [cell["n"] for cell in cells] == [1, 1]
    cells = regression.run(tmp_path, ["mu", "cv"], ["flat"], 2, **options)
    assert [cell["n"] for cell in cells] == [2] * 4
    assert [line for line in said if "epochs" in line] == [
        "flat: 1 network, 2 epochs",
        "flat: 3 networks, 2 epochs",
    ]
    said.clear()
    regression.run(tmp_path, ["mu", "cv"], ["flat"], 2, **options)
    assert said == []
    assert not list((tmp_path / "checkpoints").glob("*"))


def test_out_of_time_leaves_a_checkpoint_that_the_same_call_continues(tmp_path):
    regression.run(tmp_path / "whole", ["mu"], ["topk"], 2, settings=QUICK)
    assert regression.run(tmp_path / "part", ["mu"], ["topk"], 2, settings=QUICK, minutes=1e-6) == []
    options = {"settings": QUICK}
    # The limit was reached before the first step; a training that has begun stops after a step.
    job = regression.run(tmp_path / "part", ["mu"], ["topk"], 2, minutes=0.001, **options)
    while not job:
        assert list((tmp_path / "part/checkpoints").glob("table3_trials-topk-*.pt"))
        job = regression.run(tmp_path / "part", ["mu"], ["topk"], 2, minutes=0.001, **options)
    for one, two in zip(
        *(read(tmp_path / name / "table3_trials_runs.json") for name in ("whole", "part")), strict=True
    ):
        assert one["mse"] == two["mse"] and one["mse_last"] == two["mse_last"]


# A run that kills itself after the third of its epochs; a checkpoint is written at every chance.
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
def kill(method, state):
    seen.append(state)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
settings = RegressionSettings(batch=8, epochs=5, hidden=4, k=2, lr=0.01)
regression.run(sys.argv[2], ["mu", "cv"], ["mincut"], 2, settings=settings, progress=kill)
"""


def test_a_run_that_was_killed_continues_to_the_undisturbed_result(tmp_path):
    words = [sys.executable, "-c", _KILLED, str(Path(__file__).parents[1]), str(tmp_path / "killed")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((tmp_path / "killed/checkpoints").glob("*.pt"))
    assert not (tmp_path / "killed/table3_trials_runs.json").exists()
    settings, epochs = RegressionSettings(batch=8, epochs=5, hidden=4, k=2, lr=0.01), []
    for name in ("killed", "straight"):
        looks: list[int] = []
        options = {
            "settings": settings,
            "progress": lambda method, state, looks=looks: looks.append(state.iteration),
        }
        regression.run(tmp_path / name, ["mu", "cv"], ["mincut"], 2, **options)
        epochs.append(len(looks))
    assert epochs[0] < epochs[1] == 5  # what was trained before the kill is not repeated
    for file in ("table3_trials.json", "table3_trials_runs.json", "table3_trials_curves.json"):
        killed, straight = (
            [{k: v for k, v in row.items() if k != "seconds"} for row in read(tmp_path / name / file)]
            for name in ("killed", "straight")
        )
        assert killed == straight, file


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


def test_recorded_runs_are_those_that_the_runner_would_make():
    """A change of the settings' form would orphan every run on disk; trials with former options keep their names."""
    known = {**RegressionSettings().known, "split_seed": 0, "folds": 10, "validation": 0.1}
    records = Records(RESULTS / "table3_runs.json")
    for method, name in itertools.product(table3.METHODS, PROPERTIES):
        assert records.missing(name, method, range(10), known) == []
    runs = Records(RESULTS / "table3_trials_runs.json").runs
    names = {label_of(run["method"], run["settings"]) for run in runs}
    assert {f"mincut (epochs 20, {text}molecules 12000)" for text in ("", "bond orders, ", "k 2, ")} <= names


def test_merged_folders_make_the_cells_of_one(tmp_path):
    regression.run(tmp_path / "a", ["mu"], ["flat"], 2, settings=QUICK)
    regression.run(tmp_path / "b", ["mu"], ["mincut"], 2, settings=QUICK)
    regression.merge(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    regression.run(tmp_path / "one", ["mu"], ["flat", "mincut"], 2, settings=QUICK)
    mine, theirs = (
        [(c["method"], c["metric"], c["mean"]) for c in read(tmp_path / name / "table3_trials.json")]
        for name in ("all", "one")
    )
    assert mine == theirs
    assert len(read(tmp_path / "all/table3_trials_curves.json")) == 2


def test_names_and_settings_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="properties must be among mu"):
        regression.run(tmp_path, ["mass"])
    with pytest.raises(ParameterError, match="methods must be among topk"):
        regression.run(tmp_path, methods=["sagpool"])
    with pytest.raises(ParameterError, match="folds must be between 1 and 10, got 11"):
        regression.run(tmp_path, folds=11)
    with pytest.raises(ParameterError, match="k must be positive, got 0"):
        RegressionSettings(k=0)


def test_training_needs_no_rdkit_typer_rich_or_numba(tmp_path):
    program = """
import sys
for name in ("rdkit", "typer", "rich", "numba", "torch_geometric"):
    sys.modules[name] = None
from softcut.paper import regression
sys.path.insert(0, sys.argv[1])
from helpers.molecule_samples import made_molecules
regression.load_molecules = lambda data: made_molecules()
regression.main(sys.argv[2:])
"""
    arguments = f"--quick --epochs 1 --molecules 100 --folds 1 --property mu --out {tmp_path} --device cpu"
    words = [sys.executable, "-c", program, str(Path(__file__).parents[1]), *arguments.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "table3_trials.json")) == 8
