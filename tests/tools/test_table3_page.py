"""Table 3's page, from the results on disk and from made-up ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from molecule_samples import made_molecules

from softcut.errors import DataError
from softcut.paper import regression
from softcut.paper.regression import RegressionSettings
from softcut.paper.table3 import METHODS, PAPER, PROPERTIES
from tools import table3_page as report

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of the first table by the name of their row."""
    lines = [line.strip("| ").split(" | ") for line in text.split("\n\n")[0].split("\n")[2:]]
    return {line[0]: line[1:] for line in lines}


def test_every_cell_stands_beside_the_papers() -> None:
    cells = json.loads((RESULTS / "table3.json").read_text())
    means = {(c["dataset"], c["method"]): c["mean"] for c in cells if c["metric"] == "mse"}
    shown = rows_of(report.page_text(RESULTS))
    assert len(means) == len(PROPERTIES) * len(METHODS)
    for (name, method), mean in means.items():
        ours, paper = re.findall(r"([0-9.]+) ± ", shown[name][METHODS.index(method)])
        assert float(ours) == pytest.approx(mean, abs=5.1e-4)
        assert float(paper) == PAPER[name, method, "mse"][0]


def write_results(folder: Path, means: dict[tuple[str, str], float], trial: float) -> None:
    """Made-up runs of every cell (folds differ by 0.02), and one trial of MinCutPool on three folds."""
    runs: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    shared = {"seconds": 2.0, "device": "x", "commit": "y", "best_epoch": 7, "epochs": 50}
    for name in PROPERTIES:
        for place, method in enumerate(METHODS):
            mean = means.get((name, method), 0.5)
            values = [mean + 0.01 * (-1) ** (fold + place) for fold in range(10)]
            known = {"dataset": name, "method": method, "settings": {"k": 4}, **shared}
            runs += [{**known, "seed": fold, "mse": value} for fold, value in enumerate(values)]
            for metric, shift in (("mse", 0.0), ("mse_last", 0.1)):
                paper = dict(zip(("paper_mean", "paper_std"), PAPER[name, method, "mse"], strict=True))
                cell = {"dataset": name, "method": method, "metric": metric, "mean": mean + shift, "n": 10}
                cells.append({**cell, **paper, "std": 0.01, "seconds": 20.0})
    trials = [
        {"dataset": "mu", "method": "mincut", "seed": fold, "settings": {"k": 6}, "mse": trial}
        for fold in range(3)
    ]
    curve = {"dataset": "mu", "method": "mincut", "settings": "z", "folds": [0, 1], "validation": [0.9, 0.8]}
    speed = {"method": "mincut", "way": "alone", "replicas": 1, "step_s": 0.002, "replica_steps_per_s": 500}
    contents = {
        "table3_runs": runs,
        "table3": cells,
        "table3_trials_runs": trials,
        "table3_curves": [curve],
        "table3_speed": {"device": "x", "torch": "2", "steps": 9, "rows": [{**speed, "ratio": 33.3}]},
    }
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_a_page_from_made_up_results(tmp_path: Path) -> None:
    means = {(name, "mincut"): 0.3 for name in PROPERTIES}
    means |= {("alpha", "mincut"): 0.08, ("cv", "mincut"): 0.6, ("mu", "flat"): 0.301}
    write_results(tmp_path, means, trial=0.25)
    text = report.page_text(tmp_path)
    shown = rows_of(text)
    # 0.301 and 0.300 cannot be told apart from folds that differ by 0.02; 0.5 can.
    assert shown["mu"][2] == "**0.300 ± 0.010** (0.538 ± 0.012)"
    assert [cell.startswith("**") for cell in shown["mu"]] == [False, False, True, True]
    assert [cell.startswith("**") for cell in shown["cv"]] == [True, True, False, True]
    assert "| alpha | 0.080 ± 0.010 | 0.085 | yes | yes (" in text
    assert "| r2 | 0.300 ± 0.010 | 0.267 | no | yes (" in text
    # u0_atom, r2 and cv are above the paper's; cv is above the other poolers, too.
    assert "deviations on 6 of 9 properties" in text
    assert "Top-K and DiffPool on 8 of 9, significantly so (5 %) on 8." in text
    assert "| mincut | 90 | 180 s | 7 of 50 | x |" in text
    assert "| mu | 0.600 ± 0.010 | 0.600 ± 0.010 | 0.400 ± 0.010 | 0.401 ± 0.010 |" in text
    assert "| mincut | alone | 1 | 2.000 ms | 500 | 33.3 |" in text
    empty = " | -" * 8
    assert f"| mincut (k 6) | 3 | 0.250{empty} |" in text
    assert "| mincut | 3 | 0.303 |" in text  # the same three folds with the table's settings
    assert "Every one of the 36 cells has 10 folds." in text
    curves = json.loads((tmp_path / "table3_curves.json").read_text())
    assert report.draw_curves(curves, tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_cells_that_are_not_finished_are_named_with_their_command(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())
    settings = RegressionSettings(batch=8, epochs=2, hidden=4, k=2)
    regression.run(tmp_path, ["mu"], ["flat"], 2, settings=settings)
    for kind in ("", "_runs"):  # as if they were the paper's settings
        text = (tmp_path / f"table3_trials{kind}.json").read_text()
        (tmp_path / f"table3{kind}.json").write_text(re.sub(r"flat \([^)]*\)", "flat", text))
    text = report.page_text(tmp_path)
    assert "36 cells are not finished:" in text
    assert "- mu, flat: 2 of 10 folds; `softcut reproduce regression --method flat --property mu`" in text
    assert "- cv, topk: 0 of 10 folds;" in text


def test_a_table_that_its_runs_do_not_make_is_refused(tmp_path: Path) -> None:
    for name in ("table3.json", "table3_runs.json"):
        shutil.copy(RESULTS / name, tmp_path)
    cells = json.loads((tmp_path / "table3.json").read_text())
    next(c for c in cells if (c["dataset"], c["method"]) == ("mu", "mincut"))["mean"] += 1
    (tmp_path / "table3.json").write_text(json.dumps(cells))
    with pytest.raises(DataError, match="disagree on mincut for mu"):
        report.page_text(tmp_path)
