"""Reading says what it understood, and guesses nothing silently: weights, headers, ids, joins, comments."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.reading import line_of, quiet, write

from softcut.errors import FileFormatError, GraphError
from softcut.graph import Graph
from softcut.io import read_graph

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
    alone = quiet(write(tmp_path, "g.csv", "ann,bob\n" + "".join(pairs)))
    assert alone.num_edges == 3001
    assert "(though 'ann' and 'bob' occur on no other line: header=True if they are titles)" in line_of(alone)


# ---------------------------------------------------------------------- ids


def test_ids_that_repeat_and_features_that_repeat(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "0,1\n1,2\n2,3\n")
    g = quiet(graph, features=write(tmp_path, "x.csv", "group_id,age\n0,30\n0,5\n1,20\n1,10\n"))
    np.testing.assert_array_equal(g.x, [[0, 30], [0, 5], [1, 20], [1, 10]])
    with pytest.raises(FileFormatError, match="line 3: node '0' has a row already"):
        read_graph(graph, features=write(tmp_path, "x.csv", "node_id,age\n0,30\n0,5\n1,20\n1,10\n"))
    with pytest.raises(FileFormatError, match=r"column 1 \('city'\): 'Rome' is not a number"):
        read_graph(graph, features=write(tmp_path, "x.csv", "city,age\nRome,30\nRome,5\nOslo,20\nOslo,10\n"))


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
