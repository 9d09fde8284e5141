"""How many clusters: a few replicas for each number, compared by what they explain and by how well they agree.

    score(K) = (G_e + G_x) / (N H^1/2) * agreement

The first factor, which the evidence replicas maximise too, is what a clustering explains of edges and features:
it rises with K as long as there is more to explain. The second, the mean adjusted Rand index between replicas,
falls as soon as there are several equally good ways to divide what belongs together. Both are means weighted by
evidence: replicas that read a distance without signal do not vote.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from softcut.clustering.batches import Batches
from softcut.clustering.consensus import evidence_weights
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.replicas import Trained, train_replicas
from softcut.clustering.settings import Settings
from softcut.metrics import Evidence
from softcut.training import Progress

__all__ = ["choose_k", "score"]

_REPLICAS = 12  # two for each distance


def score(parts: Evidence, ari: Tensor) -> float:
    """The score of a number of clusters from the evidence [R] of its replicas and their agreement [R, R].

    >>> parts = Evidence(torch.tensor([4.0, 4.0]), torch.zeros(2), torch.tensor([1.0, 1.0]), nodes=2)
    >>> score(parts, torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
    1.0
    """
    weight = evidence_weights(parts.value, ["all"] * len(parts.value)).double().to(ari.device)
    gain = (parts.edges + parts.features) / (parts.nodes * parts.entropy.clamp(min=1e-12).sqrt())
    pairs = torch.outer(weight, weight).fill_diagonal_(0)
    total = float(pairs.sum())
    agreement = float((pairs * ari).sum()) / total if total > 0 else 0.0
    return max(0.0, float((weight * gain).sum())) * max(0.0, agreement)


def choose_k(
    prepared: Prepared,
    settings: Settings,
    note: Note,
    callback: Callable[[Progress], None] | None,
    batches: Batches | None = None,
) -> Trained:
    """Train a few replicas of the first objective for each number of clusters, and all for the one that is chosen."""
    few = min(_REPLICAS, max(2, settings.n_init))
    scores = {}
    for k in settings.candidates:
        trial = train_replicas(prepared, k, settings.first(), _silent, None, wanted=few, batches=batches)
        scores[k] = _score_of(prepared, trial)
    k = max(scores, key=lambda c: (scores[c], -c))
    if scores[k] <= 0:
        note(
            f"n_clusters: no number from {k} to {max(scores)} is better than another: restarts do not agree on "
            f"any of them; {k} was taken."
        )
    else:
        curve = ", ".join(f"{c}: {value / scores[k]:.2f}" for c, value in scores.items())
        note(
            f"n_clusters: {k} chosen from {min(scores)} to {max(scores)} by evidence and agreement of restarts "
            f"(scores relative to it: {curve})."
        )
    trained = train_replicas(prepared, k, settings, note, callback, batches=batches)
    trained.candidates = scores
    return trained


def _score_of(prepared: Prepared, trained: Trained) -> float:
    full = trained.full  # replicas that lost clusters agree easily: they do not count
    if len(full) < 2:
        return 0.0
    parts = prepared.judge(trained.s[:, full].argmax(-1), trained.k)
    return score(parts, trained.ari[full][:, full])


def _silent(text: str) -> None:
    """Notes of a trial are not told."""
