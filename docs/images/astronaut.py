"""Draws docs/images/astronaut.png: a photo and its segments.

python docs/images/astronaut.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

import softcut as sc

WIDTH = 420  # of each half


def main() -> None:
    photo = data.astronaut()
    segments = sc.segment_image(photo, 6)
    halves = np.concatenate(
        [photo, np.full((len(photo), 12, 3), 255, np.uint8), segments.overlay(0.6)], axis=1
    )
    picture = Image.fromarray(halves)
    picture.thumbnail((2 * WIDTH, 2 * WIDTH), Image.Resampling.LANCZOS)
    # 128 colours are enough for a photo of this size, and a third of the bytes.
    picture.quantize(128).save(Path(__file__).with_name("astronaut.png"), optimize=True)


if __name__ == "__main__":
    main()
