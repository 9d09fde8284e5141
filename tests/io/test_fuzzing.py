"""Damaged files of every format: a graph or a SoftcutError, nothing else."""

import json
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.fuzzed_files import check_read
from helpers.reading import PATH, saved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softcut.errors import SoftcutError
from softcut.io import read_features, read_graph

ALLOWED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
FUZZ = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=ALLOWED)


def read_or_refused(read: Any, path: Path, data: bytes, **options: Any) -> None:
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(SoftcutError):
            check_read(read(path, **options))


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
    for read in (read_graph, read_features):
        read_or_refused(read, tmp_path / "g.npz", data)


CELLS = st.sampled_from(["0", "1", "2", "3", "a", "b", "id", "", "1.5", "nan"])
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=3).map(",".join), min_size=1, max_size=5)


@FUZZ
@given(TABLES, TABLES)
def test_tables_joined_with_graphs(tmp_path: Path, edges: list[str], rows: list[str]) -> None:
    (tmp_path / "x.csv").write_text("\n".join(rows))
    read_or_refused(read_graph, tmp_path / "g.csv", "\n".join(edges).encode(), features=tmp_path / "x.csv")


@pytest.mark.parametrize(("seed", "count"), [(1, 100), pytest.param(0, 1000, marks=pytest.mark.slow)])
def test_fuzzed_files_give_a_graph_or_one_sentence(seed: int, count: int) -> None:
    command = [sys.executable, "-m", "helpers.fuzzed_files", str(seed), str(count)]
    folder = Path(__file__).parents[1]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    report = json.loads(out.stdout)
    assert report["files"] == count
    assert report["wrong"] == []
    assert report["bytes"] < 2**30
