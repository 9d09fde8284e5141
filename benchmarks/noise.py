"""Whether `verdict_` says "none" of noise and something else of what was planted.

Noise: random graphs, preferential attachment, regular graphs and block models below the detection limit, each without
features and with features that say nothing. Planted: communities in the edges, in the features or in both, drawn until
60 of them were found (NMI with the plant at least .5): a plant that cannot be found is noise. Writes
``results/noise.json`` and prints a table and the counts. With ``--curve`` it measures how `structure_` and NMI rise
with the strength of a plant, for ``docs/images/structure.py``, and writes ``results/structure_curve.json``.

    python benchmarks/noise.py [--noise 60] [--planted 60] [--seed 0]
    python benchmarks/noise.py --curve
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from softcut import Graph, GraphClustering
from softcut.clustering.prepare import is_constant, silence_rule, silent_nodes, without
from softcut.clustering.recipe import DEFAULT
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import evidence_parts, nmi
from softcut.provenance import device_name, origin

FOUND = 0.5  # NMI from which a plant counts as found
NOISE = ("random", "preferential", "regular", "blocks below the limit")
SILENT = (
    *("none", "16 normal", "64 normal", "64 correlated", "16 skewed"),
    *("200 words", "1000 words", "5000 words", "constant"),
)
PLANTS = (
    "edges",
    "edges, hubs",
    "edges, words say nothing",
    "words",
    "normal",
    "edges and words",
    "edges and normal",
)
DEGREES = (3, 5, 8, 12, 20, 30)
NODES = (300, 400, 600, 1000)
CURVES = ("edges", "edges, hubs", "words", "normal", "edges and words")


@dataclass(frozen=True)
class Case:
    """A graph to cluster, how it was made, and what is asked for."""

    kind: str
    features: str
    degree: float
    strength: float
    k: int
    graph: Graph


def normal(y: np.ndarray, width: int, separation: float, rng: np.random.Generator) -> np.ndarray:
    """Normal columns around class means `separation` standard deviations from the centre."""
    mean = rng.standard_normal((int(y.max()) + 1, width))
    mean *= separation / np.linalg.norm(mean, axis=1, keepdims=True)
    return (mean[y] + rng.standard_normal((len(y), width))).astype(np.float32)


def silent_features(name: str, nodes: int, rng: np.random.Generator) -> Any:
    """Features that say nothing."""
    if name == "none":
        return None
    if name == "constant":
        return np.ones((nodes, 3), dtype=np.float32)
    width = int(name.split()[0])
    if name.endswith("normal"):
        return normal(np.zeros(nodes, dtype=int), width, 0.0, rng)
    if name.endswith("correlated"):  # a cloud of few dimensions without gaps
        few = int(rng.choice([2, 5, 10]))
        cloud = rng.standard_normal((nodes, few)) @ rng.standard_normal((few, width))
        return (cloud + few**0.5 / 2 * rng.standard_normal((nodes, width))).astype(np.float32)
    if name.endswith("skewed"):
        return np.exp(rng.standard_normal((nodes, width))).astype(np.float32)
    each = float(rng.choice([8, 20, 60]))
    return attributed_communities(nodes, 1, 0, width, words_per_node=each, seed=int(rng.integers(1 << 30))).x


def noise_edges(kind: str, nodes: int, degree: int, k: int, rng: np.random.Generator) -> Any:
    """An adjacency matrix without communities, or with such as cannot be found."""
    seed = int(rng.integers(1 << 30))
    if kind == "blocks below the limit":  # communities can be found where degree * signal^2 > 1
        share = float(rng.uniform(0.4, 0.8))
        made = attributed_communities(
            nodes, k, degree, 0, edge_signal=share / degree**0.5, degree_spread=0, seed=seed
        )
        return made.adjacency
    if kind == "random":
        network = nx.fast_gnp_random_graph(nodes, degree / (nodes - 1), seed=seed)
    elif kind == "regular":
        network = nx.random_regular_graph(degree, nodes, seed=seed)
    else:
        network = nx.barabasi_albert_graph(nodes, max(2, round(degree / 2)), seed=seed)
    return nx.to_scipy_sparse_array(network, weight=None, dtype=np.float32)


def noise_cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Every kind of graph with every kind of features; a few are large."""
    for i in range(count):
        rng = np.random.default_rng([1, i, seed])
        kind, features = NOISE[i % len(NOISE)], SILENT[i % len(SILENT)]
        nodes = 3000 if i % 15 == 7 else int(rng.choice(NODES))
        degree, k = int(rng.choice(DEGREES)), int(rng.integers(2, 13))
        adjacency = noise_edges(kind, nodes, degree, k, rng)
        x = silent_features(features, nodes, rng)
        yield Case(kind, features, degree, 0.0, k, Graph.from_scipy(adjacency, x=x))


def plant(kind: str, nodes: int, degree: float, k: int, strength: float, words: int, seed: int) -> Graph:
    """Communities of a strength from 0, where they are in nothing, to 1: in the edges, the features or both.

    Of the edges a share `strength` stays inside; of the words that share is the class's own. Means of the 64
    normal columns lie 6 `strength` standard deviations from the centre. Where both tell, each tells half as much.
    """
    in_edges, in_words, in_normal = (part in kind for part in ("edges", "words", "normal"))
    silent = "say nothing" in kind
    share = strength / 2 if in_edges and (in_words or in_normal) and not silent else strength
    made = attributed_communities(
        nodes,
        k,
        degree,
        words if in_words else 0,
        edge_signal=share if in_edges else 0.0,
        feature_signal=share if in_words and not silent else 0.0,
        degree_spread=1.0 if "hubs" in kind else 0.0,
        seed=seed,
    )
    if not in_normal:
        return made
    assert made.y is not None
    return made.with_features(normal(made.y, 64, 6 * share, np.random.default_rng([2, seed])))


def planted_cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Plants of every kind, from just above what can be found to strong ones."""
    for i in range(count):
        rng = np.random.default_rng([3, i, seed])
        kind = PLANTS[i % len(PLANTS)]
        nodes = 3000 if i % 15 == 8 else int(rng.choice(NODES))
        degree, k, words = (
            int(rng.choice(DEGREES)),
            int(rng.integers(2, 13)),
            int(rng.choice([200, 1000, 5000])),
        )
        least = 1 / degree**0.5 if kind.startswith("edges") else 0.2
        strength = float(rng.uniform(1.2 * least, 1.0))
        graph = plant(kind, nodes, degree, k, strength, words, int(rng.integers(1 << 30)))
        columns = f"{words} words" if "words" in kind else "64 normal" if "normal" in kind else "none"
        yield Case(kind, columns, degree, strength, k, graph)


def measured(case: Case, state: int = 0, device: str = "cpu") -> dict[str, Any]:
    """One fit: what it says, and what of that comes from the edges and from the features, per nat of labels."""
    graph = case.graph
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a graph may have no clusters is what is measured
        est = GraphClustering(case.k, random_state=state, device=device).fit(graph)
    silent = silent_nodes(graph, silence_rule(graph))  # these were left out
    constant = graph.num_features == 0 or is_constant(graph.x)
    heard = without(graph, silent)
    parts = evidence_parts(heard.with_features(None) if constant else heard, est.labels_[~silent])
    cost = max(parts.nodes * parts.entropy, 1e-9)
    return {
        "kind": case.kind,
        "features": case.features,
        "nodes": graph.num_nodes,
        "degree": case.degree,
        "k": case.k,
        "strength": round(case.strength, 4),
        "verdict": est.verdict_,
        "structure": round(est.structure_, 4),
        "edges": round(parts.edges / cost, 4),
        "told": round(parts.told / cost, 4),
        "agreement": round(est.agreement_, 4),
        "nmi": None if graph.y is None else round(nmi(graph.y, est.soft_.argmax(1)), 4),
        "seconds": round(time.perf_counter() - start, 2),
    }


HEAD = (
    "kind",
    "features",
    "nodes",
    "degree",
    "k",
    "strength",
    "nmi",
    "edges",
    "told",
    "structure",
    "verdict",
)


def line(row: dict[str, Any]) -> str:
    cells = ["-" if row[name] is None else str(row[name]) for name in HEAD]
    return "| " + " | ".join(cells) + " |"


def counts(count: int, planted: int, seed: int, out: Path, device: str) -> None:
    """Noise and plants, with the verdicts counted."""
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    about = {
        "device": device_name(device),
        "clear": DEFAULT.clear,
        "recipe": DEFAULT.digest,
        "seed": seed,
        **origin(),
    }
    noise: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []

    def save() -> None:
        atomic_json(out, {**about, "noise": noise, "planted": kept, "planted_not_found": lost})

    for case in noise_cases(count, seed):
        noise.append(measured(case, device=device))
        print(line(noise[-1]), flush=True)
        save()
    for case in planted_cases(4 * planted, seed):
        if len(kept) == planted:
            break
        row = measured(case, device=device)
        (kept if row["nmi"] >= FOUND else lost).append(row)
        print(line(row) + ("" if row["nmi"] >= FOUND else " not found"), flush=True)
        save()
    silent = sum(row["verdict"] == "none" for row in noise)
    heard = sum(row["verdict"] != "none" for row in kept)
    unfound = sum(row["verdict"] == "none" for row in lost)
    seconds = sum(row["seconds"] for row in noise + kept + lost)
    print(
        f"noise: {silent} of {len(noise)} 'none'; planted: {heard} of {len(kept)} not 'none' (of "
        f"{len(kept) + len(lost)} made {len(kept)} were found; of the {len(lost)} others {unfound} are 'none'); "
        f"{seconds:.0f} seconds"
    )


def curve(out: Path, device: str, strengths: int = 12, states: int = 2) -> None:
    """`structure_` and NMI over the strength of a plant."""
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    rows = []
    for kind in CURVES:
        for k in (3, 8):
            for strength in np.linspace(0, 1, strengths):
                for state in range(states):
                    graph = plant(kind, 600, 10, k, float(strength), 500, 100 + state)
                    rows.append(measured(Case(kind, "", 10, float(strength), k, graph), state, device))
                    print(line(rows[-1]), flush=True)
            atomic_json(
                out,
                {
                    "device": device_name(device),
                    "clear": DEFAULT.clear,
                    "recipe": DEFAULT.digest,
                    **origin(),
                    "rows": rows,
                },
            )
    for low, high in ((0, 1), (1, DEFAULT.clear), (DEFAULT.clear, np.inf)):
        nmis = [row["nmi"] for row in rows if low <= row["structure"] < high]
        if nmis:
            print(
                f"structure from {low:g} to {high:g}: {len(nmis)} fits, NMI {np.min(nmis):.2f} to "
                f"{np.max(nmis):.2f}, median {np.median(nmis):.2f}, {np.mean(np.array(nmis) >= 0.7):.0%} at least .7"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--noise", type=int, default=60, help="fits of noise")
    parser.add_argument("--planted", type=int, default=60, help="fits of plants that were found")
    parser.add_argument("--seed", type=int, default=0, help="of the graphs")
    parser.add_argument("--curve", action="store_true", help="structure and NMI over the strength of a plant")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="results/noise.json or results/structure_curve.json")
    given = parser.parse_args()
    if given.curve:
        curve(given.out or Path("results/structure_curve.json"), given.device)
    else:
        counts(given.noise, given.planted, given.seed, given.out or Path("results/noise.json"), given.device)


if __name__ == "__main__":
    main()
