"""``softcut partition``: parts on disk, what is said, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from softcut.io.part_files import open_part, read_manifest, read_names

HAVE_METIS = importlib.util.find_spec("pymetis") is not None


def test_parts_are_written_and_described(run, people):
    _, names = people
    code, out, err = run(
        "partition", "people.csv", "-f", "words.csv", "--parts", 3, "--out", "parts", "--seed", 1
    )
    assert code == 0, err
    manifest = read_manifest("parts")
    assert (manifest.parts, manifest.nodes, manifest.columns) == (3, 120, 30)
    assert manifest.about["method"] == ("metis" if HAVE_METIS else "contiguous")
    assert sorted(read_names("parts")) == sorted(names)
    assert sorted(np.concatenate([open_part("parts", p).nodes for p in range(3)])) == list(range(120))
    assert "120 nodes in 3 parts" in out
    assert "30 features projected to 30 columns" in out
    assert "torchrun --nproc-per-node 3 -m softcut.clustering.distributed parts -k K" in out
    assert sorted({p.name.split(".")[0] for p in Path("parts").iterdir()}) == [
        "manifest",
        "names",
        "part-0",
        "part-1",
        "part-2",
    ]


def test_options_have_an_effect(run, people):
    words = ("partition", "people.csv", "-f", "words.csv", "--parts", 2)
    assert run(*words, "-o", "a", "--method", "random", "--paper")[0] == 0
    assert run(*words, "-o", "b", "--method", "random", "--seed", 1)[0] == 0
    first, second = (open_part(folder, 0) for folder in ("a", "b"))
    assert not np.array_equal(first.nodes, second.nodes)
    np.testing.assert_allclose(first.x.sum(1)[first.x.any(1)], 1, rtol=1e-5)
    assert read_manifest("a").about["paper"] is True
    assert run(*words, "-o", "a", "--method", "contiguous", "--overwrite")[0] == 0
    assert read_manifest("a").about["method"] == "contiguous"


def test_without_metis_it_says_so(run, people, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    code, _, err = run("partition", "people.csv", "--parts", 2, "--out", "parts")
    assert code == 0
    assert "METIS is not installed (pip install 'softcut[parts]')" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parts", 0), "--parts must be a whole number from 1 to the number of nodes, 118, got 0"),
        (("--parts", 2, "--method", "best"), "--method must be one of auto, metis"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_nothing(run, people, words, said):
    before = set(Path().iterdir())
    code, out, err = run("partition", "people.csv", "--out", "parts", *words)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert set(Path().iterdir()) == before


def test_other_folders_are_not_replaced(run, people):
    Path("mine").mkdir()
    Path("mine", "thesis.txt").touch()
    code, _, err = run("partition", "people.csv", "--parts", 2, "--out", "mine", "--overwrite")
    assert (code, "holds other files (thesis.txt)" in err) == (2, True)
    assert run("partition", "people.csv", "--parts", 2, "--out", "parts")[0] == 0
    code, _, err = run("partition", "people.csv", "--parts", 2, "--out", "parts")
    assert (code, "add --overwrite" in err) == (2, True)
    assert json.loads(Path("parts", "manifest.json").read_text())["parts"] == 2
