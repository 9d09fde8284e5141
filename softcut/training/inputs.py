"""The first layer of a clustering network: products with features that never change.

X is constant through training, so whatever can be computed from it once is computed once, and a sparse X
(bag of words) stays sparse. :class:`ConvInput` chooses between three ways to compute A~ X T_m + X T_s by
counting operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.ops import CSRPattern, Operator
from softcut.ops.spmm import sparse_product
from softcut.ops.word_counts import SPARSE_COST

__all__ = ["ConvInput", "DenseInput", "FirstLayer", "by_scale"]


class FirstLayer(Protocol):
    """Computes the sum of (weights) @ (constant matrix)', one kernel for each constant matrix.

    Nodes are the last axis here: softmax and activation then run along contiguous memory, which on CPUs
    is many times faster than rows of K numbers.
    """

    in_channels: int
    terms: int

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        """[R, H, N] from `terms` kernels [R, H, in_channels]; `scales` says which features a replica reads."""


class _ConstantSparse:
    """X T' [N, C] for a constant sparse X and T [C, F]; keeps X' for backward."""

    def __init__(self, x: sp.csr_array, dtype: torch.dtype, device: torch.device | str) -> None:
        self.forward = _pattern(x, dtype, device)
        self.backward = _pattern(sp.csr_array(x.T), dtype, device)

    def __call__(self, weight: Tensor) -> Tensor:
        return _ConstantProduct.apply(self, weight)


def _pattern(x: sp.csr_array, dtype: torch.dtype, device: torch.device | str) -> tuple[CSRPattern, Tensor]:
    x.sort_indices()
    return CSRPattern.from_scipy(x).to(device), torch.from_numpy(x.data).to(device=device, dtype=dtype)


class _ConstantProduct(torch.autograd.Function):
    @staticmethod
    def forward(x: _ConstantSparse, weight: Tensor) -> Tensor:
        pattern, val = x.forward
        return sparse_product(pattern, val, weight.mT)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.x = inputs[0]

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        pattern, val = ctx.x.backward
        return None, sparse_product(pattern, val, grad).mT


class DenseInput:
    """W Z' for a dense constant Z, or for several: replica r reads the one that its scale names.

    >>> import torch
    >>> DenseInput(torch.ones(2, 3))([torch.ones(1, 4, 3)], [0]).shape
    torch.Size([1, 4, 2])

    Parameters
    ----------
    z : Tensor
        [N, F], or [scales, N, F].
    """

    terms = 1

    def __init__(self, z: Tensor) -> None:
        self.z = z if z.dim() == 3 else z.unsqueeze(0)
        self.in_channels = z.shape[-1]

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        return by_scale(self.z, weights[0], scales)


def by_scale(z: Tensor | Mapping[int, Tensor], kernel: Tensor, scales: Sequence[int]) -> Tensor:
    """[R, H, N] from kernels [R, H, F] and features z[scale] [N, F]; replicas of one scale stand together."""
    parts, first = [], 0
    for scale, members in itertools.groupby(scales):
        count = len(list(members))
        rows = kernel[first : first + count].reshape(count * kernel.shape[1], kernel.shape[2])
        parts.append((rows @ z[scale].mT).view(count, kernel.shape[1], -1))
        first += count
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class ConvInput:
    r"""A~ X T_m + X T_s, the linear part of the paper's eq. 1, for a constant X; or A~ X T_m alone.

    >>> import numpy as np, torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> layer = ConvInput(op, np.eye(2, dtype=np.float32))
    >>> layer([torch.eye(2).unsqueeze(0), torch.zeros(1, 2, 2)], [0])
    tensor([[[0., 1.],
             [1., 0.]]])

    Parameters
    ----------
    op : Operator
        A (normalised here).
    x : array or scipy sparse matrix
        Node features.
    columns : int
        Width of the product (replicas x hidden units): whether A~ X is worth keeping depends on it.
    skip : bool
        Whether the second term exists.
    """

    def __init__(
        self,
        op: Operator,
        x: Any,
        *,
        columns: int = 16,
        skip: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.op = op.normalise()
        self.terms = 2 if skip else 1
        n, f = x.shape
        self.in_channels = f
        nnz = int(x.nnz) if sp.issparse(x) else int(np.count_nonzero(x))
        edges = getattr(getattr(op, "pattern", None), "nnz", 0)
        cost = SPARSE_COST.get(torch.device(device).type, 4.0)
        # Multiplications a column, forward: A~ (X T) with sparse or dense X, or (A~ X) T, made once.
        costs = {
            "sparse": cost * (self.terms * nnz + edges),
            "dense": self.terms * n * f + cost * edges,
            "constant": float(self.terms * n * f),
        }
        # A~ X is a second n x f matrix to keep: only where it is small beside what training holds anyway.
        if f > 4 * columns:
            del costs["constant"]
        self.kind = min(costs, key=lambda kind: costs[kind])
        if self.kind == "sparse":
            matrix = sp.csr_array(x)
            self.sparse = _ConstantSparse(matrix.astype(np.float64), dtype, device)
            return
        dense = x.toarray() if sp.issparse(x) else x
        self.x = torch.as_tensor(dense).to(device=device, dtype=dtype)
        if self.kind == "constant":
            passed = self.op @ self.x
            self.x = torch.cat([passed, self.x], dim=1) if skip else passed

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        replicas, hidden, _ = weights[0].shape
        flat = [w.reshape(-1, self.in_channels) for w in weights]
        if self.kind == "constant":
            h = torch.cat(flat, dim=1) @ self.x.mT
        elif self.kind == "sparse":
            h = self._sparse_terms(flat).mT.contiguous()
        else:
            h = (self.op @ (self.x @ flat[0].mT)).mT.contiguous()
            h = h + flat[1] @ self.x.mT if self.terms == 2 else h
        return h.view(replicas, hidden, -1)

    def _sparse_terms(self, weights: list[Tensor]) -> Tensor:
        if self.terms == 2 and weights[0].is_cuda:
            # One product with twice the columns: on a GPU a small one takes no longer than half of it.
            passed, own = self.sparse(torch.cat(weights)).chunk(2, dim=1)
            return self.op @ passed + own
        h = self.op @ self.sparse(weights[0])
        return h + self.sparse(weights[1]) if self.terms == 2 else h
