"""Which labels are taken, without knowing any: the evidence of every replica, the best one, their consensus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from softcut.io.parts import Manifest, Part
from softcut.metrics import Evidence
from softcut.ops import quadratic_form
from softcut.ops.halo import Halo, SharedRows
from softcut.ops.information import entropy
from softcut.ops.objectives import edge_gain, word_gain
from softcut.training.distributed.inputs import Sample, shared_centres

__all__ = ["SELECT", "Judged", "best_replica", "consensus", "judge"]

SELECT = ("consensus", "evidence", "loss")
# Of the k-means of the consensus, which is run once and decides all labels.
_RESTARTS = 10
# Nodes whose words are counted at a time.
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Judged:
    """Evidence [R] of the labels of every replica, and how many clusters [R] they use."""

    evidence: np.ndarray
    used: np.ndarray


def judge(part: Part, op: Halo, labels: Tensor, manifest: Manifest, k: int) -> Judged:
    """What labels [n, R] of the own nodes explain together with those of the other processes.

    As :class:`softcut.metrics.Judge` finds it, from the tables S'AS and S'X of the whole graph.

    Parameters
    ----------
    part : Part
        The own nodes and their words.
    op : Halo
        A, not normalised.
    labels : Tensor
        [n, R], from 0 to `k` - 1.
    manifest : Manifest
        Sizes of the whole graph.
    k : int
        Clusters.
    """
    edges, sizes, gains = [], [], []
    for own in labels.unbind(1):  # one at a time: a table of all would be larger than what training holds
        hard = nn.functional.one_hot(own, k).double()
        edges.append(quadratic_form(op, hard)[0])
        sizes.append(op.layout.total(hard)[0])
        table = op.layout.group.all_reduce(_word_table(part, own, k, manifest.vocabulary))
        gains.append(word_gain(table, manifest.num_words) if part.words is not None else table.new_zeros(()))
    size = torch.stack(sizes)
    gain = edge_gain(torch.stack(edges), manifest.edge_worth)
    found = Evidence(gain, torch.stack(gains), entropy(size), manifest.nodes)
    return Judged(found.value.cpu().numpy(), (size > 0).sum(-1).cpu().numpy())


def _word_table(part: Part, labels: Tensor, k: int, vocabulary: int) -> Tensor:
    """How often each word occurs in each cluster [K, V], among the own nodes."""
    table = torch.zeros(k * vocabulary, dtype=torch.float64, device=labels.device)
    if part.words is None:
        return table.view(k, vocabulary)
    rowptr, word = part.words
    for begin in range(0, len(labels), _ROWS_AT_ONCE):
        ends = rowptr[begin : begin + _ROWS_AT_ONCE + 1]
        count = torch.from_numpy(np.diff(ends)).to(labels.device)
        column = torch.from_numpy(word[ends[0] : ends[-1]].astype(np.int64)).to(labels.device)
        place = labels[begin : begin + _ROWS_AT_ONCE].repeat_interleave(count) * vocabulary + column
        table += torch.bincount(place, minlength=k * vocabulary)
    return table.view(k, vocabulary)


def best_replica(score: np.ndarray, used: np.ndarray, k: int) -> int:
    """The replica with the highest score, among those that use all clusters where there are any.

    >>> best_replica(np.array([3.0, 2.0, 1.0]), np.array([4, 5, 5]), k=5)
    1
    """
    full = used == k
    return int(np.where(full | ~full.any(), score, -np.inf).argmax())


def consensus(
    s: Tensor, found: Judged, layout: SharedRows, sample: Sample, seed: int
) -> tuple[Tensor, Tensor]:
    """Labels [n] by a k-means of the assignments of all replicas side by side, and how certain they are [n].

    Replicas count by the evidence of their labels; those that lost clusters are left out, where others did not. A
    label is as certain as the replicas, on average, expect it: sum_k s_ik P(label | cluster k of the replica).

    Parameters
    ----------
    s : Tensor
        [n, R, K] assignments of the own nodes.
    found : Judged
        Of the replicas.
    layout : SharedRows
        For sums over all nodes.
    sample : Sample
        The nodes that the k-means looks at.
    seed : int
        Of the k-means.
    """
    k = s.shape[-1]
    full = found.used == k
    members = np.flatnonzero(full | ~full.any())
    weight = torch.from_numpy(np.clip(found.evidence[members], 1e-6, None)).to(s)
    s = s[:, torch.from_numpy(members).to(s.device)]
    rows = (s * (weight / weight.max()).unsqueeze(-1)).flatten(1)
    centres = shared_centres(rows, k, sample, layout.group, seed, _RESTARTS)
    labels = (centres.square().sum(1) - 2 * rows @ centres.mT).argmin(1)
    hard = nn.functional.one_hot(labels, k).to(s.dtype)
    table = layout.gram(s, hard.unsqueeze(1).expand(-1, len(members), -1))[0]  # [R, K, K]
    table = table / table.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)
    expected = torch.einsum("nrk,rkc->nc", s, table) / len(members)
    return labels, expected.gather(1, labels.unsqueeze(1)).squeeze(1)
