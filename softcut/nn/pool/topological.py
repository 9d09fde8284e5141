"""What Graclus and NDP share: coarsening on the CPU ahead of training, kept in memory and on disk.

A coarsening of one level is a :class:`Level`: which cluster every node joins (Graclus) or which nodes
stay (NDP), and the coarse adjacency. It depends on the graph and the options only, so it is found once:
for the same operator object, for equal graphs met again, and, with a `cache` folder, in later runs.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from abc import abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.files import atomic_write
from softcut.nn.pool.base import Pool, PoolOutput, Selection
from softcut.ops import CSR, CSRPattern, Dense, Operator, Padded, Segments
from softcut.ops.entries import Entries, entries, to_ragged
from softcut.ops.spmm import constants

__all__ = ["CoarseningCache", "FlatSelection", "Level", "PrecomputedPool"]

_FORMAT = 1  # of the files; part of every key
_IN_MEMORY = 64
_FOR_OPERATORS = ("_seen", "_joined")  # attributes that remember something for an operator object


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

    def operator(self, dtype: torch.dtype, device: torch.device, keep_ptr: bool) -> CSR:
        """The coarse graph as an operator."""
        a = self.adjacency
        pattern = CSRPattern(
            torch.as_tensor(a.indptr, dtype=torch.int32, device=device),
            torch.as_tensor(a.indices, dtype=torch.int32, device=device),
            (a.shape[0], a.shape[1]),
        )
        val = torch.as_tensor(a.data, dtype=dtype, device=device)
        ptr = torch.as_tensor(self.ptr, dtype=torch.long, device=device) if keep_ptr else None
        return CSR(pattern, val, ptr=ptr, symmetric=True)


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
        atomic_write(self._path(key), lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    def _remember(self, key: str, level: Level) -> None:
        self._memory[key] = level
        while len(self._memory) > _IN_MEMORY:
            self._memory.popitem(last=False)


class FlatSelection(Selection):
    """A ragged selection seen from a padded batch: rows are packed on the way in, spread on the way out."""

    def __init__(self, inner: Selection, real: Tensor) -> None:
        self.inner, self.real = inner, real

    @property
    def s(self) -> Tensor:
        return self.inner.s

    def reduce(self, x: Tensor) -> Tensor:
        return self.inner.reduce(x[self.real])

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        rows = self.inner.lift(x_pool, pinv)
        out = rows.new_zeros(*self.real.shape, rows.shape[-1])
        return out.masked_scatter(self.real.unsqueeze(-1), rows)


def to_scipy(op: Operator) -> sp.csr_array:
    """A symmetric scipy matrix without duplicates, zeros or self-loops."""
    row, col, val = (t if t is None else t.detach().cpu() for t in entries(op))
    assert row is not None
    assert col is not None
    values = Entries(row, col, val).values(torch.float64).to(torch.float64).numpy()
    matrix = sp.coo_array((values, (row.numpy(), col.numpy())), shape=(op.num_rows, op.num_rows)).tocsr()
    return clean(matrix, symmetric=op.symmetric)


def clean(matrix: sp.csr_array, symmetric: bool = False) -> sp.csr_array:
    """Symmetric (the mean of both directions), sorted, no self-loops, no stored zeros, float64."""
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    if not symmetric:
        matrix = sp.csr_array((matrix + matrix.T) * 0.5)
    matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal(), format="csr"))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def local_index(ptr: np.ndarray) -> np.ndarray:
    """Place of every node in its own graph."""
    counts = np.diff(ptr)
    return np.arange(int(ptr[-1])) - np.repeat(ptr[:-1], counts)


def node_hash(place: np.ndarray, seed: int) -> np.ndarray:
    """A well mixed number for every place (splitmix64): the only source of chance, the same everywhere."""
    with np.errstate(over="ignore"):
        z = place.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64((seed + 1) % 2**32)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class PrecomputedPool(Pool):
    """A pooler whose selection needs the graph only: found once and remembered."""

    def __init__(self, levels: int, seed: int, cache: str | os.PathLike[str] | None) -> None:
        super().__init__()
        if levels < 1:
            raise ParameterError(f"levels must be at least 1, got {levels}.")
        self.levels, self.seed = int(levels), int(seed)
        self.cache = CoarseningCache(cache)
        self._seen: WeakKeyDictionary[Operator, dict[Any, Selection]] = WeakKeyDictionary()
        # What was connected last for an operator, and by which selection.
        self._joined: WeakKeyDictionary[Operator, tuple[Selection, Operator]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _FOR_OPERATORS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name in _FOR_OPERATORS:
            setattr(self, name, WeakKeyDictionary())

    @abstractmethod
    def recipe(self) -> str:
        """Everything besides the graph that decides the coarsening."""

    @abstractmethod
    def coarsen(self, adjacency: sp.csr_array, ptr: np.ndarray) -> Level:
        """One level; `ptr` tells the graphs of a block-diagonal batch apart."""

    @abstractmethod
    def selection(self, levels: list[Level], x: Tensor, layout: Segments) -> Selection:
        """Levels, one after another, as one selection."""

    def hierarchy(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> list[Level]:
        """All levels of a graph, from the cache where they are known."""
        ptr = np.array([0, adjacency.shape[0]]) if ptr is None else np.asarray(ptr, dtype=np.int64)
        found: list[Level] = []
        for _ in range(self.levels):
            key = CoarseningCache.key(adjacency, ptr, self.recipe())
            level = self.cache.get(key)
            if level is None:
                level = self.coarsen(adjacency, ptr)
                self.cache.put(key, level)
            found.append(level)
            adjacency, ptr = level.adjacency, level.ptr
        return found

    def select(self, x: Tensor, op: Operator) -> Selection:
        known = self._seen.setdefault(op, {})
        key = (self.recipe(), self.levels, self.extra_repr(), x.dtype, x.device)
        if key not in known:
            with constants():
                known[key] = self._select(torch.empty(0, dtype=x.dtype, device=x.device), op)
        return known[key]

    def _select(self, x: Tensor, op: Operator) -> Selection:
        """`x` says where the selection lives and in which precision."""
        if isinstance(op, Dense):
            csr, real = to_ragged(op)
            return FlatSelection(self._select(x, csr), real)
        assert isinstance(op.layout, Segments)
        ptr = None if op.layout.ptr is None else op.layout.ptr.cpu().numpy()
        return self.selection(self.hierarchy(to_scipy(op), ptr), x, op.layout)

    @abstractmethod
    def connect_level(self, op: Operator, selection: Selection) -> Operator:
        """The coarse graph."""

    @abstractmethod
    def check(self, selection: Selection) -> Tensor | None:
        """Refuse a selection of the wrong kind; the graph number of every pooled row."""

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        inner, graph = selection, op
        if isinstance(selection, FlatSelection):
            inner = selection.inner
        elif isinstance(op.layout, Padded):
            raise ParameterError("selection must come from the same padded batch that is pooled.")
        batch = self.check(inner)

        def connect() -> Operator:
            sparse = to_ragged(graph)[0] if isinstance(graph, Dense) else graph
            return self.connect_level(sparse, inner)

        return PoolOutput(x=selection.reduce(x), adj=connect, selection=selection, batch=batch)
