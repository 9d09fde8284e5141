"""No silent wrong answers from ``softcut cluster`` and ``softcut predict``: what is said, and what is refused."""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from softcut.cli import cluster as results
from softcut.graph import Graph

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = ("--n-init", 4, "--max-iter", 30, "--no-plot")


def labels(folder):
    with (folder / "labels.csv").open(newline="") as file:
        return {row["node"]: int(row["cluster"]) for row in csv.DictReader(file)}


def test_metrics_hold_what_was_warned_about(run, tmp_path):
    # A complete graph without features: no clustering is better than another.
    (tmp_path / "g.csv").write_text("".join(f"{a},{b}\n" for a, b in combinations(range(20), 2)))
    code, _, err = run("cluster", "g.csv", "-k", 2, *QUICK, "--out", "o")
    assert code == 0
    metrics = json.loads((tmp_path / "o" / "metrics.json").read_text())
    found = [text for text in metrics["notes"] if "the graph may have no clusters" in text]
    assert len(found) == 1
    assert err.count(found[0]) == 1
    assert metrics["verdict"] == "none"
    assert metrics["structure"] < 1
    assert metrics["replicas"] == 0  # found from the edges, without networks
    assert metrics["interrupted"] is False
    assert "20 nodes, 190 edges" in metrics["reading"]


def test_numbers_that_json_does_not_have(tmp_path):
    graph = Graph.from_edges([[0], [1]])
    metrics = {"graph": "g", "agreement_of_replicas": float("nan"), "seconds": {"fit": float("inf")}, "n": 2}
    results.write_results(tmp_path, graph, np.eye(2), metrics, plot=False)

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    read = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=refuse)
    assert read == {"graph": "g", "agreement_of_replicas": None, "seconds": {"fit": None}, "n": 2}


def test_the_probability_is_that_of_the_label(tmp_path):
    soft = np.array([[0.25, 0.75], [0.875, 0.125]])
    results.write_results(tmp_path, Graph.from_edges([[0], [1]]), soft, {"graph": "g"}, plot=False)
    text = (tmp_path / "labels.csv").read_text().splitlines()
    assert text == ["node,cluster,probability", "0,1,0.750000", "1,0,0.875000"]


@pytest.fixture
def fitted(run, people, tmp_path):
    """A model of people.csv and words.csv, and the table of words."""
    words = ("cluster", "people.csv", "-f", "words.csv", "-k", 3, *QUICK)
    assert run(*words, "--model-out", "m", "--out", "o")[0] == 0
    with (tmp_path / "words.csv").open(newline="") as file:
        return [*csv.reader(file)]


def write_rows(path, rows):
    path.write_text("".join(",".join(row) + "\n" for row in rows))


def test_columns_are_matched_by_name(run, fitted, tmp_path):
    shuffled = [0, *(1 + np.random.default_rng(0).permutation(30)).tolist()]
    write_rows(tmp_path / "other.csv", [[row[j] for j in shuffled] for row in fitted])
    code, _, err = run("predict", "m", "people.csv", "-f", "other.csv", "--out", "p", "--no-plot")
    assert code == 0, err
    assert labels(tmp_path / "p") == labels(tmp_path / "o")
    renamed = [["id", "colour", *fitted[0][2:]], *fitted[1:]]
    write_rows(tmp_path / "renamed.csv", renamed)
    code, _, err = run("predict", "m", "people.csv", "-f", "renamed.csv", "--out", "q", "--no-plot")
    assert code == 2
    assert "missing: 'w0'; not known: 'colour'" in err
    assert not (tmp_path / "q").exists()


def test_columns_without_names_are_said(run, fitted, tmp_path):
    write_rows(tmp_path / "bare.csv", fitted[1:])
    code, _, err = run("predict", "m", "people.csv", "-f", "bare.csv", "--out", "p", "--no-plot")
    assert code == 0, err
    said = "the features have no names, but those of the fit had"
    assert err.count(said) == 1
    assert any(said in text for text in json.loads((tmp_path / "p" / "metrics.json").read_text())["notes"])
    assert labels(tmp_path / "p") == labels(tmp_path / "o")


def test_an_older_picture_does_not_stay(run, tmp_path):
    (tmp_path / "g.csv").write_text("".join(f"{i},{(i + 1) % 9}\n" for i in range(9)))
    words = ("cluster", "g.csv", "--n-init", 2, "--max-iter", 5, "--out", "o")
    assert run(*words, "-k", 2)[0] == 0
    assert (tmp_path / "o" / "clusters.png").exists()
    code, _, err = run(*words, "-k", 3, "--no-plot")
    assert code == 2
    assert "--overwrite" in err
    assert run(*words, "-k", 3, "--no-plot", "--overwrite")[0] == 0
    assert not (tmp_path / "o" / "clusters.png").exists()
    assert np.load(tmp_path / "o" / "assignments.npy").shape == (9, 3)


def test_the_example_that_ships(run, tmp_path):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    words = ("cluster", "examples/friends.csv", "--features", "examples/hobbies.csv", "-k", 3)
    code, out, err = run(*words, "--n-init", 8)
    assert code == 0, err
    assert "joined by column 'name'" in err
    assert "60 nodes, 156 edges" in out
    found = labels(tmp_path / "friends-clusters")
    # Each of the three clubs spends most hours on its own hobby.
    with (EXAMPLES / "hobbies.csv").open(newline="") as file:
        hours = {
            row["name"]: [int(row[h]) for h in ("chess", "climbing", "choir")] for row in csv.DictReader(file)
        }
    clubs = {name: int(np.argmax(row)) for name, row in hours.items()}
    assert adjusted_rand_score([clubs[n] for n in found], [found[n] for n in found]) > 0.8
