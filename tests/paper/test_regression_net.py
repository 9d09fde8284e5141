"""The padded regressor against GraphRegressor on ragged batches: same weights, same numbers, same gradients."""

from __future__ import annotations

import pytest
import torch

from softcut.paper.regression_net import POOLERS, regressor, squared_error


def molecules(seed: int = 0, count: int = 40, width: int = 9):
    """Padded random graphs of 1 to `width` nodes, some without edges, weights of bonds on some."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, width + 1, (count,), generator=generator)
    sizes[0], sizes[1] = 1, width
    mask = torch.arange(width) < sizes.unsqueeze(1)
    kinds = torch.randint(0, 4, (count, width), generator=generator)
    x = torch.nn.functional.one_hot(kinds, 4).double() * mask.unsqueeze(-1)
    upper = torch.rand(count, width, width, generator=generator, dtype=torch.float64)
    upper = torch.where(upper < 0.3, 1 + upper, 0.0).triu(1) * mask.unsqueeze(1) * mask.unsqueeze(2)
    upper[2] = 0  # no edges at all
    return x, upper + upper.mT, mask


def ragged(x, adjacency, mask):
    """The same graphs as features, edge_index, weights and graph numbers."""
    number = (
        mask.cumsum(1)
        - 1
        + torch.cat([torch.zeros(1, dtype=torch.long), mask.sum(1).cumsum(0)[:-1]])[:, None]
    )
    graph, first, second = adjacency.nonzero(as_tuple=True)
    edges = torch.stack([number[graph, first], number[graph, second]])
    return x[mask], edges, adjacency[graph, first, second], mask.nonzero()[:, 0]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, None) for method in POOLERS),
        ("topk", {"connect": "two_hop"}),
        ("mincut", {"keep_diagonal": True}),
        ("diffpool", {"link_weight": 0.3}),
    ],
)
def test_same_predictions_losses_and_gradients_as_the_ragged_model(method, options):
    net = regressor(method, 4, seed=3, hidden=8, k=3, pool_args=options).double()
    x, adjacency, mask = molecules()
    found, auxiliary = net(x, adjacency, mask)
    features, edges, weight, batch = ragged(x, adjacency, mask)
    # A node without edges in a later graph must not be lost: the ragged call is told the number of each node's graph.
    expected = net.net(features, edges, weight, batch)
    assert torch.allclose(found, expected.y[:, 0], atol=1e-12, rtol=0)
    assert torch.allclose(auxiliary.mean(), expected.loss, atol=1e-12, rtol=0)
    losses = squared_error((found, auxiliary), torch.ones(len(x), dtype=torch.float64))
    total = sum(loss.mean() for loss in losses.values())
    other = (expected.y[:, 0] - 1).square().mean() + expected.loss
    assert torch.allclose(total, other, atol=1e-12, rtol=0)
    names, parameters = zip(*net.named_parameters(), strict=True)
    mine = torch.autograd.grad(total, parameters)
    theirs = torch.autograd.grad(other, parameters)
    for name, one, two in zip(names, mine, theirs, strict=True):
        assert torch.allclose(one, two, atol=1e-10, rtol=0), name


def test_padding_changes_nothing():
    x, adjacency, mask = molecules(1)
    for method in POOLERS:
        net = regressor(method, 4, seed=1).double()
        given = ((x, (0, 0, 0, 3)), (adjacency, (0, 3, 0, 3)), (mask, (0, 3)))
        wide = [torch.nn.functional.pad(t, pad) for t, pad in given]
        found = net(x, adjacency, mask)
        padded = net(*wide)
        for one, two in zip(found, padded, strict=True):
            assert torch.allclose(one, two, atol=1e-12, rtol=0), method


@pytest.mark.parametrize("method", POOLERS)
def test_unmasked_padding_is_nodes_without_edges_and_features(method):
    x, adjacency, mask = molecules(3)
    every = torch.ones_like(mask)
    net = regressor(method, 4, seed=2, k=3).double()
    with torch.no_grad():  # biases as a training leaves them: padding is then more than zeros
        for name, parameter in net.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.5, 0.5)
    found, auxiliary = net(x, adjacency, every)
    features, edges, weight, batch = ragged(x, adjacency, every)
    expected = net.net(features, edges, weight, batch)
    assert torch.allclose(found, expected.y[:, 0], atol=1e-12, rtol=0)
    assert torch.allclose(auxiliary.mean(), expected.loss, atol=1e-12, rtol=0)
    masked = net(x, adjacency, mask)[0]
    full = mask.all(1)
    assert torch.allclose(found[full], masked[full], atol=1e-12, rtol=0)
    assert (found[~full] - masked[~full]).abs().max() > 1e-3
