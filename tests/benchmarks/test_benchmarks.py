"""Every script of benchmarks/ starts, and those that have small sizes run with them and write what they measured."""

import json
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
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
OTHERS = [
    name
    for name in SCRIPTS
    if name not in SMALL and "argparse" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
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
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, monkeypatch, tmp_path, capsys):
    out = tmp_path / "out.json"
    run(name, SMALL[name].replace("OUT", str(out)), monkeypatch)
    assert capsys.readouterr().out
    assert json.loads(out.read_text(encoding="utf-8"))
