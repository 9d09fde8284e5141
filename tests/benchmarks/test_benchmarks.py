"""Every script of benchmarks/ starts, those that have small sizes run with them, and those of docs/images/ draw."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
# Modules that others import, and scripts that need an environment of their own (cosmic-ray; peers that are installed).
NO_SCRIPTS = ("environment", "gpu_measuring", "gpu_sweep", "peer_formulas", "contenders", "mutants")
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in NO_SCRIPTS)
# The options of a small run; OUT is the file it writes.
SMALL = {
    "distributed_cost": "--nodes 1000 --entries 5000 --parts 2 --out OUT",
    "growth": "--edges 1000 --out OUT",
    "large": "--nodes 500 --out OUT",
    "noise": "--noise 1 --planted 1 --out OUT",
    "regimes": "--only iris --states 1 --out OUT",
    "transfer": "--nodes 100 --factor 2 --out OUT",
}
# The same where it takes longer: many fits, or processes of their own.
SLOW = {
    "billion": "--nodes 2000 --edges 10000 --iterations 3 --device cpu --out OUT",
    "collapse": "--nodes 150 --replicas 4 --out OUT",
    "everyday": "--against . --what fits --graph 300 --runs 1 --out OUT",
    "generated": "--out OUT",
    "large_files": "--lines 500 --kinds names --folder FOLDER --out OUT",
    "minibatch": "--only planted --scale 0.01 --parts random --replicas 4 --out OUT",
}
OTHERS = [
    name
    for name in SCRIPTS
    if name not in {**SMALL, **SLOW} and "argparse" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
]


def run(name: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [str(FOLDER / f"{name}.py"), *options.split()])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", OTHERS)
def test_a_script_says_what_it_does(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name, "--help", monkeypatch)
    assert ended.value.code == 0 and "usage:" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_small_run(name, monkeypatch, tmp_path, capfd):
    out = tmp_path / "out.json"
    options = {**SMALL, **SLOW}[name].replace("OUT", str(out)).replace("FOLDER", str(tmp_path))
    run(name, options, monkeypatch)
    assert capfd.readouterr().out  # also of processes that a script starts
    assert json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["algorithms", "astronaut", "pooling_gallery", "structure"])
def test_a_picture_of_the_pages_is_drawn(name, tmp_path):
    folder = tmp_path / "docs" / "images"  # a script writes beside itself
    folder.mkdir(parents=True)
    (tmp_path / "results").symlink_to(ROOT / "results")
    text = (ROOT / "docs" / "images" / f"{name}.py").read_text(encoding="utf-8")
    (folder / f"{name}.py").write_text(text.replace("STEPS = 400", "STEPS = 5"), encoding="utf-8")
    runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    assert all(path.stat().st_size > 5_000 for path in folder.glob("*.png"))
    assert list(folder.glob("*.png"))


def test_the_page_says_how_many_mixed_tables_do_as_well_as_their_best_kind():
    cases = json.loads((ROOT / "results/mixed_tables.json").read_text())["cases"]
    within = sum(case["within"] for case in cases)
    assert len(cases) == 40 and within >= 36 and all(case["named"] for case in cases)
    assert f"in {within} of 40." in (ROOT / "docs/graphs-and-files.md").read_text()
    for part in (
        "300 columns of noise",
        "1e-6 and 1e9",
        "constant",
        "ids",
        "gaps",
        "date",
        "only numbers",
        "only cat",
    ):
        assert any(part in case["case"] for case in cases)
