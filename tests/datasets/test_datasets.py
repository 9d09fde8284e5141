"""Data sets: restricted reading, checksums, downloads, and equality with PyTorch Geometric."""

import collections
import dataclasses
import hashlib
import io
import os
import pickle
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import datasets
from softcut.datasets import fetching, planetoid, registry
from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.errors import DataError, ParameterError
from softcut.graph import Graph

NAMES = ("cora", "citeseer", "pubmed", "photo", "computers", "blogcatalog", "physics", "polblogs")


@pytest.fixture(params=NAMES)
def real(request: pytest.FixtureRequest) -> datasets.DatasetInfo:
    """One data set that is on this computer, or a skipped test."""
    info = {info.name: info for info in datasets.available()}[request.param]
    if info.path is None:
        pytest.skip(f"{info.name} is not in SOFTCUT_DATA or the cache")
    return info


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
    assert len(empty) == 15 and (graph.y[empty] == 0).all()


def test_available_lists_everything(tmp_path: Path) -> None:
    infos = datasets.available(tmp_path)
    assert tuple(info.name for info in infos) == NAMES
    for info in infos:
        assert info.path is None and info.url.startswith("https://")
        assert all((info.task, info.licence, info.citation))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="cora, citeseer, pubmed, photo, computers"):
        datasets.load("karate")
    with pytest.raises(ParameterError, match="self_loops"):
        datasets.load("cora", self_loops="add")  # type: ignore[arg-type]


def test_a_mistyped_root_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"root 'typo' is not a folder.*or leave root out"):
        datasets.load("cora", "typo")
    assert list(tmp_path.iterdir()) == []


def test_cache_respects_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert datasets.cache_dir() == tmp_path / "softcut"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert datasets.cache_dir() == tmp_path / "home" / ".cache" / "softcut"
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "data"))
    assert fetching.search_roots() == [tmp_path / "data", tmp_path / "home" / ".cache" / "softcut"]
    assert fetching.search_roots(tmp_path) == [tmp_path]


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


def write_tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny set as Planetoid files in place of Cora, with its checksums registered."""
    folder.mkdir(parents=True)
    for part, value in tiny_parts().items():
        (folder / f"ind.cora.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / "ind.cora.test.index").write_text("6\n4\n7\n")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    monkeypatch.setattr(planetoid, "SHA256", sums)
    entry = planetoid.ENTRIES[0]
    entry = dataclasses.replace(entry, files={file: f"{folder.as_uri()}/{file}" for file in entry.files})
    monkeypatch.setattr(registry, "_entries", lambda: {"cora": entry})


def assert_is_tiny(graph: Graph) -> None:
    expected = np.zeros((8, 3))
    expected[:4] = np.eye(4, 3)
    expected[6, 0], expected[4, 1], expected[7, 2] = 6, 4, 7
    assert np.array_equal(graph.x.toarray(), expected)
    assert graph.y.tolist() == [0, 1, 0, 1, 1, 0, 1, 0]
    pairs = {(int(a), int(b)) for a, b in zip(*sp.triu(graph.adjacency).nonzero(), strict=True)}
    assert pairs == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7)}
    assert set(graph.adjacency.data.tolist()) == {1.0}


@pytest.mark.parametrize("layout", ["planetoid/Cora/raw", "Cora/raw"])
def test_local_folder(layout: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / layout, monkeypatch)
    assert_is_tiny(datasets.load("cora", tmp_path, download=False))
    assert datasets.load("cora", tmp_path, self_loops="keep").adjacency.diagonal().tolist()[5] == 1.0
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path))
    assert_is_tiny(datasets.load("CORA"))


def test_download_fills_the_cache_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_tiny(tmp_path / "server", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOFTCUT_DATA", raising=False)
    assert datasets.available()[0].path is None
    assert_is_tiny(datasets.load("cora"))
    folder = tmp_path / "cache/softcut/planetoid/Cora/raw"
    assert datasets.available()[0].path == folder
    assert sorted(os.listdir(folder)) == sorted(os.listdir(tmp_path / "server"))  # no temporary files

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("the network was used again")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    assert_is_tiny(datasets.load("cora"))


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "here/Cora/raw"
    write_tiny(folder, monkeypatch)
    (folder / "ind.cora.ty").write_bytes(b"other")
    with pytest.raises(DataError, match=r"ind\.cora\.ty is not the published file"):
        datasets.load("cora", tmp_path / "here")
    (tmp_path / "root").mkdir()
    with pytest.raises(DataError, match="checksum"):  # the same file as a download never reaches the cache
        datasets.load("cora", tmp_path / "root")
    assert "ind.cora.ty" not in os.listdir(tmp_path / "root/planetoid/Cora/raw")


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
    for evil in (
        _Evil(os.system, f"touch {marker}"),
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


def matrix_with_an_index_out_of_range() -> sp.csr_matrix:
    matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
    matrix.indices[1] = 1000
    return matrix


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        pickle.dumps(np.arange(9))[:-20],
        pickle.dumps(np.array([{}], dtype=object)),
        pickle.dumps(np.array(["text"])),
        pickle.dumps(matrix_with_an_index_out_of_range(), protocol=2),
    ],
)
def test_damaged_pickles_fail_in_one_way(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(content)
