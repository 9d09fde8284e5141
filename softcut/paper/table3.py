"""Table 3 of the paper: nine properties of QM9's molecules, four methods, the published numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from softcut.datasets.qm9 import PROPERTIES
from softcut.paper.comparison import Results, grid, paper_numbers
from softcut.report.tables import Table

METHODS = ("topk", "diffpool", "mincut", "flat")

_PAPER_ROWS: dict[str, str] = {
    "mu": ".600±.085 .651±.026 .538±.012 .559±.007",
    "alpha": ".197±.087 .114±.001 .078±.007 .065±.006",
    "homo": ".698±.102 .712±.015 .526±.021 .435±.013",
    "lumo": ".601±.050 .646±.013 .540±.005 .515±.007",
    "gap": ".630±.044 .698±.004 .584±.007 .552±.008",
    "r2": ".452±.087 .440±.024 .261±.006 .204±.006",
    "zpve": ".402±.032 .410±.004 .328±.005 .284±.005",
    "u0_atom": ".308±.055 .245±.006 .193±.002 .163±.001",
    "cv": ".291±.118 .337±.018 .148±.004 .127±.002",
}
# (mean, standard deviation) of the test MSE of standardised targets.
PAPER = paper_numbers(_PAPER_ROWS, METHODS, "mse")


def results(out: str | Path) -> Results:
    """The cells and runs of a folder; "mse" is that at the best validation epoch."""
    return Results(out, ("table3",), "mse", "mse", "regression", digits=3, higher=False)


def table(found: Results) -> Table:
    """Table 3: measured, and the paper's; bold is the lowest error, or not significantly higher."""
    note = (
        "Test MSE of standardised properties at the epoch with the lowest validation MSE, mean ± standard deviation "
        "over ten folds; in brackets the paper's. Bold: the lowest of the four, and those not significantly higher "
        "(Student's paired test over folds with the variance corrected for the overlap of their training parts, "
        "Nadeau and Bengio, 2003; one-sided, 5 %)."
    )
    return replace(grid(found, "property", PROPERTIES, METHODS, among=METHODS), notes=[note])


def command_for(method: str, name: str | None = None) -> str:
    """What makes a method's cells, or its cell of one property."""
    return f"softcut reproduce regression --method {method}" + ("" if name is None else f" --property {name}")
