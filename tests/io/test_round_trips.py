"""Random tables of edges and nodes, written by other programs' libraries in every format: the same values are read."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from helpers.reading import node_link, quiet

from softcut.graph import Graph
from softcut.io import write_graph

LETTERS = [*"abcxyzABC0123456789_-.&<é漢ß", "n a", "0", "é"]
ODD_NAMES = ["007", "1e5", "True", "NA", "nan", "-4", "1.0", "None", "source", "0x1f", "a'b", "50%", "+1"]


@dataclass
class Tables:
    """Edges and nodes as data frames, and what must be read: weights by pair of names, rows by name."""

    edges: pd.DataFrame
    nodes: pd.DataFrame
    weights: dict[frozenset[str], float]

    @property
    def network(self) -> nx.Graph:
        made = nx.Graph()
        titles = list(self.nodes)[1:]
        made.add_nodes_from(
            (row[0], dict(zip(titles, row[1:], strict=True))) for row in self.nodes.values.tolist()
        )
        made.add_weighted_edges_from(self.edges.values.tolist())
        return made

    @property
    def matrix(self) -> sp.csr_array:
        return sp.csr_array(nx.to_scipy_sparse_array(self.network, dtype=np.float64))


def random_tables(seed: int, letters: list[str]) -> Tables:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 15))
    if seed % 3 == 0:
        names = [str(i) for i in range(n)]
    else:
        words = {"".join(rng.choice(letters, rng.integers(1, 6))).strip(" ") for _ in range(3 * n)}
        words |= set(rng.choice(ODD_NAMES, 3).tolist())
        names = rng.permutation(sorted(words))[:n].tolist()
        n = len(names)
    ends = (
        n - seed % 2
    )  # every node has an edge, in the order of the nodes; in half of the tables the last has none
    pairs = [(i, i + 1) for i in range(ends - 1)]
    pairs += [(i, j) for i in range(ends) for j in range(i + 2, ends) if rng.random() < 0.2]
    weights = (10.0 ** rng.uniform(-9, 9, len(pairs)) * rng.random(len(pairs))).tolist()
    if seed % 5 == 0:
        weights = [float(weight) for weight in rng.integers(1, 10, len(pairs))]
    edges = pd.DataFrame([(names[i], names[j], w) for (i, j), w in zip(pairs, weights, strict=True)])
    edges.columns = ["source", "target", "weight"]
    columns: dict[str, Any] = {"id": names}
    for j in range(int(rng.integers(1, 5))):
        values = rng.normal(size=n) * 10.0 ** rng.integers(-6, 7)
        kind = rng.integers(3)
        values = np.round(values) if kind == 0 else rng.integers(0, 2, n) if kind == 1 else values
        columns[f"f{j} é"] = np.asarray(values, np.float32).astype(float)
    known = {frozenset(row[:2]): row[2] for row in edges.values.tolist()}
    return Tables(edges, pd.DataFrame(columns), known)


def text(frame: pd.DataFrame, path: Path, sep: str) -> Path:
    frame.to_csv(path, sep=sep, index=False)
    return path


def edge_list(sep: str, suffix: str) -> Callable[[Tables, Path], dict[str, Any]]:
    def written(tables: Tables, folder: Path) -> dict[str, Any]:
        path = text(tables.edges, folder / f"g{suffix}", sep)
        return {"path": path, "features": text(tables.nodes, folder / f"x{suffix}", sep)}

    return written


def workbook(tables: Tables, folder: Path) -> dict[str, Any]:
    with pd.ExcelWriter(folder / "g.xlsx") as book:
        tables.edges.to_excel(book, sheet_name="edges", index=False)
        tables.nodes.to_excel(book, sheet_name="nodes", index=False)
    return {"path": folder / "g.xlsx"}


def parquet(tables: Tables, folder: Path) -> dict[str, Any]:
    tables.edges.to_parquet(folder / "g.parquet")
    return {"path": folder / "g.parquet", "features": tables.nodes}


def cells(tables: Tables, folder: Path) -> dict[str, Any]:
    table = tables.nodes.set_index("id")
    names = pd.Index(table.index.tolist(), dtype=object)
    made = anndata.AnnData(table.to_numpy(np.float32), pd.DataFrame(index=names))
    made.obsp["connectivities"] = tables.matrix
    made.var_names = pd.Index(list(table), dtype=object)
    made.write_h5ad(folder / "g.h5ad")
    return {"path": folder / "g.h5ad"}


def market(tables: Tables, folder: Path) -> dict[str, Any]:
    scipy.io.mmwrite(folder / "g.mtx", sp.coo_array(tables.matrix), precision=17)
    np.save(folder / "x.npy", tables.nodes.iloc[:, 1:].to_numpy())
    return {"path": folder / "g.mtx", "features": folder / "x.npy"}


def archive(tables: Tables, folder: Path) -> dict[str, Any]:
    sp.save_npz(folder / "g.npz", tables.matrix)
    sp.save_npz(folder / "x.npz", sp.csr_array(tables.nodes.iloc[:, 1:].to_numpy()))
    return {"path": folder / "g.npz", "features": folder / "x.npz"}


def network(suffix: str, write: Callable[[nx.Graph, Path], Any], attributes: bool = True) -> Any:
    def written(tables: Tables, folder: Path) -> dict[str, Any]:
        path = folder / f"g{suffix}"
        write(tables.network, path)
        titles = list(tables.nodes)[1:]
        return {"path": path, "features": titles if attributes else tables.nodes}

    return written


def node_link_file(graph: nx.Graph, path: Path) -> None:
    path.write_text(json.dumps(node_link(graph, "links")))


def packed_graphml(graph: nx.Graph, path: Path) -> None:
    path.write_bytes(gzip.compress("\n".join(nx.generate_graphml(graph)).encode()))


def by_softcut(suffix: str) -> Any:
    def written(tables: Tables, folder: Path) -> dict[str, Any]:
        names = tables.nodes["id"].tolist()
        x, titles = tables.nodes.iloc[:, 1:].to_numpy(), list(tables.nodes)[1:]
        graph = Graph.from_scipy(tables.matrix, x, node_names=names, feature_names=titles)
        return {"path": write_graph(graph, folder / f"g{suffix}", features=True), "features": titles}

    return written


FORMATS: dict[str, Callable[[Tables, Path], dict[str, Any]]] = {
    "csv": edge_list(",", ".csv"),
    "csv.gz": edge_list(",", ".csv.gz"),
    "tsv": edge_list("\t", ".tsv"),
    "semicolons": edge_list(";", ".txt"),
    "xlsx": workbook,
    "parquet": parquet,
    "frame": lambda tables, folder: {"path": tables.edges, "features": tables.nodes},
    "h5ad": cells,
    "mtx": market,
    "npz": archive,
    "graphml": network(".graphml", nx.write_graphml),
    "graphml.gz": network(".graphml.gz", packed_graphml),
    "gexf": network(".gexf", nx.write_gexf),
    "gml": network(".gml", lambda graph, path: nx.write_gml(without_titles(graph), path), attributes=False),
    "json": network(".json", node_link_file),
    "pajek": network(
        ".net", lambda graph, path: nx.write_pajek(without_titles(graph), path), attributes=False
    ),
    "edgelist": network(
        ".edgelist", lambda g, path: nx.write_edgelist(g, path, delimiter="|"), attributes=False
    ),
    "softcut graphml": by_softcut(".graphml"),
    "softcut gexf": by_softcut(".gexf"),
    "softcut json": by_softcut(".json"),
}
EDGES_ONLY = ("csv", "csv.gz", "tsv", "semicolons", "parquet", "frame", "edgelist")


def without_titles(graph: nx.Graph) -> nx.Graph:
    """Keys of GML are plain words, and Pajek has no attributes of numbers."""
    made = nx.Graph()
    made.add_nodes_from(graph)
    made.add_edges_from(graph.edges(data=True))
    return made


def check(graph: Graph, tables: Tables, named: bool, exact: bool) -> None:
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    wanted = tables.nodes["id"].tolist() if named else [str(i) for i in range(len(tables.nodes))]
    assert sorted(names) == sorted(wanted)
    places = dict(zip(tables.nodes["id"], wanted, strict=True))
    upper = sp.triu(graph.adjacency, format="coo")
    edges = {
        frozenset((names[u], names[v])): w
        for u, v, w in zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
    }
    known = {frozenset(places[end] for end in pair): w for pair, w in tables.weights.items()}
    assert edges == (known if exact else pytest.approx(known, rel=1e-15))
    x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    rows = dict(zip(wanted, tables.nodes.iloc[:, 1:].to_numpy(np.float32), strict=True))
    np.testing.assert_array_equal(x, np.stack([rows[name] for name in names]))


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", FORMATS)
def test_what_was_written_is_read(tmp_path: Path, format: str, count: int) -> None:
    # Formats that have no quotes cannot write every name.
    letters = LETTERS if format in ("pajek", "edgelist") else [*LETTERS, *',";|{}']
    for seed in range(count):
        tables = random_tables(seed, letters)
        folder = tmp_path / str(seed)
        folder.mkdir()
        written = FORMATS[format](tables, folder)
        graph = quiet(**written)
        # openpyxl writes 16 digits of a number; matrices have no names.
        check(graph, tables, named=format not in ("mtx", "npz"), exact=format != "xlsx")
        # Without features: a list of edges does not know nodes without edges.
        lone = int((graph.adjacency.sum(axis=1) == 0).sum())
        assert quiet(written["path"]).num_nodes == graph.num_nodes - (lone if format in EDGES_ONLY else 0)


def test_a_file_of_an_older_anndata() -> None:
    """Made by anndata 0.10.9: two groups of six cells; obsp, obsm and X as scanpy leaves them."""
    pytest.importorskip("anndata")
    path = Path(__file__).parent / "kept" / "cells.h5ad"
    g: Graph = quiet(path)
    assert (g.num_nodes, g.num_edges, g.node_names[:2]) == (12, 21, ["cell0", "cell1"])
    assert g.adjacency[5, 6] == 0.125 and g.adjacency[1, 0] == 0.125 and g.adjacency[4, 1] == 0.625
    assert g.feature_names == ["gene0", "gene1", "gene2", "gene3"]
    assert quiet(path, features="X_pca").x.shape == (12, 2)
