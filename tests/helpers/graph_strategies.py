"""Small graphs for the tests of ops and nn, and the paper's formulas in plain dense torch."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from softcut.ops import CSR, Dense, Operator, Sum


@dataclass(frozen=True)
class Sample:
    """A batch of graphs as PyTorch Geometric spells it, and ways to see the same graphs dense."""

    edge_index: Tensor
    edge_weight: Tensor | None
    sizes: tuple[int, ...]
    seed: int = 0

    @property
    def n(self) -> int:
        return sum(self.sizes)

    @property
    def ptr(self) -> Tensor:
        return torch.tensor([0, *self.sizes]).cumsum(0)

    @property
    def batch(self) -> Tensor:
        return torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes))

    @property
    def mask(self) -> Tensor:
        return torch.arange(max(self.sizes)) < torch.tensor(self.sizes).unsqueeze(1)

    def rand(self, *shape: int, salt: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Random numbers that belong to this sample."""
        generator = torch.Generator().manual_seed(self.seed + 7919 * salt)
        return torch.randn(*shape, dtype=dtype, generator=generator)

    def assignments(self, k: int, *, salt: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.softmax(2 * self.rand(self.n, k, salt=salt, dtype=dtype), -1)

    def block(self, edge_weight: Tensor | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """The block-diagonal adjacency [N, N]."""
        weight = self.edge_weight if edge_weight is None else edge_weight
        weight = torch.ones(self.edge_index.shape[1], dtype=dtype) if weight is None else weight.to(dtype)
        zero = torch.zeros(self.n, self.n, dtype=dtype)
        return zero.index_put((self.edge_index[0], self.edge_index[1]), weight, accumulate=True)

    def pad(self, x: Tensor) -> Tensor:
        """Rows [N, ...] to [B, n, ...], differentiable."""
        out = x.new_zeros(*self.mask.shape, *x.shape[1:])
        return out.index_put(self.mask.nonzero(as_tuple=True), x)

    def padded(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """The adjacency as [B, n, n]."""
        whole, out = self.block(dtype=dtype), torch.zeros(*self.mask.shape, max(self.sizes), dtype=dtype)
        for graph, (start, size) in enumerate(zip(self.ptr.tolist(), self.sizes, strict=False)):
            out[graph, :size, :size] = whole[start : start + size, start : start + size]
        return out

    def single(self, graph: int) -> "Sample":
        """One graph of the batch by itself."""
        start, stop = self.ptr[graph], self.ptr[graph + 1]
        mine = (self.edge_index[0] >= start) & (self.edge_index[0] < stop)
        weight = None if self.edge_weight is None else self.edge_weight[mine]
        return Sample(self.edge_index[:, mine] - start, weight, (self.sizes[graph],), self.seed)


def make_sample(
    sizes: tuple[int, ...],
    seed: int = 0,
    *,
    density: float = 0.5,
    weighted: bool = False,
    directed: bool = False,
    loops: bool = False,
    connected: bool = True,
    dtype: torch.dtype = torch.float64,
) -> "Sample":
    """Random graphs of the given sizes; `connected` puts a path through each of them."""
    generator = torch.Generator().manual_seed(seed)
    edges, weights, start = [], [], 0
    for size in sizes:
        present = torch.rand(size, size, generator=generator) < density
        weight = 0.2 + 2 * torch.rand(size, size, generator=generator, dtype=torch.float64)
        if connected:
            here = torch.arange(max(size - 1, 0))
            present[here, here + 1] = True
        if not directed:
            present = present.triu() | present.triu().T
            weight = weight.triu() + weight.triu(1).T
        if not loops:
            present.fill_diagonal_(False)
        row, col = present.nonzero(as_tuple=True)
        shuffle = torch.randperm(row.numel(), generator=generator)
        row, col = row[shuffle], col[shuffle]
        edges.append(torch.stack([row, col]) + start)
        weights.append(weight[row, col])
        start += size
    return Sample(torch.cat(edges, 1), torch.cat(weights).to(dtype) if weighted else None, tuple(sizes), seed)


@st.composite
def samples(
    draw: st.DrawFn,
    *,
    graphs: tuple[int, int] = (1, 4),
    nodes: tuple[int, int] = (2, 9),
    directed: bool | None = False,
    connected: bool | None = True,
) -> "Sample":
    """Batches of graphs; None leaves a property to chance."""
    sizes = draw(st.lists(st.integers(*nodes), min_size=graphs[0], max_size=graphs[1]))
    return make_sample(
        tuple(sizes),
        draw(st.integers(0, 2**20)),
        density=draw(st.sampled_from([0.0, 0.3, 0.8])),
        weighted=draw(st.booleans()),
        directed=draw(st.booleans()) if directed is None else directed,
        loops=draw(st.booleans()),
        connected=draw(st.booleans()) if connected is None else connected,
    )


OPERATOR_KINDS = (
    "binary",
    "weighted",
    "asymmetric",
    "ragged",
    "ragged weighted",
    "ragged with an empty graph",
    "sum",
    "ragged sum",
    "dense",
    "dense symmetric",
    "dense masked",
)


def make_operator(kind: str) -> tuple[Operator, Sample]:
    """An operator of each kind, in float64, and the sample it was made from."""
    weighted = kind not in ("binary", "ragged", "ragged with an empty graph")
    ragged = "ragged" in kind or "masked" in kind
    sizes = (3, 4, 2) if ragged else (5,)
    if kind == "ragged with an empty graph":
        sizes = (3, 0, 3)
    sample = make_sample(sizes, seed=len(kind), weighted=weighted, directed=kind == "asymmetric")
    if kind.startswith("dense"):
        op: Operator = Dense(sample.padded(), sample.mask if ragged else None, symmetric="symmetric" in kind)
        return op, sample
    op = CSR.from_edge_index(
        sample.edge_index, sample.edge_weight, sample.n, ptr=sample.ptr if ragged else None
    )
    if "sum" in kind:
        other = make_sample(sizes, seed=99)
        more = CSR.from_edge_index(other.edge_index, None, other.n, ptr=other.ptr if ragged else None)
        op = Sum([op, more], [1.0, 0.7])
    return op, sample


def rows_for(op: Operator, sample: Sample, x: Tensor) -> Tensor:
    """Rows [N, ...] in the layout of the operator."""
    return x if op.layout.rows == 1 else sample.pad(x)


# The paper's formulas, dense and direct: what every fast path is compared with.


def plain_normalise(adj: Tensor) -> Tensor:
    degree = adj.sum(-1)
    scale = torch.where(degree > 0, degree.clamp(min=1e-300), torch.inf) ** -0.5
    return scale.unsqueeze(-1) * adj * scale.unsqueeze(-2)


def plain_cut(adj: Tensor, s: Tensor) -> Tensor:
    """L_c of one graph, from the normalised adjacency."""
    volume = torch.trace(s.T @ torch.diag(adj.sum(-1)) @ s)
    return -torch.trace(s.T @ adj @ s) / volume if volume > 0 else 0.0 * s.sum()


def plain_orthogonality(s: Tensor) -> Tensor:
    """L_o of one graph."""
    k, gram = s.shape[1], s.T @ s
    return torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(k, dtype=s.dtype) / math.sqrt(k))


def plain_pool(adj: Tensor, s: Tensor) -> Tensor:
    """The pooled adjacency of one graph, from the normalised one."""
    pooled = s.T @ adj @ s
    return plain_normalise(pooled - torch.diag(torch.diag(pooled)))


def presence(sample: Sample, words: int = 4) -> Tensor:
    """Which words the nodes of a sample have."""
    return (sample.rand(sample.n, words, salt=5) > 0.3).double()


def plain_information(table: np.ndarray) -> float:
    """The mutual information of a table, entry by entry."""
    p = np.asarray(table, dtype=float)
    p = p / p.sum() if p.sum() else p
    expected = np.outer(p.sum(1), p.sum(0))
    return sum(
        share * math.log(share / product)
        for share, product in zip(p.flat, expected.flat, strict=True)
        if share > 0
    )


def plain_complexity(categories: int, n: float) -> float:
    """log C(K, n) by the uniform approximation, with alpha = K / n, less 1 / (6 K) of Stirling's series."""
    if categories < 2 or n == 0:
        return 0.0
    alpha = categories / n
    c = 0.5 + 0.5 * math.sqrt(1 + 4 / alpha)
    bulk = n * (math.log(alpha) + (alpha + 2) * math.log(c) - 1 / c)
    return bulk - 0.5 * math.log(c + 2 / alpha) - 1 / (6 * categories)


def plain_evidence(adj: Tensor, s: Tensor, x: Tensor | None = None) -> float:
    """What soft clusters explain of one graph, (G_e + G_x) / (N H^1/2)."""
    adj, s = adj.detach().numpy(), s.detach().numpy()
    n, k = s.shape
    gain = 0.0
    if adj.sum() > 0:
        edges = adj.sum() ** 2 / (adj**2).sum() / 2
        gain += edges * plain_information(s.T @ adj @ s) - plain_complexity(k * (k + 1) // 2, edges)
    if x is not None and x.sum() > 0:
        x = x.numpy()
        words = x.sum() ** 2 / (x**2).sum()
        each = words * x.sum(0) / x.sum()
        gain += words * plain_information(s.T @ x) - sum(plain_complexity(k, count) for count in each)
    sizes = s.sum(0) / n
    entropy = -sum(share * math.log(share) for share in sizes if share > 0)
    return gain / (n * max(entropy, 1e-6) ** 0.5)
