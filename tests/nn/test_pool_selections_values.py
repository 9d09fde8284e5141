"""Selections, coarse graphs and poolers by name: exact values, and what is refused."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from pool_samples import BATCH, PTR, features, sparse, weighted

from softcut.errors import ParameterError
from softcut.nn import (
    GraclusPool,
    NDPPool,
    NoPool,
    get_pool,
)
from softcut.nn.pool.base import check_clusters, nodes_per_graph
from softcut.nn.pool.graclus import ClusterSelection
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.registry import pool_options
from softcut.nn.pool.selection import DenseSelection, same_rows
from softcut.nn.pool.topological import FlatSelection, to_scipy
from softcut.ops import Dense, Segments
from softcut.ops.batching import Padded


def test_dense_selections_of_batches():
    s = torch.softmax(features(9, 2), -1)
    selection = DenseSelection(s, Segments(9, PTR))
    x = features()
    pooled = selection.reduce(x)
    wanted = torch.stack([s[a:b].T @ x[a:b] for a, b in pairwise(PTR.tolist())])
    torch.testing.assert_close(pooled, wanted)
    assert selection.pooled_rows == (3, 2)
    torch.testing.assert_close(
        selection.lift(pooled),
        torch.cat([s[a:b] @ wanted[i] for i, (a, b) in enumerate(pairwise(PTR.tolist()))]),
    )
    back = torch.cat(
        [torch.linalg.pinv(s[a:b]).T @ wanted[i] for i, (a, b) in enumerate(pairwise(PTR.tolist()))]
    )
    torch.testing.assert_close(selection.lift(pooled, pinv=True), back)
    with pytest.raises(ParameterError, match="x_pool must have the shape"):
        selection.lift(pooled[:2])


@pytest.mark.parametrize("reduction", ["max", "mean", "sum"])
@pytest.mark.parametrize("members", [2, 16, 17])
def test_clusters_of_any_size(reduction, members):
    """Up to 16 members the maximum is taken from a table, above by scattering."""
    cluster = torch.tensor([0] * members + [1, 2, 2])
    x = features(members + 3)
    selection = ClusterSelection(cluster, 3, Segments(members + 3), reduction)
    plain = {
        "max": lambda part: part.max(0).values,
        "mean": lambda part: part.mean(0),
        "sum": lambda part: part.sum(0),
    }
    wanted = torch.stack([plain[reduction](x[cluster == c]) for c in range(3)])
    torch.testing.assert_close(selection.reduce(x), wanted)
    assert (selection.members is None) == (members > 16)
    if selection.members is not None:
        table, column = selection.members
        assert table.shape == (3, members)
        assert table[0].tolist() == list(range(members))
        assert table[1].tolist() == [members] * members
        assert column[-1] == 1
    assert selection.size.tolist() == [members, 1, 2]
    assert selection.pooled_rows == (3,)
    torch.testing.assert_close(selection.lift(wanted), wanted[cluster])
    divided = wanted / torch.tensor([[members], [1], [2]]) if reduction == "sum" else wanted
    torch.testing.assert_close(selection.lift(wanted, pinv=True), divided[cluster])
    s = selection.s.to_dense()
    assert s.argmax(1).tolist() == cluster.tolist()
    assert (s.sum(1) == 1).all()


def test_a_cluster_without_nodes():
    selection = ClusterSelection(torch.tensor([0, 2]), 3, Segments(2))
    assert selection.members is None
    assert selection.reduce(torch.tensor([[-1.0], [-2.0]])).flatten().tolist() == [-1, 0, -2]


def test_layouts_that_are_the_same():
    assert same_rows(Segments(9, PTR), Segments(9, PTR.clone()))
    assert same_rows(Segments(9), Segments(9, torch.tensor([0, 9])))
    assert not same_rows(Segments(9, PTR), Segments(9, torch.tensor([0, 3, 5, 9])))
    assert not same_rows(Segments(9), Segments(8))
    assert not same_rows(Segments(9, PTR), Segments(9))
    assert same_rows(Padded(2), Padded(2))
    assert not same_rows(Padded(2), Padded(3))
    assert not same_rows(Padded(1), Segments(1))


def test_nodes_of_every_graph():
    like = torch.zeros(1, dtype=torch.float64)
    assert nodes_per_graph(sparse(weighted()), like).tolist() == [9]
    assert nodes_per_graph(sparse(weighted(ptr=PTR), BATCH), like).tolist() == [4, 1, 4]
    assert nodes_per_graph(Dense(torch.zeros(2, 5, 5)), like).tolist() == [5, 5]
    mask = torch.tensor([[True, True, False], [False, False, False]])
    counts = nodes_per_graph(Dense(torch.zeros(2, 3, 3), mask), like)
    assert counts.tolist() == [2, 1], "an empty graph counts as one node, or its losses would divide by zero"
    assert counts.dtype == torch.float64
    assert nodes_per_graph(sparse(torch.zeros(0, 0)), like).tolist() == [1]


def test_numbers_of_clusters_and_temperatures():
    check_clusters(1, 1e-9)
    check_clusters(np.int64(2))
    for bad, words in (
        (0, "at least 1"),
        (-1, "at least 1"),
        (2.5, "whole number"),
        (True, "whole number"),
        ("2", "whole"),
    ):
        with pytest.raises(ParameterError, match=f"k must be .*{words}"):
            check_clusters(bad)
    for bad in (0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="temperature must be positive"):
            check_clusters(2, bad)


# ------------------------------------------------------------------------------------------- pyg, flat


def test_to_pyg_of_every_kind():
    a = weighted()
    out = PoolOutput(features().view(1, 9, 3), Dense(a.unsqueeze(0)), selection=None)
    _, index, weight, batch = out.to_pyg()
    dense = torch.zeros(9, 9, dtype=torch.float64).index_put((index[0], index[1]), weight)
    torch.testing.assert_close(dense, a)
    assert batch.tolist() == [0] * 9
    for op in (sparse(a), sparse(a).normalise(), sparse((a > 0).double())):
        out = PoolOutput(features(), op, selection=None)
        x, index, weight, batch = out.to_pyg()
        dense = torch.zeros(9, 9, dtype=weight.dtype).index_put((index[0], index[1]), weight)
        torch.testing.assert_close(dense, op.to_dense().to(dense.dtype))
        assert batch.tolist() == [0] * 9
        assert x is out.x
    two = PoolOutput(torch.rand(2, 3, 1), Dense(torch.stack([a[:3, :3], a[3:6, 3:6]])), selection=None,
                     mask=torch.tensor([[True, False, True], [True, True, True]]))  # fmt: skip
    x, index, weight, batch = two.to_pyg()
    assert x.shape == (5, 1)
    assert batch.tolist() == [0, 0, 1, 1, 1]
    assert set(map(tuple, index.T.tolist())) <= {
        (i, j) for i in range(5) for j in range(5) if batch[i] == batch[j]
    }
    assert PoolOutput(torch.rand(2, 1), sparse(a), selection=None, batch=torch.tensor([0, 1])).to_pyg()[
        3
    ].tolist() == [0, 1]


def test_ragged_selections_of_padded_batches():
    a = torch.zeros(2, 3, 3)
    a[0, 0, 1] = a[0, 1, 0] = a[1, 1, 2] = a[1, 2, 1] = 1
    mask = torch.tensor([[True, True, False], [True, True, True]])
    x = torch.arange(6.0).view(2, 3, 1)
    for pool in (GraclusPool(), NDPPool()):
        out = pool(x, a, mask=mask)
        assert isinstance(out.selection, FlatSelection)
        back = pool.lift(out.x, out.selection)
        assert back.shape == x.shape
        assert back[0, 2] == 0
        out.selection.check(Dense(a, mask))
        other = mask.clone()
        other[0, 0] = False
        with pytest.raises(ParameterError, match="its mask differs"):
            pool(x, a, mask=other, selection=out.selection)
        with pytest.raises(ParameterError, match="same padded batch"):
            pool(x[:1], a[:1], mask=mask[:1], selection=out.selection)
        with pytest.raises(ParameterError, match="same padded batch"):
            out.selection.check(sparse(weighted()))
        with pytest.raises(ParameterError, match="same padded batch"):
            pool.pool(x, Dense(a, mask), out.selection.inner)


def test_levels_are_counted_from_one():
    for make in (GraclusPool, NDPPool):
        assert make().levels == 1
        with pytest.raises(ParameterError, match="levels must be at least 1, got 0"):
            make(levels=0)
    assert NDPPool().coarsening.delta == 1e-2
    assert NDPPool().coarsening.seed == GraclusPool().coarsening.seed == 0
    assert GraclusPool().reduction == "max"
    assert NDPPool()(torch.rand(9, 1), sparse(weighted())).adj.symmetric, (
        "no second pattern is made for gradients"
    )
    assert repr(NDPPool(2, 0.5, 3)) == "NDPPool(levels=2, delta=0.5, seed=3)"


def test_weights_decide_what_graclus_merges():
    """A ring of four nodes with two heavy edges, which are matched."""
    index = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    for heavy, pairs in (
        ([9, 9, 1, 1, 9, 9, 1, 1], [{0, 1}, {2, 3}]),
        ([1, 1, 9, 9, 1, 1, 9, 9], [{1, 2}, {0, 3}]),
    ):
        out = GraclusPool()(torch.rand(4, 1), index, torch.tensor(heavy, dtype=torch.float))
        cluster = out.selection.cluster.tolist()
        assert all(len({cluster[i] for i in pair}) == 1 for pair in pairs)
        assert out.adj.to_dense().tolist() == [[0, 2], [2, 0]], "light edges between the pairs add up"


def test_scipy_matrices_of_operators():
    a = weighted()
    np.testing.assert_allclose(to_scipy(sparse(a)).toarray(), a.numpy())
    with_loops = a + torch.eye(9)
    np.testing.assert_allclose(to_scipy(sparse(with_loops)).toarray(), a.numpy())


def test_nopool_is_the_identity():
    x, op = features(), sparse(weighted(ptr=PTR), BATCH)
    pool = NoPool()
    out = pool(x, op)
    assert torch.equal(out.x, x)
    assert out.batch.tolist() == BATCH.tolist()
    assert torch.equal(out.s.to_dense(), torch.eye(9, dtype=torch.float64))
    assert out.selection.pooled_rows == (9,)
    assert torch.equal(pool.lift(x, out.selection), x)
    assert pool(x, sparse(weighted())).batch is None
    with pytest.raises(
        ParameterError, match="selection must come from the graphs that are pooled; it has other rows"
    ):
        pool(x[:4], sparse(weighted(4)), selection=out.selection)


def test_pools_by_name():
    assert pool_options("nopool") == []
    assert pool_options("random") == ["k", "kind", "seed"]
    with pytest.raises(ParameterError, match=r"unknown pooler 'minkut': .* Did you mean 'mincut'\?"):
        get_pool("minkut", 3, k=2)
    with pytest.raises(ParameterError, match="in_channels must be given for 'mincut'"):
        get_pool("mincut", k=2)
    with pytest.raises(ParameterError, match="'mincut' needs k"):
        get_pool("mincut", 3)
    with pytest.raises(
        ParameterError, match="'graclus' does not take 'k'; its options are: reduction, levels, seed, cache"
    ):
        get_pool("graclus", 3, k=2)
    with pytest.raises(ParameterError, match="its options are: none"):
        get_pool("nopool", k=2)
