"""How hard the generated graph is that examples and tests use: baselines that see edges, features, or both.

Writes ``results/generated.json`` and prints its rows.

    python benchmarks/generated.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from softcut.baselines import BASELINES
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin

SEES = {"sc": "edges", "leiden": "edges", "kmeans": "features", "kmeans_propagated": "both"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/generated.json"))
    given = parser.parse_args()
    graph = attributed_communities(seed=0)
    assert graph.y is not None
    k = len(np.unique(graph.y))
    rows = []
    for name, seen in SEES.items():
        score = round(nmi(graph.y, BASELINES[name](graph, k, random_state=0)), 4)
        rows.append({"baseline": name, "sees": seen, "nmi": score})
        print(rows[-1])
    atomic_json(given.out, {"rows": rows, **origin()})


if __name__ == "__main__":
    main()
