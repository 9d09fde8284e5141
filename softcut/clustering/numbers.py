"""How many clusters: which numbers are compared, what speaks for each, which is chosen, and the other levels.

Few numbers are all compared. Of many, those that rise by a fifth or more come first, then those around the best, each
halfway between two that are known. The highest

    score(K) = nats explained / (N H^1/2) * agreement

is taken, of the numbers whose clusters explain more than they cost where there are any. No single number is right for
every graph and every purpose, so there are levels, too: from the number that is chosen upwards and downwards, the best
of every octave.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from softcut.clustering.networks import evidence_weights
from softcut.clustering.recipe import Recipe
from softcut.errors import Detail, Note
from softcut.metrics import Evidence, Judge

if TYPE_CHECKING:
    from softcut.clustering.fit_task import FitTask

# What speaks for a number of clusters, and how long the networks were trained that say so (0: there were none).
CANDIDATE = ("score", "structure", "agreement", "description_length", "iterations")
Candidate = dict[str, float]
Judged = Callable[[int], Candidate]


class Chosen(NamedTuple):
    """The number of clusters, what speaks for each that was compared, and the numbers of all levels."""

    k: int
    candidates: dict[int, Candidate]
    levels: tuple[int, ...]  # rising, K among them; K alone where it was given, or is 1


def candidate(
    judge: Judge, labels: Tensor, k: int, evidence: Evidence, ari: Tensor, recipe: Recipe
) -> Candidate:
    """What speaks for K, from clusterings `labels` [N, R] into it, their evidence and their agreement [R, R].

        score(K) = (G_e + G_x) / (N H^1/2) * agreement

    The first factor is what a clustering explains of edges and features, of the part that pays: it rises with K as
    long as there is more to explain. The second, from the mean adjusted Rand index between them, falls as soon as there
    are several equally good ways to divide what belongs together. Both are means weighted by evidence: clusterings of a
    distance without signal do not vote. The structure is that of the clustering with most evidence.
    """
    weight = evidence_weights(evidence, recipe.width).double().to(ari.device)
    gain = evidence.paid * evidence.entropy.sqrt()
    pairs = torch.outer(weight, weight).fill_diagonal_(0)
    total = float(pairs.sum())
    agreement = float((pairs * ari).sum()) / total if total > 0 else 0.0
    best = int(evidence.value.argmax())
    return {
        "score": max(0.0, float((weight.to(gain.device) * gain).sum())) * max(0.0, agreement),
        "structure": float(judge(labels[:, best].contiguous(), k).structure),
        "agreement": agreement,
        "description_length": float(evidence.description_length[best]),
        "iterations": 0.0,
    }


def spaced(numbers: Sequence[int], recipe: Recipe) -> list[int]:
    """Of rising numbers those that are compared first: all of a few, of many each a fifth above the last.

    >>> spaced(range(2, 51), Recipe())
    [2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50]
    """
    if len(numbers) <= recipe.few_numbers:
        return list(numbers)
    ratio = recipe.spacing
    first = [numbers[0]]
    for number in numbers:
        if number >= ratio * first[-1] and number > first[-1]:
            first.append(number)
    if first[-1] != numbers[-1]:  # the last one is always compared
        close = len(first) > 1 and numbers[-1] < ratio * first[-1]
        first[-1:] = [numbers[-1]] if close else [first[-1], numbers[-1]]
    return first


def beside(number: int, known: Iterable[int], numbers: Sequence[int]) -> list[int]:
    """Those of `numbers` that lie halfway between one that is known and the known ones below and above it."""
    known = sorted(known)
    at = known.index(number)
    found = []
    for low, high in itertools.pairwise(known[max(0, at - 1) : at + 2]):
        between = [k for k in numbers if low < k < high]
        found += between[(len(between) - 1) // 2 :][:1]
    return found


def choose(task: FitTask, begun: Judged, ended: Judged) -> Chosen:
    """The number with the highest score, and what speaks for each; a single one is not judged.

    `begun` judges clusterings that are cheap to make, `ended` those of a whole fit, which may explain more. If the task
    allows it, the answer is 1 where nothing explains more than it costs.
    """
    numbers, recipe = task.numbers, task.recipe
    if len(numbers) == 1:
        return Chosen(numbers[0], {}, numbers)
    candidates: dict[int, Candidate] = {}
    waiting = spaced(numbers, recipe)
    while waiting:
        for number in waiting:
            task.comparing(number)
            candidates[number] = begun(number)
        k = best_of(candidates)
        waiting = beside(k, candidates, numbers)
    candidates = dict(sorted(candidates.items()))
    if task.open and begun is not ended and not _something_pays(candidates):
        # Before all are given up, the number that is nearest to paying is looked at closely.
        k = max(candidates, key=lambda c: (candidates[c]["structure"], -c))
        candidates[k] = ended(k)
    one = task.open and not _something_pays(candidates)
    levels = (1,) if one else levels_of(candidates, k, recipe)
    _tell(task, candidates, 1 if one else k, levels)
    return Chosen(1 if one else k, candidates, levels)


def best_of(candidates: Mapping[int, Candidate]) -> int:
    """The number with the highest score, of those that explain more than they cost where there are any."""
    paying = [k for k, each in candidates.items() if each["structure"] >= 1] or candidates
    return max(paying, key=lambda k: (candidates[k]["score"], -k))


def levels_of(candidates: Mapping[int, Candidate], k: int, recipe: Recipe) -> tuple[int, ...]:
    """Rising numbers, K among them: of every octave around K, 2K, K/2, 4K, ... the best whose clusters pay."""
    octaves: dict[int, dict[int, Candidate]] = {}
    for number, each in candidates.items():
        octave = round(math.log2(number / k))
        if octave and number > 1 and each["structure"] >= 1:
            octaves.setdefault(octave, {})[number] = each
    others = sorted(map(best_of, octaves.values()), key=lambda n: (-candidates[n]["score"], n))
    return tuple(sorted([k, *others[: recipe.levels - 1]]))


def _tell(task: FitTask, candidates: Mapping[int, Candidate], k: int, levels: Sequence[int]) -> None:
    """Note what was chosen, and why."""
    first, last = min(candidates), max(candidates)
    best = max(each["score"] for each in candidates.values())
    others: list[int] = []
    if k == 1 and levels == (1,):
        said = (
            f"no division into {first} to {last} clusters explains more than it takes to describe: 1 cluster."
        )
    elif candidates[k]["score"] <= 0:
        said = (
            f"no number of clusters from {k} to {last} stands out: each seed would divide the graph in another way. "
            f"{k} was taken; give the number you want."
        )
    else:
        others = [c for c in _peaks(candidates, task.recipe.supported) if c != k]
        also = f"; also plausible: {', '.join(map(str, others))}" if others else ""
        said = f"{k} clusters fit best of {first} to {last}{also}."
    kind = Detail if k == 1 else Note  # that there are none is said with the verdict
    task.tell(kind("number_of_clusters", said, chosen=k, supported=others))
    if best > 0:
        curve = ", ".join(f"{c}: {each['score'] / best:.2f}" for c, each in candidates.items())
        said = (
            f"evidence times agreement of restarts, by number of clusters, relative to the highest: {curve}."
        )
        task.tell(Detail("scores_of_numbers", said))


def _something_pays(candidates: Mapping[int, Candidate]) -> bool:
    return max(each["structure"] for each in candidates.values()) >= 1


def _peaks(candidates: Mapping[int, Candidate], share: float) -> list[int]:
    """Numbers whose score is higher than those of the numbers beside them, and not far below the highest."""
    numbers = sorted(candidates)
    scores = [-1.0, *(candidates[k]["score"] for k in numbers), -1.0]
    beside = zip(numbers, scores, scores[1:], scores[2:], strict=False)
    return [k for k, left, own, right in beside if left < own > right and own >= share * max(scores)]
