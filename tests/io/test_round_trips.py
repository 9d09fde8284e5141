"""Each format as its own library writes it, read again: the same graph; and files that other programs made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from helpers.reading import node_link, quiet
from hypothesis import given
from hypothesis import strategies as st

from softcut.graph import Graph
from softcut.io import write_graph


def _frame(graph: nx.Graph) -> pd.DataFrame:
    return pd.DataFrame(
        [(u, v, d["weight"]) for u, v, d in graph.edges(data=True)], columns=["source", "target", "weight"]
    )


def _book(graph: nx.Graph, path: Path) -> None:
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(path) as book:
        _frame(graph).to_excel(book, sheet_name="edges", index=False)
        pd.DataFrame({"id": list(graph), "size": range(len(graph))}).to_excel(
            book, sheet_name="nodes", index=False
        )


def _matrix(graph: nx.Graph) -> sp.coo_array:
    return nx.to_scipy_sparse_array(graph, dtype=float, format="coo")


def _parquet(graph: nx.Graph, path: Path) -> None:
    pytest.importorskip("pyarrow")
    _frame(graph).to_parquet(path)


def _h5ad(graph: nx.Graph, path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    obs, var = (pd.DataFrame(index=pd.Index(names, dtype=object)) for names in (list(graph), []))
    adata = anndata.AnnData(obs=obs, var=var, obsp={"connectivities": sp.csr_matrix(_matrix(graph))})
    adata.write_h5ad(path)


# Name of the file; what writes it; whether it knows names, and nodes without edges.
FORMATS: dict[str, tuple[Callable[[nx.Graph, Path], Any], bool, bool]] = {
    "g.graphml": (nx.write_graphml, True, True),
    "g.gexf": (nx.write_gexf, True, True),
    "g.gml": (nx.write_gml, True, True),
    "g.net": (nx.write_pajek, True, True),
    "g.json": (lambda g, p: p.write_text(json.dumps(node_link(g, "links"))), True, True),
    "g.xlsx": (_book, True, True),
    "g.npz": (lambda g, p: sp.save_npz(p, sp.csr_matrix(_matrix(g))), False, True),
    "g.mtx": (lambda g, p: scipy.io.mmwrite(p, _matrix(g)), False, True),
    "g.parquet": (_parquet, True, False),
    "g.csv": (lambda g, p: _frame(g).to_csv(p, index=False), True, False),
    "g.tsv": (lambda g, p: _frame(g).to_csv(p, index=False, sep="\t"), True, False),
    "g.edgelist": (lambda g, p: nx.write_weighted_edgelist(g, p, delimiter=","), True, False),
    "g.h5ad": (_h5ad, True, True),
}
WEIGHTS = st.one_of(st.integers(1, 9), st.floats(2**-20, 2**20, width=32))
EDGES = st.dictionaries(
    st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1]),
    WEIGHTS,
    min_size=2,
)


@pytest.mark.parametrize("name", FORMATS)
@given(edges=EDGES)
def test_written_and_read_again(tmp_path: Path, name: str, edges: dict[tuple[int, int], float]) -> None:
    write, named, alone = FORMATS[name]
    graph = nx.Graph()
    graph.add_nodes_from(f"Ünit {i}" if i % 2 else f"node{i}" for i in range(9))
    nodes = list(graph)
    graph.add_weighted_edges_from((nodes[u], nodes[v], float(w)) for (u, v), w in edges.items())
    if not alone:
        graph.remove_nodes_from([node for node in nodes if not graph.degree[node]])
    write(graph, tmp_path / name)
    again = quiet(tmp_path / name)
    found = again.node_names if named else list(graph)
    assert set(found) == set(graph) and len(found) == len(graph)
    wanted = nx.to_numpy_array(graph, nodelist=found)
    np.testing.assert_allclose(again.adjacency.toarray(), wanted, rtol=1e-6)
    # What softcut itself writes of it is the same graph once more.
    for kind in ("graphml", "gexf", "json", "csv"):
        if kind != "csv" or alone <= (min(dict(graph.degree).values()) > 0):
            third = quiet(write_graph(again, tmp_path / f"again.{kind}"))
            order = (
                [third.node_names.index(one) for one in again.node_names] if again.node_names else slice(None)
            )
            np.testing.assert_array_equal(
                third.adjacency.toarray()[order][:, order], again.adjacency.toarray()
            )


def test_a_file_of_an_older_anndata() -> None:
    """Made by anndata 0.10.9: two groups of six cells; obsp, obsm and X as scanpy leaves them."""
    pytest.importorskip("anndata")
    path = Path(__file__).parent / "kept" / "cells.h5ad"
    g: Graph = quiet(path)
    assert (g.num_nodes, g.num_edges, g.node_names[:2]) == (12, 21, ["cell0", "cell1"])
    assert g.adjacency[5, 6] == 0.125 and g.adjacency[1, 0] == 0.125 and g.adjacency[4, 1] == 0.625
    assert g.feature_names == ["gene0", "gene1", "gene2", "gene3"]
    assert quiet(path, features="X_pca").x.shape == (12, 2)
