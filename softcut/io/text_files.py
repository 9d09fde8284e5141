"""Opening files and cutting their text into rows: names, bytes, encodings, delimiters, comments and quotes."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import select
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from softcut.errors import Argument, FileFormatError, GraphError, Note, ParameterError, Sentence
from softcut.io.encodings import as_utf8
from softcut.tables.arrays import plural, warn_caller

# What a compressed file may unpack to unless max_bytes says otherwise: the larger of the two.
_UNPACKED_BYTES = 64 * 2**20
_UNPACKED_TIMES = 100
_NAMED = {"\t": "tabs", " ": "spaces", ",": "commas", ";": "semicolons"}
# Excel and similar programs name the delimiter on a first line, sep=;
_SEPARATOR_LINE = re.compile(rb"""^["']?sep=([^\n])["']?[ \t]*(?=\n|$)""", re.IGNORECASE)
_WAIT = 10.0  # seconds for somebody to write into a pipe
_HEAD = 1 << 20  # the layout of a table shows in its first megabyte


@contextmanager
def errors_of_files() -> Iterator[None]:
    """Errors of tables as errors of files: their sentences name the files."""
    try:
        yield
    except GraphError as error:
        raise FileFormatError(error.sentence) from None


def is_standard_input(path: Any) -> bool:
    """Whether a path is "-", or another name of the standard input."""
    names = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
    return isinstance(path, (str, os.PathLike)) and os.fspath(path) in names


def label_of(path: Any) -> str:
    """What to call a file in messages; bytes of its name that are not UTF-8 are shown as a sign for them."""
    if is_standard_input(path):
        return "standard input"
    try:
        return os.fsencode(path).decode("utf-8", "replace")
    except TypeError:
        said = f"path is a {type(path).__name__}: pass the name of a file."
        raise ParameterError(said, argument="path") from None


def file_of(path: Any, kind: str) -> str:
    """The path of a file that its reader opens itself; pipes are refused."""
    file = os.path.expanduser(os.fsdecode(path))
    if is_standard_input(path) or (
        os.path.exists(file) and not os.path.isfile(file) and not os.path.isdir(file)
    ):
        raise FileFormatError(f"{label_of(path)}: a {kind} file cannot be read from a pipe; name a file.")
    if not os.path.isfile(file):
        read_bytes(path)  # says what is wrong
    return file


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
            if sys.stdin is None:
                raise FileFormatError("standard input is closed: pass text to it, or name a file.")
            data = getattr(sys.stdin, "buffer", sys.stdin).read()
            data = data.encode() if isinstance(data, str) else data
        else:
            file = Path(os.fsdecode(path)).expanduser()
            if file.is_dir():
                raise FileFormatError(f"{label} is a folder: pass a file.")
            if file.exists() and not file.is_file() and not file.is_fifo():
                raise FileFormatError(f"{label} is a device: pass a file.")
            data = _read_pipe(file, label) if file.is_fifo() else file.read_bytes()
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


def _read_pipe(file: Path, label: str) -> bytes:
    """All that is written into a pipe; one that nobody writes to is refused instead of waited for."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as stream:
        if not select.select([handle], [], [], _WAIT)[0]:
            with suppress(BlockingIOError):  # the writer has not written anything yet
                if not os.read(handle, 1):
                    raise FileFormatError(f"{label} is a pipe that nothing writes to.")
        os.set_blocking(handle, True)
        return stream.read()


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
            f"{label}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8, or name its ",
            Argument("encoding"),
            " such as 'cp1252'.",
        ) from None


def plain_text_bytes(data: bytes) -> bytes:
    """Without byte order mark, with one kind of line ending."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def reason_of(error: BaseException) -> str:
    """The first line of another library's message, without its full stop."""
    text = str(error).strip().split("\n")[0].strip().rstrip(".")
    if "pickle" in text:  # NumPy's advice for data it does not know: to let it execute code
        text = "it holds no plain arrays"
    return text[:200] or type(error).__name__


# ---------------------------------------------------------------------- tables of text


@dataclass(frozen=True)
class TextTable:
    """The text of a table, what separates its columns, which lines are comments, what was said about it."""

    label: str
    text: str
    delimiter: str
    comments: str
    notes: tuple[Note, ...] = ()

    @property
    def quoted(self) -> bool:
        """Whether there are quotes, so that a value may hold the delimiter or a new line."""
        return '"' in self.text

    def separated_by(self) -> str:
        """The delimiter in words."""
        return _NAMED.get(self.delimiter, repr(self.delimiter))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and fields of every row that is neither blank nor a comment."""
        if self.quoted:
            yield from _quoted_rows(self.text.split("\n"), self.delimiter, self.comments, self.label)
            return
        for number, line in self.lines():
            yield number, _split(line, self.delimiter)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number and text of every line that is neither blank nor a comment."""
        for number, line in enumerate(self.text.split("\n"), 1):
            stripped = line.strip()
            if stripped and stripped[0] not in self.comments:
                yield number, line

    def sample(self) -> list[tuple[int, list[str]]]:
        """The first rows, enough to see the layout."""
        return list(islice(self.rows(), 1000))

    def line(self, number: int) -> str:
        """The text of a line."""
        return self.text.split("\n")[number - 1]


def open_table(
    data: bytes, label: str, delimiter: str | None, comments: str | None, encoding: str | None = None
) -> TextTable:
    """Text of bytes, and how it is to be cut into rows and columns."""
    data, notes = as_utf8(data, encoding, label)
    data = plain_text_bytes(data)
    named = _SEPARATOR_LINE.match(data)
    if named:
        # The line stays, empty, so that line numbers stay true.
        data = data[named.end() :]
        if delimiter is None:
            separator = named[1].decode("utf-8", "replace")
            try:
                delimiter = check_delimiter(separator)
            except ParameterError:
                raise FileFormatError(
                    f"{label}, line 1: 'sep=' names {separator!r}, which cannot separate columns."
                ) from None
        notes.append(Note("delimiter_named", "line 1 names the delimiter"))
    text = decode_text(data, label)
    head = text[:_HEAD].split("\n")
    separator = delimiter or _find_delimiter(head)
    if comments is None:
        comments, said = _find_comments(text, separator, label)
        notes += said
    return TextTable(label, text, separator, comments, tuple(notes))


# ---------------------------------------------------------------------- delimiters and comments


def check_delimiter(delimiter: str | None) -> str | None:
    """The delimiter a caller asked for: one character that cannot be part of a number or a name."""
    if delimiter is None:
        return None
    if delimiter == "\\t":  # what a shell passes for a tab
        return "\t"
    if (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or delimiter.isalnum()
        or delimiter in "\"'\r\n.+-#%_"
    ):
        raise ParameterError(
            f"delimiter is {delimiter!r}: pass one character such as ',' or a space.", argument="delimiter"
        )
    return delimiter


def check_comments(comments: str | None) -> str | None:
    """The characters a caller wants comment lines to start with."""
    if comments is not None and (
        not isinstance(comments, str) or any(c.isalnum() or c in "\"'\r\n \t" for c in comments)
    ):
        raise ParameterError(
            f"comments is {comments!r}: pass characters such as '#', or '' for no comments.",
            argument="comments",
        )
    return comments


def _find_delimiter(lines: list[str]) -> str:
    """The delimiter that cuts a sample of lines into equally many columns."""
    ordinary = [line for line in lines if line.strip() and line.strip()[0] not in "#%"]
    lines = ordinary or [line for line in lines if line.strip()]
    # Lines first: a quote in the middle of a name quotes nothing, but would join many lines.
    samples = lines[:50], _whole_rows(lines)[:50]
    for rows in samples:
        # A semicolon before a comma: a comma may be a decimal sign, a semicolon hardly.
        for candidate in "\t;,":
            if _is_cut_evenly(rows, candidate):
                return candidate
    firsts = [row for rows in samples for row in rows[:1]]
    return next((candidate for row in firsts for candidate in "\t;," if candidate in row), " ")


def _is_cut_evenly(rows: list[str], delimiter: str) -> bool:
    """Whether all rows have the same number of columns, and more than one."""
    counts = set()
    for row in rows:
        try:
            counts.add(len(_split_quoted(row, delimiter) if '"' in row else row.split(delimiter)))
        except (csv.Error, StopIteration):
            return False
    return len(counts) == 1 and counts.pop() > 1


def _whole_rows(lines: list[str]) -> list[str]:
    """Lines, joined where a quoted value goes on in the next one; a row that never ends is left out."""
    rows: list[str] = []
    begun: list[str] = []
    quoted = False
    for line in lines:
        begun.append(line)
        quoted ^= line.count('"') % 2 == 1
        if not quoted:
            rows.append("\n".join(begun))
            begun = []
    return rows


def _find_comments(text: str, delimiter: str, label: str) -> tuple[str, list[Note]]:
    """The characters that start a comment, and what to say; "#tag,#other" is an edge rather than a comment."""
    both = "#%"
    if "#" not in text and "%" not in text:
        return both, []
    ordinary, first, width, marked = 0, 0, 0, []
    named: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            continue
        if stripped[0] in both:
            marked.append((number, stripped))
            continue
        ordinary += 1
        if ordinary == 1:
            first, width = number, len(_split(line, delimiter))
        if "#" in line or "%" in line:
            named |= {field[0] for field in _split(line, delimiter) if len(field) > 1 and field[0] in both}
    like_data = [
        (number, line)
        for number, line in marked
        if number > first
        and len(line) > 1
        and (line[1].isalnum() or line[1] == "_")
        and len(fields := _split(line, delimiter)) >= 2
        and all(fields)
        and (len(fields) == width if ordinary else len(fields) <= 3)
    ]
    if not like_data:
        return both, []
    marker, count = like_data[0][1][0], len(like_data)
    said = f"{plural(count, 'line')} that {'begins' if count == 1 else 'begin'} with {marker!r}"
    if marker in named or count > ordinary:
        return both.replace(marker, ""), [Note("comments_read", f"{said} read as data", lines=count)]
    way = Argument("comments", "")
    where = f", the first on line {like_data[0][0]}, might be data but counted as comments: pass "
    warn_caller(Sentence(f"{label}: {said}", where, way, " to read them."))
    return both, [Note("comments_skipped", f"{said} skipped (", way, " reads them)", lines=count)]


# ---------------------------------------------------------------------- rows


def _split(line: str, delimiter: str) -> list[str]:
    """Fields of a line without quotes; a space as delimiter means any white space."""
    if delimiter == " ":
        return line.split()
    return [field.strip() for field in line.split(delimiter)]


def _split_quoted(line: str, delimiter: str) -> list[str]:
    lines = [part + "\n" for part in line.split("\n")]  # more than one where a new line is quoted
    return [f.strip() for f in next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))]


def _quoted_rows(
    lines: list[str], delimiter: str, comments: str, label: str
) -> Iterator[tuple[int, list[str]]]:
    """Rows of text with quotes: a quoted value may hold the delimiter and new lines."""
    at = 0

    def feed() -> Iterator[str]:
        nonlocal at
        while at < len(lines):
            at += 1
            line = lines[at - 1]
            yield (" ".join(line.split()) if delimiter == " " and '"' not in line else line) + "\n"

    reader = csv.reader(feed(), delimiter=delimiter, skipinitialspace=True)
    while True:
        while at < len(lines) and (not lines[at].strip() or lines[at].strip()[0] in comments):
            at += 1
        if at >= len(lines):
            return
        begin = at
        try:
            fields = next(reader)
            if at - begin > 1:  # a quote that is never closed swallows the rest of the file
                text = ["\n".join(lines[begin:at])]
                list(csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True))
        except (csv.Error, StopIteration) as error:
            reason = "a quote that is never closed" if "unexpected end" in str(error) else str(error)
            raise FileFormatError(f"{label}, line {begin + 1}: {reason}.") from None
        fields = [field.strip() for field in fields]
        if delimiter == " ":
            fields = [field for i, field in enumerate(fields) if field or i < len(fields) - 1]
        yield begin + 1, fields or [""]
