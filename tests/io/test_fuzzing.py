"""Damaged files of every format: a graph or a SoftcutError, nothing else."""

import gzip
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.fuzzed_files import damaged, valid
from helpers.graph_checks import check_invariants
from helpers.reading import PATH, saved
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


def either_graph_or_error(path: Path, data: bytes, **options: Any) -> None:
    path.write_bytes(data)
    g, message = None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            g = read_graph(path, **options)
        except SoftcutError as error:
            message = str(error)
    assert "\n" not in message
    if g is not None:
        check_invariants(g)


def either_features_or_error(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            x = read_features(path)
        except SoftcutError:
            return
    assert x.dtype == np.float32
    assert np.isfinite(x.data if sp.issparse(x) else x).all()


@FUZZ
@given(st.integers(0, 10**6), st.sampled_from(["auto", True, False]))
def test_damaged_files(tmp_path: Path, seed: int, weighted: Any) -> None:
    rng = np.random.default_rng(seed)
    for suffix, data in valid(rng):
        path, data = tmp_path / f"g{suffix}", damaged(data, rng)
        either_graph_or_error(path, data, weighted=weighted)
        either_features_or_error(path, data)


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """Well-formed archives of ill-formed matrices: a checksum would stop mutated bytes before they get far."""
    number = st.one_of(st.integers(-2, 5), st.sampled_from([2**31 - 1, 2**31, 2**62, -(2**31)]))
    array = st.one_of(
        st.lists(number, max_size=6).map(lambda v: np.array(v, dtype=np.int64)),
        st.lists(st.integers(0, 4), max_size=6).map(lambda v: np.array(v, dtype=np.int32)),
        st.lists(st.floats(), max_size=6).map(np.array),
        st.sampled_from([np.ones((2, 2, 2)), np.array("csr"), np.array([1j, 2])]),
    )
    good = sp.csr_array(PATH)
    arrays: dict[str, Any] = {"data": good.data, "indices": good.indices, "indptr": good.indptr}
    arrays["shape"] = draw(st.one_of(st.just(np.array([4, 4])), st.lists(number, max_size=3).map(np.array)))
    arrays["format"] = draw(st.sampled_from([b"csr", b"csc", b"bsr", b"coo", b"dia", b"what", 3]))
    arrays["row"] = arrays["col"] = arrays["offsets"] = good.indices
    for key in draw(st.lists(st.sampled_from(sorted(arrays)), max_size=3, unique=True)):
        arrays[key] = draw(array)
    if draw(st.booleans()):
        arrays = {key: draw(array) for key in ("edges", "num_nodes", "edge_weight", "x")}
        if draw(st.booleans()):
            arrays["edges"] = np.array(draw(st.lists(st.tuples(number, number), max_size=3)))
    for key in draw(st.lists(st.sampled_from(sorted(arrays)), max_size=2, unique=True)):
        del arrays[key]
    return saved(lambda f: np.savez(f, **arrays))


@settings(FUZZ, max_examples=300)
@given(archives())
def test_archives_of_nonsense(tmp_path: Path, data: bytes) -> None:
    either_graph_or_error(tmp_path / "g.npz", data)
    either_features_or_error(tmp_path / "g.npz", data)


TEXT = st.text(st.sampled_from("01a,;\t #%\"'{}\n\r-.e_é"), max_size=40).map(str.encode)


@FUZZ
@given(st.one_of(st.binary(max_size=60), TEXT, TEXT.map(gzip.compress)))
@example(b"\x1f\x8b")
@example(b"PK\x05\x06" + bytes(18))
@example(b"\x93NUMPY\x01\x00\xff\xff")
def test_random_bytes(tmp_path: Path, data: bytes) -> None:
    for name in ("g.csv", "g.txt", "g.csv.gz", "g.graphml", "g.gml", "g.mtx", "g.npz", "g.npy"):
        either_graph_or_error(tmp_path / name, data)
        either_features_or_error(tmp_path / name, data)


CELLS = st.sampled_from(["0", "1", "2", "3", "a", "b", "id", "", "1.5", "nan"])
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=3).map(",".join), min_size=1, max_size=5)


@FUZZ
@given(TABLES, TABLES)
def test_tables_joined_with_graphs(tmp_path: Path, edges: list[str], rows: list[str]) -> None:
    (tmp_path / "x.csv").write_text("\n".join(rows))
    either_graph_or_error(tmp_path / "g.csv", "\n".join(edges).encode(), features=tmp_path / "x.csv")


@pytest.mark.parametrize(("seed", "count"), [(1, 40), pytest.param(0, 500, marks=pytest.mark.slow)])
def test_fuzzed_files_give_a_graph_or_one_sentence(seed: int, count: int) -> None:
    command = [sys.executable, "-m", "helpers.fuzzed_files", str(seed), str(count)]
    folder = Path(__file__).parents[1]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    report = json.loads(out.stdout)
    assert report["files"] == count
    assert report["wrong"] == []
    assert report["bytes"] < 2**30
