"""Graphs whose files are npz archives of plain arrays: Amazon Photo and Computers, BlogCatalog, Physics, PolBlogs.

The gnn-benchmark repository packs adjacency and words as CSR (``adj_data``, ..., ``attr_data``, ...) with classes
``labels``. The other files hold each edge once (``row``, ``col``), classes ``y``, and the counts of words as CSR
(``x_data``, ``x_indices``, ``x_indptr``, ``x_columns``; PolBlogs has none). The same content circulates in several
packings, so what is verified is not the bytes but a SHA-256 over edges, words and classes in a canonical order.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.datasets.fetching import DatasetInfo, Entry, RawGraph, reading
from softcut.errors import DataError

GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
GRAPH_DATA = "https://github.com/EdisonLeeeee/GraphData"
PITFALLS = (
    "O. Shchur, M. Mumme, A. Bojchevski and S. Günnemann, Pitfalls of Graph Neural Network Evaluation, 2018; "
)
AMAZON = (
    PITFALLS + "data of J. McAuley et al., Image-Based Recommendations on Styles and Substitutes, SIGIR 2015."
)
PHYSICS = PITFALLS + "data of the Microsoft Academic Graph, KDD Cup 2016."
CHECKSUMS = {
    "photo": "25956328a3968f4809f707784f0ab2a0a5f04fc02b6e9f4d470badfcf899b5b8",
    "computers": "6fa42a60138f2fbc2adf5b64bf5bdbfacecee41ac3b44bd818aa45fe93508cc2",
    "blogcatalog": "0c802829f4032202de3666f134700a89fadd2f60716d4d66488e6aa560f7b05c",
    "physics": "219aff8679fbe192b68b0035f5e0e05a9d5a9c75a1fc81c7eb7a64843ab251bf",
    "polblogs": "32021a20dcad2e19480f3db440a849b15c3f0bcae0c7fb1b7ae8a9ebed463e38",
}


def content_checksum(raw: RawGraph, counts: bool) -> str:
    """SHA-256 over the canonical arrays of a graph, all as int64; `counts`: also over how often words occur."""
    digest = hashlib.sha256()

    def add(array: np.ndarray) -> None:
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())

    for matrix in (raw.adjacency, raw.x):
        if matrix is not None:
            matrix = matrix.sorted_indices()
            for array in (np.array(matrix.shape), matrix.indptr, matrix.indices):
                add(array)
    add(raw.y)
    if not counts:
        return digest.hexdigest()
    digest = hashlib.sha256(digest.hexdigest().encode())
    if raw.x is not None:
        add(raw.x.sorted_indices().data)
    return digest.hexdigest()


def read_file(path: Path, file: str, expected: str, counts: bool = True) -> RawGraph:
    """Parse one npz file and verify its content; pickled arrays are refused, so nothing in the file can run.

    `counts`: words have counts and self-loops are dropped; else words are there or not and self-loops stay.
    """
    with reading(f"{path} cannot be read as the data file {file}"), np.load(path, allow_pickle=False) as npz:
        adjacency, x, y = _repacked(npz) if "row" in npz else _benchmark(npz)
    adjacency = adjacency.maximum(adjacency.T).tocsr()
    if counts:
        adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    adjacency.data[:] = 1.0
    if x is not None and not counts:
        x.data[:] = 1.0
    raw = RawGraph(adjacency, x, y.astype(np.int64))
    if content_checksum(raw, counts) != expected:
        raise DataError(
            f"{path} does not hold the published content of {file}: delete it and load the data set again."
        )
    return raw


def _repacked(npz: np.lib.npyio.NpzFile) -> tuple[sp.csr_matrix, sp.csr_matrix | None, np.ndarray]:
    n = int(npz["num_nodes"])
    row, column = npz["row"], npz["col"]
    adjacency = sp.csr_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=(n, n))
    x = None
    if "x_data" in npz:
        x = _csr(npz["x_data"], npz["x_indices"], npz["x_indptr"], (n, int(npz["x_columns"])))
    return adjacency, x, npz["y"]


def _benchmark(npz: np.lib.npyio.NpzFile) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    adjacency, x = (
        _csr(*(npz[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape")))
        for name in ("adj", "attr")
    )
    x.eliminate_zeros()
    return adjacency, x, npz["labels"]


def _csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Any) -> sp.csr_matrix:
    matrix = sp.csr_matrix((data.astype(np.float32), indices, indptr), shape=tuple(map(int, shape)))
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()
    return matrix


def _entry(title: str, counts: tuple[int, int, int, int, int], citation: str, source: str = "") -> Entry:
    """`counts`: nodes, edges, self-loops, features, classes; `source`: the file's name at gnn-benchmark."""
    *family, short = title.split()
    name, amazon = short.lower(), family == ["Amazon"]
    file = source if amazon else f"{name}.npz"
    url, licence = (
        (GNN_BENCHMARK, "shchur/gnn-benchmark") if source else (GRAPH_DATA, "EdisonLeeeee/GraphData")
    )
    info = DatasetInfo(name, title, "node clustering", 1, *counts, url, f"MIT ({licence})", citation)

    def read(path: Path, file: str = file) -> RawGraph:
        return read_file(path, file, CHECKSUMS[name], counts=not amazon)

    return Entry(
        info=info,
        folders=(f"amazon/{short}/raw", f"{short}/raw") if amazon else ("attributed", name),
        files={file: source and url + source},
        read=lambda folder: read(folder / file),
        check=read,
        aliases=(title.lower().replace(" ", "-"), (source or file).removesuffix(".npz").replace("_", "-")),
    )


ENTRIES = (
    _entry("Amazon Photo", (7650, 119081, 1, 745, 8), AMAZON, "amazon_electronics_photo.npz"),
    _entry("Amazon Computers", (13752, 245861, 0, 767, 10), AMAZON, "amazon_electronics_computers.npz"),
    _entry(
        "BlogCatalog",
        (5196, 171743, 0, 8189, 6),
        "J. Li, X. Hu, J. Tang and H. Liu, Unsupervised Streaming Feature Selection in Social Media, CIKM 2015.",
    ),
    _entry("Coauthor Physics", (34493, 247962, 0, 8415, 5), PHYSICS, "ms_academic_phy.npz"),
    _entry(
        "PolBlogs",
        (1490, 16715, 0, 0, 2),
        "L. A. Adamic and N. Glance, The Political Blogosphere and the 2004 U.S. Election: Divided They Blog, "
        "LinkKDD 2005.",
    ),
)
