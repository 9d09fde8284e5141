"""Text of other encodings as UTF-8: as asked for, by its byte order mark, or by what its bytes can be."""

from __future__ import annotations

import codecs
import re
from typing import Any

from softcut.errors import Argument, FileFormatError, Note, ParameterError

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNS = set("‘’‚“”„–—…€£°§«»•™®©·²³µ½\xa0")  # characters of Western text that are not letters
_WORD = re.compile(r"[^\W\d_]+")


def check_encoding(encoding: Any) -> str | None:
    """The encoding a caller asked for: one of text that Python knows."""
    if encoding is None:
        return None
    try:
        "a".encode(encoding).decode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise ParameterError(
            f"encoding is {encoding!r}: name one such as 'utf-8', 'cp1252' or 'utf-16'.", argument="encoding"
        ) from None


def as_utf8(data: bytes, encoding: str | None, label: str) -> tuple[bytes, list[Note]]:
    """The same text in UTF-8, and what to say; bytes that are no text of a known encoding stay as they are.

    >>> as_utf8("Zoë,Bjørn".encode("cp1252"), None, "friends.csv")[0].decode()
    'Zoë,Bjørn'
    """
    if encoding is not None:
        try:
            text = data.decode(encoding)
        except UnicodeError as error:
            line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
            raise FileFormatError(
                f"{label}, line {line}: the text is not {encoding}: pass another ", Argument("encoding"), "."
            ) from None
        return text.encode("utf-8", "replace"), [_note(encoding, "as asked for")]
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decoded(data, name, "by its byte order mark")
    if b"\0" in data:
        wide = _wide_text(data)
        return (data, []) if wide is None else _decoded(data, wide, "every other byte is zero")
    if data.isascii():
        return data, []
    try:
        data.decode("utf-8")
        return data, []
    except UnicodeDecodeError:
        return _decoded(data, "cp1252", "not UTF-8") if _is_western(data) else (data, [])


def _decoded(data: bytes, encoding: str, why: str) -> tuple[bytes, list[Note]]:
    try:
        return data.decode(encoding).encode("utf-8"), [_note(encoding, why)]
    except UnicodeError:  # the reader reports what is wrong with the bytes
        return data, []


def _note(encoding: str, why: str) -> Note:
    choice = ("; ", Argument("encoding"), " names another)") if why != "as asked for" else (")",)
    return Note("encoding", f"encoding {encoding} ({why}", *choice, encoding=encoding)


def _wide_text(data: bytes) -> str | None:
    """UTF-16 without a mark, in a text of mostly Latin letters: nearly all of one half of the bytes are zero."""
    even, odd = data[::2], data[1::2]
    zeros = even.count(0) / max(1, len(even)), odd.count(0) / max(1, len(odd))
    if len(data) % 2 or max(zeros) < 0.7 or min(zeros) > 0:
        return None
    return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"


def _is_western(data: bytes) -> bool:
    """Whether bytes are rather cp1252 than anything else: its accented letters stand in words of plain letters.

    Text of another alphabet decodes as well, but to words of accented letters only.
    """
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    accented = sum(not letter.isascii() for word in words for letter in word)
    others = {sign for sign in text if not sign.isascii() and not sign.isalpha()}
    return others <= _SIGNS and accented <= 0.4 * sum(map(len, words))
