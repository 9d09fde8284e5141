"""A fitted estimator as tensors and JSON, and back; every field is checked before it is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.arguments import LIMITS, batch_size_from, candidates_from, recipe_from, seed_from
from softcut.clustering.model import LearnedModel, PlacedModel
from softcut.clustering.networks import Replica
from softcut.clustering.recipe import EdgeRecipe, Recipe
from softcut.errors import ModelFileError, ParameterError

__all__ = ["pack", "unpack"]

_NOT_KEPT = ("callbacks", "recipe")  # functions, and what has an entry of its own

# What the JSON part may hold, for :func:`_check`: a type, a range of whole numbers, a list of one kind, a dict with
# exactly these names, or several of these in a tuple. Sizes are limited before anything is allocated.
_CLUSTERS = range(1, LIMITS["n_clusters"] + 1)
_SIZE = range(1 << 31)
_MOST_HOPS = 1_000
_FITTED = {  # attributes of a fitted estimator that are plain numbers or text
    "n_clusters_": _CLUSTERS,
    "n_features_in_": _SIZE,
    "n_iter_": range(1, 1 << 40),
    "structure_": float,
    "verdict_": ("none", "weak", "clear"),
    "agreement_": (float, None),
    "converged_": bool,
    "interrupted_": bool,
    "fit_seconds_": float,
    "notes_": [str],
}
_CANDIDATE = {"score": float, "structure": float, "agreement": float, "description_length": float}
_REPLICA = {
    **{"seed": int, "objective": str, "cut": float, "ortho": float, "evidence": float},
    **{"clusters_used": int, "collapsed": bool, "hops": int},
}
_NET = {
    **{"in_channels": _SIZE, "k": _CLUSTERS, "hidden": range(10_001)},
    **{"terms": range(1, 3), "scales": [range(64)]},
}
_ENCODER = {
    **{"paper": bool, "hops": [range(_MOST_HOPS + 1)], "in_channels": range(1, 1 << 31)},
    **{"structural": bool, "directions": bool, "words": (bool, None)},
}
_MODELS = {
    "learned": {
        **{"net": _NET, "encoder": _ENCODER, "consensus": bool, "refiner": bool},
        **{"order": [_SIZE], "silence": ("isolated", "empty", "never")},
    },
    "placed": {"names": ([str], None), "signature": str},
}


def pack(
    estimator: Any, model: LearnedModel | PlacedModel, graph_sizes: np.ndarray | None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON part of a fitted estimator."""
    agreement = float(estimator.agreement_)
    names = getattr(estimator, "feature_names_in_", None)
    params = estimator.get_params(deep=False)
    meta = {
        "class": type(estimator).__name__,
        "params": {k: _plain(v) for k, v in params.items() if k not in _NOT_KEPT},
        "recipe": asdict(estimator._task_recipe()),
        "fitted": {
            **{name: getattr(estimator, name) for name in _FITTED},
            "agreement_": agreement if math.isfinite(agreement) else None,
        },
        "candidates_": [[int(k), each] for k, each in estimator.candidates_.items()],
        "replicas_": [asdict(r) for r in estimator.replicas_],
        "feature_names_in_": None if names is None else [str(name) for name in names],
        "graph_sizes": None if graph_sizes is None else [int(p) for p in graph_sizes],
        "kind": model.kind,
        "model": model.meta(),
    }
    arrays = {
        "labels": estimator.labels_.astype(np.int64),
        "soft": estimator.soft_,
        "weights": estimator.weights_,
        **{f"history.{name}": value for name, value in estimator.history_.items()},
    }
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
    return {**model.tensors(), **tensors}, meta


def _plain(value: Any) -> Any:
    """A parameter as JSON knows it; a state of random numbers cannot be kept and becomes None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, range | list | tuple):
        return [int(k) for k in value]
    if isinstance(value, torch.device):
        return str(value)
    return None if isinstance(value, np.random.RandomState | np.random.Generator) else value


def unpack(cls: type, tensors: dict[str, Tensor], meta: Mapping[str, Any]) -> Any:
    """The estimator that :func:`pack` was given; a field that cannot be right is a ModelFileError."""
    known = set(cls._get_param_names()) - set(_NOT_KEPT)  # type: ignore[attr-defined]
    kind = str(meta.get("kind"))
    fields_of_a_file = {
        "params": dict.fromkeys(known, object),
        "fitted": _FITTED,
        "replicas_": [_REPLICA],
        "candidates_": [list],
        "feature_names_in_": ([str], None),
        "graph_sizes": ([_SIZE], None),
        "kind": tuple(_MODELS),
        "model": _MODELS.get(kind, dict),
    }
    for name, wanted in fields_of_a_file.items():
        _check(meta.get(name, ...), wanted, name)
    params, fitted, model = meta["params"], meta["fitted"], meta["model"]
    recipe = _recipe(meta)
    _check_params(params, recipe)
    for pair in meta["candidates_"]:
        _check(pair[0] if len(pair) == 2 else ..., _CLUSTERS, "candidates_")
        _check(pair[1], _CANDIDATE, "candidates_")
    k, replicas = fitted["n_clusters_"], [Replica(**each) for each in meta["replicas_"]]
    labels = tensors.get("labels", torch.zeros(0))
    n = len(labels) if labels.dim() == 1 else 0
    shapes = _shapes(kind, model, tensors, n, k, (fitted["n_iter_"], len(replicas)) if replicas else (0, 0))
    _check_tensors(tensors, shapes)
    if kind == "learned" and not model["encoder"]["structural"]:
        _together("n_features_in_", fitted["n_features_in_"] == model["encoder"]["in_channels"])
    soft = tensors["soft"]
    rows = torch.ones(n, dtype=soft.dtype)
    _together("soft", bool((soft >= 0).all()) and torch.allclose(soft.sum(1), rows, atol=1e-3))
    _together("labels", torch.equal(soft.argmax(1), labels))
    names, sizes = meta["feature_names_in_"], meta["graph_sizes"]
    _together("feature_names_in_", names is None or len(names) == fitted["n_features_in_"])
    rises = sizes is None or (
        [*sizes[:1], *sizes[-1:]] == [0, n] and all(a < b for a, b in itertools.pairwise(sizes))
    )
    _together("graph_sizes", rises)
    est = cls(**params)
    est._recipe = recipe
    for name in _FITTED:
        setattr(est, name, fitted[name])
    est.agreement_ = float("nan") if est.agreement_ is None else est.agreement_
    est.replicas_, est.candidates_ = replicas, dict(meta["candidates_"])
    if names is not None:
        est.feature_names_in_ = np.asarray(names, dtype=object)
    est.labels_, est.soft_, est.weights_ = (tensors.pop(x).numpy() for x in ("labels", "soft", "weights"))
    est.history_ = {name: tensors.pop(f"history.{name}").numpy() for name in ("cut", "ortho")}
    est._graph_sizes = None if sizes is None else np.asarray(sizes)
    if kind == "learned":
        est._model = LearnedModel.restore(tensors, dict(model), recipe)
    else:
        est._model = PlacedModel(est.soft_.copy(), model["names"], model["signature"])
    return est


# ------------------------------------------------------------------------------------------------ checks


def _refuse(field: str, problem: str) -> NoReturn:
    raise ModelFileError(f"the model is damaged: {field} {problem}; fit it again.")


def _together(field: str, right: bool) -> None:
    if not right:
        _refuse(field, "does not fit the rest of the model")


def _check(value: Any, wanted: Any, field: str) -> None:
    """Refuse a value that is not what a declaration above wants."""
    if value is ...:
        _refuse(field, "is missing")
    if isinstance(wanted, dict):
        if not isinstance(value, dict) or set(value) != set(wanted):
            names = sorted(set(map(str, value)) ^ set(wanted)) if isinstance(value, dict) else "no names"
            _refuse(field, f"has other fields than this version knows: {str(names)[:80]}")
        for name, each in wanted.items():
            _check(value[name], each, f"{field}.{name}")
    elif isinstance(wanted, list):
        if not isinstance(value, list):
            _refuse(field, "is not a list")
        for each in value:
            _check(each, wanted[0], field)
    elif not any(_is(value, each) for each in (wanted if isinstance(wanted, tuple) else (wanted,))):
        _refuse(field, f"is {value!r}"[:80])


def _is(value: Any, wanted: Any) -> bool:
    """Whether a value is one of a type, of a range, of a list's kind, or equal."""
    if isinstance(wanted, list):
        return isinstance(value, list) and all(_is(each, wanted[0]) for each in value)
    if isinstance(wanted, range):
        return type(value) is int and value in wanted
    if isinstance(wanted, type):
        return wanted is object or type(value) is wanted
    return type(value) is type(wanted) and value == wanted


def _check_params(params: Mapping[str, Any], recipe: Recipe) -> None:
    """Arguments that a fit would refuse; of the nodes of the next graph nothing is known."""
    try:
        candidates_from(params["n_clusters"], LIMITS["n_clusters"], recipe)
        recipe_from(
            recipe, params.get("objective"), params["n_init"], params["max_iter"], params["learning_rate"]
        )
        batch_size_from(params.get("batch_size"), recipe.objective)
        seed_from(params["random_state"])
    except ParameterError as error:
        raise ModelFileError(f"the model is damaged: {error}") from None
    _check(params["device"], str, "params.device")
    _check(params["verbose"], (bool, int), "params.verbose")


def _recipe(meta: Mapping[str, Any]) -> Recipe:
    """The recipe of the fit; it checks its own fields."""
    given = meta.get("recipe", ...)
    _check(given, {each.name: object for each in fields(Recipe)}, "recipe")
    _check(given["edges"], {each.name: object for each in fields(EdgeRecipe)}, "recipe.edges")
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        recipe = Recipe(**{**values, "edges": EdgeRecipe(**given["edges"])})
    except ParameterError as error:
        raise ModelFileError(f"the model is damaged: {error}") from None
    _check(recipe.steps, range(_MOST_HOPS + 1), "recipe.steps")
    return recipe


def _shapes(
    kind: str,
    model: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    n: int,
    k: int,
    history: tuple[int, int],
) -> dict[str, tuple[int, ...]]:
    """The shape that every tensor must have, from sizes that were checked; allocates nothing."""
    shapes: dict[str, tuple[int, ...]] = {"labels": (n,), "soft": (n, k)}
    shapes |= {"history.cut": history, "history.ortho": history}
    if kind == "placed":
        _together("names", model["names"] is None or len(model["names"]) == n)
        _together("signature", len(model["signature"]) == 64)
        weights = tensors.get("weights")
        return {**shapes, "weights": (min(history[1], 0 if weights is None else weights.numel()),)}
    net, encoder = model["net"], model["encoder"]
    hidden, terms, channels, scales = (net[name] for name in ("hidden", "terms", "in_channels", "scales"))
    hops, features, paper, words = (encoder[name] for name in ("hops", "in_channels", "paper", "words"))
    r, width = len(scales), hidden or k
    _together("net.k", net["k"] == k)
    _together("order", sorted(model["order"]) == list(range(k)))
    _together("hops", 0 < len(hops) <= 64 and hops == sorted(set(hops)))
    _together("scales", 0 < r <= LIMITS["n_init"] and scales == sorted(scales) and scales[-1] < len(hops))
    _together("terms", (terms == 2) == paper and (not paper or channels == features))
    _together("words", (words is None) == paper)
    _together("consensus", model["consensus"] or r == 1)
    shapes |= {"weights": (r,), "net.bias": (r, width)}
    shapes |= {f"net.first.{i}": (r, width, channels) for i in range(terms)}
    if hidden:
        shapes |= {"net.second": (r, k, hidden), "net.second_bias": (r, k)}
    if not paper:
        shapes |= {"encoder.matrix": (features, channels), "encoder.centre": (len(hops), channels)}
        shapes |= {"encoder.limit": (len(hops),), "encoder.scale": (len(hops),)}
        if not words or "encoder.weight" in tensors:  # words have one only where they are binary
            shapes["encoder.weight"] = (features,)
        if not words:
            shapes["encoder.offset"] = (features,)
    if model["consensus"]:
        columns = r * k + (0 if paper else len(hops) * channels)
        basis = tensors.get("consensus.basis")
        depth = int(basis.shape[1]) if basis is not None and basis.dim() == 2 else 0
        shapes |= {f"consensus.{name}": (columns,) for name in ("mean", "scale")}
        shapes |= {"consensus.basis": (columns, depth), "consensus.centres": (k, depth)}
        shapes |= {"consensus.spread": (), "consensus.weights": (r,)}
    if model["refiner"]:
        parts = {"centre": (channels,), "scale": (), "kernel": (channels, k), "bias": (k,), "weight": ()}
        shapes |= {f"refiner.{name}": shape for name, shape in parts.items()}
    return shapes


def _check_tensors(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted(set(tensors) ^ set(shapes)):
        _refuse(f"tensor {name}", "is missing" if name in shapes else "is not known")
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != shape:
            _refuse(f"tensor {name}", f"has shape {list(tensor.shape)} instead of {list(shape)}")
        if name == "labels":
            if tensor.dtype != torch.int64:
                _refuse("labels", f"are {tensor.dtype}")
        elif not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            _refuse(f"tensor {name}", "holds values that are not finite numbers")
