"""The list of data sets: what each one is, where it comes from, and how it is loaded by name.

A family of data sets is one module with a tuple ``ENTRIES``. To add a data set, add an entry to its family;
to add a family, write the module and name it in ``_entries``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import scipy.sparse as sp

from softcut.datasets import attributed, fetching, planetoid
from softcut.datasets.collections import COLLECTIONS
from softcut.datasets.fetching import DatasetInfo, Entry
from softcut.errors import DataError, ParameterError
from softcut.graph import Graph, SelfLoops
from softcut.graph.checks import check_self_loops


def _entries() -> dict[str, Entry]:
    return {entry.info.name: entry for family in (planetoid, attributed) for entry in family.ENTRIES}


def _key(name: str) -> str:
    return str(name).strip().lower().replace("_", "-")


def _find(name: str) -> Entry:
    entries, known = _entries(), name_of_data_set(name)
    if known is not None:
        return entries[known]
    if _key(name) in (graphs.lower() for graphs in COLLECTIONS):
        raise ParameterError(
            f"{name!r} is a list of graphs: use softcut.datasets.load_graphs; load is for single graphs.",
            argument="name",
        )
    raise ParameterError(
        f"There is no data set named {name!r}; the names are: {', '.join(entries)}.", argument="name"
    )


def name_of_data_set(name: str) -> str | None:
    """The data set that :func:`load` means by a name; None where there is none.

    >>> name_of_data_set("Cora"), name_of_data_set("people")
    ('cora', None)
    """
    key = _key(name)
    names = (entry.info.name for entry in _entries().values() if key in (entry.info.name, *entry.aliases))
    return next(names, None)


def available(root: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """All data sets that :func:`load` knows; ``path`` says which are already on this computer.

    >>> from softcut.datasets import available
    >>> [info.name for info in available()][:3]
    ['cora', 'citeseer', 'pubmed']
    """
    roots = fetching.search_roots(root)
    return [
        replace(entry.info, path=fetching.find_folder(roots, entry.folders, entry.files))
        for entry in _entries().values()
    ]


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    self_loops: SelfLoops = "drop",
    download: bool = True,
) -> Graph:
    """A data set as a :class:`~softcut.Graph` with features ``x`` and classes ``y``.

    The files are looked for in ``$SOFTCUT_DATA``, then in the cache (``~/.cache/softcut``), and are
    downloaded into the cache from their official source if they are in neither. Checksums are verified
    every time. Loading never executes code from a file.

    Parameters
    ----------
    name
        One of the names of :func:`available`, in any case: ``cora``, ``citeseer``, ``pubmed``, ``photo``,
        ``computers``, ``blogcatalog``, ``physics``, ``polblogs``.
    root
        A folder to use instead of ``$SOFTCUT_DATA`` and the cache, with the same layout
        (``planetoid/Cora/raw/ind.cora.x``, ``amazon/Photo/raw/...``, or PyTorch Geometric's
        ``Cora/raw/...``).
    self_loops
        ``"drop"`` (as PyTorch Geometric does) or ``"keep"`` those of the raw files (CiteSeer 124, PubMed 3,
        Photo 1).
    download
        False raises :class:`~softcut.errors.DataError` instead of reaching for the network.

    >>> from softcut.datasets import load
    >>> graph = load("cora")                                                 # doctest: +SKIP
    >>> graph.num_nodes, graph.num_edges, graph.x.shape[1]                   # doctest: +SKIP
    (2708, 5278, 1433)
    """
    check_self_loops(self_loops)
    entry = _find(name)
    raw = entry.read(_provide(entry, root, download))
    adjacency = raw.adjacency
    if self_loops == "drop":  # here rather than in Graph, which would warn about it
        adjacency = (adjacency - sp.diags(adjacency.diagonal(), dtype=adjacency.dtype)).tocsr()
        adjacency.eliminate_zeros()
    return Graph.from_scipy(adjacency, x=raw.x, y=raw.y, self_loops="keep", name=entry.info.name)


def _provide(entry: Entry, root: str | os.PathLike[str] | None, download: bool) -> Path:
    """The folder with the files of a data set, downloaded if need be."""
    roots = fetching.search_roots(root)
    folder = fetching.find_folder(roots, entry.folders, entry.files)
    if folder is not None:
        return folder
    name, own, advice = entry.info.name, entry.folders[0], fetching.advice(root)
    if not download:
        places = " or ".join(str(place / own) for place in roots)
        raise DataError(
            f"The data set '{name}' is not in {places}: {advice} that holds {own}, or allow the download."
        )
    folder = roots[-1] / own
    for file, url in entry.files.items():
        if not url:
            raise DataError(
                f"The data set '{name}' cannot be downloaded, since its source ({entry.info.url}) has it in another "
                f"format: {advice} that holds {own}/{file}."
            )
        if not (folder / file).is_file():
            fetching.fetch(url, folder / file, partial(entry.check, file=file), name, advice)
    return folder
