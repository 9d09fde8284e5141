"""The poolers of the paper's networks, every option stated: the defaults of the layers may change, these may not.

Recorded runs are known by what differs from these options, so they are not part of a run's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SCORES: dict[str, Any] = {
    "connect": "adjacency",
    "min_score": None,
    "multiplier": 1.0,
    "nonlinearity": "tanh",
}
_MLP: dict[str, Any] = {"hidden": 16, "act": "relu", "temperature": 1.0}
# Without those that the network decides: sizes, and DiffPool's channels and activation.
POOLERS: dict[str, dict[str, Any]] = {
    "mincut": {
        **_MLP,
        "cut_weight": 1.0,
        "ortho_weight": 1.0,
        "objective": "mincut",
        "normalise": True,
        "keep_diagonal": False,
        "count_words": False,
        "standardise": False,
    },
    "diffpool": {
        "assignment": "gcn",
        "temperature": 1.0,
        "link_weight": 1.0,
        "entropy_weight": 1.0,
        "link_scale": "undivided",
        "embed": None,
    },
    "topk": _SCORES,
    "sagpool": {**_SCORES, "gnn": "gcn"},
    "graclus": {"reduction": "max", "seed": 0, "cache": None},
    "ndp": {"delta": 0.01, "seed": 0, "cache": None},
    "nopool": {},
    "random": {"seed": 0},
    "dmon": {**_MLP, "spectral_weight": 1.0, "cluster_weight": 1.0, "ortho_weight": 0.0},
    "justbalance": {**_MLP, "balance_weight": 1.0},
}


def stated(pool: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a pooler of the paper's networks, those of a trial in place of the paper's."""
    return {**POOLERS[pool], **changed}
