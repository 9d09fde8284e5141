"""Several graph models as one: every layer with weights gets one set of them per replica.

Rows stand replica after replica: an input [R * N, F] (or [R * B, K, F]) is seen as [R, ..., F], and one batched product
applies each replica's own matrix. Top-K and SAGPool mask rows in place of removing them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn import DiffPool, PoolOutput, Selection
from softcut.nn.layers import Bias, GCNConv, SkipConv, UnitLinear, gcn_scale
from softcut.nn.models import GraphClassifier, ReadoutNet
from softcut.nn.pool.score_pools import ScorePool
from softcut.ops import CSR, Layout, Operator, Segments
from softcut.ops.numerics import inverse_sqrt

_Net = TypeVar("_Net", GraphClassifier, ReadoutNet)


def _stacked(parameters: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([p.detach() for p in parameters]))


class ReplicaLinear(nn.Module):
    """One ``nn.Linear`` per replica."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = _stacked([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.bias = _stacked(biases) if biases else None

    def matrix(self) -> Tensor:
        """The weights that are applied [R, out, in]."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        weight = self.matrix()
        rows = x.reshape(len(weight), -1, x.shape[-1])
        if self.bias is None:
            out = torch.bmm(rows, weight.mT)
        else:
            out = torch.baddbmm(self.bias.unsqueeze(1), rows, weight.mT)
        return out.view(*x.shape[:-1], -1)


class ReplicaUnitLinear(ReplicaLinear):
    """One :class:`~softcut.nn.layers.UnitLinear` per replica."""

    def __init__(self, layers: Sequence[UnitLinear]) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = _stacked([layer.weight for layer in layers]), None

    def matrix(self) -> Tensor:
        return UnitLinear.unit(self.weight)


class ReplicaLayerNorm(nn.Module):
    """One ``nn.LayerNorm`` over the last axis per replica."""

    def __init__(self, layers: Sequence[nn.LayerNorm]) -> None:
        super().__init__()
        self.weight, self.bias = (_stacked([getattr(e, name) for e in layers]) for name in ("weight", "bias"))
        self.eps = layers[0].eps

    def forward(self, x: Tensor) -> Tensor:
        rows = nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps).view(len(self.weight), -1, x.shape[-1])
        return torch.addcmul(self.bias.unsqueeze(1), rows, self.weight.unsqueeze(1)).view(x.shape)


class ReplicaBias(nn.Module):
    """One :class:`~softcut.nn.layers.Bias` per replica."""

    def __init__(self, layers: Sequence[Bias]) -> None:
        super().__init__()
        self.bias = _stacked([layer.bias for layer in layers])

    def forward(self, x: Tensor) -> Tensor:
        return _add_bias(x, self.bias)


def _add_bias(x: Tensor, bias: Tensor) -> Tensor:
    return (x.reshape(len(bias), -1, x.shape[-1]) + bias.unsqueeze(1)).view(x.shape)


def lookup(x: Tensor, weight: Tensor, one_hot: int) -> Tensor:
    """X W' per replica, where the first `one_hot` columns of x are numbers of features that are 1.

    The rest of x are values of the last features. Nothing of the width of the features is made per node.
    """
    replicas, width, _ = weight.shape
    per_replica = x.shape[0] // replicas
    table = weight.mT.reshape(-1, width).contiguous()
    out = nn.functional.embedding_bag(feature_numbers(x, weight, one_hot), table, mode="sum")
    values = x.shape[1] - one_hot
    if values:
        rows = x[:, one_hot:].reshape(replicas, per_replica, values)
        out = torch.baddbmm(out.view(replicas, per_replica, width), rows, weight[:, :, -values:].mT)
    return out.view(-1, width)


def feature_numbers(x: Tensor, weight: Tensor, one_hot: int) -> Tensor:
    """The numbers of the features that are 1 [R * N, one_hot], counting on from replica to replica."""
    replicas, _, features = weight.shape
    numbers = x[:, :one_hot].long()
    if replicas == 1 or one_hot == 0:
        return numbers
    first = torch.arange(replicas, device=x.device).view(-1, 1, 1) * features
    return (numbers.view(replicas, -1, one_hot) + first).view(-1, one_hot)


class OneHotSkipConv(nn.Module):
    """The paper's layer on features that are stored as numbers: A~ (X T_m) + X T_s + b; one look-up for both."""

    def __init__(self, layers: Sequence[SkipConv], one_hot: int) -> None:
        super().__init__()
        self.neighbours = ReplicaLinear([layer.neighbours for layer in layers])
        self.itself = ReplicaLinear([layer.itself for layer in layers])
        self.act, self.one_hot, self.out_channels = layers[0].act, one_hot, layers[0].out_channels

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        weight = torch.cat([self.neighbours.weight, self.itself.weight], dim=1)
        passed, own = lookup(x, weight, self.one_hot).split(self.out_channels, dim=1)
        out = op.normalise().product(passed) + own
        out = out if self.itself.bias is None else _add_bias(out, self.itself.bias)
        return out if self.act is None else self.act(out)


class OneHotLinear(nn.Module):
    """One ``nn.Linear`` per replica on features that are stored as numbers."""

    def __init__(self, layers: Sequence[nn.Linear], one_hot: int) -> None:
        super().__init__()
        self.weight, self.bias = (_stacked([getattr(e, name) for e in layers]) for name in ("weight", "bias"))
        self.one_hot = one_hot

    def forward(self, x: Tensor) -> Tensor:
        return _add_bias(lookup(x, self.weight, self.one_hot), self.bias)


class OneHotGCNConv(nn.Module):
    """A GCN layer on features that are stored as numbers."""

    def __init__(self, layers: Sequence[GCNConv], one_hot: int) -> None:
        super().__init__()
        self.lin = ReplicaLinear([layer.lin for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.bias = ReplicaBias(biases) if biases else None
        self.act, self.one_hot = layers[0].act, one_hot

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        scale = gcn_scale(op, x)
        h = scale * lookup(x, self.lin.weight, self.one_hot)
        h = scale * (op @ h + h)
        h = h if self.bias is None else self.bias(h)
        return h if self.act is None else self.act(h)


class MaskedSegments(Segments):
    """Graphs one after another of whose rows only those in `mask` count; `counts` says how many per graph.

    `order` lists all rows graph by graph, the kept ones first and in the order in which a pooler that removes rows
    would leave them: it decides between equal scores at the next level.
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
    def num_rows(self) -> int:
        return self.base.num_rows


class MaskSelection(Selection):
    """Kept rows by a mask, each multiplied by its gate; the others become 0."""

    def __init__(self, gate: Tensor) -> None:
        self.gate = gate

    def reduce(self, x: Tensor) -> Tensor:
        return x * self.gate.unsqueeze(-1)

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        return x_pool


class MaskedScorePool(nn.Module):
    """A TopKPool or SAGPool, `inner`, that masks rows instead of removing them.

    Which nodes are kept depends on the scores, so their places would differ from step to step and from replica to
    replica. Here all rows stay and the adjacency is M A M (or M A A M) with M the diagonal of kept nodes: the same
    numbers, without sorting edges or asking the device how many there are.
    """

    def __init__(self, inner: ScorePool) -> None:
        super().__init__()
        if inner.min_score is not None or inner.multiplier != 1:
            raise ParameterError(
                "min_score and multiplier must be left as they are for replicas.", argument="min_score"
            )
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
            raise ParameterError(
                f"adj must be a sparse operator here, got {type(op).__name__}.", argument="adj"
            )
        return PoolOutput(x=chosen.reduce(x), adj=adj, selection=chosen, mask=kept)


_REPLICAS: dict[type[nn.Module], Any] = {
    nn.Linear: ReplicaLinear,
    nn.LayerNorm: ReplicaLayerNorm,
    UnitLinear: ReplicaUnitLinear,
    Bias: ReplicaBias,
}


def replica_net(models: Sequence[_Net], one_hot: int = 0, columns: int | None = None) -> _Net:
    """A model that computes R models at once, for batches of R replicas side by side.

    With `one_hot`, that many of the input's `columns` are feature numbers of one-hot blocks (see
    :class:`~softcut.graph.GraphCollection`), and the first layers look their weights up.
    """
    if not models:
        raise ParameterError("models must hold at least one model.", argument="models")
    net = copy.deepcopy(models[0])
    if one_hot and isinstance(net, ReadoutNet):
        net.first = OneHotLinear([model.first for model in models], one_hot)  # type: ignore[assignment, misc]
    elif one_hot:
        _read_numbers(net, models, one_hot, columns)
    _swap(net, models)
    for level, pool in enumerate(net.pools):
        if isinstance(pool, ScorePool):
            net.pools[level] = MaskedScorePool(pool)
    return net


def _read_numbers(net: Any, models: Sequence[Any], one_hot: int, columns: int | None) -> None:
    """Let the layers that see the input read feature numbers."""
    if not net.embeds:
        convs: list[Any] = [model.convs[0] for model in models]
        net.convs[0] = OneHotSkipConv(convs, one_hot)
        return
    pool = net.pools[0]
    if not isinstance(pool, DiffPool) or not isinstance(pool.scores, GCNConv) or pool.embed is None:
        raise ParameterError(
            "assignment must be 'gcn' for replicas of DiffPool on one-hot features.", argument="assignment"
        )
    pool.in_channels = pool.in_channels if columns is None else columns
    firsts: list[Any] = [model.pools[0] for model in models]
    pool.scores = OneHotGCNConv([first.scores for first in firsts], one_hot)
    pool.embed = OneHotGCNConv([first.embed for first in firsts], one_hot)


def _swap(net: nn.Module, models: Sequence[nn.Module]) -> None:
    """Replace every layer that holds weights, wherever it is."""
    for name, child in net.named_children():
        if isinstance(child, OneHotSkipConv | OneHotGCNConv | OneHotLinear):
            continue
        others = [getattr(model, name) for model in models]
        made = _REPLICAS.get(type(child))
        if made is not None:
            setattr(net, name, made(others))
        elif list(child.parameters(recurse=False)):
            raise ParameterError(
                f"{type(child).__name__} holds weights of its own and has no form for replicas.",
                argument="models",
            )
        else:
            _swap(child, others)
