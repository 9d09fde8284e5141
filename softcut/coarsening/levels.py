"""Levels of a coarsened graph, kept in memory and on disk, and what all coarsenings share."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, ParameterError
from softcut.files import atomic_write

_FORMAT = 1  # of the files; part of every key
_IN_MEMORY = 64


def clean(matrix: sp.csr_array, symmetric: bool = False) -> sp.csr_array:
    """Symmetric (the mean of both directions), sorted, no self-loops, no stored zeros, float64.

    >>> import numpy as np, scipy.sparse as sp
    >>> clean(sp.csr_array(np.array([[5.0, 2.0], [0.0, 0.0]]))).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    if not symmetric:
        matrix = sp.csr_array((matrix + matrix.T) * 0.5)
    matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal(), format="csr"))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def graph_index(n: int, ptr: np.ndarray | None) -> np.ndarray:
    """The graph that every one of `n` nodes belongs to; `ptr` None: all to one."""
    return np.zeros(n, np.int64) if ptr is None else np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def local_index(n: int, ptr: np.ndarray | None) -> np.ndarray:
    """Place of every node in its own graph."""
    return np.arange(n) if ptr is None else np.arange(n) - ptr[:-1][graph_index(n, ptr)]


def node_hash(place: np.ndarray, seed: int) -> np.ndarray:
    """A well mixed number for every place (splitmix64): the only source of randomness, the same everywhere."""
    with np.errstate(over="ignore"):
        z = place.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64((seed + 1) % 2**32)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass
class Level:
    """One coarsening step of a graph or a block-diagonal batch."""

    index: np.ndarray  # Graclus: the cluster of every node [N]; NDP: the nodes that stay [N']
    adjacency: sp.csr_array  # the coarse graph, N' x N', without self-loops
    ptr: np.ndarray  # where each graph's coarse nodes begin [B + 1]


class CoarseningCache:
    """Coarsenings by content: the last few in memory, all of them in a folder if one is given.

    Files are written under a temporary name and then renamed, so two processes may share the folder.

    >>> cache = CoarseningCache()
    >>> cache.get("unknown") is None
    True
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._memory: dict[str, Level] = {}  # the last used stands last

    @staticmethod
    def key(adjacency: sp.csr_array, ptr: np.ndarray, recipe: str) -> str:
        """A digest of the graph and of how it is coarsened."""
        digest = hashlib.blake2b(f"{_FORMAT}|{recipe}|{adjacency.shape}".encode(), digest_size=20)
        for array in (adjacency.indptr, adjacency.indices, adjacency.data, ptr):
            digest.update(str(array.dtype).encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def get(self, key: str) -> Level | None:
        level = self._memory.pop(key, None)
        if level is None and self.folder is not None:
            try:
                with np.load(self.folder / key[:2] / f"{key}.npz", allow_pickle=False) as f:
                    n = len(f["indptr"]) - 1
                    adjacency = sp.csr_array((f["data"], f["indices"], f["indptr"]), shape=(n, n))
                    level = Level(f["index"], adjacency, f["ptr"])
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                return None  # a file that is not there, or damaged: the level is made again
        if level is not None:
            self._remember(key, level)
        return level

    def put(self, key: str, level: Level) -> None:
        self._remember(key, level)
        if self.folder is not None:
            a = level.adjacency
            arrays = {"data": a.data, "indices": a.indices, "indptr": a.indptr}
            arrays |= {"index": level.index, "ptr": level.ptr}
            path = self.folder / key[:2] / f"{key}.npz"
            atomic_write(path, lambda file: np.savez(file, **arrays))

    def _remember(self, key: str, level: Level) -> None:
        self._memory[key] = level
        if len(self._memory) > _IN_MEMORY:
            del self._memory[next(iter(self._memory))]


def hierarchy(
    coarsening: Any,
    adjacency: sp.csr_array,
    levels: int = 1,
    ptr: np.ndarray | None = None,
    cache: CoarseningCache | None = None,
) -> list[Level]:
    """Coarsen a graph several times; levels are taken from the cache where they are known.

    >>> import numpy as np, scipy.sparse as sp
    >>> from softcut.coarsening import Graclus
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> [level.index.tolist() for level in hierarchy(Graclus(), path, levels=2)]
    [[0, 0, 1, 1], [0, 0]]

    `coarsening` is Graclus or NodeDecimation, or another function of a graph and `ptr` that makes a level and has a
    `recipe`, its part of the key of the cache. `adjacency` and `ptr` are those of
    :func:`~softcut.coarsening.graclus_matching`; :func:`~softcut.coarsening.clean` makes such a matrix.
    """
    if levels < 1:
        raise ParameterError(f"levels must be at least 1, got {levels}.", argument="levels")
    if adjacency.nnz and adjacency.data.min() < 0:
        raise GraphError(
            f"adjacency must not hold negative weights to be coarsened, got {adjacency.data.min():g}; shift or "
            "drop those edges."
        )
    ptr = np.array([0, adjacency.shape[0]]) if ptr is None else np.asarray(ptr, dtype=np.int64)
    cache = CoarseningCache() if cache is None else cache
    made: list[Level] = []
    for _ in range(levels):
        key = CoarseningCache.key(adjacency, ptr, coarsening.recipe)
        level = cache.get(key)
        if level is None:
            level = coarsening(adjacency, ptr)
            cache.put(key, level)
        made.append(level)
        adjacency, ptr = level.adjacency, level.ptr
    return made
