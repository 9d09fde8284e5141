"""Draws docs/images/lfr.png: how well planted communities are found as more edges leave them, and what is said.

    python docs/images/lfr.py

Reads ``results/unknown_numbers_test.json``, which ``python benchmarks/unknown_numbers.py --test`` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parents[2] / "results" / "unknown_numbers_test.json"
# Okabe and Ito's colours, a dash and a shape each: nothing differs by colour alone.
LINES = {"softcut": ("#0072B2", "-"), "leiden": ("#D55E00", "--")}
LABELS = {"softcut": "softcut, mean of the graphs", "leiden": "Leiden, resolution 1"}
VERDICTS = {"clear": ("o", "#0072B2"), "weak": ("D", "#56B4E9"), "none": ("X", "black")}


def main() -> None:
    digests = json.loads(RESULTS.read_text(encoding="utf-8"))["digests"]
    rows = [row for row in list(digests.values())[-1]["rows"] if row["family"] == "LFR"]
    mixing = sorted({row["strength"] for row in rows})
    figure, axis = plt.subplots(figsize=(7.6, 4.4))
    for method, (colour, dash) in LINES.items():
        groups = [[row for row in rows if row["strength"] == each] for each in mixing]
        shares = [fmean(row["between"][0] for row in group) for group in groups]
        means = [fmean(row[method]["score"] for row in group) for group in groups]
        axis.plot(shares, means, dash, color=colour, lw=1.8, label=LABELS[method], zorder=1)
    for verdict, (marker, colour) in VERDICTS.items():
        points = [row for row in rows if row["softcut"]["verdict"] == verdict]
        axis.scatter(
            [row["between"][0] for row in points],
            [row["softcut"]["score"] for row in points],
            s=48,
            c=colour,
            marker=marker,
            edgecolors="white",
            linewidths=0.6,
            label=f'softcut, verdict "{verdict}"',
            zorder=2,
        )
    axis.set_ylim(-0.03, 1.05)
    axis.set_xlabel("share of the edges between communities")
    axis.set_ylabel("NMI with the planted communities")
    axis.set_title("LFR graphs of 1,000 nodes: what is found, and what the verdict says", fontsize=11)
    axis.legend(loc="lower left", frameon=True, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("lfr.png"), dpi=130)


if __name__ == "__main__":
    main()
