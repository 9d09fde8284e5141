"""What predicting needs: a function learned by networks, or the clusters of one graph that has no features."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from softcut.clustering.consensus import Consensus, Refiner
from softcut.clustering.node_features import structural_features
from softcut.clustering.prepare import Encoder, silent_nodes, without
from softcut.errors import Argument, GraphError, Note, ParameterError
from softcut.graph import Graph
from softcut.tables.arrays import listed, warn_caller
from softcut.tables.kinds import kinds_note
from softcut.tables.scaling import LIMIT, centre_and_scale
from softcut.tables.schema import TableSchema
from softcut.training import ReplicaNet, assign_in_chunks


def spread(soft: np.ndarray, silent: np.ndarray) -> np.ndarray:
    """Soft clusters of all nodes from those of the nodes with data; nodes without have 1/K for each cluster."""
    out = np.full((len(silent), soft.shape[1]), 1 / soft.shape[1], dtype=soft.dtype)
    out[~silent] = soft
    return out


def labels_of(soft: Any, silent: np.ndarray) -> np.ndarray:
    """The most probable cluster of each node; -1, as scikit-learn marks noise, for nodes without data."""
    return np.where(silent, -1, np.asarray(soft.argmax(1)).ravel())


def by_graph(rows: np.ndarray, ptr: np.ndarray | None) -> Any:
    """Rows graph by graph, where graphs begin at `ptr`; None: as they are."""
    return rows if ptr is None else [rows[a:b] for a, b in itertools.pairwise(ptr)]


@dataclass
class LearnedModel:
    """A clustering function, applied to any graph with the same features."""

    net: ReplicaNet
    encoder: Encoder
    consensus: Consensus | None
    refiner: Refiner | None
    order: np.ndarray  # [K]: column j of the result is column order[j] of the networks
    silence: str  # which nodes get no label; see prepare.silence_rule
    # [L, K] the cluster of each level up to the chosen one, the last row, that holds each cluster.
    above: np.ndarray
    root: bool = False  # whether weights of edges count by their square root

    def apply(
        self, graph: Graph, device: torch.device, rows: int | None = None, level: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Soft clusters [N, K], the largest cluster of the training nodes first, and which nodes say nothing [N].

        With `rows`, the device assigns that many nodes at a time, and everything else is computed on the CPU.
        """
        soft, silent = self._chosen(graph, device, rows)
        if level is None or level == len(self.above) - 1:
            return soft, silent
        if level >= len(self.above):
            raise ParameterError(
                f"level {level} is finer than the one that was learned ({len(self.above) - 1}): its clusters are known "
                "for the nodes of the fit only (labels_at).",
                argument="level",
            )
        merged = np.zeros((soft.shape[1], int(self.above[level].max()) + 1), dtype=soft.dtype)
        merged[np.arange(soft.shape[1]), self.above[level]] = 1
        return soft @ merged, silent

    def renumbered(self, ids: np.ndarray) -> LearnedModel:
        """The same with other numbers of the clusters."""
        back = np.argsort(ids)
        above = self.above[:, back]
        above[-1] = np.arange(len(back))
        return replace(self, order=self.order[back], above=above)

    def _chosen(self, graph: Graph, device: torch.device, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
        if graph.x is None and not self.encoder.structural:
            raise GraphError(
                "graph has no features but the model was fitted with some; pass ",
                Argument("features", text="them as X"),
                ".",
            )
        graph = graph.in_mean_weights()
        if self.root:
            graph = graph.with_root_weights()
        silent = silent_nodes(graph, self.silence)
        if silent.all():
            return spread(np.zeros((0, len(self.order)), dtype=np.float32), silent), silent
        heard = without(graph, silent) if silent.any() else graph
        return spread(self._assign(heard, device, rows), silent), silent

    def _assign(self, graph: Graph, device: torch.device, rows: int | None) -> np.ndarray:
        if self.encoder.structural:
            graph = graph.with_features(structural_features(graph, local=True))
        recipe, home = self.encoder.recipe, device if rows is None else torch.device("cpu")
        encoded = self.encoder.encode(graph, home)
        if rows is None:
            s = self.net.to(device).assign(encoded.inputs, recipe.temperature)
        else:
            s = assign_in_chunks(self.net, encoded.inputs, recipe.temperature, rows, device)

        soft = s[:, 0] if self.consensus is None else self.consensus.to(home).proba(s, encoded.rows)
        if self.refiner is not None:
            soft = self.refiner.to(home).apply(encoded.x, soft, encoded.op, recipe)
        return soft.cpu().numpy()[:, self.order]


_REACH = 100  # steps in which new nodes take the clusters of their neighbours


@dataclass
class KnownClusters:
    """Clusters of some nodes at the finest level, and how they nest."""

    soft: sp.csr_array  # [N, K], of its nodes at the finest level; rows of nodes without edges are empty
    above: np.ndarray  # [L, K]: the cluster of each level, coarse to fine, that holds each of these
    level: int  # the chosen one

    def known(self) -> tuple[Any, np.ndarray]:
        """Soft clusters of its own nodes at the chosen level, and those that are in none."""
        return at_level(self.soft, self.above[self.level])

    def renumbered(self, ids: np.ndarray) -> Any:
        """The same with other numbers of the clusters of the chosen level."""
        above = self.above.copy()
        above[self.level] = ids[above[self.level]]
        return replace(self, above=above)

    def _at(self, soft: sp.csr_array, level: int | None) -> tuple[Any, np.ndarray]:
        return at_level(soft, self.above[self.level if level is None else level])


@dataclass
class PlacedModel(KnownClusters):
    """The clusters of a graph that were found from its edges, known for its own nodes only."""

    names: list[str] | None  # their names
    signature: str  # recognises the graph where it has no names

    def apply(
        self, graph: Graph, device: torch.device, rows: int | None = None, level: int | None = None
    ) -> tuple[Any, np.ndarray]:
        """Soft clusters [N, K] of the same graph, or of one with its nodes by name, and those not known [N].

        New nodes follow their neighbours.
        """
        same = signature(graph.in_mean_weights()) == self.signature
        if (
            self.names is not None
            and graph.node_names is not None
            and not (same and graph.node_names == self.names)
        ):
            place = {name: i for i, name in enumerate(self.names)}
            known = np.array([place.get(name, -1) for name in graph.node_names])
            if (known >= 0).any():
                return self._at(self._with_new(graph, known), level)
        if same:
            return self._at(self.soft, level)
        raise GraphError(
            "graph is not the one the model was fitted on, which had no features: its clusters say where nodes are "
            "in that graph and mean nothing in another; give both graphs features, give nodes the names they had, or "
            "fit this graph."
        )

    def _with_new(self, graph: Graph, known: np.ndarray) -> sp.csr_array:
        """Nodes with a known name keep their clusters; the others get the mean of their neighbours', step by step."""
        silent = np.diff(self.soft.indptr) == 0
        new = (known < 0) | silent[known]
        rows = np.flatnonzero(~new)
        place = sp.csr_array(
            (np.ones(len(rows)), (rows, known[rows])), shape=(len(known), self.soft.shape[0])
        )
        out = sp.csr_array(place @ self.soft)
        if not new.any():
            return out
        fresh = np.flatnonzero(new)
        back = sp.csr_array(
            (np.ones(len(fresh)), (fresh, np.arange(len(fresh)))), shape=(len(known), len(fresh))
        )
        fixed, edges = out, sp.csr_array(graph.adjacency)[new]
        for _ in range(_REACH):
            near = sp.csr_array(edges @ out)
            total = np.asarray(near.sum(axis=1)).ravel()
            near.data /= np.repeat(np.where(total > 0, total, 1.0), np.diff(near.indptr))
            before, out = out, sp.csr_array(fixed + back @ near)
            if not out.nnz or abs(out - before).max() < 1e-6:
                break
        return out


@dataclass
class NearestModel(KnownClusters):
    """Clusters of rows of numbers that were found from the edges between nearest rows."""

    rows: np.ndarray  # [N, F], scaled
    centre: np.ndarray  # [F]
    factor: np.ndarray  # [F]
    neighbors: int  # nearest rows that decide where a new row belongs
    signature: str  # of the graph

    @classmethod
    def fit(cls, graph: Graph, placed: PlacedModel) -> NearestModel:
        """From the graph of rows, and where their clusters are."""
        x = _dense(graph.x)
        centre, factor = centre_and_scale(x, graph.kinds)
        rows = np.clip((x - centre) * factor, -LIMIT, LIMIT)
        assert graph.neighbors is not None
        return cls(
            placed.soft, placed.above, placed.level, rows, centre, factor, graph.neighbors, placed.signature
        )

    def apply(
        self, graph: Graph, device: torch.device, rows: int | None = None, level: int | None = None
    ) -> tuple[Any, np.ndarray]:
        """Soft clusters [N, K] of rows: those of the fit keep theirs, others get the mean of their nearest ones."""
        from sklearn.neighbors import NearestNeighbors  # takes a while

        if graph.x is None:
            raise GraphError(
                "graph has no features but the model was fitted with some; pass ",
                Argument("features", text="them as X"),
                ".",
            )
        if graph.num_features != len(self.centre):
            raise GraphError(
                f"the graph has {graph.num_features} features but the model was fitted with {len(self.centre)}; "
                "give the same features in the same order."
            )
        if signature(graph.in_mean_weights()) == self.signature:
            return self._at(self.soft, level)
        given = np.clip((_dense(graph.x) - self.centre) * self.factor, -LIMIT, LIMIT)
        count = min(self.neighbors, len(self.rows))
        distance, near = NearestNeighbors(n_neighbors=count).fit(self.rows).kneighbors(given)
        same = distance[:, 0] <= 1e-9
        weight = np.where(same[:, None], np.arange(count) == 0, 1 / count)
        place = (weight.ravel(), (np.repeat(np.arange(len(given)), count), near.ravel()))
        mean = sp.csr_array(place, shape=(len(given), len(self.rows)))
        return self._at(sp.csr_array(mean @ self.soft), level)


_DENSE = 1 << 26  # numbers of a table [N, K] that is written out; a larger one stays sparse


def at_level(soft: sp.csr_array, above: np.ndarray) -> tuple[Any, np.ndarray]:
    """Soft clusters [N, K] at a level whose cluster `above[c]` holds cluster c, and which rows say nothing.

    Rows that say nothing have 1/K for each cluster, in a sparse table nothing.
    """
    k = int(above.max(initial=0)) + 1
    merged = sp.csr_array(
        (np.ones(len(above), np.float32), (np.arange(len(above)), above)), shape=(len(above), k)
    )
    out = sp.csr_array(soft @ merged)
    total = np.asarray(out.sum(axis=1)).ravel()
    silent = total <= 0
    out.data = (out.data / np.repeat(np.where(silent, 1.0, total), np.diff(out.indptr))).astype(np.float32)
    if out.shape[0] * k > _DENSE:
        return out, silent
    dense = out.toarray()
    dense[silent] = 1 / k
    return dense, silent


def _dense(x: Any) -> np.ndarray:
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64)


def signature(graph: Graph) -> str:
    """A digest of a graph's shape and edges (not of its features)."""
    adjacency = graph.adjacency
    digest = hashlib.sha256(np.ascontiguousarray(adjacency.indptr, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.indices, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(adjacency.data, dtype=np.float64).tobytes())
    return digest.hexdigest()


def features_by_name(
    graph: Graph, known: np.ndarray | None, schema: TableSchema | None = None
) -> tuple[Graph, list[Note]]:
    """The graph with its features in the order of the fit, where both have names; and what to say about them.

    A value of a category that only the fit has is 0 everywhere; values and columns that the fit did not have are left
    out.
    """
    given = graph.feature_names
    if known is None or graph.x is None:
        return graph, []
    if given is None:
        warn_caller(
            "the features have no names, but those of the fit had: they are taken in the order of the fit."
        )
        return graph, []
    wanted = known.tolist()
    if given == wanted:
        return graph, []
    place = {name: i for i, name in enumerate(given)}
    categories = _categories(schema) & _categories(graph.schema)
    absent = {name for name in _names_of(schema, categories) if name not in place}
    missing = [name for name in wanted if name not in place and name not in absent]
    values = [name for name in _names_of(graph.schema, categories) if name not in wanted]
    others = [name for name in given if name not in wanted and name not in values]
    if missing:
        words = [
            f"{what} {listed(names, 3)}"
            for what, names in (("missing:", missing), ("not known:", others))
            if names
        ]
        table = "; a table is read like that of the fit with schema=est.schema_" if schema is not None else ""
        raise GraphError(
            f"the features are not those of the fit ({'; '.join(words)}); give columns with the same names, in any "
            f"order{table}."
        )
    notes = []
    if values:
        said = f"values that the fit did not have taken for none: {listed(values)}"
        notes.append(Note("unknown_values", said, values=values))
    if others:
        said = f"columns that the fit did not have ignored: {listed(others)}"
        notes.append(Note("columns_ignored", said, columns=others))
    zeros = np.zeros((graph.num_nodes, 1), dtype=np.float32)
    wider = sp.csr_array(sp.hstack([graph.x, zeros])) if sp.issparse(graph.x) else np.hstack([graph.x, zeros])
    return graph.with_features(wider[:, [place.get(name, len(given)) for name in wanted]], wanted), notes


# Notes of reading a table that belong to a fit or a prediction.
_OF_COLUMNS = (
    *("columns", "columns_left_out", "columns_ignored", "unknown_values"),
    *("category_gaps", "missing_filled", "missing_dropped"),
)


def notes_of_columns(graph: Graph, as_they_are: bool = False) -> list[Note]:
    """What the columns of the features were taken for; of an array that is not read `as_they_are`, by their values."""
    notes = [note for note in graph.notes if isinstance(note, Note) and note.code in _OF_COLUMNS]
    if graph.schema is None and graph.x is not None and not as_they_are:
        notes.append(kinds_note(graph.kinds, graph.feature_names))
    return notes


def notes_of_edges(graph: Graph) -> list[Note]:
    """What was understood of a table of edges that may as well have meant something else."""
    told = ("two_kinds_of_nodes", "one_kind_of_nodes", "edges_counted")
    return [
        Note(note.code, note, "; Graph.from_frame takes these arguments.", **note.values)
        for note in graph.notes
        if isinstance(note, Note) and note.code in told
    ]


def _categories(schema: TableSchema | None) -> set[str]:
    """Titles of the columns that became one column per value."""
    return {rule.title for rule in (schema.columns if schema else ()) if rule.values is not None}


def _names_of(schema: TableSchema | None, titles: set[str]) -> list[str]:
    """Names of the features that some columns became."""
    return [
        name for rule in (schema.columns if schema else ()) if rule.title in titles for name in rule.names
    ]
