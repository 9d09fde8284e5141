"""GEXF, Pajek and node-link JSON as other programs write them, and XML that is refused."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import openpyxl
import pytest
from helpers.reading import line_of, named_edges, node_link, quiet, weighted_graph, write

from softcut.errors import FileFormatError
from softcut.io import read_graph

# As Gephi 0.9 and 0.10 write it; they differ in the namespace.
GEPHI = """<?xml version='1.0' encoding='UTF-8'?>
<gexf xmlns="{space}" version="1.3" xmlns:viz="{space}/viz" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{space} {space}/gexf.xsd">
  <meta lastmodifieddate="2023-11-15"><creator>Gephi 0.10.1</creator><title></title></meta>
  <graph defaultedgetype="{default}" mode="static">
    <attributes class="node" mode="static">
      <attribute id="age" title="Age" type="double"><default>40.0</default></attribute>
      <attribute id="town" title="Town" type="string"/>
    </attributes>
    <attributes class="edge" mode="static"><attribute id="since" title="Since" type="integer"/></attributes>
    <nodes>
      <node id="0" label="Zoë">
        <attvalues><attvalue for="age" value="31.0"></attvalue><attvalue for="town" value="Oslo"/></attvalues>
        <viz:size value="28.7"></viz:size>
        <viz:position x="-266.8" y="299.6" z="0.0"></viz:position>
        <viz:color r="235" g="81" b="72" a="0.6"></viz:color>
      </node>
      <node id="1" label="{second}"><attvalues><attvalue for="age" value="45.5"/></attvalues></node>
      <node id="2.0" label="cy"><attvalues><attvalue for="age" value="28"/></attvalues></node>
    </nodes>
    <edges>
      <edge id="0" source="0" target="1" weight="2.5"><attvalues><attvalue for="since" value="9"/></attvalues></edge>
      <edge id="1" source="1" target="2.0" type="{kind}"><viz:color r="1" g="1" b="1"/></edge>
    </edges>
  </graph>
</gexf>
"""


def gephi(**changes: str) -> str:
    usual = {"space": "http://gexf.net/1.3", "default": "undirected", "second": "bob", "kind": "undirected"}
    return GEPHI.format(**{**usual, **changes})


@pytest.mark.parametrize(
    "space", ["http://gexf.net/1.3", "http://www.gexf.net/1.3", "http://www.gexf.net/1.2draft"]
)
@pytest.mark.parametrize("suffix", [".gexf", ".gexf.gz"])
def test_what_gephi_writes(tmp_path: Path, space: str, suffix: str) -> None:
    path = write(tmp_path, f"g{suffix}", gephi(space=space))
    g = quiet(path)
    assert g.node_names == ["Zoë", "bob", "cy"]
    assert named_edges(g) == {("Zoë", "bob", 2.5), ("bob", "cy", 1.0)}
    assert "GEXF; nodes called by their labels; weight 'weight', ignored 'Since'" in line_of(g)
    assert "node attributes 'Age', 'Town' not used" in line_of(g)
    g = quiet(path, features="attributes")
    assert g.feature_names == ["Age", "Town=Oslo"]
    assert g.x.tolist() == [[31.0, 1.0], [45.5, 0.0], [28.0, 0.0]]
    assert "2 gaps in 'Town' taken for no value" in line_of(g)


def test_labels_that_repeat_and_directions_of_gexf(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.gexf", gephi(second="cy")))
    assert g.node_names == ["0", "1", "2.0"]
    assert "called by their ids: labels are missing or repeat" in line_of(g)
    # Directed and other edges in one file, which networkx refuses.
    mixed = write(tmp_path, "g.gexf", gephi(default="directed"))
    assert quiet(mixed).num_edges == 2
    with pytest.warns(UserWarning, match="directed"):
        read_graph(write(tmp_path, "g.gexf", gephi(default="directed", kind="directed")))


PAJEK = """%% a comment
*Network friends
*Vertices 4
1 "Ann Lee" 0.1 0.2 0.5 ic Red
2 bob
3 "Zoë"
*Edges
1 2 2.5
2 3
*Arcs :1 "knows"
1 3 4 l "text"
"""


def test_pajek(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.net", PAJEK))
    assert g.node_names == ["Ann Lee", "bob", "Zoë", "4"]
    assert named_edges(g) == {("Ann Lee", "bob", 2.5), ("Zoë", "bob", 1.0), ("Ann Lee", "Zoë", 4.0)}
    assert not quiet(write(tmp_path, "g.net", PAJEK), weighted=False).weighted
    same = PAJEK.replace('"Ann Lee"', "bob")  # networkx makes one node of the two
    assert quiet(write(tmp_path, "g.net", same)).node_names == ["1", "2", "3", "4"]
    lists = "*Vertices 4\r\n*Edgeslist\r\n1 2 3\r\n4 1\r\n".encode("cp1252")
    assert named_edges(quiet(write(tmp_path, "g.net", lists))) == {
        ("1", "2", 1),
        ("1", "3", 1),
        ("1", "4", 1),
    }
    matrix = "*Vertices 3\n*Matrix\n0 2 0\n2 0 1\n0 1 0\n"
    assert quiet(write(tmp_path, "g.net", matrix)).adjacency.toarray().tolist() == [
        [0, 2, 0],
        [2, 0, 1],
        [0, 1, 0],
    ]
    # Nodes without a line of their own: up to 1000, and 100 for every line.
    assert quiet(write(tmp_path, "g.net", "*Vertices 1300\n*Edges\n1 2\n")).num_nodes == 1300
    nx.write_pajek(weighted_graph(), tmp_path / "n.net")
    assert named_edges(quiet(tmp_path / "n.net")) == {("ann", "bob", 2.5), ("Zoë", "bob", 1.0)}
    with pytest.warns(UserWarning, match="directed"):
        read_graph(write(tmp_path, "g.net", "*Vertices 2\n*Arcs\n1 2\n"))


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" {of} attr.name="weight" attr.type="double"><default>2.5</default></key>
<key id="m" for="node" attr.name="member" attr.type="boolean"><default>true</default></key>
<graph edgedefault="undirected"><node id='a'/><node id="b"><data key="m">false</data></node><node id="c"/>
<edge source="a" target="b"/><edge source="b" target="c"><data key="w">7</data></edge></graph>{more}</graphml>
"""


@pytest.mark.parametrize("of", ['for="edge"', 'for="all"', ""])
def test_defaults_are_values(tmp_path: Path, of: str) -> None:
    path = write(tmp_path, "g.graphml", GRAPHML.format(of=of, more=""))
    g = quiet(path, features=["member"])
    assert named_edges(g) == {("a", "b", 2.5), ("b", "c", 7.0)}
    assert g.x.ravel().tolist() == [1, 0, 1]
    aged = gephi().replace('<attvalues><attvalue for="age" value="45.5"/></attvalues>', "")
    assert quiet(write(tmp_path, "g.gexf", aged), features=["Age"]).x.ravel().tolist() == [31, 40, 28]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037", "cp500", "latin-1"]
)
@pytest.mark.parametrize("suffix", [".graphml", ".graphml.gz", ".gexf", ".xlsx"])
def test_entities_are_refused_in_every_encoding(
    tmp_path: Path, suffix: str, encoding: str, declared: bool
) -> None:
    """Parsers switch to a declared encoding, in which a search for bytes sees nothing: EBCDIC (cp037) is one."""
    dtd = '<!DOCTYPE g [<!ENTITY a "long">]>'
    body = f"{dtd}<graphml><graph><node id='&a;'/><node id='b'/><edge source='&a;' target='b'/></graph></graphml>"
    head = f"<?xml version='1.0' encoding='{encoding}'?>" if declared else ""
    switches = encoding.startswith("cp")  # the declaration itself is ASCII
    data = head.encode() + body.encode(encoding) if switches else (head + body).encode(encoding)
    if suffix == ".xlsx":
        book = io.BytesIO()
        openpyxl.Workbook().save(book)
        with zipfile.ZipFile(book, "a") as archive:
            archive.writestr("xl/any.bin", data)
        data = book.getvalue()
    refused = "is not valid|has no sheet" if switches and not declared else "document type"
    with pytest.raises(FileFormatError, match=refused):
        read_graph(write(tmp_path, f"g{suffix}", data))


@pytest.mark.parametrize("edges", ["links", "edges"])
def test_json_of_networkx_and_d3(tmp_path: Path, edges: str) -> None:
    content = node_link(weighted_graph(), edges)
    path = write(tmp_path, "g.json", json.dumps(content))
    g = quiet(path)
    assert g.node_names == ["ann", "bob", "Zoë"]
    assert named_edges(g) == {("ann", "bob", 2.5), ("Zoë", "bob", 1.0)}
    np.testing.assert_allclose(quiet(path, features=["age"]).x, [[31], [45], [28]])
    # d3: names, links by position, the weight is called value.
    d3: dict[str, Any] = {"nodes": [{"name": "Myriel", "group": 1}, {"name": "Valjean", "group": 2}]}
    d3[edges] = [{"source": 1, "target": 0, "value": 3}]
    g = quiet(write(tmp_path, "m.json", json.dumps(d3)))
    assert named_edges(g) == {("Myriel", "Valjean", 3.0)}
    numbered = {"nodes": [{}, {}, {}], edges: [{"source": 0, "target": 2}]}
    g = quiet(write(tmp_path, "n.json", json.dumps(numbered)))
    assert (g.node_names, named_edges(g)) == (None, {("0", "2", 1.0)})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("g.gexf", "<gexf", "is not valid GEXF"),
        ("g.gexf", "<gexf/>", "is not valid GEXF: No <graph> element"),
        ("g.gexf", "<!DOCTYPE x>" + gephi(), "document type"),
        ("g.gexf", '<!DOCTYPE x [<!ENTITY a "b">]><gexf/>'.encode("utf-16-le"), "document type"),
        ("g.graphml", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>'.encode("utf-16-be"), "document type"),
        ("g.gexf", gephi().replace("</gexf>", "<graph/></gexf>"), "it holds 2 graphs: keep one per file"),
        ("g.graphml", GRAPHML.format(of="", more="<graph/>"), "it holds 2 graphs: keep one per file"),
        ("g.graphml", GRAPHML.format(of="", more="").replace("<node id='a'/>", "<node id='a'><graph/></node>"),
         "node 'a' holds a graph of its own"),
        ("g.net", PAJEK + "*Network b\n", "line 12: a second network begins"),
        ("g.net", "*Vertices x\n", "line 1: expected one '\\*Vertices'"),
        ("g.net", "*Vertices 1301\n*Edges\n1 2\n", "1301 vertices announced in a smaller file"),
        ("g.net", "*Vertices 999999999\n", "999999999 vertices announced in a smaller file"),
        ("g.net", "*Vertices 2\n*Edges\n1 3\n", "line 3: '3' is no vertex from 1 to 2"),
        ("g.net", "*Vertices 2\n*Partition\n", "line 2: '\\*Partition' is no part of a network"),
        ("g.net", "*Vertices 2\n*Matrix\n0 1 1\n", "line 3: expected a matrix of 2 rows"),
        ("g.net", "1 2\n", "line 1: '1 2' is neither a vertex nor an edge"),
        ("g.json", "{", "is not valid node-link JSON"),
        ("g.json", "[" * 100_000, "is not valid node-link JSON"),
        ("g.json", "[1]", "expected {\"nodes\""),
        ("g.json", '{"nodes": []}', "must be lists of objects"),
        ("g.json", '{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two nodes have the id '1'"),
        ("g.json", '{"nodes": [{"id": 1}], "links": [{"source": 1}]}', "link 0 has no source or no target"),
        ("g.json", '{"nodes": [{"id": 5}], "links": [{"source": 5, "target": 7}]}', "a link names '7'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    with pytest.raises(FileFormatError, match=sentence) as caught:
        read_graph(write(tmp_path, name, content))
    assert name in str(caught.value) and "\n" not in str(caught.value)
