"""Draws docs/images/pooling-gallery.png: one graph coarsened by every pooler.

    python docs/images/pooling_gallery.py

Each pooler sits in the autoencoder of the paper's experiment and is trained for a few hundred steps to
reconstruct the coordinates (Graclus, NDP and the random control have nothing to train). A pooled node is
drawn at the mean position of the nodes it stands for, its area by how many they are.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.collections import LineCollection

from softcut.datasets import community_graph
from softcut.nn import GraphAutoencoder
from softcut.ops import as_operator

POOLERS = {
    "mincut": "MinCutPool",
    "diffpool": "DiffPool",
    "topk": "Top-K",
    "sagpool": "SAGPool",
    "graclus": "Graclus",
    "ndp": "NDP",
    "random": "random S",
}
STEPS = 400


def pooled(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, sizes and adjacency of the pooled graph."""
    graph = community_graph(6, 150, seed=0)
    x, op = torch.as_tensor(np.asarray(graph.x)), as_operator(graph)
    torch.manual_seed(0)
    model = GraphAutoencoder(2, name, k=graph.num_nodes // 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(STEPS):
        out = model(x, op)
        loss = (out.x - x).square().mean() + out.pooled.loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    s = model(x, op).pooled.s.detach().to_dense().abs()
    if name in ("topk", "sagpool", "ndp"):
        s = (s > 0).float()
    size = s.sum(0)
    position = (s.T @ x) / size.clamp(min=1e-9).unsqueeze(1)
    adjacency = out.pooled.adj.to_dense().detach().squeeze(0)
    used = (size > 0.05).numpy()
    return position.numpy()[used], size.numpy()[used], adjacency.numpy()[used][:, used]


def show(axis, position, size, adjacency, title) -> None:  # type: ignore[no-untyped-def]
    row, col = np.nonzero(np.triu(adjacency, 1))
    weight = adjacency[row, col]
    strong = weight >= 0.05 * weight.max(initial=1e-9)
    row, col, weight = row[strong], col[strong], weight[strong]
    lines = np.stack([position[row], position[col]], 1)
    colours = np.zeros((len(row), 4))
    colours[:, 3] = 0.5 * np.sqrt(weight / weight.max(initial=1e-9))
    axis.add_collection(LineCollection(list(lines), colors=colours, linewidths=0.7, zorder=1))
    axis.scatter(
        position[:, 0], position[:, 1], s=9 * size, c="tab:blue", edgecolors="white", lw=0.4, zorder=2
    )
    axis.set_title(f"{title}: {len(position)} nodes", fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])


def main() -> None:
    torch.set_num_threads(1)
    graph = community_graph(6, 150, seed=0)
    x = np.asarray(graph.x)
    figure, axes = plt.subplots(2, 4, figsize=(11, 5.6))
    show(axes.flat[0], x, np.ones(len(x)), graph.adjacency.toarray(), "original")
    margin = 0.06 * np.ptp(x, axis=0)
    for axis, (name, title) in zip(list(axes.flat)[1:], POOLERS.items(), strict=True):
        axis.scatter(x[:, 0], x[:, 1], s=4, c="0.85", zorder=0)
        show(axis, *pooled(name), title)
    for axis in axes.flat:
        axis.set_xlim(x[:, 0].min() - margin[0], x[:, 0].max() + margin[0])
        axis.set_ylim(x[:, 1].min() - margin[1], x[:, 1].max() + margin[1])
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("pooling-gallery.png"), dpi=130)


if __name__ == "__main__":
    main()
