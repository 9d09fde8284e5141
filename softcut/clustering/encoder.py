"""The encoder: from a graph with features to what the clustering network reads.

Two kinds. The default one projects the features (:class:`softcut.clustering.node_features.FeatureMap`), propagates them
over several distances, and gives centred, evenly scaled columns Z for each: no node's first logits are like
all others', which helps to keep replicas away from the minimum with a single cluster. The paper's takes rows of X
that sum to one and leaves the propagation to the network (eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.node_features import (
    FeatureMap,
    apart_from_constant,
    propagate,
    rows_that_sum_to_one,
    unit_rows,
)
from softcut.clustering.nodes import Nodes
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR, Operator
from softcut.training import ConvInput, DenseInput, FirstLayer

__all__ = ["Encoded", "Encoder", "scaled_distances"]

_CPU = torch.device("cpu")


def _clip(z: Tensor, limit: Tensor) -> Tensor:
    length = z.norm(dim=-1, keepdim=True)
    return z * (limit / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)


def _typical(length: Tensor) -> Tensor:
    """Median length of the rows that have one: where half of the nodes are alike, centred rows have length 0."""
    real = length > 1e-9 * length.amax()
    return length[real].median() if real.any() else length.sum()


def _measure(z: Tensor, longest: float) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, longest row allowed and scale of features [N, F] at one distance."""
    centre = z.median(0).values  # not the mean, which isolated nodes would pull away
    z = z - centre
    limit = longest * _typical(z.norm(dim=-1))
    length = _clip(z, limit).square().sum(-1).mean().sqrt()
    # Unit variance per column on average: He-normal first kernels then give logits of order one.
    scale = torch.where(length > 1e-12, z.shape[-1] ** 0.5 / length.clamp(min=1e-12), 0.0)
    return centre, limit, scale


Measures = tuple[Tensor, Tensor, Tensor]


def scaled_distances(
    op: Operator,
    x: Tensor,
    distances: tuple[int, ...],
    directions: bool,
    nodes: Nodes,
    recipe: Recipe,
    known: Sequence[Measures] | None = None,
) -> tuple[Tensor, list[Measures]]:
    """Z [scales, n, F]: P^h X for each distance h, centred and evenly scaled, and what was measured for it.

    `op` is A in float64. Measures are `known` from another graph, or taken from a sample of `nodes`.
    """
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
        rows = unit_rows(rows) if directions else rows
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
    inputs: FirstLayer  # the constant input of the networks

    @property
    def rows(self) -> Tensor:
        """Z node by node: [N, scales, F]."""
        return self.z.transpose(0, 1)


@dataclass
class Encoder:
    """Learned on the training graph, applied to any graph with the same features."""

    paper: bool  # which kind
    hops: tuple[int, ...]
    in_channels: int
    structural: bool = False  # whether the features were made by softcut
    directions: bool = False  # whether propagated rows are scaled to unit length, which hides the degree
    features: FeatureMap | None = None  # the projection of the default kind
    centre: Tensor | None = None  # [scales, F], of Z
    limit: Tensor | None = None  # [scales], the longest row allowed
    scale: Tensor | None = None  # [scales]
    recipe: Recipe = DEFAULT  # what it was fitted with

    @classmethod
    def fit(
        cls, graph: Graph, recipe: Recipe = DEFAULT, structural: bool = False, device: torch.device = _CPU
    ) -> tuple[Encoder, Encoded]:
        """Learn projection, centre and scale; also returns the encoded training graph."""
        encoder = cls(recipe.paper, recipe.distances, graph.num_features, structural, recipe=recipe)
        if not recipe.paper:
            encoder.features = FeatureMap.fit(graph.x, recipe, device)
            encoder.directions = encoder.features.matrix.shape[1] >= recipe.many_columns
        return encoder, encoder.encode(graph, device)

    def encode(self, graph: Graph, device: torch.device) -> Encoded:
        """A graph, seen or unseen, as the networks read it."""
        if graph.num_features != self.in_channels:
            raise GraphError(
                f"the graph has {graph.num_features} features but the model was fitted with {self.in_channels}; "
                "give the same features in the same order."
            )
        if self.paper:
            op = CSR.from_graph(graph, device=device)
            nothing = torch.zeros(1, graph.num_nodes, 0, device=device)
            inputs = ConvInput(op, rows_that_sum_to_one(graph), device=device)
            return Encoded(graph, op, nothing[0], nothing, inputs)
        assert self.features is not None
        x = self.features.project(graph.x, device)
        op = CSR.from_graph(graph, dtype=torch.float64, device=device)
        known = None
        if self.centre is not None and self.limit is not None and self.scale is not None:
            known = list(zip(*(t.to(device) for t in (self.centre, self.limit, self.scale)), strict=True))
        z, measures = scaled_distances(
            op, x, self.hops, self.directions, Nodes(graph.num_nodes), self.recipe, known
        )
        if known is None:
            self.centre, self.limit, self.scale = (torch.stack(part) for part in zip(*measures, strict=True))
        return Encoded(graph, op, x, z, DenseInput(z))

    def meta(self) -> dict[str, Any]:
        """The part of a saved model that is plain JSON."""
        return {
            "paper": self.paper,
            "hops": list(self.hops),
            "in_channels": self.in_channels,
            "structural": self.structural,
            "directions": self.directions,
            "words": None if self.features is None else self.features.words,
        }

    def tensors(self) -> dict[str, Tensor]:
        """The part of a saved model that is tensors."""
        if self.features is None:
            return {}
        assert self.centre is not None and self.limit is not None and self.scale is not None
        f = self.features
        arrays = {"matrix": f.matrix, "weight": f.weight, "offset": f.offset}
        tensors = {k: torch.from_numpy(np.asarray(v)) for k, v in arrays.items() if v is not None}
        return {**tensors, "centre": self.centre, "limit": self.limit, "scale": self.scale}

    @classmethod
    def restore(cls, meta: dict[str, Any], tensors: dict[str, Tensor], recipe: Recipe) -> Encoder:
        """From what :meth:`meta` and :meth:`tensors` gave, and the recipe of the fit."""
        features = None
        if meta["words"] is not None:
            arrays = {k: v.numpy() for k, v in tensors.items() if k in ("matrix", "weight", "offset")}
            features = FeatureMap(words=meta["words"], recipe=recipe, **arrays)
        plain: dict[str, Any] = {
            name: meta[name] for name in ("paper", "in_channels", "structural", "directions")
        }
        measures: dict[str, Any] = {name: tensors.get(name) for name in ("centre", "limit", "scale")}
        return cls(hops=tuple(meta["hops"]), features=features, recipe=recipe, **plain, **measures)
