"""Compiled: sizes of clusters kept within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled

_SWEEPS = 50


@compiled
def fit_sizes(level: Any, labels: Any, k: int, smallest: int, largest: int) -> None:
    """Nodes leave clusters of more than `largest` nodes and enter those below `smallest`; `labels` change in place.

    At first only those with no fewer edges there, then with half as many, and so on; a full cluster passes nodes on
    to smaller ones. At last nodes go to any cluster with room.
    """
    indptr, indices, weight, _, _, _ = level
    n = len(labels)
    sizes = np.zeros(k, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
    near, touched = np.zeros(k), np.empty(k, np.int32)
    share = 1.0
    for sweep in range(_SWEEPS + 1):
        last, moved = sweep == _SWEEPS, 0
        for i in range(n):
            a, seen = labels[i], 0
            if sizes[a] <= smallest:
                continue
            for e in range(indptr[i], indptr[i + 1]):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
            best, most = -1, -1.0
            for s in range(k if last else seen):
                b = s if last else touched[s]
                if (
                    b != a
                    and (sizes[a] > largest or sizes[b] < smallest)
                    and sizes[b] + 1 < sizes[a]
                    and (not last or sizes[b] < largest)
                    and near[b] >= share * near[a]
                    and (near[b] > most or (near[b] == most and b < best))
                ):
                    best, most = b, near[b]
            for s in range(seen):
                near[touched[s]] = 0.0
            if best >= 0:
                labels[i] = best
                sizes[a] -= 1
                sizes[best] += 1
                moved += 1
        if moved == 0:
            share = share / 2.0 if share > 0.1 and not last else 0.0
