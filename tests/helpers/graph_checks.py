"""What the tests of graphs share: the invariants of a graph, and calls that must not warn."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.graph import Graph


def check_invariants(g: Graph) -> None:
    """What every other module may assume of a graph."""
    a = g.adjacency
    assert isinstance(a, sp.csr_array)
    assert a.shape == (g.num_nodes, g.num_nodes)
    assert a.dtype in (np.float32, np.float64)
    # Flags can lie: recompute them on a fresh matrix of the same parts.
    assert sp.csr_array((a.data, a.indices, a.indptr), shape=a.shape).has_canonical_format
    assert np.all(a.data > 0)
    assert np.isfinite(a.data).all()
    assert np.isfinite(a.sum(axis=1)).all()
    assert abs(a - a.T).nnz == 0
    assert g.weighted == bool(np.any(a.data != 1))
    if g.x is not None:
        assert g.x.dtype == np.float32
        assert g.x.shape == (g.num_nodes, g.num_features)
    if g.y is not None:
        assert g.y.dtype == np.int64
        assert g.y.shape == (g.num_nodes,)
    if g.ptr is not None:
        assert g.ptr[0] == 0
        assert g.ptr[-1] == g.num_nodes
    assert len(repr(g).splitlines()) == 1


def quiet(build: Any, *args: Any, **kwargs: Any) -> Graph:
    """Build without a single warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return build(*args, **kwargs)
