"""What the estimators of whole graphs share: arguments, node features, training, prediction, model files."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.clustering.arguments import LIMITS, callables, positive, refusal, seed_from, whole
from softcut.device import choose_device, threads_for
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph.collection import GraphCollection, Split, from_graphs, hold_out, places_by_name
from softcut.io.model_files import FILE_FIELDS, one_line, read_model, what_it_is, write_model
from softcut.learning.experiment import (
    METHODS,
    ClassifierSettings,
    build_models,
    build_task,
    cluster_sizes,
    loop_settings,
    numbers_of_step,
)
from softcut.learning.fold_task import FoldTask
from softcut.learning.replica_net import replica_net
from softcut.learning.structure_features import NodeInputs, StructureFeatures
from softcut.sklearn_base import BaseEstimator
from softcut.tables.arrays import warn_caller
from softcut.training import Loop, LoopProgress

FEATURES = ("auto", "given", "structure", "both")
MOST_DEGREE = 64  # degrees above it count as it in the default network
# What arguments that are left out mean. The default was chosen on validation graphs (docs/classification.md).
PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "pool": "default",
        "n_init": 3,
        "hidden": 64,
        "levels": 4,
        "batch_size": None,
        "learning_rate": 1e-3,
        "l2": 1e-4,
        "max_iter": 100,
        "patience": 15,
    },
    "paper": {
        "pool": "mincut",
        "n_init": 1,
        "hidden": 32,
        "levels": 2,
        "batch_size": 32,
        "learning_rate": 5e-4,
        "l2": 1e-4,
        "max_iter": 500,
        "patience": 50,
    },
}
# Arguments that model files know by another name.
_RECORDED = {"batch_size": "batch", "learning_rate": "lr", "max_iter": "epochs"}


class Arguments(NamedTuple):
    """The arguments of an estimator, checked, with those of its preset where they were left out."""

    method: str
    n_init: int
    settings: ClassifierSettings


class Begun(NamedTuple):
    """What a fit was asked for besides its network."""

    device: torch.device
    callbacks: Sequence[Callable[[LoopProgress], None]]
    seed: int


def default_batch(graphs: int) -> int:
    """Graphs in a step of the default network: 32, fewer of small sets and more of very large ones."""
    return min(max(4, graphs // 16), max(32, min(256, graphs // 400)))


class GraphEstimator(BaseEstimator):
    """Base of :class:`softcut.GraphClassification` and :class:`softcut.GraphRegression`."""

    _kind: str  # of the model file

    def __init__(
        self,
        preset: str = "default",
        *,
        pool: str | None = None,
        n_init: int | None = None,
        features: str = "auto",
        hidden: int | None = None,
        levels: int | None = None,
        k: Sequence[int] | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        l2: float | None = None,
        max_iter: int | None = None,
        patience: int | None = None,
        validation: float = 0.1,
        pool_args: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        device: str = "auto",
        callbacks: Sequence[Callable[[LoopProgress], None]] | None = None,
    ) -> None:
        self.preset, self.pool, self.n_init, self.features = preset, pool, n_init, features
        self.hidden, self.levels, self.k, self.batch_size = hidden, levels, k, batch_size
        self.learning_rate, self.l2, self.max_iter, self.patience = learning_rate, l2, max_iter, patience
        self.validation, self.pool_args = validation, pool_args
        self.random_state, self.device, self.callbacks = random_state, device, callbacks

    def _arguments(self, graphs: int = 0) -> Arguments:
        """The arguments, checked; `graphs` is how many there are to train on."""
        for name, known in (("preset", tuple(PRESETS)), ("features", FEATURES)):
            if getattr(self, name) not in known:
                raise refusal(name, f"one of {', '.join(known)}", getattr(self, name))
        preset = PRESETS[self.preset]
        if self.preset != "paper":
            for name in ("pool", "k", "pool_args"):
                if getattr(self, name) is not None:
                    raise refusal(name, "left out, or given with preset='paper'", getattr(self, name))
        poolers = tuple(name for name in METHODS if name != "default")
        if self.pool is not None and self.pool not in poolers:
            raise refusal("pool", f"one of {', '.join(poolers)}", self.pool)
        left_out = {"batch_size": default_batch(graphs)} if preset["batch_size"] is None else {}
        chosen = {
            name: value if getattr(self, name) is None else getattr(self, name)
            for name, value in {**preset, **left_out}.items()
        }
        numbers = ("n_init", "hidden", "levels", "batch_size", "max_iter", "patience")
        n_init, hidden, levels, batch, epochs, patience = (whole(name, chosen[name]) for name in numbers)
        if positive("validation", self.validation) > 0.5:
            raise refusal("validation", "above 0 and at most 0.5", self.validation)
        if self.k is not None and (not isinstance(self.k, list | tuple) or len(self.k) != levels):
            raise refusal("k", f"a list of one number for each of the {levels} levels, or None", self.k)
        args = self.pool_args
        if args is not None and not (
            isinstance(args, Mapping) and all(isinstance(name, str) for name in args)
        ):
            raise refusal("pool_args", "a dict of options of the pooler, or None", args)
        settings = ClassifierSettings(
            batch=batch,
            lr=positive("learning_rate", chosen["learning_rate"]),
            epochs=epochs,
            patience=patience,
            l2=positive("l2", chosen["l2"], or_zero=True),
            hidden=hidden,
            levels=levels,
            k=None if self.k is None else tuple(whole("k", each) for each in self.k),
            pool_args=dict(args or {}),
        )
        return Arguments(chosen["pool"], n_init, settings)

    def _begin(self) -> Begun:
        """What a fit needs of the arguments, all of which are checked, before the graphs are read."""
        self._arguments()
        return Begun(choose_device(self.device), callables(self.callbacks), seed_from(self.random_state))

    def _train(
        self,
        begun: Begun,
        graphs: GraphCollection,
        strata: NDArray[np.int64],
        targets: NDArray[np.float32] | None = None,
    ) -> tuple[list[Split], FoldTask]:
        """Train the networks; `strata` are classes that parts should have alike, `targets` [G, T] numbers to learn.

        Networks of the default are stopped by different graphs each.
        """
        (device, callbacks, seed), (method, n_init, settings) = begun, self._arguments(len(graphs))
        self._given = graphs.num_features
        self._keep_names(graphs.feature_names)
        self._inputs = self._fit_inputs(graphs)
        read = self._inputs.transform(graphs)
        same = [seed] * n_init if self.preset == "paper" else [[seed, i] for i in range(n_init)]
        splits = [hold_out(strata, self.validation, each) for each in same]
        seeds = [1000 * seed + i for i in range(n_init)]
        task = build_task(read, method, splits, seeds, settings, device, targets=targets)
        loop = loop_settings(splits, settings)

        def tell(progress: LoopProgress) -> None:
            for callback in callbacks:
                callback(progress)

        with threads_for(n_init * numbers_of_step(read, settings), device):
            result = Loop(task, loop).run(tell if callbacks else None)
        if result.best_iteration is None or result.best_loss is None:
            raise ParameterError(
                "training was stopped before its first epoch: there is nothing to keep.", argument="callbacks"
            )
        self._seed, self.interrupted_ = seed, result.interrupted
        self.metadata_: dict[str, Any] = {}
        self.best_epoch_ = np.round(result.best_iteration / loop.check_every).astype(int)
        self.n_iter_ = round(result.iterations / loop.check_every)
        self.validation_loss_ = result.best_loss
        at = np.searchsorted(result.validated_at, result.best_iteration)
        self._validated = {name: each[at, np.arange(n_init)] for name, each in result.validation.items()}
        self._net, self._sizes = task.net, list(settings.k or cluster_sizes(read, settings.levels))
        self._columns = (read.index.shape[1], read.value.shape[1], read.num_features)
        return splits, task

    def _fit_inputs(self, graphs: GraphCollection) -> NodeInputs:
        given, default = graphs.num_features > 0, self.preset == "default"
        if not given and self.features == "given":
            raise GraphError("the graphs have no features x: use features='structure', or give them x.")
        structure = self.features in ("structure", "both") or (self.features == "auto" and not given)
        given = given and self.features != "structure"
        return NodeInputs.fit(
            graphs, given=given, structure=structure, scaled=default, most=MOST_DEGREE if default else None
        )

    def _keep_names(self, names: Sequence[str] | None) -> None:
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if names is not None:
            self.feature_names_in_: NDArray[Any] = np.asarray(names, dtype=object)

    def _outputs(self, graphs: Any) -> tuple[GraphCollection, Tensor]:
        """The graphs with the features of the fit by name, and what every network says of them [R, G, C]."""
        self._check_fitted()
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs)
        if collection.num_features != self._given:
            raise GraphError(
                f"graphs have {collection.num_features} features, but the model was fitted with {self._given}."
            )
        collection, device = self._by_name(collection), choose_device(self.device)
        read = self._inputs.transform(collection)
        columns = (read.index.shape[1], read.value.shape[1], read.num_features)
        if columns != self._columns:
            raise GraphError("graphs hold their features in other columns of numbers than those of the fit.")
        everything, (method, n_init, settings) = np.arange(len(read)), self._arguments()
        splits, seeds = [Split(everything, everything, everything)] * n_init, range(n_init)
        task = build_task(read, method, splits, seeds, settings, device, net=self._net)
        return collection, task.predict(everything)

    def _by_name(self, graphs: GraphCollection) -> GraphCollection:
        """The graphs with their features in the order of the fit."""
        known = getattr(self, "feature_names_in_", None)
        if self.features == "structure":
            return graphs
        if (known is None) != (graphs.feature_names is None):
            which = "the features have no names, but those of the fit had"
            which = which if known is not None else "the features have names, but those of the fit had none"
            warn_caller(f"{which}: they are taken in the order of the fit.")
        if known is None or graphs.feature_names is None:
            return graphs
        places = places_by_name(known.tolist(), graphs.feature_names, "graphs")
        return replace(graphs, value=graphs.value[:, places], feature_names=tuple(known))

    def _check_fitted(self) -> None:
        if not hasattr(self, "_net"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")

    # ---------------------------------------------------------------- model files

    def _tensors(self) -> dict[str, Tensor]:
        """The weights of a fitted model."""
        return dict(self._net.named_parameters())

    @abstractmethod
    def _described_targets(self) -> dict[str, Any]:
        """What a file must say of the targets."""

    @abstractmethod
    def _read_targets(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> int:
        """Take what a file says of the targets, and their tensors out of `tensors`; how many outputs there are."""

    def save(self, path: str | Path) -> Path:
        """Write the fitted model as ``<path>.safetensors``, which is returned; loading runs no code.

        It replaces an older model in one step, and no other file.

        >>> import softcut as sc, tempfile
        >>> ring = sc.Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> star = sc.Graph.from_edges([[0, 0, 0], [1, 2, 3]])
        >>> model = sc.GraphClassification(max_iter=2).fit([ring, star] * 10, [0, 1] * 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = sc.GraphClassification.load(model.save(folder + "/model"))
        >>> bool((again.predict_proba([ring]) == model.predict_proba([ring])).all())
        True
        """
        self._check_fitted()
        return write_model(path, self._tensors(), self._described())

    def _described(self) -> dict[str, Any]:
        """All of a fitted model but its weights."""
        params = {name: value for name, value in self.get_params().items() if name != "callbacks"}
        if not isinstance(self.random_state, int | None):
            params["random_state"] = self._seed
        params["device"] = str(self.device)
        names, inputs = getattr(self, "feature_names_in_", None), self._inputs
        structure = inputs.structure
        return {
            "kind": self._kind,
            "parameters": {_RECORDED.get(name, name): _plain(value) for name, value in params.items()},
            "given": self._given,
            "feature_names": None if names is None else names.tolist(),
            "sizes": self._sizes,
            "columns": list(self._columns),
            "structure": structure and [structure.max_degree, structure.mean, structure.std],
            "scale": inputs.scale and [list(each) for each in inputs.scale],
            "best_epoch": self.best_epoch_.tolist(),
            "n_epochs": self.n_iter_,
            "interrupted": self.interrupted_,
            "metadata": self.metadata_,
            "validation_loss": self.validation_loss_.tolist(),
            **self._described_targets(),
        }

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote; every field is checked first."""
        tensors, meta = read_model(path)
        if meta.get("kind") != cls._kind:
            raise ModelFileError(f"{path} is {what_it_is(meta)}")
        try:
            model = cls._from_file(tensors, meta)
            read = {name: value for name, value in meta.items() if name not in FILE_FIELDS}
            if json.dumps(model._described(), sort_keys=True) != json.dumps(read, sort_keys=True):
                raise ValueError("a field is unknown or has a value of another type")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(f"{path} is damaged or incomplete ({one_line(error)}).") from error
        try:
            choose_device(model.device)
        except ParameterError:
            model.device = "auto"
        return model

    @classmethod
    def _from_file(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Self:
        """The model of a file; its sizes are compared with its tensors before anything of these sizes is made."""
        recorded = {recorded: name for name, recorded in _RECORDED.items()}
        model = cls(**{recorded.get(name, name): value for name, value in meta["parameters"].items()})
        (method, n_init, settings), model._seed = model._arguments(), seed_from(model.random_state)
        model._given, model._sizes = whole("given", meta["given"], 0), list(meta["sizes"])
        names = meta["feature_names"]
        words = names is None or (isinstance(names, list) and all(isinstance(each, str) for each in names))
        check(words and (names is None or len(set(names)) == len(names) == model._given), "feature_names")
        model._keep_names(names)
        one_hot, values, features = (whole("columns", each, 0) for each in meta["columns"])
        model._columns = (one_hot, values, features)
        model._inputs = model._inputs_of(meta, one_hot, values, features)
        check(settings.k is None or list(settings.k) == model._sizes, "sizes")
        for each in tensors.values():
            check(bool(each.isfinite().all()), "weights")
        outputs = model._read_targets(meta, tensors)
        alike, shown = method, settings
        if method == "random":  # it has no weights, and draws numbers when it is made
            largest = max(*model._sizes, settings.pool_args.get("k", 0))
            check(largest <= LIMITS["n_clusters"], "sizes")
            alike, shown = "nopool", replace(settings, pool_args={})
        with torch.device("meta"):  # shapes without memory: all networks have those of one
            (one,) = build_models(features, outputs, alike, model._sizes, [0], shown)
        shapes = sorted((n_init, *value.shape) for value in one.parameters())
        check(shapes == sorted(tuple(value.shape) for value in tensors.values()), "weights")
        made = build_models(features, outputs, method, model._sizes, [0], settings)
        model._net = replica_net(made, one_hot, one_hot + values)
        for name, value in model._net.named_parameters():
            given = tensors[name]
            check(given.shape[1:] == value.shape[1:] and given.dtype == value.dtype, name)
            value.data = given
        model.best_epoch_, model.n_iter_ = np.asarray(meta["best_epoch"]), whole("n_epochs", meta["n_epochs"])
        model.validation_loss_ = np.asarray(meta["validation_loss"])
        for told in (model.best_epoch_, model.validation_loss_):
            check(told.shape == (n_init,) and told.dtype.kind in "if", "best_epoch")
        model.interrupted_, model.metadata_ = bool(meta["interrupted"]), dict(meta["metadata"])
        return model

    def _inputs_of(self, meta: Mapping[str, Any], one_hot: int, values: int, features: int) -> NodeInputs:
        """What the network of a file reads of a node."""
        known, scale, default = meta["structure"], meta["scale"], self.preset == "default"
        structure = None
        given = self._given > 0 and self.features != "structure"
        width = self._given if given else 0
        if known is not None:
            structure = StructureFeatures(
                whole("structure", known[0], 0), float(known[1]), positive("structure", known[2])
            )
            width += structure.max_degree + 2
        plain = self.features == "given" or (self.features == "auto" and self._given > 0)
        check(plain == (known is None), "structure")
        check(width == features and max(one_hot, values) <= features, "columns")
        numbers = values - (known is not None)
        check((scale is not None) == (default and given and numbers > 0), "scale")
        if scale is None:
            return NodeInputs(given, structure, None)
        mean, deviation = (tuple(float(each) for each in part) for part in scale)
        check(len(mean) == len(deviation) == numbers and min(deviation) > 0, "scale")
        return NodeInputs(given, structure, (mean, deviation))


def check(right: bool, field: str) -> None:
    """An error where a field of a model file cannot be."""
    if not right:
        raise ValueError(f"{field} does not fit the rest of the model")


def _plain(value: Any) -> Any:
    """A parameter as JSON knows it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
