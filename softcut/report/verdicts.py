"""What a clustering is worth, in a sentence: the first thing that the report, the page and the command line say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["VERDICTS", "verdict_of"]

VERDICTS = {
    "none": "These clusters explain less than it takes to describe them: the graph may have no clusters.",
    "weak": "There is some structure; look at the clusters before you rely on them.",
    "clear": "The clusters are clear.",
}


def verdict_of(metrics: Mapping[str, Any]) -> str:
    """The sentence for what metrics.json holds; "" where it holds no verdict, as after a prediction."""
    if metrics.get("verdict") == "none" and metrics.get("n_clusters") == 1:
        return "All nodes are in one cluster."
    return VERDICTS.get(str(metrics.get("verdict")), "")
