"""Help, version, options of commands that read a graph, and mistakes: one sentence, and nothing is left behind."""

import gzip
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import typer
from helpers.kept import check_kept
from helpers.reading import named_edges, write
from PIL import Image
from typer.testing import CliRunner

from softcut.cli import main
from softcut.cli.app import app as softcut_app
from softcut.cli.console import worded
from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.clustering.arguments import LIMITS
from softcut.errors import Argument, Sentence
from softcut.graph import Graph


def test_version_help_and_datasets(run, done):
    assert "softcut 0." in done("--version")[0]
    assert "--features" in done("cluster", "--help")[0]
    assert "Usage" in run()[1]
    listed = done("datasets")[0]
    for row in (["cora", "2,708", "5,278", "1,433", "7"], ["PROTEINS", "1,113"]):
        assert any(line.replace("│", " ").split()[: len(row)] == row for line in listed.splitlines())
    program = [sys.executable, "-m", "softcut", "--version"]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout.startswith("softcut ")


def test_the_options_of_every_command():
    lines = []
    for name, command in sorted(typer.main.get_command(softcut_app).commands.items()):
        lines += [f"{name} {experiment}" for experiment in getattr(command, "commands", ())]
        for each in command.params:
            kind = getattr(each, "type", each)  # of older versions of typer
            limits = [getattr(kind, end, None) for end in ("min", "max")]
            flags = ", ".join((*each.opts, *each.secondary_opts))
            about = each.required, each.multiple, getattr(each, "is_flag", False)
            lines.append(f"{name} {flags} {limits} {about} = {each.default}")
    check_kept(Path(__file__).parent / "kept" / "options.txt", "\n".join(lines), atol=1e-9)


@pytest.mark.parametrize(("name", "function"), [("cora", "load"), ("proteins", "load_graphs")])
def test_a_data_set_is_loaded_by_name(run, monkeypatch, name, function):
    monkeypatch.setattr(f"softcut.datasets.{function}", lambda given: f"{function} {given}")
    assert run("datasets", "--get", name) == (0, f"{function} {name}\n", "")


# What is typed, and what is said.
MISTAKES = {
    "nonsense": "No such command 'nonsense'",
    "--nonsense": "No such option",
    "datasets --get nothing": "There is no data set named 'nothing'; the names are: cora, citeseer,",
    "cluster": "name a file of edges, or features with --features.",
    "cluster [b]none.csv -k 2": "[b]none.csv does not exist",
    "cluster g.csv --scale big": "--scale must be 'coarse', 'fine' or a number, got 'big'.",
    "cluster g.csv -k 2 --scale fine": "scale",
    "cluster g.csv --paper": "--paper needs a number of clusters, or a range such as 2:12: give it with -k.",
    "cluster g.csv --paper -k 2 --max-size 3": "--max-size has no effect with --paper; leave it out.",
    "cluster g.csv --paper -k 2 --pattern any": "--pattern has no effect with --paper; leave it out.",
    "cluster g.csv --pattern any": "--pattern any needs a number of clusters, or a range such as 2:12",
    "cluster g.csv --max-size 0": "--max-size must be",
    "cluster g.csv --start none.csv": "--start none.csv does not exist: name the labels.csv of an earlier run",
    "cluster g.csv -k 2 --start none.csv": "--start keeps the scale of the earlier clusters",
    "cluster g.csv -k 0": "--clusters must be a whole number of at least 1, a range, or 'auto', got 0.",
    **{
        f"cluster g.csv -k '{k}'": f"--clusters must be a whole number, a range such as 2:20, or 'auto', got '{k}'."
        for k in ("many", "", "1.5", "2.:3.", "2:3:4")
    },
    "cluster g.csv -k 5:2": "--clusters is an empty range; give at least one number of clusters.",
    "cluster g.csv -k 0:4": "--clusters must be a whole number of at least 1, got 0.",
    "cluster g.csv -k 99": "--clusters is 99 but the graph has only 4 nodes; ask for fewer clusters.",
    "cluster g.csv -k 2 --seed x": "Invalid value for '--seed'",
    "cluster g.csv -k 2 --objective much": "--objective must be one of 'mincut', 'ratio_trace',",
    "cluster g.csv -k 2 --objective mincut --paper": "--objective has no effect with --paper",
    "cluster g.csv -k 2 --out ''": "--out . is the folder you are in",
    "cluster g.csv -k 2 --out .": "--out . is the folder you are in",
    "cluster g.csv -k 2 --out LONG": "File name too long.",
    "cluster g.csv -k 2 --out g.csv": "--out g.csv is a file; name a folder.",
    "cluster g.csv -k 2 --out g.csv/deep": "--out g.csv/deep cannot be written",
    "cluster g.csv -k 2 --model-out g.csv/m": "--model-out g.csv/m.safetensors cannot be written",
    "cluster g.csv -k 2 --n-init 0": "--n-init must be a whole number of at least 1, got 0.",
    "cluster g.csv -k 2 --max-iter -3": "--max-iter must be a whole number of at least 1, got -3.",
    "cluster g.csv.gz -k 2": "g.csv.gz",
    "cluster g.csv -k 2 --device abacus": "device 'abacus' cannot be used here; try 'auto' or 'cpu'.",
    "cluster g.csv -k 2 --features none.npy": "none.npy does not exist",
    "cluster g.csv -k 2 --features short.npy": "short.npy has 3 rows but g.csv has node 3",
    "cluster g.csv -k 2 --features nan.npy": "nan.npy: x[0, 0] is nan, which is not finite",
    "cluster g.csv -k 2 --features pickle.npy": "pickle.npy is not a valid .npy file",
    "cluster nowhere -k 2": "nowhere is neither a file nor a data set; the data sets are cora, citeseer,",
    "cluster empty -k 2": "empty is a folder",
    "cluster proteins -k 2": "proteins is a list of graphs: classify them with softcut classify proteins.",
    "cluster cora -k 2 --weight w": "--weight says how a file is read, and cora is a data set: leave it out.",
    "cluster g.csv -k 2 --no-such-option": "No such option",
    "predict none g.csv": "no model at none",
    "partition g.csv --out parts --parts 0": "--parts must be a whole number from 1 to the number of nodes, 4, got 0.",
    "partition g.csv --out parts --parts 2 --method best": "--method must be one of auto, metis",
    "classify nowhere": "nowhere is neither a folder nor a data set; the data sets are Bench-easy,",
    "classify Cora": "cora is one graph: cluster its nodes with softcut cluster cora.",
    "classify empty": "empty holds no file NAME_A.txt",
    "classify shapes --pool median": "--pool must be one of",
    "classify shapes --held-out 0": "--held-out must be above 0 and at most 0.5, got 0.0.",
    "classify shapes --held-out 0.9": "--held-out must be above 0 and at most 0.5, got 0.9.",
    "classify shapes --model a --model-out b": "leave it out with --model.",
    "classify shapes --model none": "no model at none",
    "classify shapes --epochs 0": "--epochs must be a whole number of at least 1, got 0.",
    "classify unlabelled": "unlabelled has no graph labels (SHAPES_graph_labels.txt)",
    "classify few": "few holds 1 graph: too few to train",
    "segment missing.png": "missing.png is not a file",
    "segment broken.png": "broken.png cannot be read as an image: name a PNG, JPEG or TIFF file that is complete (",
    "segment photo.png -k many": "--segments must be a whole number or 'auto', got 'many'.",
    "segment photo.png -k 0": "--segments must be a whole number of at least 1, or 'auto', got 0.",
    "segment photo.png -k 5000": "--segments is 5000, but the image has only",
    "segment photo.png --method watershed": "--method must be one of 'mincut', 'ncut', 'diffpool', got 'watershed'.",
    "segment flat.png -k 2": "single region of one colour",
    "predict empty g.csv": "empty is a folder, not a model: name the file that was saved with --model-out.",
    "report --results empty": "empty holds no results of the paper's experiments. Run softcut",
    "report --results nothing": "there is no folder nothing: this report shows what softcut reproduce",
    "reproduce tables": "No such command 'tables'",
    "reproduce citation --dataset cara": "--dataset must be one of cora, citeseer, pubmed, got 'cara'.",
    "reproduce evidence --dataset cara": "polblogs, got 'cara'.",
    "reproduce classification --dataset cora": "--dataset must be among Bench-easy,",
    "reproduce classification --method median": "--method must be one of wl,",
    "reproduce classification --folds 11": "--folds must be a whole number from 1 to 10, got '11'.",
    "reproduce citation --runs 0": "--runs must be a whole number of at least 1, got '0'.",
    "reproduce citation --runs 2 --fast": "unrecognized arguments: --fast.",
    "reproduce regression --property mass": "--property must be one of mu, alpha,",
    "reproduce regression --method sagpool": "topk, diffpool, mincut, flat, default, got 'sagpool'.",
    "reproduce segmentation --method magic": "--method must be one of mincut,",
}


@pytest.mark.parametrize(("typed", "said"), MISTAKES.items())
def test_mistakes_are_one_sentence(refused, shapes, photo, tmp_path, typed, said):
    (tmp_path / "g.csv").write_text("0,1\n1,2\n2,3\n3,0\n")
    (tmp_path / "g.csv.gz").write_bytes(gzip.compress(b"0,1\n1,2\n" * 1000)[:40])
    np.save(tmp_path / "short.npy", np.ones((3, 2)))
    np.save(tmp_path / "nan.npy", np.full((4, 2), np.nan))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], dtype=object))
    (tmp_path / "broken.png").write_bytes((tmp_path / "photo.png").read_bytes()[:200])
    Image.fromarray(np.zeros((30, 30), dtype=np.uint8)).save(tmp_path / "flat.png")
    for name, count, labels in (("shapes", 12, True), ("unlabelled", 12, False), ("few", 1, True)):
        shapes(name, count, labels=labels)
    (tmp_path / "empty").mkdir()
    assert said in refused(*shlex.split(typed.replace("LONG", "x" * 300)))


def test_a_limit_can_be_raised(run, refused, ring, monkeypatch):
    monkeypatch.setitem(LIMITS, "n_init", 3)
    words = (*ring, "--n-init", 4, "--max-iter", 5)
    assert "use --limit n_init=NUMBER." in refused(*words)
    for wrong in ("n_init", "colour=3", "n_init=many", "random_state=5"):
        assert "must be NAME=NUMBER" in refused(*words, "--limit", wrong)
    assert run(*words, "--limit", "n-init=4")[0] == 0


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_full_memory_is_one_sentence(refused, ring, monkeypatch, error):
    monkeypatch.setattr("softcut.clustering.GraphClustering.fit", Mock(side_effect=error))
    assert refused(*ring).startswith("softcut: the memory is full")


def test_errors_that_are_no_mistakes_of_a_user(run, ring, monkeypatch):
    for error, caught in ((RuntimeError("a defect"), RuntimeError), (typer.Abort(), SystemExit)):
        monkeypatch.setattr("softcut.clustering.GraphClustering.fit", Mock(side_effect=error))
        monkeypatch.setattr(sys, "argv", ["softcut", *map(str, ring)])
        with pytest.raises(caught) as raised:
            main()
    assert raised.value.code == 130
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None if package == "rich" else 1)
    code, out, err = run("--version")
    assert (code, out) == (2, "") and "needs the package 'rich'" in err


def test_a_port_in_use_is_one_sentence(refused):
    pytest.importorskip("uvicorn")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "choose another" in refused("serve", "--port", other.getsockname()[1])


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
    for words in ("-d | --weight hours --source who --target whom", "--delimiter | --weight 2 --header"):
        g, _ = read(path, "--format", "edges", *words.split())
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
    for ids, column in (("rank", "city"), ("1", "*")):
        g, line = read(graph, "-f", x, "--ids", ids, "--categories", column, "--missing", "zero")
        np.testing.assert_array_equal(g.x, [[0, 1, 0], [10, 0, 1], [20, 0, 1], [0, 0, 1]])
        assert "joined by column 'rank'" in line
    years = write(tmp_path, "y.csv", "2019\n1\n2\n3\n4\n")
    assert read(graph, "-f", years, "--features-header")[0].feature_names == ["2019"]


def test_standard_input_and_limits(tmp_path: Path) -> None:
    assert read("-", stdin=b"a,b\nb,c\n")[0].node_names == ["a", "b", "c"]
    packed = write(tmp_path, "g.csv.gz", "0,1\n" * 100)
    with pytest.raises(Exception, match="max_bytes"):
        read(packed, "--max-bytes", "10")
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
        (
            Argument("categories", ["a b", "c"]),
            "categories=['a b', 'c']",
            "--categories 'a b' --categories c",
        ),
        (Argument("categories", True), "categories=True", "--categories '*'"),
        (Argument("ids", False), "ids=False", "--ids none"),
        (Argument("recipe"), "recipe", "recipe"),
    ],
)
def test_arguments_become_options(run, argument, python, typed):
    run("cluster", "none.csv", "-k", 2)  # the command whose options are named
    sentence = Sentence("weight=3 is data; pass ", argument, ".")
    assert [str(sentence), worded(sentence)] == [f"weight=3 is data; pass {a}." for a in (python, typed)]
    assert worded("pass weight=3.") == "pass weight=3."


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-iter", 10**9, "--max-iter is 1000000000, above the limit of 10,000,000"),
        ("--clusters", 10**9, "--clusters is 1000000000, above the limit of 10,000"),
        ("--n-init", 10**9, "--n-init is 1000000000, above the limit of 10,000"),
        ("--seed", 2**32, "--seed must be between 0 and 4294967295 (2**32 - 1, as in NumPy), got 42949672"),
    ],
)
def test_absurd_numbers_are_one_sentence(refused, ring, option, value, said):
    assert said in refused(*ring, option, value)


@pytest.mark.parametrize(
    ("features", "options"),
    [
        ("id,city\n" + "".join(f"{i},c{i % 20}\n" for i in range(30)), ["--categories", "city"]),
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
