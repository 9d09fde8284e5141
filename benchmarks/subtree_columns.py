"""What describes a graph to the linear models in GraphClassification's default: compared on validation graphs.

``python benchmarks/subtree_columns.py [--dataset NAME ...] [--folds 10] [--out FILE]``

Models learn from the training graphs of table 2's folds and are asked for the validation graphs; test graphs are not
looked at. The four descriptions are parts of the same columns (:mod:`softcut.learning.subtrees`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from softcut.datasets.collections import load_graphs
from softcut.files import atomic_json
from softcut.graph.collection import folds
from softcut.learning.subtrees import (
    COLUMNS,
    HASHED,
    SubtreeClassifier,
    describe_graphs,
    features_are_labels,
)
from softcut.paper.table2 import DATASETS
from softcut.provenance import origin

DESCRIPTIONS = {
    "roots": slice(0, HASHED),
    "counts": slice(HASHED, 2 * HASHED),
    "roots and counts": slice(0, 2 * HASHED),
    "roots, counts and sizes": slice(0, COLUMNS),
}


def compare(dataset: str, number: int) -> list[dict[str, object]]:
    """Accuracy in percent and cross entropy of every description, mean over the validation parts."""
    graphs = load_graphs(dataset, structure=False)
    y = graphs.y
    assert y is not None
    columns = describe_graphs(graphs, graphs.num_features > 0 and features_are_labels(graphs))
    rows = []
    for name, chosen in DESCRIPTIONS.items():
        kept = np.zeros(COLUMNS)
        kept[chosen] = 1
        seen = sp.csr_array(columns @ sp.diags_array(kept))
        seen.eliminate_zeros()
        scores = []
        for split in folds(graphs)[:number]:
            model = SubtreeClassifier.fit(seen[split.train], y[split.train], len(graphs.classes))
            chances, truth = model.predict(seen[split.validation]), y[split.validation]
            loss = -np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-12)).mean()
            scores.append((100 * (chances.argmax(1) == truth).mean(), loss))
        accuracy, loss = np.mean(scores, axis=0)
        rows.append(
            {
                "dataset": dataset,
                "description": name,
                "accuracy": round(accuracy, 2),
                "cross_entropy": round(loss, 4),
            }
        )
        print(f"{dataset}: {name}: accuracy {accuracy:.1f}, cross entropy {loss:.3f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/subtree_columns.json"))
    given = parser.parse_args()
    rows = [row for name in given.dataset for row in compare(name, given.folds)]
    means = []
    for name in DESCRIPTIONS:
        own = [row for row in rows if row["description"] == name]
        mean = {
            key: round(float(np.mean([row[key] for row in own])), 3) for key in ("accuracy", "cross_entropy")
        }
        means.append({"description": name, **mean})
        print(f"mean: {name}: accuracy {mean['accuracy']:.1f}, cross entropy {mean['cross_entropy']:.3f}")
    atomic_json(given.out, {**origin("cpu"), "folds": given.folds, "means": means, "rows": rows})
    print(json.dumps({"written": str(given.out)}))


if __name__ == "__main__":
    main()
