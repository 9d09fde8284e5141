"""GraphClassification: the paper's model for graph classification as a scikit-learn estimator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.clustering.arguments import LIMITS, callables, positive, refusal, seed_from, whole
from softcut.device import choose_device, threads_for
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph.collection import (
    GraphCollection,
    Split,
    class_labels,
    from_graphs,
    hold_out,
    places_by_name,
)
from softcut.io.model_files import CLASSIFIER, FILE_FIELDS, one_line, read_model, what_it_is, write_model
from softcut.learning.experiment import (
    METHODS,
    ClassifierSettings,
    build_models,
    build_task,
    cluster_sizes,
    loop_settings,
    numbers_of_step,
)
from softcut.learning.replica_net import replica_net
from softcut.learning.structure_features import StructureFeatures
from softcut.sklearn_base import BaseEstimator, ClassifierMixin
from softcut.tables.arrays import listed, warn_caller
from softcut.training import Loop, LoopProgress

FEATURES = ("auto", "given", "structure", "both")
# Arguments that model files know by another name.
_RECORDED = {"batch_size": "batch", "learning_rate": "lr", "max_iter": "epochs"}


class GraphClassification(ClassifierMixin, BaseEstimator):
    """Classify graphs: message passing and pooling in turn, mean over the nodes, one linear layer.

    >>> import softcut as sc
    >>> ring = sc.Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> star = sc.Graph.from_edges([[0, 0, 0], [1, 2, 3]])
    >>> model = sc.GraphClassification(max_iter=40, learning_rate=0.01).fit([ring, star] * 20, ["ring", "star"] * 20)
    >>> model.predict([star, ring]).tolist(), model.score([star, ring], ["star", "ring"])
    (['star', 'ring'], 1.0)
    >>> model.predict_proba([star]).shape
    (1, 2)

    Parameters
    ----------
    pool : str
        The pooler: mincut, diffpool, topk, sagpool, graclus, ndp, random, dmon, justbalance; nopool for none, dense
        for a network that does not look at edges.
    n_init : int
        Networks with different weights, trained side by side; their probabilities are averaged.
    features : {"auto", "given", "structure", "both"}
        What the network reads of a node: the features x of the graphs, degree and clustering coefficient, or both.
        "auto": x where the graphs have it, else the structure.
    hidden, levels, batch_size, patience, learning_rate, l2
        As for :class:`softcut.learning.ClassifierSettings` (`batch_size` its batch, `learning_rate` its lr).
    k : sequence of int, optional
        Clusters at each level; by default N // 2, N // 4, ... with N the mean number of nodes.
    max_iter, validation : int and float
        The largest number of epochs; the share of the graphs that decides when to stop (and is not trained on).
    pool_args : mapping, optional
        Further options of the pooler.
    random_state : int, None, RandomState or Generator
        Of weights, order and validation graphs. An int gives the same result every time on one device.
    device : str
        "auto" (a GPU where there is one), "cpu" or "cuda".
    callbacks : sequence of callables, optional
        Called with a LoopProgress after every epoch.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    best_epoch_, validation_loss_, validation_accuracy_ : ndarray
        Of each of the `n_init` networks, at its best epoch.
    feature_names_in_ : array
        Names of the features, where the graphs have some; other graphs are matched by name.
    n_iter_, interrupted_ : int, bool
        How many epochs were run; whether Ctrl-C ended the training (the weights are then the best so far).
    metadata_ : dict
        Empty; what you put into it (anything JSON can hold) is saved with the model.
    """

    def __init__(
        self,
        pool: str = "mincut",
        *,
        n_init: int = 1,
        features: str = "auto",
        hidden: int = 32,
        levels: int = 2,
        k: Sequence[int] | None = None,
        batch_size: int = 32,
        learning_rate: float = 5e-4,
        l2: float = 1e-4,
        max_iter: int = 500,
        patience: int = 50,
        validation: float = 0.1,
        pool_args: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        device: str = "auto",
        callbacks: Sequence[Callable[[LoopProgress], None]] | None = None,
    ) -> None:
        self.pool, self.n_init, self.features = pool, n_init, features
        self.hidden, self.levels, self.k, self.batch_size = hidden, levels, k, batch_size
        self.learning_rate, self.l2, self.max_iter, self.patience = learning_rate, l2, max_iter, patience
        self.validation, self.pool_args = validation, pool_args
        self.random_state, self.device, self.callbacks = random_state, device, callbacks

    def fit(self, graphs: Any, y: Any = None) -> GraphClassification:
        """Train on a list of Graph or PyTorch Geometric Data (or a GraphCollection) and a class per graph.

        By default the classes are those that the graphs bring along.
        """
        settings, device = self._settings(), choose_device(self.device)
        callbacks, seed = callables(self.callbacks), seed_from(self.random_state)
        collection, labels = self._read(graphs, y)
        names, numbers = np.unique(labels, return_inverse=True)
        if len(names) < 2:
            raise GraphError(f"y must hold at least two classes, got {names.tolist()}.")
        self._given, self._structure = collection.num_features, None
        self._keep_names(collection.feature_names)
        if self._given == 0 and self.features == "given":
            raise GraphError("the graphs have no features x: use features='structure', or give them x.")
        if self.features in ("structure", "both") or (self.features == "auto" and self._given == 0):
            self._structure = StructureFeatures.fit(collection)
        classes = tuple(map(str, names.tolist()))
        collection = replace(self._with_features(collection), y=numbers.astype(np.int64), classes=classes)
        split = hold_out(numbers, self.validation, seed)
        seeds = [1000 * seed + i for i in range(self.n_init)]
        task = build_task(collection, self.pool, [split] * self.n_init, seeds, settings, device)
        loop = loop_settings([split], settings)

        def tell(progress: LoopProgress) -> None:
            for callback in callbacks:
                callback(progress)

        with threads_for(self.n_init * numbers_of_step(collection, settings), device):
            result = Loop(task, loop).run(tell if callbacks else None)
        if result.best_iteration is None or result.best_loss is None:
            raise ParameterError(
                "training was stopped before its first epoch: there is nothing to keep.", argument="callbacks"
            )
        self.classes_, self._seed = names, seed
        self.interrupted_ = result.interrupted
        self.metadata_: dict[str, Any] = {}
        self.best_epoch_ = np.round(result.best_iteration / loop.check_every).astype(int)
        self.n_iter_ = round(result.iterations / loop.check_every)
        self.validation_loss_ = result.best_loss
        at = np.searchsorted(result.validated_at, result.best_iteration)
        self.validation_accuracy_ = result.validation["accuracy"][at, np.arange(self.n_init)]
        self._net, self._sizes = task.net, list(settings.k or cluster_sizes(collection, self.levels))
        self._columns = (collection.index.shape[1], collection.value.shape[1], collection.num_features)
        return self

    def _settings(self) -> ClassifierSettings:
        """The arguments, checked."""
        for name, known in (("pool", tuple(METHODS)), ("features", FEATURES)):
            if getattr(self, name) not in known:
                raise refusal(name, f"one of {', '.join(known)}", getattr(self, name))
        numbers = ("n_init", "hidden", "levels", "batch_size", "max_iter", "patience")
        _, hidden, levels, batch, epochs, patience = (whole(name, getattr(self, name)) for name in numbers)
        if positive("validation", self.validation) > 0.5:
            raise refusal("validation", "above 0 and at most 0.5", self.validation)
        if self.k is not None and (not isinstance(self.k, list | tuple) or len(self.k) != levels):
            raise refusal("k", f"a list of one number for each of the {levels} levels, or None", self.k)
        args = self.pool_args
        if args is not None and not (
            isinstance(args, Mapping) and all(isinstance(name, str) for name in args)
        ):
            raise refusal("pool_args", "a dict of options of the pooler, or None", args)
        return ClassifierSettings(
            batch=batch,
            lr=positive("learning_rate", self.learning_rate),
            epochs=epochs,
            patience=patience,
            l2=positive("l2", self.l2, or_zero=True),
            hidden=hidden,
            levels=levels,
            k=None if self.k is None else tuple(whole("k", each) for each in self.k),
            pool_args=dict(args or {}),
        )

    def _keep_names(self, names: Sequence[str] | None) -> None:
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if names is not None:
            self.feature_names_in_: NDArray[Any] = np.asarray(names, dtype=object)

    def _read(self, graphs: Any, y: Any) -> tuple[GraphCollection, NDArray[Any]]:
        """The graphs, and their classes as they were given."""
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs, y)
        if y is not None:
            return collection, class_labels(y, len(collection))
        if collection.y is None:
            raise GraphError("y must be given: the graphs bring no classes along.")
        return collection, np.asarray(collection.classes)[collection.y]

    def _with_features(self, graphs: GraphCollection) -> GraphCollection:
        """The graphs with the features that the network reads."""
        if self._structure is None:
            return graphs
        if self.features == "structure":
            graphs = replace(graphs, index=graphs.index[:, :0], value=graphs.value[:, :0], num_features=0)
        return self._structure.transform(graphs)

    def predict_proba(self, graphs: Any) -> NDArray[np.float64]:
        """Probability of every class, in the order of ``classes_``: [graphs, classes]."""
        self._check_fitted()
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs)
        if collection.num_features != self._given:
            raise GraphError(
                f"graphs have {collection.num_features} features, but the model was fitted with {self._given}."
            )
        collection, device = self._with_features(self._by_name(collection)), choose_device(self.device)
        columns = (collection.index.shape[1], collection.value.shape[1], collection.num_features)
        if columns != self._columns:
            raise GraphError("graphs hold their features in other columns of numbers than those of the fit.")
        everything = np.arange(len(collection))
        splits, seeds = [Split(everything, everything, everything)] * self.n_init, range(self.n_init)
        task = build_task(collection, self.pool, splits, seeds, self._settings(), device, net=self._net)
        return task.predict(everything).mean(0).double().cpu().numpy()

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

    def predict(self, graphs: Any) -> NDArray[Any]:
        """The most probable class of every graph."""
        best = self.predict_proba(graphs).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the graphs that are classified correctly."""
        self._check_fitted()
        collection, labels = self._read(graphs, y)
        # Classes that a collection brings along are words: "1" is then the class 1, but 1.9 and "1.9" are not.
        as_words = (labels.dtype.kind == "U") != (self.classes_.dtype.kind == "U")
        number = {str(each) if as_words else each: i for i, each in enumerate(self.classes_.tolist())}
        numbers = [number.get(str(each) if as_words else each, -1) for each in labels.tolist()]
        unknown = np.unique(labels[np.equal(numbers, -1)]).tolist()
        if unknown:
            raise GraphError(
                f"y holds {listed(unknown)}, but the classes of the fit are {listed(self.classes_.tolist())}."
            )
        hits = self.predict_proba(collection).argmax(1) == numbers
        return float(np.average(hits, weights=sample_weight))

    def _check_fitted(self) -> None:
        if not hasattr(self, "_net"):
            raise NotFittedError("this GraphClassification is not fitted yet; call fit first.")

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
        return write_model(path, dict(self._net.named_parameters()), self._described())

    def _described(self) -> dict[str, Any]:
        """All of a fitted model but its weights."""
        params = {name: value for name, value in self.get_params().items() if name != "callbacks"}
        if not isinstance(self.random_state, int | None):
            params["random_state"] = self._seed
        params["device"] = str(self.device)
        names = getattr(self, "feature_names_in_", None)
        return {
            "kind": CLASSIFIER,
            "parameters": {_RECORDED.get(name, name): _plain(value) for name, value in params.items()},
            "classes": self.classes_.tolist(),
            "given": self._given,
            "feature_names": None if names is None else names.tolist(),
            "sizes": self._sizes,
            "columns": list(self._columns),
            "structure": None if self._structure is None else list(astuple(self._structure)),
            "best_epoch": self.best_epoch_.tolist(),
            "n_epochs": self.n_iter_,
            "interrupted": self.interrupted_,
            "metadata": self.metadata_,
            "validation_loss": self.validation_loss_.tolist(),
            "validation_accuracy": self.validation_accuracy_.tolist(),
        }

    @classmethod
    def load(cls, path: str | Path) -> GraphClassification:
        """Read what :meth:`save` wrote; every field is checked first."""
        tensors, meta = read_model(path)
        if meta.get("kind") != CLASSIFIER:
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
    def _from_file(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> GraphClassification:
        """The model of a file; its sizes are compared with its tensors before anything of these sizes is made."""
        recorded = {recorded: name for name, recorded in _RECORDED.items()}
        model = cls(**{recorded.get(name, name): value for name, value in meta["parameters"].items()})
        settings, model._seed = model._settings(), seed_from(model.random_state)
        model.classes_ = class_labels(meta["classes"], len(meta["classes"]))
        model._given, model._sizes = whole("given", meta["given"], 0), list(meta["sizes"])
        one_hot, values, features = (whole("columns", each, 0) for each in meta["columns"])
        model._columns, known, names = (one_hot, values, features), meta["structure"], meta["feature_names"]
        model._structure, width = None, model._given
        if known is not None:
            model._structure = StructureFeatures(
                whole("structure", known[0], 0), float(known[1]), positive("structure", known[2])
            )
            width = (0 if model.features == "structure" else width) + model._structure.max_degree + 2
        plain = model.features == "given" or (model.features == "auto" and model._given > 0)
        _check(plain == (known is None), "structure")
        _check(settings.k is None or list(settings.k) == model._sizes, "sizes")
        _check(width == features and max(one_hot, values) <= features, "columns")
        words = names is None or (isinstance(names, list) and all(isinstance(each, str) for each in names))
        _check(words and (names is None or len(set(names)) == len(names) == model._given), "feature_names")
        _check(
            np.array_equal(np.unique(model.classes_), model.classes_) and len(model.classes_) > 1, "classes"
        )
        model._keep_names(names)
        pool, alike, shown = model.pool, model.pool, settings
        if pool == "random":  # it has no weights, and draws numbers when it is made
            largest = max(*model._sizes, settings.pool_args.get("k", 0))
            _check(largest <= LIMITS["n_clusters"], "sizes")
            alike, shown = "nopool", replace(settings, pool_args={})
        classes = len(model.classes_)
        with torch.device("meta"):  # shapes without memory: all networks have those of one
            (one,) = build_models(features, classes, alike, model._sizes, [0], shown)
        shapes = sorted((model.n_init, *value.shape) for value in one.parameters())
        _check(shapes == sorted(tuple(value.shape) for value in tensors.values()), "weights")
        made = build_models(features, classes, pool, model._sizes, [0], settings)
        model._net = replica_net(made, one_hot, one_hot + values)
        for name, value in model._net.named_parameters():
            given = tensors[name]
            _check(given.shape[1:] == value.shape[1:] and given.dtype == value.dtype, name)
            _check(bool(given.isfinite().all()), name)
            value.data = given
        model.best_epoch_, model.n_iter_ = np.asarray(meta["best_epoch"]), whole("n_epochs", meta["n_epochs"])
        model.validation_loss_ = np.asarray(meta["validation_loss"])
        model.validation_accuracy_ = np.asarray(meta["validation_accuracy"])
        for each in (model.best_epoch_, model.validation_loss_, model.validation_accuracy_):
            _check(each.shape == (model.n_init,) and each.dtype.kind in "if", "best_epoch")
        model.interrupted_, model.metadata_ = bool(meta["interrupted"]), dict(meta["metadata"])
        return model


def _check(right: bool, field: str) -> None:
    if not right:
        raise ValueError(f"{field} does not fit the rest of the model")


def _plain(value: Any) -> Any:
    """A parameter as JSON knows it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
