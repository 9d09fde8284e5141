"""Table 3 of the paper: nine properties of QM9's molecules, four methods, the published numbers."""

from __future__ import annotations

from collections.abc import Mapping

from softcut.datasets.qm9 import PROPERTIES

__all__ = ["FOLDS", "METHODS", "PAPER", "PROPERTIES", "command_for"]

METHODS = ("topk", "diffpool", "mincut", "flat")
FOLDS = 10

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


def _paper() -> dict[tuple[str, str, str], tuple[float, float | None]]:
    found: dict[tuple[str, str, str], tuple[float, float | None]] = {}
    for name, row in _PAPER_ROWS.items():
        for method, text in zip(METHODS, row.split(), strict=True):
            mean, _, std = text.partition("±")
            found[name, method, "mse"] = (float(mean), float(std))
    return found


# (mean, standard deviation) of the test MSE of standardised targets.
PAPER: Mapping[tuple[str, str, str], tuple[float, float | None]] = _paper()


def command_for(method: str) -> str:
    """What makes a method's cells.

    >>> command_for("mincut")
    'softcut reproduce regression --method mincut'
    """
    return f"softcut reproduce regression --method {method}"
