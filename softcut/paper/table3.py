"""Table 3 of the paper: nine properties of QM9's molecules, four methods, the published numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from softcut.datasets.qm9 import PROPERTIES
from softcut.paper.comparison import FOLDS, OURS, Kind, Results, beside_targets, grid, paper_numbers
from softcut.paper.significance import worse_by_folds
from softcut.report.tables import Table

__all__ = ["FOLDS", "METHODS", "PAPER", "PROPERTIES", "command_for", "results", "table", "verdicts"]

METHODS = ("topk", "diffpool", "mincut", "flat")
_RIVALS = {"topk": "Top-K", "diffpool": "DiffPool"}  # the poolers that MinCutPool is compared with

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
    return Results(out, Kind(("table3",), "mse", "mse", "regression", digits=3, higher=False))


def table(found: Results) -> Table:
    """Table 3: measured, and the paper's; bold is the lowest error, or not significantly higher."""
    note = (
        "Test MSE of standardised properties at the epoch with the lowest validation MSE, mean ± standard deviation "
        "over ten folds; in brackets the paper's. Bold: the lowest of the four, and those not significantly higher "
        "(Student's paired test over folds with the variance corrected for the overlap of their training parts, "
        "Nadeau and Bengio, 2003; one-sided, 5 %)."
    )
    return replace(grid(found, "property", PROPERTIES, METHODS, among=METHODS), notes=[note])


def verdicts(found: Results) -> Table:
    """MinCutPool against the paper's mean plus its deviation, and against the other two poolers."""
    lower = significant = 0

    def beside_rivals(name: str) -> list[str]:
        nonlocal lower, significant
        rivals = [m for m in _RIVALS if (name, m) in found.cells]
        wins = [found.cells[name, OURS]["mean"] < found.cells[name, m]["mean"] for m in rivals]
        ours = found.scores(name, OURS)
        p_values = [worse_by_folds(found.scores(name, m), ours) for m in rivals]
        if len(rivals) == len(_RIVALS):
            lower += all(wins)
            significant += all(p < 0.05 for p in p_values)
        texts = [f"{'yes' if win else 'no'} (p = {p:.1g})" for win, p in zip(wins, p_values, strict=True)]
        return texts + ["-"] * (len(_RIVALS) - len(rivals))

    rows, reached = beside_targets(found, PROPERTIES, PAPER, lambda name, std: std, beside_rivals)
    of = len(PROPERTIES)
    note = (
        "The error of MinCutPool is at most the paper's mean plus one of the paper's "
        f"standard deviations on {reached} of {of} properties. It is lower than those of Top-K and DiffPool on {lower} "
        f"of {of}, significantly so (5 %) on {significant}."
    )
    columns = [
        "property",
        "MinCutPool",
        "asked for",
        "reached",
        *(f"lower than {_RIVALS[m]}" for m in _RIVALS),
    ]
    return Table(columns, rows, notes=[note])


def command_for(method: str) -> str:
    """What makes a method's cells."""
    return f"softcut reproduce regression --method {method}"
