"""A fitted estimator as tensors and JSON, and back.

Shapes are compared before anything is allocated and values converted to the types they must have; then :func:`pack`
must make of the result what was read. So a field that is missing, unknown, of another type or at odds with the others
is refused.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.consensus import Consensus, Refiner
from softcut.clustering.feature_map import FeatureMap
from softcut.clustering.fit_task import Levels
from softcut.clustering.model import LearnedModel, NearestModel, PlacedModel, at_level, labels_of
from softcut.clustering.networks import Replica
from softcut.clustering.numbers import CANDIDATE
from softcut.clustering.prepare import Encoder
from softcut.clustering.recipe import Recipe
from softcut.communities.tree import Scales, Tree, tree_of
from softcut.device import choose_device
from softcut.errors import Detail, ModelFileError, Note, ParameterError
from softcut.tables.kinds import WORD
from softcut.tables.scaling import LIMIT
from softcut.tables.schema import TableSchema
from softcut.training import ReplicaNet

_NOT_KEPT = ("callbacks", "recipe")  # functions, and what has an entry of its own
_MOST_LEVELS = 100
_ROUNDED = 1e-9  # by which a share may be above 1
_MOST_IDS = 1 << 20  # numbers of clusters that went while others kept theirs
_MOST_STEPS = 1_000  # of a propagation, so that a prediction of a hostile file ends
# Attributes of a fitted estimator that are plain values.
_FITTED = {
    **{"n_clusters_": int, "n_features_in_": int, "n_iter_": int, "structure_": float, "verdict_": str},
    **{"agreement_": float, "converged_": bool, "interrupted_": bool, "fit_seconds_": float, "level_": int},
}
_OF_EDGES = ("deviations_", "surplus_")  # numbers, or None
_KINDS = ("learned", "placed", "nearest")
_NOTES = {"Note": Note, "Detail": Detail}  # kept with code and text, without values
_ARRAYS = ("matrix", "kinds", "weight", "offset")  # of the projection of features
# Tensors of integers, and the least they hold.
_WHOLE = {
    **{"labels": -1, "encoder.kinds": 0, "levels": -1, "above": 0, "finest.indices": 0, "finest.indptr": 0},
    **{"scales.number": 1},
}
# Tensors of double precision; the other numbers are single.
_DOUBLE = (
    *("history.cut", "history.ortho", "encoder.centre", "encoder.limit", "encoder.scale", "inside", "marks"),
    *(
        "rows",
        "centre",
        "factor",
        "scales.resolution",
        "scales.modularity",
        "scales.random",
        "scales.agreement",
    ),
)
_SCALES = ("resolution", "number", "modularity", "random", "agreement")
_NAMES = "node_names"  # as bytes: those of a large graph are more than the JSON part may hold
_MEASURES = ("centre", "limit", "scale")  # of the features at each distance
# The axes of every tensor; those with one letter have one size: nodes N, clusters K, networks R and their units W,
# features F and projected ones C, distances S, columns T and directions D of the consensus, history of I x Q losses.
_SHAPES = {
    **{_NAMES: "B", "labels": "N", "soft": "NK", "weights": "R", "history.cut": "IQ", "history.ortho": "IQ"},
    **{"net.first": "RWC", "net.bias": "RW", "net.second": "RKW", "net.second_bias": "RK"},
    **{"encoder.matrix": "FC", "encoder.kinds": "F", "encoder.weight": "F", "encoder.offset": "F"},
    **{"encoder.centre": "SC", "encoder.limit": "S", "encoder.scale": "S"},
    **{"consensus.mean": "T", "consensus.scale": "T", "consensus.basis": "TD", "consensus.centres": "KD"},
    **{"consensus.spread": "", "consensus.weights": "R"},
    **{"refiner.centre": "C", "refiner.scale": "", "refiner.kernel": "CK", "refiner.bias": "K"},
    "refiner.weight": "",
    # Nested levels L, their clusters J in all, those of the finest one V, entries E of a sparse table; scales A.
    **{"levels": "LN", "marks": "L", "inside": "J", "above": "MV"},
    **{"finest.data": "E", "finest.indices": "E", "finest.indptr": "P"},
    **{"rows": "NG", "centre": "G", "factor": "G", **{f"scales.{name}": "A" for name in _SCALES}},
}


def pack(estimator: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON part of a fitted estimator."""
    model, names, sizes = (
        estimator._model,
        getattr(estimator, "feature_names_in_", None),
        estimator._graph_sizes,
    )
    params, fitted = estimator.get_params(deep=False), {name: getattr(estimator, name) for name in _FITTED}
    fitted["agreement_"] = None if math.isnan(fitted["agreement_"]) else float(fitted["agreement_"])
    fitted["notes_"] = [[type(note).__name__, note.code, str(note)] for note in estimator.notes_]
    placed = not isinstance(model, LearnedModel)
    scales = estimator.scales_
    meta = {
        "class": type(estimator).__name__,
        "params": {k: _plain(v) for k, v in params.items() if k not in _NOT_KEPT},
        "recipe": asdict(estimator._task_recipe()),
        "fitted": fitted | {name: getattr(estimator, name) for name in _OF_EDGES},
        "candidates_": [[int(k), each] for k, each in estimator.candidates_.items()],
        "replicas_": [asdict(r) for r in estimator.replicas_],
        "feature_names_in_": None if names is None else [str(name) for name in names],
        "named": estimator.node_names_.dtype.hasobject,
        "schema": None if estimator.schema_ is None else estimator.schema_.to_json(),
        "graph_sizes": None if sizes is None else [int(p) for p in sizes],
        "scale_given": None if scales is None else scales.given,
        "kind": "nearest" if isinstance(model, NearestModel) else "placed" if placed else "learned",
    }
    arrays = {
        "labels": estimator.labels_.astype(np.int64),
        "weights": estimator.weights_,
        **{f"history.{name}": value for name, value in estimator.history_.items()},
    }
    if scales is not None:
        arrays |= {f"scales.{name}": scales[name] for name in _SCALES}
    if estimator.levels_ is not None:
        arrays |= {"levels": estimator.levels_.labels.astype(np.int64), "inside": estimator.tree_.inside}
        arrays["marks"] = np.array(estimator.levels_.marks, dtype=np.float64)
    arrays["above"] = model.above.astype(np.int64)
    if placed:
        soft = model.soft
        arrays |= {"finest.data": soft.data.astype(np.float32)}
        arrays |= {f"finest.{each}": getattr(soft, each).astype(np.int64) for each in ("indices", "indptr")}
    else:
        arrays["soft"] = estimator.soft_
    if isinstance(model, NearestModel):
        arrays |= {"rows": model.rows, "centre": model.centre, "factor": model.factor}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
    if isinstance(model, PlacedModel):
        own = {"names": model.names, "signature": model.signature, "level": int(model.level)}
        return tensors, {**meta, "model": own}
    if isinstance(model, NearestModel):
        if estimator.node_names_.dtype.hasobject:
            tensors[_NAMES] = torch.frombuffer(bytearray(_as_bytes(estimator.node_names_)), dtype=torch.uint8)
        own = {"neighbors": int(model.neighbors), "signature": model.signature, "level": int(model.level)}
        return tensors, {**meta, "model": own}
    encoder, features = model.encoder, model.encoder.features
    if estimator.node_names_.dtype.hasobject:
        tensors[_NAMES] = torch.frombuffer(bytearray(_as_bytes(estimator.node_names_)), dtype=torch.uint8)
    meta["model"] = {
        "net": model.net.meta(),
        "encoder": {
            "paper": encoder.recipe.paper,
            "hops": list(encoder.recipe.distances),
            "in_channels": encoder.in_channels,
            "structural": encoder.structural,
            "directions": features is not None and features.directions,
            "words": None if features is None else features.words,
        },
        "consensus": model.consensus is not None,
        "refiner": model.refiner is not None,
        "order": model.order.tolist(),
        "silence": model.silence,
        "root": model.root,
    }
    parts: dict[str, dict[str, Any]] = {
        "net": model.net.state_dict(),
        "encoder": {} if features is None else {name: getattr(features, name) for name in _ARRAYS},
        "consensus": {} if model.consensus is None else vars(model.consensus),
        "refiner": {} if model.refiner is None else vars(model.refiner),
    }
    for name, values in zip(_MEASURES, zip(*(encoder.measures or ()), strict=True), strict=False):
        parts["encoder"][name] = torch.stack(values)
    for part, named in parts.items():
        tensors |= {f"{part}.{key}": torch.as_tensor(v) for key, v in named.items() if v is not None}
    return tensors, meta


def _as_bytes(names: np.ndarray) -> bytes:
    return json.dumps([str(name) for name in names]).encode()


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
    """The estimator that :func:`pack` was given; a field that cannot be right is an error."""
    params, fitted, kind = meta["params"], meta["fitted"], meta["kind"]
    _check(isinstance(params["device"], str), "params.device")
    _check(isinstance(params["verbose"], int), "params.verbose")
    recipe = _recipe(meta["recipe"])
    types = {"int": int, "float": float, "str": str, "bool": bool}
    replicas = [
        Replica(**{each.name: types[str(each.type)](given[each.name]) for each in fields(Replica)})
        for given in meta["replicas_"]
    ]
    iterations = int(fitted["n_iter_"]) if replicas else 0
    _check_tensors(tensors, {"S": len(recipe.distances), "Q": len(replicas), "I": iterations}, recipe)
    est: Any = cls(**params)
    est._recipe = recipe
    for name, wanted in _FITTED.items():
        value = math.nan if name == "agreement_" and fitted[name] is None else fitted[name]
        setattr(est, name, wanted(value))
    est.notes_ = [_NOTES[kind](str(code), str(text)) for kind, code, text in fitted["notes_"]]
    est.schema_ = None if meta["schema"] is None else TableSchema.from_json(meta["schema"])
    names, sizes = meta["feature_names_in_"], meta["graph_sizes"]
    for name in _OF_EDGES:
        setattr(est, name, None if fitted[name] is None else float(fitted[name]))
    _check(kind in _KINDS, "kind")
    by_structure = kind == "learned" or recipe.paper  # otherwise the distance from random graphs decided
    for name in _OF_EDGES:
        value = getattr(est, name)
        _check((value is None) if by_structure else value is not None and math.isfinite(value), name)
    verdicts = {recipe.verdict(est.structure_)}
    if not by_structure:
        verdicts = {
            recipe.verdict_of_edges(est.deviations_, est.surplus_, rows) for rows in (True, kind == "nearest")
        }
        verdicts |= {"unknown"} if est.interrupted_ else set()
    _check(est.verdict_ in verdicts, "verdict_")
    n = len(tensors["labels"])
    est.replicas_ = replicas
    est.candidates_ = {
        int(number): {name: float(each[name]) for name in CANDIDATE} for number, each in meta["candidates_"]
    }
    silent = tensors["labels"].numpy() < 0
    est.weights_ = tensors["weights"].numpy()
    est.history_ = {name: tensors[f"history.{name}"].numpy() for name in ("cut", "ortho")}
    est._graph_sizes = None if sizes is None else np.asarray(sizes, dtype=np.int64)
    node_names = json.loads(tensors[_NAMES].numpy().tobytes()) if _NAMES in tensors else None
    _check(node_names is None or len(node_names) == n, _NAMES)
    est.scales_, est.levels_, est.tree_ = _scales(tensors, meta), *_levels(tensors, est.level_, silent)
    if kind == "learned":
        est.soft_ = tensors["soft"].numpy()
        est._model = _learned(tensors, meta["model"], recipe, est.soft_.shape[1])
        if not est._model.encoder.structural:
            est.n_features_in_ = est._model.encoder.in_channels
    else:
        est._model = _located(kind, tensors, meta["model"])
        est.soft_, without = est._model.known()
        _check(np.array_equal(without, silent), "finest")
        if kind == "placed":
            node_names = est._model.names
            _check(node_names is None or len(node_names) == n, "model.names")
    soft, k = est.soft_, est.soft_.shape[1]
    est.n_clusters_ = k
    est.labels_ = labels_of(soft, silent)
    _check_levels(est)
    est.node_names_ = np.arange(n) if node_names is None else np.asarray(node_names, dtype=object)
    if names is not None:
        est.feature_names_in_ = np.asarray([str(name) for name in names], dtype=object)
    _check(names is None or len(names) == est.n_features_in_, "feature_names_in_")
    _check(est.schema_ is None or len(est.schema_.kinds) == est.n_features_in_, "schema")
    values, totals = (soft.data if sp.issparse(soft) else soft), np.asarray(soft.sum(axis=1)).ravel()
    _check(bool((values >= 0).all()) and np.allclose(totals[~silent], 1, atol=1e-3), "soft")
    _check(np.array_equal(est.labels_, tensors["labels"].numpy()), "labels")
    if not sp.issparse(soft):
        _check(bool((soft[silent] == soft.dtype.type(1 / k)).all()), "labels")
    rising = sizes is None or all(a < b for a, b in itertools.pairwise(sizes))
    _check(rising and (sizes is None or [*sizes[:1], *sizes[-1:]] == [0, n]), "graph_sizes")
    again, described = pack(est)
    for name in sorted(set(tensors) ^ set(again)):
        _refuse(f"tensor {name}", "is missing" if name in again else "is not used")
    _check(_NAMES not in again or torch.equal(again[_NAMES], tensors[_NAMES]), _NAMES)
    for name, value in described.items():
        different = _difference(meta[name], value, name)
        _check(different is None, str(different))
    try:
        choose_device(est.device)
    except ParameterError:
        said = f"the model was fitted on {est.device!r}, which this machine does not have: device='auto' is used."
        est._note(Note("device_not_here", said, device=est.device))
        est.device = "auto"
    est._check_arguments()  # refuses what a fit would refuse
    return est


def _scales(tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> Scales | None:
    """The resolutions that were compared."""
    given = meta["scale_given"]
    if "scales.resolution" not in tensors:
        _check(given is None, "scale_given")
        return None
    made = Scales(**{name: tensors[f"scales.{name}"].numpy() for name in _SCALES}, given=given)
    _check(given is None or (type(given) is int and 0 <= given < len(made)), "scale_given")
    rising = np.diff(made.resolution, prepend=0.0) > 0
    _check(len(made) > 0 and bool(rising.all()), "scales.resolution")
    _check(bool((np.abs(made.agreement) <= 1 + _ROUNDED).all()), "scales.agreement")
    return made


def _levels(
    tensors: Mapping[str, Tensor], level: int, silent: np.ndarray
) -> tuple[Levels | None, Tree | None]:
    """Nested levels and their tree."""
    if "levels" not in tensors:
        _check(level == 0, "level_")
        return None, None
    labels = tensors["levels"].numpy()
    _check(0 <= level < len(labels) and len(labels) <= _MOST_LEVELS, "level_")
    _check(int(labels.max(initial=-1)) < max(1, labels.shape[1]) + _MOST_IDS, "levels")
    _check(bool(((labels < 0) == silent).all()), "levels")
    for coarse, fine in itertools.pairwise(labels):
        _check(len(np.unique(np.stack([coarse, fine]), axis=1).T) == len(np.unique(fine)), "levels")
    tree = tree_of(labels, [np.zeros(int(each.max(initial=-1)) + 1) for each in labels])
    inside, marks = tensors["inside"].numpy(), tensors["marks"].numpy()
    _check(len(tree) == len(inside) and bool((np.abs(inside - 0.5) <= 0.5 + _ROUNDED).all()), "inside")
    _check(bool((marks >= 0).all()), "marks")
    return Levels(labels, level, tuple(marks.tolist())), replace(tree, inside=inside)


def _check_levels(est: Any) -> None:
    """Whether the clusters that hold those of the model, level by level, are the levels of the nodes."""
    model, levels = est._model, est.levels_
    rows = [est.labels_] if levels is None else list(levels.labels)
    _check(np.array_equal(rows[est.level_], est.labels_), "levels")
    if isinstance(model, LearnedModel):
        known = est.labels_ >= 0
        right = len(model.above) == est.level_ + 1 and np.array_equal(
            model.above[-1], np.arange(est.n_clusters_)
        )
        right = right and all(
            np.array_equal(above[est.labels_[known]], row[known])
            for above, row in zip(model.above, rows, strict=False)
        )
    else:
        right = len(model.above) == len(rows) and model.level == est.level_
        right = right and all(
            np.array_equal(labels_of(*at_level(model.soft, above)), row)
            for above, row in zip(model.above, rows, strict=True)
        )
    _check(right, "above")


def _located(kind: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> PlacedModel | NearestModel:
    """The clusters of a graph, or of its rows."""
    above, level = tensors["above"].numpy(), int(meta["level"])
    data, indices, indptr = (tensors[f"finest.{name}"].numpy() for name in ("data", "indices", "indptr"))
    n = len(tensors["labels"])
    right = len(indptr) == n + 1 and indptr[0] == 0 and indptr[-1] == len(data)
    _check(right and bool((np.diff(indptr) >= 0).all()), "finest.indptr")
    _check(
        bool((data > 0).all()) and (not len(indices) or int(indices.max()) < above.shape[1]), "finest.indices"
    )
    _check(0 <= level < len(above) and int(above.max(initial=0)) < n + _MOST_IDS, "above")
    soft = sp.csr_array((data, indices, indptr), shape=(n, above.shape[1]))
    if kind == "placed":
        names = None if meta["names"] is None else [str(name) for name in meta["names"]]
        return PlacedModel(soft, above, level, names, str(meta["signature"]))
    rows, centre, factor = (tensors[name].numpy() for name in ("rows", "centre", "factor"))
    _check(bool((np.abs(rows) <= LIMIT).all()), "rows")
    _check(bool((factor >= 0).all()), "factor")
    neighbors = int(meta["neighbors"])
    _check(neighbors >= 1, "model.neighbors")
    return NearestModel(soft, above, level, rows, centre, factor, neighbors, str(meta["signature"]))


def _learned(tensors: Mapping[str, Tensor], meta: Mapping[str, Any], recipe: Recipe, k: int) -> LearnedModel:
    """A clustering function; all sizes are those of its tensors."""
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = value
    net, scales = parts["net"], [int(i) for i in meta["net"]["scales"]]
    order = np.asarray([int(j) for j in meta["order"]])
    above = tensors["above"].numpy()
    _check(above.shape[1] == k and int(above.max()) < k, "above")
    _check(sorted(order.tolist()) == list(range(k)), "model.order")
    _check(len(scales) == len(net["bias"]) and scales == sorted(scales), "model.net.scales")
    _check(scales[0] >= 0 and scales[-1] < len(recipe.distances), "model.net.scales")
    _check(meta["silence"] in ("isolated", "empty", "never"), "model.silence")
    hidden, terms = net["bias"].shape[1] if "second" in net else 0, 2 if recipe.paper else 1
    sizes = {
        "in_channels": net["first.0"].shape[2],
        "k": k,
        "hidden": hidden,
        "terms": terms,
        "scales": scales,
    }
    encoder = Encoder(recipe, sizes["in_channels"], bool(meta["encoder"]["structural"]))
    if not recipe.paper:
        arrays = {name: value.numpy() for name, value in parts["encoder"].items() if name in _ARRAYS}
        encoder.features = FeatureMap(recipe=recipe, **arrays)
        _check(encoder.features.words or encoder.features.weight is not None, "encoder.weight")
        _check(encoder.features.words == bool((arrays["kinds"] == WORD).all()), "encoder.kinds")
        encoder.in_channels = len(encoder.features.matrix)
        encoder.measures = list(zip(*(parts["encoder"][name] for name in _MEASURES), strict=True))
    return LearnedModel(
        net=ReplicaNet.restore(sizes, net),
        encoder=encoder,
        consensus=Consensus(**parts["consensus"]) if meta["consensus"] else None,
        refiner=Refiner(**parts["refiner"]) if meta["refiner"] else None,
        order=order,
        silence=meta["silence"],
        above=above,
        root=bool(meta["root"]),
    )


def _recipe(given: Mapping[str, Any]) -> Recipe:
    """The recipe of the fit; it checks its own fields. With other fields it is of another version."""
    other = sorted(set(given) ^ {each.name for each in fields(Recipe)})
    if other:
        named = " ".join(", ".join(other)[:200].split())
        raise ModelFileError(
            f"the model was saved by another version, whose recipe differs in {named}; fit it again."
        )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    recipe = Recipe(**values)
    _check(recipe.steps <= _MOST_STEPS, "recipe.steps")
    _check(recipe.distances[-1] <= _MOST_STEPS, "recipe.distances")
    return recipe


# ------------------------------------------------------------------------------------------------ checks


def _refuse(field: str, problem: str) -> NoReturn:
    raise ModelFileError(f"the model is damaged: {field} {problem}; fit it again.")


def _check(right: bool, field: str) -> None:
    if not right:
        _refuse(field, "does not fit the rest of the model")


def _check_tensors(tensors: Mapping[str, Tensor], sizes: dict[str, int], recipe: Recipe) -> None:
    """Refuse tensors of other shapes; `sizes` are those of axes that are known already."""
    for name, tensor in tensors.items():
        axes = _SHAPES.get(re.sub(r"\.\d+$", "", name))
        if axes is None:
            _refuse(f"tensor {name}", "is not known")
        shape = list(tensor.shape)
        if len(shape) != len(axes) or shape != [
            sizes.setdefault(*each) for each in zip(axes, shape, strict=True)
        ]:
            _refuse(f"tensor {name}", f"has a shape that does not fit the others: {shape}")
        if name == _NAMES:
            _check(tensor.dtype == torch.uint8, name)
        elif name in _WHOLE:
            _check(tensor.dtype == torch.int64 and bool((tensor >= _WHOLE[name]).all()), name)
        elif tensor.dtype != (torch.float64 if name in _DOUBLE else torch.float32):
            _refuse(f"tensor {name}", f"holds values of another type ({tensor.dtype})")
        elif not bool(torch.isfinite(tensor).all()):
            _refuse(f"tensor {name}", "holds values that are not finite numbers")
    if "T" in sizes:
        columns = sizes["R"] * sizes["K"] + (0 if recipe.paper else sizes["S"] * sizes["C"])
        _check(sizes["T"] == columns, "consensus")


def _difference(given: Any, wanted: Any, field: str) -> str | None:
    """The first field of nested values that is not what it should be, as JSON; None where all are."""
    if isinstance(given, dict) and isinstance(wanted, dict) and given.keys() == wanted.keys():
        parts = (_difference(given[name], wanted[name], f"{field}.{name}") for name in wanted)
        return next((part for part in parts if part is not None), None)
    return None if json.dumps(given) == json.dumps(wanted) else field
