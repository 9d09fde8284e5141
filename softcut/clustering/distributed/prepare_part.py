"""The first step on a part: what :func:`softcut.clustering.prepare.prepare` makes of a graph, for its own nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from softcut.clustering.distributed.group import JobGroup
from softcut.clustering.encoder import Encoded, Encoder, scaled_distances
from softcut.clustering.nodes import Nodes, sample_rows
from softcut.clustering.prepare import Prepared
from softcut.clustering.recipe import Recipe
from softcut.io.part_files import Manifest, Part
from softcut.metrics import Judge
from softcut.ops import CSRPattern, Words, quadratic_form
from softcut.ops.halo import Exchange, Group, Halo
from softcut.training import DenseInput

__all__ = ["PaperInput", "PartJudge", "PartNodes", "part_operator", "prepare_part"]

# Nodes whose words are counted at a time.
_ROWS_AT_ONCE = 1 << 14


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
        self._places: dict[int, tuple[int, Tensor, Tensor]] = {}

    def sample(self, rows: Tensor, most: int) -> Tensor:
        size, mine, place = self._of_sample(most)
        out = rows.new_zeros(size, *rows.shape[1:])
        out[place.to(rows.device)] = rows[mine.to(rows.device)]
        return self.group.all_reduce(out)  # every row is there once: the sum is the row

    def _of_sample(self, most: int) -> tuple[int, Tensor, Tensor]:
        """Size of the sample, which of the own nodes are in it, and where."""
        if most not in self._places:
            chosen = sample_rows(self.count, most).numpy()
            place = np.searchsorted(chosen, self._own)
            mine = np.flatnonzero(chosen[np.minimum(place, len(chosen) - 1)] == self._own)
            self._places[most] = len(chosen), torch.from_numpy(mine), torch.from_numpy(place[mine])
        return self._places[most]

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
        self.axes = None
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


class PaperInput:
    """A~ X T_m + X T_s, the first layer of the paper's network, with A~ X computed once."""

    terms = 2

    def __init__(self, op: Halo, x: Tensor) -> None:
        self.in_channels = x.shape[1]
        self.x = torch.cat([op.normalise() @ x, x], dim=1)

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        replicas, hidden, columns = weights[0].shape
        flat = [w.reshape(-1, columns) for w in weights]
        return (torch.cat(flat, dim=1) @ self.x.mT).view(replicas, hidden, -1)


def prepare_part(
    part: Part, manifest: Manifest, recipe: Recipe, dtype: torch.dtype, group: JobGroup
) -> Prepared:
    """What the steps of a fit share, for the nodes of a part; every process calls this."""
    assert part.x is not None
    nodes = PartNodes(part, manifest, group)
    op = part_operator(part, group, dtype=torch.float64, device=group.device)
    group.together(op.refuse_negative)
    x = torch.from_numpy(np.array(part.x)).to(device=group.device, dtype=dtype)
    encoder = Encoder(recipe.paper, recipe.distances, x.shape[1], recipe=recipe)
    if recipe.paper:
        nothing = x.new_zeros(1, len(x), 0)
        encoded = Encoded(None, op, nothing[0], nothing, PaperInput(op, x))
    else:
        directions = x.shape[1] >= recipe.many_columns
        z, _ = scaled_distances(op, x, recipe.distances, directions, nodes, recipe)
        encoded = Encoded(None, op, x, z, DenseInput(z))
    adjacency = _at_most_one(op, group)
    words = _words(part, manifest, nodes, group.device)
    counts = torch.zeros(0, dtype=torch.float64, device=group.device) if words is None else words.counts
    judge = PartJudge(part, adjacency, manifest, counts)
    return Prepared(encoder, encoded, adjacency, judge, words, nodes)


def _at_most_one(op: Halo, group: JobGroup) -> Halo:
    """The operator in units of the largest weight of the whole graph."""
    if op.val is None:
        return op
    most = max(group.gather(float(op.val.max()) if op.val.numel() else 0.0))
    return Halo(op.pattern, op.exchange, op.val / (most if most > 0 else 1.0), symmetric=op.symmetric)


def _words(part: Part, manifest: Manifest, nodes: PartNodes, device: torch.device) -> Words | None:
    """The words of the own nodes, with the counts, and so the price, of those of all nodes."""
    if part.words is None:
        return None
    rowptr, word = part.words
    matrix = sp.csr_array((np.ones(len(word)), word, rowptr), shape=(len(part.nodes), manifest.vocabulary))
    words = Words(matrix, device=device)
    words.counts = nodes.total(words.counts)
    words.count = float(manifest.num_words)
    return words
