"""Graphs that are written and read again, and what other programs find in the files."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from helpers.reading import quiet

from softcut.colours import cluster_colours
from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph
from softcut.io import write_graph

KINDS = ["graphml", "gexf", "json", "csv"]
NAMES = ["ann", "Zoë & <co>", '"q", r', "solo"]


def same(a: Graph, b: Graph) -> None:
    assert a.node_names == b.node_names
    np.testing.assert_array_equal(a.adjacency.toarray(), b.adjacency.toarray())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, [0.1, 1e-7 / 3, 2.5]])
@pytest.mark.parametrize("names", [None, NAMES])
def test_every_format_comes_back(tmp_path: Path, kind: str, weights: Any, names: Any) -> None:
    count = 3 if kind == "csv" else 4  # an edge list has no nodes without edges
    g = Graph.from_edges(
        [(0, 1), (1, 2), (0, 2)], edge_weight=weights, num_nodes=count, node_names=names and names[:count]
    )
    path = write_graph(g, tmp_path / f"g.{kind}")
    same(quiet(path), g)
    assert names is None or "Zoë" in path.read_text(encoding="utf-8")  # for people, too


@pytest.mark.parametrize("kind", ["graphml", "gexf", "json"])
def test_clusters_and_features_come_back(tmp_path: Path, kind: str) -> None:
    x = np.array([[1.5, 0], [2, 1], [3, 1], [-4, 0]], np.float32)
    g = Graph.from_edges([(0, 1), (2, 3)], x=x, node_names=NAMES, feature_names=["age", "member"])
    path = write_graph(g, tmp_path / f"g.{kind}", labels=np.array([0, 0, 1, 1]), features=True)
    again = quiet(path, features=["age", "member", "cluster"])
    same(again, g)
    np.testing.assert_array_equal(again.x, np.column_stack([x, [0, 0, 1, 1]]))
    assert "age" not in write_graph(g, path).read_text(
        encoding="utf-8"
    )  # features are written where asked for


def test_colours_are_those_of_the_reports(tmp_path: Path) -> None:
    g = Graph.from_edges([(0, 1), (1, 2)], node_names=["a", "b", "c"])
    labels = [1, 0, -1]  # the last is in no cluster
    root = ElementTree.parse(write_graph(g, tmp_path / "g.gexf", labels)).getroot()
    wanted = [cluster_colours(2)[1], cluster_colours(2)[0], "#999999"]
    found = [element.attrib for element in root.iter() if element.tag.endswith("viz}color")]
    assert ["#" + "".join(f"{int(one[sign]):02X}" for sign in "rgb") for one in found] == wanted
    nodes = dict(nx.read_graphml(write_graph(g, tmp_path / "g.graphml", labels)).nodes(data=True))
    assert [node["color"] for node in nodes.values()] == wanted
    assert nodes["a"] == {"cluster": 1, "color": "#E69F00", "r": 0xE6, "g": 0x9F, "b": 0}
    assert "cluster" not in nodes["c"]
    content = json.loads(write_graph(g, tmp_path / "g.json", labels).read_text())
    assert content["nodes"][0] == {"id": "a", "cluster": 1, "color": "#E69F00"}
    assert content["links"] == [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    g = Graph.from_edges([(0, 1)], node_names=["a", "b\x01"])
    for kind in ("graphml", "gexf"):
        with pytest.raises(GraphError, match=r"the name 'b\\x01' has a character that XML cannot hold"):
            write_graph(g, tmp_path / f"g.{kind}")
    assert quiet(write_graph(g, tmp_path / "g.json")).node_names == ["a", "b\x01"]
    with pytest.raises(ParameterError, match=r"name a file \.graphml, \.gexf, \.json or \.csv"):
        write_graph(g, tmp_path / "g.dot")
    with pytest.raises(ParameterError, match=r"a \.csv file has edges only"):
        write_graph(g, tmp_path / "g.csv", labels=[0, 1])
    with pytest.raises(GraphError, match=r"labels has shape \(3,\) but the graph has 2 nodes"):
        write_graph(g, tmp_path / "g.json", labels=[0, 1, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json"]
