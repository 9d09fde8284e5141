"""``softcut datasets``."""

from __future__ import annotations

from typing import Annotated

import typer

from softcut.cli.console import out, table

__all__ = ["datasets"]


def datasets(
    get: Annotated[
        str | None, typer.Option(help="Load (and download, if needed) a data set by name.")
    ] = None,
) -> None:
    """List the data sets known by name, and where they are."""
    from softcut.datasets import available, load

    if get is not None:
        out.print(str(load(get)), markup=False)
        return
    listing = table(
        "Data sets", ("name", "nodes", "edges", "features", "classes", "where"), text=("name", "where")
    )
    for info in available():
        where = str(info.path) if info.path else "not here: downloaded when first used"
        numbers = (f"{n:,}" for n in (info.nodes, info.edges, info.features, info.classes))
        listing.add_row(info.name, *numbers, where)
    out.print(listing)
