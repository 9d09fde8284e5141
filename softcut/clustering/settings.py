"""The arguments of MinCutClustering: presets, checks, and the complete settings of one fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.ops import OBJECTIVES
from softcut.training import TrainSettings

__all__ = ["AUTO", "LIMITS", "PRESETS", "Preset", "Settings", "resolve", "seed_from"]


@dataclass(frozen=True)
class Preset:
    """Values used where the estimator's own argument is None."""

    n_init: int
    select: str
    max_iter: int
    learning_rate: float
    tol: float | None
    ortho_weight: float
    objective: str
    judge: str
    hidden: int = 16


PRESETS = {
    # One setting for every graph; docs/quality.md says how each part was found and what it gains.
    "default": Preset(
        n_init=48,
        select="consensus",
        max_iter=200,
        learning_rate=1e-2,
        tol=1e-3,
        ortho_weight=2.0,
        objective="trace_ratio+evidence",
        judge="evidence",
    ),
    # Section 5.1 of the paper: one message-passing layer, one softmax layer, Adam, a fixed number of steps.
    "paper": Preset(
        n_init=10,
        select="best",
        max_iter=10_000,
        learning_rate=5e-4,
        tol=None,
        ortho_weight=1.0,
        objective="trace_ratio",
        judge="agreement",
    ),
}

# The numbers of clusters that n_clusters="auto" compares.
AUTO = range(2, 13)

# The largest values accepted: a typing error of a few digits is refused before it takes all memory. Raise an
# entry (softcut.clustering.settings.LIMITS["hops"] = 5000) where a larger value is meant.
LIMITS = {
    "n_clusters": 10_000,
    "n_init": 10_000,
    "hops": 1_000,
    "n_neighbors": 10_000,
    "n_components": 10_000,
    "hidden": 10_000,
    "max_iter": 10_000_000,
}
_LEAST_BATCH = 16  # two nodes in each of eight parts
_LARGEST_SEED = 2**32 - 1  # what NumPy and scikit-learn take

# What the paper's model does not have. Its network propagates once by itself and starts from random weights.
_NOT_IN_PAPER = ("hops", "feature_graph", "init", "n_neighbors", "fusion", "refine", "n_components")


@dataclass(frozen=True)
class Settings:
    """The estimator's arguments, checked and complete.

    Attributes
    ----------
    candidates : tuple of int
        The numbers of clusters to compare; one where the number is known.
    feature_graph : float
        Weight of the nearest-neighbour graph of the features in the cut; 0 for none.
    judge : str
        What replicas are weighted by: "evidence" or "agreement".
    objectives : tuple of str
        What replicas minimise, as many of them for each.
    hops : int or None
        None: several distances.
    paper : bool
        Whether the network and its input are the paper's.
    warm : bool
        Whether replicas first learn a k-means of their own features.
    seed : int
        What all random numbers of the fit are drawn from.
    batch : int, "auto" or None
        Nodes that a step of the training takes; None for all of them.
    batch_parts : str
        How parts of the graph are found: "metis" or "random".
    """

    candidates: tuple[int, ...]
    n_init: int
    select: str
    judge: str
    objectives: tuple[str, ...]
    hops: int | None
    feature_graph: float
    n_neighbors: int
    fusion: float
    refine: bool
    n_components: int
    hidden: int
    temperature: float
    seed: int
    paper: bool
    warm: bool
    train: TrainSettings
    batch: int | str | None = None
    batch_parts: str = "random"

    def first(self) -> Settings:
        """The same with the first objective only."""
        return replace(self, objectives=self.objectives[:1])

    def training(self, objective: str) -> TrainSettings:
        """How replicas of one objective are trained.

        Beside others, those that maximise the evidence have half of the iterations: they are done by then.
        """
        short = objective == "evidence" and len(self.objectives) > 1
        iterations = (self.train.iterations + 1) // 2 if short else self.train.iterations
        return replace(self.train, objective=objective, iterations=iterations)


def resolve(params: Mapping[str, Any], init: Callable[..., None], graph: Graph) -> tuple[Settings, list[str]]:
    """Check every argument, fill in the preset's values, and say which arguments have no effect.

    >>> from softcut import Graph, MinCutClustering
    >>> est = MinCutClustering(2, select="best", fusion=0.5)
    >>> pair = Graph.from_edges([[0], [1]])
    >>> settings, notes = resolve(est.get_params(), MinCutClustering.__init__, pair)
    >>> settings.n_init, notes
    (48, ["fusion has no effect with select='best'."])

    Parameters
    ----------
    params : mapping
        The estimator's arguments by name.
    init : callable
        Its constructor, whose signature holds the defaults.
    graph : Graph
        What is to be clustered.
    """
    preset = PRESETS.get(_choice("preset", params["preset"], tuple(PRESETS)))
    assert preset is not None

    def given(name: str) -> Any:
        return getattr(preset, name) if params[name] is None else params[name]

    paper = params["preset"] == "paper"
    hops = params["hops"]
    weight = params["feature_graph"]
    temperature = _number("temperature", params["temperature"])
    objectives = _objectives(given("objective"))
    settings = Settings(
        candidates=_candidates(params["n_clusters"], graph.num_nodes),
        n_init=_whole("n_init", given("n_init"), 1),
        select=_choice("select", given("select"), ("consensus", "best")),
        judge=_choice("judge", given("judge"), ("evidence", "agreement")),
        objectives=objectives,
        hops=None if isinstance(hops, str) and hops == "auto" else _whole("hops", hops, 0, "or 'auto'"),
        feature_graph=float(weight)
        if isinstance(weight, bool)
        else _number("feature_graph", weight, zero=True, also="True or False, or "),
        n_neighbors=_whole("n_neighbors", params["n_neighbors"], 1),
        fusion=_number("fusion", params["fusion"], zero=True),
        refine=_flag("refine", params["refine"]),
        n_components=_whole("n_components", params["n_components"], 1),
        hidden=_whole("hidden", given("hidden"), 1),
        temperature=temperature,
        seed=seed_from(params["random_state"]),
        paper=paper,
        warm=_choice("init", params["init"], ("kmeans", "random")) == "kmeans" and not paper,
        train=TrainSettings(
            iterations=_whole("max_iter", given("max_iter"), 1),
            lr=_number("learning_rate", given("learning_rate")),
            temperature=temperature,
            objective=objectives[0],
            ortho_weight=_number("ortho_weight", given("ortho_weight"), zero=True),
            tolerance=None if given("tol") is None else _number("tol", given("tol"), zero=True),
        ),
        batch=_batch(params["batch"], objectives),
        batch_parts=_choice("batch_parts", params["batch_parts"], ("random", "metis")),
    )
    defaults = {k: p.default for k, p in inspect.signature(init).parameters.items() if k in params}
    changed = {name for name, value in params.items() if not _same(value, defaults[name])}
    if paper:
        if settings.batch is not None:
            raise ParameterError(
                "batch is for preset='default': the paper's network passes messages along all edges; leave it out."
            )
        for name in _NOT_IN_PAPER:
            if name in changed:
                raise ParameterError(
                    f"{name} has no effect with preset='paper', whose network reads the features as they are "
                    f"and starts from random weights; leave {name} out, or use preset='default'."
                )
        settings = _without(settings)
    return settings, _no_effect(settings, changed)


def _without(settings: Settings) -> Settings:
    """The paper's model has no feature graph, no fusion and no refinement."""
    return Settings(**{**vars(settings), "hops": 0, "feature_graph": 0.0, "fusion": 0.0, "refine": False})


def _no_effect(settings: Settings, changed: set[str]) -> list[str]:
    """One sentence for each argument that was given and changes nothing beside the others."""
    found = []
    if "n_neighbors" in changed and settings.feature_graph == 0:
        found.append("n_neighbors has no effect with feature_graph=False.")
    if "fusion" in changed and settings.select == "best":
        found.append("fusion has no effect with select='best'.")
    if "batch_parts" in changed and settings.batch is None:
        found.append("batch_parts has no effect without batch.")
    return found


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and value == default


def seed_from(random_state: Any) -> int:
    """A seed from an int, None (a fresh one), a RandomState or a Generator, as everywhere in scikit-learn.

    >>> import numpy as np
    >>> seed_from(7), seed_from(np.random.RandomState(0)) == seed_from(np.random.RandomState(0))
    (7, True)
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_LARGEST_SEED, endpoint=True))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, _LARGEST_SEED, dtype=np.int64))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise ParameterError(
            "random_state must be a whole number, None, a numpy RandomState or a Generator, "
            f"got {random_state!r}."
        )
    if not 0 <= random_state <= _LARGEST_SEED:
        raise ParameterError(
            f"random_state must be between 0 and {_LARGEST_SEED} (2**32 - 1, as in NumPy), got {random_state}."
        )
    return int(random_state)


def _candidates(n_clusters: Any, nodes: int) -> tuple[int, ...]:
    """The numbers of clusters to compare: all of a range, or the one that was asked for."""
    if isinstance(n_clusters, str):
        if n_clusters != "auto":
            raise ParameterError(f"n_clusters must be a whole number, a range or 'auto', got {n_clusters!r}.")
        n_clusters = [k for k in AUTO if k <= nodes] or [nodes]
    if isinstance(n_clusters, range | list | tuple):
        found = sorted({_whole("n_clusters", k, 1) for k in n_clusters})
        if not found:
            raise ParameterError("n_clusters is an empty range; give at least one number of clusters.")
    else:
        found = [_whole("n_clusters", n_clusters, 1, "a range, or 'auto'")]
    if found[-1] > nodes:
        raise ParameterError(
            f"n_clusters is {found[-1]} but the graph has only {nodes} nodes; ask for fewer clusters."
        )
    return tuple(found)


def _batch(value: Any, objectives: tuple[str, ...]) -> int | str | None:
    """Nodes per step; objectives that need more than sums over nodes and edges are refused."""
    if value is None:
        return None
    if "ratio_trace" in objectives:
        raise ParameterError(
            "objective 'ratio_trace' cannot be trained in batches; use 'trace_ratio', or leave batch out."
        )
    if isinstance(value, str) and value == "auto":
        return value
    return _whole("batch", value, _LEAST_BATCH, "None or 'auto'")


def _objectives(value: Any) -> tuple[str, ...]:
    """The names in "trace_ratio+evidence"."""
    names = tuple(value.split("+")) if isinstance(value, str) else (value,)
    if any(name not in OBJECTIVES for name in names) or len(set(names)) < len(names):
        raise ParameterError(
            f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, or several of them joined by +, "
            f"got {value!r}."
        )
    return names


def _choice(name: str, value: Any, valid: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in valid:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, valid))}, got {value!r}.")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _whole(name: str, value: Any, least: int, also: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        words = f", {also}" if also else ""
        raise ParameterError(f"{name} must be a whole number of at least {least}{words}, got {value!r}.")
    most = LIMITS.get(name)
    if most is not None and value > most:
        raise ParameterError(
            f"{name} is {value}, above the limit of {most:,}; if it is meant, raise "
            f"softcut.clustering.settings.LIMITS[{name!r}] first."
        )
    return int(value)


def _number(name: str, value: Any, zero: bool = False, also: str = "") -> float:
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < 0 or (value == 0 and not zero):
        kind = "non-negative" if zero else "positive"
        raise ParameterError(f"{name} must be {also}a {kind} number, got {value!r}.")
    return float(value)
