"""Levels of a coarsened graph, one after another, kept in memory and on disk.

A coarsening of one level is a :class:`Level`: which cluster every node joins (Graclus) or which nodes
stay (NDP), and the coarse adjacency. It depends on the graph and the options only, so it is found once:
for equal graphs seen again and, with a folder, in later runs.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, ParameterError
from softcut.files import atomic_write

__all__ = ["Coarsening", "CoarseningCache", "Level", "hierarchy"]

_FORMAT = 1  # of the files; part of every key
_IN_MEMORY = 64


@dataclass
class Level:
    """One coarsening step of a graph or a block-diagonal batch.

    Attributes
    ----------
    index : ndarray
        Graclus: the cluster of every node [N]. NDP: the nodes that stay [N'].
    adjacency : csr_array
        The coarse graph, N' x N', without self-loops.
    ptr : ndarray
        Where each graph's coarse nodes begin [B + 1].
    """

    index: np.ndarray
    adjacency: sp.csr_array
    ptr: np.ndarray


class Coarsening(Protocol):
    """A way to coarsen graphs, such as :class:`~softcut.coarsening.Graclus`."""

    @property
    def recipe(self) -> str:
        """Everything besides the graph that decides the coarsening."""

    def __call__(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> Level:
        """One level; `ptr` tells the graphs of a block-diagonal batch apart."""


class CoarseningCache:
    """Coarsenings by content: the last few in memory, all of them in a folder if one is given.

    Files are written under a temporary name and then renamed, so two processes may share the folder.

    >>> cache = CoarseningCache()
    >>> cache.get("unknown") is None
    True
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._memory: OrderedDict[str, Level] = OrderedDict()

    @staticmethod
    def key(adjacency: sp.csr_array, ptr: np.ndarray, recipe: str) -> str:
        """A digest of the graph and of how it is coarsened."""
        digest = hashlib.blake2b(f"{_FORMAT}|{recipe}|{adjacency.shape}".encode(), digest_size=20)
        for array in (adjacency.indptr, adjacency.indices, adjacency.data, ptr):
            digest.update(str(array.dtype).encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.npz"

    def get(self, key: str) -> Level | None:
        if key in self._memory:
            self._memory.move_to_end(key)
            return self._memory[key]
        if self.folder is None or not self._path(key).exists():
            return None
        try:
            with np.load(self._path(key), allow_pickle=False) as f:
                n = len(f["indptr"]) - 1
                adjacency = sp.csr_array((f["data"], f["indices"], f["indptr"]), shape=(n, n))
                level = Level(f["index"], adjacency, f["ptr"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None  # a damaged file is made again
        self._remember(key, level)
        return level

    def put(self, key: str, level: Level) -> None:
        self._remember(key, level)
        if self.folder is None:
            return
        a = level.adjacency
        arrays = {
            "index": level.index,
            "ptr": level.ptr,
            "data": a.data,
            "indices": a.indices,
            "indptr": a.indptr,
        }
        atomic_write(self._path(key), lambda file: np.savez(file, **arrays))

    def _remember(self, key: str, level: Level) -> None:
        self._memory[key] = level
        while len(self._memory) > _IN_MEMORY:
            self._memory.popitem(last=False)


def hierarchy(
    coarsening: Coarsening,
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

    Parameters
    ----------
    coarsening : Coarsening
        :class:`~softcut.coarsening.Graclus` or :class:`~softcut.coarsening.NodeDecimation`.
    adjacency : csr_array
        Symmetric, non-negative, without self-loops (see :func:`~softcut.coarsening.clean`).
    levels : int
        How often.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.
    cache : CoarseningCache, optional
        Where levels are looked up and kept.
    """
    if levels < 1:
        raise ParameterError(f"levels must be at least 1, got {levels}.")
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
