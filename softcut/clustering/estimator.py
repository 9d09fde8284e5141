"""MinCutClustering: the scikit-learn estimator."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from softcut.clustering.batches import make_batches, nodes_per_step, rows_at_a_time
from softcut.clustering.fit import finish, matching, number
from softcut.clustering.model import Model, features_by_name, signature
from softcut.clustering.number import choose_k
from softcut.clustering.prepare import prepare, silence_rule, silent_nodes, without
from softcut.clustering.replicas import train_replicas
from softcut.clustering.settings import resolve
from softcut.clustering.storage import pack, unpack
from softcut.device import choose_device
from softcut.errors import ModelFileError, NotFittedError, ParameterError
from softcut.graph import Graph
from softcut.io import read_model, write_model
from softcut.training import Progress

__all__ = ["LOW_AGREEMENT", "MinCutClustering"]

# Below this mean adjusted Rand index between restarts a fit warns.
LOW_AGREEMENT = 0.1


class MinCutClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Cluster the nodes of a graph, by connection and by features, with the minCUT objective.

    R small networks are trained at once, half of them to minimise

    .. math::
        L_c + L_o = -\frac{Tr(S^T \tilde A S)}{Tr(S^T \tilde D S)}
        + \left\| \frac{S^T S}{\|S^T S\|_F} - \frac{I_K}{\sqrt K} \right\|_F

    and half of them to maximise the evidence, what a clustering explains of edges and features
    (:func:`softcut.metrics.evidence`). Their soft assignments are merged into one clustering, weighted by
    evidence. No labels are used anywhere.

    >>> import softcut as sc
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
    >>> est = sc.MinCutClustering(n_clusters=3, n_init=4, random_state=0).fit(graph)
    >>> est.labels_.shape, est.n_clusters_
    ((200,), 3)
    >>> bool((est.predict(graph) == est.labels_).all())
    True

    Parameters
    ----------
    n_clusters : int, range or "auto"
        K. A range (or list) of numbers, such as ``range(2, 21)``: the one with the highest product of what
        replicas explain and how well they agree; see :mod:`softcut.clustering.number`. "auto" is ``range(2, 13)``.
    n_init : int, optional
        Replicas, those of one objective trained together. None: the preset's (48; 10 for the paper's).
    select : {"consensus", "best"}, optional
        Merge the replicas, or take the best one (see `judge`). None: the preset's.
    hops : int or "auto"
        How often features are propagated before the networks see them; "auto": replicas read features
        propagated 0, 1, 2, 4, 8 or 16 times, and are weighted by what they explain.
    feature_graph : bool or float
        Weight of the nearest-neighbour graph of the features in the cut; True is 1, False is 0.
    n_neighbors : int
        Neighbours of each node in that graph.
    init : {"kmeans", "random"}
        "kmeans": each replica first learns a k-means of its own features, and L_o keeps it to those cluster sizes;
        "random": random weights and equal sizes, as in the paper.
    fusion : float
        Weight of the propagated features beside the replicas in the consensus.
    refine : bool
        Correct the consensus by each node's own features and by the clusters of its neighbours; a second time
        where that raises the evidence (see `judge`). Where clusters found from the edges alone have more
        evidence, those are taken for the nodes of the training graph; a note says so.
    n_components : int
        Features are reduced to this many columns.
    hidden : int, optional
        Hidden units of each network.
    temperature : float
        Of the softmax: below 1 harder, above 1 fuzzier assignments.
    objective : str, optional
        What replicas minimise: "trace_ratio" (the paper's cut), "ratio_trace" (the classic one), "dmon",
        "just_balance", "evidence", or several of them joined by "+", with as many replicas for each. None: the
        preset's ("trace_ratio+evidence"; "trace_ratio" in the paper's).
    judge : {"evidence", "agreement"}, optional
        What weighs replicas in the consensus: how much of the graph they explain
        (:func:`softcut.metrics.evidence`), or how well they agree with others. The best one is then the one with most
        evidence, or the one with the lowest loss; "agreement" refines once. None: the preset's ("evidence";
        "agreement" in the paper's).
    ortho_weight : float, optional
        Weight of L_o. None: the preset's (2, at which few replicas lose a cluster; 1 in the paper's).
    max_iter, learning_rate, tol : optional
        Of the training; None: the preset's. Training stops when no replica's loss improved by `tol`.
    batch : int or "auto", optional
        Nodes that one step of the training takes, for graphs that do not fit the device; see docs/mini-batches.md.
        None: all of them. "auto": as many as the budget of the device allows, where that is less than all.
    batch_parts : {"random", "metis"}
        The parts of the graph that batches are made of: drawn at random, or with few edges between them (METIS).
    preset : {"default", "paper"}
        "paper": the paper's model and settings (one message-passing layer, rows of X summing to one, Adam 5e-4
        for 10,000 iterations, no feature graph). Arguments that this model does not have are refused.
    random_state : int, None, RandomState or Generator
        An int gives the same result every time on one device; None a different one every time.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", ...
    verbose : bool
        Print progress and notes.
    callbacks : sequence of callables, optional
        Called with a :class:`softcut.training.Progress` every few iterations.

    Attributes
    ----------
    labels_ : array [N]
        Cluster of each node; clusters are numbered by size, largest first. After ``fit([g1, g2])``: of all
        nodes, one graph after another; :attr:`graph_labels_` has them graph by graph.
    soft_ : array [N, K]
        Soft clusters of the training nodes: rows sum to one, the largest entry is the label.
    n_clusters_ : int
        K.
    candidates_ : dict
        Score by number of clusters, where several were compared.
    replicas_ : list of Replica
        How each restart ended.
    history_ : dict
        "cut" and "ortho", each [iterations, replicas].
    agreement_ : float
        Mean adjusted Rand index between pairs of replicas.
    weights_ : array
        Weight of each replica in the consensus, of those that have one.
    interrupted_ : bool
        Whether Ctrl-C ended the training; the result is what was learnt until then.
    feature_names_in_ : array
        Names of the features, where they have some; `predict` matches columns by name.
    notes_ : list of str
        What was decided during the fit (budget, structural features, ...); printed when verbose.
    """

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = 8,
        *,
        n_init: int | None = None,
        select: str | None = None,
        hops: int | str = "auto",
        feature_graph: bool | float = True,
        n_neighbors: int = 15,
        init: str = "kmeans",
        fusion: float = 1.0,
        refine: bool = True,
        n_components: int = 64,
        hidden: int | None = None,
        temperature: float = 1.0,
        objective: str | None = None,
        judge: str | None = None,
        ortho_weight: float | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        tol: float | None = None,
        batch: int | str | None = None,
        batch_parts: str = "random",
        preset: str = "default",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callable[[Progress], None]] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.select = select
        self.hops = hops
        self.feature_graph = feature_graph
        self.n_neighbors = n_neighbors
        self.init = init
        self.fusion = fusion
        self.refine = refine
        self.n_components = n_components
        self.hidden = hidden
        self.temperature = temperature
        self.objective = objective
        self.judge = judge
        self.ortho_weight = ortho_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.batch = batch
        self.batch_parts = batch_parts
        self.preset = preset
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    # ---------------------------------------------------------------- fitting

    def fit(self, graph: Any, X: Any = None, y: Any = None) -> MinCutClustering:
        """Cluster a graph, or learn one clustering function for several.

        Parameters
        ----------
        graph : Graph, adjacency matrix, networkx graph, PyG Data, or a list of these
            What to cluster.
        X : array or sparse matrix, optional
            Node features, where `graph` is an adjacency matrix.
        y : ignored
        """
        began = time.perf_counter()
        self.notes_: list[str] = []
        whole = self._gather(graph, X)
        rule = silence_rule(whole)
        silent = silent_nodes(whole, rule)
        graph = without(whole, silent) if silent.any() and not silent.all() else whole
        settings, notes = resolve(self.get_params(deep=False), type(self).__init__, graph)
        for text in notes:
            self._note(text)
        if silent.any() and not silent.all():
            self._note(
                f"{int(silent.sum()):,} of {len(silent):,} nodes have neither edges nor features: they were left out "
                "and get the largest cluster, with the same probability for every cluster."
            )
        device = choose_device(self.device)
        nodes = nodes_per_step(graph, settings, device, self._note)
        prepared = prepare(graph, settings, device if nodes is None else torch.device("cpu"), self._note)
        batches = make_batches(prepared, nodes, settings, device, self._note)
        if len(settings.candidates) > 1:
            trained = choose_k(prepared, settings, self._note, self._watch(), batches)
        else:
            k = settings.candidates[0]
            trained = train_replicas(prepared, k, settings, self._note, self._watch(), batches=batches)
        done = finish(prepared, trained, settings, self._note)
        shown = done.soft if done.own is None else done.own
        order = number(shown)
        self._model = Model(
            net=done.selected.net,
            encoder=prepared.encoder,
            temperature=settings.temperature,
            consensus=done.consensus,
            refiners=done.refiners,
            order=order if done.own is None else matching(done.soft, shown)[order],
            positions=np.asarray(prepared.encoded.graph.x) if prepared.positional else None,
            signature=signature(whole),
            silence=rule,
        )
        inside = shown.cpu().numpy()[:, order]
        self.soft_ = inside if len(inside) == len(silent) else self._model.spread(inside, silent)
        self._model.own = None if done.own is None else self.soft_.copy()
        self.labels_ = self.soft_.argmax(1)
        self.n_clusters_ = trained.k
        self.n_features_in_ = prepared.encoded.graph.num_features
        self._remember_names(whole)
        self.candidates_ = trained.candidates
        self.replicas_ = trained.replicas
        self.agreement_ = trained.mean_agreement()
        self.weights_ = done.selected.weights.cpu().numpy()
        self.history_ = {"cut": trained.result.cut, "ortho": trained.result.ortho}
        self.n_iter_ = trained.result.iterations
        self.converged_ = trained.result.converged
        self.interrupted_ = trained.result.interrupted
        self._graph_sizes = whole.ptr
        self.fit_seconds_ = time.perf_counter() - began
        for text in self._doubts(bool(trained.full)):
            self._note(text)
            warnings.warn(text, stacklevel=2)
        return self

    def _doubts(self, found: bool) -> list[str]:
        """What speaks against taking the result for an answer."""
        doubts = []
        used = len(np.unique(self.labels_))
        if self.interrupted_:
            doubts.append(
                f"interrupted after {self.n_iter_} iterations; the result is what was learnt until then."
            )
        if not found:
            doubts.append(
                f"no clustering into {self.n_clusters_} was found: every restart left clusters empty, and {used} "
                f"{'is' if used == 1 else 'are'} used; ask for fewer clusters, or give features that tell nodes apart."
            )
        elif used < self.n_clusters_:
            doubts.append(f"only {used} of {self.n_clusters_} clusters are used; ask for fewer clusters.")
        if found and len(self.replicas_) > 1 and self.agreement_ < LOW_AGREEMENT:
            doubts.append(
                f"restarts hardly agree (mean adjusted Rand index {self.agreement_:.2f}): the data do not decide "
                "this clustering; try another number of clusters or other features."
            )
        return doubts

    def fit_predict(self, graph: Any, X: Any = None, y: Any = None) -> np.ndarray:
        """Fit, and return the labels."""
        return self.fit(graph, X, y).labels_

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
        if self._graph_sizes is None:
            return [self.labels_]
        return [self.labels_[a:b] for a, b in itertools.pairwise(self._graph_sizes)]

    # ------------------------------------------------------------- prediction

    def predict(self, graph: Any, X: Any = None) -> Any:
        """Clusters of the nodes of a graph, seen or unseen, by the learned function.

        A list of graphs gives a list of arrays. Where the clusters of the training graph were found from its edges
        (`notes_` says so), those are returned for it, whatever the values of its features.
        """
        soft = self.predict_proba(graph, X)
        return [part.argmax(1) for part in soft] if isinstance(soft, list) else soft.argmax(1)

    def predict_proba(self, graph: Any, X: Any = None) -> Any:
        """Soft clusters [N, K]; rows sum to one and the largest entry is what predict says."""
        self._check_fitted()
        several = isinstance(graph, list | tuple) and X is None
        graph = features_by_name(self._gather(graph, X), getattr(self, "feature_names_in_", None))
        out = self._model.known(graph)
        if out is None:
            out = self._model.apply(graph, choose_device(self.device), rows_at_a_time(self.batch))
            if self._model.own is not None:
                warnings.warn(
                    "the clusters of the training graph were found from its edges, without the networks; in this graph "
                    "(or the same one with its nodes in another order) the networks look for them, and may find less.",
                    stacklevel=2,
                )
        if several and graph.ptr is not None:
            return [out[a:b] for a, b in itertools.pairwise(graph.ptr)]
        return out

    # ---------------------------------------------------------------- storage

    def save(self, path: str | Path) -> Path:
        """Write the fitted model as ``<path>.safetensors`` and ``<path>.json``; loading runs no code.

        >>> import softcut as sc, tempfile
        >>> from softcut.datasets import attributed_communities
        >>> graph = attributed_communities(n_nodes=100, n_clusters=2, seed=0)
        >>> est = sc.MinCutClustering(2, n_init=2).fit(graph)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = est.save(folder + "/model")
        ...     again = sc.MinCutClustering.load(path)
        >>> bool((again.predict(graph) == est.labels_).all())
        True
        """
        self._check_fitted()
        return write_model(path, *pack(self, self._model, self._graph_sizes))

    @classmethod
    def load(cls, path: str | Path) -> MinCutClustering:
        """Read what :meth:`save` wrote; every field is checked first.

        A model fitted on a device that is not here computes on the one that is (``device="auto"``).
        """
        tensors, meta = read_model(path)
        try:
            est = unpack(cls, tensors, meta)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"{path}: the model is damaged or incomplete ({error}).") from error
        try:
            choose_device(est.device)
        except ParameterError:
            est._note(
                f"the model was fitted with device={est.device!r}, which is not here: device='auto' is used."
            )
            est.device = "auto"
        return est

    # ---------------------------------------------------------------- details

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("this MinCutClustering is not fitted yet; call fit first.")

    def _gather(self, graph: Any, X: Any) -> Graph:
        """One Graph (a batch, where several were given)."""
        if X is not None and np.ndim(X) == 1:
            # A Pipeline passes its y in second place; features are always a matrix.
            self._note("the second argument is one-dimensional: it was taken for y, which is not used.")
            X = None
        return Graph.from_any(graph, X)

    def _remember_names(self, graph: Graph) -> None:
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if graph.feature_names is not None:
            self.feature_names_in_: np.ndarray = np.asarray(graph.feature_names, dtype=object)

    def _note(self, text: str) -> None:
        if not hasattr(self, "notes_"):
            self.notes_ = []
        self.notes_.append(text)
        if self.verbose:
            print(text)

    def _watch(self) -> Callable[[Progress], None] | None:
        callbacks = [*(self.callbacks or ()), *([_print_progress] if self.verbose else ())]
        if not callbacks:
            return None

        def tell(progress: Progress) -> None:
            for callback in callbacks:
                callback(progress)

        return tell


def _print_progress(progress: Progress) -> None:
    if progress.iteration % 100 == 0 or progress.iteration == progress.iterations:
        print(
            f"iteration {progress.iteration} of at most {progress.iterations}: mean cut loss "
            f"{progress.cut.mean():.4f}, mean orthogonality loss {progress.ortho.mean():.4f}"
        )
