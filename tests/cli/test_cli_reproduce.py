"""``softcut reproduce``: tables, progress, runs that resume, Ctrl-C."""

import json
import signal
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.molecule_samples import made_molecules
from rich.console import Console

from softcut.cli.console import TrainingBar
from softcut.datasets import qm9
from softcut.paper import regression, segmentation, segmentation_figure
from softcut.training import LoopProgress

WORDS = ("reproduce", "regression", "--quick", "--property", "mu", "--method", "mincut", "--folds", 2)


@pytest.fixture
def molecules(monkeypatch):
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())


def runs(folder):
    recorded = json.loads(Path(folder, "table3_trials_runs.json").read_text())
    return [{name: value for name, value in run.items() if name != "seconds"} for run in recorded]


def test_a_quick_regression_ends_with_a_table_and_says_what_it_is(done, molecules):
    words = (*WORDS, "--property", "cv", "--epochs", 2, "--device", "cpu")
    out, err = done(*words)
    assert "not the table of the paper" in err
    assert "mincut: 4 networks, 2 epochs" in err
    assert "Table 3" in out and "mse_last" in out
    cells = json.loads(Path("results/table3_trials.json").read_text())
    assert {(c["dataset"], c["n"]) for c in cells} == {("mu", 2), ("cv", 2)}
    for cell in cells:
        assert f"{cell['mean']:.3f} ± {cell['std']:.3f}" in out
    assert not Path("results/table3.json").exists()
    _, err = done(*words)
    assert "networks" not in err  # nothing is left to train
    out, err = done(*words, "--minutes", 0, "-o", "none")
    assert out == "" and "The same command continues" in err


@pytest.mark.parametrize("press_at", [1, 4])
def test_ctrl_c_leaves_a_checkpoint_that_the_same_command_continues(
    run, done, molecules, monkeypatch, press_at
):
    words = (*WORDS, "--epochs", 6, "--device", "cpu")
    seen = []

    def press(bar, job, folds, state):
        seen.append(state)
        if len(seen) == press_at:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "update", press)
        code, out, err = run(*words, "-o", "stopped")
    assert (code, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    assert list(Path("stopped/checkpoints").glob("*.pt"))
    done(*words, "-o", "stopped")
    done(*words, "-o", "straight")
    assert runs("stopped") == runs("straight")
    assert not list(Path("stopped/checkpoints").glob("*.pt"))


def test_missing_data_and_missing_rdkit_are_one_sentence(run, tmp_path, monkeypatch):
    for said in (
        "'QM9' is not in",
        "reading molecules from SMILES needs the package 'rdkit': run pip install 'softcut[molecules]' "
        "(in a clone of the source: pip install -e '.[molecules]').",
    ):
        code, out, err = run(*WORDS, "--data", tmp_path)
        assert (code, out) == (2, "")
        assert said in " ".join(err.split()).partition("softcut: ")[2]
        (tmp_path / "qm9").mkdir(exist_ok=True)
        (tmp_path / "qm9/qm9.csv.gz").write_bytes(b"")
        monkeypatch.setattr(qm9.fetching, "check_sha256", lambda *given: None)
        monkeypatch.setitem(sys.modules, "rdkit", None)
        monkeypatch.setitem(sys.modules, "rdkit.Chem", None)


def test_a_classification_ends_with_a_table_and_resumes(done, data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["reproduce", "classification", "--dataset", "bench_easy_small", "--epochs", 2, "--device", "cpu"]
    out, err = done(*words, "--method", "nopool", "--method", "wl", "--folds", 1)
    assert "Table 2" in out and "nopool, folds 0" in err
    cells = json.loads(Path("results/table2.json").read_text())
    assert {(c["method"], c["n"]) for c in cells} == {("nopool", 1), ("wl", 1)}
    assert all(f"{cell['mean']:.1f}" in out for cell in cells)
    _, err = done(*words, "--method", "nopool", "--folds", 2)
    assert "nopool, folds 1" in err  # the other fold is not repeated
    _, err = done(*words, "--method", "mincut", "--folds", 2, "--minutes", 0)
    assert "not finished: Bench-easy-small: mincut. The same command continues" in " ".join(err.split())


def test_segmentation_passes_its_options_on(done, monkeypatch):
    asked = {}

    def fake_run(out, methods, **options):
        asked.update(out=out, methods=methods, **options)
        return []

    monkeypatch.setattr(segmentation, "run", fake_run)
    monkeypatch.setattr(segmentation_figure, "draw", lambda out, **options: [f"{out}/picture.png"])
    words = ("--method", "mincut", "--images", 3, "--minutes", 1, "--split", "test", "-o", "there")
    out, _ = done("reproduce", "segmentation", *words)
    assert (asked["methods"], asked["images"], asked["minutes"]) == (["mincut"], 3, 1.0)
    assert (asked["out"], asked["split"]) == ("there", "test")
    assert "there/picture.png" in out and "gPb-owt-ucm" in out
    assert "Picture" not in done("reproduce", "segmentation", "--no-figure")[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_bars(terminal):
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, width=160)
    errors, hits = {"mse": np.array([0.2, 0.4])}, {"accuracy": np.array([0.5, 0.75])}
    with TrainingBar(console, jobs=4) as bar:
        bar.update("topk", range(2), LoopProgress(20, 50, {}, errors, (0, 1)))
        bar.update("mincut", range(2), LoopProgress(50, 50, {}, errors, (0, 1)))
        bar.update("PROTEINS mincut", range(3), LoopProgress(50, 50, {}, hits, (0, 1)))
        bar.tell("writing")
    with TrainingBar(console) as bar:
        bar(SimpleNamespace(iteration=30, iterations=30, cut=np.array([-0.5, -1]), ortho=np.array([0.25])))
    shown = screen.getvalue()
    for text in (
        *("mincut (2 of 4)", "2 networks, validation MSE 0.300", "PROTEINS mincut (3 of 4)"),
        *("2 of 3 folds training, validation accuracy 62.5 %", "training  loss -0.750  ortho 0.250", "30/30"),
    ):
        assert (text in shown) is terminal
    assert terminal or shown == "writing\n"
