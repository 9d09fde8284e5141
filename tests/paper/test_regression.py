"""The runner of table 3: records, resuming, trials, merging, the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from softcut.datasets.qm9 import PROPERTIES, Molecules
from softcut.errors import ParameterError
from softcut.paper import regression, table3
from softcut.paper.regression_report import render
from softcut.paper.regression_task import RegressionSettings, build_task, folds_of, loop_settings, table_of
from softcut.training import Loop

QUICK = RegressionSettings(batch=8, epochs=2, hidden=4, k=2, lr=0.01)


def made_molecules(count: int = 130, seed: int = 0) -> Molecules:
    """Chains of 2 to 6 atoms with properties that depend on their atoms."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, count)
    atoms = rng.integers(0, 4, sizes.sum())
    first = np.concatenate([np.arange(size - 1) for size in sizes])
    share = np.add.reduceat(atoms, np.cumsum(sizes) - sizes) / sizes
    return Molecules(
        sizes=sizes,
        atoms=atoms,
        num_bonds=sizes - 1,
        bonds=np.stack([first, first + 1]),
        bond_type=rng.integers(1, 5, len(first)),
        targets=(share[:, None] * np.arange(1, 10) + 100).astype(np.float32),
        number=np.arange(count),
    )


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
    values = Loop(task, loop_settings(task, settings)).run().validation
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
        "flat: 1 networks, 2 epochs",
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


def test_trials_stand_in_files_of_their_own_and_say_what_is_different(tmp_path):
    assert table_of(RegressionSettings()) == "table3"
    other = RegressionSettings(**{**vars(QUICK), "bond_orders": True})
    regression.run(tmp_path, ["mu"], ["flat"], 1, settings=QUICK)
    regression.run(tmp_path, ["mu"], ["flat"], 1, settings=other)
    assert not (tmp_path / "table3.json").exists()
    cells = {
        cell["method"]: cell["mean"]
        for cell in read(tmp_path / "table3_trials.json")
        if cell["metric"] == "mse"
    }
    assert len(cells) == 2 and len(set(cells.values())) == 2  # weights of bonds change the result
    assert any("bond_orders True" in name for name in cells)
    assert "flat (" in render(tmp_path, table="table3_trials")


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


def test_names_and_settings_that_do_not_exist_are_refused(tmp_path, capsys):
    with pytest.raises(ParameterError, match="properties must be among mu"):
        regression.run(tmp_path, ["mass"])
    with pytest.raises(ParameterError, match="methods must be among topk"):
        regression.run(tmp_path, methods=["sagpool"])
    with pytest.raises(ParameterError, match="folds must be between 1 and 10, got 11"):
        regression.run(tmp_path, folds=11)
    with pytest.raises(ParameterError, match="k must be positive, got 0"):
        RegressionSettings(k=0)
    with pytest.raises(SystemExit):
        regression.main(["--two-hop", "--method", "flat"])
    assert "--two-hop is an option of Top-K" in capsys.readouterr().err


def test_the_command_says_that_a_trial_is_one(tmp_path, capsys):
    arguments = [
        "--quick",
        "--epochs",
        "1",
        "--molecules",
        "100",
        "--folds",
        "1",
        "--property",
        "mu",
        "--method",
        "flat",
    ]
    regression.main([*arguments, "--out", str(tmp_path), "--device", "cpu"])
    said = capsys.readouterr().out
    assert "not the table of the paper" in said and "| mu | flat (epochs 1, molecules 100) |" in said


def test_training_needs_no_rdkit_typer_rich_or_numba(tmp_path):
    program = """
import sys
for name in ("rdkit", "typer", "rich", "numba", "torch_geometric"):
    sys.modules[name] = None
from softcut.paper import regression
sys.path.insert(0, sys.argv[1])
from test_regression import made_molecules
regression.load_molecules = lambda data: made_molecules()
regression.main(sys.argv[2:])
"""
    arguments = f"--quick --epochs 1 --molecules 100 --folds 1 --property mu --out {tmp_path} --device cpu"
    words = [sys.executable, "-c", program, str(Path(__file__).parent), *arguments.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert len(read(tmp_path / "table3_trials.json")) == 8
