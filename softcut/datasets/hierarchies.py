"""Coarse graphs of a data set for Graclus and NDP: found once and kept beside the data."""

from __future__ import annotations

import os
from contextlib import suppress

from softcut.datasets import fetching
from softcut.graph.collection import GraphCollection
from softcut.learning.hierarchy import Hierarchy, coarsen_collection

__all__ = ["load_hierarchy"]


def load_hierarchy(
    graphs: GraphCollection, method: str, root: str | os.PathLike[str] | None = None
) -> Hierarchy:
    """Two levels of Graclus or NDP for a data set of :func:`softcut.datasets.load_graphs`.

    Looked for as ``NAME.METHOD.npz`` beside the packed data; made, and kept in the cache, where it is missing.
    """
    file = f"{graphs.name}.{method}.npz"
    path = fetching.find_file(fetching.search_roots(root), (f"graphs/{file}", file))
    if path is not None:
        return Hierarchy.read(path, graphs)
    made = coarsen_collection(graphs, method)
    if root is None:
        with suppress(OSError):
            made.write(fetching.cache_dir() / "graphs" / file)
    return made
