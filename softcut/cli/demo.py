"""``softcut demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softcut.cli.console import err, out, table
from softcut.cli.output import Output, Overwrite

__all__ = ["demo"]

_SCORES = ("nmi", "completeness", "normalised_cut", "modularity")


def demo(
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    random_state: Annotated[int, typer.Option("--seed", help="Random state.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Cluster three generated graphs with four methods; prints a table and writes pictures and a report.

    Where there are results of the paper's experiments in results/, the report shows them as well.
    """
    from softcut.paper.report_sections import report_sections
    from softcut.report.demo import run_demo
    from softcut.report.html_page import Section, render_page

    output = Output(overwrite)
    folder = output.folder(
        "--out", out_dir, ("results.json", "report.html", "communities.png", "grid.png", "attributed.png")
    )
    with output, err.status("starting") as status:
        place = output.staged(folder)
        sections: list[Section] = []
        rows = run_demo(place, random_state, status.update, sections)
        status.update("building the report")
        results = Path("results")
        sections += report_sections(results) if results.is_dir() else []
        page = render_page(
            "softcut demo", sections, "Generated graphs" + ", then results/" * results.is_dir()
        )
        (place / "report.html").write_text(page, encoding="utf-8")
    columns = ("graph", "method", "NMI", "completeness", "cut", "modularity", "clusters used", "seconds")
    listing = table("softcut demo", columns, text=("graph", "method"))
    for i, row in enumerate(rows):
        scores = ("-" if row.get(key) is None else f"{row[key]:.3f}" for key in _SCORES)
        last = i + 1 == len(rows) or rows[i + 1]["graph"] != row["graph"]
        used = f"{row['clusters_used']} of {row['k']}"
        listing.add_row(row["graph"], row["method"], *scores, used, f"{row['seconds']:.1f}", end_section=last)
    out.print(listing)
    out.print(f"Pictures and results.json are in {out_dir}/", markup=False, soft_wrap=True)
    out.print(f"Report: {out_dir / 'report.html'}", markup=False, soft_wrap=True)
