"""Graclus pooling: reductions, gradients, and what is remembered between calls."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.coarsening_samples import as_graph, knn

from softcut.nn import GraclusPool, NDPPool


def edges_of(a: sp.csr_array) -> torch.Tensor:
    return torch.from_numpy(np.stack(a.nonzero()))


def test_levels_are_matchings_in_a_row() -> None:
    x, e = torch.rand(900, 3), edges_of(as_graph("grid"))
    two = GraclusPool(levels=2, reduction="sum")(x, e)
    one = GraclusPool(reduction="sum")(x, e)
    again = GraclusPool(reduction="sum")(one.x, one.adj)
    torch.testing.assert_close(two.x, again.x)
    torch.testing.assert_close(two.adj.to_dense(), again.adj.to_dense())


def test_gradient_reaches_edge_weights() -> None:
    e = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    w = torch.ones(6, requires_grad=True)
    GraclusPool()(torch.rand(4, 2), e, w).adj.to_dense().sum().backward()
    assert w.grad.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_maximum_and_its_gradient_are_those_of_scatter(levels: int) -> None:
    edges = edges_of(knn(60))
    x = torch.randn(60, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pool = GraclusPool(levels=levels)
    out = pool(x, edges)
    assert out.selection.members is not None
    where = out.selection.cluster.unsqueeze(-1).expand_as(x)
    zeros = torch.zeros(out.selection.num_clusters, 5, dtype=torch.float64)
    plain = zeros.scatter_reduce(0, where, x, "amax", include_self=False)
    weight = torch.rand(plain.shape, dtype=torch.float64)
    assert torch.equal(out.x, plain)
    got, expected = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (out.x, plain))
    assert torch.equal(got, expected)
    ties = torch.zeros(60, 1, requires_grad=True)  # the first of several equal nodes gets all of it
    pool(ties, edges).x.sum().backward()
    firsts = np.unique(out.selection.cluster, return_index=True)[1]
    assert ties.grad.flatten().nonzero().flatten().tolist() == sorted(firsts)
    assert ties.grad.max() == 1


@pytest.mark.parametrize("make", [GraclusPool, NDPPool])
def test_a_pool_makes_its_coarse_graph_once_and_trains_after_inference_mode(make) -> None:
    pool, x, edges = make(), torch.rand(40, 3), edges_of(knn(40))
    with torch.inference_mode():
        _ = pool(x, edges).adj
    assert pool(x, edges).adj is pool(x, edges).adj
    assert torch.equal(copy.deepcopy(pool)(x, edges).x, pool(x, edges).x)
    x.requires_grad_()
    again = pool(x, edges)
    (again.x.sum() + again.adj.to_dense().sum() * x.sum()).backward()
    assert x.grad is not None
