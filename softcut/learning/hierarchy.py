"""Graclus and NDP for a whole collection: coarsened once, gathered by index like the graphs themselves."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.coarsening import Graclus, Level, NodeDecimation, clean, hierarchy
from softcut.errors import DataError, ParameterError
from softcut.files import atomic_write
from softcut.graph.collection import GraphCollection
from softcut.learning.store import BatchPlan, BlockStore, Gathered
from softcut.nn import ClusterSelection, KeepSelection, Selection

HIERARCHIES = ("graclus", "ndp")
_FORMAT = 1


@dataclass(frozen=True)
class Hierarchy:
    """The coarse graphs of a collection, level by level."""

    method: str
    levels: tuple[Level, ...] = field(repr=False)

    def write(self, path: str | Path) -> Path:
        """A compact file: every edge of the coarse graphs once, small integer types, no pickles."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), "method": np.array(self.method)}
        for number, level in enumerate(self.levels):
            upper = sp.coo_array(sp.triu(level.adjacency, 1))
            first, second = upper.coords
            graph = np.searchsorted(level.ptr, first, side="right") - 1
            whole = bool((upper.data == np.round(upper.data)).all())
            arrays |= {
                f"index{number}": _small(level.index),
                f"ptr{number}": level.ptr,
                f"edges{number}": np.bincount(graph, minlength=len(level.ptr) - 1),
                f"first{number}": _small(first - level.ptr[graph]),
                f"distance{number}": _small(second - first),
                f"weight{number}": _small(upper.data) if whole else upper.data.astype(np.float32),
            }
        return atomic_write(path, lambda file: np.savez_compressed(file, **arrays))

    @classmethod
    def read(cls, path: str | Path, graphs: GraphCollection) -> Hierarchy:
        """What :meth:`write` wrote, for the same graphs; nothing is coarsened again."""
        try:
            with np.load(path, allow_pickle=False) as file:
                if int(file["format"]) != _FORMAT:
                    raise ValueError(f"format {int(file['format'])} is not known")
                method = str(file["method"])
                count = sum(name.startswith("index") for name in file.files)
                levels = [_read_level(file, number) for number in range(count)]
            rows = graphs.num_nodes
            for level in levels:
                graclus, index = method == "graclus", level.index
                fits = len(index) == rows if graclus else index.max(initial=-1) < rows
                if len(level.ptr) != len(graphs.ptr) or not fits:
                    raise ValueError("it belongs to other graphs")
                rows = level.adjacency.shape[0]
            return cls(method, tuple(levels))
        except (ValueError, KeyError, EOFError, IndexError, TypeError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} cannot be read as a hierarchy of {graphs.name}: {error}.") from error


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers that are not negative, in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _read_level(file: Any, number: int) -> Level:
    ptr = file[f"ptr{number}"].astype(np.int64)
    first = file[f"first{number}"].astype(np.int64) + np.repeat(ptr[:-1], file[f"edges{number}"])
    second = first + file[f"distance{number}"]
    n = int(ptr[-1])
    upper = sp.coo_array((file[f"weight{number}"].astype(np.float64), (first, second)), shape=(n, n)).tocsr()
    adjacency = sp.csr_array(upper + upper.T)
    adjacency.sort_indices()
    return Level(file[f"index{number}"].astype(np.int64), adjacency, ptr)


def coarsen_collection(graphs: GraphCollection, method: str, levels: int = 2) -> Hierarchy:
    """Coarsen every graph of a collection `levels` times, each as it would be alone; `method`: "graclus" or "ndp"."""
    if method not in HIERARCHIES:
        raise ParameterError(
            f"method must be one of {', '.join(HIERARCHIES)}, not {method!r}.", argument="method"
        )
    coarsening = Graclus(seed=0) if method == "graclus" else NodeDecimation(seed=0)
    adjacency = clean(graphs.adjacency(), symmetric=True)
    return Hierarchy(method, tuple(hierarchy(coarsening, adjacency, levels, graphs.ptr)))


class _Pairs(ClusterSelection):
    """Clusters of one or two nodes whose members are known."""

    known: tuple[Tensor, Tensor]

    @cached_property
    def members(self) -> tuple[Tensor, Tensor] | None:
        return self.known


class _Kept(KeepSelection):
    """Kept nodes whose graphs are known from the coarse operator."""

    @property
    def batch(self) -> Tensor | None:
        assert self.adj is not None
        return self.adj.layout.batch  # type: ignore[attr-defined]


class HierarchyStore:
    """A hierarchy on a device; `graphs` are those that it was made of."""

    def __init__(
        self, coarse: Hierarchy, graphs: GraphCollection, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.method = coarse.method
        self.stores: list[BlockStore] = []
        self.maps: list[tuple[Tensor, ...]] = []
        below = graphs.ptr
        for level in coarse.levels:
            a = level.adjacency
            owner = np.repeat(level.ptr[:-1], np.diff(a.indptr[level.ptr]))
            local = (a.indices - owner).astype(np.int32)
            # Normalised once, here: the graphs do not change.
            degree = np.asarray(a.sum(axis=1)).ravel()
            scale = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
            weight = a.data * np.repeat(scale, np.diff(a.indptr)) * scale[a.indices]
            rowptr = a.indptr.astype(np.int64)
            self.stores.append(BlockStore(level.ptr, rowptr, local, weight, device, dtype, normalised=True))
            self.maps.append(tuple(torch.from_numpy(m).to(device) for m in self._maps(level, below)))
            below = level.ptr

    def _maps(self, level: Level, below: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Numbers local to their graphs, and one more row for padding."""
        fine_of_coarse = np.repeat(below[:-1], np.diff(level.ptr))
        if self.method == "ndp":
            return (np.append(level.index - fine_of_coarse, 0),)
        cluster = level.index
        order = np.argsort(cluster, kind="stable")
        sizes = np.bincount(cluster, minlength=int(level.ptr[-1]))
        if sizes.max(initial=0) > 2 or sizes.min(initial=1) < 1:
            raise ParameterError("clusters must hold one or two nodes.", argument="clusters")
        first = np.cumsum(sizes) - sizes
        table = np.column_stack([order[first], order[first + sizes - 1]]) - fine_of_coarse[:, None]
        column = np.zeros(len(cluster) + 1, np.int8)
        column[order] = np.arange(len(order)) - np.repeat(first, sizes)
        owner = np.repeat(level.ptr[:-1], np.diff(below))
        return np.append(cluster - owner, 0), column, np.concatenate([table, np.zeros((1, 2), table.dtype)])

    def plan(self, finest: BlockStore, graphs: NDArray[np.int64]) -> list[list[BatchPlan]]:
        """Plans of several batches, [T, R, B] graph numbers, one for every level each, the finest first."""
        stores = (finest, *self.stores)
        rows = self._rows([store.counts[graphs].sum(-1) for store in stores])
        levels = [store.plan(graphs, count) for store, count in zip(stores, rows, strict=True)]
        return [list(plans) for plans in zip(*levels, strict=True)]

    def _rows(self, totals: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Rows per replica at every level, so that no level has more padding than the one before.

        `totals` are the rows in use, [T, R] for every level. Padding of a coarse level is padding of the finer one.
        """
        rows = [np.maximum(totals[-1].max(1), 1)]
        for fine, coarse in zip(totals[-2::-1], totals[:0:-1], strict=True):
            rows.append((fine + rows[-1][:, None] - coarse).max(1))
        return rows[::-1]

    def selections(self, fine: Gathered, plans: Sequence[BatchPlan]) -> list[Selection]:
        """The selections of all levels for a batch whose finest graphs were gathered already; `plans` of the others."""
        selections: list[Selection] = []
        for store, maps, plan in zip(self.stores, self.maps, plans, strict=True):
            (coarse,) = store.gather(plan)
            place = torch.arange(len(coarse.row), device=coarse.row.device)
            offset = place - coarse.first[coarse.graph]  # within its graph
            base = fine.first[coarse.graph]
            if self.method == "ndp":
                index = base + torch.where(coarse.padding, offset, maps[0][coarse.row])
                selections.append(_Kept(index, fine.op.layout, ptr=coarse.op.ptr, adj=coarse.op))
            else:
                selections.append(self._pairs(fine, coarse, maps, offset, base))
            fine = coarse
        return selections

    def _pairs(
        self, fine: Gathered, coarse: Gathered, maps: tuple[Tensor, ...], offset: Tensor, base: Tensor
    ) -> Selection:
        cluster, column, table = maps
        total = len(coarse.row)
        members = torch.where(coarse.padding.unsqueeze(1), offset.unsqueeze(1), table[coarse.row])
        members = members + base.unsqueeze(1)
        mine = torch.arange(len(fine.row), device=fine.row.device) - fine.first[fine.graph]
        local = torch.where(fine.padding, mine, cluster[fine.row])
        where = (local + coarse.first[fine.graph]).clamp(max=total - 1)
        # Padding that no padding of the coarse level stands for: in no cluster.
        ends = torch.cat([coarse.first[1:], coarse.first.new_full((1,), total)])
        left_out = fine.padding & (local >= (ends - coarse.first)[fine.graph])
        columns = torch.where(left_out, 2, column[fine.row]).to(torch.int8)
        pairs = _Pairs(where, total, fine.op.layout, "max", coarse.op.ptr, coarse.op)
        pairs.known = (members, columns)
        return pairs
