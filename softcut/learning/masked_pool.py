"""Top-K and SAGPool for replicas: nodes that are not kept stay where they are, masked.

Which nodes are kept depends on the scores, so their places would differ from step to step and from replica to
replica. Here all rows stay and the adjacency is M A M (or M A A M) with M the diagonal of kept nodes: the same
numbers, without sorting edges or asking the device how many there are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn import PoolOutput, Selection
from softcut.nn.pool.score_pools import ScorePool
from softcut.ops import CSR, Layout, Operator, Segments
from softcut.ops.numerics import inverse_sqrt

__all__ = ["MaskSelection", "MaskedScorePool", "MaskedSegments", "MaskedSquare"]


class MaskedSegments(Segments):
    """Graphs one after another of whose rows only those in `mask` count.

    `counts` says how many per graph; `order` lists all rows graph by graph, the kept ones first and in the order in
    which a pooler that removes rows would leave them: equal scores at the next level are decided by it.
    """

    def __init__(self, base: Segments, mask: Tensor, counts: Tensor, order: Tensor) -> None:
        super().__init__(base.num_rows, base.ptr)
        self.__dict__["batch"] = base.batch
        self.mask, self.counts, self.order = mask, counts, order


class MaskedSquare(Operator):
    """D A A D with a diagonal D: nodes that have a common neighbour, as an operator; the square is never made."""

    def __init__(self, base: Operator, scale: Tensor, layout: Layout, normalised: bool = False) -> None:
        self.base, self.scale, self.layout = base, scale, layout
        self.symmetric, self.normalised = base.symmetric, normalised

    def matmul(self, s: Tensor) -> Tensor:
        scale = self.scale.to(s.dtype).unsqueeze(-1)
        return scale * self.base.matmul(self.base.matmul(scale * s))

    def row_sums(self, v: Tensor) -> Tensor:
        return self.matmul(v.unsqueeze(-1)).squeeze(-1)

    @property
    def degree(self) -> Tensor:
        return self.row_sums(torch.ones_like(self.scale))

    def normalise(self) -> MaskedSquare:
        if self.normalised:
            return self
        return MaskedSquare(self.base, self.scale * inverse_sqrt(self.degree), self.layout, normalised=True)

    def to_dense(self) -> Tensor:
        return self.matmul(torch.eye(self.num_rows, dtype=self.scale.dtype, device=self.scale.device))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> MaskedSquare:
        raise NotImplementedError("made anew in every step, where it is needed")

    @property
    def requires_grad(self) -> bool:
        return False

    @property
    def num_rows(self) -> int:
        return self.base.num_rows


class MaskSelection(Selection):
    """Kept rows by a mask, each multiplied by its gate; the others become 0."""

    def __init__(self, gate: Tensor) -> None:
        self.gate = gate

    @property
    def s(self) -> Tensor:
        return torch.diag(self.gate)

    def reduce(self, x: Tensor) -> Tensor:
        return x * self.gate.unsqueeze(-1)

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        return x_pool


class MaskedScorePool(nn.Module):
    """A TopKPool or SAGPool, `inner`, that masks rows instead of removing them."""

    def __init__(self, inner: ScorePool) -> None:
        super().__init__()
        if inner.min_score is not None or inner.multiplier != 1:
            raise ParameterError("min_score and multiplier must be left as they are for replicas.")
        self.inner = inner

    def forward(self, x: Tensor, op: Operator, selection: Selection | None = None) -> PoolOutput:
        layout = op.layout
        assert isinstance(layout, Segments)
        assert layout.ptr is not None
        score = self.inner.score(x, op)
        ranked = score.detach()
        if isinstance(layout, MaskedSegments):
            counts = layout.counts
            ranked = ranked.masked_fill(~layout.mask, -torch.inf)
            order = layout.order[torch.sort(ranked[layout.order], descending=True, stable=True).indices]
        else:
            order = torch.sort(ranked, descending=True, stable=True).indices
            counts = layout.ptr[1:] - layout.ptr[:-1]
        if self.inner.k is not None:
            allowed = counts.clamp(max=self.inner.k)
        else:
            allowed = torch.ceil(counts.double() * self.inner.ratio - 1e-9).to(counts.dtype)
        order = order[torch.sort(layout.batch[order], stable=True).indices]  # by graph, then by score
        place = torch.empty_like(order)
        place[order] = torch.arange(layout.num_rows, device=x.device)
        kept = place - layout.ptr[:-1][layout.batch] < allowed[layout.batch]
        scale = kept.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        chosen = MaskSelection(score * kept)
        pooled = MaskedSegments(layout, kept, allowed, order)
        adj: Operator
        if self.inner.connect == "two_hop":
            adj = MaskedSquare(op, scale, pooled)
        elif isinstance(op, CSR):
            adj = CSR(op.pattern, op.val, scale=scale, layout=pooled, symmetric=op.symmetric)
        else:
            raise ParameterError(f"adj must be a sparse operator here, got {type(op).__name__}.")
        return PoolOutput(x=chosen.reduce(x), adj=adj, selection=chosen, mask=kept)
