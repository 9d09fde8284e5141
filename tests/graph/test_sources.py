"""Graphs of features alone, of AnnData and of DGL."""

import copy
import pickle
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_checks import check_invariants, quiet
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.neighbors import kneighbors_graph

from softcut import GraphClustering, read_graph
from softcut.errors import DependencyError, FileFormatError, GraphError, ParameterError
from softcut.graph import Graph
from softcut.metrics import nmi

# ---------------------------------------------------------------------- features alone


@pytest.mark.parametrize(
    ("load", "k", "least"),
    [(load_iris, 3, 0.65), (load_wine, 3, 0.84), (load_breast_cancer, 2, 0.65), (load_digits, 10, 0.82)],
)
def test_tables_of_scikit_learn(load: Any, k: int, least: float) -> None:
    x, y = load(return_X_y=True)
    g = quiet(Graph.from_features, x)
    assert not g.weighted and g.num_features == x.shape[1]
    assert nmi(y, GraphClustering(k, random_state=0).fit(g).labels_) > least


def test_neighbours_are_those_of_scaled_columns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    g = quiet(Graph.from_features, x, n_neighbors=4)
    check_invariants(g)
    scaled = (x - x.mean(0)) / x.std(0)
    near = sp.csr_array(kneighbors_graph(scaled, 4))
    np.testing.assert_array_equal(g.adjacency.toarray(), near.maximum(near.T).toarray())
    assert "edges to the 4 nearest rows" in g.notes
    # Units, an outlier and a constant column change nothing.
    changed = np.column_stack([x * [1e-6, 1e9, 1], np.full(60, 7.0)])
    np.testing.assert_array_equal(Graph.from_features(changed, 4).adjacency.toarray(), g.adjacency.toarray())
    alike = Graph.from_features(np.ones((5, 2)), n_neighbors=99)
    assert alike.num_edges == 10  # all of them
    words = sp.random_array((40, 300), density=0.3, rng=rng, format="csr")
    assert sp.issparse(quiet(Graph.from_features, words).x)
    times = sp.diags_array(rng.uniform(1, 9, 40)) @ words  # the length of a text does not count
    np.testing.assert_array_equal(
        Graph.from_features(times).adjacency.toarray(), Graph.from_features(words).adjacency.toarray()
    )


def test_a_graph_knows_that_its_edges_are_those_of_its_features() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    g = quiet(Graph.from_features, x, n_neighbors=4)
    assert g.neighbors == 4
    assert Graph.from_features(x[:3], n_neighbors=9).neighbors == 2  # there are no more
    copies = [
        g.with_notes("a note"),
        g.in_mean_weights(),
        g.with_node_kinds(["a"] * 30),
        g.subgraph(range(20)),
    ]
    copies += [pickle.loads(pickle.dumps(g)), copy.copy(g), Graph.from_any(g), g[np.arange(30) < 9]]
    assert {each.neighbors for each in copies} == {4}
    assert Graph.batch([g, g]).neighbors == 4 and Graph.batch([g, g]).split()[1].neighbors == 4
    assert Graph.batch([g, Graph.from_features(x, 5)]).neighbors is None
    assert g.with_features(x + 1).neighbors is None and g.with_features(None).neighbors is None
    assert Graph.from_scipy(g.adjacency, x=x).neighbors is None
    assert Graph.from_edges([[0], [1]]).neighbors is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_of_features(frame: Any) -> None:
    g = quiet(Graph.from_features, frame({"id": ["a", "b", "c"], "age": [1.0, 2.0, 9.0]}), n_neighbors=1)
    assert (g.node_names, g.feature_names) == (["a", "b", "c"], ["age"])
    assert g.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("x", "neighbors", "sentence"),
    [
        (np.ones((3, 2)), 0, "n_neighbors is 0: pass a whole number, 1 or more"),
        (np.ones((3, 2)), 2.5, "n_neighbors is 2.5"),
        (np.ones((3, 2)), True, "n_neighbors is True"),
        (np.ones((1, 2)), 3, "X has one row"),
        ([[1.0], [np.nan]], 1, "nan"),
    ],
)
def test_features_that_make_no_graph(x: Any, neighbors: Any, sentence: str) -> None:
    with pytest.raises(GraphError, match=f"(?i){sentence}"):
        Graph.from_features(x, neighbors)


def test_features_alone_keep_what_their_columns_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    club = np.arange(60) % 3
    table = pd.DataFrame(
        {
            "age": 30 + 10 * club + rng.normal(size=60),
            "city": np.array(["Oslo", "Rome", "Bern"])[club],
            "memo": [f"note number {i} about this person" for i in range(60)],
        },
        index=[f"p{i}" for i in range(60)],
    )
    table.to_csv(tmp_path / "people.csv", index_label="name")
    g = Graph.from_features(table)
    read = quiet(read_graph, features=tmp_path / "people.csv")
    assert g.schema is not None and read.schema is not None
    assert g.kinds.tolist() == read.kinds.tolist() == [1, 2, 2, 2]  # a number, a category of three values
    np.testing.assert_array_equal(g.adjacency.toarray(), read.adjacency.toarray())
    # A later table in which nobody lives in Oslo is read the same way, and so is one with other options.
    est = GraphClustering(3, n_init=2, max_iter=5, random_state=0).fit(g)
    assert est.schema_ == g.schema
    rest = Graph.from_features(table[table.city != "Oslo"], schema=est.schema_)
    assert rest.feature_names == g.feature_names and len(est.predict(rest)) == 40
    assert Graph.from_features(table, drop=["city"]).feature_names == ["age"]
    table.loc["p3", "age"] = np.nan
    with pytest.raises(GraphError, match="pass missing='zero', 'mean' or 'drop'"):
        Graph.from_features(table)
    assert Graph.from_features(table, missing="mean").num_nodes == 60
    with pytest.raises(ParameterError, match="drop names columns of a table, but X is none"):
        Graph.from_features(np.ones((4, 2)), drop=["age"])
    with pytest.raises(ParameterError, match="schema is that of a table, but X is none"):
        Graph.from_features(np.ones((4, 2)), schema=g.schema)


def test_read_graph_of_features_alone(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\nann,30\nbob,31\ncy,60\ndan,62\n")
    g = quiet(read_graph, features=path, n_neighbors=1)
    assert (g.name, g.node_names, g.num_edges) == ("people", ["ann", "bob", "cy", "dan"], 2)
    assert [note.code for note in g.notes] == ["format", "columns", "neighbours", "size"]
    with pytest.raises(ParameterError, match="neither a graph nor features"):
        read_graph()
    with pytest.raises(ParameterError, match="n_neighbors has no effect beside a graph"):
        read_graph(path, n_neighbors=3)


# ---------------------------------------------------------------------- AnnData


def cells(n: int = 40) -> Any:
    rng = np.random.default_rng(0)
    group = np.arange(n) % 2
    counts = sp.csr_matrix(
        rng.poisson(np.where(group[:, None] == np.arange(30) % 2, 3.0, 0.2)).astype("float32")
    )
    # anndata writes names as objects only, not as the strings of pandas 3.
    obs, var = (
        pd.DataFrame(index=pd.Index([f"{what}{i}" for i in range(count)], dtype=object))
        for what, count in (("cell", n), ("gene", 30))
    )
    adata = anndata.AnnData(counts, obs=obs, var=var)
    adata.obsm["X_pca"] = rng.normal(size=(n, 2)) + 8 * group[:, None]
    near = kneighbors_graph(adata.obsm["X_pca"], 6, mode="distance")
    adata.obsp["distances"] = near
    near = near.copy()
    near.data = np.exp(-near.data).astype("float32")
    adata.obsp["connectivities"] = near.maximum(near.T)
    return adata


def test_anndata_and_its_clusters(tmp_path: Path) -> None:
    adata = cells()
    g = quiet(Graph.from_any, adata)
    check_invariants(g)
    assert (g.node_names[:2], g.feature_names[:2]) == (["cell0", "cell1"], ["gene0", "gene1"])
    np.testing.assert_array_equal(g.adjacency.toarray(), adata.obsp["connectivities"].toarray())
    np.testing.assert_array_equal(g.x.toarray(), adata.X.toarray())
    assert g.notes == ["AnnData, edges of obsp['connectivities'], features of X"]
    est = GraphClustering(2, random_state=0).fit(adata)
    adata.obs["softcut"] = est.to_frame()["cluster"].astype("category")
    assert nmi(np.arange(40) % 2, adata.obs["softcut"].to_numpy()) == 1
    # The same from a file, with the clusters in it.
    adata.write_h5ad(tmp_path / "c.h5ad")
    again = quiet(read_graph, tmp_path / "c.h5ad")
    np.testing.assert_array_equal(again.adjacency.toarray(), g.adjacency.toarray())
    np.testing.assert_array_equal(again.x.toarray(), g.x.toarray())
    assert (again.node_names, again.feature_names, again.name) == (g.node_names, g.feature_names, "c")
    flat = quiet(read_graph, tmp_path / "c.h5ad", weighted=False)
    np.testing.assert_array_equal(flat.adjacency.toarray(), g.adjacency.toarray() != 0)
    assert not flat.weighted
    assert anndata.read_h5ad(tmp_path / "c.h5ad").obs["softcut"].tolist() == est.labels_.tolist()


def test_which_part_of_anndata(tmp_path: Path) -> None:
    adata = cells()
    assert Graph.from_anndata(adata, "X_pca").num_features == 2
    assert Graph.from_anndata(adata, None).x is None
    adata.write_h5ad(tmp_path / "c.h5ad")
    assert read_graph(tmp_path / "c.h5ad", features="X_pca").num_features == 2
    g = read_graph(tmp_path / "c.h5ad", features=np.ones((40, 3)), weighted=False)
    assert (g.num_features, g.weighted, set(g.adjacency.data)) == (3, False, {1.0})
    with pytest.raises(GraphError, match=r"'X_umap', which adata does not have: choose from 'X', 'X_pca'"):
        read_graph(tmp_path / "c.h5ad", features="X_umap")
    del adata.obsp["connectivities"]
    with pytest.raises(
        GraphError, match=r"has no 'connectivities' \(it has 'distances'.*scanpy\.pp\.neighbors"
    ):
        Graph.from_any(adata)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice = cells()
        twice.obs_names = ["same"] * 40
    with pytest.raises(GraphError, match="obs_names_make_unique"):
        Graph.from_anndata(twice)


def test_h5ad_without_anndata_and_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.h5ad"
    path.write_bytes(b"no HDF5")
    with pytest.raises(FileFormatError, match=r"c\.h5ad is not a valid \.h5ad file"):
        read_graph(path)
    with pytest.raises(FileFormatError, match="does not exist"):
        read_graph(tmp_path / "d.h5ad")
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(DependencyError, match=r"reading \.h5ad files needs .*'softcut\[anndata\]'"):
        read_graph(path)


# ---------------------------------------------------------------------- DGL


def dgl_graph(source: list[int], target: list[int], n: int, sizes: Any = None, **data: Any) -> Any:
    """What softcut uses of a ``dgl.DGLGraph``; DGL has no release for this version of torch."""
    return SimpleNamespace(
        edges=lambda: (torch.tensor(source), torch.tensor(target)),
        num_nodes=lambda: n,
        ndata=data.get("ndata", {}),
        edata=data.get("edata", {}),
        is_homogeneous=data.get("is_homogeneous", True),
        batch_size=1 if sizes is None else len(sizes),
        batch_num_nodes=lambda: torch.tensor(sizes),
    )


def test_dgl() -> None:
    nodes = {
        "feat": torch.eye(3),
        "label": torch.tensor([0, 0, 1]),
        "mask": torch.tensor([True, False, True]),
    }
    graph = dgl_graph([0, 1, 1, 2], [1, 0, 2, 1], 3, ndata=nodes, edata={"w": torch.tensor([2.0, 2, 1, 1])})
    g = quiet(Graph.from_any, graph)
    assert g.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert (g.x.tolist(), g.y.tolist()) == (np.eye(3).tolist(), [0, 0, 1])
    assert g.notes == ["DGL graph, features 'feat', weight 'w', label 'label'"]
    assert Graph.from_dgl(graph, features="mask").x.ravel().tolist() == [1, 0, 1]
    batch = quiet(Graph.from_any, dgl_graph([0, 1, 2, 3], [1, 0, 3, 2], 4, sizes=[2, 2]))
    assert batch.ptr.tolist() == [0, 2, 4]
    assert batch.notes == ["DGL graph, no features, no weight"]
    with pytest.raises(
        GraphError, match=r"features is 'h', which graph\.ndata does not have: choose from 'feat'"
    ):
        Graph.from_dgl(graph, features="h")
    with pytest.raises(GraphError, match=r"dgl\.to_homogeneous"):
        Graph.from_any(dgl_graph([0], [1], 2, is_homogeneous=False))
