"""Every score in one place: agreement with known classes, and quality of a partition of a graph.

**Label scores** compare a clustering with known classes, **graph scores** need none; :func:`evaluate` computes all.
:func:`summarise` describes every cluster in words.

Conventions. Labels are any values that can be compared (integers in most cases, not necessarily
``0..k-1``); a cluster exists when at least one node carries its label, so empty clusters never count.
The adjacency matrix ``A`` is symmetric and non-negative, the degree of a node is its row sum (a self-loop
counts once), ``vol(c)`` is the sum of the degrees of the nodes in ``c`` and ``cut(c)`` the total weight of
the edges that leave ``c``. A ratio whose denominator is zero (isolated nodes, a graph without edges) is 0.
"""

from softcut.metrics.judge import Evidence, Judge
from softcut.metrics.scores import (
    GRAPH_SCORES,
    LABEL_SCORES,
    ari,
    balance,
    clusters_used,
    completeness,
    conductance,
    evaluate,
    evidence,
    evidence_parts,
    homogeneity,
    matched_accuracy,
    modularity,
    nmi,
    normalised_cut,
)
from softcut.metrics.summary import Summary, summarise

__all__ = [
    "GRAPH_SCORES",
    "LABEL_SCORES",
    "Evidence",
    "Judge",
    "Summary",
    "ari",
    "balance",
    "clusters_used",
    "completeness",
    "conductance",
    "evaluate",
    "evidence",
    "evidence_parts",
    "homogeneity",
    "matched_accuracy",
    "modularity",
    "nmi",
    "normalised_cut",
    "summarise",
]
