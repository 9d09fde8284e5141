"""Clusters as a data frame, joined to a table about the nodes."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from softcut import Graph, GraphClustering
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, NotFittedError


@pytest.fixture(scope="module")
def fitted() -> tuple[Graph, GraphClustering]:
    graph = attributed_communities(n_nodes=60, n_clusters=2, seed=0)
    edges = graph.edge_index()[0]
    named = Graph.from_edges(edges, x=graph.x, node_names=[f"n{i}" for i in range(60)])
    return named, GraphClustering(2, n_init=2, random_state=0).fit(named)


def test_names_clusters_and_probabilities(fitted: tuple[Graph, GraphClustering], tmp_path: Path) -> None:
    graph, est = fitted
    frame = est.to_frame()
    assert (frame.index.name, frame.index.tolist()) == ("node", graph.node_names)
    assert frame["cluster"].tolist() == est.labels_.tolist()
    np.testing.assert_array_equal(frame["probability"], est.soft_.max(1))
    pd.testing.assert_frame_equal(GraphClustering.load(est.save(tmp_path / "m")).to_frame(), frame)
    numbered = GraphClustering(2, n_init=2, random_state=0).fit(graph.adjacency, graph.x).to_frame()
    assert numbered.index.tolist() == list(range(60))
    with pytest.raises(NotFittedError):
        GraphClustering(2).to_frame()


def test_joined_to_a_table(fitted: tuple[Graph, GraphClustering]) -> None:
    graph, est = fitted
    names = graph.node_names[::-1]
    table = pd.DataFrame({"who": names, "age": np.arange(60), "town": ["Oslo"] * 60})
    for nodes in (table, table.set_index("who"), pl.from_pandas(table)):
        frame = est.to_frame(nodes)
        assert frame.index.tolist() == graph.node_names
        assert frame["age"].tolist() == list(range(59, -1, -1))
        assert frame["cluster"].tolist() == est.labels_.tolist()
    # By the column that holds most of the names, not the first that holds some.
    frame = est.to_frame(table.assign(who=["n5", *map(str, range(59))], name=names))
    assert frame["age"].tolist() == list(range(59, -1, -1))
    # A node that the table does not have keeps its cluster; others of the table are left out.
    some = pd.DataFrame({"age": [7, 8]}, index=["n3", "stranger"])
    frame = est.to_frame(some)
    assert frame["age"].dropna().to_dict() == {"n3": 7}
    assert (len(frame), int(frame["cluster"].isna().sum())) == (60, 0)


def test_tables_that_do_not_fit(fitted: tuple[Graph, GraphClustering]) -> None:
    graph, est = fitted
    with pytest.raises(GraphError, match="nodes has the name of no node"):
        est.to_frame(pd.DataFrame({"age": np.linspace(0, 1, 60)}))
    with pytest.raises(GraphError, match="nodes has a column 'cluster' already"):
        est.to_frame(pd.DataFrame({"cluster": [1]}, index=["n1"]))
    with pytest.raises(GraphError, match="nodes is a list: pass a data frame"):
        est.to_frame([1, 2])
    numbered = GraphClustering(2, n_init=2, random_state=0).fit(graph.adjacency, graph.x)
    assert numbered.to_frame(pd.DataFrame({"age": np.arange(60)}))["age"].tolist() == list(range(60))
    with pytest.raises(GraphError, match="nodes has 3 rows, and 60 nodes"):
        numbered.to_frame(pd.DataFrame({"age": [0.5, 1.5, 2.5]}))
