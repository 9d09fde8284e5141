"""Soft clusters without a graph network: MinCutPool, DMoN, Just Balance (S by an MLP), and RandomPool, the control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.layers import check_number, check_size, graph_input
from softcut.nn.pool.base import DensePool, MLPPool, PoolOutput
from softcut.ops import (
    ClusterTables,
    Dense,
    Operator,
    Segments,
    get_objective,
    orthogonality,
    pooled_adjacency,
)
from softcut.ops.activations import Activation
from softcut.ops.coarsen import PooledProducts
from softcut.ops.mincut_step import mincut_step
from softcut.ops.numerics import can_be_read, full_precision
from softcut.ops.uniform import leaving_weight, standardise

_OVERRIDES = ("auxiliary", "connect")
_BLOCK = 1024  # rows of the random table drawn at a time, each block from its own seed


class ObjectivePool(DensePool):
    """Pooling that is trained by an objective of :mod:`softcut.ops.objectives`, wherever S comes from."""

    objective = "mincut"
    normalise = True
    count_words = False
    keep_diagonal = False

    def choose(self, objective: str, normalise: bool, count_words: bool) -> None:
        get_objective(objective)
        _check_switch(normalise, "normalise")
        if count_words and objective != "evidence":
            raise ParameterError(
                f"count_words is an option of objective='evidence' and has no effect with {objective!r}.",
                argument="count_words",
            )
        self.objective, self.normalise, self.count_words = objective, normalise, bool(count_words)

    def features(self, x: Tensor, op: Operator) -> Tensor:
        if self.count_words and can_be_read(x) and bool((x < 0).any()):
            raise ParameterError(
                f"x must hold counts, which are not negative, for count_words=True, got {x.min().item():g}; "
                "leave count_words out to count the edges alone.",
                argument="x",
            )
        return x

    def operator(self, op: Operator) -> Operator:
        if self.normalise and get_objective(self.objective).normalised:
            return op.normalise()
        op.refuse_negative()  # the loss divides by degrees either way
        return op

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        words = {"words": products.x, "num_words": products.x.sum((-2, -1))} if self.count_words else {}
        objective = get_objective(self.objective)
        losses = objective.losses(ClusterTables(op, s, products, **words))
        return dict(zip(objective.names, losses, strict=True))

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return pooled_adjacency(quadratic, symmetric=op.symmetric, keep_diagonal=self.keep_diagonal)

    def coarse(self, op: Operator, s: Tensor, x: Tensor) -> tuple[Tensor, Dense, dict[str, Tensor]]:
        changed = any(getattr(type(self), name) is not getattr(ObjectivePool, name) for name in _OVERRIDES)
        if changed or self.objective != "mincut":  # a subclass has losses or connections of its own
            return super().coarse(op, s, x)
        step = mincut_step(op, s, x, self.keep_diagonal)
        adj = Dense(step.adj, symmetric=op.symmetric, normalised=True)
        return step.x, adj, {"cut": step.cut, "ortho": step.ortho}


class MinCutPool(ObjectivePool, MLPPool):
    r"""Pooling by the relaxed normalised cut.

    .. math::
        S = softmax(MLP(X) / \tau), \quad X' = S^T X, \quad A' = S^T \tilde A S

    with the diagonal of A' set to zero and A' normalised symmetrically, and the losses
    L_c = -Tr(S' A~ S) / Tr(S' D~ S) and L_o = ||S'S/||S'S||_F - I/sqrt(K)||_F.

    >>> import torch
    >>> from softcut.nn import MinCutPool
    >>> pool = MinCutPool(in_channels=8, k=2, hidden=16)
    >>> edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> out = pool(torch.rand(4, 8), edge_index)
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['cut', 'ortho'])
    >>> pool.lift(out.x, out.selection).shape
    torch.Size([4, 8])

    Parameters
    ----------
    in_channels : int
        Size of the node features.
    k : int
        Clusters of every graph (may exceed the nodes of a small graph).
    hidden : int, sequence of int or None
        Hidden sizes of the MLP.
    act : str, callable or None
        Activation between the layers of the MLP.
    temperature : float
        Below 1: harder assignments; above 1: fuzzier ones.
    cut_weight, ortho_weight : float
        Weights of the two losses: the objective, and the term that keeps clusters apart where it has one.
        ``ortho_weight="auto"``: for every graph what its features ask for, so that the assignment does not stay
        uniform (:mod:`softcut.ops.uniform`); at least `cut_weight`.
    objective : {"mincut", "ratio_trace", "dmon", "just_balance", "evidence"}
        The paper's cut loss, the classic one (appendix A), or another of the family (:mod:`softcut.ops.objectives`):
        losses `spectral` and `cluster`, `balance`, or `evidence`, in place of `cut` and `ortho`.
    normalise : bool
        True: A is normalised to A~ first, as in the paper. False: A is used as it comes, in the losses and
        in A', as PyTorch Geometric's ``dense_mincut_pool`` uses the adjacency it is given. "dmon" and "evidence"
        count edges and always use A as it comes.
    keep_diagonal : bool
        Keep the diagonal of A', which the paper sets to zero: clusters then pass messages mostly to themselves.
    count_words : bool
        For "evidence": whether clusters are to explain the features, too. These must then be data, and counts
        (0 or more, such as words or one-hot labels). False: the edges alone.
    standardise : bool
        Give the scores of every cluster, before they are divided by the temperature, mean 0 and variance 1 within
        each graph: S cannot become uniform, and no cluster is left by all nodes. Use a temperature of about 0.3.

    Notes
    -----
    Pass A, not A~: the layer normalises it itself (a pooled operator of the layer before is normalised
    already and is left alone). A matrix that you normalised yourself needs ``normalise=False``. No N x N
    matrix and no E x K tensor is made for a sparse graph. A graph without edges has L_c = 0. Negative edge
    weights are an error.
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        cut_weight: float = 1.0,
        ortho_weight: float | str = 1.0,
        objective: str = "mincut",
        normalise: bool = True,
        keep_diagonal: bool = False,
        count_words: bool = False,
        standardise: bool = False,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        self.choose(objective, normalise, count_words)
        self.cut_weight = check_number(cut_weight, "cut_weight")
        self.ortho_weight = _check_weight(ortho_weight, objective)
        self.keep_diagonal = bool(keep_diagonal)
        self.standardise = _check_switch(standardise, "standardise")

    def weights(self, x: Tensor, op: Operator) -> dict[str, float | Tensor]:
        first, *second = get_objective(self.objective).names
        held: float | Tensor
        if isinstance(self.ortho_weight, str):
            hidden = full_precision(self.mlp.hidden(x.detach()))
            held = leaving_weight(op, hidden, self.k, self.cut_weight)
        else:
            held = self.ortho_weight
        return {first: self.cut_weight, **dict.fromkeys(second, held)}

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        scores = self.mlp(x)
        return standardise(op, full_precision(scores)) if self.standardise else scores

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, objective={self.objective!r}, normalise={self.normalise}"


def _check_switch(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(f"{name} must be True or False, got {value!r}.", argument=name)
    return value


def _check_weight(value: Any, objective: str) -> float | str:
    if not isinstance(value, str):
        return check_number(value, "ortho_weight")
    if value != "auto" or objective != "mincut":
        raise ParameterError(
            f"ortho_weight must be a finite number, or 'auto' with objective='mincut', got {value!r} with "
            f"{objective!r}.",
            argument="ortho_weight",
        )
    return value


def mincut_pool(
    x: Tensor,
    adj: Any,
    s: Tensor,
    mask: Tensor | None = None,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    objective: str = "mincut",
    normalise: bool = True,
    count_words: bool = False,
) -> PoolOutput:
    r"""MinCutPool with an assignment matrix of one's own: S'X, the pooled graph and the losses of the objective.

    >>> import torch
    >>> from softcut.nn import mincut_pool
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> out = mincut_pool(torch.rand(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), s)
    >>> out.x.shape, out.losses["cut"].item(), out.losses["ortho"].item()
    (torch.Size([1, 2, 3]), -1.0, 0.0)

    `s` holds assignments [N, K] or [B, N, K]: 0 or more, 1 in sum per node. Not the scores before the softmax, which
    PyTorch Geometric's ``dense_mincut_pool`` takes: pass ``scores.softmax(-1)``. The other arguments are those of
    :class:`~softcut.nn.MinCutPool` and of its call.
    """
    layer = ObjectivePool()
    layer.choose(objective, normalise, count_words)
    return layer.pool_by(s, *graph_input(x, adj, edge_weight, batch, mask))


class DMoNPool(ObjectivePool, MLPPool):
    r"""Pooling by modularity: S = softmax(MLP(X) / \tau), X' = selu(S'X), A' = S'AS.

    .. math::
        L_{spectral} = -\frac{Tr(S^T B S)}{2m}, \quad B = A - \frac{d d^T}{2m}, \qquad
        L_{cluster} = \frac{\sqrt{K}}{N} \Big\|\sum_i s_i\Big\|_2 - 1

    ``MinCutPool(objective="dmon")`` has the same losses; this layer is the published one, which passes S'X through
    a SELU, and can add the third loss of PyTorch Geometric's.

    >>> import torch
    >>> from softcut.nn import DMoNPool
    >>> pool = DMoNPool(in_channels=8, k=2)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['cluster', 'spectral'])

    Parameters
    ----------
    in_channels, k, hidden, act, temperature
        As for :class:`~softcut.nn.MinCutPool`.
    spectral_weight, cluster_weight, ortho_weight : float
        Weights of the losses. The last one, the orthogonality loss of MinCutPool, is not part of the
        published method; PyTorch Geometric's ``DMoNPooling`` returns it too.

    Notes
    -----
    A is used as it comes, not normalised, and must not hold negative weights; the diagonal of A' is set to
    zero and A' is normalised symmetrically. A graph without edges has a spectral loss of 0. Every loss is that
    of a graph by itself; in a batch of graphs of different sizes ``DMoNPooling`` of PyTorch Geometric 2.8 divides
    the cluster loss of each graph by the number of nodes of every graph.
    """

    objective = "dmon"

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        spectral_weight: float = 1.0,
        cluster_weight: float = 1.0,
        ortho_weight: float = 0.0,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        self.spectral_weight = check_number(spectral_weight, "spectral_weight")
        self.cluster_weight = check_number(cluster_weight, "cluster_weight")
        self.ortho_weight = check_number(ortho_weight, "ortho_weight")

    def activate(self, x_pool: Tensor) -> Tensor:
        return torch.nn.functional.selu(x_pool)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        losses = super().auxiliary(op, s, products)
        if self.ortho_weight:
            losses["ortho"] = orthogonality(products.gram)
        return losses

    def weights(self, x: Tensor, op: Operator) -> dict[str, float]:
        return {"spectral": self.spectral_weight, "cluster": self.cluster_weight, "ortho": self.ortho_weight}


class JustBalancePool(ObjectivePool, MLPPool):
    r"""Pooling with balanced clusters: S = softmax(MLP(X) / \tau), X' = S'X, A' = S'A~S.

    .. math::
        L_{balance} = -\frac{1}{\sqrt{N K}} \sum_k \|S_{:, k}\|_2 \in [-1, -1 / \sqrt{K}]

    The sum is Tr(sqrt(S'S)) with the root taken entry by entry, as its author computes it. It is -1 for hard
    clusters of one size; A takes no part in it.

    >>> import torch
    >>> from softcut.nn import JustBalancePool
    >>> pool = JustBalancePool(in_channels=8, k=2)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['balance'])

    Parameters
    ----------
    in_channels, k, hidden, act, temperature
        As for :class:`~softcut.nn.MinCutPool`.
    balance_weight : float
        Weight of the loss.

    Notes
    -----
    That neighbours share a cluster is left to the message passing before this layer: its author uses several
    steps of X <- (I - delta L) X W with delta = 0.85. The diagonal of A' is set to zero and A' is normalised
    symmetrically.
    """

    objective = "just_balance"

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        balance_weight: float = 1.0,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        self.balance_weight = check_number(balance_weight, "balance_weight")

    def weights(self, x: Tensor, op: Operator) -> dict[str, float]:
        return {"balance": self.balance_weight}


class RandomPool(DensePool):
    r"""Pooling with a random S, the softmax of normal numbers, that is never trained.

    A node's row of S depends on the seed and on its place in its graph alone: the same graph is
    pooled the same way in every epoch and in any batch.

    >>> import torch
    >>> from softcut.nn import RandomPool
    >>> out = RandomPool(k=2, seed=0)(torch.rand(4, 8), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    >>> out.x.shape, out.losses
    (torch.Size([1, 2, 8]), {})

    Parameters
    ----------
    k : int
        Clusters of every graph.
    seed : int
        Of the table of random numbers.
    """

    def __init__(self, k: int, seed: int = 0) -> None:
        super().__init__()
        self.k, self.seed = check_size(k, "k"), check_size(seed, "seed", least=0)
        self._table: Tensor
        self.register_buffer("_table", torch.zeros(0, self.k), persistent=False)
        self._rows(_BLOCK)  # enough for most graphs, so that a compiled call draws nothing

    def _rows(self, n: int) -> Tensor:
        """The first n rows of the table; it grows when a larger graph comes."""
        table = self._table
        if table.shape[0] < n:
            blocks = [table]
            for start in range(table.shape[0], n, _BLOCK):
                generator = torch.Generator().manual_seed(self.seed * 1_000_003 + start // _BLOCK)
                blocks.append(torch.randn(_BLOCK, self.k, generator=generator).to(table))
            self._table = table = torch.cat(blocks)
        return table[:n]

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        layout = op.layout
        if isinstance(layout, Segments) and layout.ptr is not None:
            place = torch.arange(layout.num_rows, device=x.device) - layout.ptr[:-1][layout.batch]
            largest = int((layout.ptr[1:] - layout.ptr[:-1]).max())
            return self._rows(largest)[place].to(x.dtype)
        rows = self._rows(op.num_rows).to(device=x.device, dtype=x.dtype)
        return rows if isinstance(layout, Segments) else rows.expand(op.num_graphs, *rows.shape)

    def extra_repr(self) -> str:
        return f"k={self.k}, seed={self.seed}"
