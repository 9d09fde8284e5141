"""Every constant of the clustering pipeline, with its reason, in one place."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from softcut.errors import ParameterError
from softcut.ops import OBJECTIVES
from softcut.training import TrainSettings

_WORDS = {
    "objective": OBJECTIVES,
    "start": ("clusters", "random"),
    "select": ("consensus", "best"),
    "batch_parts": ("random", "metis"),
}
_MAY_BE_ZERO = ("hidden", "steps", "start_iterations", "distances")  # other whole numbers are at least 1
_POSITIVE = ("longest_row", "learning_rate", "temperature", "width", "spacing")  # other numbers may be 0
_SHARES = ("edge_starts", "restart")  # at most 1
# How numbers of clusters are compared.
_SEVERAL = (
    *("auto", "few_numbers", "spacing", "looks", "quick_sample", "quick_rounds", "trial_networks"),
    *("supported", "levels", "level_networks"),
)


# Constants that a fit by edges alone reads; the paper's model has none of them, but its runs were recorded with these.
_OF_EDGES = (
    "engine",
    "some_deviations",
    "rows_deviations",
    "clear_deviations",
    "some_surplus",
    "clear_surplus",
)
_RECORDED = {
    "edges": {
        **{"groups": 8, "few": 128, "many": 512, "join_rounds": 4, "stuck": 0.97, "move_rounds": 30},
        **{"rise": 1e-5, "fails": 3, "prior": 1e-3, "own": 0.6, "table": 1 << 24},
    }
}


def _check(recipe: Any) -> None:
    """Raise an error that names the first constant with a value it may not have."""
    for each in fields(recipe):
        name, value, default = each.name, getattr(recipe, each.name), each.default
        least = 0 if name in _MAY_BE_ZERO else 1
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name in _WORDS:
            wanted, right = " or ".join(map(repr, _WORDS[name])), value in _WORDS[name]
        elif isinstance(default, bool):
            wanted, right = "True or False", isinstance(value, bool)
        elif isinstance(default, tuple):
            wanted = f"a tuple of rising whole numbers of at least {least}"
            right = isinstance(value, tuple) and all(type(v) is int and v >= least for v in value)
            right = right and len(value) > 0 and list(value) == sorted(set(value))
        elif isinstance(default, int):
            wanted, right = f"a whole number of at least {least}", type(value) is int and value >= least
        elif name in _SHARES:
            wanted, right = "a number from 0 to 1", number and 0 <= value <= 1
        elif name in _POSITIVE:
            wanted, right = "a positive number", number and value > 0
        else:
            wanted = "a number of at least 0"
            right = (name == "tolerance" and value is None) or (number and value >= 0)
        if not right:
            raise ParameterError(f"{name} of a Recipe must be {wanted}, got {value!r}.", argument=name)


@dataclass(frozen=True)
class Recipe:
    """How :class:`softcut.GraphClustering` clusters; the defaults serve every graph.

    Change a field for an ablation or a benchmark, ``GraphClustering(7, recipe=Recipe(refine=False))``. Results are
    recorded with :attr:`digest`, so that a run with another constant never counts as one of these.

    >>> Recipe().networks, Recipe(width=0.2).digest == Recipe().digest
    (24, False)
    """

    # ---- encode: features as the networks read them (node_features.py, prepare.py)
    components: int = 64  # columns that features are reduced to
    # How often features are propagated before a network reads them; the consensus weighs the distances by evidence.
    distances: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    many_columns: int = (
        16  # with as many columns rows are scaled to length 1, which would only tell the degree
    )
    # Longer rows, in units of the median, are shortened: after many hops isolated nodes are all that differs.
    longest_row: float = 2.0
    paper: bool = False  # the paper's network: one message-passing layer on rows of X that sum to one

    # ---- train: networks that maximise the evidence (networks.py)
    networks: int = 24  # four for each distance
    hidden: int = 16  # units of each
    objective: str = "evidence"  # see softcut.ops.objectives
    iterations: int = 50  # the evidence hardly rises after these
    learning_rate: float = 0.04
    # A network stops when its loss improved by less than this share of it within `patience` iterations; None: never.
    tolerance: float | None = 2e-3
    patience: int = 10
    temperature: float = 1.0  # of the softmax
    start: str = "clusters"  # of the features at their distance or of the edges; "random": networks learn nothing first
    start_iterations: int = (
        10  # iterations that learn the start: enough to begin near it, few enough to leave a bad one
    )
    edge_starts: float = (
        0.25  # share of the networks that begin from clusters of the edges: features may hide these
    )
    start_restarts: int = 2  # k-means for each start, of which the better one is taken
    start_rounds: int = 30  # iterations of that k-means: it need not converge
    least: float = 0.25  # smallest cluster of a start, as a share of the mean size
    hold: float = (
        0.2  # weight of the L_o that holds clusters to the sizes of their start, beside the evidence
    )
    ortho_weight: float = 2.0  # weight of L_o beside a cut: at 1 some networks lose a cluster

    # ---- merge: one consensus (consensus.py)
    select: str = (
        "consensus"  # "best": the network with most evidence, or, of the paper's, with the lowest loss
    )
    # Behind the highest evidence by this share of it a network, or a k-means that compares numbers of clusters, has
    # 1/e of the weight of the best.
    width: float = 0.07
    fusion: float = 1.0  # weight of the propagated features beside the networks
    consensus_columns: int = 64  # leading directions that its k-means sees
    consensus_restarts: int = 20

    # ---- refine: own features and neighbours (consensus.py)
    refine: bool = True
    ridge: float = 3e-3  # of the regression from features to clusters
    restart: float = 0.4  # share of a node's own evidence at every step of PageRank
    steps: int = 10  # steps of PageRank: 0.6^10 = 0.6 % of the result is still missing after them

    # ---- choose the number of clusters, and say what was found (numbers.py, estimator.py)
    auto: tuple[int, ...] = tuple(range(2, 51))  # the numbers that n_clusters="auto" chooses among
    few_numbers: int = 12  # so many are all compared; of more, some that rise by
    spacing: float = 1.2  # this factor, then those around the best
    looks: int = 18  # k-means that are compared for each number: three for each distance
    # Above `few_numbers` clusters each of these has one try only, on so many nodes, and so many iterations.
    quick_sample: int = 4_000
    quick_rounds: int = 15
    trial_networks: int = 12  # in their place for the paper's network, and before the answer is one cluster
    supported: float = 0.5  # a peak of the curve with this share of the highest score is worth a note
    levels: int = 5  # numbers of clusters, coarse to fine, at most
    engine: int = 1  # counts the versions of the constants of softcut.communities
    # Where the edges decide: standard deviations of random graphs, and modularity above theirs, from which on there are
    # communities, and from which on they are clear (benchmarks/verdicts.py).
    some_deviations: float = 4.0
    rows_deviations: float = 3.5  # in place of it where edges join nearest rows
    clear_deviations: float = 6.0
    some_surplus: float = 0.01
    clear_surplus: float = 0.03
    level_networks: int = 6  # for each number but the one that is chosen: one for each distance
    clear: float = 1.5  # from this structure on the verdict is "clear"; docs/images/structure.png shows why
    low_agreement: float = 0.1  # below this mean adjusted Rand index between networks a fit warns

    # ---- large graphs: what is left out (a note of the fit says so)
    # Nodes above which all that is learned before and after the training is learned from a sample of this many nodes,
    # features are propagated in single precision, and no network begins from the edges.
    large: int = 50_000
    # Nodes that k-means of the starts see there, and everywhere those that compare numbers of clusters.
    start_sample: int = 20_000
    large_restarts: int = 5  # k-means for each start there: networks are few, and a sample costs little
    finalists: int = 4  # starts of the consensus that are run to their end there
    # Numbers that the training of all networks holds at a time, N R (H + K): what 2 cores, or one GPU, do in seconds.
    budget_cpu: int = 1 << 24
    budget_cuda: int = 3 << 28
    least_networks: int = 4  # trained however large the graph is

    # ---- mini-batches (networks.py)
    batch_parts: str = "random"  # how the parts of the graph are drawn; "metis": with few edges between them
    parts_per_step: int = 8  # many small parts make a batch more like the whole graph than a few large ones
    least_batch: int = 10_000  # nodes of an automatic batch: below, steps cost more than what they compute

    def __post_init__(self) -> None:
        _check(self)

    @property
    def digest(self) -> str:
        """Twelve digits that change with any constant."""
        return self.digest_of(several=True)

    def digest_of(self, several: bool) -> str:
        """Twelve digits that change with what decides a fit with one number of clusters, or with several."""
        known = {name: value for name, value in asdict(self).items() if several or name not in _SEVERAL}
        if self.paper and not several:
            known = {name: value for name, value in known.items() if name not in _OF_EDGES} | _RECORDED
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=list).encode()).hexdigest()[:12]

    def changed(self, **fields: Any) -> Recipe:
        """The same with some fields replaced; None leaves a field as it is."""
        return replace(self, **{name: value for name, value in fields.items() if value is not None})

    def verdict(self, structure: float) -> str:
        """What the structure of a clustering says: "none", "weak" or "clear"."""
        return "none" if structure < 1 else "weak" if structure < self.clear else "clear"

    def verdict_of_edges(self, deviations: float, surplus: float, of_rows: bool = False) -> str:
        """What the distance from random graphs says: "none", "weak" or "clear"."""
        least = self.rows_deviations if of_rows else self.some_deviations
        if deviations < least or surplus < self.some_surplus:
            return "none"
        sure = deviations >= self.clear_deviations and surplus >= self.clear_surplus
        return "clear" if sure else "weak"

    def budget(self, device: torch.device) -> int:
        """Numbers that a training may hold on a device."""
        return self.budget_cuda if device.type == "cuda" else self.budget_cpu

    def training(self, device: torch.device) -> TrainSettings:
        """How the networks are trained."""
        often = 20 if device.type == "cuda" else 5  # a GPU records the step again when networks leave
        return TrainSettings(
            iterations=self.iterations,
            lr=self.learning_rate,
            temperature=self.temperature,
            objective=self.objective,
            ortho_weight=self.hold if self.objective == "evidence" else self.ortho_weight,
            start=self.start_iterations,
            tolerance=self.tolerance,
            patience=self.patience,
            check_every=25 if self.tolerance is None else often,
            one_by_one=True,
        )


DEFAULT = Recipe()
# Section 5.1 of the paper.
PAPER = Recipe(
    paper=True,
    distances=(0,),
    networks=10,
    objective="mincut",
    iterations=10_000,
    learning_rate=5e-4,
    tolerance=None,
    start="random",
    ortho_weight=1.0,
    select="best",
    width=0.2,  # read only where several numbers are compared: one network is chosen, not a consensus
    auto=tuple(range(2, 13)),  # for each of them networks are trained
    fusion=0.0,
    refine=False,
)
