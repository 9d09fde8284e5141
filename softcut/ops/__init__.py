"""Operators, the losses of soft clusters, coarsening and lifting."""

from softcut.ops.batching import Layout, Segments
from softcut.ops.coarsen import coarsen, lift, lift_adjacency, pooled_adjacency, reduce
from softcut.ops.convert import as_operator, block_diagonal
from softcut.ops.csr import CSR
from softcut.ops.cut import (
    cut_terms,
    mincut_loss,
    orthogonality,
    orthogonality_loss,
    quadratic_form,
    ratio_trace_loss,
)
from softcut.ops.dense import Dense
from softcut.ops.information import Words, entropy, mutual_information
from softcut.ops.objectives import (
    OBJECTIVES,
    ClusterTables,
    dmon_loss,
    evidence_loss,
    get_objective,
    just_balance_loss,
)
from softcut.ops.operator import Operator, Sum
from softcut.ops.spmm import CSRPattern, spmm

__all__ = [
    "CSR",
    "OBJECTIVES",
    "CSRPattern",
    "ClusterTables",
    "Dense",
    "Layout",
    "Operator",
    "Segments",
    "Sum",
    "Words",
    "as_operator",
    "block_diagonal",
    "coarsen",
    "cut_terms",
    "dmon_loss",
    "entropy",
    "evidence_loss",
    "get_objective",
    "just_balance_loss",
    "lift",
    "lift_adjacency",
    "mincut_loss",
    "mutual_information",
    "orthogonality",
    "orthogonality_loss",
    "pooled_adjacency",
    "quadratic_form",
    "ratio_trace_loss",
    "reduce",
    "spmm",
]
