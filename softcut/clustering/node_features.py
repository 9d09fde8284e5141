"""Features for clustering: reduced, propagated over the graph, and made where there are none.

    X -> scaled rows -> projection V (truncated SVD, half whitened) -> mean over hops of P^h -> Z

with P = sym-norm(A + I). The projection comes before the propagation, P^h (X V) = (P^h X) V, so every hop is
a product with a narrow dense matrix however many features there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits
from torch import Tensor

from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.metrics.features import looks_like_words
from softcut.ops import CSR, CSRPattern, Operator
from softcut.ops.numerics import inverse_sqrt
from softcut.ops.spmm import sparse_product

Features: TypeAlias = np.ndarray | sp.csr_array
_SAME_ROWS = 1e-4  # rows of unit length that differ by less are the same row
_EXTRA, _STEPS = (
    10,
    4,
)  # directions beside the wanted ones, as in scikit-learn's randomised SVD; products with X'X


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
        """Rows of at most so many nodes [m, ...], drawn from all: the same ones every time."""
        return rows if self.count <= most else rows[sample_rows(self.count, most).to(rows.device)]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all nodes, of what was summed over the nodes that are here."""
        return values

    def agreed(self, values: Tensor) -> Tensor:
        """Numbers that every process must have to the bit."""
        return values


# ------------------------------------------------------------------------------------------------ features


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero."""
    return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def _dense(x: Any) -> np.ndarray:
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)


def _unit_rows_array(x: Any) -> Any:
    if sp.issparse(x):
        length = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1 / np.where(length > 0, length, 1)) @ x)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


class FeatureRows:
    """A constant matrix with rows (x - offset) * weight, of length 1 if `unit`. A sparse x [N, F] has no offset."""

    def __init__(
        self,
        x: Any,
        *,
        weight: np.ndarray | None = None,
        offset: np.ndarray | None = None,
        unit: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self.shape: tuple[int, int] = x.shape
        factor = None if weight is None else torch.from_numpy(weight).to(device)
        self.pattern: CSRPattern | None = None
        if not sp.issparse(x):
            self.values = torch.as_tensor(x).to(device=device, dtype=torch.float32)
            if offset is not None:
                self.values = self.values - torch.from_numpy(offset).to(device)
            self.values = self.values if factor is None else self.values * factor
            length = self.values.norm(dim=1, keepdim=True) if unit else None
        else:
            matrix = sp.csr_array(x)
            if not matrix.has_sorted_indices:
                matrix = matrix.sorted_indices()
            self.pattern = CSRPattern.from_scipy(matrix).to(device or torch.device("cpu"))
            self.values = torch.as_tensor(matrix.data).to(device=device, dtype=torch.float32)
            if factor is not None:
                self.values = self.values * factor[self.pattern.col]
            # Sums of squares of the rows: a product with a single column of ones.
            ones = self.values.new_ones(self.shape[1], 1)
            squares = sparse_product(self.pattern, self.values.square(), ones).squeeze(1) if unit else None
            length = None if squares is None else squares.sqrt()[self.pattern.rows]
        if length is not None:
            self.values = self.values / torch.where(length > 0, length, 1.0)

    def times(self, v: Tensor) -> Tensor:
        """X V, [N, d]."""
        return self.values @ v if self.pattern is None else sparse_product(self.pattern, self.values, v)

    def turned_times(self, y: Tensor) -> Tensor:
        """X' Y, [F, d]."""
        if self.pattern is None:
            return self.values.mT @ y
        turned, order = self.pattern.transpose
        return sparse_product(turned, self.values[order], y)


def leading_directions(rows: FeatureRows, d: int) -> tuple[Tensor, Tensor]:
    """The d leading right singular vectors [F, d] of X and its singular values [d], float64.

    Subspace iteration with X'X: what is made orthogonal has F rows, not N.
    """
    f = rows.shape[1]
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(f, min(f, d + _EXTRA), generator=generator, dtype=torch.float64)
    block = torch.linalg.qr(block)[0].to(rows.values.device)

    def product(v: Tensor) -> Tensor:
        return rows.turned_times(rows.times(v.float())).double()

    for _ in range(_STEPS):
        block = torch.linalg.qr(product(block))[0]
    small = block.mT @ product(block)
    values, turn = torch.linalg.eigh((small + small.mT) / 2)
    return (block @ turn).flip(1)[:, :d], values.flip(0)[:d].clamp(min=0).sqrt()


@dataclass
class FeatureMap:
    """From raw node features to a few well-scaled columns, the same way for every graph.

    Bags of words are weighted by inverse document frequency where they are binary, and their rows scaled to unit
    length; other features are standardised. Then a truncated SVD, and half whitening: column j is divided by the square
    root of its standard deviation, so that the leading directions do not hide the others.
    """

    matrix: np.ndarray  # [F, F'], the projection, whitening included
    weight: np.ndarray | None = None  # [F], inverse document frequencies of words; scale of other features
    offset: np.ndarray | None = None  # [F], mean of features that are not words
    recipe: Recipe = DEFAULT

    @classmethod
    def fit(cls, x: Features, recipe: Recipe = DEFAULT, device: torch.device | None = None) -> FeatureMap:
        """Learn the map from the features of the training graph; those of a large one on `device`."""
        n, f = x.shape
        values = np.asarray(x.data if sp.issparse(x) else x[np.nonzero(x)])
        weight = offset = None
        if not looks_like_words(x):
            dense = _dense(x)
            offset, deviation = dense.mean(axis=0), dense.std(axis=0)
            least = 1e-6 * max(1e-12, float(deviation.max(initial=0)))
            weight = (1 / np.where(deviation > least, deviation, np.inf)).astype(np.float32)
        elif values.size and values.min() == values.max():
            count = np.bincount(sp.csr_array(x).indices, minlength=f)
            weight = (np.log((1 + n) / (1 + count)) + 1).astype(np.float32)
        unprojected = cls(np.zeros((f, 0), dtype=np.float32), weight, offset, recipe)
        d = min(recipe.components, n, f)
        if d == 0:
            return unprojected
        if n > recipe.large:
            v, s = (t.cpu().numpy() for t in leading_directions(unprojected._on_device(x, device), d))
        else:
            # One thread: the QR steps inside are small, and threads fighting for cores make them many times slower.
            with threadpool_limits(1, user_api="blas"):
                options = {"n_iter": 4, "power_iteration_normalizer": "QR", "random_state": 0}
                _, s, vt = randomized_svd(unprojected._rows(x), d, **options)
            v = vt.T
        deviation = s / max(1, n) ** 0.5
        keep = deviation > 1e-6 * deviation.max(initial=0)
        matrix = v[:, keep] / np.sqrt(deviation[keep])
        return replace(unprojected, matrix=np.ascontiguousarray(matrix, dtype=np.float32))

    @property
    def words(self) -> bool:
        """Whether the features are treated as a bag of words."""
        return self.offset is None

    @property
    def directions(self) -> bool:
        """Whether propagated columns are so many that only the direction of a row counts."""
        return self.matrix.shape[1] >= self.recipe.many_columns

    def _on_device(self, x: Features, device: torch.device | None) -> FeatureRows:
        given = sp.csr_array(x) if self.words else _dense(x)
        unit = self.words or x.shape[1] >= self.recipe.many_columns
        return FeatureRows(given, weight=self.weight, offset=self.offset, unit=unit, device=device)

    def _rows(self, x: Features) -> Any:
        if self.words:
            if self.weight is not None:
                x = sp.csr_array(x) @ sp.diags_array(self.weight)
            return _unit_rows_array(x)
        rows = (_dense(x) - self.offset) * self.weight
        # A few columns are positions or measurements, where length means something; many are a direction.
        return _unit_rows_array(rows) if rows.shape[1] >= self.recipe.many_columns else rows

    def transform(self, x: Features) -> np.ndarray:
        """Columns [N, F'], float32."""
        return np.asarray(self._rows(x) @ self.matrix, dtype=np.float32)

    def project(self, x: Features, device: torch.device) -> Tensor:
        """The same columns on a device; the rows of a large graph are scaled and projected there."""
        if x.shape[0] <= self.recipe.large:
            return torch.from_numpy(self.transform(x)).to(device)
        return self._on_device(x, device).times(torch.from_numpy(self.matrix).to(device))


def propagate(op: Operator, x: Tensor, hops: int) -> Tensor:
    """P^h X with P = sym-norm(A + I): each hop mixes a node's features with its neighbours'."""
    scale = inverse_sqrt(op.degree.to(x.dtype) + 1).unsqueeze(-1)
    for _ in range(hops):
        inner = scale * x
        x = scale * (op @ inner + inner)
    return x


def apart_from_constant(op: Operator, x: Tensor, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
    """X = u c' + rest, with u the eigenvector (D + 1)^1/2 1 of P: u [N] and c [F] in float64, and the rest.

    P leaves u c' as it is. What many hops leave of the rest is small beside it: propagated apart, it keeps its digits
    in single precision.
    """
    u = (op.degree.double() + 1).sqrt()
    u = u / nodes.total(u.square().sum()).sqrt()
    c = nodes.total(u @ x.double())
    return u, c, torch.addr(x.double(), u, c, alpha=-1).to(x.dtype)


def structural_features(graph: Graph, *, local: bool = False) -> np.ndarray:
    """Features for a graph that has none: the :func:`positions` of its nodes, which mean nothing in another graph.

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
