r"""Features as the evidence counts them: words that nodes have, or measurements along their principal axes.

Columns of measurements that go together say the same thing, and must not count many times. Each column is replaced by
normal scores of its ranks (no outlier counts for more than its rank), and all of them by their leading principal axes,
white. Clusters with a mean each, compared with one mean for all, then explain

    G_d = d (N - K) / 2 log(1 + N) - (N - 1) / 2 log det(I + N (I - M))        M = Z'S (S'S)^-1 S'Z / N

nats of the d first axes Z: the log of a Bayes factor (Zellner's g-prior with the weight of one node), which has mean 1
where labels say nothing. The d with the largest G_d counts, less log(D + 1) for the choice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.tables.kinds import NUMBER, kinds_of_columns

BINS = 4  # equally full bins of a column that is not a count
_AXES = 64  # leading axes that count
_ROWS = 20_000  # nodes that are looked at; they count for all
_EXACT_SIDE = 1000  # the smaller side of a matrix whose axes are found exactly
_SAME = 1e-5  # share of the longest axis below which an axis is rounding


def told_by(gains: Tensor) -> tuple[Tensor, Tensor]:
    """What columns tell of which each explains `gains` [F] nats, and the share q of them that tells anything.

    max_q sum_w log(1 - q + q exp g_w) over q = 1, 1/2, 1/4, ..., less the choice of q.
    """
    halvings = math.ceil(math.log2(max(1, len(gains)))) + 1
    share = 0.5 ** torch.arange(halvings, device=gains.device, dtype=gains.dtype).unsqueeze(1)
    each = torch.logaddexp(torch.log1p(-share), share.log() + gains).sum(1)
    best = each.argmax()
    return each[best] - math.log(halvings), share[best, 0]


def presence(x: Any, kinds: np.ndarray | None = None) -> sp.csr_array:
    """Words of each node, [N, F'] of ones: words that it has, values of categories, bins of its numbers.

    What all nodes have says nothing, and is left out.
    `kinds` are those of the columns (:mod:`softcut.tables.kinds`), where they are known.
    """
    kinds = kinds_of_columns(x) if kinds is None else kinds
    numbers = kinds == NUMBER
    if not numbers.any():
        return _ones(sp.csr_array(x))
    if numbers.all():
        return _bins(x)
    return sp.csr_array(sp.hstack([_ones(sp.csr_array(x[:, ~numbers])), _bins(x[:, numbers])]))


def _ones(words: sp.csr_array) -> sp.csr_array:
    words = words.copy()
    words.eliminate_zeros()
    common = np.bincount(words.indices, minlength=words.shape[1]) == words.shape[0]
    if common.any():
        words.data[common[words.indices]] = 0
        words.eliminate_zeros()
    return sp.csr_array((np.ones(words.nnz), words.indices, words.indptr), shape=words.shape)


def _bins(x: Any) -> sp.csr_array:
    dense = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64)
    n, f = dense.shape
    limits = np.quantile(dense, np.arange(1, BINS) / BINS, axis=0)
    place = (dense[None] > limits[:, None]).sum(0)
    filled = np.stack([(place == b).any(0) for b in range(BINS)]).all(0)
    varies = np.ones(f, dtype=bool)
    for j in np.flatnonzero(~filled):
        # One value fills several bins: few values have a bin each, others go where the middle of their ranks is.
        values, which, count = np.unique(dense[:, j], return_inverse=True, return_counts=True)
        varies[j] = len(values) > 1
        middle = (np.cumsum(count) - count / 2) / n
        place[:, j] = (np.arange(len(values)) if len(values) <= BINS else (BINS * middle).astype(int))[which]
    kept = np.flatnonzero(varies)
    columns = (place[:, kept] + BINS * kept).ravel()
    return sp.csr_array((np.ones(len(columns)), columns, np.arange(n + 1) * len(kept)), shape=(n, f * BINS))


def looked_at(nodes: int) -> np.ndarray:
    """Nodes that stand for all, evenly spread."""
    return np.arange(nodes) if nodes <= _ROWS else np.linspace(0, nodes - 1, _ROWS).astype(np.int64)


def normal_scores(x: np.ndarray) -> np.ndarray:
    """Columns as the normal deviates of their ranks, with mean 0 and variance 1; constant ones are left out."""
    from scipy.special import ndtri  # takes a while, and few graphs need it

    n = len(x)
    scores = np.empty(x.shape)
    for j, column in enumerate(np.asarray(x, dtype=np.float64).T):
        values, place, count = np.unique(column, return_inverse=True, return_counts=True)
        middle = np.cumsum(count) - 0.5 * count
        scores[:, j] = ndtri(middle / n)[place.ravel()] if len(values) > 1 else 0.0
    scores -= scores.mean(0)
    spread = scores.std(0)
    return scores[:, spread > 0] / spread[spread > 0]


def principal_axes(x: Any) -> np.ndarray:
    """Z [N', D]: leading principal axes of the normal scores of the nodes looked at, each with mean 0, variance 1."""
    rows = x[looked_at(x.shape[0])]
    scores = normal_scores(np.asarray(rows.toarray() if sp.issparse(rows) else rows))
    n = len(scores)
    if scores.shape[1] == 0:
        return scores
    if min(scores.shape) > _EXACT_SIDE:
        from sklearn.utils.extmath import randomized_svd  # takes a while

        left, length, _ = randomized_svd(scores, _AXES, n_iter=4, random_state=0)
    else:
        left, length = _principal(torch.from_numpy(scores))
    told_apart = length[:_AXES] > _SAME * length[0]
    return left[:, :_AXES][:, told_apart] * math.sqrt(n)


def _principal(scores: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors and singular values; by PyTorch, whose threads do not spin while they wait."""
    if scores.shape[0] > scores.shape[1]:
        square, right = (each.flip(-1)[..., :_AXES] for each in torch.linalg.eigh(scores.mT @ scores))
        length = square.clamp(min=0).sqrt()
        left = scores @ right / torch.where(length > 0, length, 1.0)
    else:
        left, length, _ = torch.linalg.svd(scores, full_matrices=False)
    return left.numpy(), length.numpy()


def axes_table(axes: Tensor, labels: Tensor, k: int) -> Tensor:
    """[S'Z, S'1], [K, D + 1], of labels [N'] from 0 to `k` - 1: a sum over nodes."""
    member = torch.nn.functional.one_hot(labels, k).to(axes)
    return torch.cat([member.T @ axes, member.sum(0).unsqueeze(1)], dim=1)


def axes_gain(table: Tensor) -> Tensor:
    """max over d of G_d, less log(D + 1), in nats, from the :func:`axes_table` of all nodes looked at."""
    k, d = table.shape[0], table.shape[1] - 1
    sizes, n = table[:, -1], float(table[:, -1].sum())
    if d == 0 or n <= k:
        return table.new_zeros(())
    means = table[:, :-1] / sizes.clamp(min=1).sqrt().unsqueeze(1)
    within = torch.eye(d, dtype=table.dtype, device=table.device) - means.T @ means / n
    # det of the d first axes for every d: the product of the first d pivots.
    pivots = torch.linalg.cholesky(torch.eye(d).to(within) + n * within).diagonal()
    used = int((sizes > 0).sum())
    each = 0.5 * (n - used) * math.log1p(n) - (n - 1) * pivots.log()
    return each.cumsum(0).max() - math.log(d + 1)


def column_gains(table: Tensor) -> Tensor:
    """G_1 of each column alone, less log 2, in nats [..., D], from tables like :func:`axes_table`, [..., K, D + 1]."""
    sizes = table[..., -1:]
    n = float(sizes.sum(-2).max())
    told = (table[..., :-1].square() / sizes.clamp(min=1)).sum(-2) / n
    used = (sizes > 0).sum(-2).to(table)
    spread = torch.log1p(n * (1 - told).clamp(min=0))
    return 0.5 * (n - used) * math.log1p(n) - 0.5 * (n - 1) * spread - math.log(2)
