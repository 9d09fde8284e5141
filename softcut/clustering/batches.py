"""Fits of graphs that do not fit the device that trains: parts of the graph, a few of them per step.

Everything but the training and the networks' assignments is computed on the CPU, in main memory; the features and
edges of a batch are copied to the device when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softcut.clustering.encoder import Encoded
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.recipe import Recipe
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics.features_as_words import presence
from softcut.ops import Words
from softcut.training import (
    FirstLayer,
    Parts,
    Progress,
    ReplicaNet,
    TrainResult,
    TrainSettings,
    assign_in_chunks,
    train_in_batches,
)

__all__ = ["Batches", "make_batches", "nodes_per_step", "rows_at_a_time"]

# Nodes that are labelled at a time where the batch is automatic.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Batches:
    """How networks are trained a few parts at a time."""

    parts: Parts  # the parts of the graph
    words: list[Words] | None  # what the evidence counts besides edges, part by part
    device: torch.device  # where batches are computed

    def train(
        self,
        net: ReplicaNet,
        encoded: Encoded,
        settings: TrainSettings,
        callback: Callable[[Progress], None] | None,
        **options: Any,
    ) -> TrainResult:
        """Train the networks; options are those of :func:`softcut.training.train_in_batches`."""
        options |= {"words": self.words, "device": self.device}
        return train_in_batches(net, encoded.inputs, encoded.op, self.parts, settings, callback, **options)

    def assign(self, net: ReplicaNet, inputs: FirstLayer, temperature: float) -> Tensor:
        """S of every network, [N, R, K], computed in chunks of the nodes of a batch."""
        return assign_in_chunks(net, inputs, temperature, self.parts.largest_batch, self.device)


def nodes_per_step(
    graph: Graph,
    batch_size: int | str | None,
    most_clusters: int,
    recipe: Recipe,
    device: torch.device,
    note: Note,
) -> int | None:
    """Nodes of a batch; None where all of the graph is trained at once."""
    if batch_size is None:
        return None
    if graph.num_graphs > 1:
        raise ParameterError(
            f"batch_size is for a single graph, not for {graph.num_graphs}; leave it out, or fit one graph."
        )
    wanted = batch_size
    if isinstance(wanted, str):
        numbers = recipe.networks * (recipe.hidden + most_clusters)
        wanted = max(recipe.least_batch, recipe.budget(device) // numbers)
    if wanted >= graph.num_nodes:
        if batch_size != "auto":
            note(f"batch_size has no effect: the graph has only {graph.num_nodes:,} nodes.")
        return None
    return wanted


def make_batches(
    prepared: Prepared, nodes: int | None, recipe: Recipe, seed: int, device: torch.device, note: Note
) -> Batches | None:
    """Parts of the graph, and how networks are trained with so many nodes per step; None for all at once."""
    if nodes is None:
        return None
    graph, each = prepared.encoded.graph, recipe.parts_per_step
    assert graph is not None
    count = each * -(-graph.num_nodes // nodes)
    metis = recipe.batch_parts == "metis"
    if metis:
        parts = Parts.metis(graph.adjacency, count, each, seed)
    else:
        parts = Parts.random(graph.num_nodes, count, each, seed)
    note(
        f"trained on about {nodes:,} of {graph.num_nodes:,} nodes per step: {each} of {count:,} "
        f"{'parts found by METIS' if metis else 'random parts'}."
    )
    words = None
    if prepared.words is not None:
        assert parts.order is not None
        present = presence(graph.x)[parts.order.numpy()]
        words = [Words(present[parts.rows(p)]) for p in range(count)]
    return Batches(parts, words, device)


def rows_at_a_time(batch_size: int | str | None) -> int | None:
    """Nodes that networks label at a time in a prediction; None for all."""
    if batch_size is None:
        return None
    return _CHUNK if isinstance(batch_size, str) else int(batch_size)
