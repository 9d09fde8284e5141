"""The runner of table 2: records, resuming after kill -9, the time limit, the table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softcut.classification import ClassifierSettings
from softcut.datasets import collections
from softcut.paper import classification

QUICK = ClassifierSettings(batch=32, epochs=2, patience=2)
SMALL = "Bench-easy-small"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def data() -> str:
    root = os.environ.get("SOFTCUT_DATA", "")
    if not root or not (Path(root) / "bench/easy_small.npz").is_file():
        pytest.skip("Bench is not in SOFTCUT_DATA")
    return root


def test_paper_table_is_complete() -> None:
    assert len(classification.PAPER) == 63
    assert classification.PAPER["PROTEINS", "mincut", "accuracy"] == (76.5, 2.6)
    assert classification.PAPER["Bench-easy", "wl", "accuracy"] == (92.6, None)
    assert set(classification.DATASETS) <= set(collections.COLLECTIONS)


def test_finished_folds_are_not_repeated_and_more_can_be_asked_for(data: str, tmp_path: Path) -> None:
    said: list[str] = []
    options = {"settings": QUICK, "data": data, "tell": said.append}
    (cell,) = classification.run(tmp_path, [SMALL], ["nopool"], 1, **options)
    assert cell["n"] == 1
    (cell,) = classification.run(tmp_path, [SMALL], ["nopool"], 2, **options)
    assert cell["n"] == 2
    trained = [line for line in said if "folds" in line and "epoch" not in line]
    assert [line.rpartition("folds ")[2] for line in trained] == ["0", "1"]
    runs = json.loads((tmp_path / "table2_runs.json").read_text())
    assert {run["seed"] for run in runs} == {0, 1}
    for run in runs:
        assert {"accuracy", "best_epoch", "epochs", "seconds", "commit", "device"} <= set(run)
        assert 0 <= run["accuracy"] <= 100
    other = ClassifierSettings(batch=32, epochs=1, patience=2)
    (cell,) = classification.run(tmp_path, [SMALL], ["nopool"], 1, **{**options, "settings": other})
    assert cell["n"] == 1  # other settings are other runs
    assert not list((tmp_path / "checkpoints").glob("*"))


def test_records_hold_losses_and_clusters_of_both_levels(data: str, tmp_path: Path) -> None:
    classification.run(tmp_path, [SMALL], ["mincut"], 1, settings=QUICK, data=data)
    (run,) = json.loads((tmp_path / "table2_runs.json").read_text())
    assert {"cut1", "cut2", "ortho1", "ortho2", "clusters1", "clusters2"} <= set(run)
    assert run["settings"]["k"] == [29, 14]


def test_out_of_time_is_clean(data: str, tmp_path: Path) -> None:
    long = ClassifierSettings(epochs=10_000, patience=10_000)
    options = {"settings": long, "data": data}
    assert classification.run(tmp_path, [SMALL], ["nopool", "mincut"], 1, minutes=0.02, **options) == []
    assert len(list((tmp_path / "checkpoints").glob("*.pt"))) == 1
    assert not (tmp_path / "table2.json").exists()


KILLED = [
    "-m", "softcut.paper.classification", "--dataset", SMALL, "--method", "mincut", "--folds", "2", "--epochs", "6",
    "--patience", "6", "--device", "cpu",
]  # fmt: skip


@pytest.mark.slow
def test_kill_9_and_the_same_command_give_the_undisturbed_result(data: str, tmp_path: Path) -> None:
    """The checkpoint is written at every check here, and the process killed once there is one."""
    started = (
        "import softcut.training.checkpoint as c; c.Checkpoint.__init__.__defaults__ = "
        "(*c.Checkpoint.__init__.__defaults__[:-1], 0.0); "
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    words = [sys.executable, "-c", started, *KILLED[1:], "--data", data]
    process = subprocess.Popen([*words, "--out", str(tmp_path / "killed")], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "killed/checkpoints").glob("*.pt")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed/table2_runs.json").exists()
    for folder in ("killed", "straight"):
        done = subprocess.run(
            [sys.executable, *KILLED, "--data", data, "--out", str(tmp_path / folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "|---|" in done.stdout
    killed, straight = (
        json.loads((tmp_path / folder / "table2_runs.json").read_text()) for folder in ("killed", "straight")
    )
    for one, other in zip(killed, straight, strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {
            k: v for k, v in other.items() if k != "seconds"
        }


def test_runs_of_several_folders_are_merged(data: str, tmp_path: Path) -> None:
    for method in ("nopool", "dense"):
        classification.run(tmp_path / method, [SMALL], [method], 1, settings=QUICK, data=data)
    found = classification.merge(tmp_path / "all", [tmp_path / "nopool", tmp_path / "dense"])
    assert {(cell["dataset"], cell["method"]) for cell in found} == {(SMALL, "nopool"), (SMALL, "dense")}
    assert len(json.loads((tmp_path / "all/table2_runs.json").read_text())) == 2
    table = classification.render(tmp_path / "all", [SMALL], ["dense", "nopool"])
    assert table.startswith("| data | dense | nopool |")


def test_bold_is_what_a_welch_test_says() -> None:
    runs = {
        "close": [78.0, 80.0, 81.0, 79.0],
        "best": [79.0, 80.5, 81.0, 80.0],
        "far": [60.0, 61.0, 59.0, 60.5],
    }
    assert classification.not_worse_than_the_best(runs) == {"best", "close"}
    assert classification.not_worse_than_the_best({"a": [99.0] * 3, "b": [99.0] * 3}) == {"a", "b"}
    assert classification.not_worse_than_the_best({}) == set()


BLOCKED = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "typer rich numba matplotlib safetensors rdkit grakel torch_geometric".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_packed_data_need_neither_sources_nor_extra_packages(data: str, tmp_path: Path) -> None:
    from softcut.datasets import pack

    pack.main([SMALL, "--out", str(tmp_path / "packed"), "--data", data, "--coarse"])
    words = [
        sys.executable,
        "-c",
        BLOCKED,
        "softcut.paper.classification",
        "--dataset",
        SMALL,
        "--folds",
        "1",
    ]
    words += [
        "--method",
        "graclus",
        "ndp",
        "--epochs",
        "1",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "SOFTCUT_DATA": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [*words, "--data", str(tmp_path / "packed")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "| graclus | ndp |" in done.stdout
