"""What predicting needs: the selected replicas, the encoder, the consensus and the refinement."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import Consensus
from softcut.clustering.encoder import Encoder
from softcut.clustering.features import structural_features
from softcut.clustering.prepare import silent_nodes, without
from softcut.clustering.refine import Refiner
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.training import ReplicaNet, assign_in_chunks

__all__ = ["Model", "features_by_name", "signature"]


@dataclass
class Model:
    """A fitted clustering function, applied to any graph.

    Attributes
    ----------
    net, encoder, temperature, consensus, refiners
        The parts, in the order they are applied; `consensus` may be None, there are none to two refiners.
    order : array [K]
        Column j that people see is column order[j] inside: the j-th largest cluster of the training nodes, or the one
        that shares most nodes with it where these are in `own`.
    positions : array or None
        Structural features of the training graph, where they mean nothing in another. Kept, not computed
        again: eigenvectors come out with other signs on another machine.
    signature : str
        Recognises the training graph; see :func:`signature`.
    silence : str
        Which nodes say nothing; see :func:`~softcut.clustering.prepare.silence_rule`.
    own : array [N, K] or None
        Soft clusters of the training nodes, where they were found from the edges of that graph alone.
    """

    net: ReplicaNet
    encoder: Encoder
    temperature: float
    consensus: Consensus | None
    refiners: list[Refiner]
    order: np.ndarray
    positions: np.ndarray | None = None
    signature: str = ""
    silence: str = "never"
    own: np.ndarray | None = None

    def apply(self, graph: Graph, device: torch.device, rows: int | None = None) -> np.ndarray:
        """Soft clusters [N, K], the largest cluster of the training nodes first.

        With `rows`, so many nodes at a time are assigned on the device, and everything else is on the CPU.
        """
        silent = silent_nodes(graph, self.silence)
        if silent.any() and not silent.all():
            inner = self._with_features(without(graph, silent), graph)
            return self.spread(self._apply(inner, device, rows), silent)
        return self._apply(self._with_features(graph, graph), device, rows)

    def known(self, graph: Graph) -> np.ndarray | None:
        """The kept clusters [N, K], where this is the training graph with its nodes in the same order; else None."""
        if self.own is None or signature(graph) != self.signature:
            return None
        if self.positions is None:  # features are not read, but must be there
            self.encoder.check(self._with_features(graph, graph))
        return self.own.copy()

    def spread(self, soft: np.ndarray, silent: np.ndarray) -> np.ndarray:
        """Soft clusters of all nodes; those that say nothing have probability 1/K for each, so label 0."""
        out = np.full((len(silent), soft.shape[1]), 1 / soft.shape[1], dtype=soft.dtype)
        out[~silent] = soft
        return out

    def _apply(self, graph: Graph, device: torch.device, rows: int | None) -> np.ndarray:
        if rows is None:
            encoded = self.encoder.encode(graph, device)
            s = self.net.to(device).assign(encoded.inputs, self.temperature)
        else:
            where, device = device, torch.device("cpu")
            encoded = self.encoder.encode(graph, device)
            s = assign_in_chunks(self.net, encoded.inputs, self.temperature, rows, where)
        soft = s[:, 0] if self.consensus is None else self.consensus.to(device).proba(s, encoded.rows)
        for refiner in self.refiners:
            soft = refiner.to(device).apply(encoded.x, soft, encoded.op)
        return self.numbered(soft)

    def numbered(self, soft: Tensor) -> np.ndarray:
        """Columns in the order people see."""
        return soft.cpu().numpy()[:, self.order]

    def _with_features(self, graph: Graph, whole: Graph) -> Graph:
        """The graph with the features the model was fitted with: its own, or structural ones."""
        if self.positions is not None:
            if signature(whole) != self.signature:
                raise GraphError(
                    "graph is not the one the model was fitted on, which had no features: the structural features "
                    "computed for it describe positions in that graph and mean nothing in another; give both "
                    "graphs features, or fit this one."
                )
            return graph.with_features(self.positions)
        if self.encoder.structural:
            return graph.with_features(structural_features(graph, local=True))
        if graph.x is None:
            raise GraphError(
                "graph has no features but the model was fitted with some; pass them as X (--features on the "
                "command line)."
            )
        return graph

    def meta(self) -> dict[str, Any]:
        """The part of a saved model that is plain JSON."""
        return {
            "net": self.net.meta(),
            "encoder": self.encoder.meta(),
            "temperature": self.temperature,
            "positional": self.positions is not None,
            "signature": self.signature,
            "consensus": self.consensus is not None,
            "refiners": len(self.refiners),
            "order": self.order.tolist(),
            "silence": self.silence,
            "own": self.own is not None,
        }

    def tensors(self) -> dict[str, Tensor]:
        """The part of a saved model that is tensors."""
        parts = {f"net.{k}": v for k, v in self.net.state_dict().items()}
        parts |= {f"encoder.{k}": v for k, v in self.encoder.tensors().items()}
        if self.consensus is not None:
            parts |= {f"consensus.{k}": v for k, v in vars(self.consensus).items()}
        for i, refiner in enumerate(self.refiners):
            parts |= {f"refiner{i}.{k}": v for k, v in vars(refiner).items()}
        if self.positions is not None:
            parts["positions"] = torch.from_numpy(self.positions)
        return parts

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], meta: dict[str, Any], own: np.ndarray) -> Model:
        """From what :meth:`meta` and :meth:`tensors` gave, and the soft clusters of the training nodes."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {k[len(prefix) + 1 :]: v for k, v in tensors.items() if k.startswith(prefix + ".")}

        return cls(
            net=ReplicaNet.restore(meta["net"], part("net")),
            encoder=Encoder.restore(meta["encoder"], part("encoder")),
            temperature=meta["temperature"],
            consensus=Consensus(**part("consensus")) if meta["consensus"] else None,
            refiners=[Refiner(**part(f"refiner{i}")) for i in range(meta["refiners"])],
            order=np.asarray(meta["order"], dtype=np.int64),
            positions=tensors["positions"].numpy() if meta["positional"] else None,
            signature=meta["signature"],
            silence=meta["silence"],
            own=own if meta["own"] else None,
        )


def signature(graph: Graph) -> str:
    """A digest of a graph's shape and edges (not of its features).

    >>> from softcut import Graph
    >>> signature(Graph.from_edges([[0], [1]])) == signature(Graph.from_edges([[1], [0]]))
    True
    """
    adjacency = graph.adjacency
    digest = hashlib.sha256(np.ascontiguousarray(adjacency.indptr, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.indices, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.data, dtype=np.float64).tobytes())
    return digest.hexdigest()


def features_by_name(graph: Graph, known: np.ndarray | None) -> Graph:
    """The graph with its features in the order of the fit, where both have names."""
    given = graph.feature_names
    if known is None or graph.x is None:
        return graph
    if given is None:
        warnings.warn(
            "the features have no names, but those of the fit had: they are taken in the order of the fit.",
            stacklevel=3,
        )
        return graph
    wanted = known.tolist()
    if given == wanted:
        return graph
    place = {name: i for i, name in enumerate(given)}
    missing = [name for name in wanted if name not in place]
    unknown = sorted(set(given) - set(wanted))
    if missing or unknown or len(place) < len(given):
        words = [f"{what} {', '.join(map(repr, names[:3]))}{' ...' if len(names) > 3 else ''}"
                 for what, names in (("missing:", missing), ("not known:", unknown)) if names]  # fmt: skip
        raise GraphError(
            f"the features are not those of the fit ({'; '.join(words) or 'names repeat'}); "
            "give columns with the same names, in any order."
        )
    return graph.with_features(graph.x[:, [place[name] for name in wanted]])
