"""Tables with columns of several kinds over planted graphs: does the whole table do as well as its best kind alone?

Every case is a planted graph and a table of its nodes with numbers, categories, words, dates or noise, in various
units. The default clustering reads the graph with all columns, and with the columns of each kind alone; the best of
these is the yardstick.

    python benchmarks/mixed_tables.py [--only N ...] [--seed 0]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from softcut import Graph, GraphClustering
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin

NODES, CLUSTERS = 400, 4
Block = tuple[str, np.ndarray]


def numbers(
    rng: np.random.Generator, y: np.ndarray, signal: float, width: int, unit: float = 1.0
) -> np.ndarray:
    """Measurements around a mean for each class, `signal` standard deviations apart."""
    mean = rng.standard_normal((y.max() + 1, width)) * signal
    return (50 + mean[y] + rng.standard_normal((len(y), width))) * unit


def category(rng: np.random.Generator, y: np.ndarray, share: float, values: int) -> np.ndarray:
    """One-hot columns: the value of the class in a share of the rows, any value in the others."""
    own = rng.permutation(values)[y % values]
    value = np.where(rng.random(len(y)) < share, own, rng.integers(values, size=len(y)))
    return np.eye(values)[value]


def words(rng: np.random.Generator, y: np.ndarray, signal: float, width: int = 100) -> np.ndarray:
    """0 and 1: `signal` times as many of a class's own words."""
    chance = np.where(np.arange(width) % (y.max() + 1) == y[:, None], 0.05 * signal, 0.05)
    return (rng.random((len(y), width)) < chance).astype(float)


def cases(seed: int) -> list[tuple[str, np.ndarray, Graph, list[Block]]]:
    """Name, classes, graph, and the columns of each kind."""
    result = []
    plan: list[tuple[str, list[tuple[str, tuple[float, ...]]]]] = [
        ("numbers, irrelevant category", [("n", (2.0, 2)), ("c", (0.0, 4))]),
        ("numbers, irrelevant category of 40 values", [("n", (2.0, 2)), ("c", (0.0, 40))]),
        ("numbers, two irrelevant categories", [("n", (2.0, 2)), ("c", (0.0, 3)), ("c", (0.0, 8))]),
        ("numbers, informative category", [("n", (1.0, 2)), ("c", (0.7, 4))]),
        ("irrelevant numbers, informative category", [("n", (0.0, 3)), ("c", (0.7, 4))]),
        ("300 columns of noise, informative category", [("n", (0.0, 300)), ("c", (0.8, 4))]),
        ("numbers, irrelevant words", [("n", (2.0, 2)), ("w", (1.0,))]),
        ("irrelevant numbers, informative words", [("n", (0.0, 3)), ("w", (3.0,))]),
        ("numbers and words", [("n", (1.0, 3)), ("w", (2.0,))]),
        ("numbers, words, category", [("n", (1.0, 3)), ("w", (2.0,)), ("c", (0.5, 5))]),
        ("300 columns of noise, informative words", [("n", (0.0, 300)), ("w", (3.0,))]),
        ("unit 1e-6", [("n", (2.0, 2, 1e-6)), ("c", (0.0, 4))]),
        ("unit 1e9", [("n", (2.0, 2, 1e9)), ("c", (0.0, 4))]),
        ("units 1e-6 and 1e9", [("n", (2.0, 1, 1e-6)), ("n", (2.0, 1, 1e9)), ("c", (0.0, 4))]),
        ("a constant column", [("n", (2.0, 2)), ("k", ()), ("c", (0.0, 4))]),
        ("only numbers", [("n", (1.5, 4))]),
        ("only a category", [("c", (0.8, 4)), ("n", (0.0, 1))]),
        ("heavy tails", [("h", (2.0, 2)), ("c", (0.0, 4))]),
        ("a date beside noise", [("d", (2.0,)), ("n", (0.0, 5)), ("c", (0.0, 6))]),
        ("many weak kinds", [("n", (0.7, 4)), ("c", (0.4, 4)), ("c", (0.4, 6)), ("w", (1.6,))]),
    ]
    for repeat, signal in ((0, 0.6), (1, 0.35)):
        for i, (name, blocks) in enumerate(plan):
            rng = np.random.default_rng([seed, repeat, i])
            graph = attributed_communities(
                NODES, CLUSTERS, 8, 0, edge_signal=signal, seed=int(rng.integers(1 << 30))
            )
            y = graph.y
            assert y is not None
            made: list[Block] = []
            for kind, values in blocks:
                if kind == "n":
                    made.append(("numbers", numbers(rng, y, values[0], int(values[1]), *values[2:])))
                elif kind == "h":
                    wide = numbers(rng, y, values[0], int(values[1]))
                    wide[rng.integers(NODES, size=8)] *= 1e4
                    made.append(("numbers", wide))
                elif kind == "d":
                    made.append(("numbers", 18_000 + 300 * numbers(rng, y, values[0], 1)))
                elif kind == "k":
                    made.append(("numbers", np.full((NODES, 1), 7.0)))
                elif kind == "c":
                    made.append(
                        (f"category of {int(values[1])}", category(rng, y, values[0], int(values[1])))
                    )
                else:
                    made.append(("words", words(rng, y, values[0])))
            result.append((f"{name}, edges {signal}", y, graph, made))
    return result


def score(graph: Graph, x: np.ndarray, y: np.ndarray) -> float:
    """NMI of the default fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = GraphClustering(CLUSTERS, random_state=0).fit(graph.with_features(x)).labels_
    return nmi(y, labels)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("results/mixed_tables.json"))
    options = parser.parse_args()
    rows = []
    for i, (name, y, graph, blocks) in enumerate(cases(options.seed)):
        if options.only and i not in options.only:
            continue
        together = score(graph, np.concatenate([x for _, x in blocks], axis=1), y)
        alone: dict[str, float] = {}
        for kind in dict.fromkeys(kind for kind, _ in blocks):
            alone[kind] = score(graph, np.concatenate([x for k, x in blocks if k == kind], axis=1), y)
        best = max(alone.values())
        rows.append({"case": name, "all": together, "alone": alone, "within": together >= best - 0.05})
        told = ", ".join(f"{kind} {value:.2f}" for kind, value in alone.items())
        print(
            f"{i:2} {'ok  ' if rows[-1]['within'] else 'MISS'} {together:.2f} | {told} | {name}", flush=True
        )
    print(f"{sum(row['within'] for row in rows)} of {len(rows)} within .05 of the best kind alone")
    if not options.only:
        atomic_json(options.out, {"cases": rows, "seed": options.seed, **origin()})


if __name__ == "__main__":
    main()
