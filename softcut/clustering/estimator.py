"""MinCutClustering: the scikit-learn estimator."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from softcut.clustering.consensus import Consensus, agreement, replica_weights
from softcut.clustering.encoder import Encoder
from softcut.clustering.features import structural_features
from softcut.clustering.kmeans import kmeans_restarts
from softcut.clustering.neighbours import feature_graph, have_approximate
from softcut.clustering.refine import Refiner
from softcut.device import choose_device
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph import Graph
from softcut.io.model_files import read_model, write_model
from softcut.ops import CSR, OBJECTIVES, Operator, Sum
from softcut.training import (
    DenseInput,
    Progress,
    ReplicaNet,
    TrainResult,
    TrainSettings,
    replica_losses,
    replica_seeds,
    train,
)

__all__ = ["PRESETS", "MinCutClustering", "Replica"]


@dataclass(frozen=True)
class Preset:
    """Values used where the estimator's own argument is None."""

    n_init: int
    select: str
    max_iter: int
    learning_rate: float
    tol: float | None
    ortho_weight: float
    hidden: int = 16


PRESETS = {
    # One setting for every graph; docs/quality.md says how each part was found and what it gains.
    "default": Preset(
        n_init=32, select="consensus", max_iter=200, learning_rate=1e-2, tol=1e-3, ortho_weight=2.0
    ),
    # Section 5.1 of the paper: one message-passing layer, one softmax layer, Adam, a fixed number of steps.
    "paper": Preset(
        n_init=10, select="best", max_iter=10_000, learning_rate=5e-4, tol=None, ortho_weight=1.0
    ),
}

# Numbers held at a time by the training of all replicas (N R (H + K)), and pairs compared for an exact
# feature graph (N N F): what 2 CPU cores, or one GPU, do within seconds.
_LIMITS = {"cpu": (1 << 24, 1 << 37), "cuda": (1 << 30, 1 << 44)}
_CONSENSUS_ROWS = 50_000
# Agreements (adjusted Rand index) that differ by less count as equal in n_clusters="auto".
_AUTO_MARGIN = 0.015
# The smallest cluster a replica starts with or holds on to, as a share of the mean size.
_LEAST = 0.25


@dataclass(frozen=True)
class Replica:
    """How one restart ended: its losses, how many clusters it uses, whether it was left out."""

    seed: int
    cut: float
    ortho: float
    clusters_used: int
    collapsed: bool

    @property
    def loss(self) -> float:
        return self.cut + self.ortho


class MinCutClustering(ClusterMixin, BaseEstimator):
    r"""Cluster the nodes of a graph, by connection and by features, with the minCUT objective.

    R small networks are trained at once to minimise

    .. math::
        L_c + L_o = -\frac{Tr(S^T \tilde A S)}{Tr(S^T \tilde D S)}
        + \left\| \frac{S^T S}{\|S^T S\|_F} - \frac{I_K}{\sqrt K} \right\|_F

    and their soft assignments are merged into one clustering. No labels are used anywhere.

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
    n_clusters : int or "auto"
        K. "auto": the K in 2..`max_clusters` on which independent restarts agree best (the largest such K).
    n_init : int, optional
        Replicas, trained together. None: the preset's (32; 10 for the paper's).
    select : {"consensus", "best"}, optional
        Merge the replicas, or take the one with the lowest loss. None: the preset's.
    hops : int or "auto"
        How far features are propagated before the networks see them; "auto": replicas read 0, 1, 2, 4, 8 or
        16 hops, and are weighted by how well they agree.
    feature_graph : bool, float or "auto"
        Weight of the nearest-neighbour graph of the features in the cut; True is 1, False is 0.
    start : {"kmeans", "random"}
        "kmeans": each replica first learns a k-means of its own features, and L_o holds on to its cluster sizes;
        "random": random weights and equal sizes, as in the paper.
    n_neighbors : int
        Neighbours of each node in it.
    fusion : float
        Weight of the propagated features beside the replicas in the consensus.
    refine : bool
        Let each node's own features and its neighbours' clusters settle what the replicas leave open.
    dimensions : int
        Features are reduced to this many columns.
    hidden : int, optional
        Hidden units of each network.
    temperature : float
        Of the softmax: below 1 harder, above 1 fuzzier assignments.
    objective : {"trace_ratio", "ratio_trace"}
        The paper's cut loss, or the classic one.
    ortho_weight : float, optional
        Weight of L_o. None: the preset's (2, at which hardly a replica loses a cluster; 1 in the paper's).
    max_iter, learning_rate, tol : optional
        Of the training; None: the preset's. Training stops when no replica's loss improved by `tol`.
    max_clusters : int
        Largest K tried by ``n_clusters="auto"``.
    preset : {"default", "paper"}
        "paper": the paper's model and settings (one message-passing layer, rows of X summing to one, Adam 5e-4
        for 10,000 iterations, no feature graph).
    random_state : int
        Seed; the same seed gives the same result on one device.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", ...
    verbose : bool
        Show progress.
    callbacks : sequence of callables, optional
        Called with a :class:`softcut.training.Progress` now and then.

    Attributes
    ----------
    labels_ : array [N]
        Cluster of each node; clusters are numbered by size, largest first. After ``fit([g1, g2])``: of all
        nodes, one graph after another; :attr:`graph_labels_` has them graph by graph.
    n_clusters_ : int
        K.
    replicas_ : list of Replica
        How each restart ended.
    history_ : dict
        "cut" and "ortho", each [iterations, replicas].
    agreement_ : float
        Mean adjusted Rand index between pairs of replicas.
    weights_ : array
        Weight of each kept replica in the consensus.
    notes_ : list of str
        What was decided on the way (budget, structural features, ...); printed when verbose.
    """

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_init: int | None = None,
        select: str | None = None,
        hops: int | str = "auto",
        feature_graph: bool | float | str = "auto",
        start: str = "kmeans",
        n_neighbors: int = 15,
        fusion: float = 1.0,
        refine: bool = True,
        dimensions: int = 64,
        hidden: int | None = None,
        temperature: float = 1.0,
        objective: str = "trace_ratio",
        ortho_weight: float | None = None,
        max_iter: int | None = None,
        learning_rate: float | None = None,
        tol: float | None = None,
        max_clusters: int = 12,
        preset: str = "default",
        random_state: int = 0,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callable[[Progress], None]] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.select = select
        self.hops = hops
        self.feature_graph = feature_graph
        self.start = start
        self.n_neighbors = n_neighbors
        self.fusion = fusion
        self.refine = refine
        self.dimensions = dimensions
        self.hidden = hidden
        self.temperature = temperature
        self.objective = objective
        self.ortho_weight = ortho_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.max_clusters = max_clusters
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
        start = time.perf_counter()
        graph = _gather(graph, X)
        setting = self._resolve(graph)
        self.notes_: list[str] = []
        device = choose_device(self.device)
        work = _Work(graph, setting, device, self._note)
        if setting.k == "auto":
            self.candidates_ = work.agreement_by_k(self.max_clusters)
            # Of the numbers on which restarts agree (almost) best, the largest: it says most about the graph.
            best = max(self.candidates_.values())
            k = max(c for c, score in self.candidates_.items() if score >= best - _AUTO_MARGIN)
            self._note(
                f"n_clusters='auto' chose {k}: restarts agree best there (ARI {self.candidates_[k]:.2f})."
            )
        else:
            k = int(setting.k)
        self._run(work, k)
        self._graph_sizes = graph.ptr
        self.fit_seconds_ = time.perf_counter() - start
        return self

    def fit_predict(self, graph: Any, X: Any = None, y: Any = None) -> np.ndarray:
        """Fit, and return the labels."""
        return self.fit(graph, X).labels_

    def _run(self, work: _Work, k: int) -> None:
        setting = work.setting
        net, result = work.train(k, setting.n_init, self._watch(), setting.seed)
        if result.interrupted:
            warnings.warn(
                f"interrupted after {result.iterations} iterations; the result is what was learnt until then.",
                stacklevel=3,
            )
        if result.iterations == 0:
            raise KeyboardInterrupt
        s = net.assign(work.inputs, setting.temperature)
        hard = s.argmax(-1)
        used = [int(torch.unique(hard[:, r]).numel()) for r in range(net.replicas)]
        # Judged with equal sizes in L_o, so that replicas which held on to different ones can be compared.
        cut, ortho = (loss.tolist() for loss in replica_losses(work.op, s, setting.train.objective))
        self.replicas_ = [
            Replica(seed, cut[r], ortho[r], used[r], used[r] < k)
            for r, seed in enumerate(replica_seeds(setting.seed, net.replicas))
        ]
        keep = [r for r, replica in enumerate(self.replicas_) if not replica.collapsed]
        if len(keep) < net.replicas:
            lost = net.replicas - len(keep)
            if keep:
                self._note(
                    f"{lost} of {net.replicas} replicas used fewer than {k} clusters and were left out."
                )
            else:
                self._note(
                    f"all {lost} replicas used fewer than {k} clusters: the data hold no {k} that this finds; ask "
                    "for fewer clusters or give other features."
                )
        keep = keep or list(range(net.replicas))
        if setting.select == "best":
            keep = [min(keep, key=lambda r: self.replicas_[r].loss)]
        self._model = _Model(net.keep(keep), work.encoder, setting.temperature, None, work.positional)
        kept = s[:, keep]
        if setting.select == "consensus":
            n = s.shape[0]
            sample = _CONSENSUS_ROWS if n > _CONSENSUS_ROWS else None
            if sample:
                self._note(
                    f"consensus found on {sample:,} of {n:,} nodes; the others join the nearest centre."
                )
            nmi, _ = agreement(hard[:, keep], k)
            self._model.consensus = Consensus.fit(
                kept,
                work.z,
                k,
                scales=self._model.net.scales,
                weights=replica_weights(nmi),
                fusion=setting.fusion,
                sample=sample,
                random_state=setting.seed,
            )
        self._model.signature = _signature(work.graph)
        # Kept, not made again: eigenvectors come out with other signs on another machine.
        self._model.positions = np.asarray(work.graph.x) if work.positional else None
        inside = self._model.soft(kept, work.z, work.graph)
        if setting.refine:
            inside = self._model.fit_refiner(inside, work.graph, setting.seed)
            if self._model.refiner is None:
                self._note("no refinement: it would have emptied a cluster.")
        soft = self._model.number_by_size(inside)
        consensus = self._model.consensus
        self.weights_ = np.ones(1) if consensus is None else consensus.weights.cpu().numpy()
        self.n_clusters_ = k
        self.n_features_in_ = work.graph.num_features
        self.soft_ = soft
        self.labels_ = soft.argmax(1)
        self.history_ = {"cut": result.cut, "ortho": result.ortho}
        self.n_iter_ = result.iterations
        self.converged_ = result.converged
        self.agreement_ = _mean_agreement(hard, k)

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

        A list of graphs gives a list of arrays.
        """
        soft = self._apply(graph, X)
        return [part.argmax(1) for part in soft] if isinstance(soft, list) else soft.argmax(1)

    def predict_proba(self, graph: Any, X: Any = None) -> Any:
        """Soft clusters [N, K]; rows sum to one and the largest entry is what predict says."""
        return self._apply(graph, X)

    def _apply(self, graph: Any, X: Any) -> Any:
        self._check_fitted()
        several = isinstance(graph, list | tuple) and X is None
        graph = _gather(graph, X)
        model = self._model
        if model.encoder.structural:
            graph = graph.with_features(None)
        if model.positional:
            if _signature(graph) != model.signature:
                raise GraphError(
                    "graph is not the one the model was fitted on, which had no features: the structural features "
                    "made for it say where a node stands in that graph and mean nothing in another; give both "
                    "graphs features, or fit this one."
                )
            assert model.positions is not None
            graph = graph.with_features(model.positions)
        if graph.x is None:
            if model.encoder.structural:
                graph = graph.with_features(structural_features(graph, local=True))
            else:
                raise GraphError(
                    "graph has no features but the model was fitted with some; pass them as X (--features on the "
                    "command line)."
                )
        device = choose_device(self.device)
        inputs, z = model.encoder.to(device).apply(graph, device)
        s = model.net.to(device).assign(inputs, model.temperature)
        out = model.numbered(model.soft(s, z, graph))
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
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "callbacks"}
        meta = {
            "params": params,
            "n_clusters_": self.n_clusters_,
            "n_features_in_": self.n_features_in_,
            "notes_": self.notes_,
            "replicas_": [asdict(r) for r in self.replicas_],
            "agreement_": self.agreement_,
            "n_iter_": self.n_iter_,
            "converged_": self.converged_,
            "graph_sizes": None if self._graph_sizes is None else [int(p) for p in self._graph_sizes],
            "model": self._model.meta(),
        }
        tensors = {**self._model.tensors(), "labels": torch.from_numpy(self.labels_)}
        return write_model(path, tensors, meta)

    @classmethod
    def load(cls, path: str | Path) -> MinCutClustering:
        """Read what :meth:`save` wrote."""
        tensors, meta = read_model(path)
        try:
            return cls._restore(tensors, meta)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ModelFileError(f"the model at {path} is damaged or incomplete: {error}.") from error

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> MinCutClustering:
        est = cls(**meta["params"])
        for name in ("n_clusters_", "n_features_in_", "notes_", "agreement_", "n_iter_", "converged_"):
            setattr(est, name, meta[name])
        est.replicas_ = [Replica(**r) for r in meta["replicas_"]]
        est.labels_ = tensors.pop("labels").numpy()
        sizes = meta["graph_sizes"]
        est._graph_sizes = None if sizes is None else np.asarray(sizes)
        est._model = _Model.restore(tensors, meta["model"])
        return est

    # ---------------------------------------------------------------- details

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("this MinCutClustering is not fitted yet; call fit first.")

    def _note(self, text: str) -> None:
        self.notes_.append(text)
        if self.verbose:
            print(text)

    def _watch(self) -> Callable[[Progress], None] | None:
        callbacks = list(self.callbacks or [])
        if not callbacks:
            return None

        def tell(progress: Progress) -> None:
            for callback in callbacks:
                callback(progress)

        return tell

    def _resolve(self, graph: Graph) -> _Setting:
        """Check every argument against the graph, in one place; fill in the preset's values."""
        if self.preset not in PRESETS:
            raise ParameterError(f"preset must be one of {', '.join(PRESETS)}, got {self.preset!r}.")
        preset = PRESETS[self.preset]
        k: int | str
        if isinstance(self.n_clusters, str):
            if self.n_clusters != "auto":
                raise ParameterError(f"n_clusters must be a whole number or 'auto', got {self.n_clusters!r}.")
            k = "auto"
            _whole("max_clusters", self.max_clusters, 2)
        else:
            k = _whole("n_clusters", self.n_clusters, 1)
            if k > graph.num_nodes:
                raise ParameterError(
                    f"n_clusters is {k} but the graph has only {graph.num_nodes} nodes; ask for fewer clusters."
                )
        select = self.select or preset.select
        if select not in ("consensus", "best"):
            raise ParameterError(f"select must be 'consensus' or 'best', got {select!r}.")
        if self.objective not in OBJECTIVES:
            raise ParameterError(f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}.")
        if self.start not in ("kmeans", "random"):
            raise ParameterError(f"start must be 'kmeans' or 'random', got {self.start!r}.")
        if not isinstance(self.refine, bool):
            raise ParameterError(f"refine must be True or False, got {self.refine!r}.")
        paper = self.preset == "paper"
        hops = 0 if paper else self.hops
        if hops != "auto":
            hops = _whole("hops", hops, 0)
        weight = 0.0 if paper else self.feature_graph
        if isinstance(weight, str):
            if weight != "auto":
                raise ParameterError(
                    f"feature_graph must be True, False, a weight or 'auto', got {weight!r}."
                )
        else:
            weight = _number("feature_graph", float(weight), zero=True)
        return _Setting(
            k=k,
            n_init=_whole("n_init", preset.n_init if self.n_init is None else self.n_init, 1),
            select=select,
            hops=hops,
            feature_graph=weight,
            n_neighbors=_whole("n_neighbors", self.n_neighbors, 1),
            fusion=0.0 if paper else _number("fusion", self.fusion, zero=True),
            refine=self.refine and not paper,
            dimensions=_whole("dimensions", self.dimensions, 1),
            hidden=_whole("hidden", preset.hidden if self.hidden is None else self.hidden, 1),
            temperature=_number("temperature", self.temperature),
            seed=_whole("random_state", self.random_state, 0),
            paper=paper,
            warm=self.start == "kmeans" and not paper,
            train=TrainSettings(
                iterations=_whole("max_iter", preset.max_iter if self.max_iter is None else self.max_iter, 1),
                lr=_number("learning_rate", self.learning_rate or preset.learning_rate),
                temperature=_number("temperature", self.temperature),
                objective=self.objective,
                ortho_weight=_number(
                    "ortho_weight",
                    preset.ortho_weight if self.ortho_weight is None else self.ortho_weight,
                    zero=True,
                ),
                tolerance=preset.tol if self.tol is None else _number("tol", self.tol, zero=True),
            ),
        )


@dataclass(frozen=True)
class _Setting:
    """The estimator's arguments, checked and complete."""

    k: int | str
    n_init: int
    select: str
    hops: int | str
    feature_graph: float | str
    n_neighbors: int
    fusion: float
    refine: bool
    dimensions: int
    hidden: int
    temperature: float
    seed: int
    paper: bool
    warm: bool
    train: TrainSettings


class _Work:
    """One fit: the encoded graph, the cut operator, and training on them."""

    def __init__(
        self, graph: Graph, setting: _Setting, device: torch.device, note: Callable[[str], None]
    ) -> None:
        self.setting, self.device, self.note = setting, device, note
        structural = graph.num_features == 0 or _constant(graph.x)
        if structural:
            why = (
                "no features were given"
                if graph.num_features == 0
                else "the features are the same for every node"
            )
            what = (
                "slow modes of the graph"
                if graph.num_graphs == 1
                else "degrees near each node: roles, not communities"
            )
            note(f"{why}: made structural ones ({what}).")
        self.positional = structural and graph.num_graphs == 1
        if structural:
            graph = graph.with_features(structural_features(graph, local=not self.positional, random_state=0))
        self.graph = graph
        self.encoder = Encoder.fit(
            graph,
            paper=setting.paper,
            hops=setting.hops,
            dimensions=setting.dimensions,
            structural=structural,
            device=device,
        )
        self.inputs, self.z = self.encoder.apply(graph, device)
        self.op = self._cut_operator()

    def _cut_operator(self) -> Operator:
        """A~, plus the weighted feature graph where there is one."""
        setting, n = self.setting, self.graph.num_nodes
        op: Operator = CSR.from_graph(self.graph, device=self.device).normalise()
        weight = 1.0 if setting.feature_graph == "auto" else float(setting.feature_graph)
        if weight == 0 or self.positional:
            return op
        base = self.encoder.project(self.graph, self.device)
        _, most = _LIMITS[self.device.type if self.device.type in _LIMITS else "cpu"]
        approximate = n * n * base.shape[1] > most
        if approximate and not have_approximate():
            self.note(
                f"no feature graph: comparing all pairs of {n:,} nodes is too much (softcut[neighbours] can)."
            )
            return op
        if approximate:
            self.note(
                f"feature graph from approximate neighbours: {n:,} nodes are too many to compare all pairs."
            )
        other = feature_graph(
            base, setting.n_neighbors, approximate=approximate, random_state=setting.seed
        ).normalise()
        if self.graph.ptr is not None:
            other = CSR(other.pattern, other.val, layout=op.layout, symmetric=True, normalised=True)  # type: ignore[arg-type]
        return Sum([op, other], [1.0, weight]).normalise()

    def replicas(self, k: int, wanted: int) -> int:
        """As many replicas as the budget allows, and at least four (or as many as were asked for)."""
        limit, _ = _LIMITS[self.device.type if self.device.type in _LIMITS else "cpu"]
        n = max(1, self.graph.num_nodes)
        affordable = max(4, limit // (n * (self.setting.hidden + k)))
        if affordable < wanted:
            self.note(
                f"{affordable} replicas instead of {wanted}: {n:,} nodes, to stay within memory and time."
            )
        return min(wanted, affordable)

    def train(self, k: int, wanted: int, watch: Any, seed: int) -> tuple[ReplicaNet, TrainResult]:
        setting = self.setting
        replicas = self.replicas(k, wanted)
        scales = len(self.encoder.hops)
        # As many replicas for each distance; where there are few, they read the middle ones.
        order = sorted(range(scales), key=lambda i: abs(i - scales / 2))
        net = ReplicaNet(
            in_channels=self.inputs.in_channels,
            k=k,
            seeds=replica_seeds(seed, replicas),
            hidden=setting.hidden,
            terms=self.inputs.terms,
            scales=sorted(order[i % scales] for i in range(replicas)),
        ).to(self.device)
        start, sizes = self._start(net, k, seed) if setting.warm else (None, None)
        result = train(net, self.inputs, self.op, setting.train, watch, start=start, sizes=sizes)
        return net, result

    def _start(self, net: ReplicaNet, k: int, seed: int) -> tuple[Tensor, Tensor]:
        """Where each replica begins: a k-means of the features at its own scale, and its cluster sizes."""
        assert isinstance(self.inputs, DenseInput)
        n, labels = self.graph.num_nodes, []
        for scale, members in itertools.groupby(net.scales):
            count = len(list(members))
            z = self.inputs.z[scale]
            found, centres = kmeans_restarts(
                z, k, 2 * count, max_iter=30, least=_LEAST * n / k, random_state=seed + scale
            )
            error = (
                (z - centres.gather(1, found.unsqueeze(-1).expand(-1, -1, z.shape[1]))).square().sum((1, 2))
            )
            better = error.view(count, 2).argmin(1) + 2 * torch.arange(count, device=z.device)
            labels.append(found[better])
        start = torch.cat(labels)
        sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).to(z.dtype)
        return start, sizes.clamp(min=_LEAST * n / k)

    def agreement_by_k(self, most: int) -> dict[int, float]:
        """Mean agreement of a few restarts for every K from 2 on."""
        most = min(most, self.graph.num_nodes)
        scores = {}
        for k in range(2, max(2, most) + 1):
            net, _ = self.train(k, min(8, max(2, self.setting.n_init)), None, self.setting.seed)
            hard = net.assign(self.inputs, self.setting.temperature).argmax(-1)
            # Replicas that lost clusters agree easily: they do not count.
            full = [r for r in range(hard.shape[1]) if torch.unique(hard[:, r]).numel() == k]
            scores[k] = _mean_agreement(hard[:, full], k) if len(full) > 1 else 0.0
        return scores


class _Model:
    """What predicting needs: the kept replicas, the encoder, and the consensus."""

    def __init__(
        self,
        net: ReplicaNet,
        encoder: Encoder,
        temperature: float,
        consensus: Consensus | None,
        positional: bool,
        signature: str = "",
    ) -> None:
        self.net, self.encoder, self.temperature = net, encoder, temperature
        self.consensus, self.positional, self.signature = consensus, positional, signature
        self.refiner: Refiner | None = None
        self.positions: np.ndarray | None = None  # structural features of the training graph
        self.order = np.arange(net.k)  # the j-th largest cluster is number order[j] inside

    def soft(self, s: Tensor, z: Tensor, graph: Graph) -> Tensor:
        """Soft clusters [N, K] from the replicas' assignments, in the order inside."""
        out = s[:, 0] if self.consensus is None else self.consensus.to(s.device).proba(s, z)
        if self.refiner is None:
            return out
        op = CSR.from_graph(graph, device=s.device)
        return self.refiner.to(s.device).apply(self.encoder.project(graph, s.device), out, op)

    def fit_refiner(self, before: Tensor, graph: Graph, seed: int) -> Tensor:
        """Learn the last step from what the others say, and take it; left out if it would empty a cluster."""
        x, labels = self.encoder.project(graph, before.device), before.argmax(1)
        refiner = Refiner.fit(x, labels, len(self.order), seed)
        after = refiner.apply(x, before, CSR.from_graph(graph, device=before.device))
        if torch.unique(after.argmax(1)).numel() < torch.unique(labels).numel():
            return before
        self.refiner = refiner
        return after

    def numbered(self, soft: Tensor) -> np.ndarray:
        """Columns in the order people see."""
        return soft.cpu().numpy()[:, self.order]

    def number_by_size(self, soft: Tensor) -> np.ndarray:
        """Give cluster 0 to the largest cluster of the training nodes, and so on."""
        sizes = np.bincount(soft.argmax(1).cpu().numpy(), minlength=len(self.order))
        self.order = np.argsort(-sizes, kind="stable")
        return self.numbered(soft)

    def meta(self) -> dict[str, Any]:
        return {
            "net": self.net.meta(),
            "encoder": self.encoder.meta(),
            "temperature": self.temperature,
            "positional": self.positional,
            "signature": self.signature,
            "consensus": self.consensus is not None,
            "refiner": self.refiner is not None,
            "order": self.order.tolist(),
        }

    def tensors(self) -> dict[str, Tensor]:
        parts = {f"net.{k}": v for k, v in self.net.state_dict().items()}
        parts |= {f"encoder.{k}": v for k, v in self.encoder.tensors().items()}
        if self.consensus is not None:
            parts |= {f"consensus.{k}": v for k, v in vars(self.consensus).items()}
        if self.refiner is not None:
            parts |= {f"refiner.{k}": v for k, v in vars(self.refiner).items()}
        if self.positions is not None:
            parts["positions"] = torch.from_numpy(self.positions)
        return parts

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> _Model:
        def part(prefix: str) -> dict[str, Tensor]:
            return {k[len(prefix) + 1 :]: v for k, v in tensors.items() if k.startswith(prefix + ".")}

        consensus = Consensus(**part("consensus")) if meta["consensus"] else None
        model = cls(
            ReplicaNet.restore(meta["net"], part("net")),
            Encoder.restore(meta["encoder"], part("encoder")),
            meta["temperature"],
            consensus,
            meta["positional"],
            meta["signature"],
        )
        model.refiner = Refiner(**part("refiner")) if meta["refiner"] else None
        model.positions = tensors["positions"].numpy() if meta["positional"] else None
        model.order = np.asarray(meta["order"], dtype=np.int64)
        return model


def _gather(graph: Any, X: Any) -> Graph:
    """One Graph (a batch, where several were given)."""
    if isinstance(graph, list | tuple) and X is None and all(not np.isscalar(g) for g in graph):
        if not graph:
            raise GraphError("graph is an empty list; give at least one graph.")
        return Graph.batch([Graph.from_any(g) for g in graph])
    return Graph.from_any(graph, X)


def _constant(x: Any) -> bool:
    """Whether every node has the same features."""
    first = x[[0]]
    if sp.issparse(x):
        return bool(abs(x - sp.csr_array(np.ones((x.shape[0], 1))) @ sp.csr_array(first)).max() == 0)
    return bool((x == first).all())


def _signature(graph: Graph) -> str:
    """Recognises the training graph again (only its shape and edges, not its features)."""
    import hashlib

    adjacency = graph.adjacency
    digest = hashlib.sha256(np.ascontiguousarray(adjacency.indptr, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.indices, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.data, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _mean_agreement(hard: Tensor, k: int) -> float:
    """Mean adjusted Rand index over pairs of replicas."""
    r = hard.shape[1]
    if r == 1:
        return 1.0
    _, ari = agreement(hard, k)
    return float((ari.sum() - ari.diagonal().sum()) / (r * (r - 1)))


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def _number(name: str, value: Any, zero: bool = False) -> float:
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < 0 or (value == 0 and not zero):
        raise ParameterError(
            f"{name} must be a {'non-negative' if zero else 'positive'} number, got {value!r}."
        )
    return float(value)
