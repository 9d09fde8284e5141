"""Parts of a graph: written to disk, prepared for a fit as a whole graph is, and one step of their training."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.func import functional_call

from softcut.clustering.distributed.group import JobGroup
from softcut.clustering.feature_map import FeatureMap
from softcut.clustering.node_features import (
    Nodes,
    rows_that_sum_to_one,
    sample_rows,
    structural_features,
)
from softcut.clustering.prepare import Encoded, Encoder, Prepared, featureless, scaled_distances
from softcut.clustering.recipe import Recipe
from softcut.clustering.starts import Start
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.graph.partition import PartitionMethod, crossing_share, partition_nodes
from softcut.io.part_files import Manifest, Part, write_parts
from softcut.metrics import Judge
from softcut.metrics.features import BINS, looked_at, presence, principal_axes
from softcut.ops import CSRPattern, Words, quadratic_form
from softcut.ops.halo import Exchange, Group, Halo
from softcut.tables.kinds import NUMBER
from softcut.training import Checkpoint, DenseInput, ReplicaNet, TrainSettings
from softcut.training.mincut import ClusteringTask, start_rows
from softcut.training.net import FirstLayer

_ROWS_AT_ONCE = 1 << 14  # nodes whose words are counted at a time


def partition(
    graph: Graph,
    parts: int,
    out: str | Path,
    *,
    method: PartitionMethod = "auto",
    paper: bool = False,
    seed: int = 0,
) -> Manifest:
    """Divide a graph into parts for :mod:`softcut.clustering.distributed`, and write them into a folder.

    >>> import tempfile
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=100, n_clusters=2, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest = partition(graph, 2, Path(folder, "parts"), method="contiguous")
    >>> manifest.rows
    (50, 50)

    There is one of the `parts` per process that will train; `method` and `seed` say how nodes are divided, see
    :func:`softcut.graph.partition.partition_nodes`. Features are projected as :class:`softcut.GraphClustering` does,
    or structural where there are none; for the network of the `paper` they are rows that sum to one.
    """
    if graph.num_graphs > 1:
        raise GraphError(f"graph is a batch of {graph.num_graphs} graphs; divide each of them by itself.")
    graph = graph.in_mean_weights()
    owner, used = partition_nodes(graph.adjacency, parts, method, seed)
    structural = featureless(graph) is not None
    words = axes = None  # what clusterings are judged by
    own_words = 0  # columns of `words` in front of the bins of measurements
    if paper:
        rows = rows_that_sum_to_one(graph)
        x = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float32)
        source = "rows that sum to one"
    elif structural:
        x, source = structural_features(graph), "leading eigenvectors of the normalised adjacency"
    else:
        x = FeatureMap.fit(graph.x, kinds=graph.kinds, adjacency=graph.adjacency).transform(graph.x)
        source = f"{graph.num_features} features projected to {x.shape[1]} columns"
    if paper or not structural:
        words = presence(graph.x, graph.kinds)
        numbers, features = graph.kinds == NUMBER, graph.x
        own_words = words.shape[1] - BINS * int(numbers.sum())
        if numbers.any() and features is not None:
            axes = looked_at(graph.num_nodes), principal_axes(features[:, numbers])
    about = {
        "paper": paper,
        "structural": structural and not paper,
        "method": used,
        "features": source,
        "own_words": own_words,
        "crossing_share": crossing_share(graph.adjacency, owner),
    }
    return write_parts(
        out, graph.adjacency, owner, x=x, words=words, axes=axes, names=graph.node_names, about=about
    )


def part_operator(
    part: Part, group: Group, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Halo:
    """The operator of an opened part (see :func:`softcut.io.part_files.open_part`), as it is: not normalised."""
    n = len(part.nodes)
    shape = (n, n + part.num_halo)
    index = np.int32 if max(*shape, len(part.col)) < 2**31 else np.int64
    rowptr, col = (torch.from_numpy(np.array(a, dtype=index)) for a in (part.rowptr, part.col))
    pattern = CSRPattern(rowptr, col, shape).to(device)
    send = torch.from_numpy(np.array(part.send, dtype=np.int64)).to(device)
    exchange = Exchange(group, n, send, part.counts[0].tolist(), part.counts[1].tolist())
    val = None
    if part.val is not None:
        val = torch.from_numpy(np.array(part.val)).to(device=device, dtype=dtype)
    return Halo(pattern, exchange, val)


class PartNodes(Nodes):
    """All nodes of a graph in parts, of which this process has some; every process must call the same methods."""

    def __init__(self, part: Part, manifest: Manifest, group: Group) -> None:
        super().__init__(manifest.nodes)
        self.here, self.group = max(manifest.rows), group
        self._own = np.asarray(part.nodes)
        self._of_sample = functools.cache(self._find_sample)

    def sample(self, rows: Tensor, most: int) -> Tensor:
        size, mine, place = self._of_sample(most)
        out = rows.new_zeros(size, *rows.shape[1:])
        out[place.to(rows.device)] = rows[mine.to(rows.device)]
        return self.group.all_reduce(out)  # every row is there once: the sum is the row

    def _find_sample(self, most: int) -> tuple[int, Tensor, Tensor]:
        """Size of the sample, which of the own nodes are in it, and where."""
        chosen = sample_rows(self.count, most).numpy()
        place = np.searchsorted(chosen, self._own)
        mine = np.flatnonzero(chosen[np.minimum(place, len(chosen) - 1)] == self._own)
        return len(chosen), torch.from_numpy(mine), torch.from_numpy(place[mine])

    def total(self, values: Tensor) -> Tensor:
        return self.group.all_reduce(values.clone(memory_format=torch.contiguous_format))

    def agreed(self, values: Tensor) -> Tensor:
        # The others add zeros: all have the numbers of process 0, on unlike machines too.
        own = values if self.group.rank == 0 else torch.zeros_like(values)
        return self.total(own)


class PartJudge(Judge):
    """As :class:`softcut.metrics.Judge`, of labels of the own nodes: tables are summed over all processes.

    `counts` [F] says how often each word occurs in all parts.
    """

    def __init__(self, part: Part, op: Halo, manifest: Manifest, counts: Tensor) -> None:
        self.nodes, self.edges, self.counts = manifest.nodes, manifest.edge_worth, counts
        self._part, self._op = part, op
        self.axes, self._own_words = None, int(manifest.about.get("own_words", 0))
        if part.axes is not None:
            self._seen, self.axes = (torch.from_numpy(np.array(each)).to(counts.device) for each in part.axes)

    def tables(self, labels: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        hard = nn.functional.one_hot(labels, k).double()
        layout = self._op.layout
        words = self._words(labels, k)
        if words.numel():
            words = layout.over_all(words)
        return quadratic_form(self._op, hard)[0], words, layout.total(hard)[0]

    def axes_table(self, labels: Tensor, k: int) -> Tensor:
        return self._op.layout.over_all(super().axes_table(labels, k))

    def _words(self, labels: Tensor, k: int) -> Tensor:
        vocabulary = len(self.counts)
        table = torch.zeros(k * vocabulary, dtype=torch.float64, device=labels.device)
        if self._part.words is not None:
            rowptr, word = self._part.words
            for begin in range(0, len(labels), _ROWS_AT_ONCE):
                ends = rowptr[begin : begin + _ROWS_AT_ONCE + 1]
                count = torch.from_numpy(np.diff(ends)).to(labels.device)
                column = torch.from_numpy(word[ends[0] : ends[-1]].astype(np.int64)).to(labels.device)
                place = labels[begin : begin + _ROWS_AT_ONCE].repeat_interleave(count) * vocabulary + column
                table += torch.bincount(place, minlength=k * vocabulary)
        return table.view(k, vocabulary)


class PaperInput(DenseInput):
    """A~ X T_m + X T_s, the first layer of the paper's network, with A~ X computed once."""

    terms = 2

    def __init__(self, op: Halo, x: Tensor) -> None:
        super().__init__(torch.cat([op.normalise() @ x, x], dim=1))
        self.in_channels = x.shape[1]

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        return super().__call__([torch.cat(weights, dim=2)], scales)


def prepare_part(
    part: Part, manifest: Manifest, recipe: Recipe, dtype: torch.dtype, group: JobGroup
) -> Prepared:
    """What the steps of a fit share, for the nodes of a part; every process calls this."""
    assert part.x is not None
    nodes = PartNodes(part, manifest, group)
    op = part_operator(part, group, dtype=torch.float64, device=group.device)
    group.together(op.refuse_negative)
    x = torch.from_numpy(np.array(part.x)).to(device=group.device, dtype=dtype)
    if recipe.paper:
        nothing = x.new_zeros(1, len(x), 0)
        encoded = Encoded(None, op, nothing[0], nothing, PaperInput(op, x))
    else:
        z, _ = scaled_distances(op, x, nodes, recipe)
        encoded = Encoded(None, op, x, z, DenseInput(z))
    adjacency, words = _at_most_one(op, group), None
    counts = torch.zeros(0, dtype=torch.float64, device=group.device)
    if (
        part.words is not None
    ):  # those of the own nodes, with the counts, and so the price, of those of all nodes
        rowptr, word = part.words
        shape = (len(part.nodes), manifest.vocabulary)
        words = Words(sp.csr_array((np.ones(len(word)), word, rowptr), shape=shape), device=group.device)
        words.counts = counts = nodes.total(words.counts)
        words.count = float(manifest.num_words)
    judge = PartJudge(part, adjacency, manifest, counts)
    return Prepared(Encoder(recipe, x.shape[1]), encoded, adjacency, judge, words, nodes)


def _at_most_one(op: Halo, group: JobGroup) -> Halo:
    """The operator in units of the largest weight of the whole graph."""
    if op.val is None:
        return op
    most = max(group.gather(float(op.val.max()) if op.val.numel() else 0.0))
    return Halo(op.pattern, op.exchange, op.val / (most if most > 0 else 1.0), symmetric=op.symmetric)


# ------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class SharedCheckpoint(Checkpoint):
    """A checkpoint of values that all processes share: process 0 writes it, and reads it for all."""

    group: JobGroup = field(default_factory=JobGroup)  # the processes
    resumed_at: list[int] = field(default_factory=list)  # iterations that were done when a training went on

    def write(self, state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        if self.group.rank == 0:
            super().write(state, settings)

    def read(self, settings: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
        read = super().read
        state = self.group.shared(lambda: read(settings, torch.device("cpu")))
        if state is None:
            return None
        self.resumed_at.append(state["done"])
        return _moved(state, device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    return [_moved(each, device) for each in value] if isinstance(value, list) else value


class _SharedParameters(torch.autograd.Function):
    """The parameters as they are; their gradients are added up over all processes, in one message."""

    @staticmethod
    def forward(group: Group, *parameters: Tensor) -> tuple[Tensor, ...]:
        return tuple(p.view_as(p) for p in parameters)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.group = inputs[0]

    @staticmethod
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        flat = ctx.group.all_reduce(torch.cat([g.reshape(-1) for g in gradients]))
        pieces = flat.split([g.numel() for g in gradients])
        return None, *(piece.view_as(g) for piece, g in zip(pieces, gradients, strict=True))


class PartTask(ClusteringTask):
    """The step of :func:`softcut.training.train`, with the sums and gradients of all processes.

    `own` are the numbers of the own nodes in the whole graph. `began` is what this process had sent when the last step
    began, `trained` the networks of that step.
    """

    def __init__(
        self,
        net: ReplicaNet,
        prepared: Prepared,
        own: np.ndarray,
        settings: TrainSettings,
        group: JobGroup,
        start: Start | None = None,
    ) -> None:
        worth = torch.tensor([prepared.judge.edges], dtype=torch.float64, device=prepared.device)
        super().__init__(
            net,
            prepared.encoded.inputs,
            prepared.encoded.op,
            settings,
            sizes=None if start is None else start.sizes,
            adjacency=prepared.adjacency,
            words=prepared.words,
            num_edges=worth,
        )
        self.op.degree_like(net.bias)  # constant, and asked of the other processes once: here
        self.capturable = False  # messages are no part of a CUDA graph
        self.group, self.began, self.trained = group, group.traffic, net.replicas
        if start is not None:
            self.start, self.learned = start.labels, prepared.nodes.count
            if isinstance(self.inputs, DenseInput) and self.inputs.terms == 1:
                chosen = start_rows(self.learned)  # the nodes that a single process learns it from
                self.learn_from(
                    torch.from_numpy(np.flatnonzero(own % chosen.step == 0)).to(self.start.device)
                )
                self.learned = len(chosen)

    def logits(self, inputs: FirstLayer) -> Tensor:
        shared = _SharedParameters.apply(self.group, *self.parameters.values())
        return functional_call(self.net, dict(zip(self.parameters, shared, strict=True)), (inputs,))

    def step(self) -> dict[str, Tensor]:
        self.began, self.trained = self.group.traffic, self.net.replicas
        return super().step()

    def warm_up(self) -> Tensor:
        assert self.start is not None
        errors = nn.functional.cross_entropy(self.logits(self.start_inputs), self.start, reduction="none")
        return self.op.layout.over_all(errors.sum(1)) / self.learned
