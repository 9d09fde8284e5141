"""BlogCatalog, Coauthor Physics and PolBlogs: three graphs on which other clusterings fail than on citations.

Their files hold plain arrays: each edge once (``row``, ``col``), classes ``y``, and the counts of words as CSR
(``x_data``, ``x_indices``, ``x_indptr``, ``x_columns``; PolBlogs has none). Coauthor Physics is also read as the
gnn-benchmark repository packs it. The content is verified, not the bytes: a SHA-256 over edges, words,
counts and classes.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from softcut.datasets.amazon import URL as GNN_BENCHMARK
from softcut.datasets.amazon import content_checksum, read_csr
from softcut.datasets.info import DatasetInfo, Entry, RawGraph
from softcut.errors import DataError

__all__ = ["ENTRIES"]

REPOSITORY = "https://github.com/EdisonLeeeee/GraphData"


def _checksum(raw: RawGraph) -> str:
    """As :func:`content_checksum`, over the counts of words as well."""
    digest = hashlib.sha256(content_checksum(raw).encode())
    if raw.x is not None:
        digest.update(np.ascontiguousarray(raw.x.sorted_indices().data, dtype="<i8").tobytes())
    return digest.hexdigest()


def read(folder: Path, file: str, expected: str) -> RawGraph:
    """Parse one npz file and verify its content."""
    return read_file(folder / file, file, expected)


def read_file(path: Path, file: str, expected: str) -> RawGraph:
    """Only the numeric arrays are read, and pickled ones are refused: nothing in the file can run."""
    try:
        with np.load(path, allow_pickle=False) as npz:
            raw = _repacked(npz) if "row" in npz else _benchmark(npz)
    except (ValueError, KeyError, EOFError, TypeError, IndexError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as the data file {file}: {error}.") from error
    if _checksum(raw) != expected:
        raise DataError(
            f"{path} does not hold the published content of {file}: delete it and load the data set again."
        )
    return raw


def _symmetric(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    adjacency = adjacency.maximum(adjacency.T).tocsr()
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    adjacency.data[:] = 1.0
    return adjacency


def _repacked(npz: np.lib.npyio.NpzFile) -> RawGraph:
    n = int(npz["num_nodes"])
    row, column = npz["row"], npz["col"]
    adjacency = sp.csr_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=(n, n))
    x = None
    if "x_data" in npz:
        parts = (npz["x_data"].astype(np.float32), npz["x_indices"], npz["x_indptr"])
        x = sp.csr_matrix(parts, shape=(n, int(npz["x_columns"])))
        x.check_format(full_check=True)
        x.sum_duplicates()
    return RawGraph(_symmetric(adjacency), x, npz["y"].astype(np.int64))


def _benchmark(npz: np.lib.npyio.NpzFile) -> RawGraph:
    x = read_csr(npz, "attr")
    x.eliminate_zeros()
    return RawGraph(_symmetric(read_csr(npz, "adj")), x, npz["labels"].astype(np.int64))


def _entry(
    title: str,
    nodes: int,
    edges: int,
    features: int,
    classes: int,
    checksum: str,
    citation: str,
    remote: Mapping[str, str],
) -> Entry:
    name = title.lower()
    file = f"{name}.npz"
    return Entry(
        info=DatasetInfo(
            name=name,
            title="Coauthor Physics" if name == "physics" else title,
            task="node clustering",
            graphs=1,
            nodes=nodes,
            edges=edges,
            self_loops=0,
            features=features,
            classes=classes,
            url=GNN_BENCHMARK if remote else REPOSITORY,
            licence="MIT (shchur/gnn-benchmark)" if remote else "MIT (EdisonLeeeee/GraphData)",
            citation=citation,
        ),
        folders=("attributed", name),
        files=(file,),
        read=partial(read, file=file, expected=checksum),
        check=partial(read_file, expected=checksum),
        aliases=("coauthor-physics", "ms-academic-phy") if name == "physics" else (),
        remote=remote,
    )


ENTRIES: tuple[Entry, ...] = (
    _entry(
        "BlogCatalog",
        5196,
        171743,
        8189,
        6,
        "0c802829f4032202de3666f134700a89fadd2f60716d4d66488e6aa560f7b05c",
        "J. Li, X. Hu, J. Tang and H. Liu, Unsupervised Streaming Feature Selection in Social Media, CIKM 2015.",
        {},
    ),
    _entry(
        "Physics",
        34493,
        247962,
        8415,
        5,
        "219aff8679fbe192b68b0035f5e0e05a9d5a9c75a1fc81c7eb7a64843ab251bf",
        "O. Shchur, M. Mumme, A. Bojchevski and S. Günnemann, Pitfalls of Graph Neural Network Evaluation, 2018; "
        "data of the Microsoft Academic Graph, KDD Cup 2016.",
        {"physics.npz": "ms_academic_phy.npz"},
    ),
    _entry(
        "PolBlogs",
        1490,
        16715,
        0,
        2,
        "32021a20dcad2e19480f3db440a849b15c3f0bcae0c7fb1b7ae8a9ebed463e38",
        "L. A. Adamic and N. Glance, The Political Blogosphere and the 2004 U.S. Election: Divided They Blog, "
        "LinkKDD 2005.",
        {},
    ),
)
