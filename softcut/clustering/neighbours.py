"""The feature graph: each node joined to the nodes with the most similar features."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.features import unit_rows
from softcut.errors import DependencyError, require
from softcut.ops import CSR, CSRPattern

__all__ = ["exact_neighbours", "feature_graph"]

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


def feature_graph(z: Tensor, k: int = 15, *, approximate: bool = False, random_state: int = 0) -> CSR:
    """The k-nearest-neighbour graph of the rows of Z: cosine weights clipped at 0, symmetrised with max.

    >>> import torch
    >>> feature_graph(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), k=1).symmetric
    True

    Parameters
    ----------
    z : Tensor
        [N, F].
    k : int
        Neighbours of each node.
    approximate : bool
        Use pynndescent (extra ``neighbours``) instead of comparing all pairs.
    """
    n = z.shape[0]
    if n < 2 or z.shape[1] == 0:
        similarity, index = z.new_zeros(n, 0), torch.zeros(n, 0, dtype=torch.long)
    elif approximate:
        similarity, index = _approximate_neighbours(z, k, random_state)
    else:
        similarity, index = exact_neighbours(z, k)
    weight = similarity.clamp(min=0).flatten().double().cpu().numpy()
    rows = np.repeat(np.arange(n), similarity.shape[1])
    matrix = sp.csr_array((weight, (rows, index.flatten().cpu().numpy())), shape=(n, n))
    matrix = sp.csr_array(matrix.maximum(matrix.T))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    rowptr, col = (torch.from_numpy(a.astype(np.int32)) for a in (matrix.indptr, matrix.indices))
    pattern = CSRPattern(rowptr, col, (n, n))
    op = CSR(pattern, torch.from_numpy(matrix.data).to(z.dtype), symmetric=True)
    return op.to(z.device)


def have_approximate() -> bool:
    """Whether pynndescent is installed."""
    try:
        require("pynndescent", "neighbours", "an approximate feature graph")
    except DependencyError:
        return False
    return True
