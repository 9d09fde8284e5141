"""``softcut report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softcut.cli.console import err, out
from softcut.cli.output import Output, Overwrite

__all__ = ["report"]


def report(
    out_file: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    overwrite: Overwrite = False,
) -> None:
    """Build one HTML file with every table, figure and measurement of a folder of results."""
    from softcut.paper.report_sections import write_report

    output = Output(overwrite)
    place = output.files("--out", out_file, [out_file.name])
    with output, err.status("building the report"):
        write_report(results, output.staged(place) / out_file.name)
    size = out_file.stat().st_size / 1e6
    out.print(f"Report: {out_file} ({size:.1f} MB)", markup=False, soft_wrap=True)
