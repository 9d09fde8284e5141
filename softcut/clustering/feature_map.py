"""Raw node features as a few well-scaled columns.

    X -> scaled rows -> projection V (truncated SVD, half whitened)

Words are weighted by inverse document frequency where they are binary, and their rows scaled to unit length. Numbers
are standardised, robustly, and the values of a category share the variance of one column. Where there are several
kinds, each column of numbers, each category and all words together have a variance in proportion to what they hold:
how alike neighbours in the graph are in them, beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.ops import CSRPattern
from softcut.ops.spmm import sparse_product
from softcut.tables.kinds import NUMBER, WORD, constant_columns, kinds_of_columns
from softcut.tables.scaling import LIMIT, centre_and_scale

Features: TypeAlias = np.ndarray | sp.csr_array
# Directions beside the wanted ones, as in scikit-learn's randomised SVD; products with X'X.
_EXTRA, _STEPS = 10, 4
_LEAST = 0.05  # of the largest factor: no column is left out altogether


def _dense(x: Any) -> np.ndarray:
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)


def _in_range(values: np.ndarray) -> Any:
    """A power of two that brings values to about 1, so that their squares are finite."""
    most = float(np.abs(values).max(initial=0))
    return values.dtype.type(2.0 ** -np.frexp(most)[1])


def _unit_rows_array(x: Any) -> Any:
    if sp.issparse(x):
        x = x * _in_range(x.data)
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
            data = matrix.data * _in_range(matrix.data) if unit else matrix.data
            self.values = torch.as_tensor(data).to(device=device, dtype=torch.float32)
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


def randomised_svd(x: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The d largest singular values of X and their right singular vectors [d, F], for a matrix in memory.

    The same numbers as scikit-learn's ``randomized_svd`` with ``power_iteration_normalizer="QR"``. That checks its
    input, and imports a package of data frames to do so: a tenth of the time of a first fit of a few hundred nodes.
    """

    def orthogonal(columns: np.ndarray) -> np.ndarray:
        return scipy.linalg.qr(columns, mode="economic", check_finite=False)[0]

    block = np.random.RandomState(0).normal(size=(x.shape[1], d + _EXTRA)).astype(x.dtype, copy=False)
    for _ in range(_STEPS):
        block = orthogonal(x.T @ orthogonal(x @ block))
    block = orthogonal(x @ block)
    turn, values, vectors = scipy.linalg.svd(block.T @ x, full_matrices=False)
    left = block @ turn
    # Networks would begin elsewhere with another sign: the largest entry on the left is positive.
    signs = np.sign(left[np.abs(left).argmax(0), np.arange(left.shape[1])])
    return values[:d], (vectors * signs[:, None])[:d]


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
    vectors = (block @ turn).flip(1)[:, :d]
    # Networks would begin elsewhere with another sign: the largest entry is positive.
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return vectors * torch.where(largest < 0, -1.0, 1.0), values.flip(0)[:d].clamp(min=0).sqrt()


class Beside:
    """Several matrices beside each other, each with the columns `at` of the whole times a `scale`."""

    def __init__(self, parts: list[tuple[np.ndarray, FeatureRows, np.ndarray]]) -> None:
        device = parts[0][1].values.device
        self.values = parts[0][1].values
        self.shape = (parts[0][1].shape[0], sum(len(at) for at, _, _ in parts))
        self._parts = [
            (torch.from_numpy(at).to(device), rows, torch.from_numpy(scale).to(device).unsqueeze(1))
            for at, rows, scale in parts
        ]

    def times(self, v: Tensor) -> Tensor:
        """X V, [N, d]."""
        return torch.stack([rows.times(v[at] * scale) for at, rows, scale in self._parts]).sum(0)

    def turned_times(self, y: Tensor) -> Tensor:
        """X' Y, [F, d]."""
        result = y.new_empty(self.shape[1], y.shape[1])
        for at, rows, scale in self._parts:
            result[at] = rows.turned_times(y) * scale
        return result


@dataclass
class FeatureMap:
    """From raw node features to a few well-scaled columns, the same way for every graph.

    After scaling, a truncated SVD, and half whitening: column j is divided by the square root of its standard
    deviation, so that the leading directions do not hide the others.
    """

    matrix: np.ndarray  # [F, F'], the projection, with the weights of columns and whitening
    kinds: np.ndarray  # [F], see softcut.tables.kinds
    weight: np.ndarray | None = None  # [F], inverse document frequencies of words; scale of other features
    offset: np.ndarray | None = None  # [F], centre of features that are not words
    recipe: Recipe = DEFAULT

    @classmethod
    def fit(
        cls,
        x: Features,
        recipe: Recipe = DEFAULT,
        device: torch.device | None = None,
        kinds: np.ndarray | None = None,
        adjacency: Any = None,
    ) -> FeatureMap:
        """Learn the map from the features of the training graph; those of a large one on `device`.

        Columns of several kinds are compared by `adjacency`.
        """
        n, f = x.shape
        kinds = kinds_of_columns(x) if kinds is None else kinds
        weight = offset = None
        if (kinds != WORD).any():
            offset, weight = np.zeros(f, np.float32), np.ones(f, np.float32)
            others = kinds != WORD
            offset[others], weight[others] = centre_and_scale(_dense(x[:, others]), kinds[others])
        words = kinds == WORD
        if words.any():
            common = np.zeros(f, dtype=bool)  # words that are equally frequent in all nodes tell none apart
            common[words] = constant_columns(x[:, words]) if n else False
            words &= ~common
            counted = sp.csr_array(x[:, words])
            once = bool(counted.nnz) and counted.data.min() == counted.data.max()  # there or not, no counts
            if once or common.any():
                weight = np.ones(f, np.float32) if weight is None else weight
                weight[common] = 0
                if once:
                    count = np.bincount(counted.indices, minlength=counted.shape[1])
                    weight[words] = np.log((1 + n) / (1 + count)) + 1
        raw = cls(np.zeros((f, 0), dtype=np.float32), kinds, weight, offset, recipe)
        d = min(recipe.components, n, f if weight is None else np.count_nonzero(weight))
        if d == 0:
            return raw
        say = raw._say(x, adjacency)
        v, s = raw._directions(x, d, say, device)
        deviation = s / n**0.5
        keep = deviation > 1e-6 * deviation.max(initial=0)
        matrix = v[:, keep] / np.sqrt(deviation[keep])
        matrix = matrix if say is None else matrix * say[:, None]
        return replace(raw, matrix=np.ascontiguousarray(matrix, dtype=np.float32))

    def _directions(
        self, x: Features, d: int, say: np.ndarray | None, device: torch.device | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Leading right singular vectors of the scaled rows [F, d], and singular values."""
        if x.shape[0] > self.recipe.large:
            parts = [
                (at, rows, np.ones(len(at), np.float32) if say is None else say[at])
                for at, rows in self._on_device(x, device)
            ]
            rows = parts[0][1] if say is None else Beside(parts)
            on_device = leading_directions(rows, d)  # type: ignore[arg-type]
            v, s = (each.cpu().numpy() for each in on_device)
            return v, s
        blocks = list(self._rows(x))
        if say is None:
            rows = blocks[0][1]
        else:
            scaled = [sp.csr_array(rows) @ sp.diags_array(say[at]) for at, rows in blocks]
            rows = sp.hstack(scaled).tocsr()
            if not sp.issparse(x) or rows.nnz > 0.2 * np.prod(rows.shape):
                rows = rows.toarray()
        # One thread: the QR steps inside are small, and threads fighting for cores make them many times slower.
        with threadpool_limits(1, user_api="blas"):
            # The SVD starts from random numbers per column: columns are sorted, so that their order does not matter.
            length = np.asarray((rows * rows).sum(axis=0)).ravel()
            order = np.argsort(length, kind="stable")
            order = order[length[order] > 0]
            s, vt = randomised_svd(rows[:, order], d)
        vectors = np.zeros((rows.shape[1], len(s)), vt.dtype)
        vectors[np.concatenate([at for at, _ in blocks])[order]] = vt.T
        return vectors, s

    @property
    def words(self) -> bool:
        """Whether all features are words."""
        return self.offset is None

    @property
    def mixed(self) -> bool:
        """Whether there are several kinds of columns, which are then weighted against each other."""
        return len(np.unique(self.kinds)) > 1

    @property
    def directions(self) -> bool:
        """Whether rows of the propagated columns are scaled to length 1."""
        return self.matrix.shape[1] >= self.recipe.many_columns

    def _blocks(self) -> Iterator[np.ndarray]:
        """Places of columns that are scaled together: words, then numbers and categories."""
        for block in (np.flatnonzero(self.kinds == WORD), np.flatnonzero(self.kinds != WORD)):
            if len(block):
                yield block

    def _standardised(self, x: Features, at: np.ndarray) -> np.ndarray:
        """Columns of numbers and categories, centred and scaled; numbers clipped."""
        assert self.offset is not None
        assert self.weight is not None
        rows = (_dense(x[:, at]) - self.offset[at]) * self.weight[at]
        np.clip(rows, -LIMIT, LIMIT, out=rows)
        # A few columns are positions or measurements: their rows keep their length. Rows of many are scaled to 1.
        if np.count_nonzero(self.weight[at]) >= self.recipe.many_columns and not self.mixed:
            rows = _unit_rows_array(rows)
        return rows

    def _weighed_words(self, x: Features, at: np.ndarray) -> sp.csr_array:
        words = sp.csr_array(x if self.words else x[:, at])
        return words if self.weight is None else words @ sp.diags_array(self.weight[at])

    def _rows(self, x: Features) -> Iterator[tuple[np.ndarray, Any]]:
        """Scaled rows of each block of columns, with the places of its columns."""
        for at in self._blocks():
            if self.kinds[at[0]] == WORD:
                yield at, _unit_rows_array(self._weighed_words(x, at))
            else:
                yield at, self._standardised(x, at)

    def _on_device(
        self, x: Features, device: torch.device | None
    ) -> Iterator[tuple[np.ndarray, FeatureRows]]:
        """The same on a device."""
        for at in self._blocks():
            if self.kinds[at[0]] == WORD:
                words = sp.csr_array(x if self.words else x[:, at])
                weight = None if self.weight is None else self.weight[at]
                yield at, FeatureRows(words, weight=weight, unit=True, device=device)
            else:
                yield at, FeatureRows(self._standardised(x, at), device=device)

    def _say(self, x: Features, adjacency: Any) -> np.ndarray | None:
        """The factor of each column [F] after scaling: the square root of the weight of its number, category or words.

        None where all columns are of one kind.
        """
        if not self.mixed:
            return None
        say = np.zeros(self.matrix.shape[0], np.float32)
        for at, rows in self._rows(x):
            if self.kinds[at[0]] == WORD:
                own = FeatureMap.fit(x[:, at], self.recipe, kinds=np.full(len(at), WORD))
                axes = own.transform(x[:, at])
                say[at] = np.sqrt(_alike(axes, adjacency).sum())
            else:
                alike = _alike(rows, adjacency)
                variance = rows.var(axis=0)
                for kind in np.unique(self.kinds[at]):
                    group = self.kinds[at] == kind
                    if kind == NUMBER:
                        say[at[group]] = np.sqrt(alike[group])
                    else:
                        share = variance[group] / max(float(variance[group].sum()), 1e-12)
                        say[at[group]] = np.sqrt(float(share @ alike[group]))
        most = float(say.max())
        return np.maximum(say, _LEAST * most) if most > 0 else np.ones_like(say)

    def transform(self, x: Features) -> np.ndarray:
        """Columns [N, F'], float32."""
        result = np.zeros((x.shape[0], self.matrix.shape[1]), dtype=np.float32)
        for at, rows in self._rows(x):
            result += rows @ self.matrix[at]
        return result

    def project(self, x: Features, device: torch.device) -> Tensor:
        """The same columns on a device; the rows of a large graph are scaled and projected there."""
        if x.shape[0] <= self.recipe.large:
            return torch.from_numpy(self.transform(x)).to(device)
        parts = [
            rows.times(torch.from_numpy(self.matrix[at]).to(device))
            for at, rows in self._on_device(x, device)
        ]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _alike(x: np.ndarray, adjacency: Any) -> np.ndarray:
    """How alike neighbours are in each column [F], from 0 (no more than by chance) to 1.

    z'Az / z'Dz of columns z that are centred by degree: for values that have nothing to do with the edges it has
    mean 0 and standard deviation E^-1/2.
    """
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    total = float(degree.sum())
    if total == 0:
        return np.zeros(x.shape[1])
    edges = total**2 / (2 * float((adjacency.data.astype(np.float64) ** 2).sum()))
    z = x.astype(np.float64)
    z -= degree @ z / total
    length = degree @ z**2
    ratio = (z * (adjacency @ z)).sum(axis=0) / np.where(length > 0, length, 1.0)
    return np.clip(ratio - 2 / edges**0.5, 0.0, 1.0)
