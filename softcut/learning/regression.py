"""GraphRegression: numbers of whole graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from softcut.errors import GraphError
from softcut.graph.collection import GraphCollection, from_graphs
from softcut.io.model_files import REGRESSOR
from softcut.learning.graph_estimator import GraphEstimator, check
from softcut.sklearn_base import RegressorMixin


class GraphRegression(RegressorMixin, GraphEstimator):
    """Predict numbers of graphs, one or several of each.

    By default the mean of three networks (:class:`softcut.nn.ReadoutNet`); graphs that a network is not trained on
    decide when it stops. ``preset="paper"`` is message passing and pooling in turn, mean over the nodes, one linear
    layer. Targets are standardised for the training, and several of them are learnt by one network.

    >>> import networkx as nx, softcut as sc
    >>> graphs = [nx.gnp_random_graph(n, 0.3, seed=n) for n in range(4, 44)]
    >>> edges = [float(graph.number_of_edges()) for graph in graphs]
    >>> model = sc.GraphRegression().fit(graphs, edges)
    >>> model.predict(graphs[:2]).shape, model.score(graphs, edges) > 0.9
    ((2,), True)

    Parameters
    ----------
    preset, pool, n_init, features, hidden, levels, k, batch_size, learning_rate, l2, max_iter, patience, validation
        As for :class:`softcut.GraphClassification`.
    pool_args, random_state, device, callbacks
        As for :class:`softcut.GraphClassification`.

    Attributes
    ----------
    target_names_ : list of str
        Names of the targets, where y is a data frame; else their numbers.
    mean_ : ndarray
        Mean of each target over the graphs of the fit.
    best_epoch_, validation_loss_ : ndarray
        Of each of the `n_init` networks, at its best epoch; the mean squared error of standardised targets.
    feature_names_in_, n_iter_, interrupted_, metadata_
        As for :class:`softcut.GraphClassification`.
    """

    _kind = REGRESSOR

    def fit(self, graphs: Any, y: Any) -> GraphRegression:
        """Train on a list of Graph or PyTorch Geometric Data (or a GraphCollection) and numbers [G] or [G, T]."""
        begun = self._begin()
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs)
        targets = _numbers(y, len(collection))
        self._single = np.ndim(y) == 1
        columns = getattr(y, "columns", None)
        names = range(targets.shape[1]) if columns is None else columns
        mean, deviation = targets.mean(0), targets.std(0)
        self.mean_, self._deviation = mean, np.where(deviation > 0, deviation, 1.0)
        scaled = ((targets - self.mean_) / self._deviation).astype(np.float32)
        self._train(begun, collection, np.zeros(len(collection), np.int64), scaled)
        self.target_names_ = [str(name) for name in names]
        return self

    def predict(self, graphs: Any) -> NDArray[np.float64]:
        """The numbers of every graph: [graphs], or [graphs, targets] where `fit` was given several."""
        _, outputs = self._outputs(graphs)
        numbers = outputs.mean(0).double().cpu().numpy() * self._deviation + self.mean_
        return np.asarray(numbers[:, 0] if self._single else numbers)

    def score(self, graphs: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R², mean over the targets: 1 is perfect, 0 is the mean of y."""
        from sklearn.metrics import r2_score

        _, targets, numbers = self._compared(graphs, y)
        return float(r2_score(targets, numbers, sample_weight=sample_weight))

    def report(self, path: str | Path, graphs: Any, y: Any) -> Path:
        """Write a page about predictions for graphs that were not trained on; returns its path.

        It shows mean absolute error, root mean squared error and R² beside those of the mean of the training graphs,
        true against predicted numbers, and the largest errors. Needs the extra ``report``.

        >>> import networkx as nx, softcut as sc, tempfile
        >>> graphs = [nx.path_graph(n) for n in range(3, 13)]
        >>> model = sc.GraphRegression(max_iter=2, n_init=1).fit(graphs[2:], range(5, 13))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(folder + "/numbers.html", graphs[:2], [3, 4]).name
        'numbers.html'
        """
        from softcut.report.of_estimators import write_numbers

        return write_numbers(path, self, *self._compared(graphs, y))

    def _compared(self, graphs: Any, y: Any) -> tuple[GraphCollection, NDArray[Any], NDArray[Any]]:
        """The graphs, their numbers as they were given, and those that the model predicts: [G, T]."""
        self._check_fitted()
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs)
        targets = _numbers(y, len(collection))
        if targets.shape[1] != len(self.mean_):
            raise GraphError(
                f"y has {targets.shape[1]} targets, but the model was fitted with {len(self.mean_)}."
            )
        return collection, targets, self.predict(collection).reshape(targets.shape)

    def _described_targets(self) -> dict[str, Any]:
        return {
            "targets": self.target_names_,
            "single": self._single,
            "mean": self.mean_.tolist(),
            "deviation": self._deviation.tolist(),
        }

    def _read_targets(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> int:
        self.target_names_, self._single = [str(name) for name in meta["targets"]], bool(meta["single"])
        self.mean_, self._deviation = (np.asarray(meta[name], float) for name in ("mean", "deviation"))
        count = len(self.target_names_)
        check(self.mean_.shape == self._deviation.shape == (count,) and count > 0, "mean")
        check(bool(np.isfinite([self.mean_, self._deviation]).all() and (self._deviation > 0).all()), "mean")
        check(not self._single or count == 1, "single")
        return count


def _numbers(y: Any, count: int) -> NDArray[np.float64]:
    """Targets as an array [G, T]."""
    try:
        targets = np.asarray(y.cpu() if hasattr(y, "cpu") else y, dtype=np.float64)
    except (TypeError, ValueError):
        raise GraphError(f"y must hold numbers, one or several for each of the {count} graphs.") from None
    if targets.ndim not in (1, 2) or len(targets) != count or targets.size == 0:
        raise GraphError(f"y must be [{count}] or [{count}, targets], got {list(targets.shape)}.")
    if not np.isfinite(targets).all():
        raise GraphError("y must not hold missing or infinite values: leave those graphs out.")
    return targets.reshape(count, -1)
