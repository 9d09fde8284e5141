"""GraphML, GML, Matrix Market and archives against what other libraries write."""

import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from helpers.reading import PATH, named_edges, quiet, weighted_graph, write
from helpers.refusals import refuses

from softcut.errors import FileFormatError, GraphError, ParameterError, SoftcutError
from softcut.io import read_features, read_graph


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
    refuses(FileFormatError, r"2 rows but .* has 3 nodes", read_graph, path, features=np.ones((2, 1)))


def test_gml_without_labels_and_directed_graphml(tmp_path: Path) -> None:
    text = "graph [\n node [ id 7 ]\n node [ id 9 ]\n edge [ source 7 target 9 value 3 ]\n]\n"
    g = quiet(write(tmp_path, "g.gml", text))
    assert named_edges(g) == {("7", "9", 3.0)}
    assert g.notes[1:] == ["weight 'value'", "2 nodes, 1 edge"]
    with pytest.raises(GraphError, match="found no node attribute with a value at every node"):
        read_graph(tmp_path / "g.gml", features="attributes")
    raw = 'graph [\n node [ id 1 label "Zoë" ]\n node [ id 2 label "b" ]\n edge [ source 1 target 2 ]\n]\n'
    assert quiet(write(tmp_path, "g.gml", raw)).node_names == ["Zoë", "b"]
    nx.write_graphml(nx.DiGraph([("a", "b")]), tmp_path / "d.graphml")
    with pytest.warns(UserWarning, match="directed"):
        read_graph(tmp_path / "d.graphml")
    assert quiet(tmp_path / "d.graphml", directed=False).num_edges == 1
    refuses(FileFormatError, "weighted=True", read_graph, tmp_path / "d.graphml", weighted=True)


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
    scipy.io.mmwrite(tmp_path / "g.mtx", PATH * 3, symmetry="general")
    np.testing.assert_array_equal(quiet(tmp_path / "g.mtx").adjacency.toarray(), PATH * 3)
    text = "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n2 1\n"
    assert not quiet(write(tmp_path, "g.mtx", text)).weighted
    # An entry without a value is there or not: given twice in one direction, it is no heavier there.
    text = "%%MatrixMarket matrix coordinate pattern general\n3 3 5\n1 2\n1 2\n2 1\n2 3\n3 2\n"
    g = quiet(write(tmp_path, "g.mtx", text))
    assert g.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert "no weights" in g.notes
    with pytest.raises(FileFormatError, match="weighted=True but every weight is 1"):
        read_graph(tmp_path / "g.mtx", weighted=True)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
@pytest.mark.parametrize("weight", [1, 2])
def test_scipy_archives(tmp_path: Path, kind: str, weight: int) -> None:
    path = tmp_path / "g.npz"
    sp.save_npz(path, sp.csr_array(PATH * weight).asformat(kind))
    np.testing.assert_array_equal(quiet(path).adjacency.toarray(), PATH * weight)
    np.testing.assert_array_equal(quiet(path, weighted=False).adjacency.toarray(), PATH)
    if weight == 1:
        refuses(FileFormatError, "weighted=True but every weight is 1", read_graph, path, weighted=True)
    else:
        assert quiet(path, weighted=True).weighted


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_a_scipy_archive_with_a_wrong_index_is_refused(tmp_path: Path, kind: str) -> None:
    sp.save_npz(tmp_path / "g.npz", sp.csr_array(PATH).asformat(kind))
    with np.load(tmp_path / "g.npz") as archive:
        arrays = {**archive, "indices": np.where(archive["indices"] == 0, 9, archive["indices"])}
    refuses(FileFormatError, "indices must be <", read_graph, npz(tmp_path, **arrays))


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


def test_node_attributes_as_features(tmp_path: Path) -> None:
    graph = weighted_graph()
    graph.nodes["ann"]["score"] = 2.0  # the others have none
    graph.edges["ann", "bob"]["year"] = 2001
    nx.write_graphml(graph, tmp_path / "g.graphml")
    path = tmp_path / "g.graphml"
    g = quiet(path)
    said = "; ".join(g.notes)
    assert "weight 'weight', ignored 'year'" in said
    assert "node attributes 'age', 'height', 'word', 'score' not used" in said
    g = quiet(path, features="attributes")
    assert g.feature_names == ["age", "height"]
    assert "'word' id (left out)" in "; ".join(g.notes)
    assert "node attributes 'score' left out (missing at some nodes)" in "; ".join(g.notes)
    g = quiet(path, features="attributes", missing="zero", categories=True)
    assert g.feature_names == ["age", "height", "word=x", "word=y", "word=z", "score"]
    np.testing.assert_array_equal(g.x[:, 2:], [[1, 0, 0, 2], [0, 1, 0, 0], [0, 0, 1, 0]])  # type: ignore[index]
    assert quiet(path, features=["height"]).feature_names == ["height"]
    g = quiet(path, features="attributes", categories=["word"])
    assert g.feature_names == ["age", "height", "word=x", "word=y", "word=z"]
    refuses(ParameterError, "features names 'weight', which no node", read_graph, path, features=["weight"])
    refuses(GraphError, r"column 1 \('score'\): the value is missing", read_graph, path, features=["score"])
    edges = named_edges(quiet(path, weight="year", directed=False))
    assert edges == {("ann", "bob", 2001.0), ("Zoë", "bob", 1.0)}
    refuses(ParameterError, "weight is 'km', which no edge", read_graph, path, weight="km")


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("coordinate real symmetric", "3 3\n2 1 1\n", "line 3: expected the sizes"),
        ("coordinate real symmetric", "3 3 -1\n2 1 1\n", "line 3: expected the sizes"),
        ("array real general", "2 2 4\n0\n", "line 3: expected the sizes"),
        ("coordinate real symmetric", "3 3 2\n2 1 1\n3 x 1\n", "line 5: expected row, column, value"),
        ("coordinate real symmetric", "3 3 2\n2 1 1\n4 2 1\n", "entry 2 is in row 4, column 2, outside the 3 x 3"),
        ("coordinate real symmetric", "3 3 2\n2 0 1\n3 2 1\n", "entry 1 is in row 2, column 0, outside the 3 x 3"),
        ("coordinate real general", "3 3 3\n2 1 1\n0 0 1\n9 9 1\n", "entry 2 is in row 0, column 0, outside"),
        ("coordinate real general", "3 3 2\n1 4 1\n4 4 1\n", "entry 1 is in row 1, column 4, outside the 3 x 3"),
        ("coordinate real general", "3 3 2\n4 4 1\n0 1 1\n", "entry 1 is in row 4, column 4, outside the 3 x 3"),
        ("coordinate real general", "3 3 2\n2 1 1\n0 1 1\n", "entry 2 is in row 0, column 1, outside the 3 x 3"),
        ("coordinate real symmetric", "3 3 2\n2 1 1\n", "2 entries announced, 1 found"),
        ("coordinate real symmetric", "3 3 99\n2 1 1\n", "99 entries announced in a smaller file"),
        ("coordinate real general", "3 2 1\n2 1 1\n", "a 3 x 2 matrix is not the adjacency"),
        ("coordinate complex general", "3 3 1\n2 1 1 1\n", "line 1: expected '%%MatrixMarket matrix'"),
        ("array pattern general", "2 2\n1\n", "line 1: expected '%%MatrixMarket matrix'"),
        ("coordinate real", "2 2 1\n2 1 1\n", "line 1: expected '%%MatrixMarket matrix'"),
        ("coordinate real general 1", "2 2 1\n2 1 1\n", "line 1: expected '%%MatrixMarket matrix'"),
    ],
)  # fmt: skip
def test_matrix_market_files_that_are_none(tmp_path, kind, body, words):
    path = write(tmp_path, "g.mtx", f"%%MatrixMarket matrix {kind}\n% a comment\n{body}")
    refuses(FileFormatError, words, read_graph, path)


PAIRS, WEIGHT = [[0, 1], [1, 2]], [2.0, 3.0]


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path / "g.npz", **arrays)
    return path / "g.npz"


def test_archives_of_arrays(tmp_path: Path) -> None:
    more = {"x": np.eye(4), "y": [0, 1, 0, 1], "other": [1]}
    graph = quiet(npz(tmp_path, edges=PAIRS, num_nodes=4, edge_weight=WEIGHT, **more))
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 2, 4)
    assert (graph.adjacency[0, 1], graph.adjacency[1, 2]) == (2, 3)
    assert graph.y.tolist() == [0, 1, 0, 1]
    used = "arrays 'edges', 'num_nodes', 'edge_weight', 'x', 'y', ignored 'other'"
    assert graph.notes[0] == f"{tmp_path / 'g.npz'}: {used}"
    plain = quiet(npz(tmp_path, edges=PAIRS, weight=WEIGHT), weighted=False)
    assert not plain.weighted and plain.notes[0].endswith("arrays 'edges', ignored 'weight'")
    assert quiet(npz(tmp_path, edge_index=PAIRS, weight=WEIGHT), weighted=True).weighted


@pytest.mark.parametrize(
    ("arrays", "weighted", "words"),
    [
        ({"edges": PAIRS}, True, "no array 'edge_weight'"),
        ({"edges": PAIRS, "num_nodes": [3, 3]}, "auto", "'num_nodes' must be one integer"),
        ({"edges": PAIRS, "num_nodes": 3.0}, "auto", "'num_nodes' must be one integer"),
        ({"edges": [[0], [1]], "num_nodes": 2_000_000_000}, "auto", "announces 2000000000 nodes"),
        ({"a": [1], "b": [2]}, "auto", "holds 'a', 'b'"),
    ],
)
def test_archives_that_are_no_graph(tmp_path: Path, arrays: dict, weighted: Any, words: str) -> None:
    refuses(FileFormatError, words, read_graph, npz(tmp_path, **arrays), weighted=weighted)
