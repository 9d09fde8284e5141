r"""The family of objectives: each a short function of small tables that one product with A gives.

    S'AS [K, K]   edges between clusters        S'S [K, K]    how clusters overlap
    S'1 [K]       sizes of clusters             S'X [K, F]    words of clusters

    mincut         - Tr(S'A~S) / Tr(S'D~S)   +   || S'S/||S'S||_F - I/sqrt(K) ||_F         the paper's
    ratio_trace    - Tr((S'D~S)^-1 S'A~S)/K  +   the same                                  the classic cut
    dmon           - (Tr(S'AS) - ||S'd||^2/2m) / 2m   +   sqrt(K)/N ||S'1|| - 1            modularity
    just_balance   - Tr(sqrt(S'S)) / sqrt(N K)                                             balance alone
    evidence       - (G_e + G_x) / (N H^1/2)                                               what S explains

with, in nats, G_e = E I(S'AS) - log C(K(K+1)/2, E) for E edges, G_x = W I(S'X) - sum_w log C(K, n_w) for W words of
which n_w are word w, I the mutual information of a table, H the entropy of the sizes and log C the price of a
table of counts (:func:`softcut.ops.information.multinomial_complexity`). Tables have leading axes for graphs and
replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.errors import GraphError, ParameterError
from softcut.ops.coarsen import PooledProducts
from softcut.ops.convert import assignment_input
from softcut.ops.csr import CSR
from softcut.ops.cut import cut_terms, orthogonality, quadratic_form, ratio_trace, self_gram
from softcut.ops.dense import Dense
from softcut.ops.information import Words, edge_gain, entropy, word_gain
from softcut.ops.numerics import (
    above_zero,
    can_be_read,
    check_assignments,
    check_tensor,
    no_autocast,
    per_row,
    reduce_graphs,
    safe_ratio,
    safe_sqrt,
    zero_padding,
)
from softcut.ops.operator import Operator, Sum

# The evidence is divided by at least this entropy (nats): that of a single cluster is zero.
LEAST_ENTROPY = 1e-6


def edge_count(op: Operator) -> Tensor:
    """Edges of every graph [B]; of weighted ones the effective number (sum w)^2 / sum w^2, which has no unit."""
    wide = op.promoted(torch.float64)  # squares of large weights
    like = torch.empty(0, dtype=torch.float64, device=op.degree.device)
    total, squares = (op.layout.total(each.degree_like(like)) for each in (wide, _squared(wide)))
    return safe_ratio(total.square(), 2 * squares)


def _squared(op: Operator) -> Operator:
    """The operator with every entry squared; entries of the parts of a sum are edges of their own."""
    if isinstance(op, Dense):
        return Dense(op.data.square(), op.mask, symmetric=op.symmetric)
    if isinstance(op, Sum):
        scale = None if op.scale is None else op.scale.square()
        return Sum([_squared(part) for part in op.parts], [w * w for w in op.weights], scale=scale)
    assert isinstance(op, CSR)
    val, scale = (None if t is None else t.square() for t in (op.val, op.scale))
    return CSR(op.pattern, val, scale=scale, layout=op.layout, symmetric=op.symmetric)


@dataclass(frozen=True)
class ClusterTables:
    """The tables of soft clusters S on the graphs of an operator; each is computed when an objective asks for it.

    >>> import torch
    >>> from softcut.ops import as_operator
    >>> tables = ClusterTables(as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2), torch.eye(2))
    >>> tables.edges.tolist(), tables.sizes.tolist()
    ([[[0.0, 1.0], [1.0, 0.0]]], [[1.0, 1.0]])

    S has the shape [N, K], [N, R, K] with replicas, or these with a leading B for a dense batch.
    """

    op: Operator  # A, or A~ where the objective is `normalised`
    s: Tensor
    products: PooledProducts | None = None  # S'AS and S'S, where a pooling layer has them already
    totals: Tensor | None = None  # S'1, where it is known
    words: Tensor | None = None  # S'X [B, K, F] ([B, R, K, F]) of features that are counts
    num_edges: Tensor | float | None = None  # what `edges` counts, per graph; None: found out
    num_words: Tensor | float = 0.0  # what `words` counts
    # The prices of the tables of edges and of words, where they are known already.
    edges_price: Tensor | None = None
    words_price: Tensor | None = None
    target: Tensor | None = None  # [R, K] sizes that L_o holds clusters to, in place of equal ones

    @property
    def edges(self) -> Tensor:
        """S'AS."""
        return quadratic_form(self.op, self.s) if self.products is None else self.products.quadratic

    @property
    def gram(self) -> Tensor:
        """S'S."""
        return self_gram(self.op.layout, self.s) if self.products is None else self.products.gram

    @property
    def sizes(self) -> Tensor:
        """S'1."""
        return self.op.layout.total(self.s) if self.totals is None else self.totals

    @property
    def cut_terms(self) -> tuple[Tensor, Tensor]:
        """Tr(S'AS) and Tr(S'DS)."""
        if self.products is None:
            return cut_terms(self.op, self.s)
        inside = self.products.quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)
        return inside, self.op.layout.total(
            per_row(self.op.degree_like(self.s), self.s) * self.s.square().sum(-1)
        )


def _mincut(tables: ClusterTables) -> tuple[Tensor, ...]:
    return -safe_ratio(*tables.cut_terms), orthogonality(tables.gram, tables.target)


def _ratio_trace(tables: ClusterTables) -> tuple[Tensor, ...]:
    cut = ratio_trace(tables.op, tables.s, quadratic=tables.edges)
    return -cut, orthogonality(tables.gram, tables.target)


def _dmon(tables: ClusterTables) -> tuple[Tensor, ...]:
    """Minus the modularity (0 without edges), and the term against collapse, in [0, sqrt(K) - 1]."""
    edges = tables.edges
    degrees = edges.sum(-1)  # S'd, since rows of S sum to 1
    twice_m = degrees.sum(-1)
    inside = edges.diagonal(dim1=-2, dim2=-1).sum(-1)
    modularity = safe_ratio(inside - safe_ratio(degrees.square().sum(-1), twice_m), twice_m)
    sizes = tables.sizes
    total = sizes.sum(-1)
    length = torch.linalg.vector_norm(sizes, dim=-1) * math.sqrt(sizes.shape[-1])
    some = above_zero(total)
    return -modularity, torch.where(some, length / torch.where(some, total, 1.0) - 1, 0.0)


def _just_balance(tables: ClusterTables) -> tuple[Tensor, ...]:
    """In [-1, -1 / sqrt(K)]: -1 for hard clusters of one size."""
    gram = tables.gram
    lengths = safe_sqrt(gram.diagonal(dim1=-2, dim2=-1)).sum(-1)
    return (-lengths / (tables.sizes.sum(-1) * gram.shape[-1]).clamp(min=1).sqrt(),)


def _evidence(tables: ClusterTables) -> tuple[Tensor, ...]:
    count = edge_count(tables.op) if tables.num_edges is None else tables.num_edges
    if isinstance(count, Tensor):  # [B], beside replicas
        count = count.to(tables.s.dtype).view(-1, *[1] * (tables.s.dim() - 1 - tables.op.layout.rows))
    gain = edge_gain(tables.edges, count, tables.edges_price)
    if tables.words is not None:
        gain = gain + word_gain(tables.words, tables.num_words, tables.words_price)
    sizes = tables.sizes
    # Divided by the entropy itself, it would be largest where that is next to 0.
    explained = safe_ratio(gain, sizes.sum(-1)) / entropy(sizes).clamp(min=LEAST_ENTROPY) ** 0.5
    # The evidence alone empties clusters that the features of a network do not show; sizes to keep prevent it.
    return (-explained,) if tables.target is None else (-explained, orthogonality(tables.gram, tables.target))


class Objective(NamedTuple):
    """How an objective is computed."""

    names: tuple[str, ...]  # of its losses: the objective, and the term that keeps clusters apart, if any
    normalised: bool  # whether it reads A~; otherwise A as it is
    losses: Callable[[ClusterTables], tuple[Tensor, ...]]  # one number per graph and replica for each name


_FAMILY = {
    "mincut": Objective(("cut", "ortho"), True, _mincut),
    "ratio_trace": Objective(("cut", "ortho"), True, _ratio_trace),
    "dmon": Objective(("spectral", "cluster"), False, _dmon),
    "just_balance": Objective(("balance",), True, _just_balance),
    "evidence": Objective(("evidence",), False, _evidence),
}
OBJECTIVES = tuple(_FAMILY)


def get_objective(name: str) -> Objective:
    """The objective of a name, or a sentence with the names that exist.

    >>> get_objective("dmon").names
    ('spectral', 'cluster')
    """
    if not isinstance(name, str) or name not in _FAMILY:
        raise ParameterError(
            f"objective must be one of {', '.join(OBJECTIVES)}, got {name!r}.", argument="objective"
        )
    return _FAMILY[name]


def dmon_loss(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""DMoN's loss: minus the modularity of S, plus its term against collapse.

    >>> import torch
    >>> from softcut.ops import dmon_loss
    >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])     # two separate edges
    >>> dmon_loss(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), edge_index)
    tensor(-0.5000)

    Parameters
    ----------
    s, adj, edge_weight, batch, mask, reduction
        As for :func:`softcut.ops.mincut_loss`; A is used as it is.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask)
        op.refuse_negative()
        return reduce_graphs(torch.stack(_dmon(ClusterTables(op, s))).sum(0), reduction, op.layout.occupied)


def just_balance_loss(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Just Balance: -Tr(sqrt(S'S)) / sqrt(N K), in [-1, -1 / sqrt(K)]; the root is taken entry by entry.

    >>> import torch
    >>> from softcut.ops import just_balance_loss
    >>> just_balance_loss(torch.eye(2), torch.tensor([[0, 1], [1, 0]]))
    tensor(-1.)

    Parameters
    ----------
    s, adj, edge_weight, batch, mask, reduction
        As for :func:`softcut.ops.mincut_loss`; the loss does not depend on the edges.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask)
        return reduce_graphs(_just_balance(ClusterTables(op, s))[0], reduction, op.layout.occupied)


def evidence_loss(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    words: Words | Tensor | None = None,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Minus the evidence of soft clusters, -(G_e + G_x) / (N H^1/2): what they explain of edges and words.

    >>> import torch
    >>> from softcut.ops import evidence_loss
    >>> ring = torch.arange(8)
    >>> edge_index = torch.cat([torch.stack([ring, ring ^ 1]), torch.stack([ring, ring ^ 2])], 1)   # two squares
    >>> apart = torch.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]]
    >>> across = torch.eye(2)[[0, 1, 0, 1, 0, 1, 0, 1]]
    >>> [round(evidence_loss(s, edge_index).item(), 3) for s in (apart, across)]
    [-0.455, 0.377]
    >>> round(evidence_loss(apart, edge_index, words=apart).item(), 3)
    -0.934

    Parameters
    ----------
    s, adj, edge_weight, batch, mask, reduction
        As for :func:`softcut.ops.mincut_loss`; A is used as it is. Every graph has tables of its own.
    words : Words or Tensor, optional
        Features that are counts, or 0 and 1: a :class:`~softcut.ops.Words` for a single graph, or a tensor
        [N, F] ([B, N, F] for a dense batch), not negative. None: the edges alone.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask)
        op.refuse_negative()
        table, count = word_table(op, s, words)
        tables = ClusterTables(op, s, words=table, num_words=count)
        return reduce_graphs(_evidence(tables)[0], reduction, op.layout.occupied)


def word_table(op: Operator, s: Tensor, words: Words | Tensor | None) -> tuple[Tensor | None, Tensor | float]:
    """S'X of every graph [B, K, F] ([B, R, K, F]) and how many words it counts; (None, 0) without words."""
    if words is None:
        return None, 0.0
    if isinstance(words, Words):
        if op.layout.rows != 1 or op.num_graphs != 1:
            raise GraphError("words must be a tensor of counts for a batch of graphs, not a Words object.")
        return op.layout.over_all(words.table(s)).unsqueeze(0), words.count
    words = check_tensor(words, "words", "counts of words").to(s.dtype)
    words = words.unsqueeze(0) if isinstance(op, Dense) and words.dim() == 2 else words
    if words.shape[:-1] != s.shape[: op.layout.rows]:
        raise GraphError(
            f"words must have the rows of s, {list(s.shape[: op.layout.rows])}, and then columns; got "
            f"{list(words.shape)}."
        )
    if can_be_read(words) and bool((words < 0).any()):
        raise GraphError(
            f"words must hold counts, which are not negative, got {words.min().item():g}; leave them out, or "
            "pass words=(x > 0) for their presence."
        )
    words = zero_padding(words, op.mask)
    count = safe_ratio(op.layout.total(words.sum(-1)).square(), op.layout.total(words.square().sum(-1)))
    if s.dim() == op.layout.rows + 2:
        words = words.unsqueeze(-2).expand(*words.shape[:-1], s.shape[-2], words.shape[-1])
        count = count.unsqueeze(-1)
    return op.layout.gram(s, words), count
