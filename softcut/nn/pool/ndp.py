"""NDP, node decimation pooling (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from softcut.coarsening import Level, NodeDecimation
from softcut.errors import ParameterError
from softcut.nn.number_checks import check_number, check_size
from softcut.nn.pool.node_selection import KeepSelection
from softcut.nn.pool.selection import Selection
from softcut.nn.pool.topological import PrecomputedPool, level_operator
from softcut.ops import Operator, Segments

__all__ = ["NDPPool"]


class NDPPool(PrecomputedPool[NodeDecimation]):
    """Keep one side of the spectral maximum cut; join the kept nodes by Kron reduction.

    >>> import torch
    >>> from softcut.nn import NDPPool
    >>> pool = NDPPool()
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj.to_dense().tolist()
    (torch.Size([2, 8]), [[0.0, 0.5], [0.5, 0.0]])

    Parameters
    ----------
    levels : int
        Decimations in a row: 1 halves the nodes, 2 leaves a quarter.
    delta : float
        Edges lighter than `delta` times the heaviest edge are dropped after each reduction.
    seed : int
        Of the random splits, used where the spectral cut is worse than a random one.
    cache : path, optional
        Folder where decimations are kept between runs.

    Notes
    -----
    Nothing is learned; the coarse graph is constant (no gradient reaches edge weights through it). The
    split is made in every connected component on its own, so that no component disappears and a node
    without edges stays. Decimation happens on the CPU, once per graph: see
    :class:`~softcut.nn.PreCoarsen` to keep it out of a training loop.
    """

    def __init__(
        self,
        levels: int = 1,
        delta: float = 1e-2,
        seed: int = 0,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            NodeDecimation(check_number(delta, "delta"), check_size(seed, "seed", least=0)), levels, cache
        )

    def selection(self, levels: list[Level], x: Tensor, layout: Segments) -> KeepSelection:
        index = levels[0].index
        for level in levels[1:]:
            index = index[level.index]
        last = levels[-1]
        batched = layout.ptr is not None
        return KeepSelection(
            torch.as_tensor(index, device=x.device),
            layout,
            ptr=torch.as_tensor(last.ptr, device=x.device) if batched else None,
            adj=level_operator(last, x.dtype, x.device, keep_ptr=batched),
        )

    def check(self, selection: Selection) -> Tensor | None:
        if not isinstance(selection, KeepSelection) or selection.adj is None:
            raise ParameterError("selection must be a KeepSelection with its coarse graph.")
        return selection.batch

    def connect_level(self, op: Operator, selection: Selection) -> Operator:
        assert isinstance(selection, KeepSelection)
        assert selection.adj is not None
        return selection.adj

    def extra_repr(self) -> str:
        return f"levels={self.levels}, delta={self.coarsening.delta}, seed={self.coarsening.seed}"
