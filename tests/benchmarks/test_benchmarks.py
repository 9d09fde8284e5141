"""Every script of benchmarks/ runs with small sizes, and those of docs/images/ draw."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import networkx
import numpy as np
import pytest

from softcut.errors import DataError, DependencyError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
# Scripts without a run of their own: run.py starts the contenders; mutants.py changes code, with `make mutants`.
ELSEWHERE = {"contenders", "mutants"}
# The options of a small run; OUT is the file it writes, if any.
SMALL = {
    "distributed_cost": "--nodes 1000 --entries 5000 --parts 2 --out OUT",
    "growth": "--edges 1000 --out OUT",
    "large": "--nodes 500 --out OUT",
    "noise": "--noise 1 --planted 1 --out OUT",
    "regimes": "--only iris --states 1 --out OUT",
    "transfer": "--nodes 100 --factor 2 --out OUT",
    "unknown_numbers": "--folder FOLDER --out OUT",
    "verdicts": "--only shapes --out OUT",
}
# The same where it takes longer: many fits, processes of their own, or real data.
SLOW = {
    "changing_graphs": "--only karate planted --steps 1 --orders 1 --out OUT",
    "communities": "--only planted --nodes 1000 --edges 5000 --rounds 1 --no-first --out OUT",
    "billion": "--nodes 2000 --edges 10000 --iterations 3 --device cpu --out OUT",
    "classification": "--dataset Bench-easy --folds 2 --seconds 0.1 --device cpu --out OUT",
    "community_rings": "--runs 1 --epochs 1 --method topk --device cpu --out OUT",
    "collapse": "--nodes 150 --replicas 4 --out OUT",
    "distributed": "--only equality --graph 200 --out OUT",
    "edgelists": "--only wing --clusters 4 --data FOLDER --out OUT",
    "everyday": "--against . --what fits --graph 300 --runs 1 --out OUT",
    "generated": "--out OUT",
    "gpu": "",
    "gpu_kernels": "--tiny --out FOLDER",
    "halo": "--parts 2 --out OUT",
    "kernels": "",
    "large_files": "--lines 500 --kinds names --folder FOLDER --out OUT",
    "minibatch": "--only planted --scale 0.01 --parts random --replicas 4 --out OUT",
    "mixed_tables": "--only 16",
    "new_batch": "--turns 1",
    "objectives": "--dataset cora --seeds 1 --replicas 1 --device cpu --out FOLDER",
    "pooling": "speed --sizes 100 --operators mincut --repeat 1 --out OUT",
    "regression": "--method flat --steps 2 --folds 1 --device cpu --out OUT",
    "run": "--quick --only layer --rounds 1 --out OUT",
    "segmentation": "--runs 1 --megapixels 0.05 0.05 --out OUT",
    "subtree_columns": "--dataset Bench-easy --folds 1 --out OUT",
    "unchanged": ". --iterations 2",
}


def test_every_script_has_a_small_run():
    scripts = {path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert scripts == {*SMALL, *SLOW, *ELSEWHERE}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_small_run(name, monkeypatch, tmp_path, capfd):
    out = tmp_path / "out.json"
    options = {**SMALL, **SLOW}[name].replace("OUT", str(out)).replace("FOLDER", str(tmp_path))
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [str(FOLDER / f"{name}.py"), *options.split()])
    monkeypatch.chdir(ROOT)
    if name == "edgelists":
        (tmp_path / "edgelists").mkdir()
        edges = np.array(networkx.connected_caveman_graph(4, 6).edges).T
        np.savez(tmp_path / "edgelists" / "wing.npz", num_nodes=24, edges=edges)
    if name == "unknown_numbers":
        edges = np.array(networkx.connected_caveman_graph(4, 6).edges).T
        labels = np.repeat(np.arange(4), 6)
        np.savez(tmp_path / "caves.npz", num_nodes=24, row=edges[0], col=edges[1], y=labels)
    if name == "run":  # in this environment: peers are installed by `make bench`
        import environment

        absent = {peer.name: "not installed" for peer in environment.PEERS}
        monkeypatch.setattr(environment, "prepare", lambda slow: absent)
        monkeypatch.setattr(environment, "python", lambda: sys.executable)
    try:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    except (DataError, DependencyError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    except SystemExit as ended:
        if "needs a CUDA device" in str(ended):
            pytest.skip(str(ended))
        if ended.code:
            raise
    assert capfd.readouterr().out  # also of processes that a script starts
    assert "OUT" not in {**SMALL, **SLOW}[name] or json.loads(out.read_text(encoding="utf-8"))


# Scripts of docs/images/, and what makes a run of theirs shorter.
PICTURES = {
    "algorithms": ("", ""),
    "astronaut": ("", ""),
    "lfr": ("", ""),
    "pooled_protein": ("EPOCHS, NODES = 40", "EPOCHS, NODES = 1"),
    "pooling_gallery": ("STEPS = 400", "STEPS = 5"),
    "structure": ("", ""),
    "trees": ("", ""),
}


def test_every_picture_of_the_pages_has_a_run():
    scripts = {path.stem for path in (ROOT / "docs/images").glob("*.py")}
    assert scripts == {*PICTURES, "screenshots"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*PICTURES, pytest.param("screenshots", marks=pytest.mark.slow)])
def test_a_picture_of_the_pages_is_drawn(name, tmp_path, monkeypatch):
    if name == "screenshots":
        pytest.importorskip("playwright")
        if not (shutil.which("chromium") or shutil.which("google-chrome")):
            pytest.skip("no Chromium on this machine")
    monkeypatch.chdir(ROOT)
    folder = tmp_path / "docs" / "images"  # a script writes beside itself
    folder.mkdir(parents=True)
    (tmp_path / "results").symlink_to(ROOT / "results")
    text = (ROOT / "docs" / "images" / f"{name}.py").read_text(encoding="utf-8")
    long, short = PICTURES.get(name, ("", ""))
    assert long in text
    (folder / f"{name}.py").write_text(text.replace(long, short) if long else text, encoding="utf-8")
    try:
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    except DataError as error:
        pytest.skip(str(error))
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
