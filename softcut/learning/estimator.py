"""GraphClassification: the paper's model for graph classification as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from softcut.clustering.arguments import seed_from
from softcut.device import choose_device
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph.collection import GraphCollection, Split, from_graphs, hold_out
from softcut.io.model_files import CLASSIFIER, read_model, what_it_is, write_model
from softcut.learning.experiment import (
    METHODS,
    ClassifierSettings,
    build_models,
    build_task,
    cluster_sizes,
    loop_settings,
)
from softcut.learning.replica_net import replica_net
from softcut.learning.structure_features import StructureFeatures
from softcut.training import Loop, LoopProgress
from softcut.training.task import check_numbers

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
        At most so many epochs; the share of the graphs that decides when to stop (and is not trained on).
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
        settings = self._settings()
        collection, labels = self._read(graphs, y)
        names, numbers = np.unique(labels, return_inverse=True)
        if len(names) < 2:
            raise GraphError(f"y must hold at least two classes, got {names.tolist()}.")
        self._given, self._structure = collection.num_features, None
        if self._given == 0 and self.features == "given":
            raise GraphError("the graphs have no features x: use features='structure', or give them x.")
        if self.features in ("structure", "both") or (self.features == "auto" and self._given == 0):
            self._structure = StructureFeatures.fit(collection)
        classes = tuple(map(str, names.tolist()))
        collection = replace(self._with_features(collection), y=numbers.astype(np.int64), classes=classes)
        self._seed = seed_from(self.random_state)
        split = hold_out(numbers, self.validation, self._seed)
        seeds = [1000 * self._seed + i for i in range(self.n_init)]
        device = choose_device(self.device)
        task = build_task(collection, self.pool, [split] * self.n_init, seeds, settings, device)
        loop = loop_settings([split], settings)

        def tell(progress: LoopProgress) -> None:
            for callback in self.callbacks or ():
                callback(progress)

        result = Loop(task, loop).run(tell if self.callbacks else None)
        if result.best_iteration is None or result.best_loss is None:
            raise ParameterError("training was stopped before its first epoch: there is nothing to keep.")
        self.classes_ = names
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
        if self.pool not in METHODS:
            raise ParameterError(
                f"pool must be one of {', '.join(METHODS)}, not {self.pool!r}.", argument="pool"
            )
        if self.features not in FEATURES:
            raise ParameterError(f"features must be one of {', '.join(FEATURES)}, not {self.features!r}.")
        if not isinstance(self.n_init, int) or self.n_init < 1:
            said = f"n_init must be a whole number of at least 1, not {self.n_init!r}."
            raise ParameterError(said, argument="n_init")
        if not 0 < self.validation <= 0.5:
            raise ParameterError(f"validation must be above 0 and at most 0.5, not {self.validation}.")
        check_numbers(self, tuple(_RECORDED))
        return ClassifierSettings(
            batch=self.batch_size,
            lr=self.learning_rate,
            epochs=self.max_iter,
            patience=self.patience,
            l2=self.l2,
            hidden=self.hidden,
            levels=self.levels,
            k=None if self.k is None else tuple(self.k),
            pool_args=dict(self.pool_args or {}),
        )

    def _read(self, graphs: Any, y: Any) -> tuple[GraphCollection, NDArray[Any]]:
        """The graphs, and their classes as they were given."""
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs, y)
        if y is not None:
            labels = np.asarray([v.item() if hasattr(v, "item") else v for v in y])
        elif collection.y is not None:
            labels = np.asarray(collection.classes)[collection.y]
        else:
            raise GraphError("y must be given: the graphs bring no classes along.")
        if labels.shape != (len(collection),):
            raise GraphError(
                f"y must have one class for each of the {len(collection)} graphs, got {labels.shape}."
            )
        return collection, labels

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
        collection, device = self._with_features(collection), choose_device(self.device)
        everything = np.arange(len(collection))
        splits, seeds = [Split(everything, everything, everything)] * self.n_init, range(self.n_init)
        task = build_task(collection, self.pool, splits, seeds, self._settings(), device, net=self._net)
        return task.predict(everything).mean(0).double().cpu().numpy()

    def predict(self, graphs: Any) -> NDArray[Any]:
        """The most probable class of every graph."""
        best = self.predict_proba(graphs).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the graphs that are classified correctly."""
        _, labels = self._read(graphs, y)
        hits = self.predict(graphs) == labels.astype(self.classes_.dtype)
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
        parameters = {_RECORDED.get(name, name): value for name, value in self.get_params().items()}
        del parameters["callbacks"]
        if not isinstance(self.random_state, int | None):
            parameters["random_state"] = self._seed
        meta = {
            "kind": CLASSIFIER,
            "parameters": parameters,
            "classes": self.classes_.tolist(),
            "given": self._given,
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
        return write_model(path, dict(self._net.named_parameters()), meta)

    @classmethod
    def load(cls, path: str | Path) -> GraphClassification:
        """Read what :meth:`save` wrote."""
        tensors, meta = read_model(path)
        if meta.get("kind") != CLASSIFIER:
            raise ModelFileError(f"{path} is {what_it_is(meta)}")
        try:
            names = {recorded: name for name, recorded in _RECORDED.items()}
            model = cls(**{names.get(name, name): value for name, value in meta["parameters"].items()})
            settings = model._settings()
            model.classes_ = np.asarray(meta["classes"])
            model._given, model._sizes = int(meta["given"]), [int(v) for v in meta["sizes"]]
            one_hot, values, features = (int(v) for v in meta["columns"])
            model._columns, known = (one_hot, values, features), meta["structure"]
            model._structure = None
            if known is not None:
                model._structure = StructureFeatures(int(known[0]), float(known[1]), float(known[2]))
            classes, seeds = len(model.classes_), range(model.n_init)
            models = build_models(features, classes, model.pool, model._sizes, seeds, settings)
            model._net = replica_net(models, one_hot, one_hot + values)
            expected = {name: value.shape for name, value in model._net.named_parameters()}
            if expected != {name: value.shape for name, value in tensors.items()}:
                raise ValueError("its weights do not fit its settings")
            model._net.load_state_dict(tensors, strict=False)
            model.best_epoch_, model.n_iter_ = np.asarray(meta["best_epoch"]), int(meta["n_epochs"])
            model.interrupted_, model.metadata_ = bool(meta["interrupted"]), dict(meta["metadata"])
            model.validation_loss_ = np.asarray(meta["validation_loss"])
            model.validation_accuracy_ = np.asarray(meta["validation_accuracy"])
        except (KeyError, TypeError, ValueError, RuntimeError, ParameterError) as error:
            raise ModelFileError(f"{path}: the model is damaged or incomplete ({error}).") from error
        try:
            choose_device(model.device)
        except ParameterError:
            model.device = "auto"
        return model
