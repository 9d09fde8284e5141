"""Options of commands that read a graph: each has its effect, one line says what was understood, messages name them."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from helpers.reading import named_edges, write
from typer.testing import CliRunner

from softcut.cli.console import READ_OPTIONS, worded
from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.errors import Argument, Sentence
from softcut.graph import Graph
from softcut.io import read_graph

MADE: list[Graph] = []
app = typer.Typer()


@app.command()
@reads_a_graph
def show(graph: GraphFile, read: ReadGraph) -> None:
    MADE.append(read())


def read(*arguments: Any, stdin: bytes | None = None) -> tuple[Graph, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    if result.exception is not None:
        raise result.exception
    assert result.stdout == ""
    return MADE.pop(), result.stderr


def test_the_line_is_always_printed(tmp_path: Path) -> None:
    g, line = read(write(tmp_path, "g.csv", "source,target,year\na,b,1\nb,c,2\n"))
    assert line == "; ".join(g.notes) + "\n"
    assert "ignored 'year'" in line
    assert "3 nodes, 2 edges" in line


def test_columns_header_and_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path, "links", "who|whom|hours\na|b|3\nb|c|2\n")
    g, _ = read(
        path, "--format", "edges", "-d", "|", "--weight", "hours", "--source", "who", "--target", "whom"
    )
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    g, _ = read(path, "--format", "edges", "--delimiter", "|", "--weight", "2", "--header")
    assert named_edges(g) == {("a", "b", 3.0), ("b", "c", 2.0)}
    plain = write(tmp_path, "g.csv", "x,y\na,b\nb,c\n")
    assert read(plain)[0].num_edges == 2
    assert read(plain, "--no-header")[0].num_edges == 3
    three = write(tmp_path, "w.csv", "0,1,2\n1,1,3\n")
    with pytest.warns(UserWarning, match="self-loop"):
        assert not read(three, "--unweighted")[0].weighted
    assert read(three, "--keep-self-loops")[0].has_self_loops
    assert read(write(tmp_path, "c.csv", "a,b\nb,c\n#c,d\n"), "--comments", "")[0].num_edges == 3


def test_features(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "0,1\n1,2\n2,3\n")
    x = write(tmp_path, "x.csv", "age,rank,city\n,3,Rome\n0,0,Oslo\n20,2,Rome\n10,1,Rome\n")
    g, line = read(graph, "-f", x, "--ids", "rank", "--one-hot", "city", "--missing", "zero")
    np.testing.assert_array_equal(g.x, [[0, 1, 0], [10, 0, 1], [20, 0, 1], [0, 0, 1]])
    assert "joined by column 'rank'" in line
    np.testing.assert_array_equal(
        read(graph, "-f", x, "--ids", "1", "--one-hot", "*", "--missing", "zero")[0].x, g.x
    )
    years = write(tmp_path, "y.csv", "2019\n1\n2\n3\n4\n")
    assert read(graph, "-f", years, "--features-header")[0].feature_names == ["2019"]


def test_standard_input_and_limits(tmp_path: Path) -> None:
    assert read("-", stdin=b"a,b\nb,c\n")[0].node_names == ["a", "b", "c"]
    packed = write(tmp_path, "g.csv.gz", "0,1\n" * 100)
    with pytest.raises(Exception, match="max_bytes"):
        read(packed, "--max-bytes", "10")


def test_directions(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "0,1\n1,0\n1,2\n")
    with pytest.warns(UserWarning, match="directed"):
        read(path)
    assert read(path, "--undirected")[0].num_edges == 2


@pytest.mark.parametrize(
    ("argument", "python", "typed"),
    [
        (Argument("comments", ""), "comments=''", "--comments ''"),
        (Argument("source", text="source="), "source=", "--source"),
        (Argument("target", 1), "target=1", "--target 1"),
        (Argument("max_bytes"), "max_bytes", "--max-bytes"),
        (Argument("random_state"), "random_state", "--seed"),
        (Argument("n_clusters"), "n_clusters", "--clusters"),
        (Argument("header", True), "header=True", "--header"),
        (Argument("header", False), "header=False", "--no-header"),
        (Argument("weighted", False), "weighted=False", "--unweighted"),
        (Argument("self_loops", "keep"), "self_loops='keep'", "--keep-self-loops"),
        (Argument("one_hot", ["my city"]), "one_hot=['my city']", "--one-hot 'my city'"),
        (Argument("one_hot", True), "one_hot=True", "--one-hot '*'"),
        (Argument("ids", False), "ids=False", "--ids none"),
        (Argument("recipe"), "recipe", "recipe"),
    ],
)
def test_arguments_become_options(run, argument, python, typed):
    run("cluster", "none.csv", "-k", 2)  # the command whose options are named
    sentence = Sentence("weight=3 is data; pass ", argument, ".")
    assert (str(sentence), worded(sentence)) == (
        f"weight=3 is data; pass {python}.",
        f"weight=3 is data; pass {typed}.",
    )
    assert worded("pass weight=3.") == "pass weight=3."


def test_every_argument_of_reading_is_an_option(run):
    _, out, _ = run("cluster", "--help")
    left_out = {"path", "verbose", "progress"}
    for name, parameter in inspect.signature(read_graph).parameters.items():
        assert (name in READ_OPTIONS) != (name in left_out)
        if name in READ_OPTIONS:
            option, default = READ_OPTIONS[name]
            assert default is parameter.default
            assert option.flags[0].split("/")[0][:20] in out


@pytest.mark.parametrize(
    ("features", "options"),
    [
        ("id,city\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(30)), ["--one-hot", "city"]),
        ("id,age\n" + "".join(f"{i},{'' if i == 3 else i % 5}\n" for i in range(30)), ["--missing", "zero"]),
    ],
)
def test_a_recommended_option_helps(done, refused, ring, tmp_path, features, options):
    (tmp_path / "x.csv").write_text(features)
    words = (*ring, "-f", "x.csv")
    said = refused(*words)
    assert options[0] in said and options[1] in said
    assert not re.search(r"\w=", said)
    done(*words, *options)
