"""The arguments of the estimators, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from softcut.clustering.recipe import Recipe
from softcut.errors import Argument, Note, ParameterError
from softcut.ops import OBJECTIVES

# The largest values accepted, so that a few digits too many do not take all memory. Raise an
# entry (softcut.clustering.arguments.LIMITS["n_init"] = 50_000) where a larger value is meant.
LIMITS = {"n_clusters": 10_000, "n_init": 10_000, "max_iter": 10_000_000}
_LEAST_BATCH = 16  # two nodes in each of eight parts
_LARGEST_SCALE = 1e9
_LARGEST_SEED = 2**32 - 1  # what NumPy and scikit-learn take


def recipe_from(base: Recipe, objective: Any, n_init: Any, max_iter: Any, learning_rate: Any) -> Recipe:
    """The recipe with the estimator's own arguments in place; those that are None leave it as it is."""
    if not isinstance(base, Recipe):
        raise ParameterError(
            f"recipe must be a softcut.clustering.Recipe or None, got {base!r}.", argument="recipe"
        )
    if objective is not None and objective not in OBJECTIVES:
        raise refusal("objective", f"one of {', '.join(map(repr, OBJECTIVES))}", objective)
    if learning_rate is not None:
        learning_rate = positive("learning_rate", learning_rate)
    return base.changed(
        objective=objective,
        networks=None if n_init is None else whole("n_init", n_init, 1),
        iterations=None if max_iter is None else whole("max_iter", max_iter, 1),
        learning_rate=learning_rate,
    )


def seed_from(random_state: Any) -> int:
    """A seed from an int, None (a fresh one), a RandomState or a Generator, as everywhere in scikit-learn."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_LARGEST_SEED, endpoint=True))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, _LARGEST_SEED, dtype=np.int64))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        kinds = "a whole number, None, a numpy RandomState or a Generator"
        raise refusal("random_state", kinds, random_state)
    if not 0 <= random_state <= _LARGEST_SEED:
        between = f"between 0 and {_LARGEST_SEED} (2**32 - 1, as in NumPy)"
        raise refusal("random_state", between, int(random_state))
    return int(random_state)


def candidates_from(n_clusters: Any, nodes: int, recipe: Recipe) -> tuple[int, ...]:
    """The numbers of clusters to compare: all of a range, or the one that was asked for."""
    if n_clusters is None or isinstance(n_clusters, str):
        if n_clusters not in (None, "auto"):
            raise refusal("n_clusters", "a whole number, a range, 'auto' or None", n_clusters)
        n_clusters = [k for k in recipe.auto if k <= nodes] or [nodes]
    if isinstance(n_clusters, range | list | tuple):
        numbers = sorted({whole("n_clusters", k, 1) for k in n_clusters})
    else:
        numbers = [whole("n_clusters", n_clusters, 1, ", a range, 'auto' or None")]
    if numbers and numbers[-1] <= nodes:
        return tuple(numbers)
    said = "n_clusters is an empty range; give at least one number of clusters."
    if numbers:
        said = f"n_clusters is {numbers[-1]} but the graph has only {nodes} nodes; ask for fewer clusters."
    raise ParameterError(said, argument="n_clusters")


def scale_from(scale: Any, n_clusters: Any) -> str | float | None:
    """None, "coarse", "fine" or a resolution; refused where a number of clusters was asked for."""
    if scale is None:
        return None
    if n_clusters not in (None, "auto"):
        raise ParameterError(
            "scale has no effect beside ",
            Argument("n_clusters"),
            ", which says how many clusters there are; leave one of them out.",
            argument="scale",
        )
    if scale in ("coarse", "fine"):
        return str(scale)
    number = isinstance(scale, int | float | np.integer | np.floating) and not isinstance(scale, bool)
    if not number or not 0 < scale <= _LARGEST_SCALE:
        raise refusal("scale", "'coarse', 'fine', a positive number (a resolution) or None", scale)
    return float(scale)


def sizes_from(
    min_size: Any, max_size: Any, numbers: tuple[int, ...] | None, nodes: int
) -> tuple[int, int | None]:
    """The least and the most nodes of a cluster; what no clustering into `numbers` can meet is refused."""
    least = 1 if min_size is None else whole("min_size", min_size, 1, " or None")
    most = None if max_size is None else whole("max_size", max_size, 1, " or None")
    for k in numbers or ():
        if least > 1 and k * least > nodes:
            said = (
                f"min_size is {least}, but {nodes} nodes in {k} clusters have {nodes / k:.0f} each on average"
            )
            raise ParameterError(f"{said}; ask for fewer clusters or smaller ones.", argument="min_size")
        if most is not None and k * most < nodes:
            said = f"max_size is {most}, but {nodes} nodes in {k} clusters have {math.ceil(nodes / k)} each or more"
            raise ParameterError(f"{said}; ask for more clusters or larger ones.", argument="max_size")
    return least, most


def one_of(name: str, value: Any, *words: str | None) -> Any:
    """The value, one of some words."""
    if value not in words:
        raise refusal(name, " or ".join(repr(word) for word in words if word is not None), value)
    return value


def refuse_with_networks(task: Any) -> None:
    """Refuse what only clusters of the edges can do, where networks read features or several graphs."""
    asked = {
        "scale": isinstance(task.scale, float),
        "min_size": task.smallest > 1,
        "max_size": task.largest is not None,
        "pattern": task.pattern != "communities",
        "start": task.start is not None and task.recipe.paper,
        "use": task.use == "edges",
    }
    for name, given in asked.items():
        if given:
            raise ParameterError(
                f"{name} has no effect where networks are trained, which read features or several graphs; leave it out"
                + (
                    "."
                    if task.recipe.paper or name == "use"
                    else ", or cluster by the edges alone with use='edges'."
                ),
                argument=name,
            )


def note_without_networks(task: Any, given: Mapping[str, Any]) -> None:
    """Say which arguments of networks were given where none is trained."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        said = f"no network is trained without features: {', '.join(names)} has no effect here."
        task.tell(
            Note("no_effect", said.replace(" has ", " have ") if len(names) > 1 else said, arguments=names)
        )


def batch_size_from(value: Any, objective: str) -> int | str | None:
    """Nodes per step; an objective that needs more than sums over nodes and edges is refused."""
    if value is None:
        return None
    if objective == "ratio_trace":
        raise ParameterError(
            "objective 'ratio_trace' cannot be trained in batches; use 'mincut', or leave batch_size out.",
            argument="objective",
        )
    if isinstance(value, str) and value == "auto":
        return value
    return whole("batch_size", value, _LEAST_BATCH, ", None or 'auto'")


def callables(value: Any) -> tuple[Any, ...]:
    """The functions that are told how far a fit is; None: no function."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(map(callable, value)):
        raise refusal("callbacks", "a list of functions, or None", value)
    return tuple(value)


def refusal(name: str, wanted: str, value: Any) -> ParameterError:
    """The sentence for an argument that is not what is wanted."""
    return ParameterError(f"{name} must be {wanted}, got {value!r}.", argument=name)


def positive(name: str, value: Any, or_zero: bool = False) -> float:
    """A finite number above 0, or 0 as well."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0 <= value < np.inf or (value == 0 and not or_zero):
        raise refusal(name, "a number of at least 0" if or_zero else "a positive number", value)
    return float(value)


def whole(name: str, value: Any, least: int = 1, also: str = "") -> int:
    """A whole number of at least `least`, within the limits; `also` says what else the argument may be."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise refusal(name, f"a whole number of at least {least}{also}", value)
    most = LIMITS.get(name)
    if most is not None and value > most:
        larger = f"a larger softcut.clustering.arguments.LIMITS[{name!r}]"
        raise ParameterError(
            f"{name} is {value}, above the limit of {most:,}; if it is meant, use ",
            Argument("limit", f"{name}=NUMBER", text=larger),
            ".",
            argument=name,
        )
    return int(value)
