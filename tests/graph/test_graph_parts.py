"""Batches, parts, copies."""

import dataclasses
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.graph_checks import check_invariants
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.tables.arrays import to_dense


def random_graph(seed: int, sparse: bool = False, features: int = 2) -> Graph:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    dense = np.triu(rng.random((n, n)) < 0.5, 1) * rng.random((n, n))
    x = rng.random((n, features))
    return Graph.from_dense(
        dense + dense.T,
        x=sp.csr_array(x) if sparse else x,
        y=rng.integers(0, 3, n),
        node_names=list("abcdefg"[:n]),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.booleans())
def test_batch_and_split_are_inverse(seeds: list[int], sparse: bool) -> None:
    graphs = [random_graph(seed, sparse) for seed in seeds]
    batch = Graph.batch(graphs)
    check_invariants(batch)
    blocks = sp.block_diag([g.adjacency for g in graphs])
    np.testing.assert_array_equal(batch.adjacency.toarray(), blocks.toarray())
    assert batch.num_graphs == len(graphs)
    parts = batch.split()
    for part, g in zip(parts, graphs, strict=True):
        check_invariants(part)
        np.testing.assert_array_equal(part.adjacency.toarray(), g.adjacency.toarray())
        assert sp.issparse(part.x) == sparse
        np.testing.assert_array_equal(to_dense(part.x), to_dense(g.x))
        np.testing.assert_array_equal(part.y, g.y)
        assert part.node_names == g.node_names
    # A batch of batches is flat.
    nested = Graph.batch([batch, graphs[0]])
    assert nested.num_graphs == len(graphs) + 1
    check_invariants(nested)
    assert f"{nested.num_graphs} graphs" in repr(nested)


def test_a_schema_is_that_of_all_graphs_and_of_as_many_columns() -> None:
    g = Graph.from_edges([[0], [1]], x=pd.DataFrame({"a": [1.5, 2.5], "b": [0.5, 7.5]}))
    assert g.schema is not None and Graph.batch([g, g]).schema == g.schema
    assert Graph.batch([g, g.with_features(np.ones((2, 2)))]).schema is None
    assert g.with_features(np.ones((2, 2)), schema=g.schema).schema == g.schema
    for x in (np.ones((2, 1)), np.ones((2, 3)), None):
        with pytest.raises(GraphError, match="schema is that of other features"):
            g.with_features(x, schema=g.schema)


def test_weights_in_units_of_their_mean() -> None:
    edges, weights = [[0, 0, 1], [1, 2, 2]], np.array([1.0, 2.0, 4.5])
    heavy, plain = Graph.from_edges(edges, edge_weight=weights), Graph.from_edges(edges)
    assert plain.in_mean_weights() is plain
    both = Graph.batch([heavy, plain, Graph.from_edges([], num_nodes=2)]).in_mean_weights()
    first, second, third = both.split()
    expected = heavy.adjacency.toarray() / weights.mean()
    np.testing.assert_allclose(first.adjacency.toarray(), expected, rtol=2.0**-29)
    assert not second.weighted and third.num_edges == 0
    # The same graph in another unit gives the same numbers, of 30 bits.
    for unit in (1e-30, 3.7, 1e30):
        other = Graph.from_edges(edges, edge_weight=unit * weights).in_mean_weights()
        np.testing.assert_array_equal(other.adjacency.data, heavy.in_mean_weights().adjacency.data)
    digits = np.frexp(first.adjacency.data)[0]
    assert (digits * 2.0**30 % 1 == 0).all() and (digits * 2.0**28 % 1 != 0).any()


def test_batch_drops_what_not_all_have() -> None:
    a = Graph.from_edges([[0], [1]], y=[0, 1], node_names=["a", "b"])
    b = Graph.from_edges([[0], [1]])
    joined = Graph.batch([a, b])
    assert joined.y is None
    assert joined.node_names is None
    assert b.split() == [b]
    assert Graph.batch([a, a]).subgraph([0, 2]).node_names is None
    weighted = {"edge_weight": [2.0, 3.0, 1.0], "self_loops": "keep", "x": sp.eye_array(3)}
    heavy = Graph.from_edges([[0, 1, 1], [1, 1, 2]], **weighted)
    assert [part.weighted for part in Graph.batch([heavy.with_features(None), b]).split()] == [True, False]
    assert [heavy.subgraph(nodes).weighted for nodes in ([0, 1], [0, 2])] == [True, False]
    assert repr(Graph.batch([heavy])) == "Graph(3 nodes, 3 edges, weighted, 1 self-loop, sparse 3 features)"
    two = "Graph('two': 2 graphs, 4 nodes, 2 edges, 2 labels, named nodes)"
    assert repr(Graph.batch([a, a], name="two")) == two
    mixed = Graph.batch([b.with_features(np.eye(2)), b.with_features(sp.eye_array(2))])
    assert isinstance(mixed.x, np.ndarray)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_subgraph_equals_dense_indexing(seed: int, random: Any) -> None:
    g = random_graph(seed)
    nodes = random.sample(range(g.num_nodes), random.randint(1, g.num_nodes))
    part = g.subgraph(nodes)
    check_invariants(part)
    np.testing.assert_array_equal(part.adjacency.toarray(), g.adjacency.toarray()[np.ix_(nodes, nodes)])
    assert g.x is not None
    assert g.node_names is not None
    np.testing.assert_array_equal(part.x, g.x[nodes])
    assert part.node_names == [g.node_names[i] for i in nodes]
    mask = np.zeros(g.num_nodes, bool)
    mask[nodes] = True
    masked, listed = (g.subgraph(each).adjacency for each in (mask, sorted(nodes)))
    np.testing.assert_array_equal(masked.toarray(), listed.toarray())


def test_a_graph_is_indexed_like_its_adjacency_matrix() -> None:
    g = Graph.from_edges([[0, 1, 2], [1, 2, 3]], x=np.arange(8.0).reshape(4, 2))
    assert g.shape == g.adjacency.shape
    for nodes in ([3, 1, 2], np.ix_([3, 1, 2], [3, 1, 2])):
        part = g[nodes]
        np.testing.assert_array_equal(
            part.adjacency.toarray(), g.adjacency.toarray()[[3, 1, 2]][:, [3, 1, 2]]
        )
        np.testing.assert_array_equal(part.x, g.x[[3, 1, 2]])
    for nodes in (np.ix_([0, 1], [1, 0]), ([0], [0], [0])):
        with pytest.raises(GraphError, match="the same in rows and columns"):
            g[nodes]


def test_the_html_of_a_graph_shows_what_it_holds_and_escapes_names() -> None:
    bad = "<script>alert(1)</script>"
    x = np.array([[62_530.4, 1.0], [1.5, 0.0], [2.5, 1.0]])
    g = Graph.from_edges(
        [[0, 1], [1, 2]], x=x, node_names=[bad, "b", "c"], feature_names=["age", bad], name=bad
    )
    html = g.with_notes(f"a note about {bad}")._repr_html_()
    assert "<script" not in html and html.count("&lt;script&gt;") == 4
    for said in ("3 nodes", "2 edges", "2 features", "age", "a note about", "62,530"):
        assert said in html
    assert "features" not in (alone := Graph.from_edges([[0], [1]])._repr_html_())
    assert "<td>graphs</td>" not in alone
    assert "<td>graphs</td><td>2</td>" in Graph.batch([g, g])._repr_html_()


def cells(html: str) -> list[list[str]]:
    """The cells of every row of the tables in a piece of HTML."""
    return [re.findall("<t[dh]>(.*?)</t[dh]>", row) for row in re.findall("<tr>(.*?)</tr>", html)]


def test_the_html_of_a_graph_cell_by_cell() -> None:
    x = np.arange(49.0).reshape(7, 7)
    x[0, :6] = [999.6, 1000, -1234.5, 2e12, 2.0**37, 0.123456]
    edges = [[0, 0, 1, 2], [1, 2, 2, 3]]
    g = Graph.from_edges(edges, x=x, y=[0, 1, 1, 1, 1, 1, 1], edge_weight=[1, 2, 3, 4], num_nodes=7)
    html = g._repr_html_()
    told = [["", "value"], ["nodes", "7"], ["edges", "4, weighted"], ["neighbours of a node, mean", "1.1"]]
    told += [["nodes without edges", "3"], ["features", "7"], ["labels", "2"]]
    titles = ["node", "neighbours", *(f"feature {j}" for j in range(6))]
    first = ["0", "2", "999.6", "1,000", "-1,234", "2e+12", "137,438,953,472", "0.1235"]
    others = [
        [str(i), str(n), *(str(7 * i + j) for j in range(6))] for i, n in ((1, 2), (2, 3), (3, 1), (4, 0))
    ]
    assert cells(html) == [*told, titles, first, *others]
    assert "<caption>The first 5 nodes and 6 of 7 features</caption>" in html and "<details>" not in html
    small = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 4]], x=np.ones((5, 6)))._repr_html_()
    assert "<caption>The nodes</caption>" in small and "nodes without edges" not in small
    assert len(cells(small)) == 5 + 1 + 5


def test_the_html_of_a_large_graph_is_short() -> None:
    n = 5000
    g = Graph.from_edges(
        [np.arange(n - 1), np.arange(1, n)], x=sp.eye_array(n), node_names=[f"n{i}" for i in range(n)]
    )
    assert len(g._repr_html_()) < 5000
    long = Graph.from_edges([[0], [1]], node_names=["a" * 40, "b" * 41])._repr_html_()
    assert f">{'a' * 40}<" in long and f">{'b' * 39}…<" in long


def test_graph_is_frozen_copyable_and_picklable() -> None:
    g = random_graph(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        g.x = None  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(g))
    check_invariants(again)
    assert len({g, again}) == 2
    np.testing.assert_array_equal(again.adjacency.toarray(), g.adjacency.toarray())
    renamed = dataclasses.replace(g, name="new")
    assert renamed.name == "new"
    assert repr(renamed).startswith("Graph('new': ")
    assert g.with_features(None).num_features == 0
