"""Lists of graphs: readers, checksums, published statistics, packed files, a user's folder, equality with PyG."""

import dataclasses
import re
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import refuses

from softcut.datasets import available_collections, collections, load, load_graphs, pack, tu
from softcut.datasets.raw_graphs import RawGraphs, _small, read_bench, read_packed, write_packed
from softcut.datasets.tu import NodeFeatures, find_files, read_folder, read_targets, read_tu_folder
from softcut.errors import DataError, ParameterError


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "softcut"


# Three graphs, among them one with an isolated node and one with a self-loop and a repeated edge.
TU_FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n6, 6\n5, 6\n6, 5\n5, 6\n7, 8\n8, 7\n",
    "graph_indicator": "1\n1\n1\n1\n2\n2\n3\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "0\n3\n0\n3\n7\n7\n0\n0\n",
    "node_attributes": " 23.000000\n 10.0\n 10.0\n 23.0\n 1.0\n 1.0\n 1.0\n 10.0\n",
}


def write_tu(folder: Path, name: str = "TINY", files: dict[str, str] = TU_FILES) -> None:
    folder.mkdir(parents=True)
    for part, text in files.items():
        (folder / f"{name}_{part}.txt").write_text(text)


def tiny_raw(tmp_path: Path) -> RawGraphs:
    write_tu(tmp_path / "raw")
    return tu.read_folder(tmp_path / "raw", "TINY")


def test_tu_files_become_the_published_features(tmp_path: Path) -> None:
    raw = tiny_raw(tmp_path)
    assert (raw.num_nodes.tolist(), raw.num_edges.tolist()) == ([4, 2, 2], [2, 1, 1])
    assert (raw.edges.tolist(), raw.self_loops) == ([[0, 1, 0, 0], [1, 2, 1, 1]], 1)
    graphs = raw.collection("tiny")
    assert graphs.y.tolist() == [1, 0, 1]
    assert graphs.classes == ("-1", "1")
    # Degrees 0 to 2, three labels, three attribute values, the clustering coefficient (0 everywhere).
    degree, label, value = [1, 2, 1, 0, 1, 1, 1, 1], [0, 1, 0, 1, 2, 2, 0, 0], [2, 1, 1, 2, 0, 0, 0, 1]
    expected = np.hstack([np.eye(3)[degree], np.eye(3)[label], np.eye(3)[value], np.zeros((8, 1))])
    assert np.array_equal(graphs.dense_features(), expected)
    blocks = sp.block_diag([part.adjacency() for part in (graphs[[0]], graphs[[1]], graphs[[2]])])
    assert np.array_equal(graphs.adjacency().toarray(), blocks.toarray())


def test_packed_files_hold_everything(tmp_path: Path) -> None:
    raw = tiny_raw(tmp_path)
    path = write_packed(tmp_path / "packed.npz", raw)
    again = read_packed(path)
    for name, value in vars(raw.with_coefficients()).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    assert again.coefficients is not None
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    whole = ("num_nodes", "num_edges", "first", "distance", "y", "node_labels", "attributes")
    assert {arrays[name].dtype.name for name in whole} == {"int8"}
    assert arrays["coefficients"].dtype == np.float32
    for change, said in (
        *(({"format": number}, f"format {number} is not known") for number in (0, 2)),
        ({"structure": {}}, "cannot be read"),
    ):
        np.savez(path, **(arrays | change))
        refuses(DataError, said, read_packed, path)


@pytest.mark.parametrize("change", ["num_nodes", "edges", "y", "node_labels", "attributes"])
def test_checksum_sees_every_array(change: str, tmp_path: Path) -> None:
    raw = tiny_raw(tmp_path)
    array = getattr(raw, change).copy()
    array.flat[-1] += 1
    assert dataclasses.replace(raw, **{change: array}).checksum() != raw.checksum()


def write_bench(path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("tr", 4), ("val", 1), ("te", 2)):
        adj, feat = np.empty(count, object), np.empty(count, object)
        for i in range(count):
            dense = np.triu(rng.random((5 + i, 5 + i)) < 0.5, 1)
            adj[i] = sp.csr_matrix((dense | dense.T).astype(np.float32))
            feat[i] = np.eye(5, dtype=np.float32)[rng.integers(5, size=5 + i)]
        classes = np.eye(3)[rng.integers(3, size=count)]
        arrays |= {f"{part}_adj": adj, f"{part}_feat": feat, f"{part}_class": classes}
    np.savez(path, **arrays)


def test_bench_equals_unpickling(tmp_path: Path) -> None:
    write_bench(tmp_path / "b.npz")
    graphs = read_bench(tmp_path / "b.npz").collection("b")
    with np.load(tmp_path / "b.npz", allow_pickle=True) as file:  # our own file
        matrices = [m for part in ("tr", "val", "te") for m in file[f"{part}_adj"]]
        colours = np.concatenate([f for part in ("tr", "val", "te") for f in file[f"{part}_feat"]])
        y = np.concatenate([file[f"{part}_class"] for part in ("tr", "val", "te")]).argmax(1)
    assert np.array_equal(graphs.adjacency().toarray(), sp.block_diag(matrices).toarray())
    used = np.flatnonzero(colours.any(0))  # colours that no node has take no column
    assert np.array_equal(graphs.dense_features(), colours[:, used])
    assert np.array_equal(np.array(graphs.classes, int)[graphs.y], y)
    assert graphs.split.tolist() == [0, 0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("change", "rows"), [(name, rows) for name in ("te_class", "te_feat") for rows in (-1, 1)]
)
def test_bench_files_of_unequal_parts_are_refused(change: str, rows: int, tmp_path: Path) -> None:
    write_bench(tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz", allow_pickle=True) as file:  # our own file
        arrays = dict(file)
    if change == "te_class":
        arrays[change] = np.eye(3)[: 2 + rows]
    else:
        arrays[change][0] = np.eye(6)[: len(arrays[change][0]) + rows, :5]  # one colour per node
    np.savez(tmp_path / "b.npz", **arrays)
    refuses(DataError, "its parts do not belong together", read_bench, tmp_path / "b.npz")


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("evil"),)


def test_files_of_graphs_run_no_code(here: Path) -> None:
    np.savez(here / "b.npz", tr_adj=np.array([_Evil()], object))
    refuses(DataError, "cannot be read as a Bench file", read_bench, here / "b.npz")
    np.savez(here / "c.npz", num_nodes=np.array([_Evil()], object))
    refuses(DataError, "c.npz cannot be read", tu.read_compact, here / "c.npz")
    assert not (here / "evil").exists()


def tiny_entry(checksum: str | None) -> collections.Collection:
    """The tiny set in place of PROTEINS, with its averages and perhaps a checksum."""
    known = collections.COLLECTIONS["PROTEINS"]
    sources = tuple(dataclasses.replace(source, checksum=checksum) for source in known.sources)
    averages = {"nodes": 2.67, "edges": 1.67, "info": dataclasses.replace(known.info, graphs=3)}
    return dataclasses.replace(known, sources=sources, download=sources[-1], **averages)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder with the tiny set as PROTEINS."""
    write_tu(tmp_path / "data/tudataset/PROTEINS/raw", "PROTEINS")
    raw = tu.read_folder(tmp_path / "data/tudataset/PROTEINS/raw", "PROTEINS")
    monkeypatch.setitem(collections.COLLECTIONS, "PROTEINS", tiny_entry(raw.checksum()))
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_loading_keeps_a_compact_copy(tiny: Path, own_cache: Path) -> None:
    first = load_graphs("proteins")
    assert (own_cache / "graphs/PROTEINS.npz").is_file()
    for file in (tiny / "tudataset/PROTEINS/raw").iterdir():
        file.unlink()
    second = load_graphs("PROTEINS", download=False)
    assert np.array_equal(first.dense_features(), second.dense_features())
    assert {info.name: info.path for info in available_collections()}["PROTEINS"] is not None


def test_changed_content_is_refused(tiny: Path, own_cache: Path, tmp_path: Path) -> None:
    pack.pack("PROTEINS", tmp_path / "out")
    assert len(load_graphs("PROTEINS", tmp_path / "out")) == 3
    (tiny / "tudataset/PROTEINS/raw/PROTEINS_node_labels.txt").write_text("0\n" * 8)
    (own_cache / "graphs/PROTEINS.npz").unlink()
    changed = tu.read_folder(tiny / "tudataset/PROTEINS/raw", "PROTEINS")
    write_packed(tmp_path / "out/PROTEINS.npz", changed)
    for root in (None, tmp_path / "out"):
        refuses(DataError, "does not hold the published data set PROTEINS", load_graphs, "PROTEINS", root)


def test_the_command_packs_what_it_is_told_to(tiny: Path, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "out"
    assert pack.main(["proteins", "--out", str(out), "--data", str(tiny)]) == 0
    assert [path.name for path in out.iterdir()] == ["PROTEINS.npz"]
    assert pack.main(["PROTEINS", "--coarse", "--out", str(out), "--data", str(tiny)]) == 0
    files = ["PROTEINS.npz", "PROTEINS.npz", "PROTEINS.graclus.npz", "PROTEINS.ndp.npz"]
    for line, file in zip(capsys.readouterr().out.splitlines(), files, strict=True):
        size, seconds = re.fullmatch(rf"{out}/{file}: ([\d.]+) MB, ([\d.]+) s", line).groups()  # type: ignore[union-attr]
        assert abs(float(size) - (out / file).stat().st_size / 1e6) <= 0.005 and float(seconds) < 60
    assert pack.main(["nothing", "--out", str(out)]) == 2
    assert "no list of graphs named 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_packed_numbers_take_the_smallest_type(bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for numbers, wanted in (([low, high], bits), ([low - 1], 2 * bits), ([high + 1], 2 * bits)):
        small = _small(np.array(numbers))
        assert (small.dtype, small.tolist()) == (f"int{wanted}", numbers)


def test_compact_files_of_edges(tmp_path: Path) -> None:
    """Node numbers begin anew in every graph, and edges may come in both directions."""
    edges = {"num_nodes": [3, 2, 2], "num_edges": [3, 0, 2], "edges": [[0, 2, 1, 1, 0], [1, 1, 1, 0, 1]]}
    np.savez(tmp_path / "a.npz", y=[1, 0, 1], **edges)
    raw = tu.read_compact(tmp_path / "a.npz")
    assert (raw.num_nodes.tolist(), raw.num_edges.tolist()) == ([3, 2, 2], [2, 0, 1])
    assert (raw.edges.tolist(), raw.self_loops, raw.y.tolist()) == ([[0, 1, 0], [1, 2, 1]], 1, [1, 0, 1])
    assert raw.structure and raw.collection("a").num_features == 4  # degrees 0 to 2, and the coefficient


def test_published_statistics_decide_without_a_checksum(
    tiny: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tiny_entry(None)
    for known in (entry, dataclasses.replace(entry, edges=3.33, edges_per_pair=2)):
        monkeypatch.setitem(collections.COLLECTIONS, "PROTEINS", known)
        assert len(load_graphs("PROTEINS", tiny)) == 3
    assert not own_cache.exists()  # a folder was named: nothing is kept elsewhere
    for edges in ("1, 2\n", TU_FILES["A"] + "1, 3\n1, 4\n"):  # fewer, and more
        (tiny / "tudataset/PROTEINS/raw/PROTEINS_A.txt").write_text(edges)
        refuses(DataError, "were published", load_graphs, "PROTEINS", tiny)
    none = {"y": np.zeros(0, np.int64), "node_labels": None, "attributes": None}
    packed = write_packed(
        tiny / "PROTEINS.npz", RawGraphs.from_edges([], *np.zeros((2, 0), np.int64), **none)
    )
    refuses(DataError, rf"{packed} does not hold the published", load_graphs, "PROTEINS", tiny)


def test_download_of_a_list_of_graphs(
    tiny: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The archive of the source has the content of the folder."""
    with zipfile.ZipFile(tmp_path / "PROTEINS.zip", "w", zipfile.ZIP_LZMA) as archive:
        for path in (tiny / "tudataset/PROTEINS/raw").iterdir():
            archive.write(path, f"PROTEINS/{path.name}")
    known = collections.COLLECTIONS["PROTEINS"]
    info = dataclasses.replace(known.info, url=tmp_path.as_uri() + "/")
    monkeypatch.setitem(collections.COLLECTIONS, "PROTEINS", dataclasses.replace(known, info=info))
    (tmp_path / "empty").mkdir()
    refuses(DataError, "allow the download", load_graphs, "PROTEINS", tmp_path / "empty", download=False)
    assert len(load_graphs("PROTEINS", tmp_path / "empty")) == 3
    assert (tmp_path / "empty/tudataset/PROTEINS.zip").is_file()
    assert not own_cache.exists()
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "nowhere"))
    assert len(load_graphs("PROTEINS")) == 3
    assert [path.name for path in own_cache.rglob("*.*")] == ["PROTEINS.zip"]  # downloads go to the cache


def test_names_of_both_kinds() -> None:
    for name, said in (("proteins", "load_graphs"), ("karate", "cora, citeseer, pubmed, photo, computers")):
        refuses(ParameterError, said, load, name)
    refuses(ParameterError, "Bench-easy, Bench-hard, Mutagenicity", load_graphs, "cora")


def test_the_authors_of_the_benchmark_count_both_directions_of_an_edge() -> None:
    known = [
        collections.COLLECTIONS[f"Bench-{name}"] for name in ("easy-small", "hard-small", "easy", "hard")
    ]
    averages = [(58.25, 358.8), (58.64, 224.95), (147.82, 922.66), (148.32, 572.32)]
    assert [(each.nodes, each.edges) for each in known] == averages
    assert {each.edges_per_pair for each in known} == {2}


REAL = ("Bench-easy", "Bench-hard", "Mutagenicity", "PROTEINS", "DD", "Bench-easy-small", "Bench-hard-small")


@pytest.mark.parametrize("name", REAL)
def test_published_numbers(name: str) -> None:
    info = {info.name: info for info in available_collections()}[name]
    if info.path is None:
        pytest.skip(f"{name} is not in SOFTCUT_DATA or the cache")
    graphs = load_graphs(name, download=False)
    assert (len(graphs), len(graphs.classes)) == (info.graphs, info.classes)
    assert (graphs.num_nodes, len(graphs.col)) == (info.nodes, 2 * info.edges)
    assert graphs.num_features == info.features
    adjacency = graphs.adjacency()
    assert abs(adjacency - adjacency.T).nnz == 0
    assert adjacency.diagonal().sum() == 0
    assert bool(graphs.note) == (name in ("Bench-easy", "Bench-hard"))
    assert (graphs.split is not None) == name.startswith("Bench")


def test_equal_to_pytorch_geometric() -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.io import read_tu_data

    info = {info.name: info for info in available_collections()}["PROTEINS"]
    if info.path is None or not info.path.is_dir():
        pytest.skip("PROTEINS is not in SOFTCUT_DATA")
    data, slices, sizes = read_tu_data(str(info.path), "PROTEINS")
    graphs = load_graphs("PROTEINS")
    edges = data.edge_index.numpy()
    # Edges are numbered within their graphs there as well.
    assert np.array_equal(slices["x"].numpy(), graphs.ptr)
    assert np.array_equal(edges[1], graphs.col)
    assert np.array_equal(data.y.numpy(), graphs.y)
    labels = data.x.numpy()[:, sizes["num_node_attributes"] :]
    assert np.array_equal(graphs.dense_features()[:, 26:29], labels)


OWN_FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n5, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "7\n-1\n",
    "node_labels": "5\n9\n5\n9\n9\n",
    "node_attributes": "0.5, 1\n1.5, 1\n2.5, 1\n3.5, 1\n4.5, 1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tu(tmp_path / "own", "OWN", OWN_FILES)
    return tmp_path / "own"


def test_graphs_labels_and_attributes(folder: Path) -> None:
    graphs, features = read_tu_folder(folder)
    expected = nx.Graph([(0, 1), (1, 2), (3, 4)])  # the self-loop is dropped
    assert np.array_equal(graphs.adjacency().toarray(), nx.to_numpy_array(expected))
    assert graphs.classes == ("-1", "7")
    assert graphs.y.tolist() == [1, 0]
    assert features == NodeFeatures([5, 9], [2.5, 1.0], [np.sqrt(2.0), 1.0])
    wanted = [[1, 0, 1, 0, 0], [0, 1, 0, 1, 1], (np.arange(5) - 2) / np.sqrt(2), np.zeros(5)]
    np.testing.assert_allclose(graphs.dense_features().T, wanted, rtol=1e-6)


def test_the_features_of_training_graphs_are_used_for_others(folder: Path) -> None:
    known = NodeFeatures([3, 5, 9], [0.0, 0.0], [2.0, 1.0])
    (folder / "OWN_graph_labels.txt").unlink()
    graphs, same = read_tu_folder(folder, known)
    assert same is known
    assert graphs.y is None
    x = graphs.dense_features()
    assert x[0].tolist() == [0, 1, 0, 0.25, 1]
    with pytest.raises(DataError, match="holds the label 9, which no training graph had"):
        read_tu_folder(folder, NodeFeatures([3, 5], [0.0, 0.0], [1.0, 1.0]))
    with pytest.raises(DataError, match="holds the label 5, which no training graph had"):
        read_tu_folder(folder, NodeFeatures([7, 9], [0.0, 0.0], [1.0, 1.0]))
    for count in (1, 3):
        with pytest.raises(DataError, match=f"must have the {count} attributes"):
            read_tu_folder(folder, NodeFeatures([5, 9], [0.0] * count, [1.0] * count))
    with pytest.raises(DataError, match="trained without node labels"):
        read_tu_folder(folder, NodeFeatures([], [0.0, 0.0], [1.0, 1.0]))
    (folder / "OWN_node_labels.txt").unlink()
    with pytest.raises(DataError, match="is missing, but the model was trained with node labels"):
        read_tu_folder(folder, known)
    plain, features = read_tu_folder(folder)
    assert features == NodeFeatures([], [2.5, 1.0], [np.sqrt(2.0), 1.0]) and plain.num_features == 2


def test_graphs_without_edges_and_files_in_a_folder_raw(folder: Path) -> None:
    write_tu(folder / "raw", "BARE", {"A": "", "graph_indicator": "1\n2\n"})
    graphs, features = read_tu_folder(folder / "raw")
    assert (graphs.sizes.tolist(), len(graphs.col), graphs.num_features) == ([1, 1], 0, 0)
    assert features == NodeFeatures([], [], [])
    assert find_files(folder) == (folder, "OWN")  # its own files come first
    (folder / "OWN_A.txt").unlink()
    assert find_files(folder) == (folder / "raw", "BARE")


def test_numbers_to_predict_have_a_line_for_each_graph(folder: Path) -> None:
    graphs, _ = read_tu_folder(folder)
    assert read_targets(folder, graphs) is None
    for text, lines in (("0.5, 1\n", 1), ("0.5, 1\n" * 3, 3)):
        (folder / "OWN_graph_attributes.txt").write_text(text)
        refuses(DataError, f"for each of the 2 graphs, got {lines}", read_targets, folder, graphs)
    (folder / "OWN_graph_attributes.txt").write_text("0.5, 1\n-2, 3\n")
    assert read_targets(folder, graphs).tolist() == [[0.5, 1.0], [-2.0, 3.0]]


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        *(
            ("A", pairs, "node numbers from 1 to 5")
            for pairs in ("1, 9\n", "6, 1\n", "0, 1\n", "1\n2\n", "1, 2, 3\n")
        ),
        ("A", "1, 4\n", "joins two graphs"),
        ("A", "1, x\n", "cannot be read as numbers"),
        ("A", "1, 2.5\n", "whole numbers"),
        *(
            ("graph_indicator", "\n".join(numbers), "in rising order")
            for numbers in ("12122", "22233", "00011")
        ),
        ("graph_indicator", "", "is empty"),
        *(
            ("graph_labels", "1\n" * lines, f"a line for each of the 2 graphs, got {lines}")
            for lines in (1, 3)
        ),
        ("node_labels", "1, 2\n" * 5, "one label per node"),
        ("node_labels", "0.5\n" * 5, "whole numbers"),
        ("node_attributes", "nan\n" * 5, "not finite"),
        *(
            (part, "1\n" * lines, f"a line for each of the 5 nodes, got {lines}")
            for part in ("node_labels", "node_attributes")
            for lines in (1, 6)
        ),
        ("node_attributes", "0.5\n" * 5, "hold whole numbers"),  # published ones are
    ],
)
def test_files_that_do_not_fit_are_named(folder: Path, part: str, text: str, message: str) -> None:
    (folder / f"OWN_{part}.txt").write_text(text)
    with pytest.raises(DataError, match=rf"OWN_{part}.txt.*{message}"):
        read_tu_folder(folder) if message != "hold whole numbers" else read_folder(folder, "OWN")


def test_a_folder_must_hold_one_data_set(folder: Path) -> None:
    (folder / "TWO_A.txt").write_text("1, 2\n")
    refuses(DataError, "several data sets \\(OWN, TWO\\)", read_tu_folder, folder)
    refuses(DataError, "is not a folder", read_tu_folder, folder / "OWN_A.txt")
    (folder / "TWO_A.txt").unlink()
    (folder / "OWN_graph_indicator.txt").unlink()
    refuses(DataError, r"OWN_A.txt and OWN_graph_indicator.txt, but one is missing", read_tu_folder, folder)
    (folder / "empty").mkdir()
    refuses(DataError, "no file NAME_A", read_tu_folder, folder / "empty")
