"""The first step of a fit: the graph with its features, encoded once, and what judges its clusterings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from softcut.clustering.encoder import Encoded, Encoder
from softcut.clustering.node_features import Nodes, structural_features
from softcut.clustering.recipe import Recipe
from softcut.errors import Note
from softcut.graph import Graph
from softcut.metrics import Judge
from softcut.metrics.features import looks_like_words, presence
from softcut.ops import CSR, Operator, Words

Tell = Callable[[Note], None]  # called with what was decided
READS_FEATURES = Note(
    "clusters_from",
    "clusters found by networks that read the features of nodes and their neighbours.",
    source="features",
)


@dataclass(frozen=True)
class Prepared:
    """What the steps of a fit share."""

    encoder: Encoder
    encoded: Encoded  # the graph as the encoder sees it
    adjacency: Operator  # A, for objectives that count edges; weights are at most 1
    judge: Judge  # finds the evidence of clusterings
    words: Words | None  # what the evidence counts besides edges; None where softcut made the features
    nodes: Nodes  # all nodes, for samples and sums

    @property
    def device(self) -> torch.device:
        return self.encoded.z.device

    @property
    def one_graph(self) -> bool:
        """Whether all nodes are of one graph, and all of it is here."""
        return isinstance(self.adjacency, CSR) and self.adjacency.num_graphs == 1


def prepare(graph: Graph, recipe: Recipe, device: torch.device, tell: Tell) -> Prepared:
    """Make features where there are none, and encode the graph once."""
    reason = featureless(graph)
    structural = reason is not None
    if structural:
        # The paper's network has nothing else to read; several graphs share only what each node has around it.
        local = graph.num_graphs > 1
        what = "leading eigenvectors of the normalised adjacency"
        if local:
            what = "degrees in the neighbourhood of each node, which tell roles and not communities"
        said = f"clusters found by networks that read structural features ({what}): {reason}."
        tell(Note("clusters_from", said, source="structure"))
        graph = graph.with_features(structural_features(graph, local=local))
    encoder, encoded = Encoder.fit(graph, recipe, structural=structural, device=device)
    features = None if structural else presence(graph.x)
    words = None if features is None else Words(features, device=device)
    judge = Judge(graph.adjacency, None if structural else graph.x, device, features)
    assert isinstance(encoded.op, CSR)
    return Prepared(encoder, encoded, at_most_one(encoded.op), judge, words, Nodes(graph.num_nodes))


def at_most_one(op: CSR) -> CSR:
    """The operator in units of its largest weight, whose square is finite."""
    if op.val is None or op.val.numel() == 0:
        return op
    most = op.val.abs().max()
    return CSR(
        op.pattern, op.val / torch.where(most > 0, most, 1.0), layout=op.layout, symmetric=op.symmetric
    )


def left_out_of_large(recipe: Recipe) -> Note:
    """What is left out on a large graph."""
    said = (
        f"more than {recipe.large:,} nodes: no network begins from clusters of the edges, medians and centres are "
        "those of a sample, and networks stop one by one."
    )
    return Note("large_graph", said, large=recipe.large)


def featureless(graph: Graph) -> str | None:
    """Why nodes cannot be told apart by their features; None where they can."""
    if graph.num_features == 0:
        return "no features were given"
    return "all nodes have the same features" if is_constant(graph.x) else None


def is_constant(x: Any) -> bool:
    """Whether every node has the same features."""
    first = x[[0]]
    if abs(x[[x.shape[0] // 2]] - first).max() > 0:  # one look at another node decides nearly always
        return False
    if sp.issparse(x):
        return bool(abs(x - sp.csr_array(np.ones((x.shape[0], 1))) @ sp.csr_array(first)).max() == 0)
    return bool((x == first).all())


def silence_rule(graph: Graph) -> str:
    """Which nodes of a graph say nothing: "isolated" ones, isolated ones without words ("empty"), or "never".

    In measurements a row of zeros is a value like any other; in counts of words it is no word at all.
    """
    if featureless(graph) is not None:
        return "isolated"
    return "empty" if looks_like_words(graph.x) else "never"


def silent_nodes(graph: Graph, rule: str) -> np.ndarray:
    """Nodes [N] without edges and without features: nothing can be said about their cluster."""
    isolated = np.diff(graph.adjacency.indptr) == 0
    if rule == "isolated" or graph.x is None:
        return isolated & (rule != "never")
    if rule == "never":
        return np.zeros_like(isolated)
    if not isolated.any():
        return isolated
    return isolated & (np.asarray(abs(graph.x).sum(axis=1)).ravel() == 0)


def without(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph, or batch of graphs, without some of its nodes."""
    if graph.ptr is None:
        return graph.subgraph(~nodes)
    parts = zip(graph.split(), np.split(~nodes, graph.ptr[1:-1]), strict=True)
    return Graph.batch([part.subgraph(kept) for part, kept in parts if kept.any()])
