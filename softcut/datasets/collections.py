"""Lists of graphs by name: the TU data sets and the Bench sets of the paper's table 2.

Looked for, in this order: the compact file ``graphs/NAME.npz`` (or ``NAME.npz``), the source files, both in
``$SOFTCUT_DATA`` and then in the cache; what is in none of them is downloaded. What was read from source files is
kept as a compact file in the cache. The content is verified each time, by a checksum or, where only the published
statistics are known, by these.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from softcut.datasets import bench, fetching, tu
from softcut.datasets.info import DatasetInfo
from softcut.datasets.raw_graphs import RawGraphs, read_packed, write_packed
from softcut.errors import DataError, ParameterError
from softcut.graph.collection import GraphCollection

__all__ = ["COLLECTIONS", "available_collections", "load_graphs", "load_raw_graphs"]

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets/"
TU_CITATION = (
    "C. Morris et al., TUDataset: A collection of benchmark datasets for learning with graphs, ICML workshop on "
    "Graph Representation Learning and Beyond 2020."
)
BENCH_URL = "https://github.com/FilippoMB/Benchmark_dataset_for_graph_classification/raw/master/datasets/"
BENCH_CITATION = (
    "F. M. Bianchi, D. Grattarola and C. Alippi, Spectral Clustering with Graph Neural Networks for Graph Pooling, "
    "ICML 2020."
)
FRESH_DRAW = "a fresh draw of the process that made the published set, not the published graphs"


@dataclass(frozen=True)
class Source:
    """One place where a data set may lie: a path below a root and its reader.

    `checksum` is that of the content; None where it is not known and the published statistics must agree.
    """

    path: str
    read: Callable[[Path], RawGraphs]
    checksum: str | None = None
    note: str = ""

    def present(self, root: Path) -> bool:
        place = root / self.path
        return place.is_dir() or place.is_file()


@dataclass(frozen=True)
class Collection:
    """A data set: its description, its sources in order of preference, and the published statistics."""

    info: DatasetInfo
    sources: tuple[Source, ...]
    download: Source
    nodes: float
    edges: float
    edges_per_pair: int = 1

    def verify(self, raw: RawGraphs, source: Source, where: str) -> None:
        """Refuse content that is not the published one."""
        if source.checksum is not None and raw.checksum() == source.checksum:
            return
        counted = (raw.num_edges.sum() + raw.self_loops) * self.edges_per_pair / len(raw.y)
        known = (self.info.graphs, self.info.classes, self.nodes, self.edges)
        measured = (
            len(raw.y),
            len(np.unique(raw.y)),
            round(float(raw.num_nodes.mean()), 2),
            round(float(counted), 2),
        )
        if source.checksum is not None or measured != known:
            raise DataError(
                f"{where} does not hold the published data set {self.info.name}: graphs, classes, average nodes and "
                f"edges are {measured} where {known} were published, or its content differs; delete it and load again."
            )

    @property
    def packed(self) -> tuple[str, ...]:
        return (f"graphs/{self.info.name}.npz", f"{self.info.name}.npz")


def _info(
    name: str, counts: tuple[int, int, int, int, int, int], url: str, licence: str, citation: str
) -> DatasetInfo:
    """`counts`: graphs, classes, nodes, edges, self-loops, features."""
    graphs, classes, nodes, edges, loops, features = counts
    sizes = (graphs, nodes, edges, loops, features, classes)
    return DatasetInfo(name, name, "graph classification", *sizes, url, licence, citation)


def _tu(
    name: str, counts: tuple[int, int, int, int, int, int], nodes: float, edges: float, checksum: str
) -> Collection:
    info = _info(name, counts, TU_URL, "not stated by the source", TU_CITATION)
    folder = partial(tu.read_folder, name=name)
    archive = Source(f"tudataset/{name}.zip", partial(tu.read_zip, name=name), checksum)
    return Collection(
        info=info,
        sources=(
            Source(f"tudataset/{name}_compact.npz", tu.read_compact, checksum),
            Source(f"tudataset/{name}/raw", folder, checksum),
            Source(f"{name}/raw", folder, checksum),
            archive,
        ),
        download=archive,
        nodes=nodes,
        edges=edges,
    )


def _bench(
    name: str, counts: tuple[int, int, int, int, int, int], nodes: float, edges: float, checksum: str
) -> Collection:
    """The full sets: the published file where there is one, else the fresh draw; the small ones: the published file."""
    _, kind = name.split("-", 1)
    small = kind.endswith("small")
    licence = "MIT (Benchmark_dataset_for_graph_classification)"
    info = _info(name, counts, BENCH_URL, licence, BENCH_CITATION)
    file = f"{kind.replace('-', '_')}.npz"
    original = Source(f"bench/{file}", bench.read_bench, checksum if small else None)
    drawn = Source(f"bench/resampled/{kind}_resampled.npz", bench.read_bench, checksum, FRESH_DRAW)
    return Collection(
        info=info,
        sources=(original,) if small else (original, drawn),
        download=original,
        nodes=nodes,
        edges=edges,
        edges_per_pair=2,  # its authors count both directions
    )


COLLECTIONS: dict[str, Collection] = {
    collection.info.name: collection
    for collection in (
        _bench(
            "Bench-easy",
            (1800, 3, 268857, 839347, 0, 5),
            147.82,
            922.66,
            "0354b2c732c6ed8bea6d7fcfa8ccdf8533534895e9ec7780148fec56236f3a38",
        ),
        _bench(
            "Bench-hard",
            (1800, 3, 268857, 518298, 0, 5),
            148.32,
            572.32,
            "1629a986ff3f2ccee694513e469dba4f63218d29fe2a6ef3e590554458d216b6",
        ),
        _tu(
            "Mutagenicity",
            (4337, 2, 131488, 133447, 0, 20),
            30.32,
            30.77,
            "3bab4039a59f749c5abac6f6dcea0a51c8b7ee62b3722f7ddc45fc82b5818e92",
        ),
        _tu(
            "PROTEINS",
            (1113, 2, 43471, 81044, 0, 91),
            39.06,
            72.82,
            "11ce89681260bebad91d9a6e5b09a07dc3c9798d13ffb6e0ac8c04bd175461ca",
        ),
        _tu(
            "DD",
            (1178, 2, 334925, 843046, 0, 103),
            284.32,
            715.66,
            "d05f21d9f607db989c40ffc2f12bedd2314fe332856eee1d3dee069bbacf1b21",
        ),
        _tu(
            "COLLAB",
            (5000, 3, 372474, 12286079, 2837, 493),
            74.49,
            2457.78,
            "9143207b39f44cb6a2914d3d05ec3bf06052e15ae4b7d889601a0966a63e381d",
        ),
        _tu(
            "REDDIT-BINARY",
            (2000, 2, 859254, 995508, 0, 3064),
            429.63,
            497.75,
            "9ccf4446b7040d64eec51ae621449a38c616d5fc4844a0f9fe6a67b9082f6544",
        ),
        _bench(
            "Bench-easy-small",
            (300, 3, 17475, 53820, 0, 5),
            58.25,
            358.8,
            "49c6cec479c02484fe5447a41a0f108010a72565feaeba4755fa663735e535b9",
        ),
        _bench(
            "Bench-hard-small",
            (300, 3, 17592, 33742, 0, 5),
            58.64,
            224.95,
            "3452bdaa248cb3bcccc7a3900aa8222d957f2960e3f7a8abec2eb7d2fe45f4f0",
        ),
    )
}


def find_collection(name: str) -> Collection:
    """A data set by name, in any case."""
    key = str(name).strip().lower().replace("_", "-")
    for collection in COLLECTIONS.values():
        if collection.info.name.lower() == key:
            return collection
    raise ParameterError(
        f"There is no list of graphs named {name!r}; the names are: {', '.join(COLLECTIONS)}."
    )


def available_collections(root: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """The lists of graphs that :func:`load_graphs` knows; ``path`` says which are on this computer.

    >>> from softcut.datasets import available_collections
    >>> [info.name for info in available_collections()][:4]
    ['Bench-easy', 'Bench-hard', 'Mutagenicity', 'PROTEINS']
    """
    roots = fetching.search_roots(root)
    return [replace(collection.info, path=_locate(collection, roots)) for collection in COLLECTIONS.values()]


def _locate(collection: Collection, roots: list[Path]) -> Path | None:
    for root in roots:
        for name in (*collection.packed, *(s.path for s in collection.sources if s.present(root))):
            if (root / name).exists():
                return root / name
    return None


def load_graphs(
    name: str, root: str | os.PathLike[str] | None = None, *, download: bool = True
) -> GraphCollection:
    """A data set of many graphs, with the node features of the paper's table 2.

    TU data sets: one-hot degree, clustering coefficient (z-scored over all nodes), one-hot node labels and one-hot
    attributes where there are any. Bench: the one-hot colour. Self-loops are dropped. ``note`` says when the
    content is not the published one: the full Bench sets may be a fresh draw of the same process.

    >>> from softcut.datasets import load_graphs
    >>> load_graphs("PROTEINS")                                              # doctest: +SKIP
    GraphCollection('PROTEINS': 1113 graphs, 43471 nodes, 81044 edges, 91 features, 2 classes)

    Parameters
    ----------
    name
        One of the names of :func:`available_collections`, in any case.
    root
        A folder to use instead of ``$SOFTCUT_DATA`` and the cache.
    download
        False raises :class:`~softcut.errors.DataError` instead of using the network.
    """
    collection = find_collection(name)
    raw, source = load_raw_graphs(collection.info.name, root, download=download)
    return raw.collection(collection.info.name, source.note)


def load_raw_graphs(
    name: str, root: str | os.PathLike[str] | None = None, *, download: bool = True
) -> tuple[RawGraphs, Source]:
    """The graphs before features are made, and the source whose content they have."""
    collection = find_collection(name)
    roots = fetching.search_roots(root)
    packed = fetching.find_file(roots, collection.packed)
    if packed is not None:
        raw = read_packed(packed)
        return raw, _source_of(collection, raw, str(packed))
    for place, source in ((place, source) for source in collection.sources for place in roots):
        if source.present(place):
            return _read(collection, source, place, keep=root is None), source
    if not download:
        places = " or ".join(str(place) for place in roots)
        raise DataError(
            f"The data set '{collection.info.name}' is not in {places}: it would be {collection.packed[0]} or "
            f"{collection.download.path} there; allow the download, or copy it there."
        )
    _download(collection, roots[-1], root)
    return _read(collection, collection.download, roots[-1], keep=False), collection.download


def _read(collection: Collection, source: Source, root: Path, keep: bool) -> RawGraphs:
    raw = source.read(root / source.path)
    collection.verify(raw, source, str(root / source.path))
    if keep:
        raw = raw.with_coefficients()
        with suppress(OSError):  # a cache that cannot be written costs time, nothing else
            write_packed(fetching.cache_dir() / collection.packed[0], raw)
    return raw


def _source_of(collection: Collection, raw: RawGraphs, where: str) -> Source:
    """Which of the sources a packed file was made from, by its checksum."""
    checksum = raw.checksum()
    for source in collection.sources:
        if source.checksum == checksum:
            return source
    collection.verify(raw, collection.download, where)
    return collection.download


def _download(collection: Collection, place: Path, root: str | os.PathLike[str] | None) -> None:
    source = collection.download
    url = collection.info.url + Path(source.path).name

    def check(path: Path) -> None:
        collection.verify(source.read(path), source, url)

    fetching.fetch(url, place / source.path, check, collection.info.name, fetching.advice(root))
