"""Tables of text: delimiters, comments, quotes and rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from softcut.errors import Argument, FileFormatError, Note, ParameterError, Sentence
from softcut.io.text_files import decode_text, plain_text_bytes
from softcut.tables.arrays import plural, warn_caller

_NAMED = {"\t": "tabs", " ": "spaces", ",": "commas", ";": "semicolons"}
# Excel and its kin say on a line of its own what separates the columns.
_SEPARATOR_LINE = re.compile(rb"""^["']?sep=([^\n])["']?[ \t]*(?=\n|$)""", re.IGNORECASE)
_HEAD = 1 << 20  # the layout of a table shows in its first megabyte


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
        lines = self.text.split("\n")
        if self.quoted:
            yield from _quoted_rows(lines, self.delimiter, self.comments, self.label)
            return
        for number, line in enumerate(lines, 1):
            stripped = line.strip()
            if stripped and stripped[0] not in self.comments:
                yield number, _split(line, self.delimiter)

    def sample(self) -> list[tuple[int, list[str]]]:
        """The first rows, enough to see the layout."""
        return list(islice(self.rows(), 1000))

    def line(self, number: int) -> str:
        """The text of a line."""
        return self.text.split("\n")[number - 1]


def open_table(data: bytes, label: str, delimiter: str | None, comments: str | None) -> TextTable:
    """Text of bytes, and how it is to be cut into rows and columns."""
    data = plain_text_bytes(data)
    named = _SEPARATOR_LINE.match(data)
    notes: list[Note] = []
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
