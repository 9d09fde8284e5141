"""A selection is used for the graph it was made for, and only for that one."""

import gc
import weakref
from itertools import pairwise

import pytest
import torch
from helpers.pool_samples import PTR, features, sparse, weighted
from helpers.refusals import refuses
from test_pool_api import SETTINGS, VARIANTS, F, make, name_of

from softcut.errors import ParameterError
from softcut.nn import ClusterSelection, DenseSelection, GraclusPool, MinCutPool, NDPPool
from softcut.nn.pool import POOLS
from softcut.nn.pool.selection import same_edges, same_rows
from softcut.ops import Dense, Segments, Sum, as_operator
from softcut.ops.batching import Padded

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
OTHER = torch.tensor([[0, 2, 2, 1, 1, 3], [2, 0, 1, 2, 3, 1]])  # the same nodes in another order
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
    for edges, batch, wrong in ((OTHER, None, one), (PAIRS, BATCH, one), (PATH, None, two)):
        with refused():
            pool(X, edges, batch=batch, selection=wrong)
    equal = pool(X, PATH.clone(), selection=one)  # the same graph in another tensor
    torch.testing.assert_close(equal.x, pool(X, PATH).x)


@EVERY
def test_of_another_padded_batch(name, options):
    pool = make(name, options)
    x, adj = padded()
    selection = pool(x, adj, mask=MASK).selection
    for other, mask in ((adj, None), (adj, MASK.flip(0)), (adj.flip(1), MASK)):
        with refused():
            pool(x, other, mask=mask, selection=selection)
    with refused():
        pool(x, adj, mask=MASK, selection=pool(x, adj).selection)
    again = pool(x, adj.clone(), mask=MASK.clone(), selection=selection)
    torch.testing.assert_close(again.x, pool(x, adj, mask=MASK).x)


@pytest.mark.parametrize("name", POOLS)
def test_what_is_no_selection(name):
    pool = make(name, SETTINGS[name])
    for wrong in (torch.eye(4), [0, 1], "graclus"):
        refuses(ParameterError, "selection must be a Selection", pool, X, PATH, selection=wrong)
    refuses(ParameterError, r"selection must be out\.selection", pool.lift, X, None)


def test_weights_and_a_matrix_of_ones_own_are_free():
    path, other = as_operator(PATH, num_nodes=4), as_operator(OTHER, num_nodes=4)
    pool = MinCutPool(F, 2).double()
    selection = pool(X, Sum([path, other])).selection
    pool(X, Sum([path, other], [1.0, 2.0]), selection=selection)
    with refused():
        pool(X, Sum([path, path]), selection=selection)
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
    for scale, pooled in zip(scales, together, strict=True):
        torch.testing.assert_close(pooled, pool(x, scale * adj, selection=selection).adj.to_dense())


def test_a_selection_keeps_no_operator_alive():
    op = as_operator(PATH.clone(), num_nodes=4)
    selection, known = GraclusPool()(X, op).selection, weakref.ref(op)
    del op
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
            refuses(ParameterError, r"^x_pool must", pool.lift, wrong, out.selection)


def test_dense_selections_of_batches():
    s, x = torch.softmax(features(9, 2), -1), features()
    selection = DenseSelection(s, Segments(9, PTR))
    parts = [slice(a, b) for a, b in pairwise(PTR.tolist())]
    pooled = torch.stack([s[part].T @ x[part] for part in parts])
    torch.testing.assert_close(selection.reduce(x), pooled)
    assert selection.pooled_rows == (3, 2)
    for pinv, back in ((False, lambda s: s), (True, lambda s: torch.linalg.pinv(s).T)):
        wanted = torch.cat([back(s[part]) @ rows for part, rows in zip(parts, pooled, strict=True)])
        torch.testing.assert_close(selection.lift(pooled, pinv=pinv), wanted)
    for wrong, words in ((pooled[:2], r"have the shape \[3, 2, F\]"), (pooled.long(), "hold floating-point")):
        refuses(ParameterError, f"x_pool must {words}", selection.lift, wrong)


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
    assert selection.size.tolist() == [members, 1, 2]
    assert (selection.members is None) == (members > 16)
    assert selection.pooled_rows == (3,)
    torch.testing.assert_close(selection.lift(wanted), wanted[cluster])
    divided = wanted / torch.tensor([[members], [1], [2]]) if reduction == "sum" else wanted
    torch.testing.assert_close(selection.lift(wanted, pinv=True), divided[cluster])
    s = selection.s.to_dense()
    assert s.argmax(1).tolist() == cluster.tolist()
    assert (s.sum(1) == 1).all()


def test_clusters_without_nodes_no_clusters_and_too_many():
    selection = ClusterSelection(torch.tensor([0, 2]), 3, Segments(2))
    assert selection.members is None
    assert selection.reduce(torch.tensor([[-1.0], [-2.0]])).flatten().tolist() == [-1, 0, -2]
    none = ClusterSelection(torch.zeros(0, dtype=torch.long), 0, Segments(0))
    assert none.members is None and none.reduce(torch.zeros(0, 2)).shape == (0, 2)
    with pytest.raises(RuntimeError):
        ClusterSelection(torch.tensor([0, 1, 2]), 2, Segments(3)).reduce(X[:3])


def test_layouts_and_edges_are_compared():
    one, two = torch.tensor([0, 1, 4]), torch.tensor([0, 3, 4])
    some, others = MASK, MASK.flip(0)
    layouts = [
        (Segments(4), Segments(4), True),
        (Segments(4), Segments(5), False),
        (Segments(4, one), Segments(4), False),  # two graphs and one
        (Segments(4, one), Segments(4, one.clone()), True),
        (Segments(4, one), Segments(4, two), False),
        (Segments(4, one[[0, 2]]), Segments(4), True),
        (Segments(2), Padded(2), False),
        (Padded(2), Padded(2), True),
        (Padded(2), Padded(3), False),
        (Padded(2, some), Padded(2, some.clone()), True),
        (Padded(2, some), Padded(2, others), False),
        (Padded(2, some), Padded(2), False),
        (Padded(2, some | others), Padded(2), True),
    ]
    dense = torch.tensor([[0.0, -1.0], [3.0, 0.0]])
    edges = [
        ((one,), (one.clone(),), True),
        ((one,), (two,), False),
        ((one,), (one[:2],), False),
        ((one,), (one, one), False),
        ((dense,), (dense * torch.tensor([-2.0, 1.0]),), True),  # other weights
        ((dense,), (dense.T - 4,), False),
        ((dense,), (dense[:1],), False),
    ]
    for compare, cases in ((same_rows, layouts), (same_edges, edges)):
        for a, b, same in cases:
            assert compare(a, b) == compare(b, a) == same


@pytest.mark.parametrize("pool", [GraclusPool(), NDPPool()])
def test_ragged_selections_of_padded_batches(pool):
    x, adj = padded()
    out = pool(x, adj, mask=MASK)
    assert not pool.lift(out.x, out.selection)[~MASK].any()
    refuses(ParameterError, "its mask differs", pool, x, adj, mask=MASK.flip(0), selection=out.selection)
    for wrong in (
        lambda: pool(x[:1], adj[:1], mask=MASK[:1], selection=out.selection),
        lambda: pool(*(torch.cat([t, t]) for t in (x, adj)), mask=MASK.repeat(2, 1), selection=out.selection),
        lambda: out.selection.check(sparse(weighted())),
        lambda: pool.pool(x, Dense(adj, MASK), out.selection.inner),
    ):
        refuses(ParameterError, "same padded batch", wrong)
