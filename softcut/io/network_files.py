"""GraphML and GML, read with networkx."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from softcut.errors import FileFormatError, require
from softcut.graph import Graph
from softcut.io.opening import ReadOptions, decode_text, plain_text_bytes, reason_of

__all__ = ["read_gml", "read_graphml"]


def read_graphml(data: bytes, options: ReadOptions) -> Graph:
    nx = require("networkx", "all", "reading GraphML")
    # Entities can refer to other files and expand without bound; no graph needs them.
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", data, re.IGNORECASE) or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileFormatError(f"{options.label} must be UTF-8 XML without a document type declaration.")
    return _from_networkx(lambda: nx.read_graphml(io.BytesIO(data)), "GraphML", options)


def read_gml(data: bytes, options: ReadOptions) -> Graph:
    nx = require("networkx", "all", "reading GML")
    text = decode_text(plain_text_bytes(data), options.label)
    # networkx reads ASCII with character references, and writes them as well.
    lines = text.encode("ascii", "xmlcharrefreplace").decode("ascii").split("\n")

    def parse() -> Any:
        try:
            return nx.parse_gml(lines, label="label")
        except nx.NetworkXError as error:
            if "no 'label' attribute" not in str(error):
                raise
            return nx.parse_gml(lines, label="id")

    return _from_networkx(parse, "GML", options)


def _from_networkx(parse: Callable[[], Any], what: str, options: ReadOptions) -> Graph:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = parse()
            keys = {key for *_, attributes in graph.edges(data=True) for key in attributes}
    except Exception as error:  # networkx lets the errors of its parsers through
        raise FileFormatError(f"{options.label} is not valid {what}: {reason_of(error)}.") from None
    weight = next((key for key in ("weight", "value") if key in keys), None)
    if options.weighted is True and weight is None:
        raise FileFormatError(f"{options.label}: weighted=True but no edge has a 'weight' or 'value'.")
    if options.weighted is False:
        weight = None
    return Graph.from_networkx(
        graph,
        weight=weight,
        features="attributes" if options.attributes else None,
        self_loops=options.self_loops,
        name=options.name,
    )
