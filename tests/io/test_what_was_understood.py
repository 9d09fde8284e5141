"""Reading says what it understood, and guesses nothing silently: weights, headers, ids, joins, comments."""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reading import named_edges, quiet, write

from softcut.errors import FileFormatError, GraphError, ParameterError
from softcut.io import read_features, read_graph


def line_of(g: Any) -> str:
    return "; ".join(g.notes)


# ---------------------------------------------------------------------- one line


def test_one_line_says_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "source,target,weight,year\na,b,1,2001\na,b,2,2002\nb,b,1,2003\nb,c,0,2004\n"
    with pytest.warns(UserWarning, match="self-loop"):
        g = read_graph(write(tmp_path, "g.csv", text), verbose=True)
    said = line_of(g)
    for part in (
        "g.csv: edge list separated by commas, header on line 1",
        "source 'source', target 'target', weight 'weight', ignored 'year'",
        "ids are text",
        "1 self-loop dropped",
        "1 edge of weight 0 dropped",
        "1 repeated edge merged",
        "3 nodes, 1 edge",
    ):
        assert part in said
    assert "\n" not in said
    captured = capsys.readouterr()
    assert captured.err == said + "\n"
    assert captured.out == ""
    quiet(write(tmp_path, "h.csv", "a,b\nb,c\n"))
    assert capsys.readouterr().err == ""


def test_notes_are_kept_by_what_is_made_of_a_graph(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "a,b\nb,c\n"))
    assert g.with_features(np.eye(3)).notes == g.notes
    assert g.subgraph([0, 1]).notes == g.notes
    other = quiet(write(tmp_path, "h.csv", "a,b\nb,d\n"))
    both = type(g).batch([g, other])
    assert both.notes == list(dict.fromkeys([*g.notes, *other.notes]))
    assert both.split()[0].notes == both.notes


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("title", ["year", "timestamp", "distance", "id", "type"])
def test_a_third_column_is_no_weight_by_its_place(tmp_path: Path, title: str) -> None:
    g = quiet(write(tmp_path, "g.csv", f"source,target,{title}\na,b,2001\nb,c,7\n"))
    assert not g.weighted
    assert f"no weight, ignored '{title}'" in line_of(g)
    asked = quiet(tmp_path / "g.csv", weight=title)
    assert named_edges(asked) == {("a", "b", 2001.0), ("b", "c", 7.0)}
    assert f"weight '{title}'" in line_of(asked)
    assert named_edges(quiet(tmp_path / "g.csv", weight=2)) == named_edges(asked)
    first = quiet(write(tmp_path, "h.csv", f"{title},source,target\n1,a,b\n2,b,c\n"))
    assert named_edges(first) == {("a", "b", 1.0), ("b", "c", 1.0)}


@pytest.mark.parametrize("title", ["weight", "W", "value", "Strength", "count", "similarity"])
def test_a_weight_is_known_by_its_title(tmp_path: Path, title: str) -> None:
    g = quiet(write(tmp_path, "g.csv", f"source,target,year,{title}\na,b,2001,3\nb,c,2002,2\n"))
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    assert "ignored 'year'" in line_of(g)
    ignored = quiet(tmp_path / "g.csv", weighted=False)
    assert not ignored.weighted
    assert f"ignored 'year', '{title}'" in line_of(ignored)


def test_the_third_of_three_untitled_columns_is_the_weight_and_that_is_said(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "0,1,2.5\n1,2,3\n"))
    assert named_edges(g) == {("0", "1", 2.5), ("1", "2", 3.0)}
    assert "no header; source column 1, target column 2, weight column 3" in line_of(g)


def test_columns_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "boss,since,member,hours\na,2001,b,3\nb,2002,c,2\n")
    g = quiet(path, source="member", target="boss", weight="hours")
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    assert "source 'member', target 'boss', weight 'hours', ignored 'since'" in line_of(g)
    untitled = write(tmp_path, "h.csv", "2001,a,b,3\n2002,b,c,2\n")
    g = quiet(untitled, source=1, target=2, weight=3, header=False)
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    assert named_edges(quiet(untitled, source="1", target="2", weight="3", header=False)) == named_edges(g)
    with pytest.raises(
        ParameterError, match=r"source is 'nobody', which is no column of .*choose from 'boss'"
    ):
        read_graph(path, source="nobody", target="boss", header=True)
    with pytest.raises(ParameterError, match="source and target are both column 'boss'"):
        read_graph(path, source="boss", target="boss")
    with pytest.raises(ParameterError, match=r"weight is column 'boss' .* holds the ids"):
        read_graph(path, source="boss", target="member", weight="boss")
    with pytest.raises(FileFormatError, match="name two of them source and target"):
        read_graph(path)


# ---------------------------------------------------------------------- headers


def test_an_unknown_header_is_no_edge(tmp_path: Path) -> None:
    text = "employee,manager\nann,bob\nbob,cy\ndan,bob\n"
    g = quiet(write(tmp_path, "g.csv", text))
    assert g.node_names == ["ann", "bob", "cy", "dan"]
    assert "header on line 1 ('employee' and 'manager' occur on no other line)" in line_of(g)
    assert quiet(tmp_path / "g.csv", header=False).num_edges == 4
    assert quiet(write(tmp_path, "h.csv", "x,y\n" + text), header=True).num_edges == 4


def test_types_that_differ_make_a_header(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "a,b\n0,1\n1,2\n"))
    assert (g.num_nodes, g.num_edges) == (3, 2)
    assert "its types differ from those below" in line_of(g)


def test_a_first_edge_is_not_taken_for_a_header(tmp_path: Path) -> None:
    for text in (
        "ann,bob\nbob,cy\n",  # a name comes again
        "ann,bob\ncy,dan\neve,fay\n",  # pairs that never come again are common here
        "ann,bob\n",
        "x,y,1\na,b,2\nb,c,3\n",  # a number is no title
        "ann,2\n3,4\n",
    ):
        g = quiet(write(tmp_path, "g.csv", text))
        assert g.num_edges == text.count("\n")
        assert "no header" in line_of(g)


def test_titles_behind_a_comment_sign(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "# made by hand\n#weight,source,target\n2,a,b\n3,b,c\n"))
    assert named_edges(g) == {("a", "b", 2.0), ("b", "c", 3.0)}
    assert "its titles are in a comment" in line_of(g)


# ---------------------------------------------------------------------- ids


def test_leading_zeros_make_ids_text(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "01234,1234\n1234,5\n"))
    assert g.node_names == ["01234", "1234", "5"]
    assert "ids are text" in line_of(g)
    assert quiet(write(tmp_path, "g.csv", "00501,00502\n00502,00503\n")).node_names == [
        "00501",
        "00502",
        "00503",
    ]
    assert quiet(write(tmp_path, "g.csv", "+1,1\n1,2\n")).node_names == ["+1", "1", "2"]
    # A weight with a leading zero does not make ids text.
    assert quiet(write(tmp_path, "g.csv", "0,1,007\n1,2,3\n")).node_names is None
    x = write(tmp_path, "x.csv", "id,a\n70,7\n07,1\n")
    np.testing.assert_array_equal(quiet(write(tmp_path, "g.csv", "07,70\n"), features=x).x, [[1], [7]])
    with pytest.raises(
        FileFormatError, match=r"no row for node '7' .* compared as text, and '07' is another id"
    ):
        read_graph(write(tmp_path, "g.csv", "7,70\n"), features=x)


EDGES = "0,1\n1,2\n2,3\n"


@pytest.mark.parametrize(
    "text",
    [
        "user_id,age\n3,30\n0,0\n2,20\n1,10\n",
        "age,userId\n30,3\n0,0\n20,2\n10,1\n",
        "account,age\n3,30\n0,0\n2,20\n1,10\n",
        "3,30\n0,0\n2,20\n1,10\n",
    ],
)
def test_rows_are_joined_by_the_column_of_ids(tmp_path: Path, text: str) -> None:
    g = quiet(write(tmp_path, "g.csv", EDGES), features=write(tmp_path, "x.csv", text))
    np.testing.assert_array_equal(g.x, [[0], [10], [20], [30]])
    assert "joined by column" in line_of(g)


def test_ids_with_gaps_are_found_in_any_column(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "900,17\n17,55\n")
    x = write(tmp_path, "x.csv", "age,who\n3,55\n1,900\n2,17\n")
    g = quiet(graph, features=x)
    assert g.node_names == ["900", "17", "55"]
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert "joined by column 'who'" in line_of(g)


def test_a_feature_that_counts_is_no_id_by_chance(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", EDGES)
    g = quiet(graph, features=write(tmp_path, "x.csv", "age,rank\n30,3\n0,0\n20,2\n10,1\n"))
    np.testing.assert_array_equal(g.x, [[30, 3], [0, 0], [20, 2], [10, 1]])
    assert "rows joined by position" in line_of(g)
    two = quiet(write(tmp_path, "h.csv", "0,1\n"), features=write(tmp_path, "x.csv", "1,0\n0,1\n"))
    np.testing.assert_array_equal(two.x, [[1, 0], [0, 1]])


def test_ids_asked_for_and_ids_that_match_nothing(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", EDGES)
    x = write(tmp_path, "x.csv", "age,rank\n30,3\n0,0\n20,2\n10,1\n")
    np.testing.assert_array_equal(quiet(graph, features=x, ids="rank").x, [[0], [10], [20], [30]])
    np.testing.assert_array_equal(quiet(graph, features=x, ids=1).x, [[0], [10], [20], [30]])
    with pytest.raises(ParameterError, match="ids is 'nothing', which is no column"):
        read_graph(graph, features=x, ids="nothing")
    other = write(tmp_path, "y.csv", "user_id,age\n77,1\n78,2\n79,3\n80,4\n")
    g = quiet(graph, features=other)
    np.testing.assert_array_equal(g.x, [[1], [2], [3], [4]])
    assert "no id of column 'user_id' is a node: rows joined by position" in line_of(g)
    half = write(tmp_path, "z.csv", "user_id,age\n1,1\n2,2\n3,3\n4,4\n")
    with pytest.raises(FileFormatError, match="no row for node '0'"):
        read_graph(graph, features=half)
    # Names have no order of their own: rows without ids cannot be joined to them.
    with pytest.raises(FileFormatError, match="no node ids, but the nodes"):
        read_graph(write(tmp_path, "n.csv", "a,b\nb,c\n"), features=write(tmp_path, "w.csv", "1\n2\n3\n"))


# ---------------------------------------------------------------------- values


def test_decimal_commas_and_the_separator_line(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "sep=;\nsource;target;weight\na;b;2,5\nb;c;1\n"))
    assert named_edges(g) == {("a", "b", 2.5), ("b", "c", 1.0)}
    assert "decimal commas: '2,5' is 2.5" in line_of(g)
    g = quiet(write(tmp_path, "g.csv", "sep=|\r\na|b\r\nb|c\r\n"))
    assert g.node_names == ["a", "b", "c"]
    x = read_features(write(tmp_path, "x.csv", "id;a;b\nann;1,5;2\nbob;,25;3\n"))
    np.testing.assert_array_equal(x, [[1.5, 2], [0.25, 3]])
    # A comma beside a point means thousands: not for us to say.
    with pytest.raises(FileFormatError, match="line 2, column 1: '1,234' is not a number"):
        read_features(write(tmp_path, "x.csv", "a;b\n1,234;2\n5.5;3\n"))
    with pytest.raises(FileFormatError, match="line 1: 'sep=' names '1'"):
        read_graph(write(tmp_path, "g.csv", "sep=1\na;b\n"))


def test_quoted_new_lines(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", 'source,target\n"ann\nlee",bob\nbob,"c,y"\n'))
    assert g.node_names == ["ann\nlee", "bob", "c,y"]
    x = write(tmp_path, "x.csv", 'id,a\nbob,2\n"ann\nlee",1\n"c,y",3\n')
    np.testing.assert_array_equal(quiet(tmp_path / "g.csv", features=x).x, [[1], [2], [3]])
    with pytest.raises(FileFormatError, match="line 3: a quote that is never closed"):
        read_graph(write(tmp_path, "h.csv", 'a,b\nb,c\n"d,e\nf,g\n'))
    with pytest.raises(FileFormatError, match="line 5: expected 2 columns"):
        read_graph(write(tmp_path, "h.csv", 'a,b\n"b\nx",c\nc,d\ne,f,g\n'))


def test_true_and_false(tmp_path: Path) -> None:
    x = read_features(write(tmp_path, "x.csv", "id,ok,n\na,True,1\nb,false,2\nc,TRUE,3\n"))
    np.testing.assert_array_equal(x, [[1, 1], [0, 2], [1, 3]])


def test_a_mistake_does_not_turn_numbers_into_ids(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="line 2, column 1: 'word' is not a number"):
        read_features(write(tmp_path, "x.csv", "1,2\nword,4\n5,6\n"))


def test_missing_values(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,a,b\np,1,NA\nq,2,4\nr,,8\n")
    with pytest.raises(FileFormatError, match=r"line 4, column 2 \('a'\): the value is missing"):
        read_features(path)
    np.testing.assert_array_equal(read_features(path, missing="zero"), [[1, 0], [2, 4], [0, 8]])
    np.testing.assert_array_equal(read_features(path, missing="mean"), [[1, 6], [2, 4], [1.5, 8]])
    graph = write(tmp_path, "g.csv", "p,q\nq,r\n")
    g = quiet(graph, features=path, missing="mean")
    assert "2 missing values filled with the mean of the column" in line_of(g)
    full = write(tmp_path, "y.csv", "id,a,b\np,1,\nq,2,4\nr,3,8\n")
    g = quiet(graph, features=full, missing="drop")
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert g.feature_names == ["a"]
    assert "columns with missing values left out: 'b'" in line_of(g)
    rows = write(tmp_path, "z.csv", "id,a\np,1\nq,3\n")
    np.testing.assert_array_equal(quiet(graph, features=rows, missing="zero").x, [[1], [3], [0]])
    g = quiet(graph, features=rows, missing="mean")
    np.testing.assert_array_equal(g.x, [[1], [3], [2]])
    assert "1 node without a row" in line_of(g)
    with pytest.raises(FileFormatError, match="every column has missing values"):
        read_features(path, missing="drop")
    with pytest.raises(ParameterError, match="missing is 'none'"):
        read_features(path, missing="none")  # type: ignore[arg-type]


def test_text_columns_are_one_hot_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,city,n\na,Rome,1\nb,Oslo,2\nc,Rome,3\n")
    with pytest.raises(
        FileFormatError, match=r"column 2 \('city'\): 'Rome' is not a number.*one_hot=\['city'\]"
    ):
        read_features(path)
    g = quiet(write(tmp_path, "g.csv", "a,b\nb,c\n"), features=path, one_hot=["city"])
    np.testing.assert_array_equal(g.x, [[0, 1, 1], [1, 0, 2], [0, 1, 3]])
    assert g.feature_names == ["city=Oslo", "city=Rome", "n"]
    assert "column 'city' became 2 columns of 0 and 1" in line_of(g)
    np.testing.assert_array_equal(read_features(path, one_hot=True, ids="id"), g.x)
    with pytest.raises(ParameterError, match="one_hot names 'town'"):
        read_features(path, one_hot=["town"])
    rows = "".join(f"{i},w{i}\n" for i in range(1001))
    with pytest.raises(FileFormatError, match="1001 different values are too many"):
        read_features(write(tmp_path, "y.csv", "id,word\n" + rows), one_hot=True, ids="id")


def test_feature_names(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "a,b\n")
    g = quiet(graph, features=write(tmp_path, "x.csv", "id,age,age,height\na,1,2,3\nb,4,5,6\n"))
    assert g.feature_names == ["age", "age (2)", "height"]
    assert quiet(graph, features=write(tmp_path, "x.csv", "a,1\nb,2\n")).feature_names is None
    assert g.with_features(np.eye(2)).feature_names is None
    assert g.subgraph([1]).feature_names == g.feature_names


def test_header_of_features(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "2019,2020\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_features(path, header=True), [[1, 2], [3, 4]])
    assert read_features(tmp_path / "x.csv").shape == (3, 2)
    graph = write(tmp_path, "g.csv", "0,1\n")
    assert quiet(graph, features=tmp_path / "x.csv", features_header=True).feature_names == ["2019", "2020"]
    text = "person,city\nann,Rome\nbob,Oslo\ncy,Rome\n"
    assert read_features(write(tmp_path, "y.csv", text), one_hot=["city"]).shape == (3, 2)


# ---------------------------------------------------------------------- comments


def test_lines_that_begin_with_a_hash_and_look_like_data(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "#python,#java\n#java,#go\n"))
    assert g.node_names == ["#python", "#java", "#go"]
    assert "2 lines that begin with '#' read as data" in line_of(g)
    assert quiet(write(tmp_path, "g.csv", "ann,#java\n#java,#go\n")).num_edges == 2
    path = write(tmp_path, "g.csv", "# a comment\nann,bob\nbob,cy\n#cy,dan\n")
    with pytest.warns(UserWarning, match="1 line that begins with '#', the first on line 4, might be data"):
        g = read_graph(path)
    assert g.num_edges == 2
    assert "1 line that begins with '#' skipped" in line_of(g)
    assert quiet(path, comments="#").num_edges == 2
    edges = write(tmp_path, "h.csv", "ann,bob\nbob,cy\n#cy,dan\n")
    assert quiet(edges, comments="").node_names == ["ann", "bob", "cy", "#cy", "dan"]
    quiet(write(tmp_path, "g.csv", "# Nodes: 3 Edges: 2\n# From,To by hand\n0,1\n# half, time\n1,2\n"))
    with pytest.raises(ParameterError, match="comments is 'x'"):
        read_graph(edges, comments="x")


# ---------------------------------------------------------------------- other sources


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    feed(b"a,b\nb,c\n")
    g = quiet("-")
    assert g.node_names == ["a", "b", "c"]
    assert line_of(g).startswith("standard input: edge list")
    feed(gzip.compress(b"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"))
    assert quiet("-", format="mtx").num_edges == 1
    feed(b"id,a\nc,3\na,1\nb,2\n")
    np.testing.assert_array_equal(
        quiet(write(tmp_path, "g.csv", "a,b\nb,c\n"), features="-").x, [[1], [2], [3]]
    )
    feed(b"")
    with pytest.raises(FileFormatError, match="standard input is empty"):
        read_graph("-")
    with pytest.raises(ParameterError, match="cannot both be '-'"):
        read_graph("-", features="-")


def test_limits_of_unpacking(tmp_path: Path) -> None:
    bomb = tmp_path / "g.csv.gz"
    bomb.write_bytes(gzip.compress(b"0,1\n" * (17 * 2**20)))
    with pytest.raises(
        FileFormatError, match="unpacks to more than 64 MiB: unpack it first, or pass max_bytes"
    ):
        read_graph(bomb)
    small = write(tmp_path, "h.csv.gz", "0,1\n" * 1000)
    with pytest.raises(FileFormatError, match="unpacks to more than"):
        read_graph(small, max_bytes=1000)
    assert quiet(small, max_bytes=4000).num_edges == 1
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(80 * 2**20))
    for read in (read_graph, read_features):
        with pytest.raises(FileFormatError, match="unpacks to more than 64 MiB"):
            read(tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "ok.npz", x=np.zeros((100, 100)))
    with pytest.raises(FileFormatError, match="unpacks"):
        read_features(tmp_path / "ok.npz", max_bytes=1000)
    assert read_features(tmp_path / "ok.npz", max_bytes=10**6).shape == (100, 100)
    with pytest.raises(ParameterError, match="max_bytes is 0"):
        read_graph(small, max_bytes=0)


def test_directed_is_silent_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "0,1\n1,0\n1,2\n")
    with pytest.warns(UserWarning, match="directed"):
        assert "directed (1 of 3 edges without a reverse), symmetrised" in line_of(read_graph(path))
    quiet(path, directed=False)
    mtx = write(tmp_path, "g.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n")
    with pytest.warns(UserWarning, match="directed"):
        read_graph(mtx)
    assert quiet(mtx, directed=False).num_edges == 1


def test_errors_of_the_graph_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"g.csv: .*sums to more than float64"):
        read_graph(write(tmp_path, "g.csv", "0,1,1e308\n0,1,1e308\n"))
