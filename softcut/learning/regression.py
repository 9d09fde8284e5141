"""GraphRegression: numbers of whole graphs, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._mean, self._deviation = mean, np.where(deviation > 0, deviation, 1.0)
        scaled = ((targets - self._mean) / self._deviation).astype(np.float32)
        self._train(begun, collection, np.zeros(len(collection), np.int64), scaled)
        self.target_names_ = [str(name) for name in names]
        return self

    def predict(self, graphs: Any) -> NDArray[np.float64]:
        """The numbers of every graph: [graphs], or [graphs, targets] where `fit` was given several."""
        _, outputs = self._outputs(graphs)
        numbers = outputs.mean(0).double().cpu().numpy() * self._deviation + self._mean
        return np.asarray(numbers[:, 0] if self._single else numbers)

    def score(self, graphs: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R², mean over the targets: 1 is perfect, 0 is the mean of y."""
        self._check_fitted()
        collection = graphs if isinstance(graphs, GraphCollection) else from_graphs(graphs)
        targets = _numbers(y, len(collection))
        if targets.shape[1] != len(self._mean):
            raise GraphError(
                f"y has {targets.shape[1]} targets, but the model was fitted with {len(self._mean)}."
            )
        from sklearn.metrics import r2_score

        numbers = self.predict(collection).reshape(targets.shape)
        return float(r2_score(targets, numbers, sample_weight=sample_weight))

    def _described_targets(self) -> dict[str, Any]:
        return {
            "targets": self.target_names_,
            "single": self._single,
            "mean": self._mean.tolist(),
            "deviation": self._deviation.tolist(),
        }

    def _read_targets(self, meta: Mapping[str, Any], tensors: dict[str, Tensor]) -> int:
        self.target_names_, self._single = [str(name) for name in meta["targets"]], bool(meta["single"])
        self._mean, self._deviation = (np.asarray(meta[name], float) for name in ("mean", "deviation"))
        count = len(self.target_names_)
        check(self._mean.shape == self._deviation.shape == (count,) and count > 0, "mean")
        check(bool(np.isfinite([self._mean, self._deviation]).all() and (self._deviation > 0).all()), "mean")
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
