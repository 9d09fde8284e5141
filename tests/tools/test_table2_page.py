"""Table 2's page, from the results on disk and from made-up ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from softcut.errors import DataError
from softcut.paper.table2 import ABLATION_DATASETS, ABLATIONS, DATASETS, PAPER_METHODS
from tools import table2_page as report

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_every_cell_is_shown_or_listed_as_missing() -> None:
    cells = {(c["dataset"], c["method"]): c for c in json.loads((RESULTS / "table2.json").read_text())}
    text = report.page_text(RESULTS)
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
    curve = {"dataset": "DD", "method": "mincut", "settings": "z", "folds": [0, 1], "training": [2, 2, 1]}
    curve |= {"loss": [1.0, 0.9, 0.8], "accuracy": [50.0, 60.0, 70.0]}
    for name, content in {
        "table2_runs": runs,
        "table2": cells,
        "table2_ablation_runs": variants,
        "table2_ablation": variant_cells,
        "table2_curves": [curve],
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    text = report.page_text(tmp_path)
    assert "every cell has ten folds" in text
    assert "six poolers on 6 of 7." in text
    assert "| DD | 99.0 ± 0.1 | 78.5 | yes | worse than topk |" in text
    assert (
        "| DD | mincut-noortho | 60.0 ± 0.1 | 3.0 of 4 | 2.0 of 2 | -0.900 | 0.300 (1.000) | -0.800 | 0.200 (0.765) |"
        in text
    )
    picture = report.draw_curves([curve], tmp_path / "curves.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_table_that_its_runs_do_not_make_is_refused(tmp_path: Path) -> None:
    for name in ("table2.json", "table2_runs.json"):
        shutil.copy(RESULTS / name, tmp_path)
    cells = json.loads((tmp_path / "table2.json").read_text())
    next(c for c in cells if (c["dataset"], c["method"]) == ("dd", "mincut"))["mean"] += 1
    (tmp_path / "table2.json").write_text(json.dumps(cells))
    with pytest.raises(DataError, match="disagree on mincut for DD"):
        report.page_text(tmp_path)
