"""What a data set is: its description, its raw arrays, and the entry that says how it is found and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is and where it comes from.

    ``edges`` counts every undirected edge once and no self-loops. ``path`` is the folder that holds the
    files on this computer, or None when they would be downloaded.

    >>> from softcut.datasets import available
    >>> available()[0].title
    'Cora'
    """

    name: str
    title: str
    task: str
    graphs: int
    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    url: str
    licence: str
    citation: str
    path: Path | None = None


@dataclass(frozen=True)
class RawGraph:
    """What a reader returns: plain arrays, before they become a :class:`~softcut.Graph`."""

    adjacency: sp.csr_matrix
    x: sp.csr_matrix | None
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Entry:
    """One data set: its description, the folders it may lie in, its files and its reader.

    ``files`` maps the name of each file to its web address, empty where it cannot be downloaded. ``read(folder)``
    parses the files and verifies their content; ``check(path, file)`` raises for a download that is not that file.
    """

    info: DatasetInfo
    folders: Sequence[str]
    files: Mapping[str, str]
    read: Callable[[Path], RawGraph]
    check: Callable[..., object]
    aliases: Sequence[str] = ()
