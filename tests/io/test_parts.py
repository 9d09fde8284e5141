"""Parts of a graph on disk: nothing lost, nothing half written, damage named."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import refuses
from hypothesis import given
from hypothesis import strategies as st

from softcut.errors import FileFormatError, ParameterError
from softcut.io.part_files import open_part, read_manifest, read_names, write_parts


def random_graph(n, seed, weighted):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.4) * (rng.integers(1, 5, (n, n)) if weighted else 1)
    return sp.csr_array((upper + np.triu(upper, 1).T).astype(np.float64))


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99), st.booleans())
def test_the_parts_hold_the_whole_graph(tmp_path_factory, n, parts, seed, weighted):
    matrix = random_graph(n, seed, weighted)
    owner = np.random.default_rng(seed).permutation(np.arange(n) % min(parts, n))
    x = np.arange(2.0 * n, dtype=np.float32).reshape(n, 2)
    words = sp.csr_array(np.eye(n, 3))
    folder = tmp_path_factory.mktemp("written") / "parts"
    manifest = write_parts(folder, matrix, owner, x=x, words=words)
    assert manifest == read_manifest(folder)
    opened = [open_part(folder, p) for p in range(manifest.parts)]
    again = np.zeros((n, n))
    for p, part in enumerate(opened):
        assert np.array_equal(part.nodes, np.flatnonzero(owner == p))
        # Who the halo is, from what the other parts say they send here.
        halo = []
        for other in opened:
            start = other.counts[0][:p].sum()
            halo += other.nodes[other.send[start : start + other.counts[0][p]]].tolist()
        assert len(halo) == part.num_halo == manifest.halo[p]
        assert set(halo).isdisjoint(part.nodes.tolist())
        assert part.col.dtype == np.int32  # the smaller files
        columns = np.array([*part.nodes.tolist(), *halo], dtype=int)
        rows = np.repeat(part.nodes, np.diff(part.rowptr))
        again[rows, columns[part.col]] = 1 if part.val is None else part.val
        assert np.array_equal(part.x, x[part.nodes])
        pointer, column = part.words
        assert np.array_equal(column, words[part.nodes].indices)
        assert np.array_equal(pointer, words[part.nodes].indptr)
    assert np.array_equal(again, matrix.toarray())
    assert (manifest.weighted, manifest.nodes) == (bool((matrix.data != 1).any()), n)
    assert sum(manifest.entries) == matrix.nnz
    assert manifest.edges == np.count_nonzero(np.triu(matrix.toarray()))
    assert (manifest.columns, manifest.vocabulary, manifest.num_words) == (2, 3, words.nnz)


PATH = sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
HALVES = np.array([0, 0, 1, 1])


@pytest.fixture
def folder(tmp_path):
    write_parts(tmp_path / "parts", PATH, HALVES, x=np.zeros((4, 50)), names=['a"\n', "ü", "c", ""])
    return tmp_path / "parts"


def test_names_come_back_in_order(folder, tmp_path):
    assert list(read_names(folder)) == ['a"\n', "ü", "c", ""]
    file = folder / "names.jsonl"
    file.write_text(file.read_text().replace("c", "d"))
    refuses(FileFormatError, r"names\.jsonl is damaged", list, read_names(folder))
    write_parts(tmp_path / "made" / "too" / "nameless", PATH, HALVES)
    assert list(read_names(tmp_path / "made" / "too" / "nameless")) == ["0", "1", "2", "3"]


def test_large_arrays_are_memory_mapped(folder):
    part = open_part(folder, 1)
    assert isinstance(part.x, np.memmap)
    assert not part.x.flags.writeable
    assert part.val is None and part.words is None
    assert not isinstance(part.nodes, np.memmap), "small ones are not"


def test_the_manifest_says_what_there_is_and_what_not(tmp_path):
    axes = np.array([1, 2, 3]), np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    for name, more, number in (("bare", {}, 0), ("axes", {"axes": axes}, 2)):
        made = vars(write_parts(tmp_path / name, PATH, HALVES, about={"a": 1}, **more))
        counts = {**dict.fromkeys(("columns", "vocabulary", "num_words"), 0), "axes": number}
        counts |= {"weighted": False, "named": False}
        parts = {"rows": (2, 2), "halo": (1, 1), "entries": (3, 3), "about": {"a": 1}, "files": made["files"]}
        assert made == {"parts": 2, "nodes": 4, "edges": 3, "edge_worth": 3.0, **counts, **parts}
    shares = [open_part(tmp_path / "axes", p).axes for p in (0, 1)]
    kept = [[each.tolist() for each in share] for share in shares]
    assert kept == [[[1], [[1.0, 0.0]]], [[0, 1], [[0.0, 1.0], [2.0, 2.0]]]]
    assert write_parts(tmp_path / "empty", sp.csr_array((2, 2)), np.array([0, 1])).edge_worth == 0


def test_weights_are_worth_fewer_edges(tmp_path):
    weights = PATH.copy()
    weights.data = np.array([3.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    manifest = write_parts(tmp_path / "parts", weights, HALVES)
    assert manifest.edge_worth == pytest.approx(10**2 / 22 / 2)


def test_a_missing_file_is_named(folder):
    (folder / "part-1.col.npy").unlink()
    open_part(folder, 0)
    refuses(FileFormatError, r"part-1\.col\.npy is missing; copy it again", open_part, folder, 1)


@pytest.mark.parametrize("name", ["col", "x", "counts"])
def test_a_damaged_file_is_named(folder, name):
    file = folder / f"part-0.{name}.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        FileFormatError, match=rf"part-0\.{name}\.npy is damaged: its checksum is not the one"
    ):
        open_part(folder, 0)
    file.write_bytes(content[:-3])
    with pytest.raises(FileFormatError, match=rf"part-0\.{name}\.npy is damaged: it has .* bytes instead of"):
        open_part(folder, 0)


@pytest.mark.parametrize("change", [{"format": "other"}, {"rows": [1]}, {"rows": "x"}, {"unknown": 1}, None])
def test_other_manifests_are_refused(folder, change):
    file = folder / "manifest.json"
    file.write_text("[1]" if change is None else json.dumps(json.loads(file.read_text()) | change))
    refuses(FileFormatError, r"manifest\.json is not a manifest of parts", read_manifest, folder)


def test_nothing_is_left_of_a_writing_that_failed(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("softcut.io.part_files.atomic_json", full)
    refuses(OSError, "No space left", write_parts, tmp_path / "parts", PATH, HALVES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("owner", "x", "words"),
    [
        (HALVES[:3], None, "owner has 3 rows, but the graph has 4 nodes"),
        (np.append(HALVES, 1), None, "owner has 5 rows, but the graph has 4 nodes"),
        (HALVES, np.zeros((2, 1)), "x has 2 rows"),
        (np.array([0, 0, 2, 2]), None, "owner leaves part 1 without nodes"),
    ],
)
def test_wrong_arguments(tmp_path, folder, owner, x, words):
    refuses(ParameterError, words, write_parts, tmp_path / "new", PATH, owner, x=x)
    refuses(ParameterError, "is not empty; name a new folder", write_parts, folder, PATH, HALVES)
    for number in (-1, 2):
        refuses(ParameterError, "number must be from 0 to 1, the parts of", open_part, folder, number)
