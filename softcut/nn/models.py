"""The paper's architectures: clusterer, classifier, regressor, autoencoder. Poolers by name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.layers import SkipConv, graph_input
from softcut.nn.pool import get_pool, pool_options
from softcut.nn.pool.base import Pool, PoolOutput, nodes_per_graph
from softcut.nn.pool.selection import Selection
from softcut.ops import Operator
from softcut.ops.activations import Activation
from softcut.ops.numerics import zero_padding

# Poolers whose assignment matrix is a clustering.
CLUSTERERS = ("mincut", "diffpool", "dmon", "justbalance", "random")


class Levels(NamedTuple):
    """Predictions [B, C] of a graph-level model, and the pooled graphs."""

    y: Tensor
    pooled: tuple[PoolOutput, ...]


class ModelOutput(NamedTuple):
    """What a graph-level model returns: predictions [B, C], the poolers' losses, the pooled graphs."""

    y: Tensor
    loss: Tensor
    pooled: tuple[PoolOutput, ...]


class Reconstruction(NamedTuple):
    """What the autoencoder returns: features of the input's shape, and the bottleneck."""

    x: Tensor
    pooled: PoolOutput


def sized_pool(
    name: str, in_channels: int, k: int | None, ratio: float, options: Mapping[str, Any] | None
) -> Pool:
    """A pooler by name with `k` clusters or, where it follows the size of each graph, about `ratio` of the nodes.

    Graclus and NDP halve: a ratio of 0.5 is one level, 0.25 two. `options` go to the pooler as they are.
    """
    given = dict(options or {})
    valid = pool_options(name)
    if "ratio" in valid:
        if "k" not in given:
            given.setdefault("ratio", ratio)
    elif "k" in valid:
        if k is None and "k" not in given:
            raise ParameterError(
                f"k must be given for {name!r}: the number of clusters at each level.", argument="k"
            )
        given.setdefault("k", k)
    elif "levels" in valid:
        given.setdefault("levels", max(1, round(-math.log2(ratio))))
    return get_pool(name, in_channels, **given)


class NodeClusterer(nn.Module):
    """Message passing, then a pooler whose assignment matrix is the clustering (paper, section 4.1).

    >>> import torch
    >>> model = NodeClusterer(in_channels=8, k=3)
    >>> out = model(torch.rand(5, 8), torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]))
    >>> out.s.shape, sorted(out.losses)
    (torch.Size([5, 3]), ['cut', 'ortho'])

    Parameters
    ----------
    in_channels, k : int
        Size of the node features; clusters.
    hidden, layers : int
        Width and number of the message-passing layers; 0 layers: the features themselves are clustered.
    act : str, callable or None
        Their activation.
    pool, pool_args
        ``"mincut"``, ``"diffpool"``, ``"dmon"``, ``"justbalance"`` or ``"random"``, and its further options.
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int = 16,
        layers: int = 1,
        act: Activation = "elu",
        pool: str = "mincut",
        pool_args: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if pool not in CLUSTERERS:
            raise ParameterError(
                f"pool must be one of {', '.join(CLUSTERERS)}, got {pool!r}.", argument="pool"
            )
        widths = [in_channels, *[hidden] * layers]
        self.convs = nn.ModuleList(SkipConv(a, b, act) for a, b in itertools.pairwise(widths))
        self.pool = sized_pool(pool, widths[-1], k, 0.5, pool_args)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for conv in self.convs:
            assert isinstance(conv, SkipConv)
            conv.reset_parameters()
            for linear in (conv.neighbours, conv.itself):
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        self.pool.reset_parameters()

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> PoolOutput:
        x, op = graph_input(x, adj, edge_weight, batch, mask)
        for conv in self.convs:
            x = conv(x, op)
        return self.pool(x, op)


class GraphClassifier(nn.Module):
    """MP - pool - MP - pool - MP - mean - linear: one row of logits per graph (paper, table 2).

    >>> import torch
    >>> model = GraphClassifier(in_channels=8, out_channels=2, pool="mincut", k=(4, 2))
    >>> edge_index, batch = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), torch.tensor([0, 0, 0, 1, 1])
    >>> out = model(torch.rand(5, 8), edge_index, batch=batch)
    >>> out.y.shape, out.loss.shape
    (torch.Size([2, 2]), torch.Size([]))

    Parameters
    ----------
    in_channels, out_channels : int
        Node features; classes.
    pool, pool_args
        Name of the pooler (see :func:`~softcut.nn.get_pool`) and its further options.
    levels, hidden : int
        Poolers in a row; width of every layer.
    k : int or sequence of int, optional
        Clusters at each level, for the poolers with a fixed number.
    ratio : float
        Share of the nodes that stay at each level, for the others.
    act : str, callable or None
        Activation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        pool: str = "mincut",
        levels: int = 2,
        hidden: int = 32,
        k: int | Sequence[int] | None = None,
        ratio: float = 0.5,
        act: Activation = "relu",
        pool_args: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        sizes = [k] * levels if k is None or isinstance(k, int) else list(k)
        if len(sizes) != levels:
            raise ParameterError(
                f"k must have one value for each of the {levels} poolers, got {len(sizes)}.", argument="k"
            )
        options = dict(pool_args or {})
        if "hidden" in pool_options(pool):
            options.setdefault("hidden", 16)
        # DiffPool brings its own message passing, as published: it stands in place of conv and pool.
        self.embeds = pool == "diffpool"
        if self.embeds:
            options = {"out_channels": hidden, "act": act, **options}
        self.convs, self.pools = nn.ModuleList(), nn.ModuleList()
        width = in_channels
        for size in sizes:
            if not self.embeds:
                self.convs.append(SkipConv(width, hidden, act))
            self.pools.append(sized_pool(pool, width if self.embeds else hidden, size, ratio, options))
            width = hidden
        self.convs.append(SkipConv(width, hidden, act))
        self.head = nn.Linear(hidden, out_channels)

    def kernels(self) -> Iterator[nn.Parameter]:
        """Weight matrices of the message passing and the poolers, for an L2 penalty; no biases, no head."""
        for module in (self.convs, self.pools):
            yield from (p for n, p in module.named_parameters() if n.endswith("weight"))

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        selections: Sequence[Selection] | None = None,
    ) -> ModelOutput:
        y, pooled = self.levels(*graph_input(x, adj, edge_weight, batch, mask), selections)
        return ModelOutput(y, sum((out.loss for out in pooled), y.new_zeros(())), pooled)

    def levels(self, x: Tensor, op: Operator, selections: Sequence[Selection] | None = None) -> Levels:
        """Predictions and pooled graphs, without the mean of the losses."""
        if selections is not None and len(selections) != len(self.pools):
            raise ParameterError(
                f"selections must have one for each of the {len(self.pools)} poolers.", argument="selections"
            )
        pooled: list[PoolOutput] = []
        for level, pool in enumerate(self.pools):
            if not self.embeds:
                x = self.convs[level](x, op)
            out = pool(x, op, selection=None if selections is None else selections[level])
            x, op = out.x, out.adj
            pooled.append(out)
        x = zero_padding(self.convs[-1](x, op), op.mask)
        mean = op.layout.total(x) / nodes_per_graph(op, x).unsqueeze(-1)
        return Levels(self.head(mean), tuple(pooled))


class GraphRegressor(GraphClassifier):
    """MP - pool - MP - mean - linear: one number (or several) a graph (paper, table 3).

    A :class:`GraphClassifier` with one output and one pooler unless said otherwise.

    >>> import torch
    >>> model = GraphRegressor(in_channels=4, pool="topk")
    >>> model(torch.rand(3, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).y.shape
    torch.Size([1, 1])
    """

    def __init__(
        self, in_channels: int, out_channels: int = 1, pool: str = "mincut", levels: int = 1, **options: Any
    ) -> None:
        super().__init__(in_channels, out_channels, pool, levels, **options)


class ReadoutNet(nn.Module):
    """Message passing with layer normalisation; mean, sum and maximum over the nodes of every layer, then an MLP.

    The network of :class:`softcut.GraphClassification` and :class:`softcut.GraphRegression` unless told otherwise.
    Layers are added to their input; the sum is the mean times log(1 + nodes), which large graphs do not blow up.

    >>> import torch
    >>> model = ReadoutNet(in_channels=8, out_channels=2)
    >>> edge_index, batch = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), torch.tensor([0, 0, 0, 1, 1])
    >>> model(torch.rand(5, 8), edge_index, batch=batch).y.shape
    torch.Size([2, 2])

    Parameters
    ----------
    in_channels, out_channels : int
        Node features; classes or targets.
    hidden, layers : int
        Width of every layer; message-passing layers.
    """

    embeds = False

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 64, layers: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, hidden)
        self.convs = nn.ModuleList(SkipConv(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers + 1))
        width = 3 * hidden * (layers + 1)
        self.read_norm, self.inner = nn.LayerNorm(width), nn.Linear(width, hidden)
        self.head = nn.Linear(hidden, out_channels)
        self.pools = nn.ModuleList()
        for linear in (self.first, self.inner, self.head):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def kernels(self) -> Iterator[nn.Parameter]:
        """Weight matrices for an L2 penalty: all but those of the last layer."""
        for module in (self.first, self.convs, self.inner):
            yield from (p for n, p in module.named_parameters() if n.endswith("weight"))

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> ModelOutput:
        y, pooled = self.levels(*graph_input(x, adj, edge_weight, batch, mask))
        return ModelOutput(y, y.new_zeros(()), pooled)

    def levels(self, x: Tensor, op: Operator, selections: Sequence[Selection] | None = None) -> Levels:
        """Predictions; there are no pooled graphs."""
        h = zero_padding(self.norms[0](self.first(x)).relu(), op.mask)
        layers = [h]
        for conv, norm in zip(self.convs, self.norms[1:], strict=True):
            h = h + zero_padding(norm(conv(h, op)).relu(), op.mask)
            layers.append(h)
        seen, nodes = torch.cat(layers, dim=-1), nodes_per_graph(op, h).unsqueeze(-1)
        mean = op.layout.total(seen) / nodes
        z = self.read_norm(torch.cat([mean, mean * nodes.log1p(), op.layout.peak(seen)], dim=-1))
        return Levels(self.head(self.inner(z).relu()), ())


class GraphAutoencoder(nn.Module):
    """conv, conv, pool, lift, conv, conv, linear conv: the node features from a smaller graph (E4).

    The decoder sees the original adjacency and the lifted features, nothing else: no connection passes
    around the bottleneck.

    >>> import torch
    >>> model = GraphAutoencoder(in_channels=2, pool="mincut", k=2)
    >>> out = model(torch.rand(4, 2), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape
    torch.Size([4, 2])

    Parameters
    ----------
    in_channels, pool, act, pool_args, k, ratio
        As for :class:`GraphClassifier`; one pooler.
    hidden : int
        Width of the convolutions, of the pooler's hidden layer (those with an MLP) and of its embedding (diffpool).
    pinv : bool
        Lift by the pseudo-inverse.
    """

    def __init__(
        self,
        in_channels: int,
        pool: str = "mincut",
        hidden: int = 32,
        k: int | None = None,
        ratio: float = 0.25,
        act: Activation = "tanh",
        pool_args: Mapping[str, Any] | None = None,
        pinv: bool = False,
    ) -> None:
        super().__init__()
        options = dict(pool_args or {})
        if "hidden" in pool_options(pool):
            options = {"hidden": hidden, "act": None, **options}
        elif pool == "diffpool":
            options = {"out_channels": hidden, **options}
        self.encoder = nn.ModuleList([SkipConv(in_channels, hidden, act), SkipConv(hidden, hidden, act)])
        self.pool = sized_pool(pool, hidden, k, ratio, options)
        self.decoder = nn.ModuleList(
            [SkipConv(hidden, hidden, act), SkipConv(hidden, hidden, act), SkipConv(hidden, in_channels)]
        )
        self.pinv = pinv

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        selection: Selection | None = None,
    ) -> Reconstruction:
        x, op = graph_input(x, adj, edge_weight, batch, mask)
        for conv in self.encoder:
            x = conv(x, op)
        pooled = self.pool(x, op, selection=selection)
        x = self.pool.lift(pooled.x, pooled.selection, self.pinv)
        for conv in self.decoder:
            x = conv(x, op)
        return Reconstruction(x, pooled)
