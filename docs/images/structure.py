"""Draws docs/images/structure.png: what `structure_` says about how well a plant is found.

    python docs/images/structure.py

Reads ``results/structure_curve.json``, which ``python benchmarks/noise.py --curve`` writes.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parents[2] / "results" / "structure_curve.json"
# Okabe and Ito's colours, and a shape for each kind: no two differ by colour alone.
KINDS = {
    "edges": ("#0072B2", "o", "in the edges"),
    "edges, hubs": ("#E69F00", "v", "in the edges, with hubs"),
    "words": ("#D55E00", "s", "in the words"),
    "normal": ("#009E73", "^", "in measurements"),
    "edges and words": ("#CC79A7", "D", "in edges and words"),
}
MOST = 4.0  # of structure_ that is drawn; higher ones are all found


def main() -> None:
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))
    clear, rows = recorded["clear"], recorded["rows"]
    figure, axis = plt.subplots(figsize=(7.6, 4.4))
    for left, right, shade, verdict in (
        (0, 1, "0.90", '"none"'),
        (1, clear, "0.95", '"weak"'),
        (clear, MOST, "1.0", '"clear"'),
    ):
        axis.axvspan(left, right, color=shade, lw=0, zorder=0)
        axis.text((left + right) / 2, 1.06, verdict, ha="center", va="bottom", fontsize=10)
    for border in (1, clear):
        axis.axvline(border, color="0.35", lw=1, ls="--", zorder=1)
    for kind, (colour, marker, label) in KINDS.items():
        points = [row for row in rows if row["kind"] == kind and row["structure"] <= MOST]
        axis.scatter(
            [row["structure"] for row in points],
            [row["nmi"] for row in points],
            s=30,
            c=colour,
            marker=marker,
            edgecolors="white",
            linewidths=0.5,
            label=label,
            zorder=2,
        )
    axis.set_xlim(0, MOST)
    axis.set_ylim(-0.03, 1.05)
    axis.set_xlabel("structure_: nats explained per nat of labels")
    axis.set_ylabel("NMI of the clusters found with those planted")
    axis.set_title(
        "Below 1 little or nothing is found, from 1.5 on most of what was planted", pad=24, fontsize=11
    )
    axis.legend(title="communities planted", loc="lower right", frameon=True, fontsize=9, title_fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("structure.png"), dpi=130)


if __name__ == "__main__":
    main()
