"""Starts from leading eigenvectors: positions of nodes by subspace iteration, and k-means of positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

_COLUMNS = 32
_ROUNDS, _DEGREE = 6, 6  # rounds of subspace iteration, and products in each
_AT_ONCE = 1 << 24  # numbers in a table of rows and centres


def positions(matrix: Any, seed: int, any_pattern: bool = False) -> np.ndarray:
    """Leading eigenvectors of (D + d/2)^-1/2 A (D + d/2)^-1/2 times their squared eigenvalues, in rows of unit length.

    `matrix` is A as a csr_array, the diagonal included; d is the mean degree: without it the leading eigenvectors are
    those of nearly isolated nodes and small components. A polynomial of Chebyshev that is small on the eigenvalues
    below those wanted brings these forward.

    With `any_pattern` the eigenvectors are those of the square: negative eigenvalues, which tell the two sides of a
    bipartite graph, count as much as positive ones.
    """
    n = matrix.shape[0]
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(degree + max(float(degree.mean()), 1e-12) / 2)
    values = matrix.data * np.repeat(scale, np.diff(matrix.indptr)) * scale[matrix.indices]
    entries = values.astype(np.float32), matrix.indices, matrix.indptr
    product: Any = aslinearoperator(sp.csr_array(entries, shape=matrix.shape))
    product = product**2 if any_pattern else product
    noise = np.random.default_rng(seed).standard_normal((n, min(_COLUMNS, n)), np.float32)
    block = np.linalg.qr(noise)[0]
    highest = 0.0  # eigenvalues from -1 to here are damped
    for _ in range(_ROUNDS):
        block = np.linalg.qr(_filtered(product, block, highest))[0]
        small = block.T @ (product @ block)
        values, turn = np.linalg.eigh(((small + small.T) / 2).astype(np.float64))
        highest = min(max(float(values[0]), 0.0), 0.9)
    values, turn = values[::-1], turn[:, ::-1]
    modes = block @ turn.astype(np.float32)
    values = np.maximum(values, 0)
    rows = modes * (values if any_pattern else np.square(values)).astype(np.float32)
    return rows / np.maximum(np.sqrt(np.einsum("if,if->i", rows, rows)), 1e-30)[:, None]


def _filtered(product: Any, block: np.ndarray, highest: float) -> np.ndarray:
    """T_m of the matrix, scaled so that eigenvalues from -1 to `highest` are between -1 and 1, times the block."""
    half, middle = np.float32((1 + highest) / 2), np.float32((highest - 1) / 2)
    last, block = block, (product @ block - middle * block) / half
    for _ in range(_DEGREE - 1):
        following = product @ block
        following -= middle * block
        following *= 2 / half
        following -= last
        last, block = block, following
    return block


def nearest(rows: np.ndarray, k: int, sample: int, rounds: int) -> np.ndarray:
    """Labels [N] of a short k-means of the first `sample` rows, begun by the first of all: their order is random."""
    some = rows[:sample]
    centres = some[:k]
    for _ in range(rounds):
        labels = _assigned(some, centres)
        members = sp.csr_array(
            (np.ones(len(some), np.float32), labels, np.arange(len(some) + 1)), (len(some), k)
        )
        counts = np.bincount(labels, minlength=k)[:, None]
        centres = np.where(counts > 0, members.T @ some / np.maximum(counts, 1), centres).astype(np.float32)
    return _assigned(rows, centres)


def _assigned(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest centre of each row."""
    labels = np.empty(len(rows), np.int32)
    step, length = max(1, _AT_ONCE // len(centres)), np.einsum("kf,kf->k", centres, centres) / 2
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        labels[part] = (rows[part] @ centres.T - length).argmax(axis=1)
    return labels
