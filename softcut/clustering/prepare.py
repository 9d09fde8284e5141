"""The first step of a fit: the graph with its features, encoded once, and what judges its clusterings.

The default encoder projects the features (:class:`softcut.clustering.feature_map.FeatureMap`), propagates them over
several distances, and gives centred, evenly scaled columns Z for each, which helps to keep networks away from the
minimum with a single cluster. The paper's takes rows of X that sum to one and leaves the propagation to the network
(eq. 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.feature_map import FeatureMap
from softcut.clustering.node_features import (
    BLOCK_ROWS,
    Nodes,
    apart_from_constant,
    propagate,
    rows_that_sum_to_one,
    structural_features,
    unit_rows,
)
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.errors import Detail, GraphError, Note
from softcut.graph import Graph
from softcut.metrics import Judge
from softcut.metrics.features import presence
from softcut.ops import CSR, Operator, Words
from softcut.ops.numerics import row_blocks
from softcut.tables.kinds import WORD
from softcut.training import ConvInput, DenseInput

_CPU = torch.device("cpu")
Measures = tuple[
    Tensor, Tensor, Tensor
]  # centre [F], longest row allowed and scale of features at one distance
Tell = Callable[[Note], None]  # called with what was decided
READS_FEATURES = Detail(
    "clusters_from",
    "the clusters come from the edges and the features.",
    source="features",
)


def _clip(z: Tensor, limit: Tensor) -> Tensor:
    """Rows that are longer than the limit, shortened to it."""
    length = z.norm(dim=-1, keepdim=True)
    return z * (limit / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)


def _typical(length: Tensor) -> Tensor:
    """Median length of the rows that are not 0 (where half of the nodes are alike, their centred rows are 0)."""
    real = length > 1e-9 * length.amax()
    return length[real].median() if real.any() else length.sum()


def _measure(z: Tensor, longest: float) -> Measures:
    """What is measured of features [N, F] at one distance."""
    centre = z.median(0).values  # not the mean, which isolated nodes would pull away
    z = z - centre
    limit = longest * _typical(z.norm(dim=-1))
    length = _clip(z, limit).square().sum(-1).mean().sqrt()
    # Unit variance per column on average: He-normal first kernels then give logits of order one.
    scale = torch.where(length > 1e-12, z.shape[-1] ** 0.5 / length, 0.0)
    return centre, limit, scale


def scaled_distances(
    op: Operator,
    x: Tensor,
    nodes: Nodes,
    recipe: Recipe,
    known: Sequence[Measures] | None = None,
) -> tuple[Tensor, list[Measures]]:
    """Z [distances, n, F]: P^h X for each distance h, centred and evenly scaled, and what was measured for it.

    `op` is A in float64. Measures are `known` from another graph, or taken from a sample of `nodes`.
    """
    distances, large = recipe.distances, nodes.count > recipe.large

    def rows_of(far: Tensor, constant: Tensor) -> Tensor:
        """Rows of P^h X in float64, of length 1 where there are many columns, from what was propagated."""
        rows = torch.addr(far.double(), constant, share) if large else far
        return unit_rows(rows) if x.shape[1] >= recipe.many_columns else rows

    # Many hops make all rows alike: what is left after centring needs float64. On a large graph the part
    # that stays the same is kept apart, and the rest is propagated in single precision.
    constant, share, far = apart_from_constant(op, x, nodes) if large else (x[:, :0], x[:0], x.double())
    z, measures = x.new_empty(len(distances), *x.shape), list(known or ())
    for h in range(max(distances) + 1):
        far = propagate(op, far, 1) if h else far
        if h not in distances:
            continue
        i = distances.index(h)
        if known is None:
            seen = (nodes.sample(each, recipe.large) for each in (far, constant))
            measures.append(_measure(rows_of(*seen), recipe.longest_row))
        centre, limit, scale = measures[i]
        for block in row_blocks(len(x), BLOCK_ROWS):
            torch.mul(_clip(rows_of(far[block], constant[block]) - centre, limit), scale, out=z[i, block])
    return z, measures


@dataclass(frozen=True)
class Encoded:
    """A graph as the networks, the consensus and the refinement read it; made once per graph."""

    graph: Graph | None  # what was encoded; None for a part of it
    op: Operator  # its adjacency A, not normalised
    x: Tensor  # [N, F] projected features, not propagated (F = 0 for the paper's encoder)
    z: Tensor  # [scales, N, F] features at every distance (F = 0 for the paper's encoder)
    inputs: DenseInput | ConvInput  # the constant input of the networks

    @property
    def rows(self) -> Tensor:
        """Z node by node: [N, scales, F]."""
        return self.z.transpose(0, 1)


@dataclass
class Encoder:
    """Learned on the training graph, applied to any graph with the same features."""

    recipe: Recipe  # what it was fitted with
    in_channels: int  # features of the graph
    structural: bool = False  # whether the features were made by softcut
    features: FeatureMap | None = None  # the projection of the default kind
    measures: list[Measures] | None = None  # of Z at each distance

    @classmethod
    def fit(
        cls, graph: Graph, recipe: Recipe = DEFAULT, structural: bool = False, device: torch.device = _CPU
    ) -> tuple[Encoder, Encoded]:
        """Learn projection, centre and scale; also returns the encoded training graph."""
        features = (
            None if recipe.paper else FeatureMap.fit(graph.x, recipe, device, graph.kinds, graph.adjacency)
        )
        encoder = cls(recipe, graph.num_features, structural, features)
        return encoder, encoder.encode(graph, device)

    def encode(self, graph: Graph, device: torch.device) -> Encoded:
        """A graph, seen or unseen, as the networks read it."""
        if graph.num_features != self.in_channels:
            raise GraphError(
                f"the graph has {graph.num_features} features but the model was fitted with {self.in_channels}; "
                "give the same features in the same order."
            )
        if self.features is None:
            op = CSR.from_graph(graph, device=device)
            nothing = torch.zeros(1, graph.num_nodes, 0, device=device)
            inputs = ConvInput(op, rows_that_sum_to_one(graph), device=device)
            return Encoded(graph, op, nothing[0], nothing, inputs)
        x = self.features.project(graph.x, device)
        op = CSR.from_graph(graph, dtype=torch.float64, device=device)
        known = self.measures and [(c.to(device), m.to(device), s.to(device)) for c, m, s in self.measures]
        z, measures = scaled_distances(op, x, Nodes(graph.num_nodes), self.recipe, known)
        self.measures = self.measures or measures
        return Encoded(graph, op, x, z, DenseInput(z))


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
        said = f"{reason}: the networks read the structure of the graph instead ({what})."
        tell(Note("clusters_from", said, source="structure"))
        graph = graph.with_features(structural_features(graph, local=local))
    encoder, encoded = Encoder.fit(graph, recipe, structural=structural, device=device)
    if structural:
        words, judge = None, Judge(graph.adjacency, None, device)
    else:
        present = presence(graph.x, graph.kinds)
        words, judge = (
            Words(present, device=device),
            Judge(graph.adjacency, graph.x, device, present, graph.kinds),
        )
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
    return Detail("large_graph", said, large=recipe.large)


def featureless(graph: Graph) -> str | None:
    """Why nodes cannot be told apart by their features; None where they can."""
    if graph.num_features == 0:
        return "no features were given"
    return "all nodes have the same features" if is_constant(graph.x) else None


def is_constant(x: Any) -> bool:
    """Whether every node has the same features."""
    first = x[[0]]
    if abs(x[[x.shape[0] // 2]] - first).max() > 0:  # comparing with one other node is nearly always enough
        return False
    if sp.issparse(x):
        return bool(abs(x - sp.csr_array(np.ones((x.shape[0], 1))) @ sp.csr_array(first)).max() == 0)
    return bool((x == first).all())


def silence_rule(graph: Graph) -> str:
    """Which nodes get no label: "isolated" ones, isolated ones without words ("empty"), or "never" any.

    In measurements a row of zeros is a value like any other; in counts of words it is no word at all.
    """
    if featureless(graph) is not None:
        return "isolated"
    return "empty" if (graph.kinds == WORD).all() else "never"


def silent_nodes(graph: Graph, rule: str) -> np.ndarray:
    """Nodes [N] without edges and without features: nothing can be said about their cluster."""
    isolated = np.diff(graph.adjacency.indptr) == 0
    if rule == "never":
        return np.zeros_like(isolated)
    if rule == "isolated" or graph.x is None or not isolated.any():
        return isolated
    return isolated & (np.asarray(abs(graph.x).sum(axis=1)).ravel() == 0)


def without(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph, or batch of graphs, without some of its nodes."""
    if graph.ptr is None:
        return graph.subgraph(~nodes)
    parts = zip(graph.split(), np.split(~nodes, graph.ptr[1:-1]), strict=True)
    return Graph.batch([part.subgraph(kept) for part, kept in parts if kept.any()])
