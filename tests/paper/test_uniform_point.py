"""The expansion around the uniform assignment agrees with the losses themselves, and says when training leaves it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softcut.classification import from_graphs
from softcut.graph import Graph
from softcut.ops import CSR, mincut_loss, orthogonality_loss
from softcut.paper.uniform_point import push, roughness, uniform_point


def random_graph(seed: int, n: int = 14) -> Graph:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.35, 1)
    upper[np.arange(n - 1), np.arange(1, n)] = True  # connected
    return Graph.from_edges(np.stack(upper.nonzero()), x=rng.normal(size=(n, 3)), num_nodes=n)


@pytest.mark.parametrize("k", [2, 5, 9])
@pytest.mark.parametrize("seed", range(3))
def test_both_losses_follow_the_expansion(k: int, seed: int) -> None:
    graph = random_graph(seed)
    collection = from_graphs([graph], y=[0])
    rng = np.random.default_rng(100 + seed)
    x = rng.normal(size=(14, 1))
    x -= x.mean()
    q = rng.normal(size=k)
    q -= q.mean()
    q /= np.linalg.norm(q)
    rough, spread = roughness(collection, x)

    edges = torch.as_tensor(np.stack(collection.adjacency().nonzero()))
    op = CSR.from_edge_index(edges, num_nodes=14).to(dtype=torch.float64).normalise()
    e = 1e-4

    def losses(step: float) -> tuple[float, float]:
        s = torch.full((14, k), 1 / k, dtype=torch.float64) + step * torch.as_tensor(x @ q[None])
        return float(mincut_loss(s, op)), float(orthogonality_loss(s))

    cut0, ortho0 = losses(0.0)
    cut1, ortho1 = losses(e)
    assert cut0 == pytest.approx(-1)
    assert (cut1 - cut0) / e**2 == pytest.approx(k * rough[0, 0], rel=1e-4)
    assert (ortho1 - ortho0) / e**2 == pytest.approx(-k * push(k) * spread[0, 0], rel=1e-3)


def test_smooth_features_leave_the_uniform_assignment_and_rough_ones_do_not() -> None:
    # Two blocks of twelve nodes joined by one edge; each feature is smooth (the block) or alternates within it.
    edges = [(a, b) for first in (0, 12) for a in range(first, first + 12) for b in range(a + 1, first + 12)]
    index = np.array([*edges, (0, 12)]).T
    block = np.repeat([0.0, 1.0], 12)
    alternating = np.tile([0.0, 1.0], 12)
    weights = {}
    for name, column in (("smooth", block), ("rough", alternating)):
        features = np.stack([column, 1 - column], 1)
        graph = Graph.from_edges(index, x=features, num_nodes=24)
        weights[name] = uniform_point(from_graphs([graph, graph], y=[0, 1]), k=4)["weight_smoothest"]
    assert weights["smooth"] < 0.2
    assert weights["rough"] > 1.5
