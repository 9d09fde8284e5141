"""GraphClustering, the scikit-learn estimator, and MinCutClustering, the paper's model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut import sklearn_base as sk
from softcut.clustering.arguments import (
    LIMITS,
    batch_size_from,
    callables,
    candidates_from,
    one_of,
    recipe_from,
    scale_from,
    seed_from,
    sizes_from,
)
from softcut.clustering.doubts import doubts
from softcut.clustering.earlier import earlier_clusters, with_earlier_ids
from softcut.clustering.fit_task import FitTask, Fitted, Levels
from softcut.clustering.fitting import fit
from softcut.clustering.model import (
    LearnedModel,
    PlacedModel,
    by_graph,
    features_by_name,
    labels_of,
    notes_of_columns,
    notes_of_edges,
)
from softcut.clustering.recipe import DEFAULT, PAPER, Recipe
from softcut.clustering.showing import ShowsClusters
from softcut.clustering.storage import pack, unpack
from softcut.communities.tree import inside_shares, tree_of
from softcut.device import choose_device
from softcut.errors import ModelFileError, Note, NotFittedError, ParameterError
from softcut.graph import Graph
from softcut.io.model_files import CLASSIFIER, one_line, read_model, what_it_is, write_model
from softcut.metrics import evidence
from softcut.tables.arrays import as_array, warn_caller
from softcut.tables.columns import FeatureOptions
from softcut.tables.frames import NodeTable, is_frame
from softcut.tables.schema import TableSchema
from softcut.training import Progress, TrainResult

_OF_NETWORKS = ("objective", "n_init", "max_iter", "learning_rate", "batch_size")  # arguments
_CHUNK = 1 << 16  # nodes that are labelled at a time where the batch is automatic


class GraphClustering(
    ShowsClusters, sk.ClassNamePrefixFeaturesOutMixin, sk.TransformerMixin, sk.ClusterMixin, sk.BaseEstimator
):
    r"""Cluster the nodes of a graph, by connection and by features.

    Without a number of clusters the scale that stands out is taken, and levels around it (`tree_`). By edges alone
    these are communities, found by local moves at several resolutions; a number of them is reached by merges and moves.
    Where nodes have features, a few small networks read them from several distances and are trained to maximise the
    evidence, what a clustering explains of edges and features (:func:`softcut.metrics.evidence`). Their soft
    assignments are merged into one clustering, weighted by evidence, which each node's own features and its
    neighbours then correct. No labels are used anywhere, and `verdict_` says when there is nothing to find.

    >>> import softcut as sc
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
    >>> est = sc.GraphClustering(n_clusters=3, random_state=0).fit(graph)
    >>> est.labels_.shape, est.n_clusters_, est.structure_ > 1
    ((200,), 3, True)
    >>> bool((est.predict(graph) == est.labels_).all())
    True

    Parameters
    ----------
    n_clusters : int, range or "auto", optional
        K. None or "auto": the scale that stands out, and levels around it; one cluster where the verdict is "none".
        A range (or list) of numbers, such as ``range(2, 21)``: the one with the highest product of what
        clusterings explain and how well they agree; see :func:`softcut.clustering.numbers.candidate`.
    scale : "coarse", "fine" or float, optional
        Without a number of clusters: the coarsest or the finest level in place of the one that stands out or, by edges
        alone, the resolution of modularity.
    min_size, max_size : int, optional
        Nodes of a cluster, by edges alone. Larger ones are divided; smaller ones join the neighbour with most edges to
        them that has room.
    pattern : "communities" or "any"
        By edges alone and with a number of clusters: "any" also finds clusters that keep no edges inside, such as roles
        or the two sides of a bipartite graph.
    use : "edges" or "both", optional
        What to read. None: edges and features, but the edges alone of a graph that softcut made from rows of numbers.
    objective : str, optional
        What networks minimise: "evidence" (its negative), "mincut" (the paper's cut), "ratio_trace" (the classic
        one), "dmon" or "just_balance". None, here and below: the recipe's.
    n_init, max_iter, learning_rate : optional
        Networks, trained together (24, fewer on very large graphs), iterations and step size of the training.
    batch_size : int or "auto", optional
        Nodes that one step of the training takes, for graphs that do not fit the device; see docs/mini-batches.md.
        None: all of them. "auto": as many as the budget of the device allows, where that is less than all.
    random_state : int, None, RandomState or Generator
        An int gives the same result every time on one device; None a different one every time.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", ... Clusters of the edges are found on the CPU.
    verbose : bool
        Print progress and notes.
    callbacks : sequence of callables, optional
        Called with a :class:`softcut.training.Progress` every few iterations. Where several numbers of clusters are
        compared, those that have a method ``comparing(k, numbers)`` are told which one is looked at.
    recipe : Recipe, optional
        Every other constant (:class:`softcut.clustering.Recipe`), for ablations. None: the defaults.

    Attributes
    ----------
    labels_ : array [N]
        Cluster of each node; clusters are numbered by size, largest first. -1: a node with neither edges nor features.
        Several graphs come one after another; :attr:`graph_labels_` has them graph by graph.
    soft_ : array [N, K]
        Soft clusters of the training nodes: rows sum to one, the largest entry is the label; 1/K where that is -1.
        Of more than 2^26 numbers a sparse matrix, in which such rows are empty.
    n_clusters_ : int
        K.
    tree_ : Tree or None
        Nested levels, coarse to fine: columns level, id, parent, size, inside (share of the edges inside), and
        ``to_frame()``. None for several graphs and the paper's model.
    level_ : int
        The level of `labels_`; :meth:`labels_at` has the others.
    scales_ : Scales or None
        By edges alone: the resolutions that were compared, with number of communities, modularity, that of random
        graphs and agreement of seeds; ``to_frame()`` and ``plot()``.
    verdict_ : {"none", "weak", "clear"}
        Whether the graph has clusters ("unknown" where Ctrl-C came before the answer). By edges alone, from its
        distance to random graphs with the same degrees: `deviations_`, in their standard deviations, and `surplus_`, of
        modularity. With features, from `structure_`.
    structure_ : float
        Nats that the clusters explain of edges and features for each nat it takes to describe them (below 1 they
        cost more than they explain).
    candidates_ : dict
        For each number of clusters, where several were compared: "score" (the highest is taken), "structure",
        "agreement" of restarts, "description_length" in nats, and "iterations" of networks (0: none were trained).
    replicas_, weights_ : list of Replica, array
        How each network ended (empty for graphs without features), and the weights of those in the consensus.
    history_ : dict
        "cut" and "ortho", the two terms of the objective, each [iterations, networks].
    agreement_ : float
        Mean adjusted Rand index between pairs of networks, or of clusterings from several starts.
    interrupted_ : bool
        Whether Ctrl-C ended the training; the result is what was learnt until then.
    feature_names_in_ : array
        Names of the features, where they have some; `predict` matches columns by name.
    node_names_ : array [N]
        Names of the training nodes, in the order of `labels_`; their numbers where they have none.
    schema_ : TableSchema or None
        What each column of a table of features was taken for; `predict` reads another table the same way.
    notes_ : list of Note
        What was decided during the fit, which way the labels were found first, and what columns were taken for:
        sentences, each with a ``code`` and ``values`` (plain sentences in a loaded model). Printed when verbose.
    """

    _recipe = DEFAULT

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] | None = None,
        *,
        scale: str | float | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        pattern: str = "communities",
        use: str | None = None,
        objective: str | None = None,
        n_init: int | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | str | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callable[[Progress], None]] | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.scale = scale
        self.min_size = min_size
        self.max_size = max_size
        self.pattern = pattern
        self.use = use
        self.objective = objective
        self.n_init = n_init
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks
        self.recipe = recipe

    # ---------------------------------------------------------------- fitting

    def fit(self, graph: Any, X: Any = None, y: Any = None, *, start: Any = None) -> Any:
        """Cluster a graph, or learn one clustering function for a list of graphs.

        Parameters
        ----------
        graph, X
            A Graph, an adjacency matrix, which `X` gives node features to, a networkx graph, PyG Data or data frames.
        y
            Ignored.
        start : GraphClustering, dict, Series, array or path, optional
            Earlier clusters of a graph that has changed since: a fitted estimator, clusters by name of the node, or a
            labels.csv. By edges alone the search begins from them; clusters that persist keep their numbers, and a note
            says which were born, merged, split or died.

        >>> import softcut as sc
        >>> two = sc.Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
        >>> sc.GraphClustering(scale=1).fit(two, start=[7, 7, 7, 3, 3, 3]).labels_.tolist()
        [7, 7, 7, 3, 3, 3]
        """
        began = time.perf_counter()
        self.notes_: list[Note] = []
        whole = self._gather(graph, X)
        task = self._task(whole, start)
        fitted = fit(whole, task)
        self._keep(fitted, whole, task)
        table = is_frame(graph[0] if isinstance(graph, tuple) and graph else graph)
        for note in (*notes_of_columns(whole, task.recipe.paper), *(notes_of_edges(whole) if table else ())):
            self._note(note)
        self.fit_seconds_ = time.perf_counter() - began
        for doubt in doubts(fitted, self.labels_, task):
            self._note(doubt)
            warnings.warn(doubt, stacklevel=2)
        return self

    def _task_recipe(self) -> Recipe:
        """The recipe with the arguments of this estimator in place."""
        base = self.recipe or self._recipe
        return recipe_from(base, self.objective, self.n_init, self.max_iter, self.learning_rate)

    def _check_arguments(self) -> None:
        """Refuse what no fit could take; of a loaded model, whose graph is not here."""
        recipe = self._task_recipe()
        most = candidates_from(self.n_clusters, LIMITS["n_clusters"], recipe)[-1]
        sizes_from(self.min_size, self.max_size, None, most)
        seed_from(self.random_state)
        batch_size_from(self.batch_size, recipe.objective)
        choose_device(self.device)
        scale_from(self.scale, self.n_clusters)
        one_of("pattern", self.pattern, "communities", "any")
        one_of("use", self.use, None, "edges", "both")

    def _task(self, whole: Graph, start: Any = None) -> FitTask:
        """The arguments, checked, for a graph."""
        recipe, nodes = self._task_recipe(), whole.num_nodes
        numbers = candidates_from(self.n_clusters, nodes, recipe)
        is_open = self.n_clusters is None or isinstance(self.n_clusters, str)
        smallest, largest = sizes_from(self.min_size, self.max_size, None if is_open else numbers, nodes)
        if start is not None and not is_open:
            raise ParameterError(
                "start keeps the scale of the earlier clusters: leave n_clusters out.", argument="start"
            )
        return FitTask(
            numbers=numbers,
            open=is_open,
            recipe=recipe,
            seed=seed_from(self.random_state),
            batch_size=batch_size_from(self.batch_size, recipe.objective),
            device=choose_device(self.device),
            tell=self._note,
            callback=self._tell_progress if callables(self.callbacks) or self.verbose else None,
            comparing=lambda k: self._tell_number(k, numbers),
            scale=scale_from(self.scale, self.n_clusters),
            smallest=smallest,
            largest=largest,
            pattern=one_of("pattern", self.pattern, "communities", "any"),
            use=one_of("use", self.use, None, "edges", "both"),
            start=None if start is None else earlier_clusters(start, whole),
            of_networks={name: getattr(self, name) for name in _OF_NETWORKS},
        )

    def _keep(self, fitted: Fitted, whole: Graph, task: FitTask) -> None:
        """What a fit found, as attributes."""
        assert fitted.model is not None
        self._model, self.soft_ = fitted.model, fitted.soft
        self.labels_ = labels_of(fitted.soft, fitted.silent)
        self.n_clusters_ = self.soft_.shape[1]
        self.n_features_in_, self.schema_ = whole.num_features, whole.schema
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if whole.feature_names is not None:
            self.feature_names_in_: np.ndarray = np.asarray(whole.feature_names, dtype=object)
        names = whole.node_names
        self.node_names_ = np.arange(whole.num_nodes) if names is None else np.asarray(names, dtype=object)
        self.structure_, self.verdict_ = float(fitted.evidence.structure), fitted.verdict
        self.deviations_, self.surplus_ = fitted.deviations, fitted.surplus
        self.candidates_, self.agreement_, self.weights_ = fitted.candidates, fitted.agreement, fitted.weights
        self.scales_ = fitted.scales
        self.levels_, self.tree_, self.level_ = None, None, 0
        if fitted.levels is not None and whole.num_graphs == 1 and not task.recipe.paper:
            labels = fitted.levels.labels
            inside = [inside_shares(whole.adjacency, each) for each in labels]
            self.levels_, self.level_ = fitted.levels, fitted.levels.chosen
            self.tree_ = tree_of(labels, inside)
        if task.start is not None:
            self._keep_ids(task.start.labels, whole)
        self.replicas_, result = [], TrainResult(np.zeros((0, 0)), np.zeros((0, 0)), 1, True, False)
        if fitted.networks is not None:
            self.replicas_, result = fitted.networks.replicas, fitted.networks.result
        self.history_ = {"cut": result.cut, "ortho": result.ortho}
        self.n_iter_, self.converged_ = result.iterations, result.converged
        self.interrupted_ = fitted.interrupted
        self._graph, self._graph_sizes = whole, whole.ptr  # a model file keeps the sizes only
        edges, told = float(fitted.evidence.edges), fitted.evidence.told
        features = float(fitted.evidence.features if told is None else told)
        if fitted.deviations is None and min(edges, features) < 0 < max(edges, features):
            less, more = ("features", "edges") if features < 0 else ("edges", "features")
            said = f"the {less} say nothing about these clusters: the verdict is that of the {more}."
            self._note(Note("verdict_of", said, source=more))

    def _keep_ids(self, earlier: np.ndarray, whole: Graph) -> None:
        """Clusters that persist keep the numbers that they had."""
        new, note = with_earlier_ids(self.labels_, earlier)
        self._note(note)
        ids = np.arange(self.n_clusters_)
        placed = self.labels_ >= 0
        ids[self.labels_[placed]] = new[placed]
        if isinstance(self._model, LearnedModel):  # a function of K clusters: their numbers are 0 to K - 1
            free = sorted(set(range(len(ids))) - set(ids.tolist()), reverse=True)
            ids = np.array([each if each < len(ids) else free.pop() for each in ids.tolist()])
            new = np.where(placed, ids[self.labels_], -1)
        self._model = self._model.renumbered(ids)
        count = int(ids.max()) + 1
        if sp.issparse(self.soft_):
            soft = sp.csr_array(self.soft_)
            self.soft_ = sp.csr_array((soft.data, ids[soft.indices], soft.indptr), shape=(len(new), count))
        else:
            soft = np.zeros((len(new), count), dtype=self.soft_.dtype)
            soft[:, ids] = self.soft_
            soft[~placed] = 1 / count
            self.soft_ = soft
        self.labels_, self.n_clusters_ = new, count
        if self.levels_ is not None:
            levels = self.levels_.labels.copy()
            levels[self.level_] = new
            self.levels_ = replace(self.levels_, labels=levels)
            inside = [inside_shares(whole.adjacency, each) for each in levels]
            self.tree_ = tree_of(levels, inside)

    def labels_at(self, level: int) -> np.ndarray:
        """Labels [N] of a level of `tree_`: 0 is the coarsest, -1 the finest, as in a list.

        >>> import networkx as nx, softcut as sc
        >>> est = sc.GraphClustering().fit(nx.les_miserables_graph())
        >>> bool((est.labels_at(est.level_) == est.labels_).all())
        True
        """
        return self._levels().labels[self._level(level)]

    def _levels(self) -> Levels:
        self._check_fitted()
        if self.levels_ is None:
            raise ParameterError(
                "level was given, but several graphs, and the paper's model, have one level only; leave it out.",
                argument="level",
            )
        return self.levels_

    def _level(self, level: Any) -> int:
        """The number of a level from 0 on."""
        count = len(self._levels().labels)
        if isinstance(level, bool) or not isinstance(level, int | np.integer) or not -count <= level < count:
            raise ParameterError(
                f"level must be a whole number from 0 (coarse) to {count - 1} (fine), got {level!r}.",
                argument="level",
            )
        return int(level) % count

    def fit_predict(self, graph: Any, X: Any = None, y: Any = None, *, start: Any = None) -> np.ndarray:
        """Fit, and return the labels."""
        return self.fit(graph, X, y, start=start).labels_

    def fit_transform(self, graph: Any, X: Any = None, y: Any = None) -> np.ndarray:
        """Fit, and return the soft clusters of the training nodes, [N, K]."""
        return self.fit(graph, X, y).soft_

    def transform(self, graph: Any, X: Any = None) -> Any:
        """Soft clusters [N, K]: the same as :meth:`predict_proba`, for a scikit-learn pipeline."""
        return self.predict_proba(graph, X)

    @property
    def _n_features_out(self) -> int:
        """Columns of :meth:`transform`."""
        return self.n_clusters_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True  # an adjacency matrix: rows and columns are nodes
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags

    @property
    def graph_labels_(self) -> list[np.ndarray]:
        """Labels graph by graph."""
        self._check_fitted()
        return [self.labels_] if self._graph_sizes is None else by_graph(self.labels_, self._graph_sizes)

    # ------------------------------------------------------------- prediction

    def predict(self, graph: Any, X: Any = None, *, level: int | None = None) -> Any:
        """Clusters of the nodes of a graph, seen or unseen; a list of arrays for a list of graphs.

        A node with neither edges nor features has the label -1. `level` is a level of `tree_`, None the chosen one.
        Of a graph without features nothing but its own clusters was learned: they are returned for that graph, and for
        one that has its nodes by name, where new nodes follow their neighbours. Rows of numbers get the clusters of
        their nearest rows.
        """
        return self.assign(graph, X, level=level)[0]

    def predict_proba(self, graph: Any, X: Any = None, *, level: int | None = None) -> Any:
        """Soft clusters [N, K]; rows sum to one and the largest entry is what predict says (1/K where that is -1)."""
        return self.assign(graph, X, level=level)[1]

    def assign(self, graph: Any, X: Any = None, *, level: int | None = None) -> tuple[Any, Any]:
        """What :meth:`predict` and :meth:`predict_proba` return, from one pass over the graph."""
        self._check_fitted()
        level = None if level is None else self._level(level)
        several = isinstance(graph, list | tuple) and X is None
        if several and all(
            isinstance(each, Graph) for each in graph
        ):  # their tables may have other columns each
            graph = [self._matched(each) for each in graph]
        graph = self._matched(self._gather(graph, X, self.schema_))
        rows = _CHUNK if isinstance(self.batch_size, str) else self.batch_size
        soft, silent = self._model.apply(graph, choose_device(self.device), rows, level)
        ptr = graph.ptr if several else None
        return by_graph(labels_of(soft, silent), ptr), by_graph(soft, ptr)

    def score(self, graph: Any, X: Any = None, y: Any = None) -> float:
        """Evidence of what :meth:`predict` says about a graph (:func:`softcut.metrics.evidence`): higher is better.

        It compares clusterings of one graph, into one number of clusters or several (``n_clusters="auto"`` weighs how
        well restarts agree, too); `y` is ignored. A search takes the whole graph as training and as test part.

        >>> import numpy as np, softcut as sc
        >>> from sklearn.model_selection import GridSearchCV
        >>> from softcut.datasets import attributed_communities
        >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
        >>> nodes = np.arange(graph.num_nodes)
        >>> search = GridSearchCV(sc.GraphClustering(), {"n_clusters": [2, 3, 5]}, cv=[(nodes, nodes)])
        >>> search.fit(graph).best_params_
        {'n_clusters': 3}
        """
        whole = self._gather(graph, X)
        labels = self.predict(whole)
        known = labels >= 0  # nodes without edges and features have no cluster
        if not known.any():
            return 0.0
        return evidence(whole if known.all() else whole.subgraph(known), labels[known])

    # ---------------------------------------------------------------- storage

    def save(self, path: str | Path) -> Path:
        """Write the model as ``<path>.safetensors``, which replaces an older model only; loading runs no code.

        >>> import softcut as sc, tempfile
        >>> from softcut.datasets import attributed_communities
        >>> graph = attributed_communities(n_nodes=100, n_clusters=2, seed=0)
        >>> est = sc.GraphClustering(2).fit(graph)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = est.save(folder + "/model")
        ...     again = sc.GraphClustering.load(path)
        >>> bool((again.predict(graph) == est.labels_).all())
        True
        """
        self._check_fitted()
        return write_model(path, *pack(self))

    @classmethod
    def load(cls, path: str | Path) -> Any:
        """Read what :meth:`save` wrote; every field is checked first. A model of a subclass comes back as one.

        A model fitted on a device that is not here computes on the one that is (``device="auto"``).
        """
        tensors, meta = read_model(path)
        name = meta.get("class")
        kind = next((each for each in (GraphClustering, MinCutClustering) if each.__name__ == name), None)
        if kind is None or not issubclass(kind, cls):
            if meta.get("kind") == CLASSIFIER:
                raise ModelFileError(f"{path} is {what_it_is(meta)}")
            raise ModelFileError(f"{path}: the model is a {str(name)[:40]}, not a {cls.__name__}.")
        try:
            return unpack(kind, tensors, meta)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"{path} is damaged or incomplete ({one_line(error)}).") from error

    # ---------------------------------------------------------------- details

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")

    def _gather(self, graph: Any, X: Any, schema: TableSchema | None = None) -> Graph:
        """One Graph (a batch, where several were given); the columns of a data frame are what `schema` says."""
        # A Pipeline passes its y in second place; floats are a feature, which the graph refuses.
        if np.ndim(X) == 1 and not sp.issparse(X) and as_array(X, "X").dtype.kind != "f":
            said = (
                "the second argument has one dimension: it was taken for y (labels), which clustering does not use; "
                "features (X) are a matrix."
            )
            self._note(Note("y_not_used", said))
            warn_caller(said)
            X = None
        if X is None and isinstance(graph, tuple) and len(graph) == 2 and is_frame(graph[1]):
            graph, X = graph
        if schema is None or not is_frame(X):
            return Graph.from_any(graph, X)
        made = Graph.from_any(graph, NodeTable(X, FeatureOptions(schema=schema)))
        self._tell_once(notes_of_columns(made))
        return made

    def _matched(self, graph: Graph) -> Graph:
        """The graph with the features of the fit."""
        if isinstance(self._model, PlacedModel):
            return graph
        graph, notes = features_by_name(graph, getattr(self, "feature_names_in_", None), self.schema_)
        self._tell_once(notes)
        return graph

    def _tell_once(self, notes: Sequence[Note]) -> None:
        """Notes of a prediction; values that cannot count are worth a warning."""
        for note in notes:
            if note not in self.notes_:
                self._note(note)
            if note.code == "unknown_values":
                warn_caller(str(note))

    def _note(self, note: Note) -> None:
        if not hasattr(self, "notes_"):
            self.notes_ = []
        self.notes_.append(note)
        if self.verbose:
            print(note)

    def _tell_number(self, k: int, numbers: Sequence[int]) -> None:
        for callback in self.callbacks or ():
            if hasattr(callback, "comparing"):
                callback.comparing(k, numbers)
        if self.verbose:
            print(f"comparing {numbers[0]} to {numbers[-1]} clusters: {k}")

    def _tell_progress(self, progress: Progress) -> None:
        for callback in self.callbacks or ():
            callback(progress)
        if self.verbose:
            print(
                f"iteration {progress.iteration} of at most {progress.iterations}: mean loss "
                f"{progress.cut.mean():.4f}, mean orthogonality loss {progress.ortho.mean():.4f}"
                + (f"; at most {progress.seconds_left:.0f} s left" if progress.seconds_left >= 5 else "")
            )


class MinCutClustering(GraphClustering):
    r"""The paper's model and settings: one network, chosen from ten by its loss.

    One message-passing layer and one softmax layer (eq. 1) on rows of X that sum to one, trained by Adam for 10,000
    iterations to minimise

    .. math::
        L_c + L_o = -\frac{Tr(S^T \tilde A S)}{Tr(S^T \tilde D S)}
        + \left\| \frac{S^T S}{\|S^T S\|_F} - \frac{I_K}{\sqrt K} \right\|_F

    See :class:`GraphClustering` for a clusterer that needs a hundredth of the time and finds more.

    >>> import softcut as sc
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
    >>> sc.MinCutClustering(3, n_init=2, max_iter=100).fit(graph).labels_.shape
    (200,)

    Arguments and attributes are those of :class:`GraphClustering`; None: the paper's (10 networks, 10,000 iterations,
    step size 5e-4).
    """

    _recipe = PAPER

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = 8,
        *,
        n_init: int | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callable[[Progress], None]] | None = None,
    ) -> None:
        # scikit-learn reads the arguments of an estimator from its own constructor.
        training: dict[str, Any] = {"n_init": n_init, "max_iter": max_iter, "learning_rate": learning_rate}
        running: dict[str, Any] = {"device": device, "verbose": verbose, "callbacks": callbacks}
        super().__init__(n_clusters, random_state=random_state, **training, **running)
