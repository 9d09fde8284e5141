"""TU data sets (Morris et al., 2020) from their text files, plain or zipped, without pickles."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softcut.datasets.raw_graphs import RawGraphs
from softcut.errors import DataError

__all__ = ["read_compact", "read_folder", "read_zip"]


def read_folder(folder: Path, name: str) -> RawGraphs:
    """The files ``NAME_A.txt``, ``NAME_graph_indicator.txt``, ... of a folder."""
    files = {path.name: path.read_bytes() for path in folder.glob(f"{name}_*.txt")}
    return _parse(files, name, str(folder))


def read_zip(path: Path, name: str) -> RawGraphs:
    """The same files in a zip archive, in any folder of it."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = {
                Path(member).name: archive.read(member)
                for member in archive.namelist()
                if Path(member).name.startswith(f"{name}_") and member.endswith(".txt")
            }
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise DataError(
            f"{path} cannot be read as a zip archive: {error}; delete it and load again."
        ) from error
    return _parse(files, name, str(path))


def read_compact(path: Path) -> RawGraphs:
    """One npz file with ``num_nodes``, ``num_edges``, ``y`` and local ``edges``, self-loops included."""
    try:
        with np.load(path, allow_pickle=False) as file:
            sizes, counts = file["num_nodes"].astype(np.int64), file["num_edges"].astype(np.int64)
            start = np.repeat(np.cumsum(sizes) - sizes, counts)
            first, second = file["edges"].astype(np.int64) + start
            return RawGraphs.from_edges(sizes, first, second, y=file["y"].astype(np.int64))
    except (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}; delete it and load again.") from error


def _parse(files: dict[str, bytes], name: str, where: str) -> RawGraphs:
    def numbers(part: str) -> NDArray[np.int64] | None:
        content = files.get(f"{name}_{part}.txt")
        return None if content is None else _table(content)

    edges, indicator, y = numbers("A"), numbers("graph_indicator"), numbers("graph_labels")
    if edges is None or indicator is None or y is None:
        raise DataError(
            f"{where} does not hold the files {name}_A.txt, _graph_indicator.txt, _graph_labels.txt."
        )
    try:
        labels, attributes = numbers("node_labels"), numbers("node_attributes")
        graph = indicator[:, 0] - 1
        if (np.diff(graph) < 0).any() or len(y) != graph[-1] + 1:
            raise ValueError("the nodes of one graph do not stand together")
        first, second = edges.T - 1
        return RawGraphs.from_edges(
            np.bincount(graph, minlength=len(y)),
            first,
            second,
            y=y[:, 0],
            node_labels=None if labels is None else labels[:, 0],
            attributes=attributes,
        )
    except (ValueError, IndexError) as error:
        raise DataError(f"The files {name}_*.txt in {where} do not belong together: {error}.") from error


def _table(content: bytes) -> NDArray[np.int64]:
    """Numbers separated by commas, one line each; attributes are whole numbers written with decimals."""
    first = content.split(b"\n", 1)[0]
    columns = first.count(b",") + 1
    floats = b"." in first
    # Commas become spaces: numpy then reads any number of columns at the speed of one.
    text = content.decode("ascii").replace(",", " ")
    table = np.fromstring(text, dtype=np.float64 if floats else np.int64, sep=" ").reshape(-1, columns)
    if floats and not np.array_equal(table, np.round(table)):
        raise ValueError("attributes that are not whole numbers")
    return table.astype(np.int64)
