"""Help, version, and errors: one sentence and exit code 2."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
import torch


def test_version_help_and_datasets(run):
    assert "softcut 0." in run("--version")[1]
    code, out, _ = run("cluster", "--help")
    assert code == 0
    assert "--features" in out
    assert "Usage" in run()[1]
    code, out, _ = run("datasets")
    assert code == 0
    assert "cora" in out
    assert "PROTEINS" in out


@pytest.mark.parametrize(
    "words",
    [("nonsense",), ("cluster",), ("reproduce", "tables"), ("datasets", "--get", "nothing"), ("--nonsense",)],
)
def test_wrong_calls_are_one_sentence(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("softcut: ")
    assert err.count("\n") == 1, err


@pytest.mark.parametrize(("name", "function"), [("cora", "load"), ("proteins", "load_graphs")])
def test_a_data_set_is_loaded_by_name(run, monkeypatch, name, function):
    monkeypatch.setattr(f"softcut.datasets.{function}", lambda given: f"{function} {given}")
    assert run("datasets", "--get", name) == (0, f"{function} {name}\n", "")


def test_reproduce_names_what_is_valid(run):
    code, _, err = run("reproduce", "citation", "--dataset", "cara")
    assert code == 2
    assert "cora, citeseer, pubmed, got 'cara'" in err


def test_reproduce_evidence_ends_with_a_table(run, tmp_path, monkeypatch):
    from softcut.datasets import attributed_communities
    from softcut.paper import evidence

    small = attributed_communities(60, 3, n_features=30, seed=0)
    monkeypatch.setattr(evidence, "load", lambda name, **options: small)
    code, out, _ = run("reproduce", "evidence", "--dataset", "cora", "--device", "cpu", "--out", "found")
    assert code == 0
    assert "Rank correlation with NMI" in out
    assert "cora" in out
    (row,) = json.loads((tmp_path / "found" / "evidence.json").read_text())
    assert f"{row['best_nmi']:.3f}" in out
    code, _, err = run("reproduce", "evidence", "--dataset", "cara")
    assert code == 2
    assert "polblogs, got 'cara'" in err


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_full_memory_is_one_sentence(run, tmp_path, monkeypatch, error):
    def fit(*args):
        raise error

    monkeypatch.setattr("softcut.clustering.GraphClustering.fit", fit)
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    code, _, err = run("cluster", "g.csv", "-k", 2)
    assert code == 2
    assert err.splitlines()[-1].startswith("softcut: the memory is full")
    assert [p.name for p in tmp_path.iterdir()] == ["g.csv"]


BROKEN = {
    "missing file": ("none.csv", None),
    "empty file": ("a.csv", b""),
    "one column": ("a.csv", b"1,2\n3\n4,5\n"),
    "too many columns": ("a.csv", b"1,2,3,4,5\n2,3,4,5,6\n"),
    "bad weight": ("a.csv", b"1,2,0.5\n2,3,heavy\n"),
    "negative weight": ("a.csv", b"0,1,0.5\n1,2,-1\n"),
    "infinite weight": ("a.csv", b"0,1,inf\n1,2,1\n"),
    "not a number weight": ("a.csv", b"0,1,nan\n1,2,1\n"),
    "binary junk": ("a.csv", bytes(range(256)) * 4),
    "not gzip": ("a.csv.gz", b"0,1\n1,2\n"),
    "cut gzip": ("a.csv.gz", gzip.compress(b"0,1\n1,2\n" * 1000)[:40]),
    "unknown ending": ("a.xlsx", b"0,1\n"),
    "bad matrix market": ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1\n5 5 1.0\n"),
    "bad npz": ("a.npz", b"PK\x03\x04nonsense"),
    "bad graphml": ("a.graphml", b"<graphml><graph></graphml>"),
    "bad gml": ("a.gml", b"graph [ node [ id "),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_one_sentence(run, tmp_path, kind):
    name, content = BROKEN[kind]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("cluster", name, "-k", 2, "--model-out", "m")
    assert code == 2
    assert out == ""
    assert err.startswith("softcut: ")
    assert err.strip().count("\n") == 0, err
    assert "Traceback" not in err
    assert name in err or kind in ("negative weight", "infinite weight", "not a number weight"), err
    assert sorted(tmp_path.rglob("*")) == before, "something was left behind"


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "0"),
        ("-k", "many"),
        ("-k", "5:2"),
        ("-k", "2", "--seed", "x"),
        ("-k", "2", "--objective", "much"),
        ("-k", "2", "--objective", "mincut", "--paper"),
        ("-k", "2", "--out", ""),
        ("-k", "2", "--out", "."),
        ("-k", "2", "--out", "x" * 300),
        ("-k", "2", "--out", "g.csv/deep"),
        ("-k", "2", "--model-out", "g.csv/m"),
        ("-k", "99"),
        ("-k", "2", "--n-init", "0"),
        ("-k", "2", "--max-iter", "-3"),
        ("-k", "2", "--device", "abacus"),
        ("-k", "2", "--features", "none.npy"),
        ("-k", "2", "--features", "short.npy"),
        ("-k", "2", "--features", "nan.npy"),
        ("-k", "2", "--features", "pickle.npy"),
        ("-k", "2", "--out", "g.csv"),
        (),
        ("-k", "2", "--no-such-option"),
    ],
)
def test_bad_options_exit_2(run, tmp_path, words):
    (tmp_path / "g.csv").write_text("0,1\n1,2\n2,3\n3,0\n")
    np.save(tmp_path / "short.npy", np.ones((3, 2)))
    np.save(tmp_path / "nan.npy", np.full((4, 2), np.nan))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], dtype=object))
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("cluster", "g.csv", *words)
    assert code == 2, err
    assert out == ""
    *before_it, sentence = err.splitlines()
    assert sentence.startswith("softcut: ")
    assert sentence.endswith(".")
    assert all(line.startswith("g.csv: edge list") for line in before_it), err  # what was read
    assert len(before_it) <= 1
    assert sorted(tmp_path.rglob("*")) == before


def test_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "softcut", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("softcut ")
