"""Features as words: what a node has, as a sparse table of zeros and ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

# Columns that are not counts are cut into this many equally full bins.
BINS = 4


def looks_like_words(x: np.ndarray | sp.csr_array) -> bool:
    """Whether features are counts of words or the like: non-negative and at most half of them not 0."""
    values = np.asarray(x.data) if sp.issparse(x) else np.asarray(x)[np.nonzero(x)]
    return bool(values.size == 0 or values.min() >= 0) and values.size <= 0.5 * x.shape[0] * x.shape[1]


def presence(x: Any) -> sp.csr_array:
    """Words of each node, [N, F'] of ones: words that it has, or in which bin each of its columns lies."""
    if looks_like_words(x):
        words = sp.csr_array(x)
        words.eliminate_zeros()
        return sp.csr_array((np.ones(words.nnz), words.indices, words.indptr), shape=words.shape)
    dense = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64)
    n, f = dense.shape
    limits = np.quantile(dense, np.arange(1, BINS) / BINS, axis=0)
    place = (dense[None] > limits[:, None]).sum(0) if n else np.zeros((0, f), dtype=int)
    columns = (place + BINS * np.arange(f)).ravel()
    return sp.csr_array((np.ones(n * f), columns, np.arange(n + 1) * f), shape=(n, f * BINS))
