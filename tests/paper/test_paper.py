"""Tables of the paper: resuming, cells, and the objectives of the clusterers they compare."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from softcut.baselines.diffpool import _losses as diffpool_losses
from softcut.baselines.dmon import _losses as dmon_losses
from softcut.datasets import attributed_communities
from softcut.errors import FileFormatError
from softcut.ops import CSR
from softcut.paper import citation, quality, synthetic
from softcut.training.runs import Records, cells, merge_cells


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
    saved = json.loads((tmp_path / "table1_runs.json").read_text())
    assert [r["method"] for r in saved] == ["mincut"] * 3

    calls.clear()
    monkeypatch.setattr(citation, "_labels", real)
    found = citation.run(tmp_path, ["cora"], ["mincut", "diffpool"], runs=3, max_iter=3)
    again = json.loads((tmp_path / "table1_runs.json").read_text())
    assert [r for r in again if r["method"] == "mincut"] == saved, "finished runs are not repeated"
    assert len(again) == 6
    assert {(c["dataset"], c["method"], c["metric"]) for c in found} == {
        ("cora", m, metric) for m in ("mincut", "diffpool") for metric in ("nmi", "cs", "acc")
    }
    assert not list(tmp_path.glob(".*")), "no temporary files"


def test_cells_have_the_agreed_form(small, tmp_path):
    citation.run(tmp_path, ["cora"], ["mincut"], runs=2, max_iter=2)
    table = json.loads((tmp_path / "table1.json").read_text())
    keys = ["dataset", "method", "metric", "mean", "std", "n", "paper_mean", "paper_std"]
    keys += ["seconds", "device", "commit", "command"]
    for cell in table:
        assert list(cell) == keys
    cell = next(c for c in table if c["metric"] == "nmi")
    assert (cell["n"], cell["paper_mean"], cell["paper_std"]) == (2, 0.404, 0.018)
    runs = json.loads((tmp_path / "table1_runs.json").read_text())
    assert cell["mean"] == pytest.approx(np.mean([r["nmi"] for r in runs]), abs=1e-4)
    assert all(1 <= r["clusters_used"] <= 3 for r in runs)


def test_seeds_are_the_same_in_any_group(small, tmp_path, monkeypatch):
    citation.run(tmp_path / "a", ["cora"], ["mincut"], runs=3, max_iter=5)
    monkeypatch.setattr(citation, "_GROUP", 10)  # one seed at a time
    citation.run(tmp_path / "b", ["cora"], ["mincut"], runs=3, max_iter=5)
    one, other = (json.loads((tmp_path / x / "table1_runs.json").read_text()) for x in "ab")
    assert [r["nmi"] for r in one] == pytest.approx([r["nmi"] for r in other], abs=1e-9)


@pytest.mark.parametrize("method", ["sc", "kmeans", "dmon", "consensus"])
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
    found = quality.run(tmp_path, ["cora"], ["consensus", "no fusion", "kmeans_raw"], runs=1)
    assert {c["method"] for c in found} == {"consensus", "no fusion", "kmeans_raw"}
    rows = synthetic.run(tmp_path, runs=2, max_iter=20)
    assert len(rows) == 6
    assert (tmp_path / "synthetic.png").exists()
    assert {"nmi", "balance_std"} <= set(rows[0])


def test_records_refuse_a_broken_file(tmp_path):
    (tmp_path / "runs.json").write_text("{oops")
    with pytest.raises(FileFormatError, match="move it away"):
        Records(tmp_path / "runs.json")


def test_merging_replaces_cells_of_the_same_name(tmp_path):
    run = {"dataset": "d", "method": "m", "seed": 0, "nmi": 0.5, "seconds": 1.0, "device": "x", "commit": "c"}
    merge_cells(tmp_path / "t.json", cells([run], ["nmi"], {}, "cmd"))
    merged = merge_cells(tmp_path / "t.json", cells([{**run, "nmi": 0.7}], ["nmi"], {}, "cmd"))
    assert [c["mean"] for c in merged] == [0.7]
    assert cells([], ["nmi"], {}, "cmd") == []


def test_diffpool_losses_are_the_dense_formulas(graph):
    s = torch.softmax(
        torch.randn(80, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1
    )
    a = torch.from_numpy(graph.adjacency.toarray()).double()
    link, entropy = diffpool_losses(CSR.from_graph(graph, dtype=torch.float64), s, float((a**2).sum()))
    for r in range(2):
        torch.testing.assert_close(link[r], torch.linalg.norm(a - s[:, r] @ s[:, r].T))
        torch.testing.assert_close(entropy[r], -(s[:, r] * s[:, r].log()).sum(-1).mean())


def test_dmon_losses_are_the_dense_formulas(graph):
    s = torch.softmax(
        torch.randn(80, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1
    )
    a = torch.from_numpy(graph.adjacency.toarray()).double()
    d = a.sum(1)
    b = a - torch.outer(d, d) / d.sum()
    modularity, collapse = dmon_losses(CSR.from_graph(graph, dtype=torch.float64), s)
    for r in range(2):
        torch.testing.assert_close(modularity[r], -torch.trace(s[:, r].T @ b @ s[:, r]) / d.sum())
        torch.testing.assert_close(collapse[r], 3**0.5 / 80 * s[:, r].sum(0).norm() - 1)
