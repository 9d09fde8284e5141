"""What the messages recommend can be typed."""

from __future__ import annotations

import inspect
import re

import pytest

from softcut.cli.console import READ_OPTIONS, worded
from softcut.clustering.arguments import LIMITS
from softcut.errors import Argument, Sentence
from softcut.io import read_graph

GRAPH = "source,target\n" + "".join(f"{i},{(i + 1) % 12}\n{i},{(i + 2) % 12}\n" for i in range(12))
SHORT = ("-k", 2, "--n-init", 2, "--max-iter", 5, "--no-plot")


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
        ("id,city\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(12)), ["--one-hot", "city"]),
        ("id,age\n" + "".join(f"{i},{'' if i == 3 else i % 5}\n" for i in range(12)), ["--missing", "zero"]),
    ],
)
def test_a_recommended_option_helps(run, tmp_path, features, options):
    (tmp_path / "g.csv").write_text(GRAPH)
    (tmp_path / "x.csv").write_text(features)
    words = ("cluster", "g.csv", "-f", "x.csv", *SHORT)
    code, _, err = run(*words)
    assert code == 2
    assert options[0] in err
    assert options[1] in err
    assert not re.search(r"\w=", err)
    assert run(*words, *options)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-iter", 10**9), "--max-iter is 1000000000, above the limit of 10,000,000"),
        (("--clusters", 10**9), "--clusters is 1000000000, above the limit of 10,000"),
        (("--n-init", 10**9), "--n-init is 1000000000, above the limit of 10,000"),
        (
            ("--seed", 2**64),
            "--seed must be a whole number from 0 to 4,294,967,295, got 18446744073709551616",
        ),
    ],
)
def test_absurd_numbers_are_one_sentence(run, tmp_path, words, said):
    (tmp_path / "g.csv").write_text(GRAPH)
    code, out, err = run("cluster", "g.csv", *SHORT, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["g.csv"]


def test_a_limit_can_be_raised(run, tmp_path, monkeypatch):
    monkeypatch.setitem(LIMITS, "n_init", 3)
    (tmp_path / "g.csv").write_text(GRAPH)
    words = ("cluster", "g.csv", *SHORT, "--n-init", 4)
    code, _, err = run(*words)
    assert code == 2
    assert "use --limit n_init=NUMBER." in err
    assert run(*words, "--limit", "n-init=4")[0] == 0
    for wrong in ("n_init", "colour=3", "n_init=many", "random_state=5"):
        code, _, err = run(*words, "--limit", wrong, "--overwrite")
        assert code == 2
        assert "must be NAME=NUMBER" in err
