"""Reading says what it understood, and guesses nothing silently: weights, headers, ids, joins, comments."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.reading import line_of, named_edges, quiet, write
from helpers.refusals import refuses

from softcut.errors import FileFormatError, GraphError, ParameterError
from softcut.graph import Graph
from softcut.io import read_graph

EDGES = "0,1\n1,2\n2,3\n"

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


# ---------------------------------------------------------------------- matrices


def test_a_matrix_is_not_read_as_edges(tmp_path: Path) -> None:
    square = "x,y,z\nx,0,1,0\ny,1,0,1\nz,0,1,0\n"
    for text in (f",{square}", square, "n,x,y\nx,0,1\ny,1,0\n"):
        with pytest.raises(FileFormatError, match="adjacency matrix with labels, not an edge list"):
            read_graph(write(tmp_path, "a.csv", text))
    for text in ("0,1,0\n1,0,1\n0,1,0\n", "0 1 0 2\n1 0 1 0\n0 1 0 1\n2 0 1 0\n"):
        with pytest.raises(FileFormatError, match="may be a matrix or edges"):
            read_graph(write(tmp_path, "m.txt", text))
    for edges in ("0,1,2\n1,2,3\n2,0,1\n", "0,1,2\n1,2,3\n2,3,4\n", "a,b,1\nb,c,2\nc,d,3\n"):
        assert quiet(write(tmp_path, "e.csv", edges)).num_edges == 3


# ---------------------------------------------------------------------- headers


def test_an_unknown_header_is_no_edge(tmp_path: Path) -> None:
    text = "employee,manager\nann,bob\nbob,cy\ndan,bob\n"
    g = quiet(write(tmp_path, "g.csv", text))
    assert g.node_names == ["ann", "bob", "cy", "dan"]
    assert "header on line 1 ('employee' and 'manager' occur on no other line)" in line_of(g)
    assert quiet(tmp_path / "g.csv", header=False).num_edges == 4
    assert quiet(write(tmp_path, "h.csv", "x,y\n" + text), header=True).num_edges == 4


def test_a_header_far_from_the_next_mention_of_its_nodes(tmp_path: Path) -> None:
    # In the first thousand lines every pair stands alone; only the whole file shows that names come again.
    pairs = [f"a{i},b{i}\n" for i in range(3000)]
    again = [f"a{i},b{i + 1}\n" for i in range(2999)]
    g = quiet(write(tmp_path, "g.csv", "employee,manager\n" + "".join(pairs + again)))
    assert g.num_nodes == 6000
    for last in ("ann,a0\n", "a0,bob\n"):
        assert quiet(write(tmp_path, "g.csv", "".join(["ann,bob\n", *pairs, *again, last]))).num_nodes == 6002
    alone = quiet(write(tmp_path, "g.csv", "ann,bob\n" + "".join(pairs)))
    assert alone.num_edges == 3001
    assert "(though 'ann' and 'bob' occur on no other line: header=True if they are titles)" in line_of(alone)


# ---------------------------------------------------------------------- ids


def test_ids_that_repeat_and_features_that_repeat(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", EDGES)
    g = quiet(graph, features=write(tmp_path, "x.csv", "group_id,age\n0,30\n0,5\n1,20\n1,10\n"))
    np.testing.assert_array_equal(g.x, [[0, 30], [0, 5], [1, 20], [1, 10]])
    with pytest.raises(FileFormatError, match="line 3: node '0' has a row already"):
        read_graph(graph, features=write(tmp_path, "x.csv", "node_id,age\n0,30\n0,5\n1,20\n1,10\n"))
    g = quiet(graph, features=write(tmp_path, "x.csv", "city,age\nRome,30\nRome,5\nOslo,20\nOslo,10\n"))
    np.testing.assert_array_equal(g.x, [[0, 1, 30], [0, 1, 5], [1, 0, 20], [1, 0, 10]])


def test_a_column_that_numbers_the_rows_is_no_node(tmp_path: Path) -> None:
    text = "row,employee,manager\n0,ann,bob\n1,bob,cy\n2,cy,ann\n"
    g = quiet(write(tmp_path, "g.csv", text))
    assert g.node_names == ["ann", "bob", "cy"]
    assert "source 'employee', target 'manager', no weight, ignored 'row'" in g.notes
    frame = pd.read_csv(tmp_path / "g.csv")
    assert Graph.from_any(frame).node_names == ["ann", "bob", "cy"]
    # Numbers that may be rows or nodes are asked about; a third column of other values decides.
    rows = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    body = "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    with pytest.raises(FileFormatError, match="may number the rows or be a node: pass source= and target="):
        read_graph(write(tmp_path, "g.csv", "line,employee,manager\n" + body))
    with pytest.raises(GraphError, match="may number the rows or be a node"):
        Graph.from_any(pd.DataFrame([*rows, (4, 1, 2)], columns=["line", "employee", "manager"]))
    g = quiet(write(tmp_path, "g.csv", "employee,manager,since\n1,0,2001\n2,0,2002\n3,1,2001\n"))
    assert g.num_nodes == 4
    g = quiet(write(tmp_path, "g.csv", "employee,manager,weight\n1,0,1\n2,0,2\n3,1,2\n"))
    assert g.weighted


def test_a_column_without_a_title_is_called_by_its_place(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "source,target,\na,b,\nb,c,\n"))
    assert "source 'source', target 'target', no weight, ignored 'column 3'" in g.notes


@pytest.mark.parametrize("title", ["year", "id"])
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


def test_leading_zeros_make_ids_text(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "01234,1234\n1234,5\n"))
    assert g.node_names == ["01234", "1234", "5"]
    assert "ids are text" in line_of(g)
    assert quiet(write(tmp_path, "g.csv", "+1,1\n1,2\n")).node_names == ["+1", "1", "2"]
    # A weight with a leading zero does not make ids text.
    assert quiet(write(tmp_path, "g.csv", "0,1,007\n1,2,3\n")).node_names is None
    x = write(tmp_path, "x.csv", "id,a\n70,7\n07,1\n")
    np.testing.assert_array_equal(quiet(write(tmp_path, "g.csv", "07,70\n"), features=x).x, [[1], [7]])
    with pytest.raises(
        FileFormatError, match=r"no row for node '7' .* compared as text, and '07' is another id"
    ):
        read_graph(write(tmp_path, "g.csv", "7,70\n"), features=x)


@pytest.mark.parametrize("titles", ["user_id,age\n", "age,userId\n", "account,age\n", ""])
def test_rows_are_joined_by_the_column_of_ids(tmp_path: Path, titles: str) -> None:
    row = "{1},{0}\n" if titles.endswith("Id\n") else "{0},{1}\n"
    x = write(tmp_path, "x.csv", titles + "".join(row.format(node, 10 * node) for node in (3, 0, 2, 1)))
    g = quiet(write(tmp_path, "g.csv", EDGES), features=x)
    np.testing.assert_array_equal(g.x, [[0], [10], [20], [30]])
    assert "joined by column" in line_of(g)


def test_ids_with_gaps_are_found_in_any_column(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "900,17\n17,55\n")
    x = write(tmp_path, "x.csv", "age,who\n3,55\n1,900\n2,17\n")
    g = quiet(graph, features=x)
    assert g.node_names == ["900", "17", "55"]
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert "joined by column 'who'" in line_of(g)


def test_ids_asked_for_and_ids_that_match_nothing(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", EDGES)
    x = write(tmp_path, "x.csv", "age,rank\n30,3\n0,0\n20,2\n10,1\n")
    for ids in ("rank", 1):
        np.testing.assert_array_equal(quiet(graph, features=x, ids=ids).x, [[0], [10], [20], [30]])
    with pytest.raises(ParameterError, match="ids is 'nothing', which is no column"):
        read_graph(graph, features=x, ids="nothing")
    other = write(tmp_path, "y.csv", "user_id,age\n77,1\n78,2\n79,3\n80,4\n")
    refuses(FileFormatError, "no id of column 'user_id' is a node", read_graph, graph, other)
    g = quiet(graph, features=other, drop=["user_id"])
    np.testing.assert_array_equal(g.x, [[1], [2], [3], [4]])
    assert "rows joined by position" in line_of(g)
    # Names have the order in which they are mentioned, which may be another than that of the rows: a warning.
    named = write(tmp_path, "n.csv", "a,b\nb,c\n")
    with pytest.warns(
        UserWarning, match=r"w.csv has no node ids: its rows were joined to the nodes of .*n.csv"
    ):
        g = read_graph(named, features=write(tmp_path, "w.csv", "1\n2\n3\n"))
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert "rows joined by position" in line_of(g)


def test_repeated_rows_are_counted_by_every_route(tmp_path: Path) -> None:
    """A log of messages: who wrote to whom, one row each."""
    log = pd.DataFrame({"sender": ["a", "a", "b", "b"], "receiver": ["b", "b", "a", "c"]})
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_parquet(tmp_path / "log.parquet")
    pairs = list(log.itertuples(index=False, name=None))
    said = "1 repeated edge counted as weight (weighted=False: every edge weighs 1)"
    with pytest.warns(UserWarning, match="the weights of the two directions are summed"):
        made = [
            read_graph(tmp_path / "log.csv"),
            read_graph(tmp_path / "log.parquet"),
            read_graph(log),
            Graph.from_frame(log),
            Graph.from_any(pairs),
        ]
    for graph in made:
        assert named_edges(graph) == {("a", "b", 3.0), ("b", "c", 1.0)}
        assert said in graph.notes
    for source in (tmp_path / "log.csv", tmp_path / "log.parquet", log):
        assert named_edges(quiet(source, weighted=False, directed=False)) == {
            ("a", "b", 1.0),
            ("b", "c", 1.0),
        }
    assert not Graph.from_frame(log, weighted=False, directed=False).weighted
