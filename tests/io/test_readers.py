"""Readers: every format against an oracle, every mistake named with its line, and fuzzing of all of them."""

from __future__ import annotations

import gzip
import io
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from softcut.errors import FileFormatError, GraphError, ParameterError, SoftcutError
from softcut.graph import Graph
from softcut.io.readers import read_features, read_graph


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def quiet(*args: Any, **kwargs: Any) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_graph(*args, **kwargs)


def named_edges(g: Graph) -> set[tuple[str, str, float]]:
    names = g.node_names or [str(i) for i in range(g.num_nodes)]
    upper = sp.triu(g.adjacency, format="coo")
    return {
        (*sorted((names[u], names[v])), float(w))
        for u, v, w in zip(upper.row, upper.col, upper.data, strict=True)
    }


# ---------------------------------------------------------------------- edge lists

MTX = "%%MatrixMarket matrix coordinate real general\n"
PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]], float)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".edges", ".edgelist", ".csv.gz", ".TXT"])
@pytest.mark.parametrize("separator", [",", "\t", ";", " ", "  ", ", "])
@pytest.mark.parametrize("header", ["", "source{0}target\n", "one{0}other\n", "# a comment\n\n% more\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_plain_edge_lists(tmp_path: Path, suffix: str, separator: str, header: str, end: str) -> None:
    text = header.format(separator) + "".join(f"{i}{separator}{i + 1}\n" for i in range(3))
    g = quiet(write(tmp_path, "path" + suffix, text.replace("\n", end)))
    np.testing.assert_array_equal(g.adjacency.toarray(), PATH)
    assert g.name == "path"
    assert g.node_names is None
    assert not g.weighted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.text(st.characters(categories=["L", "N"], exclude_characters="{}"), min_size=1, max_size=4),
        unique=True, min_size=2, max_size=6,
    ),
    data=st.data(),
)  # fmt: skip
def test_any_names_in_first_seen_order(tmp_path: Path, names: list[str], data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(len(names)), 2))
    chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen)))
    text = "source,target,weight\n" + "".join(
        f"x{names[u]},x{names[v]},{w}\n" for (u, v), w in zip(chosen, weights, strict=True)
    )
    g = quiet(write(tmp_path, "g.csv", text))
    seen = list(dict.fromkeys("x" + names[i] for pair in chosen for i in pair))
    assert g.node_names == seen
    assert named_edges(g) == {
        (*sorted(("x" + names[u], "x" + names[v])), float(w))
        for (u, v), w in zip(chosen, weights, strict=True)
    }


def test_fast_and_slow_parser_agree(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(rng.integers(0, 40, (200, 2)), axis=1), axis=0)
    weights = rng.random(len(edges))
    rows = [f"{u},{v},{w!r}" for (u, v), w in zip(edges.tolist(), weights.tolist(), strict=True)]
    plain = quiet(write(tmp_path, "a.csv", "\n".join(rows)), self_loops="keep")
    # Quotes send a file to the line-by-line parser.
    rows[0] = ",".join(f'"{field}"' for field in rows[0].split(","))
    quoted = quiet(write(tmp_path, "b.csv", "\n".join(rows)), self_loops="keep")
    np.testing.assert_array_equal(plain.adjacency.toarray(), quoted.adjacency.toarray())


def test_columns_by_name(tmp_path: Path) -> None:
    for text in (
        "Source,Target,Type,Id,Label,Weight\na,b,Undirected,0,,2.5\nb,c,Undirected,1,,1\n",
        "weight;dst;src\n2.5;b;a\n1;c;b\n",
        '"from","to","weight"\n"a","b",2.5\n"b","c",1\n',
        "u v weight\na b 2.5\nb c 1\n",
        "node_1\tnode_2\tw\na\tb\t2.5\nb\tc\t1\n",
    ):
        assert named_edges(quiet(write(tmp_path, "g.csv", text))) == {("a", "b", 2.5), ("b", "c", 1.0)}
    # A letter that other lines mention is a node, not a title.
    assert quiet(write(tmp_path, "g.txt", "u v\nv w\n")).node_names == ["u", "v", "w"]
    assert quiet(write(tmp_path, "g.txt", "person friend hours\nann bob 3\n")).num_edges == 1


def test_names_with_commas_and_accents(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", '\ufeff"Smith, Ann",Zoë\n"Smith, Ann",Łukasz\n'))
    assert g.node_names == ["Smith, Ann", "Zoë", "Łukasz"]


def test_weighted_argument(tmp_path: Path) -> None:
    three = write(tmp_path, "w.csv", "0,1,2.5\n1,2,1\n")
    assert quiet(three).weighted
    assert quiet(three, weighted=True).weighted
    assert not quiet(three, weighted=False).weighted
    words = write(tmp_path, "t.csv", "0,1,friend\n1,2,colleague\n")
    assert quiet(words, weighted=False).num_edges == 2
    with pytest.raises(
        FileFormatError, match=r"t.csv, line 1: the weight 'friend' is not a number; .*weighted=False"
    ):
        read_graph(words)
    with pytest.raises(FileFormatError, match="no column of weights"):
        read_graph(write(tmp_path, "g.csv", "0,1\n"), weighted=True)


def test_networkx_edge_lists(tmp_path: Path) -> None:
    graph = nx.path_graph(4)
    nx.write_edgelist(graph, tmp_path / "plain.edgelist")
    np.testing.assert_array_equal(quiet(tmp_path / "plain.edgelist").adjacency.toarray(), PATH)
    nx.set_edge_attributes(graph, {(0, 1): 2.0, (1, 2): 3.5}, "weight")
    nx.write_edgelist(graph, tmp_path / "weights.edgelist")
    assert named_edges(quiet(tmp_path / "weights.edgelist")) == {
        ("0", "1", 2.0),
        ("1", "2", 3.5),
        ("2", "3", 1.0),
    }


def test_directed_files_warn_and_one_way_lists_do_not(tmp_path: Path) -> None:
    quiet(write(tmp_path, "a.csv", "0,1\n1,2\n"))
    quiet(write(tmp_path, "a.csv", "0,1\n1,0\n1,2\n2,1\n"))
    with pytest.warns(UserWarning, match="directed: 1 of 3"):
        read_graph(write(tmp_path, "a.csv", "0,1\n1,0\n1,2\n"))
    with pytest.warns(UserWarning, match="1 self-loop dropped"):
        read_graph(write(tmp_path, "a.csv", "0,0\n0,1\n"))
    assert quiet(tmp_path / "a.csv", self_loops="keep").has_self_loops


def test_integer_ids(tmp_path: Path) -> None:
    # From 0: indices. Up to half of the ids may be missing: isolated nodes.
    g = quiet(write(tmp_path, "g.csv", "0,1\n3,5\n"))
    assert (g.num_nodes, g.node_names) == (6, None)
    # From 1: the ids are kept as names, nothing is added for 0.
    g = quiet(write(tmp_path, "g.csv", "1,2\n2,3\n"))
    assert (g.num_nodes, g.node_names) == (3, ["1", "2", "3"])
    # Anything else, names in order of mention.
    g = quiet(write(tmp_path, "g.csv", "900,17\n17,1000000000000\n"))
    assert g.node_names == ["900", "17", "1000000000000"]
    assert named_edges(g) == {("17", "900", 1.0), ("1000000000000", "17", 1.0)}
    g = quiet(write(tmp_path, "g.csv", "-1,2\n2,3\n"))
    assert g.node_names == ["-1", "2", "3"]
    g = quiet(write(tmp_path, "g.csv", f"{10**40},2\n2,3\n"))
    assert g.num_nodes == 3


def test_delimiter_and_format(tmp_path: Path) -> None:
    path = write(tmp_path, "links", "a|b\nb|c\n")
    assert quiet(path, format="edges", delimiter="|").node_names == ["a", "b", "c"]
    for wrong in ("", "ab", "1", '"', "\n"):
        with pytest.raises(ParameterError, match="delimiter"):
            read_graph(path, format="edges", delimiter=wrong)
    with pytest.raises(ParameterError, match="format is 'xml'"):
        read_graph(path, format="xml")
    with pytest.raises(FileFormatError, match=r"extension '': use one of .csv"):
        read_graph(path)
    with pytest.raises(ParameterError, match="weighted"):
        read_graph(path, weighted="yes")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="self_loops"):
        read_graph(path, self_loops="no")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="path is a int"):
        read_graph(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("g.csv", "", "g.csv is empty"),
        ("g.csv", " \n\n", "g.csv is empty"),
        ("g.csv", "# only\n", "no edges, only comments"),
        ("g.csv", "source,target\n", "has no edges"),
        ("g.csv", "0,1\n1,2\nabc\n", r"g.csv, line 3: expected 2 or 3 columns, found 1: 'abc'"),
        ("g.csv", "abc\n", r"g.csv, line 1: expected 2 or 3 columns, found 1: 'abc'"),
        ("g.csv", "0,1\n1,2\n2,3,4\n", r"line 3: expected 2 columns as on line 1, found 3: '2,3,4'"),
        ("g.csv", "a,b,c,d\n1,2,3,4\n", r"line 1: expected 2 or 3 .*, found 4.*source, target and weight"),
        ("g.csv", "0,1,1\n1,2,heavy\n", r"line 2: the weight 'heavy' is not a number"),
        ("g.csv", "1,2,heavy\n1,2,1\n", r"line 1: the weight 'heavy' is not a number"),
        ("g.csv", "0,1,1\n#\n1,2,nan\n", r"line 3: the weight 'nan' is not finite"),
        ("g.csv", "0,1,1\n1,2,1e999\n", r"line 2: the weight '1e999' is not finite"),
        ("g.csv", "0,1,1\n1,2,-3\n", r"line 2: the weight '-3' is negative"),
        ("g.csv", "0,1,1\n1,2,\n", r"line 2: the weight '' is not a number"),
        ("g.csv", "a,b\n,c\n", r"line 2: a node id is empty"),
        ("g.csv", b"0,1\n1,\xff\n", r"line 2: byte 0xff is not UTF-8"),
        ("g.csv", b"0,1\n\x00\x01", r"line 2: a zero byte"),
        ("g.csv", "0,1\n".encode("utf-16"), r"line 1: a zero byte"),
        ("g.txt", "a " + "b" * 10_000 + " c d e\n", r"found 5: 'a b+\.\.\.'"),
        ("g.csv", '"' + "b" * 200_000 + '",c\n', r"line 1: field larger"),
        ("g.mtx", "1 2 3\n", "line 1: a Matrix Market file starts with"),
        ("g.mtx", MTX + "2 2 99\n1 2 1\n", "line 2: 99 entries announced"),
        ("g.mtx", MTX + "x\n", "line 2: expected the sizes"),
        ("g.mtx", MTX + "2 2 1\n1 5 1\n", "entry 1 is in row 1, column 5, outside the 2 x 2"),
        ("g.mtx", MTX + "999999999 999999999 1\n1 5 1\n", "announces"),
        ("g.mtx", MTX + "2 2 1\n1 2\n", "line 3: expected row, column, value, found '1 2'"),
        ("g.mtx", MTX + "2 2 2\n1 2 1\n% note\n2 1 x\n", "line 5: expected row, column, value, found '2 1 x'"),
        ("g.mtx", MTX + "2 2 2\n1 2 1\n", "2 entries announced, 1 found"),
        ("g.mtx", MTX.replace("real", "complex") + "2 2 1\n1 2 1\n", "line 1: expected '%%MatrixMarket matrix'"),
        ("g.graphml", "<graphml", "g.graphml is not valid GraphML"),
        ("g.graphml", "<!DOCTYPE x><graphml/>", "document type"),
        ("g.gml", "graph [ node", "g.gml is not valid GML"),
        ("g.npz", "PK\x03\x04 no", "g.npz is not a valid .npz file"),
        ("g.npz", "junk", "g.npz is not a valid .npz file"),
        ("g.docx", "junk", "extension '.docx'"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        read_graph(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="does not exist"):
        read_graph(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileFormatError, match="is a folder"):
        read_graph(tmp_path / "folder.csv")
    (tmp_path / "bad.csv.gz").write_bytes(b"0,1\n")
    with pytest.raises(FileFormatError, match="not a valid gzip file"):
        read_graph(tmp_path / "bad.csv.gz")
    cut = gzip.compress(b"0,1\n" * 1000)[:-12]
    (tmp_path / "cut.csv.gz").write_bytes(cut)
    with pytest.raises(FileFormatError, match="not a valid gzip file"):
        read_graph(tmp_path / "cut.csv.gz")
    with pytest.raises(FileFormatError, match="cannot be opened"):
        read_graph("nul\0byte.csv")
    with pytest.raises(GraphError, match=r"w.csv: .*sums to more than float64"):
        read_graph(write(tmp_path, "w.csv", "0,1,1e308\n0,1,1e308\n"))


# ---------------------------------------------------------------------- other formats


def weighted_graph() -> nx.Graph:
    graph = nx.Graph()
    graph.add_node("ann", age=31, height=1.7, word="x")
    graph.add_node("bob", age=45, height=1.8, word="y")
    graph.add_node("Zoë", age=28, height=1.6, word="z")
    graph.add_edge("ann", "bob", weight=2.5)
    graph.add_edge("bob", "Zoë", weight=1.0)
    return graph


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".graphml.gz", ".gml.gz"])
def test_graphml_and_gml(tmp_path: Path, suffix: str) -> None:
    graph, path = weighted_graph(), tmp_path / f"g{suffix}"
    (nx.write_graphml if "graphml" in suffix else nx.write_gml)(graph, path)
    g = quiet(path)
    assert g.node_names == ["ann", "bob", "Zoë"]
    assert named_edges(g) == {("ann", "bob", 2.5), ("Zoë", "bob", 1.0)}
    assert g.x is None
    g = quiet(path, features="attributes", weighted=False)
    np.testing.assert_allclose(g.x, [[31, 1.7], [45, 1.8], [28, 1.6]], rtol=1e-6)
    assert not g.weighted
    x = write(tmp_path, "x.csv", "id,a\nbob,2\nann,1\nZoë,3\nsolo,4\n")
    joined = quiet(path, features=x)
    assert joined.node_names == ["ann", "bob", "Zoë", "solo"]
    np.testing.assert_array_equal(joined.x, [[1], [2], [3], [4]])
    assert joined.num_edges == 2
    with pytest.raises(FileFormatError, match=r"2 rows but .* has 3 nodes"):
        read_graph(path, features=np.ones((2, 1)))


def test_gml_without_labels_and_directed_graphml(tmp_path: Path) -> None:
    text = "graph [\n node [ id 7 ]\n node [ id 9 ]\n edge [ source 7 target 9 value 3 ]\n]\n"
    assert named_edges(quiet(write(tmp_path, "g.gml", text))) == {("7", "9", 3.0)}
    raw = 'graph [\n node [ id 1 label "Zoë" ]\n node [ id 2 label "b" ]\n edge [ source 1 target 2 ]\n]\n'
    assert quiet(write(tmp_path, "g.gml", raw)).node_names == ["Zoë", "b"]
    nx.write_graphml(nx.DiGraph([("a", "b")]), tmp_path / "d.graphml")
    with pytest.warns(UserWarning, match="directed"):
        read_graph(tmp_path / "d.graphml")
    with pytest.raises(FileFormatError, match="weighted=True"):
        read_graph(tmp_path / "d.graphml", weighted=True)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_matrix_market(tmp_path: Path, symmetry: str, field: str) -> None:
    values = PATH * 3 if field != "pattern" else PATH
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(values), field=field, symmetry=symmetry)
    np.testing.assert_array_equal(quiet(tmp_path / "g.mtx").adjacency.toarray(), values)
    packed = write(tmp_path, "g.mtx.gz", (tmp_path / "g.mtx").read_bytes())
    np.testing.assert_array_equal(quiet(packed, weighted=False).adjacency.toarray(), PATH)


def test_matrix_market_dense_and_repeated(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "g.mtx", PATH)
    np.testing.assert_array_equal(quiet(tmp_path / "g.mtx").adjacency.toarray(), PATH)
    text = "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n2 1\n"
    assert not quiet(write(tmp_path, "g.mtx", text)).weighted
    with pytest.raises(FileFormatError, match=r"g.mtx: a 2 x 3 matrix is not"):
        read_graph(write(tmp_path, "g.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n2 1 1\n"))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
def test_scipy_archives(tmp_path: Path, kind: str) -> None:
    sp.save_npz(tmp_path / "g.npz", sp.csr_array(PATH * 2).asformat(kind))
    np.testing.assert_array_equal(quiet(tmp_path / "g.npz").adjacency.toarray(), PATH * 2)


def test_edge_archives(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(
        path, edges=[[0, 1, 2], [1, 2, 3]], num_nodes=5, x=np.eye(5), y=np.arange(5), edge_weight=[1, 2, 3]
    )
    g = quiet(path)
    assert (g.num_nodes, g.num_edges, g.num_features, g.weighted) == (5, 3, 5, True)
    np.savez(path, edges=[[0], [1]], num_nodes=2_000_000_000)
    with pytest.raises(FileFormatError, match="announces 2000000000 nodes"):
        read_graph(path)
    np.savez(path, a=[1], b=[2])
    with pytest.raises(FileFormatError, match="holds 'a', 'b'"):
        read_graph(path)
    np.savez(path, edges=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileFormatError, match=r"not a valid .npz file"):
        read_graph(path)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    marker = tmp_path / "executed"

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (marker,)

    bomb = pickle.dumps(Trap())
    array = np.empty(1, dtype=object)
    array[0] = Trap()
    np.save(tmp_path / "object.npy", array)
    np.savez(tmp_path / "object.npz", x=array)
    for name in ("bomb.npy", "bomb.npz", "bomb.csv", "bomb.gml", "bomb.mtx"):
        write(tmp_path, name, bomb)
    for file in [*tmp_path.glob("*.np*"), *tmp_path.glob("bomb.*")]:
        for read in (read_graph, read_features):
            with pytest.raises(SoftcutError):
                read(file)
    assert not marker.exists()


def test_broken_sparse_archive_is_an_error(tmp_path: Path) -> None:
    matrix = sp.csr_array(PATH)
    matrix.indices[0] = 1_000_000
    for kind in (sp.csr_array, sp.csc_array):
        np.savez(
            tmp_path / "g.npz", format=kind.__name__[:3].encode(), shape=matrix.shape, data=matrix.data,
            indices=matrix.indices, indptr=matrix.indptr,
        )  # fmt: skip
        with pytest.raises(SoftcutError):
            read_graph(tmp_path / "g.npz")
        with pytest.raises(SoftcutError):
            read_features(tmp_path / "g.npz")


# ---------------------------------------------------------------------- features


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
    # More rows than ids: isolated nodes at the end. Ids from 1 with as many rows: row 0 is node 1.
    assert quiet(graph, features=np.ones((9, 1))).num_nodes == 9
    g = quiet(write(tmp_path, "one.csv", "1,2\n2,3\n"), features=x)
    assert g.node_names == ["1", "2", "3"]
    # Sparse ids are indices when there are enough rows.
    assert quiet(write(tmp_path, "far.csv", "0,90\n"), features=np.ones((100, 1))).num_nodes == 100


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
    with pytest.raises(FileFormatError, match=r"has no node ids, but the nodes of .* have names"):
        read_graph(graph, features=np.ones((3, 1)))


def test_integer_ids_in_features(tmp_path: Path) -> None:
    x = write(tmp_path, "x.csv", "node,a\n2,20\n0,0\n1,10\n3,30\n")
    g = quiet(write(tmp_path, "g.csv", "2,1\n1,0\n"), features=x)
    assert (g.num_nodes, g.node_names) == (4, None)
    np.testing.assert_array_equal(g.x, [[0], [10], [20], [30]])
    assert g.adjacency[2, 1] == 1
    g = quiet(
        write(tmp_path, "g.csv", "3,1\n1,2\n"), features=write(tmp_path, "y.csv", "id,a\n1,1\n3,3\n2,2\n")
    )
    assert g.node_names == ["1", "2", "3"]
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    g = quiet(write(tmp_path, "g.csv", "70,10\n"), features=write(tmp_path, "y.csv", "id,a\n10,1\n070,7\n"))
    assert g.node_names == ["70", "10"]
    np.testing.assert_array_equal(g.x, [[7], [1]])
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(PATH))
    np.testing.assert_array_equal(quiet(tmp_path / "g.mtx", features=x).x, [[0], [10], [20], [30]])
    with pytest.raises(FileFormatError, match="does not have"):
        read_graph(tmp_path / "g.mtx", features=write(tmp_path, "z.csv", "id,a\n0,0\n1,1\n2,2\n3,3\n4,4\n"))


def test_read_features(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,a\nann,1\nbob,2\n")
    np.testing.assert_array_equal(read_features(path), [[1], [2]])
    np.testing.assert_array_equal(read_features(path, ["bob"]), [[2]])
    with pytest.raises(FileFormatError, match="no row for node 'cy'"):
        read_features(path, ["cy"])
    with pytest.raises(FileFormatError, match="1 rows but there are 2 nodes"):
        read_features(write(tmp_path, "y.csv", "1,2\n"), ["a", "b"])
    np.testing.assert_array_equal(read_features(tmp_path / "y.csv", ["a"]), [[1, 2]])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.csv", "", "x.csv is empty"),
        ("x.csv", "# a\n", "only comments"),
        ("x.csv", "id,a\n", "header but no rows"),
        ("x.csv", "1,2\n3,nan\n", r"x.csv, line 2, column 2: 'nan' is not finite"),
        ("x.csv", "1,2\n3,1e39\n", r"line 2, column 2: '1e39' is not finite in float32"),
        ("x.csv", "1,2\n3,word\n", r"line 2, column 2: 'word' is not a number"),
        ("x.csv", "1,\n3,4\n", r"line 1, column 2: '' is not a number"),
        ("x.csv", "1,2\n3,4,5\n", r"line 2: expected 2 columns, found 3"),
        ("x.csv", "id,a\nann\n", r"line 2: expected at least one feature"),
        ("x.csv", b"1,2\n\xfe,1\n", r"line 2: byte 0xfe"),
        ("x.npy", b"junk", "not a valid .npy"),
        ("x.npz", b"junk", "not a valid .npz"),
        ("x.parquet", b"junk", "extension '.parquet'"),
    ],
)  # fmt: skip
def test_feature_errors(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    with pytest.raises(FileFormatError, match=sentence):
        read_features(write(tmp_path, name, content))


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
        with pytest.raises(GraphError, match=sentence):
            read_graph(graph, features=wrong)
    np.save(tmp_path / "bad.npy", np.array([["a"], ["b"], ["c"]]))
    with pytest.raises(GraphError, match=r"bad.npy: x has dtype"):
        read_graph(graph, features=tmp_path / "bad.npy")
    with pytest.raises(ParameterError, match="'attributes' needs a GraphML or GML file"):
        read_graph(graph, features="attributes")


# ---------------------------------------------------------------------- fuzzing


def saved(save: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


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


def test_a_folder_and_an_archive_of_nonsense_are_one_plain_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="is a folder; name a graph file in it"):
        read_graph(tmp_path)
    (tmp_path / "noise.npz").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(FileFormatError, match=r"not a valid \.npz") as caught:
        read_graph(tmp_path / "noise.npz")
    assert "pickle" not in str(caught.value)
