"""One table, three writers: the same numbers in Markdown, in HTML and in the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from softcut.report.html_page import Section, render_page
from softcut.report.tables import Cell, Table, cell_table, pivot, to_markdown, to_terminal

CELL = Cell("0.390", kind="worse", strong=True, paper="0.450", test="p < 0.001", note="3 folds")
TABLE = Table(["data", "NMI"], [["cora", CELL], ["[red]", Cell("-")]], "A caption", notes=["A note."])


def terminal(table: Table) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(to_terminal(table))
    return console.file.getvalue()


def test_one_description_in_three_forms() -> None:
    rows = "| cora | **0.390** (0.450), 3 folds |\n| [red] | - |"
    assert to_markdown(TABLE) == f"| data | NMI |\n|---|---|\n{rows}\n\nA note."
    assert "<b>0.390 ▼</b><small>paper 0.450, p &lt; 0.001</small>" in render_page(
        "x", [Section("y", [TABLE])]
    )
    said = terminal(TABLE)
    assert "A caption" in said and "0.390 (0.450), 3 folds" in said and "[red]" in said  # no markup of rich


def test_recorded_cells_one_below_the_other_and_by_data_set() -> None:
    shared = {"metric": "nmi", "std": 0.01, "n": 10, "paper_mean": None, "paper_std": None, "seconds": 2.0}
    means = {("cora", "sc"): 0.2, ("cora", "mincut"): 0.4, ("pubmed", "sc"): 0.3}
    cells = [{"dataset": d, "method": m, "mean": mean, **shared} for (d, m), mean in means.items()]
    assert to_markdown(pivot(cells)).splitlines()[2:] == [
        "| sc | 0.200 ± 0.010 | **0.300 ± 0.010** |",
        "| mincut | **0.400 ± 0.010** | - |",
    ]
    listed = to_markdown(cell_table([{**cells[0], "note": "a fresh draw"}], digits=1))
    assert listed.endswith("| cora | sc | nmi | 0.2 ± 0.0 | 10 | - | 2.0 |\n\ncora is a fresh draw.")
