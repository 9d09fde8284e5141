"""Planetoid: the citation networks Cora, CiteSeer and PubMed, from their original files.

Each data set is a set of files ``ind.<name>.<part>``. ``allx``/``ally`` hold features and one-hot classes
of all nodes but the test nodes, ``tx``/``ty`` those of the test nodes, ``test.index`` says which node each
row of ``tx`` is, and ``graph`` is a dictionary of neighbour lists, with duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.datasets.fetching import DatasetInfo, Entry, RawGraph, check_sha256, reading
from softcut.datasets.plain_pickles import read_plain_pickle

URL = "https://github.com/kimiyoung/planetoid/raw/master/data/"
CITATION = (
    "Z. Yang, W. Cohen and R. Salakhutdinov, Revisiting Semi-Supervised Learning with Graph Embeddings, "
    "ICML 2016; data of P. Sen et al., Collective Classification in Network Data, AI Magazine 2008."
)
PARTS = ("allx", "ally", "tx", "ty", "graph", "test.index")

SHA256: Mapping[str, str] = {
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
}


def _checked_bytes(path: Path, file: str) -> bytes:
    content = path.read_bytes()
    check_sha256(content, SHA256[file], str(path))
    return content


def read(folder: Path, prefix: str) -> RawGraph:
    """Parse the six files of one data set, as PyTorch Geometric does but without unpickling code.

    Row ``i`` of ``tx`` is node ``test_index[i]``. In CiteSeer 15 nodes in the range of the test nodes have
    no row: they keep their edges, have no features, and get class 0, as they do everywhere else.
    """
    contents = {
        part: _checked_bytes(folder / f"ind.{prefix}.{part}", f"ind.{prefix}.{part}") for part in PARTS
    }
    with reading(f"The files ind.{prefix}.* in {folder} cannot be read"):
        test_index = np.array(contents.pop("test.index").split(), dtype=np.int64)
        return _assemble({part: read_plain_pickle(content) for part, content in contents.items()}, test_index)


def _assemble(parts: dict[str, Any], test_index: np.ndarray) -> RawGraph:
    allx, tx = sp.csr_matrix(parts["allx"]), sp.csr_matrix(parts["tx"])
    first, n = allx.shape[0], int(test_index.max()) + 1
    # Row r of the stacked matrix goes to node r (the first ones) or test_index[r - first].
    target = np.concatenate([np.arange(first), test_index])
    stacked = sp.vstack([allx, tx]).tocoo()
    x = sp.csr_matrix(
        (stacked.data.astype(np.float32), (target[stacked.row], stacked.col)), shape=(n, allx.shape[1])
    )
    x.eliminate_zeros()
    y = np.zeros(n, dtype=np.int64)
    y[target] = np.concatenate([parts["ally"], parts["ty"]]).argmax(axis=1)

    neighbours: dict[int, list[int]] = parts["graph"]
    lengths = [len(row) for row in neighbours.values()]
    rows = np.repeat(np.fromiter(neighbours, np.int64, len(lengths)), lengths)
    columns = np.concatenate([np.asarray(row, dtype=np.int64) for row in neighbours.values() if row])
    adjacency = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, n))
    adjacency = adjacency.maximum(adjacency.T).tocsr()
    adjacency.data[:] = 1.0  # duplicates in the lists
    return RawGraph(adjacency, x, y)


def _entry(title: str, counts: tuple[int, int, int, int, int]) -> Entry:
    """`counts`: nodes, edges, self-loops, features, classes."""
    prefix = title.lower()
    licence = "MIT (kimiyoung/planetoid)"
    return Entry(
        info=DatasetInfo(prefix, title, "node clustering", 1, *counts, URL, licence, CITATION),
        folders=(f"planetoid/{title}/raw", f"{title}/raw"),
        files={f"ind.{prefix}.{part}": f"{URL}ind.{prefix}.{part}" for part in PARTS},
        read=partial(read, prefix=prefix),
        check=_checked_bytes,
        aliases=(f"planetoid-{prefix}",),
    )


ENTRIES = (
    _entry("Cora", (2708, 5278, 0, 1433, 7)),
    _entry("CiteSeer", (3327, 4552, 124, 3703, 6)),
    _entry("PubMed", (19717, 44324, 3, 500, 3)),
)
