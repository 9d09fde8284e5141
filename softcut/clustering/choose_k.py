"""How many clusters: a few networks for each number, compared by what they explain and by how well they agree.

    score(K) = (G_e + G_x) / (N H^1/2) * agreement

The first factor, which the networks maximise too, is what a clustering explains of edges and features, of the part
that pays: it rises with K as long as there is more to explain. The second, the mean adjusted Rand index between
networks, falls as soon as there are several equally good ways to divide what belongs together. Both are means weighted
by evidence: networks that read a distance without signal do not vote. Without features the clusterings found from
several starts take the place of the networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from softcut.clustering.consensus import evidence_weights
from softcut.clustering.prepare import Note
from softcut.clustering.recipe import Recipe
from softcut.metrics import Evidence

__all__ = ["Candidate", "candidate", "choose"]

# What is known of a number of clusters: "score", "structure", "agreement" and "description_length".
Candidate = dict[str, float]


def candidate(evidence: Evidence, ari: Tensor, structure: Callable[[int], float], width: float) -> Candidate:
    """What speaks for a number of clusters, from clusterings [R] into it and their agreement [R, R].

    `structure` gives that of one of the clusterings; it is asked for the one with most evidence.
    """
    weight = evidence_weights(evidence, width).double().to(ari.device)
    gain = evidence.paid * evidence.entropy.sqrt()
    pairs = torch.outer(weight, weight).fill_diagonal_(0)
    total = float(pairs.sum())
    agreement = float((pairs * ari).sum()) / total if total > 0 else 0.0
    best = int(evidence.value.argmax())
    return {
        "score": max(0.0, float((weight.to(gain.device) * gain).sum())) * max(0.0, agreement),
        "structure": structure(best),
        "agreement": agreement,
        "description_length": float(evidence.description_length[best]),
    }


def choose(
    numbers: tuple[int, ...],
    judge: Callable[[int], Candidate],
    recipe: Recipe,
    may_be_one: bool,
    note: Note,
) -> tuple[int, dict[int, Candidate]]:
    """The number with the highest score, and what speaks for each; a single number is not judged.

    If `may_be_one`, the answer is 1 where no number explains more than it costs.
    """
    if len(numbers) == 1:
        return numbers[0], {}
    candidates = {k: judge(k) for k in numbers}
    k = max(candidates, key=lambda c: (candidates[c]["score"], -c))
    first, last = min(candidates), max(candidates)
    if may_be_one and max(each["structure"] for each in candidates.values()) < 1:
        note(
            f"n_clusters: 1, because no number from {first} to {last} explains more than it takes to "
            "describe the clusters."
        )
        return 1, candidates
    if candidates[k]["score"] <= 0:
        note(
            f"n_clusters: no number from {k} to {last} is better than another: restarts do not agree on "
            f"any of them; {k} was taken."
        )
        return k, candidates
    others = [str(c) for c in _peaks(candidates, recipe.supported) if c != k]
    curve = ", ".join(f"{c}: {each['score'] / candidates[k]['score']:.2f}" for c, each in candidates.items())
    also = f"; also supported: {', '.join(others)}" if others else ""
    note(
        f"n_clusters: {k}{also}. Chosen from {first} to {last} by evidence and agreement of restarts "
        f"(scores relative to the highest: {curve})."
    )
    return k, candidates


def _peaks(candidates: Mapping[int, Candidate], share: float) -> list[int]:
    """Numbers whose score is higher than those of the numbers beside them, and not far below the highest."""
    numbers = sorted(candidates)
    scores = [candidates[k]["score"] for k in numbers]
    padded = [-1.0, *scores, -1.0]
    return [
        k
        for i, k in enumerate(numbers)
        if padded[i] < scores[i] > padded[i + 2] and scores[i] >= share * max(scores)
    ]
