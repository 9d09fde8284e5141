"""Plain files read by Arrow, block by block: the same values, notes and errors as those read row by row."""

import gzip
import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from helpers.reading import named_edges, quiet
from helpers.refusals import refuses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from softcut.errors import FileFormatError, GraphError, SoftcutError
from softcut.io import quick_edge_lists, read_graph, readers
from softcut.io.edge_lists import read_edge_list
from softcut.io.options import ReadOptions
from softcut.io.quick_edge_lists import read_plain_edges

IDS = st.one_of(
    st.integers(0, 30).map(str),
    st.sampled_from(
        ["ann", "bob", "Zoë", "x y", "07", "+3", "0x1f", "-4", "1.0", "9" * 19, "source", "née "]
    ),
)
WEIGHTS = st.sampled_from(["1", "2.5", "0", "1e3", " 7", "inf", "-1", "nan", "", "1_0", "2,5"])


@st.composite
def text_files(draw: st.DrawFn) -> str:
    """Edge lists as people write them, and some with mistakes."""
    delimiter = draw(st.sampled_from([",", ";", "\t", " "]))
    plain = draw(st.booleans())
    ids = st.integers(0, 30).map(str) if plain else IDS
    weights = draw(st.booleans())
    good = st.sampled_from(["1", "2.5", "1e3"])
    rows = draw(st.lists(st.tuples(ids, ids, good if plain else WEIGHTS), min_size=1, max_size=12))
    lines = [delimiter.join(row if weights else row[:2]) for row in rows]
    head = draw(
        st.sampled_from(["", "source{0}target{1}", "# made today", "\ufeff", "sep={0}", "a{0}b{1}", "\n\n"])
    )
    if head:
        lines.insert(0, head.format(delimiter, f"{delimiter}weight" if weights else ""))
    odd = draw(st.sampled_from([None, None, None, '"q"', "# note", "", "  ", "1", "%", "1{0}2{0}3{0}4"]))
    if odd is not None:
        lines.insert(draw(st.integers(0, len(lines))), odd.format(delimiter))
    return draw(st.sampled_from(["\n", "\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))


def plain(data: bytes):  # type: ignore[no-untyped-def]
    return read_plain_edges(io.BytesIO(data), len(data), ReadOptions("g.csv", "g"))


def outcome(make) -> object:  # type: ignore[no-untyped-def]
    """What came out: everything that a graph is made of, or the sentence of the error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            edges, notes = make()
        except SoftcutError as error:
            return type(error), str(error)
    weight = None if edges.weight is None else edges.weight.tolist()
    return edges.ends.tolist(), edges.names, weight, notes, [str(w.message) for w in told]


@settings(max_examples=150, deadline=None)
@given(text_files(), st.sampled_from([1, 7, 64, 1 << 20]))
@example("0,1\n1,2\n", 1)
@example("source,target,weight\n5,6,1\n6,7,2\n", 7)
@example("# FromNodeId\tToNodeId\n10\t20\n20\t30\n", 7)
@example("ann;bob;1\nbob;cy;2\n", 7)
def test_both_readers_give_the_same(text: str, block: int) -> None:
    data, options = text.encode(), ReadOptions("g.csv", "g")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_edge_lists, "_BLOCK", block)
        made = outcome(lambda: plain(data) or read_edge_list(data, options))
    assert made == outcome(lambda: read_edge_list(data, options))


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n1,2\n2,0\n",
        "\ufeff0,1\n1,2\n",
        "0 1\n1 2\n",
        "source\ttarget\tweight\n0\t1\t2.5\n1\t2\t1\n",
        "# comment\n# FromNodeId ToNodeId\n7 9\n9 12\n",
        "ann,bob\nbob,cy\n",
        "Zoë,bob\r\nbob,cy\r\n",
        "007,1\n1,2\n",
        "09,1\n9,2\n",
        "id,source,target,year\n1,4,5,1999\n2,5,6,2000\n",
    ],
)
@pytest.mark.parametrize("block", [5, 1 << 20])
def test_plain_files_need_no_other_reader(text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_edge_lists, "_BLOCK", block)
    made = plain(text.encode())
    assert made is not None
    options = ReadOptions("g.csv", "g")
    assert outcome(lambda: made) == outcome(lambda: read_edge_list(text.encode(), options))


@pytest.mark.parametrize(
    "text",
    [
        '0,1\n"a",2\n',
        "0,1\n# later\n1,2\n",
        "0 1 {'weight': 2}\n",
        "0,1\n1\n",
        "0,1,-2\n",
        "follower,followed\na,b\nb,c\n",
    ],
)
def test_unusual_files_are_left_to_the_other_reader(text: str) -> None:
    assert plain(text.encode()) is None


def test_text_that_is_not_utf_8_is_left_to_the_other_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "source,target,city\n0,1,Rome\n1,2,Köln\n".encode("cp1252")
    monkeypatch.setattr(
        quick_edge_lists, "_HEAD", 30
    )  # the letter stands behind the head, in a column nobody needs
    assert plain(data) is None


def test_the_size_of_a_file_decides_and_progress_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "g.csv"
    file.write_text("source,target,weight\n" + "".join(f"{i},{i + 1},{i}.5\n" for i in range(100)))
    whole, told = read_graph(file, progress=lambda *a: pytest.fail("a small file is read at once")), []
    monkeypatch.setattr(readers, "PLAIN_BYTES", 100)
    monkeypatch.setattr(quick_edge_lists, "_BLOCK", 300)
    made = read_graph(file, progress=lambda *a: told.append(a))
    assert made.notes == whole.notes and repr(made) == repr(whole)
    assert (made.adjacency != whole.adjacency).nnz == 0
    size = file.stat().st_size
    assert told[-1] == (size, size) and len(told) == -(-size // 300) and told == sorted(told)
    packed = tmp_path / "g.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    monkeypatch.setattr(readers, "read_edge_list", lambda *a: pytest.fail("row by row"))
    assert read_graph(packed).notes[1:] == whole.notes[1:]


def test_without_arrow_large_files_are_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    file.write_text("0,1\n1,2\n")
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['pyarrow.csv'] = None\n"
        "from softcut.io import read_graph, readers; readers.PLAIN_BYTES = 1\n"
        f"print(read_graph({str(file)!r}).num_edges)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"


# ---------------------------------------------------------------------- Parquet and NumPy


@pytest.mark.parametrize(
    "columns",
    [
        {"source": [0, 1, 2], "target": [1, 2, 0]},
        {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 0.5]},
        {"source": [5, 7, 9], "target": ["7", "9", "x"], "year": [1, 2, 3]},
        {"from": [1, 2], "to": [2, 10**18 - 1], "w": [1, 2]},
    ],
)
def test_parquet_is_read_as_a_text_file_would_be(
    columns: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_edge_lists, "_ROWS", 2)
    frame, told = pd.DataFrame(columns), []
    frame.to_parquet(tmp_path / "g.parquet")
    frame.to_csv(tmp_path / "g.csv", index=False)
    made = read_graph(tmp_path / "g.parquet", progress=lambda *a: told.append(a))
    text = read_graph(tmp_path / "g.csv")
    assert (made.adjacency != text.adjacency).nnz == 0 and made.node_names == text.node_names
    assert made.notes[1:] == text.notes[1:] and "Parquet file" in made.notes[0]
    assert told[-1] == (len(frame), len(frame))


@pytest.mark.parametrize("turned", [False, True])
def test_edges_and_features_from_a_pair_of_arrays(tmp_path: Path, turned: bool) -> None:
    edges, x = np.array([[0, 1], [1, 2], [2, 3]]), np.random.default_rng(0).random((4, 3))
    np.save(tmp_path / "g.npy", edges.T if turned else edges)
    np.save(tmp_path / "x.npy", x)
    graph = read_graph(tmp_path / "g.npy", features=tmp_path / "x.npy")
    assert graph.num_edges == 3 and graph.num_nodes == 4
    np.testing.assert_allclose(graph.x, x, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"source": [0.5, 1.0], "target": [1, 2]}, "column 'source' holds double"),
        ({"source": ["a", "b", "c", None, None], "target": list("abcde")}, "row 3: column 'source' is empty"),
        ({"source": ["a", "b", "c", ""], "target": list("bcda")}, "row 3: column 'source' is empty"),
        ({"source": list("abc"), "target": ["b", "c", " "]}, "row 2: column 'target' is empty"),
        ({"source": pd.Categorical(["a", ""]), "target": ["b", "c"]}, "row 1: column 'source' is empty"),
        ({"source": [0, 10**18], "target": [1, 2]}, "ids must lie between"),
        (
            {"source": [0, 1], "target": [1, 2], "weight": [1.0, -2.0]},
            "edge_weight is negative at position 1",
        ),
        ({"source": [0, 1], "target": [1, 2], "weight": ["x", "y"]}, "column 'weight' holds"),
        ({"source": [0, -1], "target": [1, 2]}, "ids must lie between"),
        ({"x": [0, 1], "y": [1, 2], "z": [1, 2], "t": [1, 2]}, "name two of them source and target"),
        ({"source": [], "target": []}, "has no edges"),
        (np.zeros((3, 3), dtype=int), "shape \\(3, 3\\)"),
        (np.full((3, 2), 0.5), "which is not an integer node index"),
        (np.zeros((2, 0), dtype=int), "has no edges"),
        (np.array([[0, -1], [1, 2], [3, 4]]), "has the negative index -1"),
        (np.array([{}], dtype=object), "cannot be read as edges: .*"),
    ],
)
def test_mistakes_are_named(
    content: Any, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_edge_lists, "_ROWS", 2)
    if isinstance(content, dict):
        pd.DataFrame(content).to_parquet(tmp_path / "g.parquet")
    else:
        np.save(tmp_path / "g.npy", content, allow_pickle=True)
    refuses((FileFormatError, GraphError), sentence, read_graph, next(tmp_path.iterdir()))


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_damaged_and_absent_files(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"g.{kind}"
    refuses(FileFormatError, "does not exist", read_graph, file)
    file.write_bytes(b"nothing of the kind")
    refuses(FileFormatError, "cannot be read as", read_graph, file)
    refuses(
        FileFormatError, "standard input: a .* file cannot be read from a pipe", read_graph, "-", format=kind
    )


def test_parquet_with_titles_that_repeat(tmp_path: Path) -> None:
    path, values = tmp_path / "g.parquet", [["a", "b"], ["b", "c"], [1, 2], [3.0, 4.0]]
    wanted = {3: {("a", "b", 3.0), ("b", "c", 4.0)}, 2: {("a", "b", 1.0), ("b", "c", 2.0)}}
    frame = pd.DataFrame(dict(enumerate(values)))
    frame.columns = ["source", "target", "weight", "weight"]
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array(v) for v in values], names=list(frame)), path)
    frame.to_csv(tmp_path / "g.csv", index=False)
    for source in (path, tmp_path / "g.csv", frame):
        refuses(SoftcutError, r"more than one column 'weight': .* weight=2, or rename", read_graph, source)
        for place, edges in wanted.items():
            assert named_edges(quiet(source, weight=place)) == edges
    # Titles that nothing asks for may repeat.
    names = ["source", "target", "year", "year"]
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array(v) for v in values], names=names), path)
    assert named_edges(quiet(path)) == {("a", "b", 1.0), ("b", "c", 1.0)}
    names = ["source", "target", "source", "w"]
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array(v) for v in values], names=names), path)
    refuses(SoftcutError, "more than one column 'source': .* source=0", read_graph, path)
    assert named_edges(quiet(path, source=0)) == wanted[3]
