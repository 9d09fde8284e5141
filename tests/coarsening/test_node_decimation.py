"""Node decimation: the spectral maximum cut, and Kron reduction against the dense Schur complement."""

from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.coarsening_samples import as_graph, knn, random_graph, star
from helpers.refusals import sentence_of
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, spsolve

from softcut.coarsening import NodeDecimation, clean, kron_reduction, max_cut_split, node_decimation
from softcut.coarsening.levels import node_hash
from softcut.errors import SoftcutError


@pytest.mark.parametrize("name", ["grid", "ring", "odd ring", "knn", "weighted knn"])
def test_about_half_stay(name: str) -> None:
    a = sp.coo_array(as_graph(name))
    keep = max_cut_split(sp.csr_array(a))
    cut = a.data[keep[a.coords[0]] != keep[a.coords[1]]].sum() / a.data.sum()
    assert 0.45 <= keep.mean() <= 0.55
    assert cut == 1 if name in ("grid", "ring") else cut >= 0.5  # bipartite: every edge is cut


def test_eigenvector_agrees_with_the_dense_one() -> None:
    a = random_graph(np.random.default_rng(5), 400, 6, True)
    giant = connected_components(a)[1]
    nodes = np.flatnonzero(giant == np.bincount(giant).argmax())
    a = clean(sp.csr_array(a[nodes][:, nodes]), symmetric=True)
    degree = np.asarray(a.sum(1)).ravel()
    normalised = np.eye(len(nodes)) - a.toarray() / np.sqrt(np.outer(degree, degree))
    vector = np.linalg.eigh(normalised)[1][:, -1]
    keep = max_cut_split(a)
    assert np.array_equal(keep, vector >= 0) or np.array_equal(keep, vector < 0)
    assert keep[np.abs(vector).argmax()]


@pytest.mark.parametrize("n", [23, 24])
def test_random_split_where_the_spectral_one_is_worse(n: int) -> None:
    """A clique with a path at one node: the eigenvector lives on the path, and the clique has one sign."""
    a = np.zeros((n, n))
    a[:20, :20] = 1 - np.eye(20)
    a[range(19, n - 1), range(20, n)] = a[range(20, n), range(19, n - 1)] = 1
    one, two = (max_cut_split(sp.csr_array(a), seed=seed) for seed in (0, 1))
    assert one.sum() == two.sum() == 12
    assert not np.array_equal(one, two)
    assert np.array_equal(one, max_cut_split(sp.csr_array(a)))
    assert np.array_equal(one, np.isin(np.arange(n), node_hash(np.arange(n), 0).argsort()[:12]))


@pytest.mark.parametrize("n", [300, 301])
def test_random_split_where_no_eigenvector_is_found(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 300 nodes it is found by a dense solver."""
    a = sp.lil_array(ring(n))
    a[0, 2] = a[2, 0] = 1  # a triangle, so that no cut holds every edge

    expected = max_cut_split(sp.csr_array(a))
    monkeypatch.setattr("scipy.sparse.linalg.eigsh", Mock(side_effect=ArpackError(-1)))
    again = max_cut_split(sp.csr_array(a))
    assert again.sum() == 150 + n % 2
    assert np.array_equal(again, expected) == (n == 300)


def schur(a: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The dense oracle: off-diagonal part of L_kk - L_kd L_dd^+ L_dk."""
    laplacian = np.diag(a.sum(1)) - a
    k, d = np.flatnonzero(keep), np.flatnonzero(~keep)
    reduced = laplacian[np.ix_(k, k)]
    if len(d):
        inverse = np.linalg.pinv(laplacian[np.ix_(d, d)])
        reduced = reduced - laplacian[np.ix_(k, d)] @ inverse @ laplacian[np.ix_(d, k)]
    out = -reduced
    np.fill_diagonal(out, 0)
    return out


@pytest.mark.parametrize("walks", [False, True])
@pytest.mark.parametrize("split", ["spectral", "random", "nearly all"])
def test_kron_agrees_with_the_dense_schur_complement(
    split: str, walks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softcut.coarsening.node_decimation._DIRECT", 0)  # walks wherever they are allowed
    rng = np.random.default_rng(0)
    for trial in range(20):
        n = int(rng.integers(5, 80))
        a = random_graph(rng, n, rng.uniform(1, 8), bool(trial % 2))
        share = {"random": 0.5, "nearly all": 0.1}.get(split)
        keep = rng.random(n) < share if share else max_cut_split(a)
        _, component = connected_components(a, directed=False)
        keep[np.unique(component, return_index=True)[1]] = True  # one node of every component at least
        got = kron_reduction(a, keep, 1e-9 * walks).toarray()
        assert np.abs(got - schur(a.toarray(), keep)).max() < 1e-8
        assert (got >= 0).all()
        assert np.array_equal(got, got.T)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_thousands_of_nodes_by_factorisation_and_by_walks(
    unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some 2,500 of the dropped nodes have dropped neighbours: too many to be solved for where `delta` allows walks."""
    a = knn(5000) * unit
    keep = max_cut_split(a)
    exact = kron_reduction(a, keep)
    with monkeypatch.context() as patch:  # walks that are given up are solved for
        patch.setattr(node_decimation, "_by_solving", Mock(side_effect=AssertionError))
        walks = kron_reduction(a, keep, delta=1e-2)
    kept = walks.copy()
    kept.data[:] = 1
    assert 1e-7 * unit < abs(walks - exact * kept).max() < 1e-3 * unit
    assert (exact - exact * kept).max() < 1.1e-2 * unit
    assert walks.nnz < min(exact.nnz, 40 * keep.sum())
    dropped = sp.csc_array(sp.diags_array(np.asarray(a.sum(1)).ravel()[~keep]) - a[~keep][:, ~keep])
    for node in (0, 700, 2000):  # a column of the Schur complement: L_kk e_i - L_kd L_dd^-1 L_dk e_i
        column = a[keep][:, keep].toarray()[:, node] + a[keep][:, ~keep] @ spsolve(
            dropped, a[~keep][:, keep].toarray()[:, node]
        )
        column[node] = 0
        np.testing.assert_allclose(exact.toarray()[node], column, atol=1e-8 * unit)


def test_sparsification_drops_light_edges_only() -> None:
    a = knn(300)
    keep = max_cut_split(a)
    full, light = kron_reduction(a, keep), kron_reduction(a, keep, delta=0.05)
    dense = full.toarray()
    dense[dense < 0.05] = 0
    assert np.abs(light.toarray() - dense).max() < 1e-4
    assert light.nnz < full.nnz


def test_nothing_disappears() -> None:
    alone = sp.csr_array((3, 3))
    assert max_cut_split(alone).all()
    pieces = clean(sp.csr_array(sp.block_diag([as_graph("ring"), star(5), alone])), symmetric=True)
    keep = max_cut_split(pieces)
    label = connected_components(pieces)[1]
    assert len(np.unique(label[keep])) == len(np.unique(label))
    reduced = kron_reduction(pieces, keep)
    assert connected_components(reduced)[0] == connected_components(pieces)[0]


def ring(n: int, weight: float = 1.0) -> sp.csr_array:
    around = np.arange(n)
    a = sp.coo_array((np.full(n, weight), (around, (around + 1) % n)), shape=(n, n)).tocsr()
    return sp.csr_array(a + a.T)


def test_walks_survive_weights_that_vanish() -> None:
    n = 4000
    a = sp.lil_array((n + 2, n + 2))
    a[:n, :n] = ring(n)
    a[n:, :50] = a[:50, n:] = 1e-200
    keep = np.arange(n + 2) >= n
    assert kron_reduction(sp.csr_array(a), keep, delta=1e-2).shape == (2, 2)
    tiny = ring(3000, 1e-320)
    keep = np.arange(3000) % 3 == 0
    assert kron_reduction(tiny, keep, delta=1e-2).shape == (1000, 1000)


def test_few_kept_nodes_are_solved_for_exactly() -> None:
    n = 3000
    a = ring(n)
    keep = np.arange(n) % 1500 == 0
    reduced = kron_reduction(a, keep, delta=1e-4)
    assert reduced.toarray()[0, 1] == pytest.approx(2 / 1500, rel=1e-6)  # two paths of 1,500 resistors
    assert abs(reduced - kron_reduction(a, keep)).max() < 1e-12


PATH = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
TWO = sp.csr_array(sp.block_diag([PATH, PATH]))
ENDS = np.array([True, False, False, True])
MISSED = "keep must be True for at least one node of every connected component, but that of node"


def askew(much: float) -> sp.csr_array:
    """A path of weights of 1,000 of which one differs in the other direction."""
    return sp.csr_array(1000 * PATH + sp.coo_array(([much], ([0], [1])), shape=(4, 4)))


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (f"{MISSED} 4", lambda: kron_reduction(TWO, np.append(ENDS, [False] * 4))),
        (f"{MISSED} 1", lambda: kron_reduction(sp.csr_array((3, 3)), np.array([True, False, True]))),
        ("keep must be True for at least one node, got none", lambda: kron_reduction(PATH, ~ENDS & ENDS)),
        *(
            ("keep must hold True or False", lambda k=k: kron_reduction(PATH, k))
            for k in (np.array([0, 3]), ENDS[:3])
        ),
        ("adjacency must be a scipy sparse matrix", lambda: kron_reduction(PATH.toarray(), ENDS)),
        ("adjacency must be square", lambda: kron_reduction(PATH[:3], ENDS)),
        ("adjacency must not hold negative weights", lambda: kron_reduction(-PATH, ENDS)),
        ("adjacency must not hold negative weights or NaN", lambda: kron_reduction(PATH * np.nan, ENDS)),
        *(("delta must be at least 0 and below 1", lambda d=d: NodeDecimation(d)) for d in (-0.1, 1.0)),
        ("delta must be at least 0 and below 1", lambda: kron_reduction(PATH, ENDS, 1.0)),
        ("adjacency must be symmetric", lambda: kron_reduction(sp.csr_array(sp.triu(PATH)), ENDS)),
        ("adjacency must be symmetric", lambda: kron_reduction(askew(5e-3), ENDS)),
    ],
)
def test_what_cannot_be_reduced_is_named(sentence, call) -> None:
    assert sentence_of(SoftcutError, call).startswith(sentence)


def test_self_loops_and_other_formats_change_nothing() -> None:
    expected = kron_reduction(PATH, ENDS).toarray()
    np.testing.assert_allclose(expected, [[0, 1 / 3], [1 / 3, 0]])  # three resistors in series
    looped = sp.csr_array(PATH + 7 * sp.eye_array(4))
    stored, far = sp.coo_array(PATH), [[0, 3], [3, 0]]
    zeros = sp.csr_array((np.r_[stored.data, 0, 0], np.c_[stored.coords, far]), shape=(4, 4))
    for a in (looped, stored, sp.csc_array(PATH), zeros, askew(5e-4) / 1000):
        np.testing.assert_allclose(kron_reduction(a, ENDS).toarray(), expected, rtol=1e-6)
    kron_reduction(askew(5e-4), ENDS)
    half = kron_reduction(PATH[:3][:, :3], ENDS[[0, 1, 3]], delta=0.5)
    assert half.toarray().tolist() == [[0, 0.5], [0.5, 0]]  # not lighter than half of the heaviest edge
    assert kron_reduction(sp.csr_array((0, 0)), np.zeros(0, bool)).shape == (0, 0)
