"""Numbers and names for people to read: commas between thousands, few digits, no exponents; short names."""

from __future__ import annotations

import math

_SMALLEST, _LARGEST = 1e-6, 1e15  # smaller and larger numbers are written with an exponent
_UNITS_UP_TO = 10_000  # smaller numbers are not rounded to tens: they may be years


def readable(value: float, digits: int = 3, apart: float | None = None) -> str:
    """A number with `digits` digits, or more where that is needed to see a difference of `apart`.

    >>> [readable(value) for value in (62_534.1, 1987, 0.031234, 41.0, -0.0)]
    ['62,500', '1987', '0.0312', '41', '0']
    >>> readable(62_534, apart=12), readable(0.02634, apart=6.0)
    ('62,534', '0.03')
    """
    size = abs(value)
    if not math.isfinite(value):
        return "-"
    if size == 0:
        return "0"
    if not _SMALLEST <= size < _LARGEST:
        return f"{value:.{digits - 1}e}"
    place = math.floor(math.log10(size)) - digits + 1  # of the last digit: 0 are units, 2 hundreds
    if size < _UNITS_UP_TO:
        place = min(place, 0)
    if apart:
        gap = math.floor(math.log10(abs(apart)))
        place = max(min(place, gap - 1), min(0, gap - 2))
    rounded = round(value, -place)
    separator = "," if abs(rounded) >= _UNITS_UP_TO else ""
    text = f"{rounded:{separator}.{min(max(0, -place), 15)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """A share in percent; only 0 is shown as 0 %, and only 1 as 100 %.

    >>> percent(0.654), percent(0.002), percent(0.998), percent(1.0)
    ('65 %', '<1 %', '>99 %', '100 %')
    """
    if not math.isfinite(share):
        return "-"
    whole = round(100 * share)
    if whole == 0 and share > 0:
        return "<1 %"
    return ">99 %" if whole == 100 and share < 1 else f"{whole} %"


def shortened(name: str, most: int) -> str:
    """A name of at most `most` characters, in one line, without control characters.

    >>> shortened("a long name", 7), shortened("two\\nlines", 20)
    ('a long…', 'two lines')
    """
    if not name.isprintable():
        name = "".join(c if c.isprintable() else " " for c in name)
    return name if len(name) <= most else name[: most - 1] + "…"
