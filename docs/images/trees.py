"""Draws docs/images/tree-miserables.png and docs/images/tree-friends.png: nested communities of two graphs.

python docs/images/trees.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import networkx as nx

import softcut as sc
from softcut.report.level_plot import plot_levels

HERE = Path(__file__).parent


def main() -> None:
    friends = sc.read_graph(Path(sc.__file__).parents[1] / "examples" / "friends.csv")
    miserables = sc.Graph.from_networkx(nx.les_miserables_graph())
    for name, title, graph in (
        ("miserables", "77 characters of Les Misérables", miserables),
        ("friends", "60 friends (examples/friends.csv)", friends),
    ):
        est = sc.GraphClustering().fit(graph)
        print(plot_levels(HERE / f"tree-{name}.png", est.tree_, est.levels_.labels, est.level_, title))


if __name__ == "__main__":
    main()
