"""Train on a small graph, cluster one ten times larger of the same kind; beside fitting the large one.

python benchmarks/transfer.py [--nodes 2000] [--factor 10]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from softcut import GraphClustering
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin

K = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--factor", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/transfer.json"))
    options = parser.parse_args()
    small = attributed_communities(options.nodes, K, seed=0)
    large = attributed_communities(options.factor * options.nodes, K, seed=0)
    rows = []

    start = time.perf_counter()
    est = GraphClustering(K, device="cpu").fit(small)
    fit_small = time.perf_counter() - start
    start = time.perf_counter()
    predicted = est.predict(large)
    rows.append(("fit small, predict large", nmi(large.y, predicted), fit_small, time.perf_counter() - start))

    start = time.perf_counter()
    direct = GraphClustering(K, device="cpu").fit(large)
    rows.append(("fit large", nmi(large.y, direct.labels_), time.perf_counter() - start, 0.0))

    print(f"small: {small}\nlarge: {large}")
    print(f"{'':26} {'NMI on large':>12} {'fit s':>8} {'predict s':>10}")
    for name, score, fit, predict in rows:
        print(f"{name:26} {score:12.3f} {fit:8.1f} {predict:10.1f}")
    print(f"NMI on small after fitting it: {nmi(small.y, est.labels_):.3f}")
    keys = ("what", "nmi_on_large", "fit_seconds", "predict_seconds")
    atomic_json(
        options.out,
        {
            "rows": [
                dict(zip(keys, (n, *(round(v, 3) for v in values)), strict=True)) for n, *values in rows
            ],
            **origin(),
        },
    )


if __name__ == "__main__":
    main()
