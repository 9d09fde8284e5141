"""softcut: cluster and coarsen graphs with a differentiable minCUT objective.

>>> import softcut as sc
>>> graph = sc.Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])   # two triangles, one bridge
>>> labels = sc.GraphClustering(n_clusters=2, random_state=0).fit_predict(graph)
>>> bool(labels[0] == labels[1] != labels[4])
True
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from softcut.imports import importing

__version__ = "0.1.0"

# Threads that wait for others should sleep: spinning ones make a fit on a busy machine many times slower. Read when
# torch is loaded; set it yourself to choose otherwise.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Imported on first use, so that `import softcut` stays quick.
_PUBLIC = {
    "Graph": "softcut.graph",
    "read_graph": "softcut.io",
    "read_features": "softcut.io",
    "GraphClustering": "softcut.clustering",
    "MinCutClustering": "softcut.clustering",
    "GraphClassification": "softcut.learning",
    "GraphRegression": "softcut.learning",
    "SoftcutError": "softcut.errors",
    "load_dataset": "softcut.datasets",
    "segment_image": "softcut.segment",
}

if TYPE_CHECKING:
    from softcut.clustering import GraphClustering, MinCutClustering
    from softcut.datasets import load as load_dataset
    from softcut.errors import SoftcutError
    from softcut.graph import Graph
    from softcut.io import read_features, read_graph
    from softcut.learning import GraphClassification, GraphRegression
    from softcut.segment import segment_image

__all__ = [
    "Graph",
    "GraphClassification",
    "GraphClustering",
    "GraphRegression",
    "MinCutClustering",
    "SoftcutError",
    "__version__",
    "load_dataset",
    "read_features",
    "read_graph",
    "segment_image",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        with importing():
            module = importlib.import_module(_PUBLIC[name])
        return getattr(module, "load" if name == "load_dataset" else name)
    raise AttributeError(f"module 'softcut' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
