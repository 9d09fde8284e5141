"""Functions first: operators, the minCUT and orthogonality losses, coarsening and lifting."""

from softcut.ops.batching import Layout, Padded, Segments
from softcut.ops.coarsen import Coarse, coarsen, lift, lift_adjacency, pooled_adjacency, reduce
from softcut.ops.convert import as_operator, block_diagonal
from softcut.ops.csr import CSR
from softcut.ops.cut import cut_terms, mincut_loss, quadratic_form, ratio_trace_loss
from softcut.ops.dense import Dense
from softcut.ops.information import entropy, mutual_information
from softcut.ops.objectives import (
    OBJECTIVES,
    ClusterTables,
    dmon_loss,
    evidence,
    evidence_loss,
    get_objective,
    just_balance_loss,
)
from softcut.ops.operator import Operator
from softcut.ops.orthogonality import orthogonality, orthogonality_loss, orthogonality_maximum, self_gram
from softcut.ops.products import PooledProducts, pooled_products
from softcut.ops.spmm import CSRPattern, spmm
from softcut.ops.sum import Sum
from softcut.ops.word_counts import Words

__all__ = [
    "CSR",
    "OBJECTIVES",
    "CSRPattern",
    "ClusterTables",
    "Coarse",
    "Dense",
    "Layout",
    "Operator",
    "Padded",
    "PooledProducts",
    "Segments",
    "Sum",
    "Words",
    "as_operator",
    "block_diagonal",
    "coarsen",
    "cut_terms",
    "dmon_loss",
    "entropy",
    "evidence",
    "evidence_loss",
    "get_objective",
    "just_balance_loss",
    "lift",
    "lift_adjacency",
    "mincut_loss",
    "mutual_information",
    "orthogonality",
    "orthogonality_loss",
    "orthogonality_maximum",
    "pooled_adjacency",
    "pooled_products",
    "quadratic_form",
    "ratio_trace_loss",
    "reduce",
    "self_gram",
    "spmm",
]
