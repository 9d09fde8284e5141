"""The first step of a fit: the graph with its features, encoded once, and the operator whose cut is minimised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from softcut.clustering.encoder import Encoded, Encoder
from softcut.clustering.features import structural_features
from softcut.clustering.neighbours import feature_graph
from softcut.clustering.sampling import LARGE
from softcut.clustering.settings import Settings
from softcut.graph import Graph
from softcut.metrics import Judge
from softcut.metrics.presence import looks_like_words, presence
from softcut.ops import CSR, Operator, Sum, Words

__all__ = ["BUDGET", "Note", "Prepared", "budget", "prepare", "silence_rule", "silent_nodes", "without"]

# Called with a sentence about what was decided.
Note = Callable[[str], None]

# Numbers held at a time by the training of all replicas (N R (H + K)), and pairs compared for an exact
# feature graph (N N F): what 2 CPU cores, or one GPU, do within seconds.
BUDGET = {"cpu": (1 << 24, 1 << 37), "cuda": (3 << 28, 1 << 42)}


def budget(device: torch.device) -> tuple[int, int]:
    """The entry of :data:`BUDGET` for a device."""
    return BUDGET[device.type if device.type in BUDGET else "cpu"]


@dataclass(frozen=True)
class Prepared:
    """What the steps share.

    Attributes
    ----------
    encoder, encoded
        The encoder, and the graph as it sees it.
    op : Operator
        What the cut is of: the graph, and the nearest-neighbour graph of its features.
    adjacency : Operator
        A, for objectives that count edges; weights are at most 1.
    judge : Judge
        Finds the evidence of clusterings.
    words : Words or None
        What the evidence counts besides edges; None where softcut made the features.
    positional : bool
        Whether features say where a node is in this graph, and mean nothing in another.
    """

    encoder: Encoder
    encoded: Encoded
    op: Operator
    adjacency: Operator
    judge: Judge
    words: Words | None
    positional: bool

    @property
    def device(self) -> torch.device:
        return self.encoded.z.device


def prepare(graph: Graph, settings: Settings, device: torch.device, note: Note) -> Prepared:
    """Make features where there are none, encode the graph once, and build the cut's operator."""
    structural = graph.num_features == 0 or is_constant(graph.x)
    positional = structural and graph.num_graphs == 1
    if structural:
        why = "no features were given" if graph.num_features == 0 else "all nodes have the same features"
        what = (
            "leading eigenvectors of the normalised adjacency"
            if positional
            else "degrees in the neighbourhood of each node, which tell roles and not communities"
        )
        made = structural_features(graph, local=not positional, random_state=0)
        if made.any():
            note(f"{why}: structural features were computed ({what}).")
        else:
            note(f"{why}, and all nodes have the same position in the graph: there is nothing to cluster by.")
        graph = graph.with_features(made)
    encoder, encoded = Encoder.fit(
        graph,
        paper=settings.paper,
        hops=settings.hops,
        n_components=settings.n_components,
        structural=structural,
        positions=positional,
        device=device,
    )
    op: Operator = encoded.op.normalise()
    if settings.feature_graph > 0 and not positional:
        other = _feature_operator(encoded, settings, note)
        both = Sum([op, other], [1.0, settings.feature_graph])
        # One product in place of two, and no passes over S in between, for a copy of the edges with their weights.
        joined = device.type == "cuda" and graph.num_nodes > LARGE and settings.batch is None
        op = (both.as_csr() if joined else both).normalise()
    features = None if structural else presence(graph.x)
    words = None if features is None else Words(features, device=device)
    judge = Judge(graph.adjacency, features, device)
    return Prepared(encoder, encoded, op, _at_most_one(encoded.op), judge, words, positional)


def _at_most_one(op: CSR) -> CSR:
    """The operator in units of its largest weight, whose square is finite."""
    if op.val is None or op.val.numel() == 0:
        return op
    most = op.val.abs().max()
    return CSR(
        op.pattern, op.val / torch.where(most > 0, most, 1.0), layout=op.layout, symmetric=op.symmetric
    )


def _feature_operator(encoded: Encoded, settings: Settings, note: Note) -> Operator:
    """The normalised nearest-neighbour graph of the features."""
    ptr = None if encoded.graph.ptr is None else encoded.graph.ptr.tolist()
    n, columns = encoded.x.shape
    sizes = np.diff([0, n] if ptr is None else ptr).astype(float)
    approximate = float((sizes * sizes).sum()) * columns > budget(encoded.x.device)[1]
    if approximate:
        note(f"feature graph from approximate neighbours: {n:,} nodes are too many to compare all pairs.")
    return feature_graph(
        encoded.x, settings.n_neighbors, ptr=ptr, approximate=approximate, random_state=settings.seed
    ).normalise()


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
    if graph.num_features == 0 or is_constant(graph.x):
        return "isolated"
    return "empty" if looks_like_words(graph.x) else "never"  # type: ignore[arg-type]


def silent_nodes(graph: Graph, rule: str) -> np.ndarray:
    """Nodes [N] without edges and without features: nothing can be said about their cluster.

    >>> from softcut import Graph
    >>> silent_nodes(Graph.from_edges([[0], [1]], num_nodes=3), "isolated").tolist()
    [False, False, True]
    """
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
