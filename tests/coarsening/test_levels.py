"""Levels, their cache in memory and on disk, and that they need no PyTorch."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.coarsening_samples import as_graph, knn

from softcut.coarsening import CoarseningCache, Graclus, NodeDecimation, hierarchy
from softcut.coarsening.levels import node_hash
from softcut.errors import GraphError, ParameterError


@pytest.mark.parametrize("coarsening", [Graclus(), NodeDecimation()])
def test_levels_are_read_from_disk(tmp_path, coarsening):
    a = as_graph("ring")
    first = hierarchy(coarsening, a, levels=2, cache=CoarseningCache(tmp_path))
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 2
    assert not list(tmp_path.rglob("*.tmp"))
    unused = Mock(recipe=coarsening.recipe, side_effect=AssertionError("the cache was not used"))
    known = hierarchy(unused, a, levels=2, cache=CoarseningCache(tmp_path))
    for level, other in zip(first, known, strict=True):
        assert np.array_equal(level.index, other.index)
        assert np.array_equal(level.ptr, other.ptr)
        assert (level.adjacency != other.adjacency).nnz == 0


def test_a_file_that_is_damaged_or_holds_a_pickle_is_made_again(tmp_path):
    a = as_graph("ring")
    (first,) = hierarchy(Graclus(), a, cache=CoarseningCache(tmp_path))
    (file,) = tmp_path.rglob("*.npz")
    arrays = {**np.load(file), "index": np.zeros(200, object)}
    for damage in (lambda: file.write_bytes(b"damaged"), lambda: np.savez(file, **arrays)):
        damage()
        (again,) = hierarchy(Graclus(), a, cache=CoarseningCache(tmp_path))
        assert np.array_equal(again.index, first.index)
        assert np.load(file)["index"].dtype == np.int64


def test_hashes_and_keys_are_the_same_everywhere():
    """Those of splitmix64, which starts at 0 here; files of earlier versions are found again."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(node_hash(np.zeros(1, int), seed)[0]) for seed in (0, 1, 2**32 + 2)] == known
    loop = sp.csr_array(np.ones((1, 1)))
    keys = [CoarseningCache.key(loop, np.array([0, 1]), c.recipe) for c in (Graclus(), NodeDecimation())]
    assert keys == ["b3fa007da58cedf6245d40de3188e3f691722760", "ec467a1f538c7f8c27dbfd286ef61f164444d2f7"]


def test_every_option_that_matters_is_part_of_the_key(tmp_path):
    a, cache = knn(50), CoarseningCache(tmp_path)
    decimations = [NodeDecimation(**options) for options in ({}, {"delta": 0.1}, {"seed": 5})]
    for coarsening in (Graclus(), Graclus(5), *decimations):
        hierarchy(coarsening, a, cache=cache)
    hierarchy(Graclus(), a, ptr=np.array([0, 20, 50]), cache=cache)
    assert len(list(tmp_path.rglob("*.npz"))) == 6


def test_memory_holds_the_last_64():
    a, cache = as_graph("ring"), CoarseningCache()
    for seed in range(65):
        hierarchy(Graclus(seed), a, cache=cache)
    keys = [CoarseningCache.key(a, np.array([0, 200]), Graclus(seed).recipe) for seed in (0, 1)]
    assert [cache.get(key) is None for key in keys] == [True, False]


def test_what_cannot_be_coarsened_is_named():
    with pytest.raises(ParameterError, match="levels must be at least 1, got 0"):
        hierarchy(Graclus(), knn(20), levels=0)
    with pytest.raises(GraphError, match="adjacency must not hold negative weights to be coarsened, got -1"):
        hierarchy(Graclus(), -knn(20))
    zero = sp.csr_array((np.array([0.0, 1, 0, 1]), [1, 2, 0, 0], [0, 2, 3, 4]), shape=(3, 3))  # stored zeros
    assert hierarchy(Graclus(), zero)[0].adjacency.shape == (2, 2)
    for frozen in (Graclus(), NodeDecimation()):
        with pytest.raises(FrozenInstanceError):
            frozen.seed = 1


def test_a_batch_is_coarsened_graph_by_graph():
    graphs = [knn(30), as_graph("ring"), knn(41, seed=2)]
    both = sp.csr_array(sp.block_diag(graphs, format="csr"))
    ptr = np.cumsum([0, *(g.shape[0] for g in graphs)])
    for coarsening in (Graclus(), NodeDecimation()):
        together = coarsening(both, ptr)
        alone = [coarsening(g) for g in graphs]
        assert np.array_equal(np.diff(together.ptr), [level.adjacency.shape[0] for level in alone])
        expected = sp.block_diag([level.adjacency for level in alone])
        assert abs(together.adjacency - expected).max() < 1e-6


def test_coarsening_does_not_load_torch():
    code = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from softcut.coarsening import Graclus, NodeDecimation, hierarchy\n"
        "path = sp.csr_array(np.diag([1.0] * 3, 1) + np.diag([1.0] * 3, -1))\n"
        "hierarchy(Graclus(), path, 2), hierarchy(NodeDecimation(), path, 2)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
