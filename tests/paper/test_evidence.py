"""The rank correlation of evidence with NMI: the pool, its scores, the file and the command."""

import json

import numpy as np
import pytest
import torch

from softcut import Graph
from softcut.datasets import attributed_communities
from softcut.metrics import evidence as evidence_of
from softcut.metrics import nmi
from softcut.paper import evidence
from softcut.report.tables import to_markdown

GRAPH = attributed_communities(80, 3, n_features=30, edge_signal=0.8, feature_signal=0.5, seed=0)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(evidence, "load", lambda name, **options: GRAPH)


def test_rank_correlation_is_the_correlation_of_ranks():
    rng = np.random.default_rng(0)
    truth, score = rng.permutation(20), rng.permutation(20)
    correlations = evidence.rank_correlations({"a": np.exp(score), "-a": -score}, truth)
    expected = np.corrcoef(score, truth)[0, 1]
    assert correlations == {"a": pytest.approx(expected, abs=6e-4), "-a": pytest.approx(-expected, abs=6e-4)}


def test_the_pool_and_its_scores_are_those_of_the_metrics(small, tmp_path):
    (row,) = evidence.run(tmp_path, ["cora"])
    _, labels = evidence.pool(GRAPH, 3, 0, torch.device("cpu"))
    assert list(row["pool"]) == list(labels)
    for name, c in labels.items():
        assert row["pool"][name]["nmi"] == pytest.approx(nmi(GRAPH.y, c.numpy()), abs=6e-5)
        if len(c.unique()) == 3:  # with fewer the metric counts fewer clusters
            assert row["pool"][name]["evidence"] == pytest.approx(evidence_of(GRAPH, c.numpy()), abs=1e-3)
    best = max(row["pool"].values(), key=lambda entry: entry["evidence"])
    assert row["nmi_of_most_evidence"] == best["nmi"]
    assert row["best_nmi"] == max(entry["nmi"] for entry in row["pool"].values())
    assert set(row["rank_correlation"]) == set(evidence.SCORES)
    assert row["rank_correlation"]["evidence"] > 0.5  # both edges and words show the classes


def test_rows_of_other_data_sets_and_seeds_stay(small, tmp_path, monkeypatch):
    made = iter(range(10))
    monkeypatch.setattr(evidence, "_row", lambda graph, seed, device: {"seed": seed, "made": next(made)})
    evidence.run(tmp_path, ["citeseer"])
    evidence.run(tmp_path, ["cora"], runs=2)
    (again,) = evidence.run(tmp_path, ["cora"])
    rows = json.loads((tmp_path / "evidence.json").read_text())
    assert [(row["dataset"], row["seed"], row["made"]) for row in rows] == [
        ("cora", 0, 3),
        ("cora", 1, 2),
        ("citeseer", 0, 0),
    ]
    assert again == rows[0]


def test_nodes_that_say_nothing_are_not_scored(monkeypatch, tmp_path):
    blocks = np.kron(np.eye(2), np.ones((12, 12))) - np.eye(24)
    blocks[0, 12] = blocks[12, 0] = 1
    whole = np.zeros((44, 44), dtype=np.float32)
    whole[:24, :24] = blocks
    y = np.repeat([0, 1, 0, 1], [12, 12, 10, 10])
    monkeypatch.setattr(evidence, "load", lambda name, **options: Graph.from_dense(whole, y=y))
    (row,) = evidence.run(tmp_path, ["polblogs"])
    assert row["nmi_of_most_evidence"] == 1.0  # out of reach with 20 isolated nodes among the scored
    assert row["rank_correlation"]["features"] is None


def test_the_table_has_means_over_seeds():
    def row(seed, value):
        known = {**dict.fromkeys(evidence.SCORES), "evidence": value}
        best = {"nmi_of_most_evidence": 0.5, "best_nmi": 0.6}
        return {"dataset": "cora", "seed": seed, "rank_correlation": known, **best}

    lines = to_markdown(evidence.table([row(0, 0.2), row(1, 0.6)])).splitlines()
    assert lines[2:] == ["| cora | 0.40 | - | - | - | - | - | 0.500 | 0.600 |"]
