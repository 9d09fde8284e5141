"""Batches on a GPU: the same training as on the CPU, and generated graphs that are made there."""

import numpy as np
import pytest
import torch

from softcut.clustering import GraphClustering
from softcut.datasets import attributed_communities, generate
from softcut.metrics import nmi
from softcut.ops import CSR
from softcut.training import (
    DenseInput,
    Parts,
    ReplicaNet,
    TrainSettings,
    train_in_batches,
)


def test_batches_train_on_the_gpu_as_on_the_cpu() -> None:
    graph = attributed_communities(300, 3, average_degree=8, n_features=12, seed=1)
    op = CSR.from_graph(graph, dtype=torch.float64)
    z = torch.from_numpy(graph.x.toarray().astype(np.float64))
    parts, cuts = Parts.random(300, 16, 4, 0), []
    for device in ("cpu", "cuda"):
        net = ReplicaNet(in_channels=12, k=3, seeds=[0, 1], dtype=torch.float64)
        result = train_in_batches(
            net, DenseInput(z), op, parts, TrainSettings(iterations=20, tolerance=None), device=device
        )
        assert net.bias.device.type == "cpu"
        cuts.append(result.cut)
    np.testing.assert_allclose(cuts[1], cuts[0], rtol=1e-6)


def test_the_estimator_in_batches() -> None:
    graph = attributed_communities(1000, 3, average_degree=12, edge_signal=0.8, seed=2)
    first, again = (
        GraphClustering(3, n_init=4, max_iter=40, batch_size=200, device="cuda").fit(graph) for _ in range(2)
    )
    assert np.array_equal(first.soft_, again.soft_)
    assert nmi(graph.y, first.labels_) > 0.9 and (first.predict(graph) == first.labels_).all()


@pytest.mark.parametrize("kind", ["planted", "power_law"])
def test_graphs_are_generated_on_the_gpu(kind: str) -> None:
    first, again = (generate(kind, 10_000, 100_000, 4, 8, device="cuda") for _ in range(2))
    assert first.op.pattern.col.is_cuda and first.op.pattern.same_as(again.op.pattern)
    assert torch.equal(first.x, again.x) and first.op.pattern.symmetric
    rows, cols = first.op.pattern.rows, first.op.pattern.col.long()
    inside = float((first.y[rows] == first.y[cols]).double().mean())
    assert abs(inside - (0.5 + 0.5 / 4)) < 0.05
