"""Features for clustering: reduced, propagated over the graph, and made where there are none.

    X -> scaled rows -> projection V (truncated SVD, half whitened) -> mean over hops of P^h -> Z

with P = sym-norm(A + I). The projection comes before the propagation, P^h (X V) = (P^h X) V, so every hop is
a product with a narrow dense matrix however many features there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR, Operator
from softcut.ops.numerics import inverse_sqrt, row_blocks

_SAME_ROWS = 1e-4  # rows of unit length that differ by less are the same row
BLOCK_ROWS = 1 << 15  # rows of a large graph that are in float64 at a time


def sample_rows(n: int, most: int) -> Tensor:
    """Different row numbers below `n`, rising: `most` of them at random, or all where there are not more."""
    if n <= most:
        return torch.arange(n)
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most].sort().values


class Nodes:
    """All nodes of a graph, on this machine.

    :mod:`softcut.clustering.distributed` has the same methods for nodes that are spread over processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.here = count  # the most that one process has

    def sample(self, rows: Tensor, most: int) -> Tensor:
        """Rows of a sample of at most `most` nodes [m, ...], the same sample at every call."""
        return rows if self.count <= most else rows[sample_rows(self.count, most).to(rows.device)]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all nodes, given the sum over the nodes of this process."""
        return values

    def agreed(self, values: Tensor) -> Tensor:
        """Numbers that must be the same, to the bit, on every process."""
        return values


# ------------------------------------------------------------------------------------------------ features


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero."""
    return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def propagate(op: Operator, x: Tensor, hops: int) -> Tensor:
    """P^h X with P = sym-norm(A + I): each hop mixes a node's features with its neighbours'."""
    scale = inverse_sqrt(op.degree.to(x.dtype) + 1).unsqueeze(-1)
    for _ in range(hops):
        inner = scale * x
        x = (op @ inner).add_(inner).mul_(scale)
    return x


def apart_from_constant(op: Operator, x: Tensor, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
    """X = u c' + rest, with u the eigenvector (D + 1)^1/2 1 of P: u [N] and c [F] in float64, and the rest.

    P leaves u c' as it is. What many hops leave of the rest is small beside it: propagated apart, it keeps its digits
    in single precision.
    """
    u = (op.degree.double() + 1).sqrt()
    u = u / nodes.total(u.square().sum()).sqrt()
    blocks, rest = row_blocks(len(x), BLOCK_ROWS), torch.empty_like(x)
    c = nodes.total(sum((u[block] @ x[block].double() for block in blocks), u.new_zeros(x.shape[1])))
    for block in blocks:
        rest[block] = torch.addr(x[block].double(), u[block], c, alpha=-1)
    return u, c, rest


def structural_features(graph: Graph, *, local: bool = False) -> np.ndarray:
    """Features for a graph that has none: the :func:`positions` of its nodes, which cannot be compared between graphs.

    With ``local=True`` what each node has around it (degrees, and their means over growing neighbourhoods), which
    carries over to other graphs.
    """
    op = CSR.from_graph(graph)
    if local:
        degree = torch.log1p(op.degree).unsqueeze(-1)
        return torch.cat([propagate(op, degree, hops) for hops in (0, 1, 2, 4, 8)], dim=1).numpy()
    return positions(op).numpy()


def positions(op: CSR, n_components: int = 32, random_state: int = 0) -> Tensor:
    """Leading eigenvectors of (D + d/2)^-1/2 A (D + d/2)^-1/2 times their squared eigenvalues, in rows of unit length.

    d is the mean degree: without it the leading eigenvectors are those of nearly isolated nodes and small components.
    Where all nodes have the same position (no edges, a complete graph) the rows are 0. Found by subspace iteration:
    near enough for features, some eighty sparse products.
    """
    n = op.num_rows
    degree = op.degree.float()
    scale = (degree + degree.mean().clamp(min=1e-12) / 2).rsqrt().unsqueeze(-1)

    def product(x: Tensor) -> Tensor:
        return scale * (op @ (scale * x))

    generator = torch.Generator().manual_seed(random_state)
    block = torch.randn(n, max(1, min(n_components, n)), generator=generator).to(degree.device)
    block = torch.linalg.qr(block)[0]
    for _ in range(20):
        for _ in range(4):
            block = (block + product(block)) / 2  # the largest eigenvalues first, not the most negative
        block = torch.linalg.qr(block)[0]
    small = block.mT @ product(block)
    values, turn = torch.linalg.eigh(((small + small.mT) / 2).double())
    modes, values = block @ turn.flip(1).to(block.dtype), values.flip(0).to(block.dtype)
    joined = op.degree.unsqueeze(-1) > 0  # a node without edges has no position
    rows = torch.where(joined, unit_rows(modes * values.clamp(min=0).square()), 0.0)
    own = rows[joined.squeeze(-1)]
    alike = not len(own) or float((own - own.mean(0)).abs().max()) < _SAME_ROWS
    return torch.zeros_like(rows) if alike else rows


def rows_that_sum_to_one(graph: Graph) -> Any:
    """The features of a graph, each row divided by its sum of absolute values; sparse stays sparse."""
    x: Any = graph.x
    if x is None:
        raise GraphError("graph has no features; give x when making it.")
    total = np.asarray(abs(x).sum(axis=1)).ravel()
    inverse = 1 / np.where(total > 0, total, 1)
    return sp.csr_array(sp.diags_array(inverse) @ x) if sp.issparse(x) else x * inverse[:, None]
