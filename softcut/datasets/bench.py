"""The benchmark of Bianchi et al. for graph classification: shapes whose order is the class."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from softcut.datasets.fetching import reading
from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.datasets.raw_graphs import RawGraphs

PARTS = ("tr", "val", "te")


def read_bench(path: Path) -> RawGraphs:
    """Adjacency matrices, one-hot colours and one-hot classes, with the split they come in.

    The file holds pickled lists of matrices; they are read without running any code of the file.
    """
    with reading(f"{path} cannot be read as a Bench file", "; delete it and load again"):
        with zipfile.ZipFile(path) as archive:
            matrices, colours, classes = (
                [_read_member(archive, f"{part}_{kind}.npy") for part in PARTS]
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
        return RawGraphs.from_edges(
            sizes, first, second, y=y, node_labels=labels, split=split, structure=False
        )


def _read_member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as file:
        read_header = (
            npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
        )
        if read_header(file)[2].hasobject:
            return read_plain_pickle(file.read())
    with archive.open(name) as file:
        return npy.read_array(file, allow_pickle=False)
