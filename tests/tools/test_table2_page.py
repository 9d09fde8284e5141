"""Table 2's page, from the results on disk and from made-up ones."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from softcut.errors import DataError
from softcut.learning import ClassifierSettings
from softcut.paper import classification, table2
from softcut.paper.table2 import ABLATION_DATASETS, ABLATIONS, DATASETS, PAPER_METHODS
from tools import table2_page as page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
SMALL = "Bench-easy-small"
QUICK = ClassifierSettings(batch=32, epochs=2, patience=2)


@pytest.fixture(scope="module")
def data() -> str:
    root = os.environ.get("SOFTCUT_DATA", "")
    if not root or not (Path(root) / "bench/easy_small.npz").is_file():
        pytest.skip("Bench is not in SOFTCUT_DATA")
    return root


def test_every_cell_is_shown_or_listed_as_missing() -> None:
    cells = {(c["dataset"], c["method"]): c for c in json.loads((RESULTS / "table2.json").read_text())}
    text = page.page_text(RESULTS)
    header, rows = text.split("\n\n")[0].split("\n", 1)
    columns = [name.strip() for name in header.strip("|").split("|")][1:]
    numbers = {row.split("|")[1].strip(" *"): row.strip("|").split("|")[1:] for row in rows.split("\n")[1:]}
    for dataset in DATASETS:
        for method in PAPER_METHODS:
            cell = cells.get((dataset.lower(), method))
            if cell is None or cell["n"] < 10:
                assert f"--dataset {dataset} --method {method}`" in text
            if cell is not None:
                mean = re.search(r"[0-9.]+", numbers[dataset][columns.index(method)])
                assert mean is not None
                assert float(mean.group()) == round(cell["mean"], 1)


def test_a_page_with_all_runs_lists_nothing_as_missing(tmp_path: Path) -> None:
    """Made-up results of every cell: MinCutPool is clearly the best but on DD, where Top-K is."""
    runs, cells, variants, variant_cells = [], [], [], []
    for dataset in DATASETS:
        for method in (*PAPER_METHODS, *(ABLATIONS if dataset in ABLATION_DATASETS else ())):
            mean = {"mincut": 99.0, "topk": 99.5 if dataset == "DD" else 70.0}.get(method, 60.0)
            mine = [
                {
                    "id": f"{dataset}{method}{seed}", "dataset": dataset, "method": method, "seed": seed, "note": "",
                    "settings": {"k": [4, 2]}, "accuracy": mean + (-0.1 if (seed + len(method)) % 2 else 0.1),
                    "epochs": 60, "seconds": 1.0, "device": "x", "commit": "y", "clusters1": 3.0, "clusters2": 2.0,
                    "cut1": -0.9, "ortho1": 0.3, "cut2": -0.8, "ortho2": 0.2,
                }
                for seed in range(10)
            ]  # fmt: skip
            average = sum(run["accuracy"] for run in mine) / 10
            cell = {
                "dataset": dataset.lower(), "method": method, "metric": "acc", "mean": average, "std": 0.1, "n": 10,
                "paper_mean": None, "paper_std": None, "seconds": 10.0, "device": "x", "note": "",
            }  # fmt: skip
            (variants if method in ABLATIONS else runs).extend(mine)
            (variant_cells if method in ABLATIONS else cells).append(cell)
    names = ("table2_runs", "table2", "table2_ablation_runs", "table2_ablation")
    for name, content in zip(names, (runs, cells, variants, variant_cells), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    text = page.page_text(tmp_path)
    assert "every cell has ten folds" in text
    assert "six poolers on 6 of 7." in text
    assert "| DD | 99.0 ± 0.1 | 78.5 | yes | worse than topk |" in text
    assert (
        "| DD | mincut-noortho | 60.0 ± 0.1 | 3.0 of 4 | 2.0 of 2 | -0.900 | 0.300 (1.000) | -0.800 | 0.200 (0.765) |"
        in text
    )


def test_a_table_that_its_runs_do_not_make_is_refused(tmp_path: Path) -> None:
    for name in ("table2.json", "table2_runs.json"):
        shutil.copy(RESULTS / name, tmp_path)
    cells = json.loads((tmp_path / "table2.json").read_text())
    next(c for c in cells if (c["dataset"], c["method"]) == ("dd", "mincut"))["mean"] += 1
    (tmp_path / "table2.json").write_text(json.dumps(cells))
    with pytest.raises(DataError, match="disagree on mincut for DD"):
        page.page_text(tmp_path)


def test_trials_have_records_and_a_place_on_the_page(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = ["mincut", "mincut+table", "mincut+lr=0.01+k=6,3", "nopool+batch=8"]
    classification.run(tmp_path, [SMALL], names, 2, settings=QUICK, data=data)
    (plain, _) = json.loads((tmp_path / "table2_runs.json").read_text())
    runs = json.loads((tmp_path / "table2_trials_runs.json").read_text())
    by_name = {(run["method"], run["seed"]): run for run in runs}
    same, changed = by_name["mincut+table", 0], by_name["mincut+lr=0.01+k=6,3", 0]
    assert same["settings"] == plain["settings"]
    assert {k: v for k, v in same.items() if k not in ("id", "method", "seconds")} == {
        k: v for k, v in plain.items() if k not in ("id", "method", "seconds")
    }
    assert (changed["settings"]["lr"], changed["settings"]["k"]) == (0.01, [6, 3])
    assert changed["accuracy"] != plain["accuracy"] or changed["task"] != plain["task"]
    classification.merge(tmp_path / "all", [tmp_path])
    text = page.trials(table2.results(tmp_path / "all"))
    assert text == page.trials(table2.results(tmp_path))
    assert text.startswith(f"**{SMALL}, mincut**\n\n| changed | validation accuracy |")
    rows = [line for line in text.split("\n") if line.startswith(("| lr=0.01, k=6,3", "| nothing"))]
    shown = [float(row.split("|")[2]) for row in rows]
    assert len(shown) == 2
    assert shown == sorted(shown, reverse=True)
    # Each fold takes the trial that is better on its own validation graphs.
    chosen = []
    for fold in range(2):
        mine = [run for run in runs if run["seed"] == fold and run["method"].startswith("mincut")]
        chosen.append(max(mine, key=lambda r: (r["validation_accuracy"], -r["validation_task"]))["accuracy"])
    assert f"own validation graphs: {np.mean(chosen):.1f} ± {np.std(chosen):.1f}." in text
