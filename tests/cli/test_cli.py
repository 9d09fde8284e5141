"""The command line, run as a user runs it."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import cli
from softcut.datasets import attributed_communities


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["softcut", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def people(tmp_path):
    """An edge list with names, and features joined by name in another order."""
    graph = attributed_communities(n_nodes=120, n_clusters=3, n_features=30, edge_signal=0.9, seed=0)
    names = [f"node {i:03d}" for i in range(120)]
    pairs = sp.coo_array(sp.triu(graph.adjacency))
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows((names[a], names[b]) for a, b in zip(pairs.row, pairs.col, strict=True))
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    with (tmp_path / "words.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"w{j}" for j in range(dense.shape[1]))])
        for i in np.random.default_rng(0).permutation(120):
            writer.writerow([names[i], *dense[i].tolist()])
    return graph, names


def test_cluster_writes_labels_with_names(run, people, tmp_path):
    graph, names = people
    code, out, err = run(
        "cluster", "people.csv", "-f", "words.csv", "-k", 3, "--n-init", 8, "--model-out", "m"
    )
    assert code == 0, err
    assert "clusters used" in out
    folder = tmp_path / "people-clusters"
    found = sorted(p.name for p in folder.iterdir())
    assert found == ["assignments.npy", "clusters.png", "labels.csv", "labels.parquet", "metrics.json"]
    with (folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(r["node"] for r in rows) == names
    from sklearn.metrics import adjusted_rand_score

    truth = dict(zip(names, graph.y, strict=True))
    assert adjusted_rand_score([truth[r["node"]] for r in rows], [r["cluster"] for r in rows]) > 0.8
    soft = np.load(folder / "assignments.npy")
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-5)
    assert soft.argmax(1).tolist() == [int(r["cluster"]) for r in rows]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["clusters_used"] == 3
    assert metrics["nodes"] == 120
    import pyarrow.parquet as parquet

    table = parquet.read_table(folder / "labels.parquet")
    assert table.column_names == ["node", "cluster", "p0", "p1", "p2"]
    assert table["cluster"].to_pylist() == [int(r["cluster"]) for r in rows]

    code, _, err = run("predict", "m", "people.csv", "--features", "words.csv", "--out", "again", "--no-plot")
    assert code == 0, err
    assert (tmp_path / "again" / "labels.csv").read_text() == (folder / "labels.csv").read_text()
    assert not (tmp_path / "again" / "clusters.png").exists()


def test_cluster_without_features_says_so(run, tmp_path):
    (tmp_path / "ring.txt").write_text("".join(f"{i} {(i + 1) % 30}\n" for i in range(30)))
    code, out, _ = run("cluster", "ring.txt", "-k", "auto", "--n-init", "2", "--max-iter", "20", "--no-plot")
    assert code == 0
    assert "structural" in out
    assert "auto" in out


def test_version_help_and_datasets(run):
    assert "softcut 0." in run("--version")[1]
    code, out, _ = run("cluster", "--help")
    assert code == 0
    assert "--features" in out
    code, out, _ = run("datasets")
    assert code == 0
    assert "cora" in out


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
        ("-k", "99"),
        ("-k", "2", "--preset", "best"),
        ("-k", "2", "--select", "x"),
        ("-k", "2", "--hops", "-3"),
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
    code, _, err = run("cluster", "g.csv", *words)
    assert code == 2, err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_predict_with_a_bad_model(run, tmp_path):
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    code, _, err = run("predict", "none", "g.csv")
    assert code == 2
    assert "no model at none" in err


def test_a_model_that_cannot_be_saved_is_said_before_the_work(run, tmp_path):
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    code, _, err = run("cluster", "g.csv", "-k", 2, "--model-out", "g.csv/m")
    assert code == 2
    assert "--model-out" in err
    assert not (tmp_path / "g-clusters").exists()


def test_an_unwritable_folder_is_one_sentence(run, tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        target = "file/inside"
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        target = "locked/inside"
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    code, _, err = run("cluster", "g.csv", "-k", 2, "--n-init", 2, "--max-iter", 5, "--out", target)
    assert code == 2
    assert "Traceback" not in err


def test_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "softcut", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("softcut ")
