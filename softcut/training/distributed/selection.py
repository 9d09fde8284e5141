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
    group = op.layout.group
    hard = nn.functional.one_hot(labels, k).double()  # [n, R, K]
    edges, sizes = quadratic_form(op, hard)[0], op.layout.total(hard)[0]
    gain = torch.zeros(labels.shape[1], dtype=torch.float64, device=labels.device)
    if part.words is not None:
        rowptr, word = (torch.from_numpy(np.array(a)).long().to(labels.device) for a in part.words)
        owner = torch.repeat_interleave(torch.arange(len(labels), device=labels.device), rowptr.diff())
        v = manifest.vocabulary
        for r in range(labels.shape[1]):
            table = torch.bincount(labels[owner, r] * v + word, minlength=k * v).view(k, v).double()
            gain[r] = word_gain(group.all_reduce(table), manifest.num_words)
    found = Evidence(edge_gain(edges, manifest.edge_worth), gain, entropy(sizes), manifest.nodes)
    return Judged(found.value.cpu().numpy(), (sizes > 0).sum(-1).cpu().numpy())


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
