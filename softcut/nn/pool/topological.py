"""What Graclus and NDP share: a selection that depends on the graph alone, found on the CPU and remembered.

It is found once: for the same operator object, for equal graphs seen again, and, with a `cache` folder, in
later runs (:mod:`softcut.coarsening`).
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.coarsening import Coarsening, CoarseningCache, Level, clean, hierarchy
from softcut.errors import ParameterError
from softcut.nn.number_checks import check_size
from softcut.nn.pool.base import Pool
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.selection import Selection, same_rows
from softcut.ops import CSR, CSRPattern, Dense, Operator, Segments
from softcut.ops.batching import Padded
from softcut.ops.spmm import constants
from softcut.ops.triplets import Entries, entries, to_ragged

__all__ = ["FlatSelection", "PrecomputedPool", "level_operator"]

C = TypeVar("C", bound=Coarsening)
_FOR_OPERATORS = ("_seen", "_joined")  # attributes that remember something for an operator object


def level_operator(level: Level, dtype: torch.dtype, device: torch.device, keep_ptr: bool) -> CSR:
    """The coarse graph as an operator; `keep_ptr` False for a single graph that has no pointer."""
    a = level.adjacency
    pattern = CSRPattern(
        torch.as_tensor(a.indptr, dtype=torch.int32, device=device),
        torch.as_tensor(a.indices, dtype=torch.int32, device=device),
        (a.shape[0], a.shape[1]),
    )
    val = torch.as_tensor(a.data, dtype=dtype, device=device)
    ptr = torch.as_tensor(level.ptr, dtype=torch.long, device=device) if keep_ptr else None
    return CSR(pattern, val, ptr=ptr, symmetric=True)


class FlatSelection(Selection):
    """A ragged selection seen from a padded batch: rows are packed on the way in, spread on the way out."""

    def __init__(self, inner: Selection, real: Tensor) -> None:
        self.inner, self.real = inner, real

    @property
    def s(self) -> Tensor:
        return self.inner.s

    @property
    def pooled_rows(self) -> tuple[int, ...] | None:
        return self.inner.pooled_rows

    def check(self, op: Operator) -> None:
        if not isinstance(op, Dense) or self.real.shape != op.data.shape[:2]:
            raise ParameterError("selection must come from the same padded batch that is pooled.")
        if not same_rows(Padded(len(self.real), self.real), op.layout):
            raise ParameterError(
                "selection must come from the same padded batch that is pooled; its mask differs."
            )
        self.check_edges(op)

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


class PrecomputedPool(Pool, Generic[C]):
    """A pooler whose selection needs the graph only: found once and remembered."""

    def __init__(self, coarsening: C, levels: int, cache: str | os.PathLike[str] | None) -> None:
        super().__init__()
        self.coarsening, self.levels = coarsening, check_size(levels, "levels")
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
    def selection(self, levels: list[Level], x: Tensor, layout: Segments) -> Selection:
        """Levels, one after another, as one selection."""

    def hierarchy(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> list[Level]:
        """All levels of a graph, from the cache where they are known."""
        return hierarchy(self.coarsening, adjacency, self.levels, ptr, self.cache)

    def select(self, x: Tensor, op: Operator) -> Selection:
        known = self._seen.setdefault(op, {})
        state = op.version if isinstance(op, Dense) else None  # the caller's tensor may change in place
        key = (self.coarsening.recipe, self.levels, self.extra_repr(), x.dtype, x.device, state)
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
