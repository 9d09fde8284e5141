"""Files of networks as networkx graphs: GraphML, GEXF and GML read by networkx; Pajek and node-link JSON here.

networkx joins vertices of a Pajek file that have the same label, and knows neither its lists nor its matrices.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from softcut.errors import FileFormatError, Note, require
from softcut.io.encodings import as_utf8
from softcut.io.text_files import decode_text, plain_text_bytes, reason_of
from softcut.tables.arrays import shown
from softcut.tables.columns import text_of

NETWORK_FORMATS = {
    "graphml": "GraphML",
    "gexf": "GEXF",
    "gml": "GML",
    "pajek": "Pajek",
    "json": "node-link JSON",
}
_GEXF = "{http://www.gexf.net/1.2draft}"
_PIECES = re.compile(r'"([^"]*)"|(\S+)')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_network(data: bytes, format: str, label: str, encoding: str | None) -> tuple[Any, list[Note]]:
    """The networkx graph of a file, and what was understood."""
    kind = NETWORK_FORMATS[format]
    nx = require("networkx", "tables", f"reading {kind}")
    notes: list[Note] = []
    parse: Callable[[], Any]
    if format in ("graphml", "gexf"):
        check_xml(data, label)
        parse = (lambda: _graphml(nx, data)) if format == "graphml" else lambda: _gexf(nx, data)
    else:
        data, notes = as_utf8(data, encoding, label)
        text = decode_text(plain_text_bytes(data), label)
        parse = {
            "gml": lambda: _gml(nx, text),
            "json": lambda: _node_link(nx, text),
            "pajek": lambda: _pajek(nx, text),
        }[format]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network = parse()
    except Exception as error:  # networkx lets the errors of its parsers through
        raise FileFormatError(f"{label} is not valid {kind}: {reason_of(error)}.") from None
    if format == "gexf":
        network, said = _called_by_label(nx, network)
        notes = notes + said
    return network, notes


def check_xml(data: bytes, label: str) -> None:
    """Refuse what XML parsers could be made to expand or to fetch: entities, which no graph needs.

    The parser itself says what it sees, whatever the encoding; what is no XML is left to the reader.
    """

    def refuse(*_: Any) -> None:
        raise FileFormatError(f"{label} must be UTF-8 XML without a document type declaration.")

    def declared(version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
            refuse()

    if b"\0" in data:  # UTF-16
        refuse()
    parser = expat.ParserCreate()
    parser.XmlDeclHandler = declared
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    with suppress(expat.ExpatError):
        parser.Parse(data, True)


# ---------------------------------------------------------------------- GML, GraphML and GEXF


def _gml(nx: Any, text: str) -> Any:
    # networkx reads ASCII with character references, and writes them as well.
    lines = text.encode("ascii", "xmlcharrefreplace").decode("ascii").split("\n")
    try:
        return nx.parse_gml(lines, label="label")
    except nx.NetworkXError as error:
        if "no 'label' attribute" not in str(error):
            raise
        return nx.parse_gml(lines, label="id")


def _graphml(nx: Any, data: bytes) -> Any:
    """The only graph of a file, with the values that its keys give to nodes and edges without one."""
    root = ElementTree.fromstring(data)
    space = root.tag.rpartition("}")[0] + root.tag.rpartition("}")[1]
    _check_one_graph(root, f"{space}graph")
    for node in root.iter(f"{space}node"):
        # Groups of yEd are read by networkx, their nodes like all others.
        if node.find(f"{space}graph") is not None and "yfiles.foldertype" not in node.attrib:
            raise ValueError(
                f"node {shown(str(node.get('id')))} holds a graph of its own: keep one graph per file"
            )
    # networkx applies no default to what is declared for all.
    both = [key for key in root.findall(f"{space}key") if key.get("for", "all") == "all"]
    for key in both:
        key.set("for", "node")
        root.insert(0, edges := deepcopy(key))
        edges.attrib |= {"for": "edge", "id": f"{key.get('id')} of edges"}
    return _with_defaults(nx.read_graphml(io.BytesIO(ElementTree.tostring(root) if both else data)))


def _check_one_graph(root: Any, tag: str) -> None:
    count = len(root.findall(tag))
    if count > 1:
        raise ValueError(f"it holds {count} graphs: keep one per file")


def _with_defaults(network: Any) -> Any:
    """The network with its defaults at every node and edge that has no value of its own; networkx only lists them."""
    for values in (values for _, values in network.nodes(data=True)):
        values.update({**network.graph.get("node_default", {}), **values})
    for *_, values in network.edges(data=True):
        values.update({**network.graph.get("edge_default", {}), **values})
    return network


def _gexf(nx: Any, data: bytes) -> Any:
    """Any version of GEXF, as the version that networkx knows; one with directed and other edges is undirected."""
    root = ElementTree.fromstring(data)
    for parent in list(root.iter()):
        for child in [child for child in parent if "viz}" in child.tag]:
            parent.remove(child)  # colours and positions
    for element in root.iter():
        element.tag = _GEXF + element.tag.rpartition("}")[2]
    _check_one_graph(root, f"{_GEXF}graph")
    for graph in root.iter(f"{_GEXF}graph"):
        default = graph.get("defaultedgetype", "undirected")
        edges = list(graph.iter(f"{_GEXF}edge"))
        kinds = {edge.attrib.pop("type", default) for edge in edges} or {default}
        graph.set("defaultedgetype", "directed" if kinds == {"directed"} else "undirected")
    network = _with_defaults(nx.read_gexf(io.BytesIO(ElementTree.tostring(root))))
    for *_, values in network.edges(data=True):
        values.pop("id", None)  # of the edge
    return network


def _called_by_label(nx: Any, network: Any) -> tuple[Any, list[Note]]:
    """Nodes called by their labels where these tell them apart; Gephi numbers its nodes beside."""
    labels = {node: values.pop("label", None) for node, values in network.nodes(data=True)}
    if all(labels.values()) and len(set(labels.values())) == len(labels):
        if all(node == name for node, name in labels.items()):
            return network, []
        return nx.relabel_nodes(network, labels), [Note("labels", "nodes called by their labels")]
    if any(labels.values()):
        nx.set_node_attributes(network, {node: name for node, name in labels.items() if name}, "label")
    return network, [Note("labels", "nodes called by their ids: labels are missing or repeat")]


# ---------------------------------------------------------------------- node-link JSON


def _node_link(nx: Any, text: str) -> Any:
    """{"nodes": [...], "links": [...]}, as networkx and d3 write it; "edges" is another name of the links."""
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("nodes"), list):
        raise ValueError('expected {"nodes": [...], "links": [...]}')
    links = content.get("links", content.get("edges"))
    rows = [*content["nodes"], *(links if isinstance(links, list) else [None])]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError('"nodes" and "links" must be lists of objects')
    assert links is not None
    key = next((key for key in ("id", "name", "key") if all(key in node for node in content["nodes"])), None)
    names = [_name(i if key is None else node[key]) for i, node in enumerate(content["nodes"])]
    if len(set(names)) < len(names):
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"two nodes have the {key} {repeated!r}")
    known = set(names)
    edges = []
    for i, link in enumerate(links):
        if "source" not in link or "target" not in link:
            raise ValueError(f"link {i} has no source or no target")
        edges.append([_name(link[end]) for end in ("source", "target")])
    # Links of d3 may name the positions of nodes.
    if not all(end in known for pair in edges for end in pair):
        places = {str(i): name for i, name in enumerate(names)}
        absent = next(end for pair in edges for end in pair if end not in known)
        if not all(end in places for pair in edges for end in pair):
            raise ValueError(f"a link names {absent!r}, which is no node")
        edges = [[places[end] for end in pair] for pair in edges]
    made = (nx.MultiDiGraph if content.get("directed") is True else nx.MultiGraph)()
    nodes = zip(names, content["nodes"], strict=True)
    made.add_nodes_from((name, {k: v for k, v in node.items() if k != key}) for name, node in nodes)
    own = ("source", "target", "key")
    values = ({k: v for k, v in link.items() if k not in own} for link in links)
    made.add_edges_from((u, v, each) for (u, v), each in zip(edges, values, strict=True))
    return made


def _name(value: Any) -> str:
    """The name of a node; d3 replaces the ends of links by the nodes themselves."""
    if isinstance(value, dict) and "id" in value:
        value = value["id"]
    if value is None or isinstance(value, (bool, dict)):
        raise ValueError(f"{shown(str(value))} is no name of a node")
    return repr(value) if isinstance(value, list) else text_of(value)


# ---------------------------------------------------------------------- Pajek


def _pajek(nx: Any, text: str) -> Any:
    """A Pajek network: vertices, then edges and arcs as pairs, as lists or as a matrix."""
    labels: dict[int, str] = {}
    edges: list[tuple[int, int, float | None]] = []
    count, section, row, arcs, both = 0, "", 0, False, False
    for number, line in _pajek_lines(text):
        pieces = [quoted or plain for quoted, plain in _PIECES.findall(line)]
        if line.startswith("*"):
            section, row = pieces[0].lower(), 0
            if section == "*vertices":
                if count or len(pieces) < 2 or not pieces[1].isdecimal():
                    raise ValueError(f"line {number}: expected one '*Vertices' with the number of vertices")
                count = int(pieces[1])
                if count > 1000 + 100 * text.count("\n"):
                    raise ValueError(f"line {number}: {count} vertices announced in a smaller file")
            elif section not in ("*network", "*edges", "*arcs", "*edgeslist", "*arcslist", "*matrix"):
                raise ValueError(f"line {number}: {shown(pieces[0])} is no part of a network")
            elif section == "*network" and count:
                raise ValueError(f"line {number}: a second network begins: keep one per file")
            arcs, both = arcs or section in ("*arcs", "*arcslist"), both or section.startswith("*edges")
        elif section == "*vertices":
            labels[_vertex(pieces[0], count, number)] = next(filter(None, pieces[1:2]), pieces[0])
        elif section == "*matrix":
            row += 1
            if row > count or len(pieces) != count:
                raise ValueError(f"line {number}: expected a matrix of {count} rows and columns")
            weights = (_weight(piece, number) for piece in pieces)
            edges += [(row, column, value) for column, value in enumerate(weights, 1) if value]
            arcs = True
        elif section in ("*edges", "*arcs") and len(pieces) > 1:
            u, v = (_vertex(piece, count, number) for piece in pieces[:2])
            weighted = len(pieces) > 2 and _NUMBER.fullmatch(pieces[2])
            edges.append((u, v, _weight(pieces[2], number) if weighted else None))
        elif section in ("*edgeslist", "*arcslist") and len(pieces) > 1:
            u, *others = (_vertex(piece, count, number) for piece in pieces)
            edges += [(u, v, None) for v in others]
        elif section != "*network":
            raise ValueError(f"line {number}: {shown(line)} is neither a vertex nor an edge")
    names: list[str] = [labels.get(i, str(i)) for i in range(1, count + 1)]
    if len(set(names)) < count:
        names = [str(i) for i in range(1, count + 1)]
    made = (nx.MultiDiGraph if arcs and not both else nx.MultiGraph)()
    made.add_nodes_from(names)
    values: Iterable[Any] = ({} if w is None else {"weight": w} for _, _, w in edges)
    made.add_edges_from((names[u - 1], names[v - 1], w) for (u, v, _), w in zip(edges, values, strict=True))
    return made


def _pajek_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if (line := line.strip()) and not line.startswith("%"):
            yield number, line


def _vertex(field: str, count: int, number: int) -> int:
    if not field.isdecimal() or not 1 <= int(field) <= count:
        raise ValueError(f"line {number}: {shown(field)} is no vertex from 1 to {count}")
    return int(field)


def _weight(field: str, number: int) -> float:
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"line {number}: {shown(field)} is no number") from None
