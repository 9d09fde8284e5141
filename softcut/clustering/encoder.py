"""The encoder: from a graph with features to what the clustering networks read.

The default one projects the features (:class:`softcut.clustering.node_features.FeatureMap`), propagates them over
several distances, and gives centred, evenly scaled columns Z for each, which helps to keep networks away from the
minimum with a single cluster. The paper's takes rows of X that sum to one and leaves the propagation to the network
(eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.clustering.node_features import (
    FeatureMap,
    Nodes,
    apart_from_constant,
    propagate,
    rows_that_sum_to_one,
    unit_rows,
)
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR, Operator
from softcut.training import ConvInput, DenseInput

_CPU = torch.device("cpu")
Measures = tuple[
    Tensor, Tensor, Tensor
]  # centre [F], longest row allowed and scale of features at one distance


def _clip(z: Tensor, limit: Tensor) -> Tensor:
    length = z.norm(dim=-1, keepdim=True)
    return z * (limit / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)


def _typical(length: Tensor) -> Tensor:
    """Median length of the rows that have one: where half of the nodes are alike, centred rows have length 0."""
    real = length > 1e-9 * length.amax()
    return length[real].median() if real.any() else length.sum()


def _measure(z: Tensor, longest: float) -> Measures:
    """What is measured of features [N, F] at one distance."""
    centre = z.median(0).values  # not the mean, which isolated nodes would pull away
    z = z - centre
    limit = longest * _typical(z.norm(dim=-1))
    length = _clip(z, limit).square().sum(-1).mean().sqrt()
    # Unit variance per column on average: He-normal first kernels then give logits of order one.
    scale = torch.where(length > 1e-12, z.shape[-1] ** 0.5 / length.clamp(min=1e-12), 0.0)
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
    distances = recipe.distances
    # Far hops make all rows alike: what is left after centring needs the digits of float64. On a large graph the part
    # that stays the same is kept apart, and the rest is propagated in single precision.
    same, far = None, x.double()
    if nodes.count > recipe.large:
        *same, far = apart_from_constant(op, x, nodes)
    z, measures = x.new_empty(len(distances), *x.shape), list(known or ())
    for h in range(max(distances) + 1):
        far = propagate(op, far, 1) if h else far
        if h not in distances:
            continue
        rows = far if same is None else torch.addr(far.double(), *same)
        rows = unit_rows(rows) if x.shape[1] >= recipe.many_columns else rows
        i = distances.index(h)
        if known is None:
            measures.append(_measure(nodes.sample(rows, recipe.large), recipe.longest_row))
        centre, limit, scale = measures[i]
        z[i] = _clip(rows - centre, limit) * scale
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
        features = None if recipe.paper else FeatureMap.fit(graph.x, recipe, device)
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
        known = self.measures
        if known is not None:
            known = [(c.to(device), limit.to(device), scale.to(device)) for c, limit, scale in known]
        z, measures = scaled_distances(op, x, Nodes(graph.num_nodes), self.recipe, known)
        self.measures = self.measures or measures
        return Encoded(graph, op, x, z, DenseInput(z))
