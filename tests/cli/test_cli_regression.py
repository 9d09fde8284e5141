"""``softcut reproduce regression``: the table, progress, mistakes, Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys

import pytest
from helpers.molecule_samples import made_molecules

from softcut.cli.bars import TrainingBar
from softcut.datasets import qm9
from softcut.paper import regression

WORDS = ("reproduce", "regression", "--quick", "--property", "mu", "--method", "mincut", "--folds", 2)


@pytest.fixture
def molecules(monkeypatch):
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())


def runs(folder):
    found = json.loads((folder / "table3_trials_runs.json").read_text())
    return [{name: value for name, value in run.items() if name != "seconds"} for run in found]


def test_a_quick_run_ends_with_a_table_and_says_what_it_is(run, tmp_path, molecules):
    code, out, err = run(*WORDS, "--property", "cv", "--epochs", 2, "--device", "cpu")
    assert code == 0, err
    assert "not the table of the paper" in err
    assert "mincut: 4 networks, 2 epochs" in err
    assert "Table 3" in out and "mse_last" in out
    cells = json.loads((tmp_path / "results/table3_trials.json").read_text())
    assert {(c["dataset"], c["n"]) for c in cells} == {("mu", 2), ("cv", 2)}
    assert not (tmp_path / "results/table3.json").exists()
    code, _, err = run(*WORDS, "--epochs", 2, "--device", "cpu")
    assert code == 0 and "networks" not in err  # nothing is left to train


def test_padding_and_k_reach_the_settings(run, tmp_path, molecules):
    options = ("--epochs", 1, "--unmasked", "--k", 3, "--device", "cpu")
    assert run(*WORDS, *options)[0] == 0
    known = runs(tmp_path / "results")[0]["settings"]
    assert (known["unmasked"], known["k"], known["epochs"]) == (True, 3, 1)


def test_no_time_left_is_said(run, molecules):
    code, out, err = run(*WORDS, "--minutes", 0)
    assert (code, out) == (0, "")
    assert "The same command continues" in " ".join(err.split())


@pytest.mark.parametrize("press_at", [1, 4])
def test_ctrl_c_leaves_a_checkpoint_that_the_same_command_continues(
    run, tmp_path, molecules, monkeypatch, press_at
):
    words = (*WORDS, "--epochs", 6, "--device", "cpu")
    seen = []

    def press(bar, method, state):
        seen.append(state)
        if len(seen) == press_at:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "update_regression", press)
        code, out, err = run(*words, "-o", "stopped")
    assert (code, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    assert list((tmp_path / "stopped/checkpoints").glob("*.pt"))
    assert run(*words, "-o", "stopped")[0] == 0
    assert run(*words, "-o", "straight")[0] == 0
    assert runs(tmp_path / "stopped") == runs(tmp_path / "straight")
    assert not list((tmp_path / "stopped/checkpoints").glob("*.pt"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--property", "mass"], "--property must be one of mu, alpha,"),
        (["--method", "sagpool"], "--method must be one of topk, diffpool, mincut, flat, got 'sagpool'."),
        (["--folds", "11"], "--folds"),
    ],
)
def test_mistakes_are_one_sentence(run, words, message):
    code, out, err = run("reproduce", "regression", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_missing_data_are_one_sentence(run, tmp_path):
    code, out, err = run(*WORDS, "--data", tmp_path)
    assert (code, out) == (2, "")
    sentence = " ".join(err.split()).partition("softcut: ")[2]
    assert "'QM9' is not in" in sentence and "python -m softcut.datasets.pack QM9" in sentence


def test_missing_rdkit_is_one_sentence(run, tmp_path, monkeypatch):
    (tmp_path / "qm9").mkdir()
    (tmp_path / "qm9/qm9.csv.gz").write_bytes(b"")
    monkeypatch.setattr(qm9.fetching, "check_sha256", lambda *given: None)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    code, out, err = run(*WORDS, "--data", tmp_path)
    assert (code, out) == (2, "")
    assert (
        "reading molecules from SMILES needs the package 'rdkit': run pip install 'softcut[molecules]' "
        "(in a clone of the source: pip install -e '.[molecules]')." in " ".join(err.split())
    )


def test_a_terminal_sees_a_bar(monkeypatch):
    from io import StringIO

    import numpy as np
    from rich.console import Console

    from softcut.training import LoopProgress

    screen = StringIO()
    state = LoopProgress(20, 50, {}, {"mse": np.array([0.2, 0.4])}, (0, 1))
    with TrainingBar(Console(file=screen, force_terminal=True, width=160), jobs=4) as bar:
        bar.update_regression("topk", state)
        bar.update_regression("mincut", state)
    assert "mincut (2 of 4)" in screen.getvalue()
    assert "2 networks, validation MSE 0.300" in screen.getvalue()
