"""Excel workbooks: sheets as the text of a table, so that they are understood like csv files."""

from __future__ import annotations

import csv
import io
import zipfile
from typing import Any

from softcut.errors import FileFormatError, Note, require
from softcut.io.network_formats import check_xml
from softcut.io.text_files import check_archive_size, reason_of
from softcut.tables.arrays import listed
from softcut.tables.columns import text_of

_BEFORE_XML = b"\0\xfe\xff\xef\xbb\xbf \t\r\n"  # byte order marks, a half of UTF-16
_EDGES = ("edges", "edge", "links", "relations", "ties")
_NODES = ("nodes", "node", "vertices", "features", "attributes")


class Workbook:
    """The sheets of an .xlsx file, by name; empty ones are left out."""

    def __init__(self, data: bytes, label: str, max_bytes: int | None = None) -> None:
        openpyxl = require("openpyxl", "tables", "reading .xlsx files")
        self.label = label
        try:
            check_archive_size(data, label, max_bytes)
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for item in archive.namelist():  # a part may have any name
                    content = archive.read(item)
                    if content.lstrip(_BEFORE_XML)[:1] == b"<":
                        check_xml(content, label)
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            # A sheet of charts has no rows.
            sheets = {sheet.title: _text(sheet) for sheet in book.worksheets if hasattr(sheet, "iter_rows")}
        except FileFormatError:
            raise
        except Exception as error:  # zipfile, XML parsers and openpyxl have their own
            raise FileFormatError(f"{label} is not a valid .xlsx file: {reason_of(error)}.") from None
        self.sheets = {title: text for title, text in sheets.items() if text.strip()}
        if not self.sheets:
            raise FileFormatError(f"{label} has no sheet with values.")

    def edges(self) -> str:
        """The name of the sheet of edges: by its name, or else the first that is not called nodes."""
        others = [title for title in self.sheets if title not in self._called(_NODES)]
        return next(iter([*self._called(_EDGES), *others, *self.sheets]))

    def nodes(self, first: bool = False) -> str | None:
        """The name of the sheet of nodes, if there is one; `first`: else that of the first sheet without edges."""
        others = [title for title in self.sheets if title not in self._called(_EDGES)] if first else []
        return next(iter([*self._called(_NODES), *others]), None)

    def _called(self, names: tuple[str, ...]) -> list[str]:
        return [title for title in self.sheets if title.strip().lower() in names]

    def place(self, sheet: str) -> str:
        """What to call a sheet in messages."""
        return self.label if len(self.sheets) == 1 else f"{self.label}, sheet {sheet!r}"

    def unused(self, *used: str | None) -> list[Note]:
        """What to say about sheets that were not read."""
        others = [title for title in self.sheets if title not in used]
        said = f"sheet{'s' if len(others) > 1 else ''} {listed(others)} not used"
        return [Note("sheets_not_used", said, sheets=others)] if others else []


def _text(sheet: Any) -> bytes:
    """The cells of a sheet as csv; rows keep their numbers."""
    sheet.reset_dimensions()  # what other programs write there may be wrong
    rows = [[_field(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    width = max((i + 1 for row in rows for i, field in enumerate(row) if field), default=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        if any(row):
            writer.writerow((row + [""] * width)[:width])
        else:
            text.write("\n")
    return text.getvalue().encode()


def _field(value: Any) -> str:
    if value is None:
        return ""
    # A date without a time of day is a date.
    text = text_of(value)
    return text.removesuffix(" 00:00:00").strip()
