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
from softcut.ops.spmm import spmm
from softcut.ops.word_counts import SPARSE_COST

__all__ = ["ConvInput", "DenseInput", "FirstLayer"]


class FirstLayer(Protocol):
    """Computes the sum of (weights) @ (constant matrix)', one kernel for each constant matrix.

    Nodes are the last axis here: softmax and activation then run along contiguous memory, which on CPUs
    is many times faster than rows of K numbers.
    """

    in_channels: int
    terms: int

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        """[R, H, N] from `terms` kernels [R, H, in_channels]; `scales` says which features a replica reads."""


class DenseInput:
    """W Z' for a dense constant Z, or for several: replica r reads the one that its scale names.

    >>> import torch
    >>> DenseInput(torch.ones(2, 3))([torch.ones(1, 4, 3)], [0]).shape
    torch.Size([1, 4, 2])

    Parameters
    ----------
    z : Tensor or dict
        [N, F], [scales, N, F], or matrices [N, F] by scale.
    """

    terms = 1

    def __init__(self, z: Tensor | Mapping[int, Tensor]) -> None:
        first = z if isinstance(z, Tensor) else next(iter(z.values()))
        self.z: Any = z.unsqueeze(0) if isinstance(z, Tensor) and z.dim() == 2 else z
        self.in_channels = first.shape[-1]

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        kernel = weights[0]
        parts, first = [], 0
        for scale, members in itertools.groupby(scales):  # replicas of one scale stand together
            count = len(list(members))
            rows = kernel[first : first + count].reshape(count * kernel.shape[1], kernel.shape[2])
            parts.append((rows @ self.z[scale].mT).view(count, kernel.shape[1], -1))
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
            matrix = sp.csr_array(x, dtype=np.float64)
            matrix.sort_indices()
            self.pattern = CSRPattern.from_scipy(matrix).to(device)
            self.values = torch.from_numpy(matrix.data).to(device=device, dtype=dtype)
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
            passed, own = spmm(self.pattern, self.values, torch.cat(weights).mT).chunk(2, dim=1)
            return self.op @ passed + own
        h = self.op @ spmm(self.pattern, self.values, weights[0].mT)
        return h + spmm(self.pattern, self.values, weights[1].mT) if self.terms == 2 else h
