"""Examples to click on the local page: files that go through the form like any upload."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A title, its file, perhaps one of features, and the number of clusters to ask for."""

    title: str
    file: str
    features: str = ""
    k: str = "auto"


_PHOTO = Example("A photo", "astronaut.png", k="6")


@cache
def examples() -> tuple[Example, ...]:
    """The examples there are; the photo is one of scikit-image's, which pictures need anyway."""
    graphs = (
        Example("Friends", "friends.csv"),
        Example("Friends and their hobbies", "friends.csv", "hobbies.csv", "2-8"),
    )
    return graphs if _photo() is None else (*graphs, _PHOTO)


def example_file(name: str) -> bytes | None:
    """The content of a file of an example; None where there is none of this name."""
    if name not in {file for each in examples() for file in (each.file, each.features)} - {""}:
        return None
    photo = _photo()
    if photo is not None and name == _PHOTO.file:
        return photo.read_bytes()
    return files("softcut.serve").joinpath("example_files", name).read_bytes()


def _photo() -> Path | None:
    """Where the photo is; scikit-image is not loaded for it."""
    spec = find_spec("skimage")
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / "data" / _PHOTO.file
    return path if path is not None and path.is_file() else None
