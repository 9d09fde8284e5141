"""Features: files and arrays, by row and by id."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from helpers.reading import PATH, quiet, write
from helpers.refusals import refuses, sentence_of

from softcut.errors import FileFormatError, GraphError, ParameterError
from softcut.io import read_features, read_graph


def test_features_by_row(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "0,1\n1,2\n")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", anything=x)
    sp.save_npz(tmp_path / "s.npz", sp.csc_matrix(x))
    rows = "".join(f"{a},{b}\n" for a, b in x)
    files = [
        tmp_path / "x.npy", tmp_path / "x.npz", tmp_path / "s.npz", x, sp.csr_matrix(x), x.tolist(),
        write(tmp_path, "x.csv", rows), write(tmp_path, "h.csv", "one,two\n" + rows),
        write(tmp_path, "x.tsv", rows.replace(",", "\t")), write(tmp_path, "x.csv.gz", "# note\n" + rows),
        write(tmp_path, "x.txt", rows.replace(",", "  ")),
    ]  # fmt: skip
    for file in files:
        g = quiet(graph, features=file)
        np.testing.assert_array_equal(g.x.toarray() if sp.issparse(g.x) else g.x, x)  # type: ignore[union-attr]
    assert sp.issparse(quiet(graph, features=tmp_path / "s.npz").x)


def test_features_by_id(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "cy,ann\nann,bob\n")
    for text in (
        "id,a,b\nann,1,2\nbob,3,4\ncy,5,6\n",
        ",a,b\nann,1,2\nbob,3,4\ncy,5,6\n",
        "ann,1,2\nbob,3,4\ncy,5,6\n",
        '"id","a","b"\n"ann",1,2\n"bob",3,4\n"cy",5,6\n',
        "a b\nann 1 2\nbob 3 4\ncy 5 6\n",
    ):
        g = quiet(graph, features=write(tmp_path, "x.csv", text))
        assert g.node_names == ["cy", "ann", "bob"]
        np.testing.assert_array_equal(g.x, [[5, 6], [1, 2], [3, 4]])
    more = quiet(graph, features=write(tmp_path, "x.csv", "id,a\nann,1\nbob,2\nsolo,3\ncy,4\n"))
    assert more.node_names == ["cy", "ann", "bob", "solo"]
    np.testing.assert_array_equal(more.x, [[4], [1], [2], [3]])
    with pytest.raises(FileFormatError, match=r"x.csv has no row for node 'cy' and 1 more of .*g.csv"):
        read_graph(graph, features=write(tmp_path, "x.csv", "id,a\nann,1\n"))
    with pytest.raises(FileFormatError, match=r"x.csv, line 3: node 'ann' has a row already"):
        read_graph(graph, features=write(tmp_path, "x.csv", "id,a\nann,1\nann,2\n"))
    with pytest.raises(
        FileFormatError, match=r"has 2 rows and no node ids, but .*g.csv has 3 nodes with names"
    ):
        read_graph(graph, features=np.ones((2, 1)))
    with pytest.warns(
        UserWarning, match=r"joined to the nodes of .*g.csv in the order .* from 'cy' to 'bob'"
    ):
        g = read_graph(graph, features=np.array([[1.0], [2.0], [3.0]]))
    assert g.node_names == ["cy", "ann", "bob"]
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert "features: 1 column, rows joined by position" in g.notes


@pytest.mark.parametrize(
    ("below", "titles"),
    [
        (["ann", "bob"], True),
        (["0", "1"], True),  # a count of the rows
        (["1", "2"], True),
        (["x", "x"], False),  # not the names of two nodes
        (["1.5", "2.5"], False),
        (["2", "3"], False),
        (["0"], False),
    ],
)
def test_an_empty_field_before_a_year_is_a_title_above_ids(
    tmp_path: Path, below: list[str], titles: bool
) -> None:
    text = ",2019\n" + "".join(f"{field},{7 * i}\n" for i, field in enumerate(below))
    x = read_features(write(tmp_path, "x.csv", text), missing="zero")
    assert x[:, -1].tolist() == [*([] if titles else [2019]), *(7 * i for i in range(len(below)))]


def test_features_of_a_matrix(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(PATH))
    x = write(tmp_path, "x.csv", "node,a\n2,20\n0,0\n1,10\n3,30\n")
    np.testing.assert_array_equal(quiet(tmp_path / "g.mtx", features=x).x, [[0], [10], [20], [30]])
    g = quiet(tmp_path / "g.mtx", features=np.arange(4.0)[:, None])
    assert "features of features" in g.notes and "rows joined by position" in g.notes
    huge = write(
        tmp_path, "huge.mtx", "%%MatrixMarket matrix coordinate real general\n9999999 9999999 1\n1 2 3\n"
    )
    for missing in ("error", "zero"):
        refuses(
            FileFormatError, "x.csv has 4 rows but .* has 9999999 nodes", read_graph, huge, x, missing=missing
        )
    with pytest.raises(FileFormatError, match="does not have"):
        read_graph(tmp_path / "g.mtx", features=write(tmp_path, "z.csv", "id,a\n0,0\n1,1\n2,2\n3,3\n4,4\n"))


@pytest.mark.filterwarnings("ignore:adjacency is directed")
def test_what_is_advised_where_rows_do_not_fit(tmp_path: Path) -> None:
    for n, advised in ((100_000, True), (100_001, False)):  # 100 for each of 1000 rows
        path = write(tmp_path, "g.mtx", f"%%MatrixMarket matrix coordinate real general\n{n} {n} 1\n1 2 3\n")
        said = sentence_of(FileFormatError, read_graph, path, features=np.ones((2, 1)))
        assert ("give one row per node" in said) == advised
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(PATH))
    years, more = write(tmp_path, "x.csv", "2019\n1\n2\n3\n4\n"), write(tmp_path, "y.csv", "1\n" * 6)
    for features, advised in ((years, True), (more, False), (np.ones((5, 1)), False)):
        said = sentence_of(FileFormatError, read_graph, tmp_path / "g.mtx", features=features)
        assert ("(features_header=True if row 1 holds titles)" in said) == advised


def test_read_features(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,a\nann,1\nbob,2\n")
    np.testing.assert_array_equal(read_features(path, ["bob"]), [[2]])
    refuses(FileFormatError, "no row for node 'cy'", read_features, path, ["ann", "cy"])
    refuses(
        FileFormatError, "the ids are 'ann', 'bob', the nodes 'cy': write both", read_features, path, ["cy"]
    )
    with pytest.raises(FileFormatError, match="1 rows but there are 2 nodes"):
        read_features(write(tmp_path, "y.csv", "1,2\n"), ["a", "b"])
    np.testing.assert_array_equal(read_features(tmp_path / "y.csv", ["a"]), [[1, 2]])
    np.save(tmp_path / "one.npy", np.array([1.0, 2.0]))
    assert read_features(tmp_path / "one.npy").tolist() == [[1], [2]]
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    refuses(FileFormatError, "holds 'a', 'b': expected a matrix", read_features, tmp_path / "two.npz")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.csv", "", "x.csv is empty"),
        ("x.csv", "# a\n", "only comments"),
        ("x.csv", "id,a\n", "header but no rows"),
        ("x.csv", "1,2\n3,nan\n", r"x.csv, line 2, column 2: the value is missing; fill it in, or pass missing='zero'"),
        ("x.csv", "1,2\n3,1e39\n4,1e39\n", r"line 2, column 2: 1e\+39 is not finite in float32"),
        ("x.csv", "1,2\n3,word\n", r"line 2, column 2: 'word' is not a number"),
        ("x.csv", "1,2\nword,4\n5,6\n", r"line 2, column 1: 'word' is not a number"),
        ("x.csv", "1,\n3,4\n5,\n", r"line 1, column 2: the value is missing"),
        ("x.csv", "1,2\n3,4,5\n", r"line 2: expected 2 columns, found 3"),
        ("x.csv", "id,a\nann\n", r"line 2: expected 2 columns, found 1"),
        ("x.csv", "id\nann\nbob\n", r"line 2: expected at least one feature"),
        ("x.csv", b"1,2\n\xfe,1\n", r"line 2: byte 0xfe"),
        ("x.npy", b"junk", "not a valid .npy"),
        ("x.npz", b"junk", "not a valid .npz"),
        ("x.parquet", b"junk", "extension '.parquet'"),
    ],
)  # fmt: skip
def test_feature_errors(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    refuses(FileFormatError, sentence, read_features, write(tmp_path, name, content))


def test_array_feature_errors(tmp_path: Path) -> None:
    graph = write(tmp_path, "g.csv", "0,1\n1,2\n")
    with pytest.raises(FileFormatError, match=r"features has 2 rows but .*g.csv has node 2"):
        read_graph(graph, features=np.ones((2, 2)))
    for wrong, sentence in (
        (np.ones(3), "features: x has shape"),
        (5, "features is one value"),
        (np.ones((0, 2)), "features has no rows"),
        (np.array([[np.nan]] * 3), r"features: x\[0, 0\] is nan"),
        ([[1.0], [1.0, 2.0], [3.0]], "features: x has rows of different lengths"),
    ):
        refuses(GraphError, sentence, read_graph, graph, features=wrong)
    np.save(tmp_path / "bad.npy", np.array([["a"], ["b"], ["c"]]))
    refuses(GraphError, r"bad.npy: x has dtype", read_graph, graph, features=tmp_path / "bad.npy")
    with pytest.raises(ParameterError, match="'attributes' needs a file of GraphML, GEXF"):
        read_graph(graph, features="attributes")
