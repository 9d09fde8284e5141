"""Several graphs at once: nothing joins two of them, and the loss of a batch is the mean over its graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering import Recipe, networks
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.training import replica_losses


@pytest.fixture(scope="module")
def graphs():
    """150 and 30 nodes."""
    return [
        attributed_communities(n, 3, n_features=40, edge_signal=0.9, feature_signal=0.5, seed=s)
        for s, n in enumerate((150, 30))
    ]


@pytest.fixture(scope="module")
def prepared(graphs):
    return prepare(sc.Graph.batch(graphs), Recipe(), torch.device("cpu"), [].append)


def test_each_graph_is_propagated_by_itself(graphs, prepared):
    dense = prepared.encoded.op.to_dense()
    assert dense[:150, 150:].abs().max() == 0 and dense[150:, 150:].any() and dense[:150, :150].any()
    for graph, rows in zip(graphs, (slice(0, 150), slice(150, 180)), strict=True):
        alone = prepared.encoder.encode(graph, torch.device("cpu"))
        torch.testing.assert_close(alone.z, prepared.encoded.z[:, rows], atol=1e-5, rtol=1e-4)


def test_no_network_begins_from_the_edges_of_several_graphs(graphs, monkeypatch):
    def refuse(*args):
        raise AssertionError("clusters of the edges mean nothing in another graph")

    monkeypatch.setattr(networks, "edge_clusters", refuse)
    est = sc.GraphClustering([2, 3], n_init=4, max_iter=5).fit(graphs)
    assert est.labels_.shape == (180,)


def test_one_function_for_all_of_them():
    """Two halves of one graph: the same clusters in both."""
    whole = attributed_communities(240, 3, n_features=60, edge_signal=0.9, feature_signal=0.5, seed=0)
    parts = [whole.subgraph(range(0, 240, 2)), whole.subgraph(range(1, 240, 2))]
    est = sc.GraphClustering(3, n_init=6).fit(parts)
    for part, labels in zip(parts, est.graph_labels_, strict=True):
        table = np.zeros((3, 3))
        np.add.at(table, (part.y, labels), 1)
        if part is parts[0]:
            names = table.argmax(0)
        assert (names[labels] == part.y).mean() > 0.7
    predicted = est.predict(parts)
    assert isinstance(predicted, list) and [len(labels) for labels in predicted] == [120, 120]
    np.testing.assert_array_equal(est.predict(parts[0]), predicted[0])


@pytest.mark.parametrize("objective", ["mincut", "ratio_trace"])
def test_gradient_of_the_cut_by_finite_differences(prepared, objective):
    """Two unequal graphs: central differences in float64 agree to 1e-6."""
    op = prepared.encoded.op.normalise().to(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(180, 2, 3, generator=generator, dtype=torch.float64)

    def loss(values):
        cut, ortho = replica_losses(op, torch.softmax(values, -1), objective)
        return (cut + ortho).sum()

    given = logits.clone().requires_grad_()
    loss(given).backward()
    step = 1e-6
    for seed in range(3):
        direction = torch.randn(logits.shape, generator=generator.manual_seed(seed), dtype=torch.float64)
        slope = (loss(logits + step * direction) - loss(logits - step * direction)) / (2 * step)
        assert abs(float(slope) - float((given.grad * direction).sum())) < 1e-6


def test_a_batch_is_the_mean_over_its_graphs(prepared):
    op = prepared.encoded.op.normalise().to(dtype=torch.float64)
    s = torch.softmax(torch.randn(180, 1, 3, generator=torch.Generator().manual_seed(1)).double(), -1)
    cut, ortho = replica_losses(op, s)
    dense = op.to_dense()
    wanted_cut, wanted_ortho = [], []
    for rows in (slice(0, 150), slice(150, 180)):
        a, part = dense[rows, rows], s[rows, 0]
        degree = torch.diag(a.sum(1))
        wanted_cut.append(-torch.trace(part.T @ a @ part) / torch.trace(part.T @ degree @ part))
        gram = part.T @ part
        wanted_ortho.append(torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(3) / 3**0.5))
    torch.testing.assert_close(cut[0], torch.stack(wanted_cut).mean())
    torch.testing.assert_close(ortho[0], torch.stack(wanted_ortho).mean())
