"""Features for clustering: reduced, propagated over the graph, and made where there are none.

    X  -> rows to unit length -> projection V (truncated SVD) -> P^h, P = sym-norm(A + I) -> Z

The projection comes before the propagation, P^h (X V) = (P^h X) V, so every hop is a product with a narrow
dense matrix however many features there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR, Operator
from softcut.ops.operator import inverse_sqrt

__all__ = ["FeatureProjection", "propagate", "structural_features", "unit_rows"]


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero.

    >>> import torch
    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def _unit_rows_array(x: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
    if sp.issparse(x):
        length = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1 / np.where(length > 0, length, 1)) @ x)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


@dataclass
class FeatureProjection:
    """Unit-length rows of X times V, the leading right singular vectors of those rows.

    >>> import numpy as np
    >>> x = np.eye(4, 6, dtype=np.float32)
    >>> projection = FeatureProjection.fit(x, 3)
    >>> projection.transform(x).shape
    (4, 3)

    Attributes
    ----------
    matrix : array [F, F'] or None
        V; None where the features are few enough to be used as they are.
    in_channels : int
        F.
    """

    matrix: np.ndarray | None
    in_channels: int

    @classmethod
    def fit(cls, x: np.ndarray | sp.csr_array, dimensions: int, random_state: int = 0) -> FeatureProjection:
        """Find V from the features of the training graph."""
        n, f = x.shape
        if min(n, f) <= dimensions:
            return cls(None, f)
        from sklearn.utils.extmath import randomized_svd

        rows = _unit_rows_array(x)
        _, _, vt = randomized_svd(
            rows, dimensions, n_iter=4, power_iteration_normalizer="QR", random_state=random_state
        )
        return cls(np.ascontiguousarray(vt.T, dtype=np.float32), f)

    def transform(self, x: np.ndarray | sp.csr_array) -> np.ndarray:
        """Rows of X to unit length, projected; float32."""
        if x.shape[1] != self.in_channels:
            raise GraphError(
                f"the graph has {x.shape[1]} features but the model was fitted with {self.in_channels}; "
                "give the same features in the same order."
            )
        rows = _unit_rows_array(x)
        out = rows if self.matrix is None else rows @ self.matrix
        return np.asarray(out.toarray() if sp.issparse(out) else out, dtype=np.float32)


def propagate(op: Operator, x: Tensor, hops: int) -> Tensor:
    """P^h X with P = sym-norm(A + I): each hop mixes a node's features with its neighbours'.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> propagate(op, torch.tensor([[1.0], [0.0]]), 1).flatten().tolist()
    [0.5, 0.5]

    Parameters
    ----------
    op : Operator
        A, not normalised.
    x : Tensor
        [N, F].
    hops : int
        h.
    """
    scale = inverse_sqrt(op.degree.to(x.dtype) + 1).unsqueeze(-1)
    for _ in range(hops):
        inner = scale * x
        x = scale * (op @ inner + inner)
    return x


def structural_features(graph: Graph, dimensions: int = 32, random_state: int = 0) -> np.ndarray:
    """Features for a graph that has none: smoothed random vectors, and log-degrees.

    Random vectors filtered with many hops of P keep what varies slowly over the graph, as its leading
    eigenvectors do, at the cost of a few sparse products; they can be made for any graph, so a model
    trained with them carries over to another of the same kind only in its degrees: positions are not
    comparable between graphs.

    >>> from softcut import Graph
    >>> structural_features(Graph.from_edges([[0, 1, 2], [1, 2, 3]]), dimensions=2).shape
    (4, 3)
    """
    op = CSR.from_graph(graph)
    n = graph.num_nodes
    columns = max(1, min(dimensions, n))
    generator = torch.Generator().manual_seed(random_state)
    block = torch.randn(n, columns, generator=generator)
    # Subspace iteration: the span of the slowest modes of each graph, orthogonal, hence well scaled.
    for _ in range(20):
        block = torch.linalg.qr(propagate(op, block, 4))[0]
    degree = torch.log1p(op.degree).unsqueeze(-1)
    spread = degree.std() if n > 1 else torch.ones(())
    degree = (degree - degree.mean()) / spread.clamp(min=1e-6) / n**0.5
    return torch.cat([block, degree], dim=1).numpy()
