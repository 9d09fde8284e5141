"""Lists of graphs by name: the TU data sets and the Bench sets of the paper's table 2.

Looked for, in this order: the compact file ``graphs/NAME.npz`` (or ``NAME.npz``), the source files, both in
``$SOFTCUT_DATA`` and then in the cache; what is in none of them is downloaded. What was read from source files is
kept as a compact file in the cache. The content is verified each time, by a checksum or, where only the published
statistics are known, by these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from softcut.datasets import fetching, tu
from softcut.datasets.fetching import DatasetInfo
from softcut.datasets.raw_graphs import RawGraphs, read_bench, read_packed, write_packed
from softcut.errors import DataError, ParameterError
from softcut.graph.collection import GraphCollection
from softcut.learning.hierarchy import Hierarchy, coarsen_collection

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
# SHA-256 of the content, see RawGraphs.checksum; of the full Bench sets that of the fresh draw.
CHECKSUMS = {
    "Bench-easy": "0354b2c732c6ed8bea6d7fcfa8ccdf8533534895e9ec7780148fec56236f3a38",
    "Bench-hard": "1629a986ff3f2ccee694513e469dba4f63218d29fe2a6ef3e590554458d216b6",
    "Mutagenicity": "3bab4039a59f749c5abac6f6dcea0a51c8b7ee62b3722f7ddc45fc82b5818e92",
    "PROTEINS": "11ce89681260bebad91d9a6e5b09a07dc3c9798d13ffb6e0ac8c04bd175461ca",
    "DD": "d05f21d9f607db989c40ffc2f12bedd2314fe332856eee1d3dee069bbacf1b21",
    "COLLAB": "9143207b39f44cb6a2914d3d05ec3bf06052e15ae4b7d889601a0966a63e381d",
    "REDDIT-BINARY": "9ccf4446b7040d64eec51ae621449a38c616d5fc4844a0f9fe6a67b9082f6544",
    "Bench-easy-small": "49c6cec479c02484fe5447a41a0f108010a72565feaeba4755fa663735e535b9",
    "Bench-hard-small": "3452bdaa248cb3bcccc7a3900aa8222d957f2960e3f7a8abec2eb7d2fe45f4f0",
}


@dataclass(frozen=True)
class Source:
    """One place where a data set may lie: a path below a root and its reader.

    `checksum` is that of the content; None where it is not known and the published averages must agree.
    """

    path: str
    read: Callable[[Path], RawGraphs]
    checksum: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Collection:
    """A data set: its description, its sources in order of preference, and the published average nodes and edges."""

    info: DatasetInfo
    sources: tuple[Source, ...]
    download: Source
    nodes: float
    edges: float
    edges_per_pair: int = 1

    def verify(self, raw: RawGraphs, sources: Sequence[Source], where: str) -> Source:
        """The source that has this content; an error where none of `sources` has."""
        checksum = raw.checksum()
        for source in sources:
            if source.checksum == checksum:
                return source
        edges = (raw.num_edges.sum() + raw.self_loops) * self.edges_per_pair
        averages = _averages(len(raw.y), int(raw.num_nodes.sum()), int(edges))
        measured = (len(raw.y), len(np.unique(raw.y)), *averages)
        known = (self.info.graphs, self.info.classes, self.nodes, self.edges)
        for source in sources:
            if source.checksum is None and measured == known:
                return source
        raise DataError(
            f"{where} does not hold the published data set {self.info.name}: graphs, classes, average nodes and "
            f"edges are {measured} where {known} were published, or its content differs; delete it and load again."
        )

    @property
    def packed(self) -> tuple[str, ...]:
        return (f"graphs/{self.info.name}.npz", f"{self.info.name}.npz")


def _averages(graphs: int, nodes: int, edges: int) -> tuple[float, float]:
    return round(nodes / max(graphs, 1), 2), round(edges / max(graphs, 1), 2)


def _tu(
    name: str, graphs: int, classes: int, nodes: int, edges: int, loops: int, features: int
) -> Collection:
    counts = (graphs, nodes, edges, loops, features, classes)
    licence = "not stated by the source"
    info = DatasetInfo(name, name, "graph classification", *counts, TU_URL, licence, TU_CITATION)
    folder = partial(tu.read_folder, name=name)
    archive = Source(f"tudataset/{name}.zip", partial(tu.read_zip, name=name), CHECKSUMS[name])
    sources = (
        Source(f"tudataset/{name}_compact.npz", tu.read_compact, CHECKSUMS[name]),
        Source(f"tudataset/{name}/raw", folder, CHECKSUMS[name]),
        Source(f"{name}/raw", folder, CHECKSUMS[name]),
        archive,
    )
    return Collection(info, sources, archive, *_averages(graphs, nodes, edges + loops))


def _bench(
    name: str, graphs: int, nodes: int, edges: int, averages: tuple[float, float] | None = None
) -> Collection:
    """The small sets: the published file. The full sets: that of the `averages`, else the fresh draw with `edges`."""
    kind = name.removeprefix("Bench-")
    licence = "MIT (Benchmark_dataset_for_graph_classification)"
    counts = (graphs, nodes, edges, 0, 5, 3)
    info = DatasetInfo(name, name, "graph classification", *counts, BENCH_URL, licence, BENCH_CITATION)
    file, checksum = f"bench/{kind.replace('-', '_')}.npz", CHECKSUMS[name]
    original = Source(file, read_bench, None if averages else checksum)
    drawn = Source(f"bench/resampled/{kind}_resampled.npz", read_bench, checksum, FRESH_DRAW)
    both = 2  # its authors count both directions of an edge
    return Collection(
        info,
        (original, drawn) if averages else (original,),
        original,
        *(averages or _averages(graphs, nodes, both * edges)),
        edges_per_pair=both,
    )


COLLECTIONS: dict[str, Collection] = {
    collection.info.name: collection
    for collection in (
        _bench("Bench-easy", 1800, 268857, 839347, averages=(147.82, 922.66)),
        _bench("Bench-hard", 1800, 268857, 518298, averages=(148.32, 572.32)),
        _tu("Mutagenicity", 4337, 2, 131488, 133447, 0, 20),
        _tu("PROTEINS", 1113, 2, 43471, 81044, 0, 91),
        _tu("DD", 1178, 2, 334925, 843046, 0, 103),
        _tu("COLLAB", 5000, 3, 372474, 12286079, 2837, 493),
        _tu("REDDIT-BINARY", 2000, 2, 859254, 995508, 0, 3064),
        _bench("Bench-easy-small", 300, 17475, 53820),
        _bench("Bench-hard-small", 300, 17592, 33742),
    )
}


def find_collection(name: str) -> Collection:
    """A data set by name, in any case."""
    key = str(name).strip().lower().replace("_", "-")
    for collection in COLLECTIONS.values():
        if collection.info.name.lower() == key:
            return collection
    raise ParameterError(
        f"There is no list of graphs named {name!r}; the names are: {', '.join(COLLECTIONS)}.",
        argument="name",
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
    names = (*collection.packed, *(source.path for source in collection.sources))
    return next((root / name for root in roots for name in names if (root / name).exists()), None)


def load_graphs(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    structure: bool = True,
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
    structure
        False leaves degree and clustering coefficient out: the default of ``GraphClassification`` adds its own.
    """
    raw, source = load_raw_graphs(name, root, download=download)
    raw = raw if structure else replace(raw, structure=False)
    return raw.collection(find_collection(name).info.name, source.note)


def load_raw_graphs(
    name: str, root: str | os.PathLike[str] | None = None, *, download: bool = True
) -> tuple[RawGraphs, Source]:
    """The graphs before features are made, and the source whose content they have."""
    collection = find_collection(name)
    roots = fetching.search_roots(root)
    packed = fetching.find_file(roots, collection.packed)
    if packed is not None:
        raw = read_packed(packed)
        return raw, collection.verify(raw, collection.sources, str(packed))
    for source in collection.sources:
        for place in roots:
            if (place / source.path).exists():
                return _read(collection, source, place, keep=root is None), source
    source, place = collection.download, roots[-1]
    if not download:
        places = " or ".join(str(place) for place in roots)
        raise DataError(
            f"The data set '{collection.info.name}' is not in {places}: it would be {collection.packed[0]} or "
            f"{source.path} there; allow the download, or copy it there."
        )
    url = collection.info.url + Path(source.path).name
    fetching.fetch(
        url,
        place / source.path,
        lambda path: collection.verify(source.read(path), [source], url),
        collection.info.name,
        fetching.advice(root),
    )
    return _read(collection, source, place, keep=False), source


def _read(collection: Collection, source: Source, root: Path, keep: bool) -> RawGraphs:
    raw = source.read(root / source.path)
    collection.verify(raw, [source], str(root / source.path))
    if keep:
        raw = raw.with_coefficients()
        with suppress(OSError):  # a cache that cannot be written costs time, nothing else
            write_packed(fetching.cache_dir() / collection.packed[0], raw)
    return raw


def load_hierarchy(
    graphs: GraphCollection, method: str, root: str | os.PathLike[str] | None = None
) -> Hierarchy:
    """Two levels of Graclus or NDP for the graphs of :func:`load_graphs`.

    Looked for as ``NAME.METHOD.npz`` beside the packed data; made, and kept in the cache, where it is missing.
    """
    file = f"{graphs.name}.{method}.npz"
    path = fetching.find_file(fetching.search_roots(root), (f"graphs/{file}", file))
    if path is not None:
        return Hierarchy.read(path, graphs)
    made = coarsen_collection(graphs, method)
    if root is None:
        with suppress(OSError):
            made.write(fetching.cache_dir() / "graphs" / file)
    return made
