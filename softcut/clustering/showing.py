"""Methods of an estimator that describe its clusters; pages and pictures are made by softcut.report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softcut.clustering.frames import frame_of_clusters
from softcut.clustering.model import at_level
from softcut.errors import Argument, ParameterError
from softcut.graph import Graph
from softcut.metrics.summary import Summary, judged, summarise


class ShowsClusters:
    """Adds :meth:`summary`, :meth:`to_frame`, :meth:`report` and :meth:`plot` to an estimator of clusters.

    Each but :meth:`to_frame` takes the graph it was fitted on, or another one, whose clusters are then predicted. A
    model that was loaded does not hold its graph and has to be given one.
    """

    def summary(self, graph: Any = None, X: Any = None, *, level: int | None = None) -> Summary:
        """Every cluster as people describe it: size, cohesion, what characterises it, members, bridges.

        >>> import softcut as sc
        >>> from softcut.datasets import attributed_communities
        >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
        >>> summary = sc.GraphClustering(n_clusters=3, random_state=0).fit(graph).summary()
        >>> print(summary.heading)
        The clusters are clear. 200 nodes in 3 clusters.
        >>> int(summary.to_frame()["size"].sum())
        200

        Parameters
        ----------
        graph, X : optional
            Another graph, as for `predict`. None: the one of the fit.
        level : int, optional
            A level of `tree_`; None: the chosen one.

        >>> import networkx as nx
        >>> est = sc.GraphClustering().fit(nx.les_miserables_graph())
        >>> len(est.summary(level=0)) < len(est.summary(level=-1))
        True
        """
        whole, labels, soft = self._shown(graph, X, level)
        return summarise(whole, labels, soft, **self._judged(labels, level))

    def to_frame(self, nodes: Any = None) -> Any:
        """The clusters of the training nodes as a pandas data frame: names as index, columns cluster and probability.

        >>> import softcut as sc
        >>> from softcut.datasets import attributed_communities
        >>> graph = attributed_communities(n_nodes=100, n_clusters=2, seed=0)
        >>> sc.GraphClustering(2).fit(graph).to_frame().columns.tolist()
        ['cluster', 'probability']

        Where there are several levels, columns level_0, level_1, ... have the clusters of each, coarse to fine.

        `nodes`, a data frame about the nodes, is put in front: its rows are found by index or by the column that holds
        the names; by position where nodes have no names.
        """
        estimator: Any = self
        estimator._check_fitted()
        names = estimator.node_names_.tolist() if estimator.node_names_.dtype == object else None
        levels = None if estimator.tree_ is None else estimator.levels_.labels
        return frame_of_clusters(names, estimator.labels_, estimator.soft_, nodes, levels)

    def report(self, path: str | Path, graph: Any = None, X: Any = None) -> Path:
        """Write a page with the summary, the graph and everything else about the clusters; returns its path.

        >>> import softcut as sc, tempfile
        >>> from softcut.datasets import attributed_communities
        >>> est = sc.GraphClustering(2, random_state=0).fit(attributed_communities(100, 2, seed=0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.report(folder + "/clusters.html").name
        'clusters.html'

        Parameters
        ----------
        path : str or Path
            The file, one that can be opened in a browser and loads nothing from anywhere.
        graph, X : optional
            As for :meth:`summary`.
        """
        from softcut.report.of_estimators import write_page

        whole, labels, soft = self._shown(graph, X)
        return write_page(path, self, whole, labels, soft, **self._judged(labels))

    def plot(
        self, path: str | Path | None = None, graph: Any = None, X: Any = None, *, level: int | None = None
    ) -> Any:
        """A picture of the nodes, the clusters and the adjacency matrix, as a matplotlib figure.

        >>> import softcut as sc
        >>> from softcut.datasets import attributed_communities
        >>> est = sc.GraphClustering(2, random_state=0).fit(attributed_communities(100, 2, seed=0))
        >>> len(est.plot().axes)
        3

        Parameters
        ----------
        path : str or Path, optional
            Where to write it as well; the ending says how (``.png``, ``.pdf``, ``.svg``).
        graph, X, level : optional
            As for :meth:`summary`.
        """
        from softcut.report.of_estimators import draw_clusters

        whole, labels, soft = self._shown(graph, X, level)
        return draw_clusters(path, whole, labels, soft)

    def _shown(self, graph: Any, X: Any, level: int | None = None) -> tuple[Graph, np.ndarray, Any]:
        """A graph, its labels and its soft clusters (None where they are not known)."""
        estimator: Any = self
        estimator._check_fitted()
        if graph is not None:
            whole = estimator._gather(graph, X)
            return whole, *estimator.assign(whole, level=level)
        if X is not None:
            raise ParameterError("X was given without its graph: pass ", Argument("graph"), " as well.")
        if getattr(self, "_graph", None) is None:
            raise ParameterError(
                "graph is missing: a model that was loaded does not hold the graph it was fitted on; pass it.",
                argument="graph",
            )
        if level is None:
            return estimator._graph, estimator.labels_, estimator.soft_
        return estimator._graph, estimator.labels_at(level), self._soft_at(level)

    def _soft_at(self, level: int) -> Any:
        """Soft clusters of the training nodes at a level of the tree; None where the fit learned none that fine."""
        estimator: Any = self
        level, model = estimator._level(level), estimator._model
        if level == estimator.level_:
            return estimator.soft_
        if hasattr(model, "soft"):  # from the edges: known at the finest level
            return at_level(model.soft, model.above[level])[0]
        if model.above is None or level >= len(model.above):
            return None
        above = model.above[level]
        merged = np.zeros((len(above), int(above.max()) + 1), dtype=np.float32)
        merged[np.arange(len(above)), above] = 1
        return estimator.soft_ @ merged

    def _judged(self, labels: np.ndarray, level: int | None = None) -> dict[str, Any]:
        """What a summary is told, where these are the clusters of the fit."""
        estimator: Any = self
        of_fit = estimator.labels_ if level is None else estimator.labels_at(level)
        if not np.array_equal(labels, of_fit):
            return {"communities": estimator.pattern != "any"}
        return judged(estimator, None if level is None else estimator._level(level))
