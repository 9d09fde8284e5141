"""Leiden counts edge weights, in the search and where communities are merged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import Graph
from softcut.baselines import leiden

pytest.importorskip("leidenalg")


@pytest.mark.parametrize(("heavy", "partner"), [((0, 2), 1), ((1, 3), 3)])
def test_heavy_edges_of_a_ring_are_communities(heavy, partner):
    a = np.zeros((4, 4))
    for i in range(4):
        a[i, (i + 1) % 4] = a[(i + 1) % 4, i] = 9.0 if i in heavy else 1.0
    labels = leiden(Graph.from_scipy(sp.csr_array(a)))
    assert labels[0] == labels[partner] != labels[2]


@pytest.mark.parametrize("joined", [0, 1])
def test_what_is_left_over_joins_where_most_weight_is(joined):
    """Two cliques and a pair with one heavy and one light edge: with k = 2 the pair goes to the heavy side."""
    a = np.zeros((14, 14))
    for start in (0, 6):
        a[start : start + 6, start : start + 6] = 5.0
    a[12, 13] = a[13, 12] = 9.0
    for clique, node in ((0, 12), (1, 13)):
        a[6 * clique, node] = a[node, 6 * clique] = 2.0 if clique == joined else 0.5
    np.fill_diagonal(a, 0)
    labels = leiden(Graph.from_scipy(sp.csr_array(a)), 2)
    assert len(set(labels.tolist())) == 2
    assert labels[12] == labels[13] == labels[6 * joined]
