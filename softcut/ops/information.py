r"""Entropy, mutual information and stochastic complexity of tables of counts, and what clusters explain, in nats.

:class:`Words` is a constant matrix of counts X [N, F], with its table S'X of soft clusters.

    I = sum_ij p_ij log(p_ij / (p_i p_j)),   p = T / sum(T)
    G_e = E I(S'AS) - log C(K(K+1)/2, E)       of E edges
    G_x = W I(S'X) - sum_w log C(K, n_w)       of W words, of which n_w are word w

The gradient of I is (log(p_ij / (p_i p_j)) - I) / sum(T): the logarithms of the forward pass are kept, so
backward is one subtraction and one product. log C is the price of a table of counts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import signed
from softcut.ops.numerics import above_zero, safe_ratio
from softcut.ops.spmm import CSRPattern, Product, row_products, sparse_product, spmm

# A multiplication in a sparse product costs about this many of a dense one (measured); an addition, where the
# matrix holds ones, this many.
SPARSE_COST = {"cpu": 4.0, "cuda": 64.0}
BINARY_COST = {"cpu": 2.0, "cuda": 64.0}


def finite_log(x: Tensor) -> Tensor:
    """The logarithm, finite at 0 (where it is always multiplied by 0)."""
    return x.clamp(min=torch.finfo(x.dtype).tiny).log()


def information_parts(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """I, log(p_ij / (p_i p_j)) and the sum of every table."""
    rows, columns = table.sum(-1, keepdim=True), table.sum(-2, keepdim=True)
    total = rows.sum(-2, keepdim=True)
    ratio = finite_log(table) - finite_log(rows) - (finite_log(columns) - finite_log(total))
    some = above_zero(total)
    share = torch.where(some, 1 / torch.where(some, total, 1.0), 0.0)
    return (table * ratio).sum((-2, -1)) * share.view(table.shape[:-2]), ratio, share


@signed
class _MutualInformation(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Rows of many columns are read along memory; a product with a sparse matrix leaves them across it.
        return information_parts(table.contiguous())

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[0], *output)

    @staticmethod
    def backward(ctx, g, _, __):  # type: ignore[no-untyped-def]
        table, information, ratio, share = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative: the saved logarithms would count as constants
            information, ratio, share = information_parts(table)
        return (ratio - information[..., None, None]) * (g[..., None, None] * share)


def mutual_information(table: Tensor) -> Tensor:
    """Mutual information of the rows and columns of tables [..., I, J] of non-negative numbers: [...], in nats.

    0 for a table of zeros. Value and gradient are finite where entries are 0.

    >>> import torch
    >>> mutual_information(torch.eye(2)).exp().item()              # one of two, known exactly
    2.0
    >>> mutual_information(torch.ones(3, 2)).abs().item() < 1e-6   # independent
    True
    """
    if torch.compiler.is_compiling():
        return information_parts(table)[0]
    return _MutualInformation.apply(table)[0]


def entropy(sizes: Tensor) -> Tensor:
    """Entropy of the shares that sizes [..., K] are of their sum: [...], in nats; 0 where all are 0.

    >>> import torch
    >>> entropy(torch.tensor([3.0, 3.0])).exp().item()
    2.0
    """
    total = sizes.sum(-1, keepdim=True)
    shares = safe_ratio(sizes, total)
    return -(shares * finite_log(shares)).sum(-1)


def multinomial_complexity(categories: int, counts: Tensor) -> Tensor:
    """The cost of describing how `counts` things spread over K `categories`: log C(K, n), in nats, float64.

    C(K, n) is the sum of the largest likelihoods that a multinomial of K categories gives to any n things: its
    logarithm is the stochastic complexity, the nats by which a fitted table of counts looks better than it is. By the
    uniform approximation of Szpankowski and Weinberger (2012), with Stirling's first correction: within .015 nats
    of the exact recurrence of Kontkanen and Myllymaki (2007). Counts need not be whole; 0 for no things.
    """
    n = counts.double()
    if categories < 2:
        return torch.zeros_like(n)
    some = above_zero(n)
    n = torch.where(some, n, 1.0)
    share = categories / n
    c = 0.5 + 0.5 * (1 + 4 / share).sqrt()
    complexity = n * (share.log() + (share + 2) * c.log() - 1 / c) - 0.5 * (c + 2 / share).log()
    return torch.where(some, complexity - 1 / (6 * categories), 0.0)


def edge_price(k: int, count: Tensor | float) -> Tensor:
    """What the table of `count` edges between K clusters costs to describe, in nats, float64."""
    return multinomial_complexity(k * (k + 1) // 2, torch.as_tensor(count, dtype=torch.float64))


def word_price(k: int, counts: Tensor) -> Tensor:
    """What a table of words costs, in nats: the `counts` [..., F] of each word are spread over K clusters; [...]."""
    return multinomial_complexity(k, counts).sum(-1)


def edge_gain(edges: Tensor, count: Tensor | float, price: Tensor | None = None) -> Tensor:
    """G_e: what clusters say about the other end of an edge, less its price, in nats; 0 without edges.

    `price` is :func:`edge_price` where it is known already: it does not depend on S.
    """
    price = (edge_price(edges.shape[-1], count) if price is None else price).to(edges)
    return torch.where(above_zero(edges.sum((-2, -1))), count * mutual_information(edges) - price, 0.0)


def word_gain(words: Tensor, count: Tensor | float, price: Tensor | None = None) -> Tensor:
    """G_x of S'X [..., K, F], which counts W words (of weighted ones their effective number); 0 without words.

    `price` is :func:`word_price` where it is known already: it does not depend on S.
    """
    if price is None:
        counts = words.sum(-2)
        total = counts.sum(-1, keepdim=True)
        scale = count.to(total).unsqueeze(-1) if isinstance(count, Tensor) else count
        price = word_price(words.shape[-2], scale * safe_ratio(counts, total))
    gain = count * mutual_information(words) - price.to(words)
    return torch.where(above_zero(words.detach().sum((-2, -1))), gain, 0.0)


def word_gains(words: Tensor) -> Tensor:
    """What clusters say about each word of S'X [..., K, F], before its price, in nats [..., F]; the sum is W I(S'X)."""
    clusters = words.sum(-1, keepdim=True)
    share = safe_ratio(clusters, clusters.sum(-2, keepdim=True))
    counts = words.sum(-2)
    return (torch.xlogy(words, words) - torch.xlogy(words, share)).sum(-2) - torch.xlogy(counts, counts)


class Words:
    r"""Which words each node has: a constant non-negative matrix X [N, F], sparse or dense.

    The product S'X is sparse or dense, whichever takes fewer operations.

    >>> import numpy as np, torch
    >>> words = Words(np.array([[2, 0], [1, 1]]))
    >>> words.table(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [[1.5, 0.5], [0.5, 0.5]]
    >>> words.count
    3.0

    `x` is an array or scipy sparse matrix; `presence` takes 0 or 1, whether a word occurs, in place of its numbers
    (counts, tf-idf). `dtype` is that of a dense matrix, `device` where to compute. `count` is how many words there are,
    for numbers other than 0 and 1 their effective number (sum x)^2 / sum x^2, and `counts` [F] how many of these are
    each word.
    """

    def __init__(
        self,
        x: Any,
        *,
        presence: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        x = x if sp.issparse(x) else np.asarray(x)
        if x.ndim != 2:
            raise GraphError(f"x must be a matrix with a row per node, got shape {list(x.shape)}.")
        matrix = sp.csr_array(x)
        if not matrix.has_canonical_format or not matrix.data.all():
            matrix = matrix.astype(np.float64, copy=True)
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise GraphError("x must hold counts of words, which are finite and not negative.")
        binary = presence or bool((matrix.data == 1).all())
        values = np.ones(matrix.nnz) if binary else matrix.data.astype(np.float64)
        squares = float(np.square(values).sum())
        self.count = float(values.sum()) ** 2 / squares if squares else 0.0
        each = np.bincount(matrix.indices, values, minlength=matrix.shape[1])
        # How often each word occurs, in the same unit.
        self.counts = torch.from_numpy(each * (self.count / max(float(values.sum()), 1e-300))).to(device)
        matrix = sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        self.shape: tuple[int, int] = matrix.shape
        cost = (BINARY_COST if binary else SPARSE_COST).get(torch.device(device).type, 4.0)
        self._dense: Tensor | None = None
        if cost * matrix.nnz > self.shape[0] * self.shape[1]:
            # Filled on the device: the entries are few beside the zeros.
            pattern = CSRPattern.from_scipy(matrix).to(device)
            self._dense = torch.zeros(self.shape, dtype=dtype, device=device)
            values = torch.from_numpy(matrix.data).to(device=device, dtype=dtype)
            self._dense[pattern.rows, pattern.col.long()] = values
            return
        turned = matrix.T.tocsr()  # X' [F, N]: S'X is the transpose of X'S
        turned.sort_indices()
        self._turned = CSRPattern.from_scipy(turned).to(device)
        self._values = None if binary else torch.from_numpy(turned.data).to(device=device)

    def table(self, s: Tensor) -> Tensor:
        """S'X: [K, F] for S [N, K], [R, K, F] for S [N, R, K]."""
        self._check(s.shape[0])
        if self._dense is not None:
            flat = s.permute(*range(1, s.dim()), 0).reshape(-1, s.shape[0])
            return (flat @ self._dense.to(s.dtype)).view(*s.shape[1:], -1)
        table = spmm(self._turned, self._values_as(s), s.reshape(s.shape[0], -1))
        return table.view(-1, *s.shape[1:]).movedim(0, -1)

    def table_of(self, rows: Tensor) -> Tensor:
        """S'X [C, F] of S [N, C], outside autograd."""
        self._check(rows.shape[0])
        if self._dense is not None:
            return rows.mT @ self._dense.to(rows.dtype)
        return sparse_product(self._turned, self._values_as(rows), rows).mT.contiguous()

    def row_products(self, blocks: Sequence[slice], dtype: torch.dtype) -> list[Product]:
        """For each block of all nodes what multiplies its rows of X by a matrix [F, C], outside autograd."""
        self._check(max((block.stop for block in blocks), default=0))
        if self._dense is not None:
            dense = self._dense.to(dtype)
            return [dense[block].mm for block in blocks]
        pattern, order = self._turned.transpose
        return row_products(pattern, None if self._values is None else self._values[order].to(dtype), blocks)

    def _check(self, rows: int) -> None:
        if rows != self.shape[0]:
            raise GraphError(f"s must have a row for each of the {self.shape[0]} nodes, got {rows} rows.")

    def _values_as(self, like: Tensor) -> Tensor | None:
        return None if self._values is None else self._values.to(like.dtype)

    def price(self, k: int) -> Tensor:
        """What a table of these words in K clusters costs to describe, in nats: the same for every S."""
        return word_price(k, self.counts)

    def to(self, device: torch.device | str) -> Words:
        """The same words on another device; sparse stays sparse."""
        moved = copy.copy(self)
        moved.counts = self.counts.to(device)
        if self._dense is not None:
            moved._dense = self._dense.to(device)
            return moved
        moved._turned = self._turned.to(device)
        moved._values = None if self._values is None else self._values.to(device)
        return moved

    def __repr__(self) -> str:
        return f"Words({self.shape[0]} nodes, {self.shape[1]} words)"
