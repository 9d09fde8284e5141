"""Dates in text as numbers: days since 1970."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from softcut.tables.arrays import is_missing

ISO = "iso"
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_DAYS = (
    *("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y"),
)  # fmt: skip
_FORMATS = (
    *(ISO, "%Y%m%d", "%Y-%m", "%m/%Y", "%Y"),
    *(day + clock for clock in ("", " %H:%M", " %H:%M:%S") for day in _DAYS),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_of(moment: date) -> float:
    """Days since 1970, of a date or a time; without a time zone it counts as UTC."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - _EPOCH) / timedelta(days=1)


def day_of(text: str, format: str) -> float | None:
    """Days since 1970 of one text; None where it is no date of this format."""
    text = text.strip()
    try:
        if format == ISO:
            return days_of(datetime.fromisoformat(text)) if _ISO.fullmatch(text) else None
        return days_of(datetime.strptime(text, format))
    except (ValueError, OverflowError):
        return None


def days_of_texts(texts: Sequence[str], format: str) -> tuple[np.ndarray, int | None]:
    """Days since 1970 [N], NaN where missing, and the first row that is neither a date nor missing.

    >>> days_of_texts(["1970-01-03", "", "1970-01-01T12:00"], ISO)
    (array([2. , nan, 0.5]), None)
    """
    known = {text: np.nan if is_missing(text) else day_of(text, format) for text in set(texts)}
    wrong = next((row for row, text in enumerate(texts) if known[text] is None), None)
    return np.array([np.nan if (day := known[text]) is None else day for text in texts]), wrong


def formats_of_texts(texts: Sequence[str]) -> list[str]:
    """The formats that every text has that is not missing, with different dates: more than one is ambiguous.

    >>> formats_of_texts(["31.1.2020", "1.2.2020"]), formats_of_texts(["1/2/2020"])
    (['%d.%m.%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    """
    present = [text for text in dict.fromkeys(texts) if not is_missing(text)]
    by_days: dict[tuple[float | None, ...], str] = {}
    for format in _FORMATS if present else ():
        if day_of(present[0], format) is None:
            continue
        days = tuple(day_of(text, format) for text in present)
        if None not in days:
            by_days.setdefault(days, format)
    return list(by_days.values())
