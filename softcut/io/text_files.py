"""Opening files: what they are by name, their bytes, their text, and the words for what is wrong with them."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softcut.errors import Argument, FileFormatError, GraphError, ParameterError

# More nodes than this, with hardly an edge among them, is a damaged file rather than a graph.
_MANY_NODES = 10_000_000
# What a compressed file may unpack to unless max_bytes says otherwise: the larger of the two.
_UNPACKED_BYTES = 64 * 2**20
_UNPACKED_TIMES = 100


@contextmanager
def errors_of_files() -> Iterator[None]:
    """Errors of tables as errors of files: their sentences name the files."""
    try:
        yield
    except GraphError as error:
        raise FileFormatError(error.sentence) from None


def is_standard_input(path: Any) -> bool:
    """Whether a path is "-", the standard input."""
    return isinstance(path, (str, os.PathLike)) and os.fspath(path) == "-"


def label_of(path: Any) -> str:
    """What to call a file in messages."""
    if is_standard_input(path):
        return "standard input"
    try:
        return os.fspath(path) if isinstance(os.fspath(path), str) else os.fsdecode(path)
    except TypeError:
        raise ParameterError(f"path is a {type(path).__name__}: pass the name of a file.") from None


def stem_of(path: Any) -> str:
    """The name of a file without folder and extensions."""
    return _stem_and_suffix(path)[0]


def _stem_and_suffix(path: Any) -> tuple[str, str]:
    name = Path(label_of(path)).name
    return os.path.splitext(name[:-3] if name.lower().endswith(".gz") else name)


def kind_of(path: Any, known: dict[str, str], what: str) -> str:
    """What a file is by its extension."""
    if is_standard_input(path):
        return known[".csv"]
    suffix = _stem_and_suffix(path)[1].lower()
    if os.path.isdir(path):
        raise FileFormatError(f"{label_of(path)} is a folder; name a {what} file in it.")
    if suffix not in known:
        hint = ("; or pass ", Argument("format", text="format=...")) if what == "graph" else ()
        raise FileFormatError(
            f"{label_of(path)}: a {what} file cannot be recognised by the extension {suffix!r}: "
            f"use one of {' '.join(known)}",
            *hint,
            ".",
        )
    return known[suffix]


def check_max_bytes(max_bytes: Any) -> int | None:
    """The limit a caller set for unpacked data."""
    if max_bytes is None:
        return None
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
        raise ParameterError(
            f"max_bytes is {max_bytes!r}: pass a number of bytes, 1 or more.", argument="max_bytes"
        )
    return max_bytes


def _check_size(size: int, packed: int, label: str, max_bytes: int | None) -> None:
    """Refuse what unpacks to more than the limit."""
    if size > (limit := _limit(packed, max_bytes)):
        raise FileFormatError(
            f"{label} unpacks to more than {limit / 2**20:.0f} MiB: unpack it first, or pass ",
            Argument("max_bytes"),
            " with a larger limit.",
        )


def _limit(packed: int, max_bytes: int | None) -> int:
    return max(_UNPACKED_BYTES, _UNPACKED_TIMES * packed) if max_bytes is None else max_bytes


def read_bytes(path: Any, max_bytes: int | None = None) -> bytes:
    """The content of a file, decompressed; "-" is the standard input."""
    label = label_of(path)
    try:
        if is_standard_input(path):
            data = getattr(sys.stdin, "buffer", sys.stdin).read()
            data = data.encode() if isinstance(data, str) else data
        else:
            file = Path(label).expanduser()
            if file.is_dir():
                raise FileFormatError(f"{label} is a folder: pass a file.")
            data = file.read_bytes()
    except FileNotFoundError:
        raise FileFormatError(f"{label} does not exist: check the path.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(f"{label} cannot be opened: {reason}.") from None
    if label.lower().endswith(".gz") or data[:2] == b"\x1f\x8b":
        packed = len(data)
        try:
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(_limit(packed, max_bytes) + 1)
        except Exception as error:  # OSError, EOFError, zlib.error, struct.error: all mean the same
            raise FileFormatError(f"{label} is not a valid gzip file: {error}.") from None
        _check_size(len(data), packed, label, max_bytes)
    if not data.strip():
        raise FileFormatError(f"{label} is empty.")
    return data


def check_archive_size(data: bytes, label: str, max_bytes: int | None) -> None:
    """Refuse a zip archive that announces more than the limit, before anything is unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(item.file_size for item in archive.infolist())
    _check_size(size, len(data), label, max_bytes)


def decode_text(data: bytes, label: str) -> str:
    """Text of a file that claims to be text; the line of the first byte that is not."""
    zero = data.find(b"\0")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise FileFormatError(
            f"{label}, line {line}: a zero byte, so this is not a UTF-8 text file; convert it to UTF-8 text."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"{label}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None


def plain_text_bytes(data: bytes) -> bytes:
    """Without byte order mark, with one kind of line ending."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def check_plausible(nodes: int, edges: int, label: str) -> None:
    """Refuse a number of nodes that only a damaged file can announce."""
    if nodes > max(_MANY_NODES, 100 * edges):
        raise FileFormatError(
            f"{label} announces {nodes} nodes but has only {edges} entries: the file is damaged, or its "
            "nodes need to be numbered 0 to N-1."
        )


def reason_of(error: BaseException) -> str:
    """The first line of another library's message, without its full stop."""
    text = str(error).strip().split("\n")[0].strip().rstrip(".")
    if "pickle" in text:  # NumPy's advice for data it does not know: to let it execute code
        text = "it holds no plain arrays"
    return text[:200] or type(error).__name__
