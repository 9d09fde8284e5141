"""Damaged and hostile files, made from a seed; run as a module, it reads them and reports what went wrong.

A process of its own, so that the peak of its memory is the peak of reading.
"""

import gzip
import io
import json
import os
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import anndata
import networkx as nx
import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp
from helpers.graph_checks import check_invariants
from helpers.reading import node_link, saved

from softcut.errors import SoftcutError
from softcut.graph import Graph
from softcut.io import read_features, read_graph

SECONDS = 10.0
BYTES = 2**30
SUFFIXES = [f".{name}" for name in ("csv", "tsv", "txt", "edges", "graphml", "gml", "mtx", "npz", "npy")]
SUFFIXES += [".csv.gz", ".mtx.gz", ".gexf", ".net", ".json", ".xlsx", ".parquet", ".h5ad", ".edgelist"]
# What a file must give: anything but a wrong read (None), a refusal, or this graph.
Wanted = nx.Graph | str | None
ALPHABET = "0123456789abcXYZ,;\t |\"'#%{}[]<>=.+-_eE\n\n\r\\/&:é漢\u200b\ufeff"


def cells(graph: nx.Graph) -> bytes:
    """An .h5ad file, which anndata writes to a path only."""
    cell, gene = (
        pd.DataFrame(index=pd.Index([str(i) for i in range(n)], dtype=object)) for n in (len(graph), 2)
    )
    made = anndata.AnnData(np.ones((len(graph), 2), np.float32), cell, gene)
    made.obsp["connectivities"] = sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=np.float64))
    with tempfile.TemporaryDirectory() as folder:
        made.write_h5ad(Path(folder, "g.h5ad"))
        return Path(folder, "g.h5ad").read_bytes()


def weighted(rng: np.random.Generator) -> nx.Graph:
    """A path of named nodes with some more edges, all of different weights."""
    graph = nx.path_graph(int(rng.integers(3, 12)))
    graph.add_edges_from((0, int(v)) for v in rng.integers(1, len(graph), 3))
    nx.set_edge_attributes(
        graph, {edge: float(w) for edge, w in zip(graph.edges, rng.random(99) + 0.1, strict=False)}, "weight"
    )
    return nx.relabel_nodes(graph, {i: f"n{i}é" for i in graph})


def harmless(rng: np.random.Generator) -> tuple[str, bytes, Wanted]:
    """A valid file written in an unusual, but clear way: it must be read as what it is."""
    graph = weighted(rng)
    rows = [(u, v, w) for u, v, w in graph.edges(data="weight")]
    end = str(rng.choice(["\n", "\r\n"]))
    sep = str(rng.choice([",", ";", "\t"]))
    frame = pd.DataFrame(rows, columns=["source", "target", "weight"])
    braces = "".join(f"{u} {v} {{'weight': np.float64({w}), 'note': \"it's\"}}\n" for u, v, w in rows)
    quoted = "".join(f'"{u}"{sep}"{v}"{sep}{w}{end}' for u, v, w in rows)
    titled = f"weight{sep}year{sep}source{sep}target{end}" + "".join(
        f"{w}{sep}2020{sep}{u}{sep}{v}{end}{end}" for u, v, w in rows
    )
    book = openpyxl.Workbook()
    for row in (["source", "target", "weight"], *rows):
        book.active.append(row)
    choices: list[tuple[str, bytes]] = [
        (".csv", quoted.encode("utf-8-sig")),
        (".txt", f"sep={sep}{end}{titled}".encode()),
        (".tsv", titled.encode("utf-16")),
        (".csv.gz", gzip.compress(f"# a comment{end}{titled}".encode())),
        (".edgelist", braces.encode()),
        (".graphml", saved(lambda f: nx.write_graphml(graph, f, prettyprint=bool(rng.integers(2))))),
        (".gexf", saved(lambda f: nx.write_gexf(graph, f))),
        (".gml", saved(lambda f: nx.write_gml(graph, f))),
        (".net", saved(lambda f: nx.write_pajek(graph, f))),
        (".json", json.dumps(node_link(graph, str(rng.choice(["links", "edges"])))).encode("utf-8-sig")),
        (".xlsx", saved(book.save)),
        (
            ".parquet",
            saved(
                lambda f: frame.sample(frac=1, random_state=0)[["weight", "target", "source"]].to_parquet(f)
            ),
        ),
        (".h5ad", cells(graph)),
        (
            ".mtx",
            saved(lambda f: scipy.io.mmwrite(f, sp.coo_array(nx.to_scipy_sparse_array(graph)), precision=17)),
        ),
        (".npz", saved(lambda f: sp.save_npz(f, sp.csc_array(nx.to_scipy_sparse_array(graph))))),
    ]
    suffix, data = choices[int(rng.integers(len(choices)))]
    return suffix, data, graph


def workbook(rows: list[list[int]]) -> Any:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    return made


def valid(rng: np.random.Generator) -> list[tuple[str, bytes]]:
    """Valid files of every kind, of random content."""
    n = int(rng.integers(2, 40))
    edges = rng.integers(0, n, (int(rng.integers(1, 80)), 2))
    rows = "".join(
        f"{u},{v},{w:.3f}\n" for (u, v), w in zip(edges.tolist(), rng.random(len(edges)), strict=True)
    )
    names = "".join(f'"n {u}","n\n{v}"\n' for u, v in edges.tolist())
    x = rng.random((n, int(rng.integers(1, 6))))
    table = "".join(f"{i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(x.tolist()))
    graph = nx.gnm_random_graph(n, n, seed=int(rng.integers(2**31)))
    matrix = sp.csr_array(nx.to_scipy_sparse_array(graph))
    stored = matrix.asformat(rng.choice(["csr", "csc", "bsr", "dia", "coo"]))
    head = "source,target,weight\n" if rng.random() < 0.5 else ""
    return [
        (".csv", (head + rows).encode()),
        (".tsv", rows.replace(",", "\t").encode()),
        (".txt", rows.replace(",", " ").encode()),
        (".csv", names.encode()),
        (".csv", ("user_id," + ",".join(f"f{i}" for i in range(x.shape[1])) + "\n" + table).encode()),
        (".csv.gz", gzip.compress(rows.encode())),
        (".graphml", saved(lambda f: nx.write_graphml(graph, f))),
        (".gml", saved(lambda f: nx.write_gml(graph, f))),
        (".gexf", saved(lambda f: nx.write_gexf(graph, f))),
        (".net", saved(lambda f: nx.write_pajek(graph, f))),
        (".json", json.dumps(node_link(graph, "links")).encode()),
        (".xlsx", saved(lambda f: workbook(edges.tolist()).save(f))),
        (".csv", rows.encode("utf-16")),
        (".mtx", saved(lambda f: scipy.io.mmwrite(f, sp.coo_array(matrix)))),
        (".edgelist", b"0 1 {'weight': 3}\n1 2 {}\n"),
        (".mtx", b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"),
        (".npz", saved(lambda f: sp.save_npz(f, stored, compressed=False))),
        (".npz", saved(lambda f: np.savez(f, edges=edges.T, num_nodes=n, x=x))),
        (".npy", saved(lambda f: np.save(f, x))),
        (".npy", saved(lambda f: np.save(f, edges))),
        (".parquet", saved(lambda f: pd.DataFrame(edges, columns=["source", "target"]).to_parquet(f))),
        (".h5ad", cells(graph)),
    ]


@cache
def packed(chunk: bytes, times: int, suffix: str) -> bytes:
    """A small file that unpacks to many repetitions, made without holding them."""
    buffer = io.BytesIO()
    with ExitStack() as stack:
        if suffix == ".gz":
            stream = stack.enter_context(gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1))
        else:
            archive = stack.enter_context(zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED))
            stream = stack.enter_context(archive.open("x.npy", "w"))
        for _ in range(times):
            stream.write(chunk)
    return buffer.getvalue()


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes changed, removed, doubled or cut off."""
    result = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at, size = int(rng.integers(0, len(result) + 1)), int(rng.integers(0, 12))
        kind = int(rng.integers(0, 5))
        if kind == 0:
            result[at : at + size] = rng.bytes(size)
        elif kind == 1:
            result[at:at] = result[at : at + size] * int(rng.integers(1, 50))
        elif kind == 2:
            del result[at : at + size]
        elif kind == 3:
            result[at : at + 1] = rng.choice(
                [b"9" * 30, b"-", b",", b"\n", b'"', b"\xff", b"\0", b"1e999", b"NA"]
            )
        else:
            del result[at:]
    return bytes(result)


def forbidden(rng: np.random.Generator) -> tuple[str, bytes, Wanted]:
    """What would be read wrongly: it must be refused."""
    entity = '<!DOCTYPE g [<!ENTITY a "xx">]><graphml><graph><node id="&a;"/><node id="b"/></graph></graphml>'
    encoding = str(rng.choice(["utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp037"]))
    head = f"<?xml version='1.0' encoding='{encoding}'?>"
    xml = head.encode() + entity.encode(encoding) if encoding == "cp037" else (head + entity).encode(encoding)
    value = str(rng.choice(["None", "nan", "inf", "-1", "'x'", "[1]", "sqrt(4)", "True"]))
    two = nx.generate_graphml(nx.path_graph(3))
    double = "".join(two).replace("</graphml>", "<graph edgedefault='undirected'/></graphml>")
    repeated = pyarrow.table([pyarrow.array([0, 1])] * 3, names=["source", "target", "source"])
    blank = pd.DataFrame({"source": ["a", str(rng.choice(["", " "]))], "target": ["b", "c"]})
    choices: list[tuple[str, bytes]] = [
        (str(rng.choice([".graphml", ".gexf"])), xml),
        (".edgelist", f"0 1 {{'weight': 2}}\n1 2 {{'weight': {value}}}\n".encode()),
        (".graphml", double.encode()),
        (".parquet", saved(lambda f: pyarrow.parquet.write_table(repeated, f))),
        (".parquet", saved(blank.to_parquet)),
        (".csv", b"source,target,weight,weight\na,b,1,2\n"),
        (".net", b"*Vertices 2\n*Edges\n1 2\n*Network b\n*Edges\n1 2\n"),
    ]
    return *choices[int(rng.integers(len(choices)))], "refused"


def hostile(rng: np.random.Generator) -> tuple[str, bytes]:
    """What nobody writes by accident: announced sizes, deep nesting, bombs, endless lines."""
    size = int(rng.integers(1, 5 * 10**4))
    big = int(rng.choice([10**7, 10**8, 2**31, 2**40, 10**18]))
    array = {"descr": "<f8", "fortran_order": False, "shape": (big,)}
    matrix = {"data": np.ones(1), "indices": [big], "indptr": [0, 1], "shape": [big, big], "format": b"csr"}
    choices: list[tuple[str, bytes]] = [
        (".mtx", f"%%MatrixMarket matrix coordinate real general\n{big} {big} {size % 9}\n1 2 3\n".encode()),
        (".mtx", f"%%MatrixMarket matrix array real general\n{big} {big}\n1\n".encode()),
        (".csv", f"0,{big}\n1,2\n".encode()),
        (".csv", b"a," + b"b" * size * 10),
        (".csv", b"9" * size + b",1\n1,2\n"),
        (".csv", b"id,a\n" + b"9" * size + b",1\n1,2\n"),
        (".csv", b'"' + b"a\n" * size),
        (".csv", b",".join([b"1"] * size) + b"\n" + b",".join([b"2"] * size)),
        (".txt", b"{" * size),
        (".txt", b"0 1 {" + b"'weight': 1," * size + b"}\n"),
        (".csv", b"#a,b\n" * size),
        (".csv", b"\n" * size),
        (".csv", b"sep=" * size),
        (".csv.gz", packed(b"0,1\n" * 2**18, 160, ".gz")),
        (".csv.gz", packed(bytes(2**20), 300, ".gz")),
        (".npz", packed(bytes(2**20), 400, ".zip")),
        (".npy", saved(lambda f: np.lib.format.write_array_header_1_0(f, array))),
        (".npy", b"\x93NUMPY\x01\x00\xff\xff"),
        (".npz", b"PK\x05\x06" + bytes(18)),
        (".csv.gz", b"\x1f\x8b"),
        (".npz", saved(lambda f: np.savez(f, edges=np.array([[0], [big]]), num_nodes=np.array(big)))),
        (".npz", saved(lambda f: np.savez(f, **matrix))),
        (".gml", b"graph [" * min(size, 20_000)),
        (".json", b'{"nodes":' + b"[" * size),
        (".net", f"*Vertices {big}\n*Edges\n1 2\n".encode()),
        (".net", b"*Vertices 3\n" + b"*Edges\n1 2\n" * (size // 9)),
        (".gexf", b"<gexf>" + b"<graph>" * min(size, 20_000)),
        (".xlsx", packed(bytes(2**20), 400, ".zip")),
        (".gml", b"graph [ node [ id " + b"9" * size + b" ] ]"),
        (".graphml", b"<graphml>" + b"<graph>" * min(size, 20_000)),
        (".graphml", b'<!DOCTYPE x [<!ENTITY a "b">]><graphml>&a;</graphml>'),
        (".graphml", "<graphml/>".encode("utf-16")),
    ]
    return choices[int(rng.integers(len(choices)))]


def fuzzed(seed: int, count: int) -> list[tuple[str, bytes, Wanted]]:
    """``count`` files: damaged ones, random text and bytes, hostile ones, and ones with a known answer."""
    rng = np.random.default_rng(seed)
    made: list[tuple[str, bytes, Wanted]] = []
    for i in range(count):
        kind = i % 8
        if kind < 3:
            options = valid(rng)
            suffix, data = options[int(rng.integers(len(options)))]
            made.append((suffix, damaged(data, rng), None))
        elif kind == 3:
            suffix = SUFFIXES[int(rng.integers(len(SUFFIXES)))]
            size = int(rng.integers(0, 400))
            text, data = "".join(rng.choice(list(ALPHABET), size)), rng.bytes(size)
            data = text.encode() if rng.random() < 0.7 else data
            packed = suffix.endswith(".gz") and rng.random() < 0.8
            made.append((suffix, gzip.compress(data) if packed else data, None))
        elif kind < 6:
            made.append((*hostile(rng), None))
        else:
            made.append(harmless(rng) if kind == 6 else forbidden(rng))
    return made


def check_read(value: Any) -> None:
    """What was read is a whole graph, or finite features."""
    if isinstance(value, Graph):
        check_invariants(value)
    else:
        assert value.dtype == np.float32
        assert np.isfinite(value.data if sp.issparse(value) else value).all()


def is_read_as(graph: Graph, wanted: nx.Graph) -> bool:
    """Whether a graph has the edges that it must have; a matrix has numbers for names."""
    nodes = list(wanted)
    names = graph.node_names or nodes
    upper = sp.triu(graph.adjacency, format="coo")
    ends = ((names[u], names[v]) for u, v in zip(upper.row, upper.col, strict=True))
    read = {frozenset(pair): w for pair, w in zip(ends, upper.data.tolist(), strict=True)}
    known = {frozenset((u, v)): w for u, v, w in wanted.edges(data="weight")}
    return read.keys() == known.keys() and all(abs(read[e] - w) <= 1e-15 * w for e, w in known.items())


def wrong_with(path: Path, wanted: Wanted, partner: Path, features: Path) -> list[str]:
    """Read a file in every way it can be read; the sentences of what should not happen."""
    wrong = []
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("graph", lambda: read_graph(path)),
        ("edges", lambda: read_graph(path, format="edges", missing="mean", categories=True)),
        ("features", lambda: read_features(path, missing="zero", categories=True)),
        ("joined", lambda: read_graph(partner, features=path)),
        ("with features", lambda: read_graph(path, features=features, missing="zero")),
    ]
    before = set(path.parent.iterdir())
    for name, call in calls:
        start = time.perf_counter()
        try:
            check_read(made := call())
            if name == "graph" and (
                wanted == "refused" or (wanted is not None and not is_read_as(made, wanted))
            ):
                wrong.append(f"{name} of {path.name}: a wrong read, {made!r}")
        except SoftcutError as error:
            if name == "graph" and isinstance(wanted, nx.Graph):
                wrong.append(f"{name} of {path.name}: refused: {error}")
            if "\n" in str(error):
                wrong.append(f"{name} of {path.name}: a message of several lines: {error}")
        except BaseException as error:
            wrong.append(f"{name} of {path.name}: {type(error).__name__}: {error}")
        seconds = time.perf_counter() - start
        if seconds > SECONDS:
            wrong.append(f"{name} of {path.name}: {seconds:.1f} s")
    if set(path.parent.iterdir()) != before:
        wrong.append(f"{path.name}: files left behind")
    return wrong


def main(seed: int, count: int) -> dict[str, Any]:
    wrong: list[str] = []
    warnings.simplefilter("ignore")
    files = fuzzed(seed, count)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        partner = Path(folder, "partner.csv")
        partner.write_text("0,1\n1,2\n2,3\n")
        features = Path(folder, "features.csv")
        features.write_text("id,a\n0,1\n2,3\n1,2\n3,4\n")
        peak = start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        for i, (suffix, data, wanted) in enumerate(files):
            path = Path(folder, f"f{i}{suffix}")
            path.write_bytes(data)
            wrong += wrong_with(path, wanted, partner, features)
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if now - start > BYTES and now > peak:
                wrong.append(f"{path.name}: {(now - start) / 2**20:.0f} MiB of memory")
            peak = max(peak, now)
            path.unlink()
        os.chdir("/")
    return {"files": len(files), "wrong": wrong, "bytes": peak - start}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
