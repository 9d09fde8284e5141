"""What a data set is, where its files lie (local folder, then cache), and how missing ones are fetched from the web."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import DataError, SoftcutError

TIMEOUT_S = 30.0


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


def cache_dir() -> Path:
    """The folder for downloads: ``$XDG_CACHE_HOME/softcut``, by default ``~/.cache/softcut``.

    >>> from softcut.datasets import cache_dir
    >>> cache_dir().name
    'softcut'
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "softcut"


def search_roots(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders to look in, in order; a file that is missing from all is downloaded into the last.

    A `root` that is given must exist: a mistyped one would be filled with a second copy of the data.
    """
    if root is not None:
        folder = Path(root).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"root {str(root)!r} is not a folder: pass the folder that holds the data sets, make it first to "
                "download into it, or leave root out to use SOFTCUT_DATA and the cache."
            )
        return [folder]
    local = os.environ.get("SOFTCUT_DATA", "")
    return [*([Path(local).expanduser()] if local else []), cache_dir()]


def advice(root: str | os.PathLike[str] | None) -> str:
    """How to tell softcut where the files are, for messages."""
    return "set SOFTCUT_DATA to a folder" if root is None else "pass as root a folder"


def find_file(roots: Iterable[Path], names: Sequence[str]) -> Path | None:
    """The first of the candidate files that is there, or None."""
    paths = (root / name for root in roots for name in names)
    return next((path for path in paths if path.is_file()), None)


def find_folder(roots: Iterable[Path], folders: Sequence[str], files: Collection[str]) -> Path | None:
    """The first of the candidate folders that holds all the files, or None."""
    paths = (root / folder for root in roots for folder in folders)
    return next((path for path in paths if all((path / file).is_file() for file in files)), None)


@contextmanager
def reading(sentence: str, advice: str = "") -> Iterator[None]:
    """Turn whatever a damaged file raises while it is read into one :class:`~softcut.errors.DataError`."""
    try:
        yield
    except SoftcutError:
        raise
    except Exception as error:
        raise DataError(f"{sentence}: {error}{advice}.") from error


def checksum(arrays: Iterable[NDArray[Any] | None]) -> str:
    """SHA-256 over shapes and content, whole numbers as int64 and others as float32; None counts as empty."""
    digest = hashlib.sha256()
    for array in arrays:
        array = np.zeros(0) if array is None else array
        digest.update(np.array(array.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(array, "<f4" if array.dtype.kind == "f" else "<i8").tobytes())
    return digest.hexdigest()


def check_sha256(content: bytes, expected: str, name: str) -> None:
    """Raise :class:`~softcut.errors.DataError` unless the content has the expected SHA-256 checksum."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise DataError(
            f"{name} is not the published file (its SHA-256 checksum starts with {digest[:12]} instead of "
            f"{expected[:12]}): delete it and load the data set again."
        )


def fetch(
    url: str,
    target: Path,
    check: Callable[[Path], object],
    name: str,
    advice: str = "set SOFTCUT_DATA to a folder",
) -> None:
    """Download a file: to a temporary name first, renamed once ``check(path)`` has accepted it.

    Folders that were made for a file that did not arrive are removed again.
    """
    temporary: Path | None = None
    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        temporary = Path(path)
        with os.fdopen(handle, "wb") as sink, urllib.request.urlopen(url, timeout=TIMEOUT_S) as source:
            shutil.copyfileobj(source, sink)
        check(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        remote = isinstance(error, (urllib.error.URLError, http.client.HTTPException))
        what = "downloaded" if remote else f"saved to {target.parent}"
        raise DataError(
            f"The data set '{name}' is not on this computer and {url} could not be {what} "
            f"({reason}): check the network, or {advice} that holds the data set."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        for folder in made:  # the deepest first
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
