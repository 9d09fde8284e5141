"""Compiled: an order of nodes in which nodes that look alike follow the nodes that they hang on."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled


@compiled
def depth_first(indptr: Any, indices: Any, starts: Any) -> Any:
    """Nodes [N] as a search into the depth meets them, from each of `starts` [N] not met before, neighbours in order.

    Where nodes have the same colour (order.py), their numbers alone would decide; here each is met with its own
    neighbours, so that parts of a graph which mirror each other stay whole.
    """
    n = len(starts)
    out, met, count = np.empty(n, np.int32), np.zeros(n, np.bool_), 0
    path, following = np.empty(n, np.int32), np.empty(n, np.int64)
    for at in range(n):
        if met[starts[at]]:
            continue
        path[0], following[0], depth = starts[at], indptr[starts[at]], 1
        out[count], met[starts[at]] = starts[at], True
        count += 1
        while depth > 0:
            i, e = path[depth - 1], following[depth - 1]
            if e == indptr[i + 1]:
                depth -= 1
                continue
            following[depth - 1] = e + 1
            j = indices[e]
            if not met[j]:
                out[count], met[j] = j, True
                count += 1
                path[depth], following[depth] = j, indptr[j]
                depth += 1
    return out
