"""``softcut reproduce``: the paper's tables and figures, and the tables beyond it.

The options of each are declared in its module (:func:`softcut.paper.commands.command`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import typer

from softcut.cli.console import TrainingBar, err, note, out, show
from softcut.report.tables import Table

reproduce = typer.Typer(help="The paper's tables and figures, measured.", no_args_is_help=True)

EXPERIMENTS = {
    "synthetic": "E1: communities and a grid, clustered by three methods; a picture and scores.",
    "citation": "E3: table 1 on the citation networks, and the curves; an interrupted run resumes.",
    "quality": "Beyond the paper: the default clustering, its ablations and every baseline on eight data sets.",
    "evidence": "Beyond the paper: rank correlation of evidence, and of other scores, with NMI.",
    "autoencoder": "E4: ring and grid, reconstructed from a quarter of the nodes by each pooler.",
    "classification": "E5: table 2, graph classification by every pooler; an interrupted run resumes.",
    "regression": "E6: table 3, nine properties of molecules (QM9) by four methods; an interrupted run resumes.",
    "segmentation": "E2: images of BSDS500 scored against what people drew, and the figure; a run resumes.",
}


class RichScreen:
    """The :class:`softcut.paper.commands.Screen` of a terminal: a bar while it works, tables with lines."""

    note = staticmethod(note)

    def working(self, jobs: int = 0) -> TrainingBar:
        return TrainingBar(err, jobs)

    def show(self, *results: Table | str) -> None:
        for result in results:
            if isinstance(result, Table):
                show(result)
            else:
                out.print(result, markup=False)


def _command(name: str) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        importlib.import_module(f"softcut.paper.{name}").main(context.args, RichScreen())

    return run


_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
for _name, _about in EXPERIMENTS.items():
    reproduce.command(_name, help=_about, context_settings=_PASSED_ON)(_command(_name))
