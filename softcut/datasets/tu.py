"""The format of the TU data sets (Morris et al., 2020): published sets and a user's own, from text files."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.datasets.fetching import reading
from softcut.datasets.raw_graphs import RawGraphs
from softcut.errors import DataError
from softcut.graph.collection import GraphCollection

PARTS = ("A", "graph_indicator", "graph_labels", "node_labels", "node_attributes")


def read_folder(folder: Path, name: str) -> RawGraphs:
    """The files ``NAME_A.txt``, ``NAME_graph_indicator.txt``, ... of a published data set."""
    return _published(_files(folder, name), folder / name)


def read_zip(path: Path, name: str) -> RawGraphs:
    """The same files in a zip archive, in any folder of it."""
    wanted = {f"{name}_{part}.txt": part for part in PARTS}
    advice = "; delete it and load again"
    with reading(f"{path} cannot be read as a zip archive", advice), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if Path(member).name in wanted]
        files = {wanted[Path(member).name]: io.BytesIO(archive.read(member)) for member in members}
    return _published(files, path / name)


def read_compact(path: Path) -> RawGraphs:
    """One npz file with ``num_nodes``, ``num_edges``, ``y`` and local ``edges``, self-loops included."""
    with reading(f"{path} cannot be read", "; delete it and load again"):
        with np.load(path, allow_pickle=False) as file:
            sizes, counts = file["num_nodes"].astype(np.int64), file["num_edges"].astype(np.int64)
            start = np.repeat(np.cumsum(sizes) - sizes, counts)
            first, second = file["edges"].astype(np.int64) + start
            y = file["y"].astype(np.int64)
        return RawGraphs.from_edges(sizes, first, second, y=y, structure=True)


@dataclass(frozen=True)
class NodeFeatures:
    """How the labels and attributes of nodes become features; taken from the training graphs."""

    labels: list[int]  # the node labels there are, in order; one feature for each
    mean: list[float]  # of every attribute, which becomes (value - mean) / std
    std: list[float]


def read_tu_folder(
    folder: str | Path, features: NodeFeatures | None = None
) -> tuple[GraphCollection, NodeFeatures]:
    """A user's own graphs: a folder with ``NAME_A.txt``, ``NAME_graph_indicator.txt`` and so on.

    Node labels become one-hot features, node attributes become numbers scaled to mean 0 and deviation 1, both as in
    `features` (those of the training graphs) where it is given. Graph labels may be missing. Edge labels and attributes
    are not read.
    """
    folder, name = find_files(folder)
    files = _files(folder, name)
    raw, labels, attributes = _read(files, folder / name, whole_attributes=False)
    graphs = raw.collection(name)
    if "graph_labels" not in files:
        graphs = replace(graphs, y=None, classes=())
    if features is None:
        features = NodeFeatures([] if labels is None else np.unique(labels).tolist(), [], [])
        if attributes is not None:
            std = attributes.std(0)
            scale = np.where(std > 0, std, 1.0)
            features = replace(features, mean=attributes.mean(0).tolist(), std=scale.tolist())
    return _with_features(graphs, folder / name, labels, attributes, features), features


def read_targets(folder: str | Path, graphs: GraphCollection) -> NDArray[np.float64] | None:
    """The numbers of ``NAME_graph_attributes.txt``, a line for each graph [G, T]; None where there is no such file."""
    folder, name = find_files(folder)
    file = folder / f"{name}_graph_attributes.txt"
    if not file.is_file():
        return None
    numbers: NDArray[np.float64] = _numbers(file, str(file), whole=False)
    if len(numbers) != len(graphs):
        raise DataError(f"{file} must have a line for each of the {len(graphs)} graphs, got {len(numbers)}.")
    return numbers


def find_files(folder: str | Path) -> tuple[Path, str]:
    """The folder that holds the files, which may be its folder ``raw``, and the NAME they begin with."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; name one with the files NAME_A.txt, NAME_graph_indicator.txt, ..."
        )
    if not any(folder.glob("*_A.txt")) and any(folder.glob("raw/*_A.txt")):
        folder = folder / "raw"
    names = sorted(path.name.removesuffix("_A.txt") for path in folder.glob("*_A.txt"))
    if len(names) != 1:
        what = "no file NAME_A.txt" if not names else f"several data sets ({', '.join(names)})"
        raise DataError(f"{folder} holds {what}; name a folder with the files of one TU data set.")
    return folder, names[0]


def _files(folder: Path, name: str) -> dict[str, Path]:
    paths = {part: folder / f"{name}_{part}.txt" for part in PARTS}
    return {part: path for part, path in paths.items() if path.is_file()}


def _published(files: Mapping[str, Path | io.BytesIO], where: Path) -> RawGraphs:
    raw, labels, attributes = _read(files, where, whole_attributes=True)
    return replace(raw, node_labels=labels, attributes=attributes, structure=True)


def _read(
    files: Mapping[str, Path | io.BytesIO], where: Path, whole_attributes: bool
) -> tuple[RawGraphs, NDArray[np.int64] | None, NDArray[Any] | None]:
    """Graphs without features, node labels [N] and attributes [N, A]; `where`: path and name, as in messages."""
    tables = {
        part: _numbers(file, f"{where}_{part}.txt", whole_attributes or part != "node_attributes")
        for part, file in files.items()
    }
    if "A" not in tables or "graph_indicator" not in tables:
        raise DataError(
            f"{where.parent} must hold {where.name}_A.txt and {where.name}_graph_indicator.txt, but one is missing."
        )
    edges, graph = tables["A"], tables["graph_indicator"][:, 0] - 1
    nodes, count = len(graph), int(graph[-1]) + 1
    if (np.diff(graph) < 0).any() or graph[0] != 0:
        raise DataError(f"{where}_graph_indicator.txt must number the graphs from 1 on, in rising order.")
    expected = {
        "node_labels": (nodes, "nodes"),
        "node_attributes": (nodes, "nodes"),
        "graph_labels": (count, "graphs"),
    }
    for part, (lines, things) in expected.items():
        if part in tables and len(tables[part]) != lines:
            raise DataError(
                f"{where}_{part}.txt must have a line for each of the {lines} {things}, got {len(tables[part])}."
            )
    labels = tables.get("node_labels")
    if labels is not None and labels.shape[1] != 1:
        raise DataError(f"{where}_node_labels.txt must have one label per node, got {labels.shape[1]}.")
    if edges.shape[1] != 2 or (edges < 1).any() or (edges > nodes).any():
        raise DataError(f"{where}_A.txt must hold pairs of node numbers from 1 to {nodes}.")
    y = tables["graph_labels"][:, 0] if "graph_labels" in tables else np.zeros(count, np.int64)
    with reading(f"{where}_A.txt"):
        sizes = np.bincount(graph, minlength=count)
        raw = RawGraphs.from_edges(sizes, *(edges.T - 1), y=y)
    return raw, None if labels is None else labels[:, 0], tables.get("node_attributes")


def _numbers(file: Path | io.BytesIO, where: str, whole: bool) -> NDArray[Any]:
    """Numbers separated by commas, one line each."""
    with warnings.catch_warnings(), reading(f"{where} cannot be read as numbers separated by commas"):
        warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
        numbers = np.loadtxt(file, delimiter=",", dtype=np.float64, ndmin=2)
    if not numbers.size:
        if where.endswith("_A.txt"):
            return np.zeros((0, 2), np.int64)
        raise DataError(f"{where} is empty.")
    if not np.isfinite(numbers).all():
        raise DataError(f"{where} holds values that are missing or not finite.")
    if not whole:
        return numbers
    if not np.array_equal(numbers, np.round(numbers)):
        raise DataError(f"{where} must hold whole numbers.")
    return numbers.astype(np.int64)


def _with_features(
    graphs: GraphCollection,
    where: Path,
    labels: NDArray[np.int64] | None,
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
        position = np.searchsorted(known.labels, labels).clip(max=len(known.labels) - 1)
        strange = labels[np.asarray(known.labels)[position] != labels]
        if len(strange):
            raise DataError(
                f"{where}_node_labels.txt holds the label {strange[0]}, which no training graph had."
            )
        index = position.astype(np.int32)[:, None]
    value = np.zeros((graphs.num_nodes, 0), np.float32)
    if attributes is not None:
        value = ((attributes - np.array(known.mean)) / np.array(known.std)).astype(np.float32)
    return replace(graphs, index=index, value=value, num_features=len(known.labels) + width)
