"""Pictures, the demo and atomic files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from softcut.cli import demo
from softcut.datasets import attributed_communities, grid_graph
from softcut.files import atomic_json, atomic_write
from softcut.report.plots import cluster_colours, node_positions, plot_clustering


@pytest.mark.parametrize("features", [True, False])
def test_a_picture_of_any_graph(tmp_path, features):
    graph = attributed_communities(150, 3, average_degree=2, seed=0)
    graph = graph if features else graph.with_features(None)
    path = plot_clustering(tmp_path / "a.png", graph, graph.y)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_positions_pull_neighbours_together():
    graph = attributed_communities(300, 3, edge_signal=0.95, seed=0)
    positions, what = node_positions(graph)
    assert what == "layout by neighbours"
    first, second = graph.edge_index()[0]
    near = np.linalg.norm(positions[first] - positions[second], axis=1).mean()
    rng = np.random.default_rng(0)
    anywhere = np.linalg.norm(positions - positions[rng.permutation(300)], axis=1).mean()
    assert near < 0.6 * anywhere
    np.testing.assert_allclose(node_positions(grid_graph(3, 4))[0], grid_graph(3, 4).x)


def test_colours_differ():
    assert len(set(cluster_colours(18))) == 18
    assert len(cluster_colours(40)) == 40


def test_the_demo(tmp_path, monkeypatch):
    small = [(g, k) for g, k in demo.demo_graphs() if g.num_nodes < 1000]
    monkeypatch.setattr(demo, "demo_graphs", lambda: small)
    rows = demo.run_demo(tmp_path)
    assert len(rows) == 8
    assert sorted(p.name for p in tmp_path.iterdir()) == ["communities.png", "grid.png", "results.json"]
    assert json.loads((tmp_path / "results.json").read_text()) == rows
    best = {r["method"]: r["nmi"] for r in rows if r["graph"] == "communities"}
    assert best["softcut (default)"] > 0.9
    assert all("nmi" not in r for r in rows if r["graph"] == "grid")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    atomic_json(tmp_path / "a.json", [1])

    def half(file):
        file.write(b"[2")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        atomic_write(tmp_path / "a.json", half)
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
