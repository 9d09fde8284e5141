"""A selection is used for the graph it was made for, and only for that one."""

from __future__ import annotations

import pytest
import torch
from test_pool_api import SETTINGS, VARIANTS, F, make, name_of

from softcut.errors import ParameterError
from softcut.nn import DenseSelection, GraclusPool, MinCutPool, NoPool
from softcut.nn.pool import POOLS
from softcut.ops import Segments, Sum, as_operator

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
OTHER = torch.tensor(
    [[0, 2, 2, 1, 1, 3], [2, 0, 1, 2, 3, 1]]
)  # a path through the same nodes in another order
PAIRS, BATCH = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1])
X = torch.rand(4, F, generator=torch.Generator().manual_seed(0), dtype=torch.double)
MASK = torch.tensor([[True, True, True, True], [True, True, True, False]])
EVERY = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)


def refused():
    return pytest.raises(ParameterError, match=r"^selection ")


def padded():
    ring = torch.tensor([[0.0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]], dtype=torch.double)
    return torch.stack([X, X + 1]), torch.stack([ring, ring])


@EVERY
def test_of_another_graph_with_as_many_nodes(name, options):
    pool = make(name, options)
    one, two = pool(X, PATH).selection, pool(X, PAIRS, batch=BATCH).selection
    with refused():
        pool(X, OTHER, selection=one)
    with refused():
        pool(X, PAIRS, batch=BATCH, selection=one)
    with refused():
        pool(X, PATH, selection=two)
    equal = pool(X, PATH.clone(), selection=one)  # the same graph in another tensor
    torch.testing.assert_close(equal.x, pool(X, PATH).x)


@EVERY
def test_of_another_padded_batch(name, options):
    pool = make(name, options)
    x, adj = padded()
    selection = pool(x, adj, mask=MASK).selection
    for mask in (None, MASK.flip(0)):
        with refused():
            pool(x, adj, mask=mask, selection=selection)
    with refused():
        pool(x, adj.flip(1), mask=MASK, selection=selection)
    with refused():
        pool(x, adj, mask=MASK, selection=pool(x, adj).selection)
    again = pool(x, adj.clone(), mask=MASK.clone(), selection=selection)
    torch.testing.assert_close(again.x, pool(x, adj, mask=MASK).x)


@pytest.mark.parametrize("name", POOLS)
def test_what_is_no_selection(name):
    pool = make(name, SETTINGS[name])
    for wrong in (torch.eye(4), [0, 1], "graclus"):
        with pytest.raises(ParameterError, match="selection must be a Selection"):
            pool(X, PATH, selection=wrong)
    with pytest.raises(ParameterError, match=r"selection must be out\.selection"):
        pool.lift(X, None)


def test_of_a_sum():
    path, other = as_operator(PATH, num_nodes=4), as_operator(OTHER, num_nodes=4)
    pool = MinCutPool(F, 2).double()
    selection = pool(X, Sum([path, other])).selection
    pool(X, Sum([path, other], [1.0, 2.0]), selection=selection)
    with refused():
        pool(X, Sum([path, path]), selection=selection)


def test_weights_and_a_matrix_of_ones_own_are_free():
    pool = MinCutPool(F, 2).double()
    selection = pool(X, PATH).selection
    heavier = pool(X, PATH, torch.full((6,), 3.0, dtype=torch.double), selection=selection)
    torch.testing.assert_close(heavier.s, selection.s)
    own = DenseSelection(selection.s, Segments(4))
    torch.testing.assert_close(pool(X, OTHER, selection=own).x, heavier.x)


def test_a_selection_of_plain_tensors_under_vmap():
    """The edges of one of the two graphs cannot be read there: the caller is believed."""
    x, adj = padded()
    pool = MinCutPool(F, 2).double()
    selection = pool(x, adj).selection
    scales = torch.tensor([1.0, 2.0], dtype=torch.double)
    together = torch.func.vmap(lambda scale: pool(x, scale * adj, selection=selection).adj.to_dense())(scales)
    for scale, found in zip(scales, together, strict=True):
        torch.testing.assert_close(found, pool(x, scale * adj, selection=selection).adj.to_dense())


def test_a_selection_keeps_no_operator_alive():
    import gc
    import weakref

    op = as_operator(PATH.clone(), num_nodes=4)
    pool = GraclusPool()
    out = pool(X, op)
    selection, known = out.selection, weakref.ref(op)
    del op, out
    gc.collect()
    assert selection.edges is not None
    assert known() is None


def test_a_dense_graph_changed_in_place_is_matched_again():
    x, adj = padded()
    op = as_operator(adj)
    pool = GraclusPool()
    before = pool(x, op).selection.inner.cluster.clone()
    adj.copy_(adj[:, [0, 2, 1, 3]][:, :, [0, 2, 1, 3]])
    after = pool(x, op).selection.inner.cluster
    assert torch.equal(after, GraclusPool()(x, adj.clone()).selection.inner.cluster)
    assert not torch.equal(before, after)


@EVERY
def test_lift_takes_the_pooled_features_only(name, options):
    pool = make(name, options)
    x, adj = padded()
    for out, nodes in ((pool(X, PAIRS, batch=BATCH), X), (pool(x, adj, mask=MASK), x)):
        assert pool.lift(out.x, out.selection).shape[:-1] == nodes.shape[:-1]
        for wrong in (out.x[1:], out.x[None], torch.cat([out.x, out.x]), out.x.tolist(), None):
            with pytest.raises(ParameterError, match=r"^x_pool must"):
                pool.lift(wrong, out.selection)


def test_lift_where_clusters_are_as_many_as_graphs():
    pool = MinCutPool(F, 2).double()
    out = pool(X, PAIRS, batch=BATCH)
    with pytest.raises(ParameterError, match=r"x_pool must have the shape \[2, 2, F\]"):
        pool.lift(out.x[0], out.selection)
    with pytest.raises(ParameterError, match="x_pool must hold floating-point numbers"):
        pool.lift(out.x.long(), out.selection)


def test_nopool_takes_its_own_selections_only():
    with pytest.raises(ParameterError, match="selection must be that of a NoPool"):
        NoPool()(X, PATH, selection=DenseSelection(torch.eye(4), Segments(4)))
