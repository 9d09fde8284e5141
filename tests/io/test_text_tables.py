"""The parts of reading on their own: opening, delimiters, comments, rows, numbers, headers, at their boundaries."""

from pathlib import Path

import pytest
from helpers.reading import write
from helpers.refusals import refuses

from softcut.errors import FileFormatError
from softcut.io import text_files as opening
from softcut.io.edge_lists import read_edge_list
from softcut.io.feature_files import features_from
from softcut.io.matrix_files import check_plausible
from softcut.io.options import ReadOptions
from softcut.io.text_files import open_table
from softcut.tables.arrays import listed, shown
from softcut.tables.columns import FeatureOptions, is_number, numbers_of_fields
from softcut.tables.feature_columns import feature_table

# ------------------------------------------------------------------------------------------------ opening


def test_names_of_files():
    known = {".csv": "edges", ".gml": "gml"}
    for path, kind in (("-", "edges"), ("A.GML", "gml"), (Path("a.gml.GZ"), "gml")):
        assert opening.kind_of(path, known, "graph") == kind
    assert opening.stem_of("x/a.b.csv.gz") == "a.b"
    assert opening.label_of(b"a.csv") == "a.csv"
    assert not opening.is_standard_input(b"-")
    assert opening.is_standard_input(Path("-"))
    with pytest.raises(FileFormatError, match=r"use one of .csv .gml; or pass format"):
        opening.kind_of("a.xyz", known, "graph")
    refuses(FileFormatError, r"use one of .csv .gml\.$", opening.kind_of, "a.xyz", known, "feature")


def test_words_of_messages():
    assert shown("x" * 60) == repr("x" * 60)
    assert shown("x" * 61) == repr("x" * 57 + "...")
    assert opening.reason_of(ValueError("one.\ntwo.")) == "one"
    assert opening.reason_of(ValueError("")) == "ValueError"
    assert opening.reason_of(ValueError("set allow_pickle=True")) == "it holds no plain arrays"
    assert len(opening.reason_of(ValueError("x" * 300))) == 200
    eight = list("abcdefgh")
    assert listed(eight) == str(eight)[1:-1]
    assert listed([*eight, "i"]) == f"{listed(eight)} and 1 more"


def test_what_a_damaged_file_may_announce():
    for size, asked, limit in ((10**6, None, 10**8), (9, None, 64 * 2**20), (9, 5, 5)):
        assert opening._limit(size, asked) == limit
    for edges, most in ((0, 10**7), (10**5, 10**7), (10**6, 10**8)):
        check_plausible(most, edges, "g")
        refuses(FileFormatError, f"announces {most + 1} nodes", check_plausible, most + 1, edges, "g")


# ------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("text", "delimiter", "rows"),
    [
        ("a,b\nc,d", ",", [["a", "b"], ["c", "d"]]),
        ("a;b,c\nd;e,f", ";", [["a", "b,c"], ["d", "e,f"]]),
        ("a\tb c\nd\te f", "\t", [["a", "b c"], ["d", "e f"]]),
        ("a b\nc  d", " ", [["a", "b"], ["c", "d"]]),
        ("a;b\nc,d\ne,f", ";", [["a", "b"], ["c,d"], ["e,f"]]),
        ("a,b;c\nd,e\nf,g", ",", [["a", "b;c"], ["d", "e"], ["f", "g"]]),
        ('"a,b",c\n"d,e",f', ",", [["a,b", "c"], ["d,e", "f"]]),
        ('d,e\n"a\nb", "c\nf"', ",", [["d", "e"], ["a\nb", "c\nf"]]),
        ("sep=|\na|b", "|", [["a", "b"]]),
        ("# x,y,z\n\na b\n%q\n", " ", [["a", "b"]]),
        ('"a b" c\nd  e', " ", [["a b", "c"], ["d", "e"]]),
        ('"a b" c \n"" e', " ", [["a b", "c"], ["", "e"]]),
    ],
)
def test_how_text_is_cut(text, delimiter, rows):
    table = open_table(text.encode(), "g", None, None)
    assert table.delimiter == delimiter
    assert [fields for _, fields in table.rows()] == rows


def test_line_numbers_are_true():
    table = open_table(b'sep=;\n# c\n"a\nb";c\n\nd;e\n', "g", None, None)
    assert list(table.rows()) == [(3, ["a\nb", "c"]), (6, ["d", "e"])]
    assert table.line(6) == "d;e"
    assert table.notes == ("line 1 names the delimiter",)
    assert open_table(b"sep=;\na,b\n", "g", ",", None).delimiter == ","
    with pytest.raises(FileFormatError, match="line 2: a quote that is never closed"):
        list(open_table(b'a,b\n"c,d\ne,f\n', "g", ",", None).rows())


@pytest.mark.parametrize(
    ("text", "comments", "notes", "warned"),
    [
        ("a,b\n# note\nc,d", "#%", 0, False),
        ("# a,b\nc,d\ne,f", "#%", 0, False),
        ("#x,y\na,b\nc,d", "#%", 0, False),  # above the data
        ("a,b\n#c,d\ne,f", "#%", 1, True),
        ("a,b\n#c,d,e\ne,f", "#%", 0, False),  # another width
        ("a,b\n#c,\ne,f", "#%", 0, False),  # a field is empty
        ("a,#b\n#b,c\n#c,d", "%", 1, False),  # a name in the data begins so
        ("a,b\n#c,d\n#e,f", "%", 1, False),  # more than the ordinary lines
        ("a,b\n%c,d\n%e,f", "#", 1, False),
        ("#a,b\n#c,d", "%", 1, False),
        ("a,b\n#_c,d\ne,f", "#%", 1, True),
        ("a,b\n#-c,d\ne,f", "#%", 0, False),
        ("a,b\n#c,d", "#%", 1, True),  # as many as the ordinary lines
        ("a,#\n#b,c\nd,e", "#%", 1, True),  # the sign alone is no name
        ("a\n#b\nc", "#%", 0, False),
        ("#a,b,1\n#c,d,2", "%", 1, False),
        ("#a,b,c,d\n#e,f,g,h", "#%", 0, False),
    ],
)
def test_which_lines_are_comments(text, comments, notes, warned, recwarn):
    table = open_table(text.encode(), "g", ",", None)
    assert table.comments == comments
    assert len(table.notes) == notes
    assert bool(len(recwarn)) == warned


def test_numbers_in_text():
    assert [is_number(f) for f in ("1", "-1.5e3", "1,5", ",5", "1_0", "", "x", "nan", "1,5,2", "+2,5e1")] == [
        True, True, True, True, False, False, False, True, False, True,
    ]  # fmt: skip
    values, said = numbers_of_fields(["1,5", "2"])
    assert values.tolist() == [1.5, 2.0]
    assert said == "decimal commas: '1,5' is 1.5"
    for fields in (["1,5", "2.5"], ["x", "2"], ["1,5", "x"], ["1,5,2", "2"], ["1_0"]):
        assert numbers_of_fields(fields) == (None, None)
    assert numbers_of_fields(["1.5", "2"])[1] is None


# --------------------------------------------------------------------------------------------- edge lists


def edges(text: str, **options):
    table, notes = read_edge_list(text.encode(), ReadOptions("g", "g", **options))
    names = table.names
    ends = [[str(i) if names is None else names[i] for i in row] for row in table.ends.tolist()]
    return ends, None if table.weight is None else table.weight.tolist(), notes


@pytest.mark.parametrize(("before", "delimiter"), [(49, ","), (50, ";")])
def test_the_delimiter_cuts_the_first_fifty_lines_evenly(before, delimiter):
    """The first lines fit two delimiters, the next one only the comma."""
    text = "a;x,b\n" * before + "y,z\n"
    assert open_table(text.encode(), "g", None, None).delimiter == delimiter


@pytest.mark.parametrize(
    ("text", "said", "count"),
    [
        ("# hello world\na b\nb c\n", "no header", 2),  # as many words as columns, but no known titles
        ("# source target\na b\nb c\n", "header on line 1 (its titles are in a comment)", 2),
        ("# source target\na b 1\nb c 2\n", "no header", 2),  # fewer titles than columns
        ("a,b\nb,c\n# source,target", "no header", 2),  # titles stand above the rows
        ("a,b\nc,a\n", "no header", 2),
        ("a,b\nb,c\n", "no header", 2),
        ("# source target weight\na b\nb c\n", "no header", 2),  # more titles than columns
        ("u,v,1\nv,x,2\nx,u,3\n", "no header", 3),  # nodes called u and v
        ("u,v,w\na,b,2\nb,c,3\n", "header on line 1", 2),
        ("u,v,w,when\nu,v,2,x\nv,c,3,y\n", "header on line 1", 2),  # four columns without titles: no edges
    ],
)
def test_which_rows_are_titles(text, said, count):
    ends, _, notes = edges(text)
    assert said in notes[0]
    assert len(ends) == count


@pytest.mark.parametrize(("rows", "header"), [(49, False), (50, True)])
def test_names_that_never_come_again_are_titles_unless_one_edge_in_fifty_stands_alone(rows, header):
    hub = "".join(f"hub,n{i % 7}\n" for i in range(rows - 1))
    notes = edges(f"employee,manager\n{hub}ann,bob\n")[2]
    assert ("no header" not in notes[0]) == header


@pytest.mark.parametrize(
    ("text", "options", "ends", "weight"),
    [
        ("0 1\n1 2", {}, [["0", "1"], ["1", "2"]], None),
        ("0 1 2.5\n1 2 0", {}, [["0", "1"], ["1", "2"]], [2.5, 0.0]),
        ("+1,02\n1,2", {}, [["+1", "02"], ["1", "2"]], None),
        ("0 1 2\n1 2 3", {"weighted": False}, [["0", "1"], ["1", "2"]], None),
        ("0 1 2\n1 2 3", {"target": 2}, [["0", "2"], ["1", "3"]], [1.0, 2.0]),
        ("0 1 2\n1 2 3", {"source": 1}, [["1", "0"], ["2", "1"]], [2.0, 3.0]),
        ("0 1 5 6\n1 2 5 7", {"source": 0}, [["0", "1"], ["1", "2"]], None),
        ("#source,target\n0,1\n1,2", {}, [["0", "1"], ["1", "2"]], None),
        ("a,b\n0,1\n1,2", {}, [["0", "1"], ["1", "2"]], None),
        ("a,b\n0,1\n1,2", {"header": False}, [["a", "b"], ["0", "1"], ["1", "2"]], None),
        ("0,1\n1,2", {"header": True}, [["1", "2"]], None),
        ("0 1 {'weight': 2.5}\n1 2 {}", {}, [["0", "1"], ["1", "2"]], [2.5, 1.0]),
        ("0 1 {'weight': 2.5}\n1 2 {}", {"weighted": False}, [["0", "1"], ["1", "2"]], None),
        ("a,b,1\nb,c,2", {}, [["a", "b"], ["b", "c"]], [1.0, 2.0]),
        # Three rows of three numbers are edges where they are no symmetric matrix, or columns were named.
        ("0,1,5\n1,0,6\n5,6,2", {}, [["0", "1"], ["1", "0"], ["5", "6"]], [5.0, 6.0, 2.0]),
        ("0,1,5\n1,0,6\n2,3,0", {}, [["0", "1"], ["1", "0"], ["2", "3"]], [5.0, 6.0, 0.0]),
        *(
            ("0,1,0\n1,0,1\n0,1,0", asked, [["0", "1"], ["1", "0"], ["0", "1"]], [0.0, 1.0, 0.0])
            for asked in ({"source": 0}, {"target": 1}, {"header": False})
        ),
        (f"-1,2\n2,{10**40}", {}, [["-1", "2"], ["2", str(10**40)]], None),
    ],
)
def test_edges_and_weights(text, options, ends, weight):
    assert edges(text, **options)[:2] == (ends, weight)


# ---------------------------------------------------------------------------------- features and matrices


def features(tmp_path, text: str, known=None, **options):
    table = feature_table(features_from(write(tmp_path, "x.csv", text)), FeatureOptions(**options), known)
    return table.x.tolist(), table.ids, table.names


@pytest.mark.parametrize(
    ("text", "x", "ids", "names"),
    [
        ("1,2\n3,4", [[1, 2], [3, 4]], None, None),
        ("a,b\n1,2\n3,4", [[1, 2], [3, 4]], None, ["a", "b"]),
        ("id,b\nx,2\ny,4", [[2], [4]], ["x", "y"], ["b"]),
        ("a,b\nx,2,3\ny,4,5", [[2, 3], [4, 5]], ["x", "y"], ["a", "b"]),
        ("a,b\nTrue,2\nfalse,4\n,6\nTRUE,8", [[1, 2], [0, 4], [0, 6], [1, 8]], None, ["a", "b"]),
        ("a;b\n1,5;2\n3;4", [[1.5, 2], [3, 4]], None, ["a", "b"]),
        ('a,b\n"1",2\n"3",4', [[1, 2], [3, 4]], None, ["a", "b"]),
        ("b,id\n2,007\n4,7", [[2], [4]], ["007", "7"], ["b"]),
        ("1,2,3", [[1, 2, 3]], None, None),
        ("a,1", [[1]], ["a"], None),
    ],
)
def test_tables_of_features(tmp_path, text, x, ids, names):
    assert features(tmp_path, text, missing="zero") == (x, ids, names)


def test_decimal_commas_of_two_columns_are_one_note(tmp_path):
    table = features_from(write(tmp_path, "x.csv", "a;b\n1,5;2,5\n3;4"))
    assert [note.code for note in table.notes] == ["format", "decimal_commas"]
