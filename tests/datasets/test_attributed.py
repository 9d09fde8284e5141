"""BlogCatalog, Coauthor Physics and PolBlogs: two packings of one content, and what is refused."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import datasets
from softcut.datasets import attributed, registry
from softcut.datasets.info import Entry, RawGraph
from softcut.errors import DataError

ADJACENCY = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
WORDS = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [7, 0, 0, 1]])
CLASSES = np.array([1, 0, 1])


def repacked(words: bool = True) -> dict[str, np.ndarray]:
    """The layout of the local files: each edge once."""
    upper = sp.triu(sp.csr_matrix(ADJACENCY)).tocoo()
    x = sp.csr_matrix(WORDS.astype(np.float32))
    arrays = {"row": upper.row, "col": upper.col, "num_nodes": np.array(3), "y": CLASSES.astype(np.int16)}
    if words:
        arrays |= {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr, "x_columns": np.array(4)}
    return arrays


def benchmark() -> dict[str, np.ndarray]:
    """The layout of the gnn-benchmark repository: directed edges and a self-loop."""
    directed = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 0], [1, 0, 0]], dtype=np.float32))
    x = sp.csr_matrix(WORDS.astype(np.float32))
    arrays = {"labels": CLASSES}
    for name, matrix in (("adj", directed), ("attr", x)):
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    return arrays


def checksum(words: bool = True) -> str:
    x = sp.csr_matrix(WORDS.astype(np.float32)) if words else None
    return attributed.content_checksum(
        RawGraph(sp.csr_matrix(ADJACENCY.astype(np.float32)), x, CLASSES), counts=True
    )


@pytest.mark.parametrize("arrays", [repacked(), benchmark()], ids=["repacked", "benchmark"])
def test_both_packings_have_one_content(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    raw = attributed.read(tmp_path, "a.npz", checksum())
    assert raw.adjacency.toarray().tolist() == ADJACENCY.tolist()
    assert raw.x is not None
    assert raw.x.toarray().tolist() == WORDS.tolist()
    assert raw.y.tolist() == CLASSES.tolist()


def test_a_graph_without_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **repacked(words=False))
    assert attributed.read(tmp_path, "a.npz", checksum(words=False)).x is None


@pytest.mark.parametrize("name", ["y", "col", "x_data", "x_indices"])
def test_every_array_is_part_of_the_checksum(name: str, tmp_path: Path) -> None:
    arrays = repacked()
    arrays[name] = arrays[name].copy()
    arrays[name][0] = {"y": 0, "col": 0, "x_data": 5, "x_indices": 2}[name]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match="published content"):
        attributed.read(tmp_path, "a.npz", checksum())


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for change in ({"x_indices": np.array([0, 99, 0, 3])}, {"row": np.array([0, 5])}):
        np.savez(path, **{**repacked(), **change})
        with pytest.raises(DataError, match="cannot be read"):
            attributed.read(tmp_path, "a.npz", "")
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match="cannot be read"):
        attributed.read(tmp_path, "a.npz", "")


def test_what_has_no_source_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pass as root a folder that holds attributed/polblogs.npz"):
        datasets.load("polblogs", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_physics_has_another_name_at_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert registry._find("Coauthor_Physics").info.name == "physics"
    entry = registry._find("physics")
    asked = []

    def fetch(url: str, target: Path, check: partial, name: str, advice: str) -> None:
        asked.append(url)
        target.parent.mkdir(parents=True)
        np.savez(target, **benchmark())
        check(target)

    tiny: Entry = dataclasses.replace(
        entry,
        read=partial(attributed.read, file="physics.npz", expected=checksum()),
        check=partial(attributed.read_file, expected=checksum()),
    )
    monkeypatch.setattr(registry, "_entries", lambda: {"physics": tiny})
    monkeypatch.setattr(registry.fetching, "fetch", fetch)
    graph = datasets.load("physics", tmp_path)
    assert asked == ["https://github.com/shchur/gnn-benchmark/raw/master/data/npz/ms_academic_phy.npz"]
    assert (graph.num_nodes, graph.num_edges) == (3, 2)
    assert (tmp_path / "attributed" / "physics.npz").is_file()
