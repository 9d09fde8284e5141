"""The encoder: from a graph with features to what the clustering network reads.

Two kinds. The default one projects the features (:class:`softcut.clustering.features.FeatureMap`), propagates them
over several distances, and gives centred, evenly scaled columns Z for each: no node's first logits are like
all others', which helps to keep replicas away from the minimum with a single cluster. The paper's takes rows of X
that sum to one and leaves the propagation to the network (eq. 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.features import (
    MANY_COLUMNS,
    FeatureMap,
    apart_from_constant,
    propagate,
    rows_that_sum_to_one,
    unit_rows,
)
from softcut.clustering.sampling import LARGE, sample_rows
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.training import ConvInput, DenseInput, FirstLayer

__all__ = ["Encoded", "Encoder"]

# How far features should be propagated differs between graphs and cannot be read off one: replicas read
# features propagated over different distances, and the consensus weighs them by what they explain.
_HOPS = (0, 1, 2, 4, 8, 16)
# Positions in the graph hold what propagation would add already, and far hops leave only their first direction.
_HOPS_OF_POSITIONS = (0, 1, 2)
# After many hops connected nodes are almost alike and isolated ones are not: rows longer than this many
# times the median are shortened, or a few isolated nodes would be all that a clustering sees.
_CLIP = 2.0


def _clip(z: Tensor, limit: Tensor) -> Tensor:
    length = z.norm(dim=-1, keepdim=True)
    return z * (limit / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)


def _typical(length: Tensor) -> Tensor:
    """Median length of the rows that have one.

    A group of half of the nodes with equal rows has its own row for a median, and lengths of 0 after centring.
    """
    real = length > 1e-9 * length.amax()
    return length[real].median() if real.any() else length.sum()


def _measure(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, longest row allowed and scale of features [N, F] at one distance."""
    if z.shape[0] > LARGE:
        z = z[sample_rows(z.shape[0], device=z.device)]
    centre = z.median(0).values  # not the mean, which isolated nodes would pull away
    z = z - centre
    limit = _CLIP * _typical(z.norm(dim=-1))
    length = _clip(z, limit).square().sum(-1).mean().sqrt()
    # Unit variance per column on average: He-normal first kernels then give logits of order one.
    scale = torch.where(length > 1e-12, z.shape[-1] ** 0.5 / length.clamp(min=1e-12), 0.0)
    return centre, limit, scale


@dataclass(frozen=True)
class Encoded:
    """A graph as the networks, the consensus and the refinement read it; made once per graph.

    Attributes
    ----------
    graph : Graph
        What was encoded.
    op : CSR
        Its adjacency A, not normalised.
    x : Tensor
        [N, F] projected features, not propagated (F = 0 for the paper's encoder).
    z : Tensor
        [scales, N, F] features at every distance (F = 0 for the paper's encoder).
    inputs : FirstLayer
        The constant input of the networks.
    """

    graph: Graph
    op: CSR
    x: Tensor
    z: Tensor
    inputs: FirstLayer

    @property
    def rows(self) -> Tensor:
        """Z node by node: [N, scales, F]."""
        return self.z.transpose(0, 1)


@dataclass
class Encoder:
    """Learned on the training graph, applied to any.

    >>> import torch
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=50, n_clusters=2, seed=0)
    >>> encoder, encoded = Encoder.fit(graph)
    >>> encoded.rows.shape[0], encoded.inputs.terms
    (50, 1)
    >>> bool((encoder.encode(graph, torch.device("cpu")).z == encoded.z).all())
    True

    Attributes
    ----------
    paper : bool
        Which kind.
    hops : tuple of int
        Z at scale h is P^h X with unit rows, centred and scaled; one scale for each entry.
    features : FeatureMap or None
        The projection of the default kind.
    centre, limit, scale : Tensor or None
        Centre [scales, F] of Z, the longest row allowed and the scale [scales].
    structural : bool
        Whether the features were made by softcut.
    directions : bool
        Whether propagated rows are scaled to unit length: the degree of a node must not show in it.
    """

    paper: bool
    hops: tuple[int, ...]
    in_channels: int
    structural: bool = False
    directions: bool = False
    features: FeatureMap | None = None
    centre: Tensor | None = None
    limit: Tensor | None = None
    scale: Tensor | None = None

    @classmethod
    def fit(
        cls,
        graph: Graph,
        *,
        paper: bool = False,
        hops: int | None = None,
        n_components: int = 64,
        structural: bool = False,
        positions: bool = False,
        device: torch.device | None = None,
    ) -> tuple[Encoder, Encoded]:
        """Learn projection, centre and scale; also returns the encoded training graph.

        Parameters
        ----------
        graph : Graph
            With features.
        paper : bool
            The paper's kind: rows that sum to one, nothing learned.
        hops : int, optional
            How often features are propagated; None: several distances, one per scale.
        n_components : int
            Columns that features are reduced to.
        structural : bool
            Whether softcut made the features.
        positions : bool
            Whether the features are positions in this graph (see :func:`structural_features`): a few hops, and
            only the direction of a row counts, however few columns there are.
        device : torch.device, optional
            Where to compute; the CPU by default.
        """
        if graph.x is None:
            raise GraphError("graph has no features to encode.")
        device = device or torch.device("cpu")
        if paper:
            encoder = cls(True, (0,), graph.num_features, structural)
            return encoder, encoder.encode(graph, device)
        auto = _HOPS_OF_POSITIONS if positions else _HOPS
        chosen = auto if hops is None else (int(hops),)
        features = FeatureMap.fit(graph.x, n_components, device=device)
        directions = positions or features.matrix.shape[1] >= MANY_COLUMNS
        encoder = cls(False, chosen, graph.num_features, structural, directions, features)
        op, x, distances = encoder._propagated(graph, device)
        z, measures = x.new_empty(len(chosen), *x.shape), []
        for i, rows in enumerate(distances):
            measures.append(_measure(rows))
            z[i] = _scaled(rows, *measures[-1])
        encoder.centre, encoder.limit, encoder.scale = (
            torch.stack(part) for part in zip(*measures, strict=True)
        )
        return encoder, Encoded(graph, op, x, z, DenseInput(z))

    def check(self, graph: Graph) -> None:
        """An error where a graph has another number of features."""
        if graph.num_features != self.in_channels:
            raise GraphError(
                f"the graph has {graph.num_features} features but the model was fitted with {self.in_channels}; "
                "give the same features in the same order."
            )

    def encode(self, graph: Graph, device: torch.device) -> Encoded:
        """A graph, seen or unseen, as the networks read it."""
        self.check(graph)
        if self.paper:
            op = CSR.from_graph(graph, device=device)
            nothing = torch.zeros(1, graph.num_nodes, 0, device=device)
            inputs = ConvInput(op, rows_that_sum_to_one(graph), device=device)
            return Encoded(graph, op, nothing[0], nothing, inputs)
        assert self.centre is not None and self.limit is not None and self.scale is not None
        measures = zip(*(t.to(device) for t in (self.centre, self.limit, self.scale)), strict=True)
        op, x, distances = self._propagated(graph, device)
        z = x.new_empty(len(self.hops), *x.shape)
        for i, (rows, measure) in enumerate(zip(distances, measures, strict=True)):
            z[i] = _scaled(rows, *measure)
        return Encoded(graph, op, x, z, DenseInput(z))

    def _propagated(self, graph: Graph, device: torch.device) -> tuple[CSR, Tensor, Iterator[Tensor]]:
        """A, the projected features, and P^h of them at each scale in turn, in float64."""
        assert self.features is not None
        x = self.features.project(graph.x, device)
        # Far hops make all rows alike: what is left after centring needs the digits of float64.
        op = CSR.from_graph(graph, dtype=torch.float64, device=device)
        return op, x, self._distances(op, x)

    def _distances(self, op: CSR, x: Tensor) -> Iterator[Tensor]:
        """P^h X for each h of `hops`, rows of unit length if only directions count."""
        same, far = None, x.double()
        if x.shape[0] > LARGE:
            *same, far = apart_from_constant(op, x)
        for h in range(max(self.hops) + 1):
            far = propagate(op, far, 1) if h else far
            if h in self.hops:
                z = far if same is None else torch.addr(far.double(), *same)
                yield unit_rows(z) if self.directions else z

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
    def restore(cls, meta: dict[str, Any], tensors: dict[str, Tensor]) -> Encoder:
        """From what :meth:`meta` and :meth:`tensors` gave."""
        features = None
        if meta["words"] is not None:
            arrays = {k: v.numpy() for k, v in tensors.items() if k in ("matrix", "weight", "offset")}
            features = FeatureMap(in_channels=meta["in_channels"], words=meta["words"], **arrays)
        return cls(
            paper=meta["paper"],
            hops=tuple(meta["hops"]),
            in_channels=meta["in_channels"],
            structural=meta["structural"],
            directions=meta["directions"],
            features=features,
            centre=tensors.get("centre"),
            limit=tensors.get("limit"),
            scale=tensors.get("scale"),
        )


def _scaled(z: Tensor, centre: Tensor, limit: Tensor, scale: Tensor) -> Tensor:
    return _clip(z - centre, limit) * scale
