"""``softcut datasets``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softcut.cli.console import out, table

if TYPE_CHECKING:
    from softcut.datasets import DatasetInfo

__all__ = ["datasets"]


def datasets(
    get: Annotated[
        str | None, typer.Option(help="Load (and download, if needed) a data set by name.")
    ] = None,
) -> None:
    """List the data sets known by name, and where they are."""
    from softcut.datasets import available, available_collections, load, load_graphs

    lists = available_collections()
    if get is not None:
        many = get.lower() in (info.name.lower() for info in lists)
        out.print(str(load_graphs(get) if many else load(get)), markup=False)
        return
    columns = ("nodes", "edges", "features", "classes")
    single = table("Graphs", ("name", *columns, "where"), text=("name", "where"))
    for info in available():
        single.add_row(info.name, *_counts(info, columns), _where(info.path))
    several = table("Lists of graphs", ("name", "graphs", *columns, "where"), text=("name", "where"))
    for info in lists:
        several.add_row(info.name, *_counts(info, ("graphs", *columns)), _where(info.path))
    out.print(single)
    out.print(several)


def _counts(info: DatasetInfo, columns: Sequence[str]) -> list[str]:
    return [f"{getattr(info, column):,}" for column in columns]


def _where(path: Path | None) -> str:
    return str(path) if path else "not here: downloaded when first used"
