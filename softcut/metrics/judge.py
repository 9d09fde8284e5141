r"""Evidence: how much of a graph a clustering explains, judged without classes (docs/metrics.md has the reasons).

A clustering c of N nodes is a message of N H(c) nats (H: entropy of the cluster sizes). What it tells about the data
is counted in the same unit, less log C, the cost of describing a table that was fitted to the data
(:func:`softcut.ops.information.multinomial_complexity`):

    edges      G_e = E I(c(u); c(v)) - log C(K(K+1)/2, E)      mutual information of the K x K table S'AS of E edges
    features   G_x = W I(word; c) - sum_w log C(K, n_w)        of the K x F table S'X of W words, n_w of them word w
    evidence   (G_e + G_x) / (N H(c))                          nats explained per nat of labels

Whether there is anything to find is another question: only what pays counts, and columns that go together count once.

    told       words: max_q sum_w log(1 - q + q exp g_w),  g_w = n_w D_w - log C(K, n_w)
               measurements: what clusters say along principal axes (:mod:`softcut.metrics.features`)
    structure  (max(G_e, 0) + max(told, 0)) / (N H(c))

A share q of the words (1, 1/2, 1/4, ...) tells clusters apart, and the others are described without them; D_w is the
divergence of the clusters of word w from those of all words, so that n_w D_w sum to W I.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.metrics.features import (
    BINS,
    axes_gain,
    axes_table,
    looked_at,
    presence,
    principal_axes,
    told_by,
)
from softcut.ops import CSRPattern, entropy
from softcut.ops.information import (
    edge_gain,
    edge_price,
    multinomial_complexity,
    word_gain,
    word_gains,
    word_price,
)
from softcut.ops.spmm import spmm
from softcut.tables.kinds import NUMBER, kinds_of_columns


@dataclass(frozen=True)
class Evidence:
    """What a clustering explains, in nats: numbers, or one of each per clustering.

    >>> parts = Evidence(edges=30.0, features=-10.0, entropy=0.5, nodes=40)
    >>> parts.value, parts.structure, parts.description_length
    (1.0, 1.5, 0.0)
    """

    edges: Any  # G_e; like G_x less its price, and negative where a table costs more than it explains
    features: Any  # G_x
    entropy: Any  # H(c), of the cluster sizes
    nodes: int  # N
    told: Any = None  # what one clustering says about the features that pay; None, for several: G_x

    def __getitem__(self, clusterings: Sequence[int]) -> Evidence:
        """Of some of several clusterings."""
        some = list(clusterings)
        return Evidence(self.edges[some], self.features[some], self.entropy[some], self.nodes)

    @property
    def value(self) -> Any:
        """(G_e + G_x) / (N H); 0 for a single cluster."""
        return _ratio(self.edges + self.features, self.nodes * self.entropy)

    @property
    def structure(self) -> Any:
        """Of what pays: edges or features, words or axes that say nothing take nothing from those that do."""
        told = self.features if self.told is None else self.told
        return _ratio(_positive(self.edges) + _positive(told), self.nodes * self.entropy)

    @property
    def paid(self) -> Any:
        """As `value`, of the tables that pay: one that says nothing takes nothing from the other."""
        return _ratio(_positive(self.edges) + _positive(self.features), self.nodes * self.entropy)

    @property
    def description_length(self) -> Any:
        """Nats that the labels and both tables take, less what they save; negative where clusters pay."""
        return self.nodes * self.entropy - self.edges - self.features


def _ratio(gain: Any, cost: Any) -> Any:
    if isinstance(cost, Tensor):
        return torch.where(cost > 0, gain / cost, 0.0)
    return gain / cost if cost > 0 else 0.0


def _positive(gain: Any) -> Any:
    return gain.clamp(min=0) if isinstance(gain, Tensor) else max(gain, 0.0)


# What weights of edges are scaled to sum to: float64 holds every whole number up to 2^53.
_EXACT = 2.0**50
_WIDE = 2_000  # clusters from which on only pairs that have edges are counted: tables [K, K] would not fit
_AT_ONCE = 1 << 18  # numbers in the tables of several clusterings that are judged together


class Judge:
    """The edges and the words of one graph, ready to judge many clusterings of it.

    >>> import torch
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
    >>> judge = Judge(graph.adjacency, graph.x)
    >>> classes = torch.from_numpy(graph.y)
    >>> shuffled = classes[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    >>> values = judge(torch.stack([classes, shuffled], dim=1), 3).value
    >>> bool(values[0] > 1 > values[1])
    True

    `adjacency` is symmetric; unequal weights count in proportion, as (sum w)^2 / (2 sum w^2) edges. Features `x` count
    by presence where they are words, other columns in bins; `words` is :func:`~softcut.metrics.features.presence` of
    them, where it is known already. Labels will be on `device`.
    """

    def __init__(
        self,
        adjacency: Any,
        x: Any = None,
        device: torch.device | None = None,
        words: sp.csr_array | None = None,
        kinds: np.ndarray | None = None,
    ) -> None:
        device = device or torch.device("cpu")
        entries = sp.coo_array(adjacency)
        self.nodes = int(entries.shape[0])  # N; self.edges is E

        def index(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(device).long()

        self._row, self._column = index(entries.row), index(entries.col)
        self._weight: Tensor | None = None
        weight = np.asarray(entries.data)
        if weight.size == 0 or weight.min() == weight.max():
            self.edges = int(np.count_nonzero(weight)) / 2
        else:
            weight = weight.astype(np.float64) / weight.max()  # squares stay finite
            total = float(weight.sum())
            self.edges = total * total / float((weight * weight).sum()) / 2
            # Whole numbers whose sums are exact: a GPU adds in any order, and the result is the same to the bit.
            self._weight = torch.from_numpy(np.rint(weight * (_EXACT / total))).to(device)
        self.axes: Tensor | None = None  # of features that are measurements, of the nodes looked at
        bins = 0  # the last columns of `words` that are bins of measurements
        if x is None:
            words = sp.csr_array((self.nodes, 0))
        else:
            kinds = kinds_of_columns(x) if kinds is None else kinds
            words = presence(x, kinds) if words is None else words
            numbers = kinds == NUMBER
            if numbers.any():
                measured = x if numbers.all() else x[:, numbers]
                self.axes = torch.from_numpy(principal_axes(measured)).to(device)
                self._seen = index(looked_at(self.nodes))
                bins = int(numbers.sum()) * BINS
        count = np.bincount(words.indices, minlength=words.shape[1])
        occurs = count.astype(bool)
        place = np.cumsum(occurs) - 1
        self._own_words = int(occurs[: len(count) - bins].sum())
        self.counts = torch.from_numpy(count[occurs].astype(np.float64)).to(device)  # of words that occur
        shape = (len(self.counts), self.nodes)  # X', of words that occur
        turned = sp.csr_array((words.data, place[words.indices], words.indptr), shape=shape[::-1]).T.tocsr()
        turned.sort_indices()
        self._words_of = CSRPattern.from_scipy(turned).to(device)

    def tables(self, labels: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """S'AS [K, K], S'X [K, F] and S'1 [K] of labels [N], float64."""
        sizes = torch.bincount(labels, minlength=k).double()
        place = labels[self._row] * k + labels[self._column]
        edges = torch.bincount(place, self._weight, minlength=k * k).view(k, k).double()
        # A product with indicators, in which float32 counts up to 2^24 without error: much faster than counting.
        exact = torch.float32 if self.nodes < 1 << 24 else torch.float64
        indicator = torch.zeros(self.nodes, k, dtype=exact, device=labels.device)
        words = spmm(self._words_of, None, indicator.scatter_(1, labels.unsqueeze(1), 1.0))
        return edges, words.mT.double(), sizes

    def sparse_gain(self, labels: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """G_e, S'X and S'1 without a table of all pairs of clusters or of nodes and clusters.

        >>> judge = Judge(sp.csr_array(np.eye(6)[[1, 2, 0, 4, 5, 3]] + np.eye(6)[[2, 0, 1, 5, 3, 4]]))
        >>> labels = torch.tensor([0, 0, 0, 1, 1, 1])
        >>> bool(torch.isclose(judge.sparse_gain(labels, 2)[0], judge(labels, 2).edges))
        True
        """
        sizes = torch.bincount(labels, minlength=k).double()
        own, other = labels[self._row], labels[self._column]
        pairs, which = torch.unique(own * k + other, return_inverse=True)
        counts = torch.bincount(which, self._weight, minlength=len(pairs)).double()
        rows, columns = (torch.bincount(side, self._weight, minlength=k).double() for side in (own, other))
        gain = counts.new_zeros(())
        if self.edges and len(pairs):
            total = counts.sum()
            margins = rows[pairs // k] / total * columns[pairs % k]
            information = torch.xlogy(counts, counts / margins).sum() / total
            gain = self.edges * information - edge_price(k, self.edges).to(counts)
        words = self._words_of
        have = sp.csr_array(
            (np.ones(words.nnz), words.col.cpu().numpy(), words.rowptr.cpu().numpy()), shape=words.shape
        )
        nodes = np.arange(self.nodes)
        member = sp.csr_array((np.ones(self.nodes), (nodes, labels.cpu().numpy())), shape=(self.nodes, k))
        table = torch.from_numpy(np.asarray((have @ member).toarray())).to(labels.device)
        return gain, table.mT, sizes

    def axes_table(self, labels: Tensor, k: int) -> Tensor:
        """What :func:`softcut.metrics.features.axes_gain` reads, for labels [N]."""
        assert self.axes is not None
        return axes_table(self.axes, labels[self._seen], k)

    def __call__(self, labels: Tensor, k: int) -> Evidence:
        """Judge `labels` [N] or [N, R] from 0 to `k` - 1; each part is [] or [R], float64; only [N] has `told`."""
        single = labels.dim() == 1
        columns = [labels] if single else [labels[:, r].contiguous() for r in range(labels.shape[1])]
        num_words = float(self.counts.sum())
        words_price = word_price(k, self.counts)
        # Small tables are judged together: for each alone, calls would cost more than the arithmetic.
        at_once = 1 if k > _WIDE else max(1, _AT_ONCE // max(1, k * (k + len(self.counts))))
        parts = []
        for first in range(0, len(columns), at_once):
            if k > _WIDE:
                gain, words, sizes = (part.unsqueeze(0) for part in self.sparse_gain(columns[first], k))
            else:
                each = [self.tables(column, k) for column in columns[first : first + at_once]]
                edges, words, sizes = (torch.stack(tables) for tables in zip(*each, strict=True))
                gain = edge_gain(edges, self.edges) if self.edges else edges.new_zeros(len(edges))
            parts.append((gain, word_gain(words, num_words, words_price), entropy(sizes)))
        of_edges, of_words, entropies = (torch.cat(part) for part in zip(*parts, strict=True))
        if not single:
            return Evidence(of_edges, of_words, entropies, self.nodes)
        return Evidence(of_edges[0], of_words[0], entropies[0], self.nodes, self._told(words[0], labels, k))

    def _told(self, words: Tensor, labels: Tensor, k: int) -> Tensor:
        """What `labels` say about the features, of which only those count that pay."""
        told = labels.new_zeros((), dtype=torch.float64)
        if self.axes is not None:
            table = self.axes_table(labels, k)
            told = axes_gain(table) * (self.nodes / table[:, -1].sum())
        if self._own_words == 0 and self.axes is not None:
            return told
        own = words[:, : self._own_words]
        each = word_gains(own) - multinomial_complexity(k, self.counts[: self._own_words])
        of_words, _ = told_by(each)
        return of_words if self.axes is None else told.clamp(min=0) + of_words.clamp(min=0)
