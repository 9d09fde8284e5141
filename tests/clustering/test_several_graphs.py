"""Several graphs at once: a batch stays block-diagonal, and its gradients are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from softcut.clustering.neighbours import feature_graph
from softcut.clustering.settings import resolve

import softcut as sc
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.ops import Sum
from softcut.training import replica_losses


@pytest.fixture(scope="module")
def unequal():
    """150 and 30 nodes, as one batch."""
    return sc.Graph.batch(
        [attributed_communities(n, 3, n_features=40, seed=s) for s, n in enumerate((150, 30))]
    )


def prepared(graph):
    est = sc.MinCutClustering(3)
    settings, _ = resolve(est.get_params(), sc.MinCutClustering.__init__, graph)
    return prepare(graph, settings, torch.device("cpu"), lambda text: None)


def test_the_feature_graph_joins_no_two_graphs(unequal):
    op = prepared(unequal).op
    assert isinstance(op, Sum)
    dense = op.to_dense()
    assert dense[:150, 150:].abs().max() == 0
    assert dense[150:, 150:].any() and dense[:150, :150].any()


def test_the_feature_graph_of_a_batch_is_that_of_each_graph(unequal):
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(180, 5)))
    together = feature_graph(z, 4, ptr=[0, 150, 180]).to_dense()
    torch.testing.assert_close(together[:150, :150], feature_graph(z[:150], 4).to_dense())
    torch.testing.assert_close(together[150:, 150:], feature_graph(z[150:], 4).to_dense())


@pytest.mark.parametrize("objective", ["trace_ratio", "ratio_trace"])
def test_gradient_of_the_cut_by_finite_differences(unequal, objective):
    """Two unequal graphs with a feature graph: central differences in float64 agree to 1e-6."""
    op = prepared(unequal).op.to(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(180, 2, 3, generator=generator, dtype=torch.float64)

    def loss(values):
        cut, ortho = replica_losses(op, torch.softmax(values, -1), objective)
        return (cut + ortho).sum()

    given = logits.clone().requires_grad_()
    loss(given).backward()
    step = 1e-6
    for place in [(0, 0, 0), (70, 1, 2), (149, 0, 1), (150, 0, 0), (179, 1, 1)]:
        change = torch.zeros_like(logits)
        change[place] = step
        slope = (loss(logits + change) - loss(logits - change)) / (2 * step)
        assert abs(float(slope) - float(given.grad[place])) < 1e-6
    direction = torch.randn(logits.shape, generator=generator, dtype=torch.float64)
    slope = (loss(logits + step * direction) - loss(logits - step * direction)) / (2 * step)
    assert abs(float(slope) - float((given.grad * direction).sum())) < 1e-6


def test_a_batch_is_the_mean_over_its_graphs(unequal):
    """The loss of the batch is the mean of the losses of its graphs, feature graphs included."""
    both = prepared(unequal)
    s = torch.softmax(torch.randn(180, 1, 3, generator=torch.Generator().manual_seed(1)).double(), -1)
    cut, ortho = replica_losses(both.op.to(dtype=torch.float64), s)
    dense = both.op.to(dtype=torch.float64).to_dense()
    wanted_cut, wanted_ortho = [], []
    for rows in (slice(0, 150), slice(150, 180)):
        a, part = dense[rows, rows], s[rows, 0]
        degree = torch.diag(a.sum(1))
        wanted_cut.append(-torch.trace(part.T @ a @ part) / torch.trace(part.T @ degree @ part))
        gram = part.T @ part
        wanted_ortho.append(torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(3) / 3**0.5))
    torch.testing.assert_close(cut[0], torch.stack(wanted_cut).mean())
    torch.testing.assert_close(ortho[0], torch.stack(wanted_ortho).mean())


def test_what_fit_takes_is_what_a_graph_can_be_made_of():
    """Edge pairs are one graph, a list of graphs is a batch, and (adjacency, X) is one graph with features."""
    two = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)]
    graph = sc.Graph.from_edges(two)

    def fitted(given):
        return sc.MinCutClustering(2, n_init=4, max_iter=20, random_state=0).fit(given)

    wanted = fitted(graph).labels_
    assert len(set(wanted.tolist())) == 2
    np.testing.assert_array_equal(fitted(two).labels_, wanted)
    named = [(f"n{a}", f"n{b}") for a, b in two]
    np.testing.assert_array_equal(fitted(named).labels_, fitted(sc.Graph.from_any(named)).labels_)
    assert fitted([graph, graph.adjacency]).labels_.shape == (12,)
    pair = fitted((graph.adjacency, np.eye(6)[:, :5]))
    assert (pair.labels_.shape, pair.n_features_in_) == ((6,), 5)
    with pytest.raises(sc.SoftcutError, match="empty list"):
        fitted([])
    with pytest.raises(sc.SoftcutError, match="may be a matrix or edges"):
        fitted([[0, 1], [1, 0]])
