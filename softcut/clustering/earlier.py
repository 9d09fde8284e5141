"""Earlier clusters of a graph that has changed: where a fit begins, and which clusters are still the same."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import Note, ParameterError
from softcut.graph import Graph
from softcut.tables.arrays import plural

_LISTED = 5  # changes of a kind that a note names


@dataclass(frozen=True)
class Earlier:
    """Clusters to begin from."""

    labels: np.ndarray  # [N] of the nodes of the new graph; -1 for a node that had none
    resolution: float | None  # at which they were found

    def of(self, nodes: np.ndarray) -> Earlier:
        """Those of some nodes."""
        return Earlier(self.labels[nodes], self.resolution)


def earlier_clusters(start: Any, graph: Graph) -> Earlier:
    """What `start` says about the nodes of a graph: a fitted estimator, labels by name, an array, or labels.csv."""
    resolution = None
    if hasattr(start, "labels_"):
        levels, scales = getattr(start, "levels_", None), getattr(start, "scales_", None)
        resolution = levels.marks[levels.chosen] if levels is not None and scales is not None else None
        resolution = resolution or None  # 0: one cluster, found at no resolution
        named = start.node_names_.dtype == object and graph.node_names is not None
        known: Any = start.labels_
        if named:
            known = dict(zip(map(str, start.node_names_), start.labels_.tolist(), strict=True))
    elif isinstance(start, str | Path):
        known = _from_file(Path(start))
    elif hasattr(start, "to_dict") and hasattr(start, "index"):  # a pandas series
        known = {str(name): label for name, label in start.to_dict().items()}
    else:
        known = start
    if isinstance(known, Mapping):
        names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
        by_name = {str(name): label for name, label in known.items()}
        found: list[Any] = [by_name.get(str(name), -1) for name in names]
        if not any(name in by_name for name in map(str, names)):
            raise ParameterError(
                "start has the name of no node of this graph: pass clusters by the names that the graph has.",
                argument="start",
            )
    else:
        found = list(np.asarray(known).ravel())
        if len(found) > graph.num_nodes:
            raise ParameterError(
                f"start has {plural(len(found), 'label')} but the graph has {plural(graph.num_nodes, 'node')}; "
                "give the nodes names, so that those that left are known.",
                argument="start",
            )
        found += [-1] * (graph.num_nodes - len(found))  # nodes that are new come last
    try:
        numbers = np.asarray(found, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            labels = numbers.astype(np.int64)
        whole = bool((labels == numbers).all())
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ParameterError(
            "start must hold whole numbers, one cluster per node (-1: none).", argument="start"
        )
    return Earlier(np.maximum(labels, -1), resolution)


def _from_file(path: Path) -> dict[str, Any]:
    """Clusters by name from a labels.csv."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None or not {"node", "cluster"} <= set(rows.fieldnames):
                raise ParameterError(
                    f"start: {path} has no columns node and cluster, as labels.csv has.", argument="start"
                )
            return {row["node"]: int(row["cluster"]) if row["cluster"] else -1 for row in rows}
    except ParameterError:
        raise
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise ParameterError(
            f"start: {path} cannot be read as a labels.csv ({str(error)[:100]}).", argument="start"
        ) from None


def with_earlier_ids(labels: np.ndarray, earlier: np.ndarray) -> tuple[np.ndarray, Note]:
    """Labels [N] in which communities that persist have their earlier ids, and a note of what happened.

    The pair that shares most nodes is matched first, then the next one; other communities get ids that were not used
    before.

    >>> with_earlier_ids(np.array([0, 0, 0, 1, 1, 2]), np.array([4, 4, -1, 7, 7, 7]))[0].tolist()
    [4, 4, 4, 7, 7, 8]
    """
    both = (labels >= 0) & (earlier >= 0)
    old, which = np.unique(earlier[both], return_inverse=True)
    count = int(labels.max(initial=-1)) + 1
    places = (np.ones(int(both.sum())), (which.reshape(-1), labels[both]))
    overlap = sp.csr_array(sp.coo_array(places, shape=(len(old), count)))
    pairs = overlap.tocoo()
    kept: dict[int, int] = {}  # new: earlier
    taken: set[int] = set()
    for at in np.lexsort((pairs.col, pairs.row, -pairs.data)).tolist():
        r, c = int(pairs.row[at]), int(pairs.col[at])
        if c not in kept and r not in taken:
            kept[c] = r
            taken.add(r)
    sizes, before = np.bincount(labels[labels >= 0], minlength=count), {}
    for each, number in zip(*np.unique(earlier[earlier >= 0], return_counts=True), strict=True):
        before[int(each)] = int(number)
    ids = np.zeros(count, dtype=np.int64)
    free = int(earlier.max(initial=-1)) + 1
    by_new = {c: overlap[:, [c]].toarray().ravel() for c in range(count) if c not in kept}
    said: dict[str, list[str]] = {"born": [], "split": [], "merged": [], "died": []}
    for c in range(count):
        if c in kept:
            ids[c] = old[kept[c]]
            continue
        ids[c] = free
        free += 1
        own = by_new[c]
        if own.sum() > sizes[c] / 2:
            said["split"].append(f"{ids[c]} from {old[own.argmax()]}")
        else:
            said["born"].append(str(ids[c]))
    for r in sorted(set(range(len(old))) - taken):
        here = overlap[[r]].toarray().ravel()
        if 2 * here.max(initial=0) > before[int(old[r])]:
            said["merged"].append(f"{old[r]} into {ids[here.argmax()]}")
        else:
            said["died"].append(str(old[r]))
    parts = [f"{len(kept)} of {len(old)} clusters persist"]
    for what, each in said.items():
        if each:
            parts.append(f"{what}: {', '.join(each[:_LISTED])}" + (", ..." if len(each) > _LISTED else ""))
    values = {"persisting": len(kept), **{what: list(each) for what, each in said.items()}}
    return np.where(labels >= 0, ids[labels], -1), Note("changes", "; ".join(parts) + ".", **values)
