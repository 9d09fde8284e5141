"""``softcut cluster`` and ``softcut predict``."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest

from softcut.cli.cluster import cluster_counts
from softcut.clustering import GraphClustering, MinCutClustering
from softcut.errors import ParameterError
from softcut.report.clustering_files import VERDICTS


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
    assert metrics["interrupted"] is False
    assert f"{metrics['evidence']:.4f}" in out  # in the closing table too
    assert f"{metrics['structure']:.4f}" in out
    lines = out.splitlines()
    assert lines[0] == VERDICTS[metrics["verdict"]]  # what it is worth comes first
    first, second = (
        next(i for i, line in enumerate(lines) if text in line) for text in ("verdict", "clusters used")
    )
    assert first < second
    assert metrics["candidates"] == {}
    chosen = [float(r["probability"]) for r in rows]
    np.testing.assert_allclose(chosen, soft.max(1), atol=1e-6)
    import pyarrow.parquet as parquet

    table = parquet.read_table(folder / "labels.parquet")
    assert table.column_names == ["node", "cluster", "probability", "p0", "p1", "p2"]
    assert table["p1"].to_pylist() == soft[:, 1].tolist()
    assert table["cluster"].to_pylist() == [int(r["cluster"]) for r in rows]

    code, _, err = run("predict", "m", "people.csv", "--features", "words.csv", "--out", "again", "--no-plot")
    assert code == 0, err
    with (tmp_path / "again" / "labels.csv").open(newline="") as file:
        assert [(r["node"], r["cluster"]) for r in csv.DictReader(file)] == [
            (r["node"], r["cluster"]) for r in rows
        ]
    np.testing.assert_allclose(np.load(tmp_path / "again" / "assignments.npy"), soft, atol=1e-5)
    assert not (tmp_path / "again" / "clusters.png").exists()


def test_cluster_without_features_says_so(run, tmp_path):
    (tmp_path / "ring.txt").write_text("".join(f"{i} {(i + 1) % 30}\n" for i in range(30)))
    code, _, err = run("cluster", "ring.txt", "-k", "auto", "--n-init", "2", "--max-iter", "20", "--no-plot")
    assert code == 0
    assert "clusters found from the edges alone, without networks: no features were given." in err
    assert "n_clusters: " in err


def test_nothing_is_said_twice(run, ring, monkeypatch):
    original = GraphClustering.fit

    def fit(self, graph):
        original(self, graph)
        self.notes_.append("restarts hardly agree.")
        warnings.warn("restarts hardly agree.", stacklevel=2)

    monkeypatch.setattr(GraphClustering, "fit", fit)
    code, _, err = run(*ring)
    assert code == 0
    assert err.count("note: restarts hardly agree.") == 1


def test_predict_with_a_bad_model(run, tmp_path):
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    code, _, err = run("predict", "none", "g.csv")
    assert code == 2
    assert "no model at none" in err


def test_the_model_runs_once(run, ring, monkeypatch):
    def again(*args):
        raise AssertionError("the soft assignments of the fit are at hand")

    for name in ("predict", "predict_proba"):
        monkeypatch.setattr(GraphClustering, name, again)
    assert run(*ring)[0] == 0


def test_predicting_runs_the_model_once(run, ring, monkeypatch):
    assert run(*ring, "--model-out", "m")[0] == 0
    calls, original = [], GraphClustering.predict_proba

    def counted(self, graph):
        calls.append(graph)
        return original(self, graph)

    monkeypatch.setattr(GraphClustering, "predict_proba", counted)
    assert run("predict", "m", "ring.csv", "--out", "again", "--no-plot")[0] == 0
    assert len(calls) == 1


@pytest.mark.parametrize("text", ["", "x", "2:", ":3", "5:2", "0:4", "2:3:4", "1.5"])
def test_bad_numbers_of_clusters(text):
    with pytest.raises(ParameterError, match="--clusters"):
        cluster_counts(text)


@pytest.mark.parametrize(
    ("kind", "words", "more"),
    [
        (GraphClustering, (), {"objective": None}),
        (GraphClustering, ("--objective", "dmon"), {"objective": "dmon"}),
        (MinCutClustering, ("--paper",), {}),
    ],
)
def test_options_reach_the_estimator(run, ring, monkeypatch, kind, words, more):
    given = {}

    def remember(self, **params):
        given.update(params)
        raise ParameterError("enough")

    monkeypatch.setattr(kind, "__init__", remember)
    code, _, err = run(*ring[:2], "-k", "2:5", *words, "--seed", 7, "--device", "cpu", "--max-iter", 9)
    assert (code, err) == (2, "softcut: enough\n")
    del given["callbacks"]
    assert given == {
        "n_clusters": range(2, 6),
        "n_init": None,
        "random_state": 7,
        "device": "cpu",
        "max_iter": 9,
        **more,
    }


def test_names_that_spreadsheets_would_run(run, tmp_path):
    names = ["=cmd()", "+1+1", "-1", "-x", "@x", "ann", "bob"]
    edges = "".join(f"{a},{b}\n" for a in names for b in names if a < b)
    (tmp_path / "g.csv").write_text("source,target\n" + edges)
    words = ("cluster", "g.csv", "-k", 2, "--n-init", 2, "--max-iter", 5, "--no-plot")
    assert run(*words, "--out", "plain")[0] == 0
    assert run(*words, "--out", "safe", "--spreadsheet-safe")[0] == 0
    plain, safe = (
        [r["node"] for r in csv.DictReader((tmp_path / f / "labels.csv").open(newline=""))]
        for f in ("plain", "safe")
    )
    assert sorted(plain) == sorted(names)
    assert sorted(safe) == sorted(["'=cmd()", "'+1+1", "'-1", "'-x", "'@x", "ann", "bob"])


def test_reading_options_reach_both_commands(run, tmp_path):
    rows = [f"{i};{(i + 1) % 20};{i};{1 + i % 3}" for i in range(20)]
    (tmp_path / "g.txt").write_text("\n".join(["when;from_id;to;strong", *rows]) + "\n")
    np.savetxt(tmp_path / "x.csv", np.random.default_rng(0).random((20, 3)), delimiter=",")
    options = ("--delimiter", ";", "--source", "from_id", "--target", "to", "--weight", "strong")
    shared = (*options, "--features", "x.csv", "--no-features-header", "--no-plot")
    words = ("g.txt", *shared, "-k", 2, "--n-init", 2, "--max-iter", 5, "--model-out", "m", "--out", "first")
    code, _, err = run("cluster", *words)
    assert code == 0, err
    assert err.startswith("g.txt: ")
    code, _, err = run("predict", "m", "g.txt", *shared, "--out", "second")
    assert code == 0, err
    for folder in ("first", "second"):
        metrics = json.loads((tmp_path / folder / "metrics.json").read_text())
        assert (metrics["nodes"], metrics["edges"], metrics["features"]) == (20, 20, 3)
        said = "; ".join(metrics["reading"])
        assert "strong" in said
        assert "when" in said  # the column that was left out
