"""NDP pooling: levels, lift, and the cache folder."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from coarsening_samples import as_graph

from softcut.errors import ParameterError
from softcut.nn import GraclusPool, NDPPool


def test_levels_and_lift() -> None:
    a = as_graph("grid")
    row, col = sp.coo_array(a).coords
    x = torch.rand(900, 3)
    pool = NDPPool(levels=2)
    out = pool(x, torch.tensor(np.stack([row, col])))
    assert 0.2 <= len(out.x) / 900 <= 0.3
    back = pool.lift(out.x, out.selection)
    assert torch.equal(back[out.selection.index], x[out.selection.index])
    rest = torch.ones(900, dtype=torch.bool)
    rest[out.selection.index] = False
    assert (back[rest] == 0).all()


@pytest.mark.parametrize("make", [GraclusPool, NDPPool])
def test_the_cache_folder_is_used(make, tmp_path) -> None:
    a = as_graph("knn")
    first = make(cache=tmp_path, levels=2).hierarchy(a)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 2
    times = [file.stat().st_mtime_ns for file in files]
    again = make(cache=tmp_path, levels=2).hierarchy(a)
    assert [file.stat().st_mtime_ns for file in files] == times
    for level, known in zip(first, again, strict=True):
        assert np.array_equal(level.index, known.index)
        assert (level.adjacency != known.adjacency).nnz == 0


def test_delta_out_of_range() -> None:
    with pytest.raises(ParameterError, match="delta must be at least 0 and below 1"):
        NDPPool(delta=1.0)
