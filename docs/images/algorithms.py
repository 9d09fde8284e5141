"""Draws docs/images/networks.png: how a graph is clustered with features.

python docs/images/algorithms.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import torch
from scipy.sparse.csgraph import connected_components

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering.prepare import Encoder
from softcut.colours import cluster_colours
from softcut.datasets import attributed_communities

HERE = Path(__file__).parent


def connected(graph: sc.Graph) -> sc.Graph:
    """The largest connected part."""
    part = connected_components(graph.adjacency)[1]
    return graph.subgraph(part == np.bincount(part).argmax())


def picture(graph: sc.Graph) -> np.ndarray:
    """Where nodes are drawn."""
    drawn = nx.from_scipy_sparse_array(graph.adjacency)
    layout = nx.kamada_kawai_layout(drawn)
    layout = nx.spring_layout(drawn, pos=layout, seed=0, iterations=30, k=0.12)
    return np.array([layout[i] for i in range(graph.num_nodes)])


def draw(axis: plt.Axes, graph: sc.Graph, place: np.ndarray, labels: np.ndarray, title: str) -> None:
    """The graph with the nodes of a cluster in one colour."""
    start, end = graph.edge_index()[0]
    once = start < end
    axis.plot(*np.stack([place[start[once]], place[end[once]]], axis=1).T, color="#cfcfcf", lw=0.4, zorder=1)
    colours = cluster_colours(int(labels.max()) + 1)
    axis.scatter(*place.T, c=[colours[label] for label in labels], s=14, lw=0, zorder=2)
    bare(axis, title)


def bare(axis: plt.Axes, title: str) -> None:
    axis.set_title(title, fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_visible(False)


def networks() -> None:
    """Features at several distances, the evidence of the networks that read them, their consensus."""
    graph = connected(attributed_communities(260, 4, 7, 60, edge_signal=0.66, feature_signal=0.4, seed=5))
    est = sc.GraphClustering(4, random_state=0, device="cpu").fit(graph)
    colours = cluster_colours(4)
    figure = plt.figure(figsize=(11, 3.1), layout="constrained")
    grid = figure.add_gridspec(3, 4, width_ratios=[0.55, 1.3, 1.15, 1.15])
    encoder, encoded = Encoder.fit(graph, Recipe())
    for row, hops in enumerate((0, 2, 8)):
        z = encoded.z[encoder.recipe.distances.index(hops)].double()
        two = (z @ torch.linalg.svd(z - z.mean(0), full_matrices=False)[2][:2].mT).numpy()
        axis = figure.add_subplot(grid[row, 0])
        axis.scatter(*two.T, c=[colours[label] for label in est.labels_], s=2, lw=0)
        bare(axis, "1  encode" if row == 0 else "")
        axis.set_ylabel(f"{hops} hops", fontsize=8)
    axis = figure.add_subplot(grid[:, 1])
    values = np.array([replica.evidence for replica in est.replicas_])
    hops = np.array([replica.hops for replica in est.replicas_])
    weight = np.exp(-(((values.max() - values) / (Recipe().width * values.max())) ** 2))
    scales = sorted(set(hops.tolist()))
    each = len(values) // len(scales)
    from_edges = np.arange(len(values)) % each < round(Recipe().edge_starts * each)
    for mask, name, colour in (
        (~from_edges, "from k-means of features", "#0072b2"),
        (from_edges, "from clusters of the edges", "#d55e00"),
    ):
        x = np.array([scales.index(h) for h in hops[mask]]) + np.linspace(-0.2, 0.2, mask.sum())
        axis.scatter(x, values[mask], s=8 + 70 * weight[mask], color=colour, alpha=0.65, lw=0, label=name)
    axis.set_xticks(range(len(scales)), [str(h) for h in scales], fontsize=8)
    axis.tick_params(axis="y", labelsize=8)
    axis.set_xlabel("hops of the features that a network reads", fontsize=8)
    axis.set_ylabel("evidence", fontsize=8)
    axis.set_title("2  train 24 networks (size: weight)", fontsize=9)
    legend = axis.legend(fontsize=7, frameon=False, loc="lower center")
    for handle in legend.legend_handles:
        handle.set_sizes([30])
    place = picture(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        merged = sc.GraphClustering(4, random_state=0, device="cpu", recipe=Recipe(refine=False)).fit(graph)
    draw(figure.add_subplot(grid[:, 2]), graph, place, matched(merged.labels_, est.labels_), "3  merge")
    draw(figure.add_subplot(grid[:, 3]), graph, place, est.labels_, "4  refine")
    save(figure, "networks.png")


def matched(labels: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Labels renamed to those of another clustering that they share most nodes with."""
    best = [np.bincount(to[labels == c]).argmax() for c in range(int(labels.max()) + 1)]
    return np.array(best)[labels]


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(HERE / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    networks()
