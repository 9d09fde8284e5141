"""A user's own list of graphs: a folder in the format of the TU data sets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.datasets.raw_graphs import RawGraphs
from softcut.errors import DataError
from softcut.graph.collection import GraphCollection

__all__ = ["NodeFeatures", "read_tu_folder"]


@dataclass(frozen=True)
class NodeFeatures:
    """How the labels and attributes of nodes become features; taken from the training graphs.

    Attributes
    ----------
    labels : list of int
        The node labels there are, in order; one feature for each.
    mean, std : list of float
        Of every attribute; it is given as (value - mean) / std.
    """

    labels: list[int]
    mean: list[float]
    std: list[float]


def read_tu_folder(
    folder: str | Path, features: NodeFeatures | None = None
) -> tuple[GraphCollection, NodeFeatures]:
    """The graphs of a folder with ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and so on.

    Node labels become one-hot features, node attributes become numbers scaled to mean 0 and deviation 1. Graph labels
    may be missing. Edge labels and attributes are not read.

    >>> import tempfile
    >>> files = {"A": "1, 2\\n2, 1\\n3, 4\\n", "graph_indicator": "1\\n1\\n2\\n2\\n", "graph_labels": "1\\n-1\\n"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part, text in files.items():
    ...         _ = Path(folder, f"PAIRS_{part}.txt").write_text(text)
    ...     graphs, _ = read_tu_folder(folder)
    >>> graphs, graphs.classes
    (GraphCollection('PAIRS': 2 graphs, 4 nodes, 2 edges, 0 features, 2 classes), ('-1', '1'))

    Parameters
    ----------
    folder : path
        With the files of one data set.
    features : NodeFeatures, optional
        Those of the training graphs, for graphs that a trained model reads.

    Returns
    -------
    (GraphCollection, NodeFeatures)
    """
    folder = Path(folder)
    name = _name(folder)

    def table(part: str, whole: bool = True) -> NDArray[Any] | None:
        path = folder / f"{name}_{part}.txt"
        return _numbers(path, whole) if path.is_file() else None

    edges, indicator = table("A"), table("graph_indicator")
    if edges is None or indicator is None:
        raise DataError(
            f"{folder} must hold {name}_A.txt and {name}_graph_indicator.txt, but one is missing."
        )
    y, labels, attributes = table("graph_labels"), table("node_labels"), table("node_attributes", whole=False)
    nodes, graph = len(indicator), indicator[:, 0] - 1
    for part, values in (("node_labels", labels), ("node_attributes", attributes)):
        if values is not None and len(values) != nodes:
            raise DataError(
                f"{folder / f'{name}_{part}.txt'} must have a line for each of the {nodes} nodes, got {len(values)}."
            )
    if labels is not None and labels.shape[1] != 1:
        raise DataError(
            f"{folder / f'{name}_node_labels.txt'} must have one label per node, got {labels.shape[1]}."
        )
    if (np.diff(graph) < 0).any() or graph[0] != 0:
        raise DataError(
            f"{folder / f'{name}_graph_indicator.txt'} must number the graphs from 1 on, in rising order."
        )
    count = int(graph[-1]) + 1 if y is None else len(y)
    if graph[-1] + 1 != count:
        raise DataError(
            f"{folder / f'{name}_graph_labels.txt'} must have a line for each of the {int(graph[-1]) + 1} graphs, "
            f"got {count}."
        )
    if edges.shape[1] != 2 or edges.min(initial=1) < 1 or edges.max(initial=1) > nodes:
        raise DataError(f"{folder / f'{name}_A.txt'} must hold pairs of node numbers from 1 to {nodes}.")
    try:
        raw = RawGraphs.from_edges(
            np.bincount(graph, minlength=count),
            *(edges.T - 1),
            y=np.zeros(count, np.int64) if y is None else y[:, 0],
            structure=False,
        )
    except ValueError as error:
        raise DataError(f"{folder / f'{name}_A.txt'}: {error}.") from error
    graphs = raw.collection(name)
    if y is None:
        graphs = replace(graphs, y=None, classes=())
    known = _describe(labels, attributes) if features is None else features
    return _with_features(graphs, folder / name, labels, attributes, known), known


def _name(folder: Path) -> str:
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; name one with the files NAME_A.txt, NAME_graph_indicator.txt, ..."
        )
    names = sorted(path.name.removesuffix("_A.txt") for path in folder.glob("*_A.txt"))
    if len(names) != 1:
        what = "no file NAME_A.txt" if not names else f"several data sets ({', '.join(names)})"
        raise DataError(f"{folder} holds {what}; name a folder with the files of one TU data set.")
    return names[0]


def _numbers(path: Path, whole: bool) -> NDArray[Any]:
    """Numbers separated by commas, one line each."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
            numbers = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as numbers separated by commas: {error}.") from error
    if not numbers.size:
        if path.name.endswith("_A.txt"):
            return np.zeros((0, 2), np.int64)
        raise DataError(f"{path} is empty.")
    if not np.isfinite(numbers).all():
        raise DataError(f"{path} holds values that are missing or not finite.")
    if not whole:
        return numbers
    if not np.array_equal(numbers, np.round(numbers)):
        raise DataError(f"{path} must hold whole numbers.")
    return numbers.astype(np.int64)


def _describe(labels: NDArray[Any] | None, attributes: NDArray[Any] | None) -> NodeFeatures:
    names = [] if labels is None else np.unique(labels[:, 0]).tolist()
    if attributes is None:
        return NodeFeatures(names, [], [])
    std = attributes.std(0)
    return NodeFeatures(names, attributes.mean(0).tolist(), np.where(std > 0, std, 1.0).tolist())


def _with_features(
    graphs: GraphCollection,
    where: Path,
    labels: NDArray[Any] | None,
    attributes: NDArray[Any] | None,
    known: NodeFeatures,
) -> GraphCollection:
    if (labels is not None) != bool(known.labels):
        raise DataError(
            f"{where}_node_labels.txt is {'there' if labels is not None else 'missing'}, "
            f"but the model was trained {'with' if known.labels else 'without'} node labels."
        )
    width = 0 if attributes is None else attributes.shape[1]
    if width != len(known.mean):
        raise DataError(
            f"{where}_node_attributes.txt must have the {len(known.mean)} attributes that the model was trained with, "
            f"got {width}."
        )
    index = np.zeros((graphs.num_nodes, 0), np.int32)
    if labels is not None:
        position = np.searchsorted(known.labels, labels[:, 0]).clip(max=len(known.labels) - 1)
        strange = labels[np.asarray(known.labels)[position] != labels[:, 0], 0]
        if len(strange):
            raise DataError(
                f"{where}_node_labels.txt holds the label {strange[0]}, which no training graph had."
            )
        index = position.astype(np.int32)[:, None]
    value = np.zeros((graphs.num_nodes, 0), np.float32)
    if attributes is not None:
        value = ((attributes - np.array(known.mean)) / np.array(known.std)).astype(np.float32)
    return replace(graphs, index=index, value=value, num_features=len(known.labels) + width)
