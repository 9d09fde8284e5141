"""Functions first: operators, the minCUT and orthogonality losses, coarsening and lifting."""

from softcut.ops.batching import Layout, Padded, Segments
from softcut.ops.coarsen import Coarse, coarsen, lift, lift_adjacency, pooled_adjacency, reduce
from softcut.ops.convert import as_operator
from softcut.ops.csr import CSR
from softcut.ops.cut import OBJECTIVES, cut_terms, mincut_loss, quadratic_form, ratio_trace_loss
from softcut.ops.dense import Dense
from softcut.ops.operator import Operator
from softcut.ops.orthogonality import orthogonality, orthogonality_loss, orthogonality_maximum, self_gram
from softcut.ops.spmm import CSRPattern, spmm
from softcut.ops.sum import Sum

__all__ = [
    "CSR",
    "OBJECTIVES",
    "CSRPattern",
    "Coarse",
    "Dense",
    "Layout",
    "Operator",
    "Padded",
    "Segments",
    "Sum",
    "as_operator",
    "coarsen",
    "cut_terms",
    "lift",
    "lift_adjacency",
    "mincut_loss",
    "orthogonality",
    "orthogonality_loss",
    "orthogonality_maximum",
    "pooled_adjacency",
    "quadratic_form",
    "ratio_trace_loss",
    "reduce",
    "self_gram",
    "spmm",
]
