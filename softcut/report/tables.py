"""A table described once (titles, rows of cells, notes), and its three writers: Markdown, HTML and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softcut.errors import require
from softcut.tables.display_text import readable

_MARKS = {"better": "▲", "worse": "▼", "same": "="}


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and how it compares with a published number."""

    text: str
    below: str = ""  # a second line; by default the published number and the test
    kind: str = ""  # "better", "worse" or "same" as the published number
    title: str = ""  # shown when the mouse rests on the cell
    strong: bool = False  # in bold: the best of its row or column
    number: bool = True  # aligned to the right
    paper: str = ""  # the published number
    test: str = ""  # the result of comparing with it
    note: str = ""  # stands behind the number, such as "3 folds"
    swatch: str = ""  # a colour, shown before the text
    shade: float = 0.0  # how dark its ground is, up to 1

    def __post_init__(self) -> None:
        if self.paper and not self.below:
            object.__setattr__(self, "below", f"paper {self.paper}" + (f", {self.test}" if self.test else ""))

    @property
    def classes(self) -> str:
        holds = "mark" if self.swatch else "number" if self.number else "words"
        return " ".join(name for name in (holds, self.kind) if name)

    @property
    def mark(self) -> str:
        """The sign that says the same as the colour."""
        return _MARKS.get(self.kind, "")

    @property
    def markdown(self) -> str:
        """Text, published number in brackets, note."""
        text = f"**{self.text}**" if self.strong else self.text
        behind = self.paper or self.below
        return text + (f" ({behind})" if behind else "") + (f", {self.note}" if self.note else "")


@dataclass(frozen=True)
class Table:
    """Rows of cells (or of plain text) below titles; the first `heads` cells of a row are its name."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    heads: int = 1
    notes: Sequence[str] = ()
    stacked: bool = False  # on a phone, cells stand one below the other, each with its title

    @property
    def numbers(self) -> set[str]:
        """Titles of the columns that hold numbers."""
        first = self.rows[0] if self.rows else []
        cells = zip(self.columns, first, strict=False)
        return {name for name, cell in cells if isinstance(cell, Cell) and cell.number}


def to_markdown(table: Table) -> str:
    """The table and its notes in Markdown."""
    rows = ([cell.markdown if isinstance(cell, Cell) else cell for cell in row] for row in table.rows)
    return "\n\n".join([markdown_table(table.columns, rows), *table.notes])


def to_terminal(table: Table) -> Any:
    """The table for rich's console; print its notes below it."""
    rich = require("rich.table", "cli", "a table in the terminal")
    text = require("rich.text", "cli", "a table in the terminal").Text
    made = rich.Table(title=text(table.caption) if table.caption else None, min_width=len(table.caption))
    for name in table.columns:
        made.add_column(name, justify="right" if name in table.numbers else "left")
    for row in table.rows:
        cells = (cell if isinstance(cell, Cell) else Cell(cell) for cell in row)
        made.add_row(*(text(c.markdown.replace("**", ""), "bold" if c.strong else "") for c in cells))
    return made


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Plain text below titles in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def mean_and_deviation(mean: float | None, std: float | None, digits: int = 3) -> str:
    """A mean and its standard deviation where there is one; "-" without a mean."""
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def cell_table(cells: Iterable[Mapping[str, Any]], caption: str = "", digits: int = 3) -> Table:
    """Recorded cells (see :mod:`softcut.paper.runs`) one below the other, beside the paper's numbers."""
    rows: list[list[str | Cell]] = []
    notes: dict[str, None] = {}
    for c in cells:
        numbers = [mean_and_deviation(c["mean"], c["std"], digits), str(c["n"])]
        numbers += [mean_and_deviation(c["paper_mean"], c["paper_std"], digits), f"{c['seconds']:.1f}"]
        rows.append([c["dataset"], c["method"], c["metric"], *map(Cell, numbers)])
        if c.get("note"):
            notes[f"{c['dataset']} is {c['note']}."] = None
    columns = ["data", "method", "metric", "measured", "runs", "paper", "seconds"]
    return Table(columns, rows, caption, heads=3, notes=list(notes))


def pivot(cells: Iterable[Mapping[str, Any]], caption: str = "") -> Table:
    """Recorded cells of one metric: methods down, data sets across; bold: the highest of each column."""
    own = {(c["method"], c["dataset"]): c for c in cells}
    names = list(dict.fromkeys(dataset for _, dataset in own))
    best = {name: max(c["mean"] for (_, dataset), c in own.items() if dataset == name) for name in names}
    rows: list[list[str | Cell]] = []
    for method in dict.fromkeys(method for method, _ in own):
        row: list[str | Cell] = [method]
        for name in names:
            cell = own.get((method, name), {"mean": None, "std": None})
            row.append(Cell(mean_and_deviation(cell["mean"], cell["std"]), strong=cell["mean"] == best[name]))
        rows.append(row)
    return Table(["method", *names], rows, caption)


def number_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> Table:
    """A table whose numbers are aligned to the right, and shortened to four digits."""
    return Table(columns, [[_shown(value) for value in row] for row in rows], caption)


def _shown(value: Any) -> str | Cell:
    if isinstance(value, str | Cell):
        return value
    if value is None or isinstance(value, bool):
        return Cell({None: "-", True: "yes", False: "no"}[value])
    return Cell(f"{value:,}" if isinstance(value, int) else readable(value, 4))
