"""BSDS500: photographs that several people divided into segments, each in his own way.

P. Arbelaez, M. Maire, C. Fowlkes and J. Malik, Contour Detection and Hierarchical Image Segmentation, TPAMI 2011; for
research and education. Looked for in ``$SOFTCUT_DATA/bsds500/SPLIT``, then in the cache, with the folders ``images``
and ``groundTruth``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from softcut.datasets import fetching
from softcut.errors import DataError, ParameterError, require

URL = "https://github.com/BIDS/BSDS500/raw/master/BSDS500/data/"
SPLITS = ("train", "val", "test")
# SHA-256 over the SHA-256 of every image and its segmentations, in the order of the names.
_VALIDATION_CHECKSUM = "abb05e6b3813cfec0cd11497d6bc056256fada8651592ca2e86fabb25cef9724"
_VALIDATION_NAMES = (
    "101085 101087 102061 103070 105025 106024 108005 108070 108082 109053 119082 12084 123074 126007 "
    "130026 134035 14037 143090 145086 147091 148026 148089 156065 157055 159008 160068 16077 163085 "
    "167062 167083 170057 175032 175043 182053 189080 19021 196073 197017 208001 210088 21077 216081 "
    "219090 220075 223061 227092 229036 236037 24077 241004 241048 253027 253055 260058 271035 285079 "
    "291000 295087 296007 296059 299086 300091 302008 304034 304074 306005 3096 33039 351093 361010 37073 "
    "376043 38082 38092 385039 41033 41069 42012 42049 43074 45096 54082 55073 58060 62096 65033 66053 "
    "69015 69020 69040 76053 78004 8023 85048 86000 86016 86068 87046 89072 97033"
)


@dataclass(frozen=True)
class DividedImage:
    """A photograph and how people divided it; `name` is its number in the data set."""

    name: str
    image_path: Path
    people_path: Path

    def image(self) -> NDArray[np.uint8]:
        """The photograph, uint8 [H, W, 3]."""
        images = require("PIL.Image", "images", "Reading images")
        with fetching.reading(f"{self.image_path} cannot be read as an image"):
            return np.asarray(images.open(self.image_path).convert("RGB"))

    def people(self) -> list[NDArray[np.int64]]:
        """The segments that each person drew, [H, W] numbers from 1 on."""
        with fetching.reading(f"{self.people_path} cannot be read as segmentations of BSDS500"):
            truth = loadmat(self.people_path)["groundTruth"]
            return [np.asarray(each["Segmentation"][0, 0], dtype=np.int64) for each in truth.ravel()]


def load_bsds500(
    split: str = "val", root: str | os.PathLike[str] | None = None, *, download: bool = True
) -> list[DividedImage]:
    """The images of a split ("val", "train" or "test"), in the order of their names.

    Only the validation images have a known checksum and are downloaded, unless `download` is False. `root` is a folder
    that holds ``bsds500``, in place of ``$SOFTCUT_DATA`` and the cache.
    """
    if split not in SPLITS:
        raise ParameterError(
            f"split must be one of {', '.join(map(repr, SPLITS))}, got {split!r}.", argument="split"
        )
    roots = fetching.search_roots(root)
    for place in roots:
        folder = place / "bsds500" / split
        images = _images(folder)
        if images and (split != "val" or len(images) == len(_VALIDATION_NAMES.split())):
            break
    else:
        if split != "val" or not download:
            advice = fetching.advice(root)
            raise DataError(
                f"The {split} images of BSDS500 are not in {roots[0] / 'bsds500' / split}: {advice} that holds "
                f"bsds500/{split}/images and bsds500/{split}/groundTruth."
            )
        images = _download(roots[-1] / "bsds500" / split)
    if split == "val" and _checksum(images) != _VALIDATION_CHECKSUM:
        raise DataError(
            f"{images[0].image_path.parents[1]} does not hold the published validation images of BSDS500: delete it "
            "and load them again."
        )
    return images


def _images(folder: Path) -> list[DividedImage]:
    """The images of a folder that have segmentations."""
    candidates = (
        DividedImage(path.stem, path, folder / "groundTruth" / f"{path.stem}.mat")
        for path in sorted((folder / "images").glob("*.jpg"))
    )
    return [image for image in candidates if image.people_path.is_file()]


def _checksum(images: Sequence[DividedImage]) -> str:
    digest = hashlib.sha256()
    for image in images:
        for path in (image.image_path, image.people_path):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _download(folder: Path) -> list[DividedImage]:
    checks: dict[str, Callable[[Path], object]] = {
        "images/{}.jpg": lambda path: DividedImage("", path, path).image(),
        "groundTruth/{}.mat": lambda path: DividedImage("", path, path).people(),
    }
    for name in _VALIDATION_NAMES.split():
        for file, check in checks.items():
            target = folder / file.format(name)
            if not target.is_file():
                url = f"{URL}{target.parent.name}/val/{target.name}"
                fetching.fetch(url, target, check, "bsds500")
    return _images(folder)
