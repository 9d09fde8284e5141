"""Graclus and NDP ahead of training: a transform for PyTorch Geometric data sets and loaders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.coarsening import clean
from softcut.errors import ParameterError, require
from softcut.nn.layers import check_size
from softcut.nn.pool import get_pool, pool_options
from softcut.nn.pool.selection import KeepSelection, Selection
from softcut.nn.pool.topological import ClusterSelection, GraclusPool, NDPPool
from softcut.ops import CSR, Segments
from softcut.ops.batching import counts_to_ptr

if TYPE_CHECKING:
    from torch_geometric.data import Data
    from torch_geometric.transforms import BaseTransform
else:
    Data = require("torch_geometric.data", "pyg", "PreCoarsen").Data
    BaseTransform = require("torch_geometric.transforms", "pyg", "PreCoarsen").BaseTransform


class CoarsenedData(Data):
    """A graph together with its coarser versions; batches like any other.

    ``data.selection(level)`` is what the pooler at that level (0 is the first) would have selected, and
    ``data.selections()`` all of them: pass them to the poolers, or to a model of :mod:`softcut.nn.models`.
    """

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        kind, _, level = key.partition("_coarse_")
        if not level:
            return super().__inc__(key, value, *args, **kwargs)
        if kind in ("cluster", "edges"):  # numbers of coarse nodes
            return int(self[f"nodes_coarse_{level}"].sum())
        if kind == "kept":  # numbers of nodes one level below
            return int(self[f"nodes_coarse_{int(level) - 1}"].sum()) if int(level) else self.num_nodes
        return 0

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        kind, _, level = key.partition("_coarse_")
        if level:
            return -1 if kind == "edges" else 0
        return super().__cat_dim__(key, value, *args, **kwargs)

    @property
    def num_levels(self) -> int:
        """How many coarser versions there are."""
        return sum(key.startswith("nodes_coarse_") for key in self.keys())

    def selection(self, level: int = 0) -> Selection:
        """The selection of one level, for this graph or for a batch of them."""
        if not 0 <= level < self.num_levels:
            raise ParameterError(
                f"level must be between 0 and {self.num_levels - 1}, got {level}.", argument="level"
            )
        counts: Tensor = self[f"nodes_coarse_{level}"]
        total = int(counts.sum())
        batched = getattr(self, "ptr", None) is not None
        ptr = counts_to_ptr(counts) if batched else None
        if level:
            below = self[f"nodes_coarse_{level - 1}"]
            layout = Segments(int(below.sum()), counts_to_ptr(below) if batched else None)
        else:
            assert self.num_nodes is not None
            layout = Segments(self.num_nodes, self.ptr if batched else None)
        adj = CSR.from_edge_index(
            self[f"edges_coarse_{level}"], self[f"weights_coarse_{level}"], total, ptr=ptr, symmetric=True
        )
        if f"cluster_coarse_{level}" in self:
            names: Any = self["reduction_coarse"]  # a batch holds one for each graph
            reduction = names if isinstance(names, str) else names[0]
            return ClusterSelection(self[f"cluster_coarse_{level}"], total, layout, reduction, ptr, adj)
        return KeepSelection(self[f"kept_coarse_{level}"], layout, ptr=ptr, adj=adj)

    def selections(self) -> list[Selection]:
        """The selections of all levels, finest first."""
        return [self.selection(level) for level in range(self.num_levels)]


class PreCoarsen(BaseTransform):
    """Coarsen a graph once, before training; the loader batches the result.

    Notes
    -----
    Give it as ``pre_transform=`` of a data set (coarsened once, stored with the data) or as
    ``transform=`` (coarsened when first read, again in a later run unless there is a `cache`). Weights
    are read from ``data.edge_weight``, or ``data.edge_attr`` where that has one column.
    """

    def __init__(
        self,
        method: str | Sequence[str] = "graclus",
        levels: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(method, str):
            methods = [method] * (2 if levels is None else check_size(levels, "levels"))
        else:
            methods = list(method)
            if levels not in (None, len(methods)):
                raise ParameterError(
                    f"levels must be {len(methods)}, the number of methods, or None, got {levels!r}.",
                    argument="levels",
                )
        if not methods or any(name not in ("graclus", "ndp") for name in methods):
            raise ParameterError(
                f"method must be one of graclus, ndp, or a sequence of them, got {method!r}.",
                argument="method",
            )
        pools: dict[str, Any] = {}
        for name in sorted(set(methods)):
            others = [pool_options(other) for other in methods if other != name]
            # An option of another method is not for this one; one that none of them takes is refused.
            own = [o for o in options if o in pool_options(name) or not any(o in other for other in others)]
            pools[name] = get_pool(name, cache=cache, **{option: options[option] for option in own})
        self.methods, self.levels = tuple(methods), len(methods)
        self.pools: list[GraclusPool | NDPPool] = [pools[name] for name in methods]

    def forward(self, data: Data) -> CoarsenedData:
        n = data.num_nodes
        if n is None or data.edge_index is None:
            raise ParameterError("data must have edge_index and num_nodes (or x).", argument="data")
        row, col = data.edge_index.cpu().numpy()
        weight, attributes = data.get("edge_weight"), data.get("edge_attr")
        if weight is None and attributes is not None and attributes.numel() == len(row):
            weight = attributes
        values = np.ones(len(row)) if weight is None else weight.detach().cpu().double().reshape(-1).numpy()
        a = clean(sp.csr_array(sp.coo_array((values, (row, col)), shape=(n, n))))
        out = CoarsenedData(**{key: data[key] for key in data.keys()})  # noqa: SIM118
        out.num_nodes = n
        for level, pool in enumerate(self.pools):
            (coarse,) = pool.hierarchy(a)
            a = coarse.adjacency
            kind = "kept"
            if isinstance(pool, GraclusPool):
                kind, out["reduction_coarse"] = "cluster", pool.reduction
            coo = sp.coo_array(coarse.adjacency)
            out[f"{kind}_coarse_{level}"] = torch.from_numpy(np.asarray(coarse.index, np.int64))
            out[f"edges_coarse_{level}"] = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
            out[f"weights_coarse_{level}"] = torch.from_numpy(coo.data.astype(np.float32))
            out[f"nodes_coarse_{level}"] = torch.tensor([coarse.adjacency.shape[0]])
        return out

    def __repr__(self) -> str:
        return f"PreCoarsen({', '.join(self.methods)})"
