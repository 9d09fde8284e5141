"""What a fit is asked to do, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from softcut.clustering.earlier import Earlier
from softcut.clustering.model import LearnedModel, NearestModel, PlacedModel
from softcut.clustering.networks import Networks
from softcut.clustering.prepare import Tell
from softcut.clustering.recipe import Recipe
from softcut.communities.tree import Scales
from softcut.metrics import Evidence
from softcut.training import Progress

Candidate = dict[str, float]
Told = Callable[[Progress], None] | None


@dataclass(frozen=True)
class FitTask:
    """What a fit is asked to do."""

    numbers: tuple[int, ...]  # numbers of clusters to compare; one where it is known
    open: bool  # whether no number was asked for: then a single cluster may be the answer
    recipe: Recipe  # how
    seed: int  # what all random numbers are drawn from
    batch_size: int | str | None  # nodes that a step of the training takes
    device: torch.device  # where to compute
    tell: Tell  # told what was decided
    callback: Told = None  # told how the training goes on
    comparing: Callable[[int], None] = lambda k: None  # told which of several numbers is looked at
    scale: str | float | None = None  # "coarse", "fine" or a resolution; None: what stands out
    smallest: int = 1  # nodes of a cluster
    largest: int | None = None
    pattern: str = "communities"  # or "any": clusters need not keep their edges inside
    use: str | None = None  # "edges", "both", or None: what the graph is made of decides
    start: Earlier | None = None  # earlier clusters to begin from
    of_networks: Mapping[str, Any] = field(
        default_factory=dict
    )  # arguments that only networks read, as given


@dataclass(frozen=True)
class Level:
    """Clusters of one level: what a fit with its number of clusters finds."""

    k: int
    soft: np.ndarray  # [N, K], the largest cluster first
    evidence: Evidence  # of the labels of the nodes that took part
    labels: np.ndarray  # [N]


@dataclass(frozen=True, eq=False)
class Levels:
    """Nested clusters: those of a level lie inside those of the level before."""

    labels: np.ndarray  # [L, N], coarse to fine; -1 for a node in none
    chosen: int  # the level that `labels_` has
    marks: tuple[float, ...]  # the resolution, or the number of clusters, of each level

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Levels)
            and (self.chosen, self.marks) == (other.chosen, other.marks)
            and np.array_equal(self.labels, other.labels)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Fitted:
    """What a fit found."""

    model: LearnedModel | PlacedModel | NearestModel | None  # what predicts
    soft: np.ndarray  # [N, K], of all nodes, the largest cluster first; sparse where that is huge
    evidence: Evidence  # of the labels of the nodes that took part
    agreement: float  # mean adjusted Rand index between networks, or between clusterings from several starts
    networks: Networks | None = None  # the networks, where there were any
    # Weights of the networks that count in the consensus, and what speaks for each number of clusters, if several.
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    candidates: dict[int, Candidate] = field(default_factory=dict)
    levels: Levels | None = None
    scales: Scales | None = None  # the resolutions that were compared, where the edges decided
    verdict: str = "none"
    deviations: float | None = (
        None  # of the edges from random graphs, and by how much modularity exceeds theirs
    )
    surplus: float | None = None
    interrupted: bool = False
    # Nodes [N] with neither edges nor features, which took no part.
    silent: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
