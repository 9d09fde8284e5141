"""GraphClassification: classes of whole graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.clustering.arguments import positive
from softcut.errors import GraphError
from softcut.graph.collection import GraphCollection, Split, class_labels, from_graphs
from softcut.io.model_files import CLASSIFIER
from softcut.learning.fold_task import FoldTask
from softcut.learning.graph_estimator import GraphEstimator, check
from softcut.learning.subtrees import (
    COLUMNS,
    SubtreeClassifier,
    best_share,
    describe_graphs,
    features_are_labels,
)
from softcut.sklearn_base import ClassifierMixin
from softcut.tables.arrays import listed


class GraphClassification(ClassifierMixin, GraphEstimator):
    """Classify graphs.

    By default three networks (:class:`softcut.nn.ReadoutNet`), each beside a linear model of subtree patterns
    (Weisfeiler and Lehman), whose probabilities are averaged; graphs that a network is not trained on decide when it
    stops, and how much the linear models count. ``preset="paper"`` is the network of the paper's table 2: message
    passing and pooling in turn, mean over the nodes, one linear layer.

    >>> import softcut as sc
    >>> ring = sc.Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> star = sc.Graph.from_edges([[0, 0, 0], [1, 2, 3]])
    >>> model = sc.GraphClassification(max_iter=20).fit([ring, star] * 20, ["ring", "star"] * 20)
    >>> model.predict([star, ring]).tolist(), model.score([star, ring], ["star", "ring"])
    (['star', 'ring'], 1.0)
    >>> model.predict_proba([star]).shape
    (1, 2)

    Parameters
    ----------
    preset : {"default", "paper"}
        Which network; it decides what an argument means that is None.
    pool : str, optional
        The pooler of preset="paper": mincut (if None), diffpool, topk, sagpool, graclus, ndp, random, dmon,
        justbalance; nopool for none, dense for a network that does not look at edges.
    n_init : int, optional
        Networks with different weights, trained side by side; their probabilities are averaged. 3, paper: 1.
    features : {"auto", "given", "structure", "both"}
        What the network reads of a node: the features x of the graphs, degree and clustering coefficient, or both.
        "auto": x where the graphs have it, else the structure. The default network counts degrees above 64 as 64.
    hidden, levels : int, optional
        Width of every layer; message-passing layers, or poolers in a row with preset="paper".
    batch_size, patience, learning_rate, l2 : number, optional
        Graphs in a step; epochs without a lower validation loss after which a network stops; Adam's step size; weight
        of the sum of squares of the weight matrices.
    k : sequence of int, optional
        With preset="paper" clusters at each level; if None N // 2, N // 4, ... with N the mean number of nodes.
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
    classes_, class_count_ : ndarray
        The classes, sorted; how many graphs of the fit had each of them.
    best_epoch_, validation_loss_, validation_accuracy_ : ndarray
        Of each of the `n_init` networks, at its best epoch.
    subtree_share_ : float
        How much the linear models of subtree patterns count in the mean of the probabilities, 0 to 1.
    feature_names_in_ : array
        Names of the features, where the graphs have some; other graphs are matched by name.
    n_iter_, interrupted_ : int, bool
        How many epochs were run; whether Ctrl-C ended the training (the weights are then the best so far).
    metadata_ : dict
        Empty; what you put into it (anything JSON can hold) is saved with the model.
    """

    _kind = CLASSIFIER

    def fit(self, graphs: Any, y: Any = None) -> GraphClassification:
        """Train on a list of Graph or PyTorch Geometric Data (or a GraphCollection) and a class per graph.

        By default the classes are those that the graphs bring along.
        """
        begun = self._begin()
        collection, labels = self._read(graphs, y)
        names, numbers = np.unique(labels, return_inverse=True)
        if len(names) < 2:
            raise GraphError(f"y must hold at least two classes, got {names.tolist()}.")
        classes = tuple(map(str, names.tolist()))
        collection = replace(collection, y=numbers.astype(np.int64), classes=classes)
        splits, task = self._train(begun, collection, numbers)
        self.classes_, self.class_count_ = names, np.bincount(numbers)
        self.validation_accuracy_ = self._validated["accuracy"]
        self.subtree_share_, self._by_features = 0.0, False
        self._subtrees: list[SubtreeClassifier] = []
        if self.preset == "default":
            self._fit_subtrees(collection, numbers, splits, task)
        return self

    def _fit_subtrees(
        self, graphs: GraphCollection, y: NDArray[np.int64], splits: list[Split], task: FoldTask
    ) -> None:
        """Models of subtree patterns, one for each network, and how much they count."""
        self._by_features = self._inputs.given and features_are_labels(graphs)
        columns = describe_graphs(graphs, self._by_features)
        held = [split.validation for split in splits]
        chances = task.outputs(held).softmax(-1).double().cpu().numpy()
        members = [SubtreeClassifier.fit(columns[s.train], y[s.train], len(graphs.classes)) for s in splits]
        said = [each.predict(columns[part]) for each, part in zip(members, held, strict=True)]
        networks = [row[: len(part)] for row, part in zip(chances, held, strict=True)]
        self.subtree_share_ = best_share(networks, said, [y[part] for part in held])
        self._subtrees = members if self.subtree_share_ else []

    def _read(self, graphs: Any, y: Any) -> tuple[GraphCollection, NDArray[Any]]:
        """The graphs, and their classes as they were given."""
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs, y)
        if y is not None:
            return collection, class_labels(y, len(collection))
        if collection.y is None:
            raise GraphError("y must be given: the graphs bring no classes along.")
        return collection, np.asarray(collection.classes)[collection.y]

    def predict_proba(self, graphs: Any) -> NDArray[np.float64]:
        """Probability of every class, in the order of ``classes_``: [graphs, classes]."""
        collection, outputs = self._outputs(graphs)
        chances = outputs.softmax(-1).mean(0).double().cpu().numpy()
        if not self._subtrees:
            return np.asarray(chances)
        columns = describe_graphs(collection, self._by_features)
        said = np.mean([each.predict(columns) for each in self._subtrees], axis=0)
        return np.asarray((1 - self.subtree_share_) * chances + self.subtree_share_ * said)

    def predict(self, graphs: Any) -> NDArray[Any]:
        """The most probable class of every graph."""
        best = self.predict_proba(graphs).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the graphs that are classified correctly."""
        _, numbers, chances = self._compared(graphs, y)
        return float(np.average(chances.argmax(1) == numbers, weights=sample_weight))

    def report(self, path: str | Path, graphs: Any, y: Any = None) -> Path:
        """Write a page about predictions for graphs that were not trained on; returns its path.

        It shows the accuracy beside that of the most frequent class, which classes are taken for which, whether the
        probabilities are right, and the surest mistakes. Needs the extra ``report``.

        >>> import networkx as nx, softcut as sc, tempfile
        >>> graphs = [make(n) for n in range(4, 10) for make in (nx.cycle_graph, nx.star_graph)]
        >>> model = sc.GraphClassification(max_iter=2, n_init=1).fit(graphs[2:], ["ring", "star"] * 5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(folder + "/classes.html", graphs[:2], ["ring", "star"]).name
        'classes.html'
        """
        from softcut.report.of_estimators import write_classes

        return write_classes(path, self, *self._compared(graphs, y))

    def _compared(self, graphs: Any, y: Any) -> tuple[GraphCollection, NDArray[Any], NDArray[Any]]:
        """The graphs, the numbers of their classes, and the probabilities of all classes."""
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
        return collection, np.asarray(numbers), self.predict_proba(collection)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = super()._tensors()
        if self._subtrees:
            for name in ("weight", "bias"):
                stacked = np.stack([getattr(each, name) for each in self._subtrees])
                tensors[f"subtrees.{name}"] = torch.from_numpy(stacked)
        return tensors

    def _described_targets(self) -> dict[str, Any]:
        return {
            "classes": self.classes_.tolist(),
            "class_count": self.class_count_.tolist(),
            "validation_accuracy": self.validation_accuracy_.tolist(),
            "subtree_share": self.subtree_share_,
            "subtrees_by_features": self._by_features,
        }

    def _read_targets(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> int:
        self.classes_ = class_labels(meta["classes"], len(meta["classes"]))
        classes, (_, n_init, _) = len(self.classes_), self._arguments()
        check(np.array_equal(np.unique(self.classes_), self.classes_) and classes > 1, "classes")
        self.class_count_ = np.asarray(meta["class_count"])
        check(self.class_count_.shape == (classes,) and self.class_count_.dtype.kind == "i", "class_count")
        check(int(self.class_count_.min()) > 0, "class_count")
        self.validation_accuracy_ = np.asarray(meta["validation_accuracy"])
        check(self.validation_accuracy_.shape == (n_init,), "validation_accuracy")
        check(self.validation_accuracy_.dtype.kind in "if", "validation_accuracy")
        share = positive("subtree_share", meta["subtree_share"], or_zero=True)
        check(share <= (self.preset == "default"), "subtree_share")
        self.subtree_share_, self._by_features, self._subtrees = share, bool(meta["subtrees_by_features"]), []
        if share:
            weight, bias = tensors.pop("subtrees.weight"), tensors.pop("subtrees.bias")
            check(weight.shape == (n_init, classes, COLUMNS) and weight.dtype == torch.float32, "subtrees")
            check(bias.shape == (n_init, classes) and bias.dtype == torch.float32, "subtrees")
            self._subtrees = [
                SubtreeClassifier(w.numpy(), b.numpy()) for w, b in zip(weight, bias, strict=True)
            ]
        return classes
