"""Amazon co-purchase graphs Photo and Computers, from the npz files of the gnn-benchmark repository.

The same content circulates in several npz packings, so what is verified is not the bytes of the file but
the arrays in it: a SHA-256 checksum over the symmetrised edges, the words of every product and the classes
in a canonical order.
"""

from __future__ import annotations

import hashlib
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from softcut.datasets.info import DatasetInfo, Entry, RawGraph
from softcut.errors import DataError

__all__ = ["ENTRIES", "URL", "content_checksum", "read_csr"]

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
CITATION = (
    "O. Shchur, M. Mumme, A. Bojchevski and S. Günnemann, Pitfalls of Graph Neural Network Evaluation, 2018; "
    "data of J. McAuley et al., Image-Based Recommendations on Styles and Substitutes, SIGIR 2015."
)


def content_checksum(raw: RawGraph) -> str:
    """SHA-256 over the canonical arrays of a graph: edges, non-zero features and classes, all as int64."""
    digest = hashlib.sha256()
    for matrix in (raw.adjacency, raw.x):
        if matrix is None:
            continue
        matrix = matrix.sorted_indices()
        for array in (np.array(matrix.shape), matrix.indptr, matrix.indices):
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(raw.y, dtype="<i8").tobytes())
    return digest.hexdigest()


def read(folder: Path, file: str, expected: str) -> RawGraph:
    """Parse one npz file and verify its content."""
    return read_file(folder / file, file, expected)


def read_file(path: Path, file: str, expected: str) -> RawGraph:
    """Only the numeric arrays are read, and pickled ones are refused: nothing in the file can run."""
    try:
        with np.load(path, allow_pickle=False) as npz:
            adjacency, x = (read_csr(npz, name) for name in ("adj", "attr"))
            y = npz["labels"].astype(np.int64)
    except (ValueError, KeyError, EOFError, TypeError, IndexError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as the data file {file}: {error}.") from error
    adjacency = adjacency.maximum(adjacency.T).tocsr()
    for matrix in (adjacency, x):
        matrix.eliminate_zeros()
        matrix.data[:] = 1.0
    raw = RawGraph(adjacency, x, y)
    if content_checksum(raw) != expected:
        raise DataError(
            f"{path} does not hold the published content of {file}: delete it and load the data set again."
        )
    return raw


def read_csr(npz: np.lib.npyio.NpzFile, name: str) -> sp.csr_matrix:
    """The CSR matrix stored as ``NAME_data``, ``NAME_indices``, ``NAME_indptr`` and ``NAME_shape``."""
    data, indices, indptr, shape = (npz[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    matrix = sp.csr_matrix((data.astype(np.float32), indices, indptr), shape=tuple(map(int, shape)))
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()
    return matrix


def _entry(
    title: str, nodes: int, edges: int, self_loops: int, features: int, classes: int, checksum: str
) -> Entry:
    name = title.lower()
    file = f"amazon_electronics_{name}.npz"
    info = DatasetInfo(
        name=name,
        title=f"Amazon {title}",
        task="node clustering",
        graphs=1,
        nodes=nodes,
        edges=edges,
        self_loops=self_loops,
        features=features,
        classes=classes,
        url=URL,
        licence="MIT (shchur/gnn-benchmark)",
        citation=CITATION,
    )
    return Entry(
        info=info,
        folders=(f"amazon/{title}/raw", f"{title}/raw"),
        files=(file,),
        read=partial(read, file=file, expected=checksum),
        check=partial(read_file, expected=checksum),
        aliases=(f"amazon-{name}", f"amazon-electronics-{name}"),
    )


ENTRIES: tuple[Entry, ...] = (
    _entry(
        "Photo", 7650, 119081, 1, 745, 8, "25956328a3968f4809f707784f0ab2a0a5f04fc02b6e9f4d470badfcf899b5b8"
    ),
    _entry(
        "Computers",
        13752,
        245861,
        0,
        767,
        10,
        "6fa42a60138f2fbc2adf5b64bf5bdbfacecee41ac3b44bd818aa45fe93508cc2",
    ),
)
