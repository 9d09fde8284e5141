"""A graph in parts on disk: memory-mapped arrays, one set per part, and a manifest with checksums.

Each part holds the rows of its own nodes, with columns renumbered: first its own nodes, then its halo, the
neighbours that other parts own. It also holds which of its nodes the other parts need, so that a process that opens
one part can exchange rows with the others and never reads theirs.

    part-0.nodes.npy     [n]      original numbers of its nodes, rising
    part-0.rowptr.npy    [n + 1]  where each row begins
    part-0.col.npy       [nnz]    columns: 0 .. n - 1 own, n .. n + h - 1 halo
    part-0.val.npy       [nnz]    edge weights (weighted graphs only)
    part-0.send.npy      [m]      own rows that other parts need, receiver by receiver
    part-0.counts.npy    [2, P]   how many rows go to each part, and come from it
    part-0.x.npy         [n, F]   features
    part-0.words_rowptr.npy, part-0.words_col.npy   which words (or bins of features) each node has
    part-0.axes_rows.npy, part-0.axes.npy           some of its rows, and their principal axes (measurements only)
    names.jsonl                   a JSON text per node, in the original order (graphs with names only)
    manifest.json                 sizes, and the checksum of every file; written last
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import FileFormatError, ParameterError
from softcut.files import atomic_json

_FORMAT = "softcut parts 2"
# Patterns of everything that such a folder holds.
PART_FILES = ("manifest.json", "names.jsonl", "part-*.npy")
_AGAIN = "write the parts again with 'softcut partition'"


@dataclass(frozen=True)
class Part:
    """One part, its arrays memory-mapped; the module's docstring says what they hold."""

    number: int
    nodes: np.ndarray
    rowptr: np.ndarray
    col: np.ndarray
    send: np.ndarray
    counts: np.ndarray
    val: np.ndarray | None = None
    x: np.ndarray | None = None
    words: tuple[np.ndarray, np.ndarray] | None = None
    axes: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def num_halo(self) -> int:
        """Nodes of other parts that its rows mention."""
        return int(self.counts[1].sum())


@dataclass(frozen=True)
class Manifest:
    """What is known of all parts."""

    parts: int
    nodes: int
    edges: int  # an undirected edge counts once
    edge_worth: float  # edges for softcut.metrics.evidence: of a weighted graph (sum w)^2 / sum w^2 / 2
    columns: int  # features per node; 0 without features
    vocabulary: int  # different words
    num_words: int  # words in all
    axes: int  # principal axes that are kept of features that are measurements; 0 for none
    weighted: bool
    named: bool
    # Nodes, halo nodes and stored entries of every part.
    rows: tuple[int, ...]
    halo: tuple[int, ...]
    entries: tuple[int, ...]
    about: dict[str, Any]  # whatever the writer added: where the features come from, how nodes were divided
    files: dict[str, dict[str, Any]]  # bytes and SHA-256 of every file

    @property
    def digest(self) -> str:
        """One checksum for all parts: it tells whether a checkpoint belongs to these parts."""
        return hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()


def write_parts(
    folder: str | Path,
    adjacency: sp.csr_array,
    owner: np.ndarray,
    *,
    x: np.ndarray | None = None,
    words: sp.csr_array | None = None,
    axes: tuple[np.ndarray, np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write the parts of a graph into a new folder: all of them, or nothing.

    >>> import tempfile
    >>> import numpy as np
    >>> from softcut import Graph
    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     folder = Path(temporary, "parts")
    ...     manifest = write_parts(folder, path.adjacency, np.array([0, 0, 1, 1]))
    ...     part = open_part(folder, 1)
    ...     manifest.halo, part.nodes.tolist(), part.col.tolist()
    ((1, 1), [2, 3], [1, 2, 0])

    Nodes and rows of `owner` (the part of every node, from 0 on, none of them empty), `x`, `words` (what each node
    has, see :func:`softcut.metrics.features.presence`) and `names` have one order. `axes` are the numbers of
    some nodes, rising, and the principal axes of their features; `about` holds plain values for the manifest.
    """
    folder, n = Path(folder), adjacency.shape[0]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"folder {folder} is not empty; name a new folder.", argument="folder")
    for name, rows in (("owner", len(owner)), ("x", None if x is None else len(x))):
        if rows is not None and rows != n:
            raise ParameterError(f"{name} has {rows} rows, but the graph has {n} nodes.", argument=name)
    sizes = np.bincount(owner)
    if not sizes.all():
        raise ParameterError(
            f"owner leaves part {int(sizes.argmin())} without nodes; number the parts from 0 on.",
            argument="owner",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as staged:
        whole = Path(staged, folder.name)
        whole.mkdir()
        parts = len(sizes)
        weighted = bool((adjacency.data != 1).any())
        members = [np.flatnonzero(owner == p) for p in range(parts)]
        place = np.empty(n, dtype=np.int64)  # of every node among those of its part
        for nodes in members:
            place[nodes] = np.arange(len(nodes))
        counts = np.zeros((parts, parts), dtype=np.int64)  # [receiver, sender]
        sent: list[list[np.ndarray]] = [[] for _ in range(parts)]
        entries, number = [], place.copy()  # number: the column of each node in the part being written
        index = np.int32 if n < 2**31 else np.int64
        for p, nodes in enumerate(members):
            rows = adjacency[nodes]
            outside = np.unique(rows.indices[owner[rows.indices] != p])
            halo = outside[np.argsort(owner[outside], kind="stable")]
            counts[p] = np.bincount(owner[halo], minlength=parts)
            for q, piece in enumerate(np.split(halo, np.cumsum(counts[p])[:-1])):
                sent[q].append(place[piece])
            number[halo] = len(nodes) + np.arange(len(halo))
            local = sp.csr_array(
                (rows.data, number[rows.indices], rows.indptr), shape=(len(nodes), len(nodes) + len(halo))
            )
            number[halo] = place[halo]
            local.sort_indices()
            entries.append(int(local.nnz))
            arrays = {
                "nodes": nodes,
                "rowptr": local.indptr.astype(np.int64),
                "col": local.indices.astype(index),
            }
            if weighted:
                arrays["val"] = np.asarray(local.data, dtype=np.float64)
            if x is not None:
                arrays["x"] = np.ascontiguousarray(x[nodes])
            if words is not None:
                own = words[nodes]
                arrays |= {
                    "words_rowptr": own.indptr.astype(np.int64),
                    "words_col": own.indices.astype(np.int32),
                }
            if axes is not None:
                own_axes = owner[axes[0]] == p
                arrays |= {"axes_rows": place[axes[0][own_axes]], "axes": axes[1][own_axes]}
            for name, array in arrays.items():
                np.save(_file(whole, p, name), array)
        for p in range(parts):
            np.save(_file(whole, p, "send"), np.concatenate(sent[p]).astype(index))
            np.save(_file(whole, p, "counts"), np.stack([counts[:, p], counts[p]]))
        if names is not None:
            with (whole / "names.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(name) + "\n" for name in names)
        weight = adjacency.data / adjacency.data.max() if adjacency.nnz else adjacency.data
        total, squares = float(weight.sum()), float(np.square(weight).sum())
        loops = int(np.count_nonzero(adjacency.diagonal()))
        manifest = Manifest(
            parts=parts,
            nodes=n,
            edges=(int(adjacency.nnz) + loops) // 2,
            edge_worth=total * total / squares / 2 if squares else 0.0,
            columns=0 if x is None else int(x.shape[1]),
            vocabulary=0 if words is None else int(words.shape[1]),
            num_words=0 if words is None else int(words.nnz),
            axes=0 if axes is None else int(axes[1].shape[1]),
            weighted=weighted,
            named=names is not None,
            rows=tuple(len(nodes) for nodes in members),
            halo=tuple(int(row.sum()) for row in counts),
            entries=tuple(entries),
            about=dict(about or {}),
            files={
                file.name: {"bytes": file.stat().st_size, "sha256": _checksum(file)}
                for file in sorted(whole.iterdir())
            },
        )
        atomic_json(whole / "manifest.json", {"format": _FORMAT, **vars(manifest)})
        whole.replace(folder)
    return manifest


def _file(folder: Path, part: int, name: str) -> Path:
    return folder / f"part-{part}.{name}.npy"


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a folder of parts, or a sentence where there is none."""
    file = Path(folder) / "manifest.json"
    if not file.is_file():
        raise FileFormatError(
            f"{folder} holds no parts (no manifest.json); write them with 'softcut partition'."
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if values.pop("format") != _FORMAT:
            raise ValueError
        lists = {name: tuple(map(int, values.pop(name))) for name in ("rows", "halo", "entries")}
        manifest = Manifest(**{**values, **lists})
        if any(len(each) != manifest.parts for each in lists.values()):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileFormatError(f"{file} is not a manifest of parts; {_AGAIN}.") from error
    return manifest


def open_part(folder: str | Path, number: int) -> Part:
    """One part, its arrays memory-mapped. A missing or damaged file is named."""
    folder, manifest = Path(folder), read_manifest(folder)
    if not 0 <= number < manifest.parts:
        raise ParameterError(
            f"number must be from 0 to {manifest.parts - 1}, the parts of {folder}, got {number}.",
            argument="number",
        )
    names = ["nodes", "rowptr", "col", "send", "counts"]
    names += ["val"] * manifest.weighted + ["x"] * (manifest.columns > 0)
    names += ["words_rowptr", "words_col"] * (manifest.vocabulary > 0)
    names += ["axes_rows", "axes"] * (manifest.axes > 0)
    arrays: dict[str, Any] = {}
    for name in names:
        file = _file(folder, number, name)
        _check(file, manifest)
        # An empty array cannot be memory-mapped.
        arrays[name] = np.load(file, mmap_mode=None if file.stat().st_size < 256 else "r", allow_pickle=False)
    words = (arrays.pop("words_rowptr"), arrays.pop("words_col")) if manifest.vocabulary else None
    axes = (arrays.pop("axes_rows"), arrays.pop("axes")) if manifest.axes else None
    return Part(number, words=words, axes=axes, **arrays)


def _check(file: Path, manifest: Manifest) -> None:
    """The file is the one that the manifest describes."""
    known = manifest.files.get(file.name)
    if known is None or not file.is_file():
        raise FileFormatError(f"{file} is missing; copy it again, or {_AGAIN}.")
    if file.stat().st_size != known["bytes"]:
        raise FileFormatError(
            f"{file} is damaged: it has {file.stat().st_size:,} bytes instead of {known['bytes']:,}; "
            f"copy it again, or {_AGAIN}."
        )
    if _checksum(file) != known["sha256"]:
        raise FileFormatError(
            f"{file} is damaged: its checksum is not the one in manifest.json; copy it again, or {_AGAIN}."
        )


def read_names(folder: str | Path) -> Iterator[str]:
    """The names of all nodes in their original order, one after another; numbers where the graph has no names."""
    folder, manifest = Path(folder), read_manifest(folder)
    if not manifest.named:
        yield from map(str, range(manifest.nodes))
        return
    file = folder / "names.jsonl"
    _check(file, manifest)
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
