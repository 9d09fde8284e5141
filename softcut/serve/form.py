"""The form of the local page: its fields, and what was filled in, checked.

The fields of reading are made from the options that `read_graph` declares, as those of the command line are.
"""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from softcut.errors import Argument, FileFormatError, ParameterError, Sentence
from softcut.io.read_options import READ_OPTIONS, choices_of, is_about_features, meaning_of, words_of

GRAPHS = (
    *(".csv", ".tsv", ".txt", ".edges", ".edgelist", ".xlsx", ".graphml", ".gexf", ".gml", ".net", ".json"),
    *(".mtx", ".npz"),
)
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
FEATURES = (".csv", ".tsv", ".txt", ".xlsx", ".npy", ".npz")
ATTRIBUTES = "attributes"  # in place of a file of features: the attributes of nodes in the file of the graph
MOST_CLUSTERS = 100
_LONGEST = 1000  # characters of a field
# A field of its own, and limits of the server: the ending says what a file is, and some formats are not taken.
_OWN = {"features", "max_bytes", "format"}
_ORDER = ("file", "features", ATTRIBUTES, "k", "seed")
# What the page calls arguments that are no options of reading.
_CALLED = {
    "n_clusters": "the number of clusters",
    "k": "the number of clusters",
    "random_state": "the seed",
    "features": "the features",
}


@dataclass(frozen=True)
class Field:
    """An option of reading as a field: a text, a choice of `choices` (value and words), or a box to tick."""

    name: str
    label: str
    help: str
    about_features: bool
    choices: tuple[tuple[str, str], ...]
    tick: bool
    several: bool

    def said(self, value: Any) -> str:
        """How a sentence names the field, with a value to fill in."""
        if value is ... or self.tick:
            return f"'{self.label}'"
        words = words_of(value, READ_OPTIONS[self.name][0])
        if isinstance(value, bool) and self.choices:
            words = [dict(self.choices)["yes" if value else "no"]]
        return f"'{self.label}: {', '.join(words)}'"


@cache
def reading_fields() -> dict[str, Field]:
    """The fields of reading by name, those about features first."""
    fields = []
    for name, (option, default) in READ_OPTIONS.items():
        if name in _OWN:
            continue
        flags = [flag.strip("-").replace("-", " ") for flag in option.flags[0].split("/")]
        choices = tuple((word, word) for word in choices_of(name))
        choices = tuple(sorted(choices, key=lambda choice: choice[0] != default))  # the default comes first
        if len(flags) > 1:
            choices = (("", "as the file says"), ("yes", flags[0]), ("no", flags[1]))
        tick = True in option.words
        several = option.type == list[str]
        about = is_about_features(name)
        said = re.sub(r"; may be given again(, or as a,b,c)?", "", option.help)  # a field holds several
        fields.append(Field(name, flags[0], said, about, choices, tick, several))
    return {field.name: field for field in sorted(fields, key=lambda field: not field.about_features)}


def worded(text: str) -> str:
    """A sentence with the page's fields in place of arguments."""

    def word(argument: Argument) -> str:
        field = reading_fields().get(argument.name)
        return _CALLED.get(argument.name, str(argument)) if field is None else field.said(argument.value)

    return text.worded(word) if isinstance(text, Sentence) else str(text)


def most_fields() -> int:
    """Fields that a form may have."""
    return len(_ORDER) + len(reading_fields())


def read_form(form: Any, folder: Path) -> dict[str, Any]:
    """Save the uploaded files into a folder; what is to be done, as `softcut.serve.worker` takes it."""
    unknown = sorted(set(form) - set(_ORDER) - set(reading_fields()))
    if unknown:
        raise ParameterError(
            f"there is no field called {unknown[0][:40]!r}; reload the page.", argument=unknown[0]
        )
    file = _saved(form.get("file"), folder, (*GRAPHS, *PICTURES), "file")
    features = _saved(form.get("features"), folder, FEATURES, "features")
    alone = file is None  # the nearest rows of the features are connected
    file = features if file is None else file
    if file is None:
        raise ParameterError(
            "no file was sent: drop in an edge list, a picture or a table of features.", argument="file"
        )
    if features == file and not alone:
        raise ParameterError(
            "the graph and its features have the same file name; rename one of them.", argument="features"
        )
    if _text(form, ATTRIBUTES) not in ("", "yes"):
        raise ParameterError("'node attributes' is ticked or not; reload the page.", argument=ATTRIBUTES)
    if _text(form, ATTRIBUTES):
        if features is not None:
            raise ParameterError(
                "take a file of features or the node attributes, not both.", argument=ATTRIBUTES
            )
        features = ATTRIBUTES
    picture = file.lower().endswith(PICTURES)
    reading = {
        name: _meaning(field, text) for name, field in reading_fields().items() if (text := _text(form, name))
    }
    reading = {name: value for name, value in reading.items() if value != READ_OPTIONS[name][1]}
    k = _text(form, "k", "auto").strip()
    return {
        "file": file,
        "picture": picture,
        "features": features,
        "n_clusters": _picture_clusters(k, features, reading) if picture else _clusters(k),
        "seed": _seed(_text(form, "seed", "0").strip()),
        "reading": reading,
    }


def _text(form: Any, name: str, default: str = "") -> str:
    """What was written into a field, at most a line."""
    text = form.get(name, default)
    if not isinstance(text, str):
        raise ParameterError(f"the field {name!r} takes text, not a file; reload the page.", argument=name)
    if len(text) > _LONGEST:
        raise ParameterError(
            f"the field {name!r} has {len(text):,} characters, more than {_LONGEST:,}; shorten it.",
            argument=name,
        )
    if not text.replace("\t", " ").isprintable():  # a tab may be a delimiter
        raise ParameterError(
            f"the field {name!r} holds characters that cannot be shown; write it again.", argument=name
        )
    return text


def _meaning(field: Field, text: str) -> Any:
    """What a field says, as a value of the argument of `read_graph`."""
    option, default = READ_OPTIONS[field.name]
    given: Any = text.strip() or text  # a space alone may be a delimiter
    if field.tick:
        field = Field(**{**vars(field), "choices": (("yes", "ticked"),)})
    if field.choices and given not in dict(field.choices):
        known = ", ".join(words for _, words in field.choices)
        raise ParameterError(
            f"'{field.label}' must be one of: {known}; got {given[:40]!r}.", argument=field.name
        )
    if option.type is bool:
        given = given == "yes"
    elif option.type is int:
        if not re.fullmatch(r"0|[1-9][0-9]{0,8}", given):
            raise ParameterError(
                f"'{field.label}' must be a whole number, got {given[:40]!r}.", argument=field.name
            )
        given = int(given)
    elif field.several:
        given = [each.strip() for each in next(csv.reader([given], skipinitialspace=True)) if each.strip()]
    return meaning_of(given, option, default)


def _clusters(k: str) -> int | str | range:
    """'auto' (or nothing), a number, or all numbers of a range: 2-12 or, as on the command line, 2:12."""
    if k in ("", "auto"):
        return "auto"
    ends = re.fullmatch(r"([1-9][0-9]{0,2})(?:\s*[-:\u2013]\s*([1-9][0-9]{0,2}))?", k)
    if ends is not None:
        low, high = int(ends[1]), int(ends[2] or ends[1])
        if low <= high <= MOST_CLUSTERS:
            return low if low == high else range(low, high + 1)
    raise ParameterError(
        f"the number of clusters must be left empty, or be 'auto', a number from 1 to {MOST_CLUSTERS} or a range such "
        f"as 2-12, got {_short(k)}.",
        argument="k",
    )


def _picture_clusters(k: str, features: str | None, reading: dict[str, Any]) -> int | str:
    """The same for a picture, of which nothing else is asked."""
    if features is not None:
        raise ParameterError(
            "a picture has no file of features: leave that field empty.", argument="features"
        )
    for name in reading:
        raise ParameterError(
            f"{reading_fields()[name].said(...)} is about graphs; leave it empty for a picture.",
            argument=name,
        )
    count = _clusters(k)
    if isinstance(count, range):
        raise ParameterError(
            f"a picture takes one number of segments or 'auto', not a range; got {_short(k)}.", argument="k"
        )
    return count


def _seed(text: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", text) or int(text) >= 2**32:
        raise ParameterError(
            f"the seed must be a whole number from 0 to 2^32 - 1, got {_short(text)}.", argument="seed"
        )
    return int(text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else f"{text[:20]}...")


def _saved(upload: Any, folder: Path, endings: tuple[str, ...], field: str) -> str | None:
    """Write an uploaded file under its own name, without anything that means something to a file system."""
    if upload is None or isinstance(upload, str) or not upload.filename:
        return None
    name = re.sub(r"[^A-Za-z0-9._ -]", "_", re.split(r"[/\\]", upload.filename)[-1]).strip(" .")[-80:]
    bare = name.lower().removesuffix(".gz")
    if not bare.endswith(endings) or bare in endings:
        raise FileFormatError(f"{field}: {name or 'the file'} must end in one of {', '.join(endings)}.")
    with (folder / name).open("wb") as target:
        shutil.copyfileobj(upload.file, target)
    return name
