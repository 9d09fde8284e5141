"""A fitted estimator as tensors and JSON, and back; every field is checked before it is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.arguments import LIMITS, batch_size_from, candidates_from, recipe_from, seed_from
from softcut.clustering.choose_k import Candidate
from softcut.clustering.model import LearnedModel, PlacedModel
from softcut.clustering.networks import Replica
from softcut.clustering.recipe import EdgeRecipe, Recipe
from softcut.errors import ModelFileError, ParameterError

__all__ = ["FITTED", "pack", "unpack"]

# Attributes of a fitted estimator that are plain numbers or text, with the types they may have.
FITTED: dict[str, tuple[type, ...]] = {
    "n_clusters_": (int,),
    "n_features_in_": (int,),
    "n_iter_": (int,),
    "structure_": (float,),
    "verdict_": (str,),
    "agreement_": (float, type(None)),
    "converged_": (bool,),
    "interrupted_": (bool,),
    "fit_seconds_": (float,),
    "notes_": (list,),
}
_MANY_SCALES, _MANY_HOPS, _MANY_UNITS = 64, 1_000, 10_000
_NOT_KEPT = ("callbacks", "recipe")  # functions, and what has an entry of its own


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
            **{name: getattr(estimator, name) for name in FITTED},
            "agreement_": agreement if math.isfinite(agreement) else None,
        },
        "candidates_": [[int(k), each] for k, each in estimator.candidates_.items()],
        "replicas_": [asdict(r) for r in estimator.replicas_],
        "feature_names_in_": None if names is None else [str(name) for name in names],
        "graph_sizes": None if graph_sizes is None else [int(p) for p in graph_sizes],
        "kind": model.kind,
        "model": model.meta(),
    }
    tensors = {
        **model.tensors(),
        "labels": torch.from_numpy(np.ascontiguousarray(estimator.labels_, dtype=np.int64)),
        "soft": torch.from_numpy(np.ascontiguousarray(estimator.soft_)),
        "weights": torch.from_numpy(np.ascontiguousarray(estimator.weights_)),
        "history.cut": torch.from_numpy(np.ascontiguousarray(estimator.history_["cut"])),
        "history.ortho": torch.from_numpy(np.ascontiguousarray(estimator.history_["ortho"])),
    }
    return tensors, meta


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
    params = _mapping(meta, "params")
    known = set(cls._get_param_names()) - set(_NOT_KEPT)  # type: ignore[attr-defined]
    if set(params) != known:
        _refuse("params", f"names {sorted(set(params) ^ known)} do not fit")
    for name in ("candidates_", "replicas_", "feature_names_in_", "graph_sizes"):
        if name not in meta:
            _refuse(name, "is missing")
    recipe = _recipe(meta)
    _check_params(params, recipe)
    fitted = _mapping(meta, "fitted")
    for name, kinds in FITTED.items():
        value = fitted.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            _refuse(name, f"is {value!r}"[:80])
    if not all(isinstance(note, str) for note in fitted["notes_"]):
        _refuse("notes_", "are not sentences")
    if fitted["verdict_"] not in ("none", "weak", "clear"):
        _refuse("verdict_", f"is {fitted['verdict_']!r}"[:80])
    model_meta, kind = _mapping(meta, "model"), meta.get("kind")
    if kind not in ("learned", "placed"):
        _refuse("kind", f"is {str(kind)[:40]}")
    k = _whole(fitted, "n_clusters_", 1, LIMITS["n_clusters"])
    n = int(tensors["labels"].shape[0]) if "labels" in tensors and tensors["labels"].dim() == 1 else 0
    steps = _whole(fitted, "n_iter_", 1, 1 << 40)
    replicas = _replicas(meta)
    history = (steps, len(replicas)) if replicas else (0, 0)
    shapes: dict[str, tuple[int, ...]] = {"labels": (n,), "soft": (n, k)}
    shapes |= {"history.cut": history, "history.ortho": history}
    if kind == "learned":
        shapes |= _model_shapes(model_meta, tensors, k)
        if (
            not model_meta["encoder"]["structural"]
            and fitted["n_features_in_"] != model_meta["encoder"]["in_channels"]
        ):
            _refuse("fitted", "does not fit the model's sizes")
    else:
        _check_placed(model_meta, n)
        weights = tensors.get("weights")
        shapes["weights"] = (min(len(replicas), 0 if weights is None else weights.numel()),)
    _check_tensors(tensors, shapes)
    soft = tensors["soft"]
    if not bool((soft >= 0).all()) or not torch.allclose(
        soft.sum(1), torch.ones(n, dtype=soft.dtype), atol=1e-3
    ):
        _refuse("soft", "has rows that do not sum to one")
    if not torch.equal(soft.argmax(1), tensors["labels"]):
        _refuse("labels", "are not those of the soft clusters")
    est = cls(**params)
    est._recipe = recipe
    for name in FITTED:
        setattr(est, name, fitted[name])
    est.agreement_ = float("nan") if est.agreement_ is None else est.agreement_
    est.replicas_ = replicas
    est.candidates_ = _candidates(meta)
    names = meta.get("feature_names_in_")
    if names is not None:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(names) != est.n_features_in_:
            _refuse("feature_names_in_", "does not name every feature")
        est.feature_names_in_ = np.asarray(names, dtype=object)
    est.labels_ = tensors.pop("labels").numpy()
    est.soft_ = tensors.pop("soft").numpy()
    est.weights_ = tensors.pop("weights").numpy()
    est.history_ = {name: tensors.pop(f"history.{name}").numpy() for name in ("cut", "ortho")}
    est._graph_sizes = _graph_sizes(meta, n)
    if kind == "learned":
        est._model = LearnedModel.restore(tensors, dict(model_meta), recipe)
    else:
        est._model = PlacedModel(est.soft_.copy(), model_meta["names"], model_meta["signature"])
    return est


# ------------------------------------------------------------------------------------------------ checks


def _refuse(field: str, problem: str) -> None:
    raise ModelFileError(f"the model is damaged: {field} {problem}; fit it again.")


def _mapping(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = meta.get(name)
    if not isinstance(value, dict):
        raise ModelFileError(f"the model is damaged: {name} is missing; fit it again.")
    return value


def _whole(meta: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = meta.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ModelFileError(
            f"the model is damaged: {name} is {str(value)[:40]}, not between {least} and {most}; fit it again."
        )
    return value


def _flag(meta: Mapping[str, Any], name: str) -> bool:
    value = meta.get(name)
    if not isinstance(value, bool):
        raise ModelFileError(f"the model is damaged: {name} is not true or false; fit it again.")
    return value


def _whole_list(meta: Mapping[str, Any], name: str, least: int, most: int, longest: int) -> list[int]:
    values = meta.get(name)
    if not isinstance(values, list) or not 1 <= len(values) <= longest:
        raise ModelFileError(f"the model is damaged: {name} is not a list of whole numbers; fit it again.")
    return [_whole({name: v}, name, least, most) for v in values]


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
    for name, kind in (("device", str), ("verbose", int)):
        if not isinstance(params[name], kind):
            _refuse(f"params.{name}", "has a value of the wrong kind")


def _recipe(meta: Mapping[str, Any]) -> Recipe:
    """The recipe of the fit; it checks its own fields."""
    given = dict(_mapping(meta, "recipe"))
    edges = _mapping(given, "edges")
    if set(given) != _names_of(Recipe) or set(edges) != _names_of(EdgeRecipe):
        _refuse("recipe", "names other constants than this version knows")
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        recipe = Recipe(**{**values, "edges": EdgeRecipe(**edges)})
    except ParameterError as error:
        raise ModelFileError(f"the model is damaged: {error}") from None
    if recipe.steps > _MANY_HOPS:
        _refuse("recipe.steps", f"is {recipe.steps}")
    return recipe


def _names_of(recipe: type) -> set[str]:
    return {each.name for each in fields(recipe)}


def _check_placed(model: Mapping[str, Any], n: int) -> None:
    names, signature = model.get("names"), model.get("signature")
    if names is not None and (
        not isinstance(names, list) or len(names) != n or not all(isinstance(name, str) for name in names)
    ):
        _refuse("names", "do not name every node")
    if not isinstance(signature, str) or len(signature) != 64:
        _refuse("signature", "is not a digest")
    if set(model) != {"names", "signature"}:
        _refuse("model", "has fields that are not known")


def _model_shapes(
    meta: Mapping[str, Any], tensors: Mapping[str, Tensor], k: int
) -> dict[str, tuple[int, ...]]:
    """The shape every tensor of the model must have, from its checked sizes; allocates nothing."""
    net, encoder = _mapping(meta, "net"), _mapping(meta, "encoder")
    hidden = _whole(net, "hidden", 0, _MANY_UNITS)
    terms = _whole(net, "terms", 1, 2)
    channels = _whole(net, "in_channels", 0, 1 << 31)
    scales = _whole_list(net, "scales", 0, _MANY_SCALES, LIMITS["n_init"])
    hops = _whole_list(encoder, "hops", 0, _MANY_HOPS, _MANY_SCALES)
    features = _whole(encoder, "in_channels", 1, 1 << 31)
    paper = _flag(encoder, "paper")
    _flag(encoder, "structural")
    _flag(encoder, "directions")
    if set(net) != {"in_channels", "k", "hidden", "terms", "scales"} or net["k"] != k:
        _refuse("net", "has fields that are not known")
    if hops != sorted(set(hops)) or scales != sorted(scales) or scales[-1] >= len(hops):
        _refuse("scales", "do not fit the hops")
    if (terms == 2) != paper or (paper and channels != features):
        _refuse("terms", "do not fit the kind of encoder")
    order = _whole_list(meta, "order", 0, k - 1, k)
    if sorted(order) != list(range(k)):
        _refuse("order", f"does not name each of the {k} clusters once")
    r, width = len(scales), hidden or k
    shapes: dict[str, tuple[int, ...]] = {"weights": (r,)}
    shapes |= {f"net.first.{i}": (r, width, channels) for i in range(terms)}
    shapes["net.bias"] = (r, width)
    if hidden:
        shapes |= {"net.second": (r, k, hidden), "net.second_bias": (r, k)}
    if not paper:
        shapes |= _encoder_shapes(encoder, tensors, features, channels, len(hops))
    elif encoder.get("words") is not None:
        _refuse("words", "does not fit the paper's encoder")
    if _flag(meta, "consensus"):
        columns = r * k + (0 if paper else len(hops) * channels)
        basis = tensors.get("consensus.basis")
        depth = int(basis.shape[1]) if basis is not None and basis.dim() == 2 else 0
        shapes |= {f"consensus.{name}": (columns,) for name in ("mean", "scale")}
        shapes |= {"consensus.basis": (columns, depth), "consensus.centres": (k, depth)}
        shapes |= {"consensus.spread": (), "consensus.weights": (r,)}
    elif r != 1:
        _refuse("consensus", "is missing for several networks")
    if _flag(meta, "refiner"):
        parts = {"centre": (channels,), "scale": (), "kernel": (channels, k), "bias": (k,), "weight": ()}
        shapes |= {f"refiner.{name}": shape for name, shape in parts.items()}
    if meta.get("silence") not in ("isolated", "empty", "never"):
        _refuse("silence", f"is {str(meta.get('silence'))[:40]}")
    return shapes


def _encoder_shapes(
    encoder: Mapping[str, Any], tensors: Mapping[str, Tensor], features: int, channels: int, scales: int
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.matrix": (features, channels),
        "encoder.centre": (scales, channels),
        "encoder.limit": (scales,),
        "encoder.scale": (scales,),
    }
    words = _flag(encoder, "words")
    if not words or "encoder.weight" in tensors:  # words have one only where they are binary
        shapes["encoder.weight"] = (features,)
    if not words:
        shapes["encoder.offset"] = (features,)
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


def _replicas(meta: Mapping[str, Any]) -> list[Replica]:
    values = meta.get("replicas_")
    kinds = {"seed": int, "objective": str, "cut": float, "ortho": float, "evidence": float}
    kinds |= {"clusters_used": int, "collapsed": bool, "hops": int}
    if not isinstance(values, list):
        raise ModelFileError("the model is damaged: replicas_ is missing; fit it again.")
    for value in values:
        if not isinstance(value, dict) or {k: type(v) for k, v in value.items()} != kinds:
            _refuse("replicas_", "does not describe replicas")
    return [Replica(**value) for value in values]


def _candidates(meta: Mapping[str, Any]) -> dict[int, Candidate]:
    pairs = meta.get("candidates_")
    names = {"score", "structure", "agreement", "description_length"}
    if not isinstance(pairs, list) or any(
        not isinstance(p, list)
        or [type(v) for v in p] != [int, dict]
        or set(p[1]) != names
        or not all(isinstance(v, float) for v in p[1].values())
        for p in pairs
    ):
        raise ModelFileError(
            "the model is damaged: candidates_ does not describe numbers of clusters; fit it again."
        )
    return dict(pairs)


def _graph_sizes(meta: Mapping[str, Any], n: int) -> np.ndarray | None:
    sizes: Sequence[int] | None = meta.get("graph_sizes")
    if sizes is None:
        return None
    values = _whole_list(meta, "graph_sizes", 0, n, n + 1)
    if values[0] != 0 or values[-1] != n or any(a >= b for a, b in itertools.pairwise(values)):
        _refuse("graph_sizes", f"do not rise from 0 to {n}")
    return np.asarray(values)
