"""communities.json: nested communities for programs, such as those that write a summary of each (docs/report.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softcut import __version__
from softcut.clustering import GraphClustering
from softcut.graph import Graph
from softcut.metrics.summary import ClusterSummary, Summary, judged, summarise
from softcut.report.clustering_files import level_facts


def level_summaries(graph: Graph, estimator: GraphClustering, chosen: Summary | None = None) -> list[Summary]:
    """Every cluster of every level of a fitted estimator, coarse to fine; none without a tree.

    `chosen` is that of the chosen level, where it is known already.
    """
    if estimator.tree_ is None or estimator.levels_ is None:
        return []
    made = []
    for level, labels in enumerate(estimator.levels_.labels):
        if level == estimator.level_ and chosen is not None:
            made.append(chosen)
        else:
            soft = estimator._soft_at(level)
            made.append(summarise(graph, labels, soft, **judged(estimator, level)))
    return made


def communities(
    name: str, graph: Graph, estimator: GraphClustering, summaries: Sequence[Summary]
) -> dict[str, Any]:
    """What communities.json holds: the levels, and every community of each with its members.

    `summaries` are those of :func:`level_summaries`.
    """
    tree, levels = estimator.tree_, estimator.levels_
    assert tree is not None and levels is not None
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    children: dict[tuple[int, int], list[int]] = {}
    for row in tree.rows():
        if row["parent"] >= 0:
            children.setdefault((row["level"] - 1, row["parent"]), []).append(row["id"])
    described = {(level, c.cluster): c for level, each in enumerate(summaries) for c in each.clusters}
    members: dict[tuple[int, int], list[str]] = {}
    for level, labels in enumerate(levels.labels):
        order = np.argsort(labels, kind="stable")
        numbers, first = np.unique(labels[order], return_index=True)
        for c, nodes in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            members[level, c] = [names[i] for i in nodes]
    return {
        "softcut": __version__,
        "graph": name,
        "nodes": graph.num_nodes,
        "verdict": estimator.verdict_,
        **{key: value for key, value in level_facts(estimator).items() if key != "scales"},
        "communities": [
            {
                **row,
                "parent": row["parent"] if row["parent"] >= 0 else None,
                "children": children.get((row["level"], row["id"]), []),
                **_described(described[row["level"], row["id"]]),
                "members": members[row["level"], row["id"]],
            }
            for row in tree.rows()
        ],
    }


def _described(cluster: ClusterSummary) -> dict[str, Any]:
    return {
        "by_chance": cluster.by_chance,
        "typical": list(cluster.typical),
        "differs_by": [
            {
                "feature": trait.feature,
                "measure": trait.measure,
                "inside": trait.inside,
                "elsewhere": trait.elsewhere,
                "text": trait.text(),
            }
            for trait in cluster.traits
        ],
        "bridges": [{"to": b.to, "share": b.share, "most_from": b.node} for b in cluster.bridges],
    }
