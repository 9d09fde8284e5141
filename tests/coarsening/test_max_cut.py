"""The spectral maximum cut: the right eigenvector, about half of the nodes, and a fallback."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.coarsening_samples import as_graph, knn, random_graph
from scipy.sparse.csgraph import connected_components

from softcut.coarsening import clean, max_cut, max_cut_split
from softcut.coarsening.max_cut import cut_share


@pytest.mark.parametrize("name", ["grid", "ring", "odd ring", "knn", "weighted knn"])
def test_about_half_stay(name: str) -> None:
    a = as_graph(name)
    keep = max_cut_split(a)
    assert 0.45 <= keep.mean() <= 0.55
    assert cut_share(a, keep) >= 0.5
    if name in ("grid", "ring"):
        assert cut_share(a, keep) == 1.0  # bipartite: every edge is cut


def test_eigenvector_agrees_with_the_dense_one() -> None:
    a = random_graph(np.random.default_rng(5), 400, 6, True)
    giant = connected_components(a)[1]
    nodes = np.flatnonzero(giant == np.bincount(giant).argmax())
    a = clean(sp.csr_array(a[nodes][:, nodes]), symmetric=True)
    degree = np.asarray(a.sum(1)).ravel()
    normalised = np.eye(len(nodes)) - a.toarray() / np.sqrt(np.outer(degree, degree))
    signs = np.linalg.eigh(normalised)[1][:, -1] >= 0
    keep = max_cut_split(a)
    assert np.array_equal(keep, signs) or np.array_equal(keep, ~signs)


def test_random_split_where_the_spectral_one_is_worse(monkeypatch) -> None:
    a = knn(60)
    monkeypatch.setattr(max_cut, "_top_eigenvector", lambda a, start: np.ones(a.shape[0]))
    one, two = max_cut_split(a, seed=0), max_cut_split(a, seed=1)
    assert one.sum() == two.sum() == 30
    assert not np.array_equal(one, two)
    assert np.array_equal(one, max_cut_split(a, seed=0))
