"""The feature graph: each node joined to the nodes with the most similar features."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.features import unit_rows
from softcut.errors import DependencyError, require
from softcut.ops import CSR, CSRPattern

__all__ = ["exact_neighbours", "feature_graph", "have_approximate"]

_BLOCK = 1 << 24  # similarities held at a time


def exact_neighbours(z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most similar other rows by cosine, in blocks so that no N x N matrix exists.

    >>> import torch
    >>> similarity, index = exact_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1)
    >>> index.flatten().tolist()
    [1, 0, 1]
    """
    z = unit_rows(z)
    n = z.shape[0]
    k = min(k, n - 1)
    step = max(1, _BLOCK // max(1, n))
    values, indices = [], []
    for start in range(0, n, step):
        block = z[start : start + step] @ z.mT
        rows = torch.arange(block.shape[0], device=z.device)
        block[rows, rows + start] = -torch.inf
        top = block.topk(k, dim=1)
        values.append(top.values)
        indices.append(top.indices)
    return torch.cat(values), torch.cat(indices)


def _approximate_neighbours(z: Tensor, k: int, random_state: int) -> tuple[Tensor, Tensor]:
    pynndescent = require("pynndescent", "neighbours", "an approximate feature graph")
    index = pynndescent.NNDescent(
        z.cpu().numpy(), metric="cosine", n_neighbors=k + 1, random_state=random_state, n_jobs=-1
    )
    found, distance = index.neighbor_graph
    return torch.from_numpy(1 - distance[:, 1:]), torch.from_numpy(found[:, 1:].astype(np.int64))


def feature_graph(
    z: Tensor,
    k: int = 15,
    *,
    ptr: Sequence[int] | None = None,
    approximate: bool = False,
    random_state: int = 0,
) -> CSR:
    """The k-nearest-neighbour graph of the rows of Z: cosine weights clipped at 0, symmetrised with max.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> feature_graph(z, k=1).symmetric
    True
    >>> feature_graph(z, k=3, ptr=[0, 2, 4]).to_dense()[:2, 2:].any().item()   # graphs of a batch stay apart
    False

    Parameters
    ----------
    z : Tensor
        [N, F].
    k : int
        Neighbours of each node.
    ptr : sequence of int, optional
        Where each graph of a batch begins: neighbours are searched within a node's own graph.
    approximate : bool
        Use pynndescent (extra ``neighbours``) instead of comparing all pairs.
    """
    n = z.shape[0]
    rows, columns, weights = [], [], []
    for start, end in itertools.pairwise([0, n] if ptr is None else ptr):
        part = z[start:end]
        if part.shape[0] < 2 or part.shape[1] == 0:
            continue
        if approximate and part.shape[0] > k + 1:
            similarity, index = _approximate_neighbours(part, k, random_state)
        else:
            similarity, index = exact_neighbours(part, k)
        rows.append(np.repeat(np.arange(start, end), index.shape[1]))
        columns.append(index.flatten().cpu().numpy() + start)
        weights.append(similarity.clamp(min=0).flatten().double().cpu().numpy())
    if not rows:
        matrix = sp.csr_array((n, n))
    else:
        places = (np.concatenate(rows), np.concatenate(columns))
        matrix = sp.csr_array((np.concatenate(weights), places), shape=(n, n))
    matrix = sp.csr_array(matrix.maximum(matrix.T))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    rowptr, col = (torch.from_numpy(a.astype(np.int32)) for a in (matrix.indptr, matrix.indices))
    pointer = None if ptr is None else torch.as_tensor(ptr, dtype=torch.long)
    val = torch.from_numpy(matrix.data).to(z.dtype)
    return CSR(CSRPattern(rowptr, col, (n, n)), val, ptr=pointer, symmetric=True).to(z.device)


def have_approximate() -> bool:
    """Whether pynndescent is installed."""
    try:
        require("pynndescent", "neighbours", "an approximate feature graph")
    except DependencyError:
        return False
    return True
