"""Lists of graphs as they are stored: edges once, labels as they come; checksum, features, compact and Bench files."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from softcut.datasets.fetching import checksum, reading
from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.files import atomic_write
from softcut.graph.collection import GraphCollection, class_numbers, pointer
from softcut.learning.structure_features import clustering_coefficients, one_hot_columns, with_structure

_FORMAT = 1
_OPTIONAL = ("node_labels", "attributes", "split", "coefficients")


@dataclass(frozen=True)
class RawGraphs:
    """A list of graphs before features are made."""

    num_nodes: NDArray[np.int64]  # [G]
    num_edges: NDArray[np.int64]  # [G], undirected, without self-loops
    edges: NDArray[Any]  # [2, E], node numbers local to the graph, first < second, sorted, graph after graph
    self_loops: int  # how many the source had; they are dropped
    y: NDArray[np.int64]  # class of every graph, as in the source
    node_labels: NDArray[np.int64] | None = None  # [N], become a one-hot block
    attributes: NDArray[np.int64] | None = None  # [N, A], whole numbers, a one-hot block for each column
    split: NDArray[np.int8] | None = None  # 0, 1, 2 for training, validation, test
    coefficients: NDArray[np.float32] | None = None  # clustering coefficients, where they are known already
    structure: bool = False  # whether degree and clustering coefficient are features

    @classmethod
    def from_edges(
        cls, num_nodes: NDArray[Any], first: NDArray[Any], second: NDArray[Any], **rest: Any
    ) -> RawGraphs:
        """From edges numbered over all nodes, in one or both directions, with repetitions and self-loops."""
        num_nodes = np.asarray(num_nodes, np.int64)
        total = int(num_nodes.sum())
        low, high = np.minimum(first, second), np.maximum(first, second)
        loops = len(np.unique(low[low == high]))
        keys = (low.astype(np.int64) * total + high)[low != high]
        if not (keys[1:] > keys[:-1]).all():  # sorting is most of the work, and some files are sorted
            keys = np.unique(keys)
        low, high = np.divmod(keys, total)
        ptr = pointer(num_nodes)
        graph = np.searchsorted(ptr, low, side="right") - 1
        if (high >= ptr[graph + 1]).any():
            raise ValueError("an edge joins two graphs")
        edges = np.stack([low - ptr[graph], high - ptr[graph]]).astype(np.int32)
        counts = np.bincount(graph, minlength=len(num_nodes))
        return cls(num_nodes, counts, edges, loops, **rest)

    def checksum(self) -> str:
        """Of sizes, edges, classes, labels, attributes and split."""
        names = ("num_nodes", "num_edges", "edges", "y", "node_labels", "attributes", "split")
        return checksum(getattr(self, name) for name in names)

    def collection(self, name: str, note: str = "") -> GraphCollection:
        """With the features of the paper: see :func:`softcut.datasets.load_graphs`."""
        columns = [] if self.node_labels is None else [self.node_labels]
        if self.attributes is not None:
            columns += list(self.attributes.T)
        nodes = int(self.num_nodes.sum())
        index, width = one_hot_columns(columns, nodes)
        numbers, classes = class_numbers(self.y, len(self.num_nodes))
        ptr = pointer(self.num_nodes)
        ends = self.edges + np.repeat(ptr[:-1], self.num_edges)
        matrix = sp.coo_array((np.ones(ends.shape[1], bool), tuple(ends)), shape=(nodes, nodes)).tocsr()
        matrix = sp.csr_array(matrix + matrix.T)
        matrix.sort_indices()
        local = matrix.indices - np.repeat(ptr[:-1], 2 * self.num_edges)
        graphs = GraphCollection(
            ptr=ptr,
            rowptr=matrix.indptr.astype(np.int64),
            col=local.astype(np.int32),
            index=index,
            value=np.zeros((nodes, 0), np.float32),
            num_features=width,
            y=numbers,
            classes=classes,
            split=self.split,
            name=name,
            note=note,
        )
        return with_structure(graphs, self.coefficients) if self.structure else graphs

    def with_coefficients(self) -> RawGraphs:
        """With the clustering coefficients computed, so that a packed file need not do it again."""
        if not self.structure or self.coefficients is not None:
            return self
        plain = replace(self, structure=False).collection("plain")
        return replace(self, coefficients=clustering_coefficients(plain))


def write_packed(path: str | Path, raw: RawGraphs) -> Path:
    """The compact file: compressed arrays, small integer types, no pickles."""
    raw = raw.with_coefficients()
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "num_nodes": _small(raw.num_nodes),
        "num_edges": _small(raw.num_edges),
        # Second ends as the distance from the first: smaller numbers compress better.
        "first": _small(raw.edges[0]),
        "distance": _small(raw.edges[1] - raw.edges[0]),
        "self_loops": np.array(raw.self_loops),
        "y": _small(raw.y),
        "structure": np.array(raw.structure),
    }
    for name in _OPTIONAL:
        array = getattr(raw, name)
        if array is not None:
            arrays[name] = array if name == "coefficients" else _small(array)
    return atomic_write(path, lambda file: np.savez_compressed(file, **arrays))


def _small(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the smallest type that holds them."""
    kinds = (array.astype(dtype) for dtype in (np.int8, np.int16, np.int32))
    return next((small for small in kinds if np.array_equal(small, array)), array)


def read_packed(path: Path) -> RawGraphs:
    """What :func:`write_packed` wrote; nothing in the file can run."""
    with (
        reading(f"{path} cannot be read as a packed list of graphs"),
        np.load(path, allow_pickle=False) as file,
    ):
        if int(file["format"]) != _FORMAT:
            raise ValueError(f"format {int(file['format'])} is not known")
        first = file["first"].astype(np.int32)
        return RawGraphs(
            num_nodes=file["num_nodes"].astype(np.int64),
            num_edges=file["num_edges"].astype(np.int64),
            edges=np.stack([first, first + file["distance"]]),
            self_loops=int(file["self_loops"]),
            y=file["y"].astype(np.int64),
            structure=bool(file["structure"]),
            **{name: file[name] for name in _OPTIONAL if name in file.files},
        )


def read_bench(path: Path) -> RawGraphs:
    """The Bench sets of Bianchi et al.: adjacency matrices, one-hot colours and classes, and the split they come in.

    The file holds pickled lists of matrices; they are read without running any code of the file.
    """
    with reading(f"{path} cannot be read as a Bench file", "; delete it and load again"):
        with zipfile.ZipFile(path) as archive:
            matrices, colours, classes = (
                [_read_member(archive, f"{part}_{kind}.npy") for part in ("tr", "val", "te")]
                for kind in ("adj", "feat", "class")
            )
        split = np.repeat(np.arange(3, dtype=np.int8), [len(part) for part in matrices])
        matrices, colours = ([each for part in parts for each in part] for parts in (matrices, colours))
        y = np.concatenate(classes).argmax(1).astype(np.int64)
        sizes = np.array([matrix.shape[0] for matrix in matrices])
        if sizes.tolist() != [len(colour) for colour in colours] or len(sizes) != len(y):
            raise ValueError("its parts do not belong together")
        labels = np.concatenate(colours).argmax(1).astype(np.int64)
        blocks = sp.coo_array(sp.block_diag(matrices, format="coo"))
        first, second = (axis.astype(np.int64) for axis in blocks.coords)
        return RawGraphs.from_edges(sizes, first, second, y=y, node_labels=labels, split=split)


def _read_member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as file:
        read_header = (
            npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
        )
        if read_header(file)[2].hasobject:
            return read_plain_pickle(file.read())
    with archive.open(name) as file:
        return npy.read_array(file, allow_pickle=False)
