"""Fits of graphs that do not fit the device that trains: parts of the graph, a few of them per step.

Everything but the training and the networks' assignments is computed on the CPU, in main memory; the features and
edges of a batch are copied to the device when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.clustering.prepare import Note, Prepared, budget
from softcut.clustering.settings import Settings
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics.presence import presence
from softcut.ops import Words
from softcut.training import (
    Parts,
    Progress,
    ReplicaNet,
    TrainResult,
    TrainSettings,
    assign_in_chunks,
    train_in_batches,
)

__all__ = ["Batches", "make_batches", "nodes_per_step", "rows_at_a_time"]

# Parts that a step takes: many small ones make a batch more like the whole graph than a few large ones.
PER_STEP = 8
# The fewest nodes of an automatic batch: below, steps cost more than what they compute.
_LEAST = 10_000
# Nodes that are labelled at a time where the batch is automatic.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Batches:
    """How replicas are trained a few parts at a time.

    Attributes
    ----------
    parts : Parts
        The parts of the graph.
    words : list of Words, or None
        What the evidence counts besides edges, part by part.
    device : torch.device
        Where batches are computed.
    """

    parts: Parts
    words: list[Words] | None
    device: torch.device

    def train(
        self,
        net: ReplicaNet,
        prepared: Prepared,
        settings: TrainSettings,
        callback: Callable[[Progress], None] | None,
        *,
        start: Tensor | None,
        sizes: Tensor | None,
        hold: float,
    ) -> TrainResult:
        """Train replicas of one objective; `hold` as in :func:`softcut.training.train_in_batches`."""
        return train_in_batches(
            net,
            prepared.encoded.inputs,
            prepared.op,
            self.parts,
            settings,
            callback,
            start=start,
            sizes=sizes,
            hold=hold,
            adjacency=prepared.adjacency,
            words=self.words,
            device=self.device,
        )

    def assign(self, net: ReplicaNet, prepared: Prepared, temperature: float) -> Tensor:
        """S of every replica, [N, R, K], computed in chunks of the nodes of a batch."""
        return assign_in_chunks(
            net, prepared.encoded.inputs, temperature, self.parts.largest_batch, self.device
        )


def nodes_per_step(graph: Graph, settings: Settings, device: torch.device, note: Note) -> int | None:
    """Nodes of a batch; None where all of the graph is trained at once."""
    if settings.batch is None:
        return None
    if graph.num_graphs > 1:
        raise ParameterError(
            f"batch is for a single graph, not for {graph.num_graphs}; leave it out, or fit one graph."
        )
    n = graph.num_nodes
    wanted = settings.batch
    if isinstance(wanted, str):
        numbers = settings.n_init * (settings.hidden + max(settings.candidates))
        wanted = max(_LEAST, budget(device)[0] // numbers)
    if wanted >= n:
        if settings.batch != "auto":
            note(f"batch has no effect: the graph has only {n:,} nodes.")
        return None
    return wanted


def make_batches(
    prepared: Prepared, nodes: int | None, settings: Settings, device: torch.device, note: Note
) -> Batches | None:
    """Parts of the graph, and how replicas are trained with so many nodes per step; None for all at once."""
    if nodes is None:
        return None
    graph = prepared.encoded.graph
    steps = -(-graph.num_nodes // nodes)
    count = PER_STEP * steps
    if settings.batch_parts == "metis":
        parts = Parts.metis(graph.adjacency, count, PER_STEP, settings.seed)
    else:
        parts = Parts.random(graph.num_nodes, count, PER_STEP, settings.seed)
    note(
        f"trained on about {nodes:,} of {graph.num_nodes:,} nodes per step: {PER_STEP} of {count:,} "
        f"{'parts found by METIS' if settings.batch_parts == 'metis' else 'random parts'}."
    )
    words = None
    if prepared.words is not None:
        assert parts.order is not None
        found = presence(graph.x)[parts.order.numpy()]  # type: ignore[arg-type]
        words = [Words(found[parts.rows(p)]) for p in range(count)]
    return Batches(parts, words, device)


def rows_at_a_time(batch: int | str | None) -> int | None:
    """Nodes that networks label at a time in a prediction; None for all.

    >>> rows_at_a_time(None), rows_at_a_time(5000), rows_at_a_time("auto")
    (None, 5000, 65536)
    """
    if batch is None:
        return None
    return _CHUNK if isinstance(batch, str) else int(batch)
