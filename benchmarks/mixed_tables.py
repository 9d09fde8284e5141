"""Tables with columns of several kinds over planted graphs: does the whole table do as well as its best kind alone?

Every case is a planted graph and a table of its nodes as people have them: numbers in various units, categories,
words, dates, ids, free text, gaps, a constant, or 300 columns of noise. The default clustering reads the graph with all
columns, and with the columns of each kind alone; the best of these is the yardstick. The note of the fit must name the
kind of every column.

    python benchmarks/mixed_tables.py [--only N ...] [--seed 0]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from softcut import Graph, GraphClustering
from softcut.datasets import attributed_communities
from softcut.errors import Note
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin

NODES, CLUSTERS = 400, 4


def numbers(
    rng: np.random.Generator, y: np.ndarray, signal: float, width: int, unit: float = 1.0
) -> np.ndarray:
    """Measurements around a mean for each class, `signal` standard deviations apart."""
    mean = rng.standard_normal((y.max() + 1, width)) * signal
    return (50 + mean[y] + rng.standard_normal((len(y), width))) * unit


def category(rng: np.random.Generator, y: np.ndarray, share: float, values: int) -> np.ndarray:
    """Values: that of the class in a share of the rows, any one in the others."""
    own = rng.permutation(values)[y % values]
    return np.where(rng.random(len(y)) < share, own, rng.integers(values, size=len(y)))


def words(rng: np.random.Generator, y: np.ndarray, signal: float, width: int = 100) -> np.ndarray:
    """0 and 1: `signal` times as many of a class's own words."""
    chance = np.where(np.arange(width) % (y.max() + 1) == y[:, None], 0.05 * signal, 0.05)
    return (rng.random((len(y), width)) < chance).astype(float)


def block(rng: np.random.Generator, y: np.ndarray, kind: str, values: tuple[float, ...]) -> pd.DataFrame:
    """The columns of one entry of the plan; the beginning of a title says what the column is."""
    n = len(y)
    if kind == "c":
        return pd.DataFrame(
            {f"category of {values[1]}": [f"v{v}" for v in category(rng, y, values[0], int(values[1]))]}
        )
    if kind == "w":
        return pd.DataFrame(words(rng, y, values[0])).add_prefix("words")
    if kind == "d":
        days = pd.to_timedelta((18_000 + 300 * numbers(rng, y, values[0], 1)).ravel().round(), "D")
        return pd.DataFrame({"date": (pd.Timestamp("1970-01-01") + days).strftime("%Y-%m-%d")})
    if kind == "k":
        return pd.DataFrame({"constant": np.full(n, 7.0)})
    if kind == "i":
        return pd.DataFrame({"id": [f"A-{i:04}" for i in rng.permutation(n)]})
    if kind == "t":
        return pd.DataFrame(
            {"text": [f"met {i} at noon, spoke of {j}" for i, j in enumerate(rng.permutation(n))]}
        )
    columns = numbers(rng, y, values[0], int(values[1]), *values[2:])
    if kind == "h":
        columns[rng.integers(n, size=8)] *= 1e4
    if kind == "g":
        columns[rng.random(columns.shape) < 0.1] = np.nan
    return pd.DataFrame(columns).add_prefix("number")


def cases(seed: int) -> list[tuple[str, Graph, pd.DataFrame]]:
    """Name, graph with its classes, and the table."""
    result = []
    plan: list[tuple[str, list[tuple[str, tuple[float, ...]]]]] = [
        ("numbers, irrelevant category", [("n", (2.0, 2)), ("c", (0.0, 4))]),
        ("numbers, irrelevant category of 40 values", [("n", (2.0, 2)), ("c", (0.0, 40))]),
        (
            "ids, free text, two irrelevant categories",
            [("n", (2.0, 2)), ("c", (0.0, 3)), ("c", (0.0, 8)), ("i", ()), ("t", ())],
        ),
        ("numbers, informative category", [("n", (1.0, 2)), ("c", (0.7, 4))]),
        ("irrelevant numbers, informative category", [("n", (0.0, 3)), ("c", (0.7, 4))]),
        ("300 columns of noise, informative category", [("n", (0.0, 300)), ("c", (0.8, 4))]),
        ("numbers, irrelevant words", [("n", (2.0, 2)), ("w", (1.0,))]),
        ("gaps in a tenth of the numbers", [("g", (2.0, 3)), ("c", (0.0, 4))]),
        ("numbers and words", [("n", (1.0, 3)), ("w", (2.0,))]),
        ("only categories", [("c", (0.6, 4)), ("c", (0.5, 6)), ("c", (0.0, 9))]),
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
            assert graph.y is not None
            table = pd.concat([block(rng, graph.y, *entry) for entry in blocks], axis=1)
            table.columns = [f"{title} ({j})" for j, title in enumerate(table.columns)]
            result.append((f"{name}, edges {signal}", graph, table))
    return result


def score(graph: Graph, table: pd.DataFrame) -> tuple[float, bool]:
    """NMI of the default fit, and whether its notes name the kind of every column."""
    rows, columns = graph.edge_index()[0]
    edges = pd.DataFrame({"source": rows, "target": columns})
    nodes = pd.concat([pd.Series(np.arange(NODES), name="node"), table], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = GraphClustering(CLUSTERS, random_state=0).fit(Graph.from_frame(edges, nodes, missing="mean"))
    (said,) = [
        note.values["kinds"] for note in est.notes_ if isinstance(note, Note) and note.code == "columns"
    ]
    named = said == {"node": "id", **{title: kind_of(title) for title in table}}
    return nmi(graph.y, est.labels_), named


def kind_of(title: str) -> str:
    """What a column is, by its title."""
    return title.split(" ")[0].rstrip("0123456789")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("results/mixed_tables.json"))
    options = parser.parse_args()
    rows = []
    for i, (name, graph, table) in enumerate(cases(options.seed)):
        if options.only and i not in options.only:
            continue
        together, named = score(graph, table)
        used = [title for title in table if kind_of(title) not in ("id", "text", "constant")]
        kinds = {
            title: title.split(" (")[0] if kind_of(title) == "category" else kind_of(title) for title in used
        }
        alone = {
            kind: score(graph, table[[title for title in used if kinds[title] == kind]])[0]
            for kind in dict.fromkeys(kinds.values())
        }
        within = together >= max(alone.values()) - 0.05
        rows.append({"case": name, "all": together, "alone": alone, "within": within, "named": named})
        told = ", ".join(f"{kind} {value:.2f}" for kind, value in alone.items())
        marks = f"{'ok  ' if within else 'MISS'} {'named' if named else 'NOT NAMED'}"
        print(f"{i:2} {marks} {together:.2f} | {told} | {name}", flush=True)
    print(f"{sum(bool(row['within']) for row in rows)} of {len(rows)} within .05 of the best kind alone")
    print(
        f"{sum(bool(row['named']) for row in rows)} of {len(rows)} with a note that names every column's kind"
    )
    if not options.only:
        atomic_json(options.out, {"cases": rows, "seed": options.seed, **origin()})


if __name__ == "__main__":
    main()
