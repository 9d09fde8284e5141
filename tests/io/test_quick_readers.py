"""Plain numbers go through NumPy's reader, which is many times quicker; anything else is read row by row.

Both give the same values, so that only the way shows which one was taken.
"""

from __future__ import annotations

import dataclasses

import pytest

from softcut.io import edge_lists, feature_files
from softcut.io.edge_lists import read_edge_list
from softcut.io.feature_files import features_from
from softcut.io.text_files import ReadOptions
from softcut.io.text_tables import open_table
from softcut.tables.columns import FeatureOptions


@pytest.fixture
def taken(monkeypatch):
    """Names of the files that were read row by row."""
    slow = []
    for module in (edge_lists, feature_files):
        rows = module._parse_rows

        def record(table, *args, rows=rows):
            slow.append(table.label)
            return rows(table, *args)

        monkeypatch.setattr(module, "_parse_rows", record)
    return slow


def edges(text: str) -> list[list[int]]:
    return read_edge_list(text.encode(), ReadOptions("g", "g"))[0].ends.tolist()


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("100 2000\n2000 3\n", [[100, 2000], [2000, 3]]),  # zeros inside a number and at its end
        ("100\t2000\n2000\t3\n", [[100, 2000], [2000, 3]]),
        ("# first\n0 1\n# then\n1 2\n", [[0, 1], [1, 2]]),
        ("0 1\n% then\n1 2\n", [[0, 1], [1, 2]]),
        ("0,10,0.5\n10,3,0\n", [[0, 10], [10, 3]]),
        ("0,1,1e+2\n1,2,2e-3\n", [[0, 1], [1, 2]]),
    ],
)
def test_edges_between_plain_integers(taken, text, ends):
    assert edges(text) == ends
    assert not taken


@pytest.mark.parametrize(
    "text", ["00 1\n1 2\n", "1\t02\n2\t3\n", "+1 2\n2 3\n", "1,+2\n2,3\n", "1 2 {}\n2 3 {}\n"]
)
def test_edges_written_in_another_way(taken, text):
    assert len(edges(text)) == 2
    assert taken == ["g"]


def features(path):
    return features_from(path, FeatureOptions())(None, False)


def test_features_that_are_numbers(taken, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n0.5,2\n1.5,2\n")
    assert features(path).x.tolist() == [[0.5, 2], [1.5, 2]]
    # Columns of measurements are no ids, however many there are.
    path.write_text("\n".join(",".join(["0.5"] * 12) for _ in range(4)))
    assert features(path).x.shape == (4, 12)
    path.write_text("\n".join(f"n{i}," + ",".join(["0.5"] * 12) for i in range(4)))
    assert features(path).ids == ["n0", "n1", "n2", "n3"]
    assert not taken


def test_features_that_need_a_look_at_every_field(taken, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n0.5,True\n1.5,False\n")
    assert features(path).x.tolist() == [[0.5, 1], [1.5, 0]]
    assert taken == [str(path)]


# ------------------------------------------------------------------------------- delimiter, header or not


@pytest.mark.parametrize(("before", "delimiter"), [(49, ","), (50, ";")])
def test_the_delimiter_cuts_the_first_fifty_lines_evenly(before, delimiter):
    """The first lines fit two delimiters, the next one only the comma."""
    text = "a;x,b\n" * before + "y,z\n"
    assert open_table(text.encode(), "g", None, None).delimiter == delimiter


def test_a_comment_that_is_no_header():
    """As many words as there are columns are no titles unless they are known as such."""
    found, notes = read_edge_list(b"# hello world\na b\nb c\n", ReadOptions("g", "g"))
    assert found.names == ["a", "b", "c"]
    assert "no header" in notes[0]
    _, notes = read_edge_list(b"# source target\na b\nb c\n", ReadOptions("g", "g"))
    assert "header on line 1 (its titles are in a comment)" in notes[0]
    _, notes = read_edge_list(b"# source target weight\na b\nb c\n", ReadOptions("g", "g"))
    assert "no header" in notes[0], "more titles than columns"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (b"u,v,1\nv,x,2\nx,u,3\n", False),  # nodes called u and v
        (b"u,v,w\na,b,2\nb,c,3\n", True),
        (b"u,v,w,when\nu,v,2,x\nv,c,3,y\n", True),  # four columns without titles would be no edges
    ],
)
def test_one_letter_is_a_title_or_a_node(text, header):
    found, notes = read_edge_list(text, ReadOptions("g", "g"))
    assert ("no header" not in notes[0]) == header
    assert found.ends.shape[0] == (2 if header else 3)


@pytest.mark.parametrize(("rows", "header"), [(49, False), (50, True)])
def test_names_that_never_come_again_are_titles_unless_one_edge_in_fifty_stands_alone(rows, header):
    hub = "".join(f"hub,n{i % 7}\n" for i in range(rows - 1))
    _, notes = read_edge_list(f"employee,manager\n{hub}ann,bob\n".encode(), ReadOptions("g", "g"))
    assert ("no header" not in notes[0]) == header


@pytest.mark.parametrize("record", [ReadOptions("g", "g"), open_table(b"a b\n", "g", None, "#%")])
def test_what_was_asked_for_and_read_is_not_changed_later(record):
    for field in dataclasses.fields(record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field.name, None)
