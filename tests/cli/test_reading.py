"""The options of commands that read a graph: each has its effect, and one line says what was understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from helpers.reading import named_edges, write
from typer.testing import CliRunner

from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.graph import Graph

MADE: list[Graph] = []
app = typer.Typer()


@app.command()
@reads_a_graph
def show(graph: GraphFile, read: ReadGraph) -> None:
    MADE.append(read())


def run(*arguments: Any, stdin: bytes | None = None) -> tuple[Graph, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    if result.exception is not None:
        raise result.exception
    assert result.stdout == ""
    return MADE.pop(), result.stderr


def test_the_line_is_always_printed(tmp_path: Path) -> None:
    g, line = run(write(tmp_path, "g.csv", "source,target,year\na,b,1\nb,c,2\n"))
    assert line == "; ".join(g.notes) + "\n"
    assert "ignored 'year'" in line
    assert "3 nodes, 2 edges" in line


def test_columns_header_and_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path, "links", "who|whom|hours\na|b|3\nb|c|2\n")
    g, _ = run(
        path, "--format", "edges", "-d", "|", "--weight", "hours", "--source", "who", "--target", "whom"
    )
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    g, _ = run(path, "--format", "edges", "--delimiter", "|", "--weight", "2", "--header")
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    plain = write(tmp_path, "g.csv", "x,y\na,b\nb,c\n")
    assert run(plain)[0].num_edges == 2
    assert run(plain, "--no-header")[0].num_edges == 3
    three = write(tmp_path, "w.csv", "0,1,2\n1,1,3\n")
    with pytest.warns(UserWarning, match="self-loop"):
        assert not run(three, "--unweighted")[0].weighted
    assert run(three, "--keep-self-loops")[0].has_self_loops
    assert run(write(tmp_path, "c.csv", "a,b\nb,c\n#c,d\n"), "--comments", "")[0].num_edges == 3


def test_features(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "0,1\n1,2\n2,3\n")
    x = write(tmp_path, "x.csv", "age,rank,city\n,3,Rome\n0,0,Oslo\n20,2,Rome\n10,1,Rome\n")
    g, line = run(graph, "-f", x, "--ids", "rank", "--one-hot", "city", "--missing", "zero")
    np.testing.assert_array_equal(g.x, [[0, 1, 0], [10, 0, 1], [20, 0, 1], [0, 0, 1]])
    assert "joined by column 'rank'" in line
    np.testing.assert_array_equal(
        run(graph, "-f", x, "--ids", "1", "--one-hot", "*", "--missing", "zero")[0].x, g.x
    )
    years = write(tmp_path, "y.csv", "2019\n1\n2\n3\n4\n")
    assert run(graph, "-f", years, "--features-header")[0].feature_names == ["2019"]


def test_standard_input_and_limits(tmp_path: Path) -> None:
    assert run("-", stdin=b"a,b\nb,c\n")[0].node_names == ["a", "b", "c"]
    packed = write(tmp_path, "g.csv.gz", "0,1\n" * 100)
    with pytest.raises(Exception, match="max_bytes"):
        run(packed, "--max-bytes", "10")


def test_directions(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "0,1\n1,0\n1,2\n")
    with pytest.warns(UserWarning, match="directed"):
        run(path)
    assert run(path, "--undirected")[0].num_edges == 2
