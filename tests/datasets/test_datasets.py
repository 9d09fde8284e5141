"""Data sets of one graph: restricted reading, packings, checksums, downloads, and equality with PyTorch Geometric."""

import codecs
import collections
import dataclasses
import hashlib
import io
import os
import pickle
import re
import urllib.error
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import refuses

from softcut import datasets
from softcut.datasets import attributed, fetching, planetoid, registry
from softcut.datasets.fetching import RawGraph
from softcut.datasets.plain_pickles import read_plain_pickle
from softcut.errors import DataError
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


def test_available_lists_what_the_page_says(tmp_path: Path) -> None:
    infos, collections = datasets.available(tmp_path), datasets.available_collections(tmp_path)
    assert tuple(info.name for info in infos) == NAMES
    for info in (*infos, *collections):
        assert info.path is None and info.url.startswith("https://")
        assert all((info.task, info.licence, info.citation))
        assert info.graphs == 1 or info.self_loops == (2837 if info.name == "COLLAB" else 0)
    known = {i.name: [i.nodes, i.edges, i.self_loops, i.features, i.classes] for i in infos}
    known |= {i.name: [i.graphs, i.nodes, i.edges, i.features, i.classes] for i in collections}
    page = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|([ \d|]+)\|", page, flags=re.MULTILINE)
    assert {name: [int(n) for n in row.split("|") if n.strip()] for name, row in rows} == known


def test_a_mistyped_root_leaves_nothing_behind(here: Path) -> None:
    for name, root, said in (
        ("cora", "typo", r"root 'typo' is not a folder.*or leave root out"),
        ("polblogs", ".", r"pass as root a folder that holds attributed/polblogs.npz"),  # it has no source
    ):
        refuses(DataError, said, datasets.load, name, root)
        assert list(here.iterdir()) == []


def test_cache_respects_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert datasets.cache_dir() == tmp_path / "softcut"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unusable in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
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
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "elsewhere"))
    assert datasets.available()[0].path is None
    assert_is_tiny(datasets.load("cora"))
    assert not (tmp_path / "elsewhere").exists()
    folder = tmp_path / "cache/softcut/planetoid/Cora/raw"
    assert datasets.available()[0].path == folder
    assert sorted(os.listdir(folder)) == sorted(os.listdir(tmp_path / "server"))  # no temporary files
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}

    monkeypatch.setattr("urllib.request.urlopen", None)  # the network is not used again
    assert_is_tiny(datasets.load("cora"))


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "here/Cora/raw"
    write_tiny(folder, monkeypatch)
    (folder / "ind.cora.ty").write_bytes(b"other")
    for other in "0f":  # checksums below and above
        monkeypatch.setitem(planetoid.SHA256, "ind.cora.ty", other * 64)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=r"ind\.cora\.ty is not the published file"):
            datasets.load("cora", tmp_path / "here")
    (tmp_path / "root").mkdir()
    with pytest.raises(DataError, match="checksum"):  # the same file as a download never reaches the cache
        datasets.load("cora", tmp_path / "root")
    assert "ind.cora.ty" not in os.listdir(tmp_path / "root/planetoid/Cora/raw")


@pytest.mark.parametrize("name", ["cora", "photo"])
def test_offline_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offline = Mock(side_effect=urllib.error.URLError("Name or service not known"))
    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(DataError, match="check the network, or pass as root a folder") as caught:
        datasets.load(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert "SOFTCUT_DATA" not in str(caught.value)  # it would not be looked at beside root
    assert offline.call_args.kwargs == {"timeout": 30}
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path))
    refuses(DataError, "check the network, or set SOFTCUT_DATA", datasets.load, name)
    assert list(tmp_path.iterdir()) == []
    refuses(DataError, "or allow the download", datasets.load, name, tmp_path, download=False)


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
            refuses(pickle.UnpicklingError, "not plain data", read_plain_pickle, pickle.dumps(value))
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(b"cposix\nsystem\n(S'true'\ntR.")
    assert not marker.exists()


def a_table_of_arrays() -> np.ndarray:
    table = np.empty((1, 1), dtype=object)
    table[0, 0] = np.arange(3)
    return table


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
        pickle.dumps(a_table_of_arrays()),
        *(pickle.dumps(_Evil(codecs.encode, "text", name)) for name in ("ascii", "utf-8")),
        pickle.dumps(matrix_with_an_index_out_of_range(), protocol=2),
    ],
)
def test_damaged_pickles_fail_in_one_way(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        read_plain_pickle(content)


# --------------------------------------------------------------------------------- graphs in npz files


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
