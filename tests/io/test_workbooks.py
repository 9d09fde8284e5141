"""Excel workbooks: sheets of edges and of nodes."""

import datetime
import io
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from helpers.reading import line_of, named_edges, quiet, write

from softcut.errors import FileFormatError
from softcut.io import read_features, read_graph

LINKS = [
    ("source", "target", "weight"),
    ("Zoë", "bob, the 2nd", 2.5),
    (None, None, None),
    ("bob, the 2nd", 7, 1),
]
PEOPLE = [("name", "age", "member"), (7, 28, True), ("Zoë", 31.5, False), ("bob, the 2nd", 45, True)]


def book(folder: Path, name: str = "b.xlsx", **sheets: list[tuple[Any, ...]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(folder / name)
    return folder / name


def test_edges_and_nodes(tmp_path: Path) -> None:
    path = book(tmp_path, Nodes=PEOPLE, Edges=LINKS, About=[("made in spring",)])
    g = quiet(path)
    assert named_edges(g) == {("Zoë", "bob, the 2nd", 2.5), ("7", "bob, the 2nd", 1.0)}
    assert g.feature_names == ["age", "member"]
    assert dict(zip(g.node_names, g.x.tolist(), strict=True)) == {
        "Zoë": [31.5, 0],
        "bob, the 2nd": [45, 1],
        "7": [28, 1],
    }
    assert "b.xlsx, sheet 'Edges': edge list, header on line 1" in line_of(g)
    assert "sheet 'About' not used" in line_of(g)
    assert "commas" not in line_of(g)
    # Features from elsewhere take the place of the sheet.
    x = write(tmp_path, "x.csv", 'id,a\nZoë,1\n7,2\n"bob, the 2nd",3\n')
    g = quiet(path, features=x)
    assert g.feature_names == ["a"]
    assert "sheets 'Nodes', 'About' not used" in line_of(g)


def test_one_sheet_and_a_book_of_features(tmp_path: Path) -> None:
    g = quiet(book(tmp_path, Sheet1=[("a", "b"), ("b", "c")]))
    assert named_edges(g) == {("a", "b", 1.0), ("b", "c", 1.0)}
    assert "b.xlsx: edge list, no header" in line_of(g)
    path = book(tmp_path, "x.xlsx", people=PEOPLE, links=LINKS)
    assert read_features(path, ["Zoë", "7", "bob, the 2nd"]).tolist() == [[31.5, 0], [28, 1], [45, 1]]
    # A sheet that only names the nodes has no features.
    g = quiet(book(tmp_path, edges=LINKS, nodes=[("name",), ("Zoë",)]))
    assert g.x is None
    g = quiet(book(tmp_path, links=LINKS, About=PEOPLE))  # a sheet of another name is not taken for nodes
    assert g.x is None and "sheet 'About' not used" in line_of(g)
    assert "b.xlsx, sheet 'links': edge list" in line_of(g)
    day = datetime.datetime(2024, 5, 17)
    g = quiet(book(tmp_path, edges=[("source", "target", "day"), ("#1", "b", day), ("b", "c", day)]))
    assert g.node_names == ["#1", "b", "c"]
    path = book(tmp_path, edges=[(0, 1), (1, 2)], nodes=[(2019, 2020), (1, 2), (3, 4), (5, 6)])
    assert quiet(path, features_header=True).feature_names == ["2019", "2020"]


def test_books_that_cannot_be_read(tmp_path: Path) -> None:
    good = book(tmp_path, edges=LINKS).read_bytes()
    with pytest.raises(
        FileFormatError, match=r"b\.xlsx, sheet 'edges', line 3: expected 3 columns|the weight 'x'"
    ):
        read_graph(book(tmp_path, edges=[*LINKS[:2], ("a", "b", "x")], more=[("x",)]))
    for data in (b"PK\x03\x04", b"nonsense", good[: len(good) // 2]):
        with pytest.raises(FileFormatError, match=r"g\.xlsx is not a valid \.xlsx file"):
            read_graph(write(tmp_path, "g.xlsx", data))
    with pytest.raises(FileFormatError, match="has no sheet with values"):
        read_graph(book(tmp_path, edges=[]))
    with pytest.raises(FileFormatError, match="unpacks to more than"):
        read_graph(write(tmp_path, "g.xlsx", good), max_bytes=100)
    hostile = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(hostile, "w") as new:
        for item in old.namelist():
            entity = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>' if "sheet1" in item else b""
            new.writestr(item, entity + old.read(item).removeprefix(b'<?xml version="1.0"?>'))
    with pytest.raises(FileFormatError, match="document type"):
        read_graph(write(tmp_path, "g.xlsx", hostile.getvalue()))
