"""Tables of the paper: resuming, settings, cells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from softcut.clustering import GraphClustering, Recipe
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.metrics import nmi
from softcut.paper import citation, quality, synthetic
from softcut.paper.runs import Records, cells, read_cells

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(80, 3, n_features=40, seed=0)


@pytest.fixture
def small(monkeypatch, graph):
    for module in (citation, quality):
        monkeypatch.setattr(module, "load", lambda name, **kwargs: graph)


def test_a_run_that_was_killed_goes_on_where_it_was(small, tmp_path, monkeypatch):
    calls = []
    real = citation._labels

    def dies(method, graph, plain, seeds, device, max_iter):
        if calls and method == "diffpool":
            raise RuntimeError("kill -9")
        calls.append((method, list(seeds)))
        return real(method, graph, plain, seeds, device, max_iter)

    monkeypatch.setattr(citation, "_labels", dies)
    with pytest.raises(RuntimeError):
        citation.run(tmp_path, ["cora"], ["mincut", "diffpool"], runs=3, max_iter=3)
    saved = json.loads((tmp_path / "table1_3_iterations_runs.json").read_text())
    assert [r["method"] for r in saved] == ["mincut"] * 3

    calls.clear()
    monkeypatch.setattr(citation, "_labels", real)
    found = citation.run(tmp_path, ["cora"], ["mincut", "diffpool"], runs=3, max_iter=3)
    again = json.loads((tmp_path / "table1_3_iterations_runs.json").read_text())
    assert [r for r in again if r["method"] == "mincut"] == saved, "finished runs are not repeated"
    assert len(again) == 6
    assert {(c["dataset"], c["method"], c["metric"]) for c in found} == {
        ("cora", m, metric) for m in ("mincut", "diffpool") for metric in ("nmi", "cs", "acc")
    }
    assert not list(tmp_path.glob(".*")), "no temporary files"


def test_cells_have_the_agreed_form(small, tmp_path):
    citation.run(tmp_path, ["cora"], ["mincut"], runs=2, max_iter=3)
    table = json.loads((tmp_path / "table1_3_iterations.json").read_text())
    keys = ["dataset", "method", "metric", "mean", "std", "n", "paper_mean", "paper_std"]
    keys += ["seconds", "device", "commit", "command"]
    for cell in table:
        assert list(cell) == keys
    cell = next(c for c in table if c["metric"] == "nmi")
    assert (cell["n"], cell["paper_mean"], cell["paper_std"]) == (2, 0.404, 0.018)
    runs = json.loads((tmp_path / "table1_3_iterations_runs.json").read_text())
    assert cell["mean"] == pytest.approx(np.mean([r["nmi"] for r in runs]), abs=1e-4)
    assert all(1 <= r["clusters_used"] <= 3 for r in runs)
    # A trial with few iterations is no run of the table: neither by its file nor by its settings.
    assert not (tmp_path / "table1.json").exists() and not (tmp_path / "table1_runs.json").exists()
    records = Records(tmp_path / "table1_3_iterations_runs.json")
    assert records.missing("cora", "mincut", range(3), citation.settings_of("mincut", 3)) == [2]
    assert records.missing("cora", "mincut", range(3), citation.settings_of("mincut")) == [0, 1, 2]


def test_seeds_are_the_same_in_any_group(small, tmp_path, monkeypatch):
    citation.run(tmp_path / "a", ["cora"], ["mincut"], runs=3, max_iter=3)
    monkeypatch.setattr(citation, "_GROUP", 10)  # one seed at a time
    citation.run(tmp_path / "b", ["cora"], ["mincut"], runs=3, max_iter=3)
    one, other = (json.loads((tmp_path / x / "table1_3_iterations_runs.json").read_text()) for x in "ab")
    assert [r["nmi"] for r in one] == pytest.approx([r["nmi"] for r in other], abs=1e-9)


@pytest.mark.parametrize("method", ["sc", "kmeans", "dmon"])
def test_other_columns_of_table_1(small, tmp_path, method):
    (cell, *_) = citation.run(tmp_path, ["cora"], [method], runs=1, max_iter=3)
    assert 0 <= cell["mean"] <= 1


def test_curves(small, tmp_path):
    path = citation.curves(tmp_path, runs=2, max_iter=50)
    assert path.read_bytes()[:4] == b"\x89PNG"
    found = json.loads((tmp_path / "curves_cora.json").read_text())
    assert [r["iteration"] for r in found["mincut"]] == [25, 50]
    assert len(found["diffpool"][0]["nmi"]) == 2


def test_quality_and_synthetic(small, tmp_path):
    found = quality.run(tmp_path, ["cora"], ["default", "no fusion", "kmeans_raw"], runs=1)
    assert {c["method"] for c in found} == {"default", "no fusion", "kmeans_raw"}
    rows = synthetic.run(tmp_path, runs=2, max_iter=20)
    assert len(rows) == 6
    assert (tmp_path / "synthetic_20_iterations.png").exists()
    assert not (tmp_path / "synthetic.json").exists(), "a trial is not the figure"
    assert {"nmi", "balance_std"} <= set(rows[0])


def test_quality_where_the_number_of_clusters_is_chosen(small, graph, tmp_path, monkeypatch):
    name = "number of clusters chosen"
    assert name in quality.METHODS
    assert quality.settings_of(name) == {**quality.settings_of("default"), "chosen": True}
    short = Recipe(iterations=20, networks=4)
    monkeypatch.setattr(GraphClustering, "_recipe", short)
    quality.run(tmp_path, ["cora"], [name], runs=1)
    (run,) = Records(tmp_path / "quality_runs.json").runs
    est = GraphClustering("auto", random_state=0, device="cpu", recipe=short).fit(graph)
    assert run["settings"] == {"estimator": "GraphClustering", "recipe": short.digest, "chosen": True}
    assert run["clusters_used"] == len(np.unique(est.labels_))
    assert run["n_clusters"] == est.n_clusters_
    assert run["replicas_collapsed"] == sum(replica.collapsed for replica in est.replicas_)
    assert (run["structure"], run["verdict"]) == (pytest.approx(est.structure_), est.verdict_)
    assert run["nmi"] == pytest.approx(nmi(graph.y, est.labels_), abs=1e-9)


@pytest.mark.parametrize("method", ["mincut", "diffpool", "dmon"])
def test_an_interrupted_training_is_not_recorded(small, tmp_path, monkeypatch, method):
    from softcut.training.loop import Loop

    real = Loop._step

    def interrupted(self):
        real(self)
        if self.done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        citation.run(tmp_path, ["cora"], [method], runs=1, max_iter=5)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", [citation, quality])
def test_unknown_names_are_refused(module, tmp_path):
    with pytest.raises(ParameterError, match="datasets must be among"):
        module.run(tmp_path, ["corra"])
    with pytest.raises(ParameterError, match="methods must be among"):
        module.run(tmp_path, methods=["minicut"])


@pytest.mark.parametrize(
    ("table", "settings_of", "least"),
    [("table1", citation.settings_of, 990), ("quality", quality.settings_of, 200)],
)
def test_recorded_runs_are_those_of_the_default_settings(table, settings_of, least):
    """Whoever changes a default must record its results anew (or say that the meaning is the same)."""
    records = Records(RESULTS / f"{table}_runs.json")
    assert len(records.runs) >= least
    for run in records.runs:
        assert not records.missing(run["dataset"], run["method"], [run["seed"]], settings_of(run["method"]))


@pytest.mark.parametrize("table", ["table1", "quality", "autoencoder", "autoencoder_decay"])
def test_recorded_cells_are_those_of_the_recorded_runs(table):
    records = Records(RESULTS / f"{table}_runs.json")
    for cell in read_cells(RESULTS / f"{table}.json"):
        own = [r for r in records.runs if (r["dataset"], r["method"]) == (cell["dataset"], cell["method"])]
        own = own[: cell["n"]]
        (again,) = cells(own, [cell["metric"]], {}, "", digits=None)
        assert again["mean"] == pytest.approx(cell["mean"], abs=6e-5)
        assert again["std"] == pytest.approx(cell["std"], abs=6e-5)
        assert (again["n"], again["commit"], again["device"]) == (cell["n"], cell["commit"], cell["device"])
