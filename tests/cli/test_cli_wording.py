"""What the messages recommend can be typed."""

from __future__ import annotations

import re

import pytest

from softcut.cli.wording import with_options
from softcut.clustering.arguments import LIMITS

GRAPH = "source,target\n" + "".join(f"{i},{(i + 1) % 12}\n{i},{(i + 2) % 12}\n" for i in range(12))
SHORT = ("-k", 2, "--n-init", 2, "--max-iter", 5, "--no-plot")


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("pass comments='' to read them.", "pass --comments '' to read them."),
        ("(comments='' reads them)", "(--comments '' reads them)"),
        ("or pass source= and target=.", "or pass --source and --target."),
        ("or source=0 and target=1.", "or --source 0 and --target 1."),
        ("pass weight= with a title.", "pass --weight with a title."),
        ("or pass max_bytes with a larger limit.", "or pass --max-bytes with a larger limit."),
        ("random_state is -1", "--seed is -1"),
        ("in a folder weight=3 is data: 'weight=3'", "in a folder --weight 3 is data: 'weight=3'"),
        ("g.csv, line 3: the weight '' is not a number", "g.csv, line 3: the weight '' is not a number"),
        ("source 'source', target 'to', no weight", "source 'source', target 'to', no weight"),
    ],
)
def test_arguments_become_options(sentence, said):
    assert with_options(sentence) == said


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
    assert "add --limit n_init=NUMBER" in err
    assert run(*words, "--limit", "n-init=4")[0] == 0
    for wrong in ("n_init", "colour=3", "n_init=many", "random_state=5"):
        code, _, err = run(*words, "--limit", wrong, "--overwrite")
        assert code == 2
        assert "must be NAME=NUMBER" in err
