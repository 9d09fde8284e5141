"""How many networks keep all their clusters, on generated graphs of the kind that invites collapse.

Average degree from 4 to 100, 16 to 8,000 features of weak signal. Writes ``results/collapse.json`` and
prints a table.

    python benchmarks/collapse.py [--nodes 1000] [--replicas 24]
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from softcut import GraphClustering
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin

DEGREES = (4, 20, 60, 100)
FEATURES = (16, 500, 8000)
SIGNALS = ((0.3, 0.1), (0.05, 0.05))  # of edges, of features
K = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path("results/collapse.json"))
    options = parser.parse_args()
    rows = []
    titles = ("degree", "features", "edge sig.", "feat. sig.", "kept all", "NMI")
    print("{:>6} {:>8} {:>9} {:>10} {:>9} {:>5}".format(*titles))
    for degree, features, (edge, feature) in itertools.product(DEGREES, FEATURES, SIGNALS):
        graph = attributed_communities(
            options.nodes, K, degree, features, edge_signal=edge, feature_signal=feature, seed=1
        )
        est = GraphClustering(K, n_init=options.replicas, device="cpu").fit(graph)
        kept = sum(not r.collapsed for r in est.replicas_)
        row = {
            "average_degree": degree,
            "features": features,
            "edge_signal": edge,
            "feature_signal": feature,
            "kept_all_clusters": kept,
            "replicas": len(est.replicas_),
            "nmi": round(nmi(graph.y, est.soft_.argmax(1)), 3),
        }
        rows.append(row)
        print(
            f"{degree:6d} {features:8d} {edge:9.2f} {feature:10.2f} "
            f"{kept:4d} / {len(est.replicas_):2d} {row['nmi']:5.2f}",
            flush=True,
        )
    kept, total = (sum(r[key] for r in rows) for key in ("kept_all_clusters", "replicas"))
    worst = min(r["kept_all_clusters"] / r["replicas"] for r in rows)
    print(f"{kept} of {total} networks ({kept / total:.1%}) use all {K} clusters; worst setting {worst:.1%}")
    atomic_json(options.out, {"rows": rows, "share": kept / total, **origin()})


if __name__ == "__main__":
    main()
