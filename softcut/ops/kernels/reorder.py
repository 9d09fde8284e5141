"""An order of the nodes in which neighbours stand close together, so that gathered rows are still in the cache."""

from __future__ import annotations

import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from softcut.errors import GraphError

__all__ = ["locality_order"]


def locality_order(rowptr: Tensor, col: Tensor, groups: Tensor | None = None) -> Tensor:
    """The order of the nodes of a symmetric pattern: by group, or by reverse Cuthill-McKee.

    Sorting pays where a product with S is made many times, S is larger than the cache and most edges
    stay inside groups that are smaller than it. ``softcut.ops.triplets.submatrix(op, order, None)`` is the operator in
    the new order; node features are taken with ``x[order]``, and ``labels[order.argsort()]`` goes back.

    >>> import torch
    >>> rowptr, col = torch.tensor([0, 1, 2, 4]), torch.tensor([2, 2, 0, 1])    # the path 0 - 2 - 1
    >>> locality_order(rowptr, col)[1].item()
    2
    >>> locality_order(rowptr, col, groups=torch.tensor([0, 1, 0])).tolist()
    [0, 2, 1]

    Parameters
    ----------
    rowptr, col : Tensor
        The pattern.
    groups : Tensor, optional
        [N]: parts, communities or clusters of an earlier run. None: a breadth-first order of the graph, found on the
        CPU.
    """
    n = rowptr.numel() - 1
    if groups is not None:
        if groups.shape != (n,):
            raise GraphError(
                f"groups must have one number for each of the {n} nodes, got {list(groups.shape)}."
            )
        return torch.argsort(groups.to(col.device), stable=True)
    index = [t.cpu().numpy() for t in (col, rowptr)]
    ones = torch.ones(col.numel(), dtype=torch.int8).numpy()
    order = reverse_cuthill_mckee(sp.csr_array((ones, *index), shape=(n, n)), symmetric_mode=True)
    return torch.from_numpy(order.copy()).long().to(col.device)
