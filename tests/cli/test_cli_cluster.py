"""``softcut cluster`` and ``softcut predict``: what is written, what is said, and no silent wrong answers."""

import csv
import json
import re
import warnings
from itertools import combinations
from pathlib import Path
from unittest.mock import ANY, Mock, create_autospec

import numpy as np
import pyarrow.parquet as parquet
import pytest

from softcut.cli.cluster import write_results
from softcut.clustering import GraphClustering, MinCutClustering
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import ari
from softcut.report.clustering_files import VERDICTS

QUICK = ("--n-init", 4, "--max-iter", 30, "--no-plot")


def labels(folder):
    with Path(folder, "labels.csv").open(newline="") as file:
        return {row["node"]: int(row["cluster"]) for row in csv.DictReader(file)}


def metrics_of(folder):
    return json.loads(Path(folder, "metrics.json").read_text())


def shown_facts(out):
    """The closing table."""
    return dict(re.findall(r"│ (.*?) +│ +(.*?) │", out))


def test_cluster_writes_labels_with_names(done, people, tmp_path):
    graph, names = people
    out, _ = done(
        "cluster", "people.csv", "-f", "words.csv", "-k", 3, "--n-init", 8, "--model-out", "m", "--report"
    )
    folder = tmp_path / "people-clusters"
    files = ["assignments.npy", "clusters.png", "labels.csv", "labels.parquet", "metrics.json", "report.html"]
    assert sorted(p.name for p in folder.iterdir()) == files
    page = (folder / "report.html").read_text(encoding="utf-8")
    views = (f'data-view="{view}"' for view in ("graph", "groups", "heat", "curves", "dots"))
    assert all(text in page for text in (*names, *views))
    told = labels(folder)
    truth = dict(zip(names, graph.y, strict=True))
    assert sorted(told) == names
    assert ari([truth[name] for name in told], [*told.values()]) > 0.8
    soft = np.load(folder / "assignments.npy")
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-5)
    assert soft.argmax(1).tolist() == [*told.values()]
    table = parquet.read_table(folder / "labels.parquet")
    assert table.column_names == ["node", "cluster", "probability", "p0", "p1", "p2"]
    assert (table["node"].to_pylist(), table["cluster"].to_pylist()) == ([*told], [*told.values()])
    assert table["p1"].to_pylist() == soft[:, 1].tolist()
    assert table["probability"].to_pylist() == soft.max(1).tolist()

    metrics = metrics_of(folder)
    assert (metrics["graph"], metrics["nodes"], metrics["clusters_used"]) == ("people.csv", 120, 3)
    assert (metrics["candidates"], metrics["interrupted"]) == ({}, False)
    lines = out.splitlines()
    assert lines[0] == VERDICTS[metrics["verdict"]]  # what it is worth comes first
    assert lines[1].strip() == f"people.csv: 120 nodes, {metrics['edges']} edges"
    facts = shown_facts(out)
    del facts["seconds"]
    assert facts == {
        "clusters used": "3 of 3",
        "normalised cut": f"{metrics['normalised_cut']:.2f}",
        "modularity": f"{metrics['modularity']:.2f}",
    }
    assert lines[-1] == "Written: " + ", ".join(
        [*(f"people-clusters/{f}" for f in files), "m.json", "m.safetensors"]
    )

    out, _ = done("predict", "m", "people.csv", "--features", "words.csv", "--out", "again", "--no-plot")
    assert labels("again") == told
    assert metrics_of("again")["model"] == "m" and shown_facts(out)["clusters used"] == "3 of 3"
    np.testing.assert_allclose(np.load("again/assignments.npy"), soft, atol=1e-5)
    assert not Path("again/clusters.png").exists()


def test_verbose_shows_every_score(done, ring):
    out, _ = done(*ring, "--verbose", "--out", "all")
    metrics, facts = metrics_of("all"), shown_facts(out)
    del facts["seconds"]
    assert facts == {
        "verdict": metrics["verdict"],
        "structure (nats explained per nat)": f"{metrics['structure']:.4f}",
        "clusters used": f"{metrics['clusters_used']} of {metrics['n_clusters']}",
        "normalised cut": f"{metrics['normalised_cut']:.4f}",
        "modularity": f"{metrics['modularity']:.4f}",
        "balance": f"{metrics['balance']:.4f}",
        "evidence (nats per nat of labels)": f"{metrics['evidence']:.4f}",
        "agreement of restarts (ARI)": f"{metrics['agreement_of_replicas']:.4f}",
    }


def test_cluster_without_features_says_so(done, ring):
    _, err = done(*ring, "-k", "auto")
    assert "the clusters come from the edges alone: no features were given." in err
    assert "relative to the highest" not in err
    _, err = done(*ring, "-k", "auto", "--verbose", "--overwrite")
    assert "relative to the highest" in err or "explains more than it takes" in err


def test_nothing_is_said_twice_and_the_model_runs_once(done, ring, monkeypatch):
    fit = GraphClustering.fit

    def told(self, graph):
        fit(self, graph)
        self.notes_.append("restarts hardly agree.")
        warnings.warn("restarts hardly agree.", stacklevel=2)

    monkeypatch.setattr(GraphClustering, "fit", told)
    predicted = create_autospec(GraphClustering.predict_proba, side_effect=GraphClustering.predict_proba)
    monkeypatch.setattr(GraphClustering, "predict_proba", predicted)
    _, err = done(*ring, "--model-out", "m")
    assert err.count("note: restarts hardly agree.") == 1
    predicted.assert_not_called()  # the soft assignments of the fit are at hand
    done("predict", "m", "ring.csv", "--out", "again", "--no-plot")
    predicted.assert_called_once()


@pytest.mark.parametrize(
    ("kind", "words", "more"),
    [
        (GraphClustering, (), {"objective": None}),
        (GraphClustering, ("--objective", "dmon"), {"objective": "dmon"}),
        (MinCutClustering, ("--paper",), {}),
    ],
)
def test_options_reach_the_estimator(run, ring, monkeypatch, kind, words, more):
    made = Mock(side_effect=ParameterError("enough"))
    monkeypatch.setattr(kind, "__init__", made)
    code, _, err = run(*ring[:2], "-k", "2:5", *words, "--seed", 7, "--device", "cpu", "--max-iter", 9)
    assert (code, err) == (2, "softcut: enough\n")
    arguments = {"n_init": None, "random_state": 7, "device": "cpu", "max_iter": 9, "callbacks": ANY}
    made.assert_called_once_with(n_clusters=range(2, 6), **arguments, **more)


def test_names_that_spreadsheets_would_run(done, tmp_path):
    names = ["=cmd()", "+1+1", "-1", "-x", "@x", "ann", "bob"]
    edges = "".join(f"{a},{b}\n" for a in names for b in names if a < b)
    (tmp_path / "g.csv").write_text("source,target\n" + edges)
    words = ("cluster", "g.csv", "-k", 2, "--n-init", 2, "--max-iter", 5, "--no-plot")
    done(*words, "--out", "plain")
    done(*words, "--out", "safe", "--spreadsheet-safe")
    assert sorted(labels("plain")) == sorted(names)
    assert sorted(labels("safe")) == sorted(["'=cmd()", "'+1+1", "'-1", "'-x", "'@x", "ann", "bob"])


def test_metrics_hold_what_was_warned_about(done, tmp_path):
    # A complete graph without features: no clustering is better than another.
    (tmp_path / "g.csv").write_text("".join(f"{a},{b}\n" for a, b in combinations(range(20), 2)))
    _, err = done("cluster", "g.csv", "-k", 2, *QUICK, "--out", "o")
    metrics = metrics_of("o")
    (warned,) = (text for text in metrics["notes"] if "the graph may have no clusters" in text)
    assert warned.endswith("n_clusters='auto' says whether another number is better.")
    assert err.count(warned.replace("n_clusters='auto'", "--clusters auto")) == 1
    assert metrics["verdict"] == "none" and metrics["structure"] < 1
    assert metrics["replicas"] == 0  # found from the edges, without networks
    assert "20 nodes, 190 edges" in metrics["reading"]


def test_numbers_that_json_does_not_have(tmp_path):
    graph = Graph.from_edges([[0], [1]])
    metrics = {"graph": "g", "agreement_of_replicas": float("nan"), "seconds": {"fit": float("inf")}, "n": 2}
    write_results(tmp_path, graph, np.eye(2), metrics, plot=False)
    text = (tmp_path / "metrics.json").read_text()
    read = json.loads(text, parse_constant=Mock(side_effect=AssertionError("not JSON")))
    assert read == {"graph": "g", "agreement_of_replicas": None, "seconds": {"fit": None}, "n": 2}


def test_the_probability_is_that_of_the_label(tmp_path):
    soft = np.array([[0.25, 0.75], [0.875, 0.125]])
    write_results(tmp_path, Graph.from_edges([[0], [1]]), soft, {"graph": "g"}, plot=False)
    text = (tmp_path / "labels.csv").read_text().splitlines()
    assert text == ["node,cluster,probability", "0,1,0.750000", "1,0,0.875000"]


@pytest.fixture
def fitted(done, people):
    """A model of people.csv and words.csv, and the rows of words.csv."""
    done("cluster", "people.csv", "-f", "words.csv", "-k", 3, *QUICK, "--model-out", "m", "--out", "o")
    return [line.split(",") for line in Path("words.csv").read_text().splitlines()]


def write_rows(path, rows):
    Path(path).write_text("".join(",".join(row) + "\n" for row in rows))


def test_columns_are_matched_by_name(done, refused, fitted):
    shuffled = [0, *(1 + np.random.default_rng(0).permutation(30)).tolist()]
    write_rows("other.csv", [[row[j] for j in shuffled] for row in fitted])
    done("predict", "m", "people.csv", "-f", "other.csv", "--out", "p", "--no-plot")
    assert labels("p") == labels("o")
    write_rows("renamed.csv", [["id", "colour", *fitted[0][2:]], *fitted[1:]])
    said = refused("predict", "m", "people.csv", "-f", "renamed.csv", "--out", "q", "--no-plot")
    assert "missing: 'w0'; not known: 'colour'" in said


def test_columns_without_names_are_said(done, fitted):
    write_rows("bare.csv", fitted[1:])
    _, err = done("predict", "m", "people.csv", "-f", "bare.csv", "--out", "p", "--no-plot")
    said = "the features have no names, but those of the fit had"
    assert err.count(said) == 1
    assert any(said in text for text in metrics_of("p")["notes"])
    assert labels("p") == labels("o")


def test_an_older_picture_does_not_stay(done, refused, ring):
    words = (*ring[:-1], "--out", "o")
    done(*words, "-k", 2)
    assert Path("o/clusters.png").exists()
    assert "--overwrite" in refused(*words, "-k", 3, "--no-plot")
    done(*words, "-k", 3, "--no-plot", "--overwrite")
    assert not Path("o/clusters.png").exists()
    assert np.load("o/assignments.npy").shape == (30, 3)
