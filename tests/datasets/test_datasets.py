"""Data sets: restricted reading, checksums, downloads, and equality with PyTorch Geometric."""

from __future__ import annotations

import collections
import dataclasses
import io
import os
import pickle
import urllib.error
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import normalized_mutual_info_score

from softcut import datasets
from softcut.datasets import attributed, fetching, planetoid, registry
from softcut.datasets.info import Entry
from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.errors import DataError, ParameterError

NAMES = ("cora", "citeseer", "pubmed", "photo", "computers", "blogcatalog", "physics", "polblogs")


@pytest.fixture(params=NAMES)
def real(request: pytest.FixtureRequest) -> datasets.DatasetInfo:
    """One data set that is on this computer, or a skipped test."""
    info = {info.name: info for info in datasets.available()}[request.param]
    if info.path is None:
        pytest.skip(f"{info.name} is not in SOFTCUT_DATA or the cache")
    return info


# ------------------------------------------------------------------------------------------- real data


def test_published_counts(real: datasets.DatasetInfo) -> None:
    graph = datasets.load(real.name)
    assert graph.name == real.name
    assert (graph.num_nodes, graph.num_edges) == (real.nodes, real.edges)
    assert graph.num_features == real.features
    assert real.features == 0 or graph.x.shape == (real.nodes, real.features)
    assert np.array_equal(np.unique(graph.y), np.arange(real.classes))
    assert graph.adjacency.diagonal().sum() == 0
    kept = datasets.load(real.name, self_loops="keep").adjacency
    assert np.count_nonzero(kept.diagonal()) == real.self_loops
    assert kept.nnz == 2 * real.edges + real.self_loops
    assert set(np.unique(kept.data)) == {1.0}


def test_equal_to_pytorch_geometric(real: datasets.DatasetInfo) -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.io import read_npz, read_planetoid_data

    if "planetoid" not in real.url and "amazon" not in str(real.path):
        pytest.skip("not among the files that PyTorch Geometric reads")
    if real.name in ("photo", "computers"):
        data = read_npz(str(real.path / f"amazon_electronics_{real.name}.npz"))
    else:
        data = read_planetoid_data(str(real.path), real.name)
    graph = datasets.load(real.name)
    edges = data.edge_index.numpy()
    expected = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=graph.adjacency.shape)
    assert expected.nnz == edges.shape[1] == graph.adjacency.nnz
    assert abs(expected - graph.adjacency).nnz == 0
    assert np.array_equal(graph.y, data.y.numpy())
    assert np.array_equal(graph.x.toarray(), data.x.numpy())


def test_citeseer_keeps_its_nodes_without_features() -> None:
    try:
        graph = datasets.load("citeseer", download=False)
    except DataError:
        pytest.skip("citeseer is not in SOFTCUT_DATA or the cache")
    empty = np.flatnonzero(np.diff(graph.x.indptr) == 0)
    assert len(empty) == 15
    assert (graph.y[empty] == 0).all()
    assert np.count_nonzero(np.diff(graph.adjacency.indptr) == 0) == 48


# ---------------------------------------------------------------------------------- names and folders


def test_available_lists_everything(tmp_path: Path) -> None:
    infos = datasets.available(tmp_path)
    assert tuple(info.name for info in infos) == NAMES
    for info in infos:
        assert info.path is None
        assert info.task
        assert info.licence
        assert info.citation
        assert info.url.startswith("https://")


@pytest.mark.parametrize("name", ["PHOTO", "amazon-photo", "Amazon_Photo", " photo "])
def test_names_are_forgiving(name: str) -> None:
    assert registry._find(name).info.name == "photo"


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="cora, citeseer, pubmed, photo, computers"):
        datasets.load("karate")
    with pytest.raises(ParameterError, match="self_loops"):
        datasets.load("cora", self_loops="add")  # type: ignore[arg-type]


def test_cache_respects_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert datasets.cache_dir() == tmp_path / "softcut"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert datasets.cache_dir() == tmp_path / "home" / ".cache" / "softcut"
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "data"))
    assert fetching.search_roots() == [tmp_path / "data", tmp_path / "home" / ".cache" / "softcut"]
    assert fetching.search_roots(tmp_path) == [tmp_path]


# ------------------------------------------------------------------------ a tiny set in the same formats


def tiny_parts() -> dict[str, object]:
    """Eight nodes; the test nodes are 4..7 in the file order 6, 4, 7, so node 5 is missing as in CiteSeer."""
    graph: collections.defaultdict[int, list[int]] = collections.defaultdict(list)
    for a, b in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7), (0, 1)]:
        graph[a].append(b)
        graph[b].append(a)
    graph[5].append(5)
    return {
        "allx": sp.csr_matrix(np.eye(4, 3, dtype=np.float32)),
        "ally": np.eye(2, dtype=np.int32)[[0, 1, 0, 1]],
        "tx": sp.csr_matrix(np.array([[6, 0, 0], [0, 4, 0], [0, 0, 7]], dtype=np.float64)),
        "ty": np.eye(2, dtype=np.int32)[[1, 1, 0]],
        "graph": graph,
    }


def write_tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """The tiny set as Planetoid files under the name "tiny", with its checksums registered."""
    import hashlib

    folder.mkdir(parents=True)
    for part, value in tiny_parts().items():
        (folder / f"ind.tiny.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / "ind.tiny.test.index").write_text("6\n4\n7\n")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    monkeypatch.setattr(planetoid, "SHA256", sums)
    entry = planetoid.ENTRIES[0]
    entry = dataclasses.replace(
        entry,
        info=dataclasses.replace(entry.info, name="tiny", url=folder.as_uri() + "/"),
        folders=("planetoid/Tiny/raw", "Tiny/raw"),
        files=tuple(sorted(sums)),
        read=partial(planetoid.read, prefix="tiny"),
    )
    monkeypatch.setattr(registry, "_entries", lambda: {"tiny": entry})
    return entry


def assert_is_tiny(graph: datasets.synthetic.Graph) -> None:
    expected = np.zeros((8, 3))
    expected[:4] = np.eye(4, 3)
    expected[6, 0], expected[4, 1], expected[7, 2] = 6, 4, 7
    assert np.array_equal(graph.x.toarray(), expected)
    assert graph.y.tolist() == [0, 1, 0, 1, 1, 0, 1, 0]
    pairs = {(int(a), int(b)) for a, b in zip(*sp.triu(graph.adjacency).nonzero(), strict=True)}
    assert pairs == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7)}
    assert set(graph.adjacency.data.tolist()) == {1.0}


@pytest.mark.parametrize("layout", ["planetoid/Tiny/raw", "Tiny/raw"])
def test_local_folder(layout: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / layout, monkeypatch)
    assert_is_tiny(datasets.load("tiny", tmp_path, download=False))
    assert datasets.load("tiny", tmp_path, self_loops="keep").adjacency.diagonal().tolist()[5] == 1.0
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path))
    assert_is_tiny(datasets.load("TINY"))


def test_download_fills_the_cache_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / "server", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOFTCUT_DATA", raising=False)
    assert datasets.available()[0].path is None
    assert_is_tiny(datasets.load("tiny"))
    folder = tmp_path / "cache/softcut/planetoid/Tiny/raw"
    assert datasets.available()[0].path == folder
    assert sorted(os.listdir(folder)) == sorted(os.listdir(tmp_path / "server"))  # no temporary files

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("the network was used again")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    assert_is_tiny(datasets.load("tiny"))


def test_a_changed_download_never_reaches_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / "server", monkeypatch)
    with (tmp_path / "server" / "ind.tiny.allx").open("ab") as file:
        file.write(b"!")
    (tmp_path / "root").mkdir()
    with pytest.raises(DataError, match="checksum"):
        datasets.load("tiny", tmp_path / "root")
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


def test_a_changed_local_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / "Tiny/raw", monkeypatch)
    (tmp_path / "Tiny/raw/ind.tiny.ty").write_bytes(b"other")
    with pytest.raises(DataError, match=r"ind\.tiny\.ty is not the published file"):
        datasets.load("tiny", tmp_path)


@pytest.mark.parametrize("name", ["cora", "photo"])
def test_offline_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: object, **__: object) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(DataError, match="check the network, or pass as root a folder") as caught:
        datasets.load(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert "SOFTCUT_DATA" not in str(caught.value)  # it would not be looked at beside root
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="check the network, or set SOFTCUT_DATA"):
        datasets.load(name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="or allow the download"):
        datasets.load(name, tmp_path, download=False)


def test_a_mistyped_root_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="root 'typo' is not a folder") as caught:
        datasets.load("cora", "typo")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ amazon npz files


def amazon_arrays() -> dict[str, np.ndarray]:
    adjacency = sp.csr_matrix(np.array([[0, 1, 0], [0, 1, 0], [1, 0, 0]], dtype=np.float32))
    attributes = sp.csr_matrix(np.array([[0, 2, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=np.float32))
    arrays = {"labels": np.array([1, 0, 1], dtype=np.int32)}
    for name, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    return arrays


def checksum_of(arrays: dict[str, np.ndarray], path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    np.savez(path, **arrays)
    seen: list[str] = []
    real_checksum = attributed.content_checksum
    with monkeypatch.context() as patch:
        patch.setattr(attributed, "content_checksum", lambda *a: seen.append(real_checksum(*a)) or "any")
        attributed.read_file(path, path.name, "any", counts=False)
    return seen[0]


def test_amazon_content_checksum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = amazon_arrays()
    expected = checksum_of(arrays, path, monkeypatch)
    raw = attributed.read_file(path, path.name, expected, counts=False)
    assert raw.adjacency.toarray().tolist() == [[0, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert raw.x.toarray().tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]]
    # Another packing of the same content: compressed, other types, other order in a row, extra arrays.
    other = {key: value.astype(np.int64) for key, value in arrays.items()}
    other["attr_indices"] = other["attr_indices"][[1, 0, 2, 3]]
    other["attr_data"] = other["attr_data"][[1, 0, 2, 3]]
    other["node_names"] = np.array(["a", {"pickled": "object"}, "c"], dtype=object)
    np.savez_compressed(path, **other)
    assert np.array_equal(attributed.read_file(path, path.name, expected, counts=False).y, [1, 0, 1])
    changed = {**arrays, "labels": np.array([0, 0, 1])}
    np.savez(path, **changed)
    with pytest.raises(DataError, match="published content"):
        attributed.read_file(path, path.name, expected, counts=False)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.array([0, {}, 1], dtype=object)},
        {"adj_indices": np.array([1, 99, 0])},
        {"adj_indptr": np.array([0, 5])},
        {"attr_shape": np.array([3])},
    ],
)
def test_amazon_damaged_files(change: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **{**amazon_arrays(), **change})
    with pytest.raises(DataError, match="cannot be read"):
        attributed.read_file(path, path.name, "", counts=False)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read"):
        attributed.read_file(path, path.name, "", counts=False)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read"):
        attributed.read_file(path, path.name, "", counts=False)


# ------------------------------------------------------------------------------------ plain pickles only


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i4", "u1", "?"])
def test_plain_pickles_are_read(protocol: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    array = np.asfortranarray(rng.integers(0, 2, (3, 4)).astype(dtype))
    assert np.array_equal(read_plain_pickle(pickle.dumps(array, protocol=protocol)), array)
    matrix = sp.csr_matrix(np.ascontiguousarray(array).astype(np.float32))
    if protocol > 1:  # the older ones rebuild objects through copyreg, which is not needed here
        assert abs(read_plain_pickle(pickle.dumps(matrix, protocol=protocol)) - matrix).nnz == 0


class _Evil:
    def __init__(self, function: object, *arguments: object) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> object:
        return self.reduced


def test_pickled_code_is_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = f"touch {marker}"
    for evil in (
        _Evil(os.system, command),
        _Evil(eval, f"open({str(marker)!r}, 'w')"),
        _Evil(io.open, str(marker), "w"),
        _Evil(np.load, str(marker), None, True),
        _Evil(collections.OrderedDict),
    ):
        for value in (evil, {0: [evil]}, [evil]):
            with pytest.raises(pickle.UnpicklingError, match="not plain data"):
                read_plain_pickle(pickle.dumps(value))
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(b"cposix\nsystem\n(S'true'\ntR.")
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", pickle.dumps(np.arange(9))[:-20], pickle.dumps(np.array([{}], dtype=object))],
)
def test_damaged_pickles_fail_in_one_way(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(content)


def test_a_matrix_with_indices_out_of_range_is_refused() -> None:
    matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
    matrix.indices[1] = 1000
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(pickle.dumps(matrix, protocol=2))


# ----------------------------------------------------------------------------------------- generated


def test_ring_and_grid_equal_networkx() -> None:
    ring = datasets.ring_graph(9)
    assert np.array_equal(ring.adjacency.toarray(), nx.to_numpy_array(nx.cycle_graph(9)))
    assert np.allclose(np.linalg.norm(ring.x, axis=1), 1)
    grid = datasets.grid_graph(5, 3)
    expected = nx.to_numpy_array(nx.grid_2d_graph(5, 3))  # nodes in the order (0, 0), (0, 1), ...
    assert np.array_equal(grid.adjacency.toarray(), expected)
    rows, columns = grid.adjacency.nonzero()
    assert np.allclose(np.linalg.norm(grid.x[rows] - grid.x[columns], axis=1), 0.25)


@pytest.mark.parametrize("seed", range(5))
def test_community_graph(seed: int) -> None:
    graph = datasets.community_graph(6, 150, seed=seed)
    same = datasets.community_graph(6, 150, seed=seed)
    assert np.array_equal(graph.x, same.x)
    assert abs(graph.adjacency - same.adjacency).nnz == 0
    rows, columns = graph.adjacency.nonzero()
    assert (graph.y[rows] == graph.y[columns]).mean() > 0.85
    assert np.bincount(graph.y).min() >= 8
    assert np.diff(graph.adjacency.indptr).min() >= 1
    assert graph.adjacency.diagonal().sum() == 0


@pytest.mark.parametrize("degree", [4.0, 20.0, 100.0])
@pytest.mark.parametrize("features", [16, 2000])
def test_attributed_communities(degree: float, features: int) -> None:
    graph = datasets.attributed_communities(
        1000, 5, degree, features, edge_signal=0.7, feature_signal=0.5, seed=3
    )
    assert graph.num_edges == round(1000 * degree / 2)
    assert graph.x.shape == (1000, features)
    assert set(np.unique(graph.x.data)) == {1.0}
    assert np.diff(graph.x.indptr).min() >= 1
    rows, columns = graph.adjacency.nonzero()
    inside = (graph.y[rows] == graph.y[columns]).mean()
    assert inside == pytest.approx(0.7 + 0.3 / 5, abs=0.06)


def test_attributed_communities_signal() -> None:
    def share_inside(signal: float) -> float:
        graph = datasets.attributed_communities(1000, 4, 10, 0, edge_signal=signal)
        assert graph.x is None
        rows, columns = graph.adjacency.nonzero()
        return float((graph.y[rows] == graph.y[columns]).mean())

    assert share_inside(0.0) == pytest.approx(0.25, abs=0.04)
    assert share_inside(1.0) == 1.0

    def feature_information(signal: float) -> float:
        """How well the class whose words a node uses most tells the class."""
        graph = datasets.attributed_communities(1000, 4, 10, 100, feature_signal=signal)
        profile = np.stack([graph.x[graph.y == c].mean(axis=0) for c in range(4)])
        profile = np.asarray(profile).reshape(4, -1)
        guess = (graph.x @ np.log(profile + 1e-2).T - (1 - graph.x.toarray()) @ profile.T).argmax(axis=1)
        return float(normalized_mutual_info_score(graph.y, guess))

    assert feature_information(0.0) < 0.1
    assert feature_information(0.9) > 0.8


def test_attributed_communities_degrees_and_sizes() -> None:
    even = datasets.attributed_communities(2000, 4, 20, 10, degree_spread=0)
    uneven = datasets.attributed_communities(2000, 4, 20, 10, degree_spread=1, size_spread=1)
    assert np.diff(even.adjacency.indptr).std() < 6 < np.diff(uneven.adjacency.indptr).std()
    assert np.bincount(even.y).std() < np.bincount(uneven.y).std()


def test_generators_are_deterministic_and_take_extremes() -> None:
    first, second, other = (datasets.attributed_communities(300, 3, 5, 20, seed=s) for s in (1, 1, 2))
    assert abs(first.adjacency - second.adjacency).nnz == 0
    assert abs(first.x - second.x).nnz == 0
    assert abs(first.adjacency - other.adjacency).nnz > 0
    assert datasets.attributed_communities(5, 5, 0, 1).num_edges == 0
    assert datasets.attributed_communities(1, 1, 0, 1).num_nodes == 1
    assert datasets.attributed_communities(12, 2, 11, 2, edge_signal=0, degree_spread=0).num_edges == 66


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: datasets.ring_graph(2), "at least 3"),
        (lambda: datasets.grid_graph(0, 4), "height"),
        (lambda: datasets.community_graph(6, 10), "n_nodes"),
        (lambda: datasets.attributed_communities(10, 11), "n_clusters"),
        (lambda: datasets.attributed_communities(10, 2, 10), "average_degree"),
        (lambda: datasets.attributed_communities(100, 2, n_features=-1), "n_features"),
        (lambda: datasets.attributed_communities(100, 2, edge_signal=1.5), "edge_signal"),
        (lambda: datasets.attributed_communities(100, 2, degree_spread=-1), "degree_spread"),
    ],
)
def test_bad_arguments_are_named(call, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call()
