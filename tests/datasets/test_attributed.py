"""Graphs in npz files: several packings of one content, what is refused, and another name at the source."""

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import datasets
from softcut.datasets import attributed, registry
from softcut.datasets.fetching import RawGraph
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


def other_packing() -> dict[str, np.ndarray]:
    """The same with other types, another order in a row, and an array that would have to be unpickled."""
    arrays = {key: value.astype(np.int64) for key, value in benchmark().items()}
    for part in ("attr_indices", "attr_data"):
        arrays[part] = arrays[part][[1, 0, 2, 3]]
    return {**arrays, "node_names": np.array(["a", {"pickled": "object"}, "c"], dtype=object)}


def checksum(words: bool = True, loops: bool = False, counts: bool = True) -> str:
    x = sp.csr_matrix(WORDS.astype(np.float32)) if words else None
    adjacency = ADJACENCY + np.diag([loops, 0, 0])
    raw = RawGraph(sp.csr_matrix(adjacency.astype(np.float32)), x, CLASSES)
    return attributed.content_checksum(raw, counts)


def read(tmp_path: Path, arrays: dict[str, np.ndarray], expected: str, counts: bool = True) -> RawGraph:
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    return attributed.read_file(tmp_path / "a.npz", "a.npz", expected, counts)


@pytest.mark.parametrize("arrays", [repacked, benchmark, other_packing])
def test_all_packings_have_one_content(arrays, tmp_path: Path) -> None:
    raw = read(tmp_path, arrays(), checksum())
    assert raw.adjacency.toarray().tolist() == ADJACENCY.tolist()
    assert raw.x.toarray().tolist() == WORDS.tolist()
    assert raw.y.tolist() == CLASSES.tolist()
    assert read(tmp_path, repacked(words=False), checksum(words=False)).x is None


def test_amazon_files_keep_self_loops_and_words_without_counts(tmp_path: Path) -> None:
    raw = read(tmp_path, benchmark(), checksum(loops=True, counts=False), counts=False)
    assert raw.adjacency.toarray().tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert raw.x.toarray().tolist() == (WORDS > 0).tolist()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y": [0, 0, 1]}, "published content"),
        ({"col": [0, 2]}, "published content"),
        ({"x_data": [5, 1, 7, 1]}, "published content"),
        ({"x_indices": [2, 3, 0, 3]}, "published content"),
        ({"y": np.array([0, {}, 1], dtype=object)}, "cannot be read"),
        ({"x_indices": [0, 99, 0, 3]}, "cannot be read"),
        ({"x_indptr": [0, 5]}, "cannot be read"),
        ({"x_columns": [3, 4]}, "cannot be read"),
        ({"row": [0, 5]}, "cannot be read"),
    ],
)
def test_every_array_is_verified(change: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, repacked() | {name: np.asarray(value) for name, value in change.items()}, checksum())


@pytest.mark.parametrize("length", [0, 2, 100])
def test_truncated_files(length: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **benchmark())
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:length])
    with pytest.raises(DataError, match="cannot be read as the data file"):
        attributed.read_file(tmp_path / "a.npz", "a.npz", "")


def test_what_has_no_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pass as root a folder that holds attributed/polblogs.npz"):
        datasets.load("polblogs", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_physics_has_another_name_at_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def fetch(url: str, target: Path, check: partial, name: str, advice: str) -> None:
        asked.append(url)
        target.parent.mkdir(parents=True)
        np.savez(target, **benchmark())
        check(target)

    monkeypatch.setitem(attributed.CHECKSUMS, "physics", checksum())
    monkeypatch.setattr(registry.fetching, "fetch", fetch)
    graph = datasets.load("Coauthor_Physics", tmp_path)
    assert asked == ["https://github.com/shchur/gnn-benchmark/raw/master/data/npz/ms_academic_phy.npz"]
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("physics", 3, 2)
    assert (tmp_path / "attributed" / "physics.npz").is_file()


@pytest.mark.parametrize("name", ["PHOTO", "amazon-photo", "Amazon_Electronics_Photo", " photo "])
def test_names_are_forgiving(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(attributed.CHECKSUMS, "photo", checksum(loops=True, counts=False))
    (tmp_path / "Photo/raw").mkdir(parents=True)
    np.savez(tmp_path / "Photo/raw/amazon_electronics_photo.npz", **benchmark())
    assert datasets.load(name, tmp_path).name == "photo"
    info = {info.name: info for info in datasets.available(tmp_path)}["photo"]
    assert info == dataclasses.replace(info, path=tmp_path / "Photo/raw", self_loops=1)
