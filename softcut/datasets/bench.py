"""The benchmark of Bianchi et al. for graph classification: shapes whose order is the class."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.datasets.raw_graphs import RawGraphs
from softcut.errors import DataError
from softcut.graph.collection import pointer

__all__ = ["read_bench"]

PARTS = ("tr", "val", "te")


def read_bench(path: Path) -> RawGraphs:
    """Adjacency matrices, one-hot colours and one-hot classes, with the split they come in.

    The file holds pickled lists of matrices; they are read without running any code of the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                (part, kind): _read_member(archive, f"{part}_{kind}.npy")
                for part in PARTS
                for kind in ("adj", "feat", "class")
            }
        return _assemble(members)
    except (
        ValueError,
        KeyError,
        EOFError,
        OSError,
        TypeError,
        AttributeError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ) as error:
        raise DataError(
            f"{path} cannot be read as a Bench file: {error}; delete it and load again."
        ) from error


def _read_member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as file:
        version = npy.read_magic(file)
        dtype = _header(file, version)
        if dtype.hasobject:
            return read_plain_pickle(file.read())
    with archive.open(name) as file:
        return npy.read_array(file, allow_pickle=False)


def _header(file: IO[bytes], version: tuple[int, int]) -> np.dtype[Any]:
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)[2]


def _assemble(members: dict[tuple[str, str], Any]) -> RawGraphs:
    matrices = [m for part in PARTS for m in members[part, "adj"]]
    colours = [np.asarray(f) for part in PARTS for f in members[part, "feat"]]
    classes = np.concatenate([members[part, "class"] for part in PARTS])
    split = np.repeat(np.arange(3, dtype=np.int8), [len(members[part, "adj"]) for part in PARTS])
    if [m.shape[0] for m in matrices] != [len(c) for c in colours] or len(matrices) != len(classes):
        raise ValueError("its parts do not belong together")
    sizes = np.array([m.shape[0] for m in matrices])
    blocks = sp.coo_array(sp.block_diag(matrices, format="coo"))
    first, second = (axis.astype(np.int64) for axis in blocks.coords)
    assert pointer(sizes)[-1] == blocks.shape[0]
    return RawGraphs.from_edges(
        sizes,
        first,
        second,
        y=classes.argmax(1).astype(np.int64),
        node_labels=np.concatenate(colours).argmax(1).astype(np.int64),
        split=split,
        structure=False,
    )
