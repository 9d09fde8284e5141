"""The encoder: from a graph with features to what the clustering network reads.

Two kinds. The default one projects the features (:class:`softcut.clustering.features.FeatureMap`), propagates them
over several distances, and gives centred, evenly scaled columns Z for each: no node's first logits are like
all others', which helps to keep replicas away from the minimum with a single cluster. The paper's takes rows of X
that sum to one and leaves the propagation to the network (eq. 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.features import MANY_COLUMNS, FeatureMap, propagate, rows_that_sum_to_one, unit_rows
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.training import ConvInput, DenseInput, FirstLayer

__all__ = ["Encoder"]

# How far features should travel differs between graphs and cannot be read off one: replicas read features
# from different distances, and the consensus weighs them by how well they agree.
_HOPS = (0, 1, 2, 4, 8, 16)
# After many hops connected nodes are almost alike and isolated ones are not: rows longer than this many
# times the median are shortened, or a few loose nodes would be all that a clustering sees.
_CLIP = 2.0


def _clip(z: Tensor, limit: Tensor) -> Tensor:
    length = z.norm(dim=-1, keepdim=True)
    return z * (limit[:, None, None] / length.clamp(min=torch.finfo(z.dtype).tiny)).clamp(max=1)


@dataclass
class Encoder:
    """Learned on the training graph, applied to any.

    >>> import torch
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=50, n_clusters=2, seed=0)
    >>> encoder = Encoder.fit(graph)
    >>> inputs, z = encoder.apply(graph, torch.device("cpu"))
    >>> z.shape[0], inputs.terms
    (50, 1)

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
    """

    paper: bool
    hops: tuple[int, ...]
    in_channels: int
    structural: bool = False
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
        hops: int | str = "auto",
        dimensions: int = 64,
        structural: bool = False,
        device: torch.device | None = None,
    ) -> Encoder:
        """Learn projection, centre and scale."""
        if graph.x is None:
            raise GraphError("graph has no features to encode.")
        if paper:
            return cls(True, (0,), graph.num_features, structural)
        chosen = _HOPS if hops == "auto" else (int(hops),)
        features = FeatureMap.fit(graph.x, dimensions)
        encoder = cls(False, chosen, graph.num_features, structural, features)
        z = encoder._spread(graph, device or torch.device("cpu"))
        encoder.centre = z.median(1).values  # not the mean, which loose nodes would pull away from the others
        z -= encoder.centre.unsqueeze(1)
        encoder.limit = _CLIP * z.norm(dim=-1).median(1).values
        z = _clip(z, encoder.limit)
        length = z.square().sum(-1).mean(1).sqrt()
        # Unit variance per column on average: He-normal first kernels then give logits of order one.
        encoder.scale = torch.where(length > 1e-12, z.shape[-1] ** 0.5 / length.clamp(min=1e-12), 0.0)
        return encoder

    def project(self, graph: Graph, device: torch.device) -> Tensor:
        """The projected features, not propagated."""
        assert self.features is not None
        return torch.from_numpy(self.features.transform(graph.x)).to(device)

    def _spread(self, graph: Graph, device: torch.device) -> Tensor:
        """Z at every scale, rows of unit length (where there are many columns): [scales, N, F]."""
        # Far hops make all rows alike: what is left after centring needs the digits of float64.
        x = self.project(graph, device).double()
        op = CSR.from_graph(graph, dtype=torch.float64, device=device)
        found = []
        for h in range(max(self.hops) + 1):
            x = propagate(op, x, 1) if h else x
            if h in self.hops:
                found.append(unit_rows(x) if x.shape[1] >= MANY_COLUMNS else x)
        return torch.stack(found)

    def apply(self, graph: Graph, device: torch.device) -> tuple[FirstLayer, Tensor]:
        """The network's constant input, and Z [N, scales, F] for the consensus (F = 0 for the paper's kind)."""
        if graph.num_features != self.in_channels:
            raise GraphError(
                f"the graph has {graph.num_features} features but the model was fitted with {self.in_channels}; "
                "give the same features in the same order."
            )
        if self.paper:
            x = rows_that_sum_to_one(graph)
            op = CSR.from_graph(graph, device=device)
            return ConvInput(op, x, device=device), torch.zeros(graph.num_nodes, 1, 0, device=device)
        assert self.centre is not None and self.limit is not None and self.scale is not None
        z = _clip(self._spread(graph, device) - self.centre.unsqueeze(1), self.limit)
        z = (z * self.scale[:, None, None]).float()
        return DenseInput(z), z.transpose(0, 1)

    def to(self, device: torch.device) -> Encoder:
        for name in ("centre", "limit", "scale"):
            value = getattr(self, name)
            setattr(self, name, None if value is None else value.to(device))
        return self

    def meta(self) -> dict[str, Any]:
        """The part of a saved model that is plain JSON."""
        return {
            "paper": self.paper,
            "hops": list(self.hops),
            "in_channels": self.in_channels,
            "structural": self.structural,
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
            features=features,
            centre=tensors.get("centre"),
            limit=tensors.get("limit"),
            scale=tensors.get("scale"),
        )
