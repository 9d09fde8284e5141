"""Damaged files of every format: a graph or a SoftcutError, nothing else."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from helpers.reading import PATH, quiet, saved, weighted_graph
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from softcut.errors import SoftcutError
from softcut.io import read_features, read_graph

FUZZ = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
VALID_GRAPHS = {
    "g.csv": b"source,target,weight\na,b,1.5\nb,c,2\n",
    "i.csv": b"0,1\n1,2\n2,3\n",
    "g.txt": b"# comment\n0 1 2.0\n1\t2 1\n",
    "d.edgelist": b"0 1 {'weight': 3}\n1 2 {}\n",
    "g.csv.gz": gzip.compress(b"0,1\n1,2\n"),
    "g.graphml": saved(lambda f: nx.write_graphml(weighted_graph(), f)),
    "g.gml": saved(lambda f: nx.write_gml(weighted_graph(), f)),
    "g.mtx": saved(lambda f: scipy.io.mmwrite(f, sp.coo_array(PATH))),
    "s.mtx": b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n",
    "g.npz": saved(lambda f: np.savez(f, edges=[[0, 1], [1, 2]], num_nodes=3, edge_weight=[1.0, 2.0])),
    "csr.npz": saved(lambda f: sp.save_npz(f, sp.csr_array(PATH), compressed=False)),
    "csc.npz": saved(lambda f: sp.save_npz(f, sp.csc_array(PATH), compressed=False)),
    "bsr.npz": saved(lambda f: sp.save_npz(f, sp.bsr_array(PATH, blocksize=(2, 2)), compressed=False)),
    "dia.npz": saved(lambda f: sp.save_npz(f, sp.dia_array(PATH), compressed=False)),
}
VALID_FEATURES = {
    "x.csv": b"id,a,b\nann,1,2\nbob,3,4\n",
    "n.tsv": b"1\t2\n3\t4\n",
    "x.csv.gz": gzip.compress(b"1,2\n3,4\n"),
    "x.npy": saved(lambda f: np.save(f, np.ones((3, 2)))),
    "x.npz": saved(lambda f: np.savez(f, np.ones((3, 2)))),
    "s.npz": saved(lambda f: sp.save_npz(f, sp.csr_array(PATH), compressed=False)),
}


@st.composite
def mutations(draw: st.DrawFn, original: bytes) -> bytes:
    """A few bytes changed, removed, inserted or repeated."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        size = draw(st.integers(0, 8))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data[at : at + size] = draw(st.binary(max_size=8))
        elif kind == 1:
            data[at:at] = data[at : at + size] * draw(st.integers(1, 3))
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at : at + 1] = draw(
                st.sampled_from([b"9", b"-", b",", b"\n", b'"', b"\xff", b"0", b"e", b" ", b"\0"])
            )
        else:
            del data[at:]
    return bytes(data)


def either_graph_or_error(path: Path, **options: Any) -> None:
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            g = read_graph(path, **options)
        except SoftcutError as error:
            message = str(error)
    if message:
        assert "\n" not in message
        return
    assert abs(g.adjacency - g.adjacency.T).nnz == 0
    assert np.isfinite(g.adjacency.data).all()
    assert (g.adjacency.data > 0).all()


def either_features_or_error(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            x = read_features(path)
        except SoftcutError:
            return
    assert x.dtype == np.float32
    assert np.isfinite(x.data if sp.issparse(x) else x).all()


@pytest.mark.parametrize("name", VALID_GRAPHS)
def test_fuzz_mutated_graphs(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(VALID_GRAPHS[name])
    quiet(path)

    @FUZZ
    @given(mutations(VALID_GRAPHS[name]), st.sampled_from(["auto", True, False]))
    def fuzz(data: bytes, weighted: Any) -> None:
        path.write_bytes(data)
        either_graph_or_error(path, weighted=weighted)

    fuzz()


@pytest.mark.parametrize("name", VALID_FEATURES)
def test_fuzz_mutated_features(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(VALID_FEATURES[name])
    read_features(path)

    @FUZZ
    @given(mutations(VALID_FEATURES[name]))
    def fuzz(data: bytes) -> None:
        path.write_bytes(data)
        either_features_or_error(path)

    fuzz()


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """Well-formed archives of ill-formed matrices: a checksum would stop mutated bytes before they get far."""
    number = st.one_of(st.integers(-2, 5), st.sampled_from([2**31 - 1, 2**31, 2**62, -(2**31)]))
    array = st.one_of(
        st.lists(number, max_size=6).map(lambda v: np.array(v, dtype=np.int64)),
        st.lists(st.integers(0, 4), max_size=6).map(lambda v: np.array(v, dtype=np.int32)),
        st.lists(st.floats(), max_size=6).map(np.array),
        st.just(np.ones((2, 2, 2))),
        st.just(np.array("csr")),
        st.just(np.array([1j, 2])),
    )
    shape = draw(st.one_of(st.just(np.array([4, 4])), st.lists(number, max_size=3).map(np.array)))
    good = sp.csr_array(PATH)
    arrays: dict[str, Any] = {
        "shape": shape,
        "data": good.data,
        "indices": good.indices,
        "indptr": good.indptr,
    }
    arrays["format"] = draw(st.sampled_from([b"csr", b"csc", b"bsr", b"coo", b"dia", b"what", 3]))
    arrays["row"] = arrays["col"] = arrays["offsets"] = good.indices
    for key in draw(st.lists(st.sampled_from(sorted(arrays)), max_size=3, unique=True)):
        arrays[key] = draw(array)
    if draw(st.booleans()):
        arrays = {
            "edges": draw(array),
            "num_nodes": draw(array),
            "edge_weight": draw(array),
            "x": draw(array),
        }
        if draw(st.booleans()):
            arrays["edges"] = np.array(draw(st.lists(st.tuples(number, number), max_size=3)))
    for key in draw(st.lists(st.sampled_from(sorted(arrays)), max_size=2, unique=True)):
        del arrays[key]
    return saved(lambda f: np.savez(f, **arrays))


def test_fuzz_archives(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"

    @settings(FUZZ, max_examples=300)
    @given(archives())
    def fuzz(data: bytes) -> None:
        path.write_bytes(data)
        either_graph_or_error(path)
        either_features_or_error(path)

    fuzz()


TEXT = st.text(st.sampled_from("01a,;\t #%\"'{}\n\r-.e_é"), max_size=40).map(str.encode)


@pytest.mark.parametrize("name", [*VALID_GRAPHS, "x.npy"])
def test_fuzz_random_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    @FUZZ
    @given(st.one_of(st.binary(max_size=60), TEXT, TEXT.map(gzip.compress)))
    @example(b"\x1f\x8b")
    @example(b"PK\x05\x06" + bytes(18))
    @example(b"\x93NUMPY\x01\x00\xff\xff")
    def fuzz(data: bytes) -> None:
        path.write_bytes(data)
        either_graph_or_error(path)
        if path.suffix in (".csv", ".txt", ".npz", ".npy"):
            either_features_or_error(path)

    fuzz()


def test_fuzz_features_joined_with_graphs(tmp_path: Path) -> None:
    graph, features = tmp_path / "g.csv", tmp_path / "x.csv"
    row = st.lists(
        st.sampled_from(["0", "1", "2", "3", "a", "b", "id", "", "1.5", "nan"]), min_size=1, max_size=3
    )
    table = st.lists(row.map(",".join), min_size=1, max_size=5).map("\n".join)

    @FUZZ
    @given(table, table)
    def fuzz(edges: str, rows: str) -> None:
        graph.write_text(edges)
        features.write_text(rows)
        either_graph_or_error(graph, features=features)

    fuzz()


def fuzz_in_a_process(seed: int, count: int) -> dict[str, Any]:
    script = Path(__file__).parents[1] / "helpers/fuzzed_files.py"
    out = subprocess.run(
        [sys.executable, str(script), str(seed), str(count)], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout)


def test_fuzzed_files_give_a_graph_or_one_sentence() -> None:
    report = fuzz_in_a_process(1, 40)
    assert report["files"] == 40
    assert report["wrong"] == []


@pytest.mark.slow
def test_five_hundred_fuzzed_files() -> None:
    report = fuzz_in_a_process(0, 500)
    assert report["files"] == 500
    assert report["wrong"] == []
    assert report["bytes"] < 2**30
