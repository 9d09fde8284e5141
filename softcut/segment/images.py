"""Images of any kind as RGB in [0, 1]: from files and from arrays."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.errors import FileFormatError, ParameterError, require

# Larger files are refused before they are decoded: a small file can hold a very large image.
MAX_IMAGE_PIXELS = 200_000_000


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """An error that names the argument unless its value is one of `choices`."""
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ParameterError(f"{name} must be one of {known}, got {value!r}.", argument=name)


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The pixels of an image file (PNG, JPEG, TIFF, any format of Pillow), turned the way its camera noted.

    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.fromarray(np.zeros((4, 6), dtype=np.uint8)).save(folder + "/black.png")
    ...     read_image(folder + "/black.png").shape
    (4, 6)
    """
    image_module = require("PIL.Image", "images", "Reading images")
    operations = require("PIL.ImageOps", "images", "Reading images")
    path = Path(path)
    if not path.is_file():
        raise FileFormatError(f"{path} is not a file: name an image, such as a PNG or a JPEG.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", image_module.DecompressionBombWarning)
            with image_module.open(path) as file:
                if file.width * file.height > MAX_IMAGE_PIXELS:
                    raise ParameterError(
                        f"{path} has {file.width} x {file.height} pixels, more than {MAX_IMAGE_PIXELS:,}: make it "
                        "smaller first.",
                        argument="path",
                    )
                turned = operations.exif_transpose(file)
                if turned.mode in ("P", "PA"):
                    turned = turned.convert("RGBA")
                elif turned.mode not in ("1", "L", "LA", "RGB", "RGBA") and turned.mode[0] not in "IF":
                    turned = turned.convert("RGB")
                return np.asarray(turned)
    except ParameterError:
        raise
    except image_module.DecompressionBombError as error:
        raise ParameterError(
            f"{path} has more than {MAX_IMAGE_PIXELS:,} pixels: make it smaller first.", argument="path"
        ) from error
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, KeyError) as error:
        raise FileFormatError(
            f"{path} cannot be read as an image: name a PNG, JPEG or TIFF file that is complete ({error})."
        ) from error


def as_rgb(image: Any) -> NDArray[np.float32]:
    """An image as float32 RGB in [0, 1], [H, W, 3].

    Grey images become RGB, and transparent pixels are laid on white. Whole numbers of 8 and 16 bits are divided by
    their largest value; floats must lie in [0, 1].

    >>> import numpy as np
    >>> as_rgb(np.array([[0, 65535]], dtype=np.uint16))[0, :, 0].tolist()
    [0.0, 1.0]
    >>> as_rgb(np.array([[[255, 0, 0, 0]]], dtype=np.uint8)).ravel().tolist()      # red, but transparent
    [1.0, 1.0, 1.0]

    Parameters
    ----------
    image : array [H, W], [H, W, 1], [H, W, 2], [H, W, 3] or [H, W, 4]
        Grey, grey with alpha, RGB or RGBA.
    """
    pixels = np.asarray(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (2, 3, 4)):
        raise ParameterError(
            f"image must be [height, width] or [height, width, 2 to 4 channels], got the shape {pixels.shape}.",
            argument="image",
        )
    if 0 in pixels.shape:
        raise ParameterError(f"image has no pixels: its shape is {pixels.shape}.", argument="image")
    values = _unit_range(pixels)
    if values.ndim == 2:
        return np.repeat(values[:, :, None], 3, axis=2)
    if values.shape[2] in (2, 4):
        alpha = values[:, :, -1:]
        values = values[:, :, :-1] * alpha + (1 - alpha)
        if values.shape[2] == 1:
            values = np.repeat(values, 3, axis=2)
    return values


def _unit_range(pixels: NDArray[Any]) -> NDArray[np.float32]:
    if pixels.dtype == bool:
        return pixels.astype(np.float32)
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2:
        return pixels.astype(np.float32) / np.float32(np.iinfo(pixels.dtype).max)
    if pixels.dtype.kind in "iu":
        low, high = int(pixels.min()), int(pixels.max())
        if low < 0 or high > 65535:
            raise ParameterError(
                f"image must hold numbers from 0 to 255 or to 65535, got numbers from {low} to {high}.",
                argument="image",
            )
        return pixels.astype(np.float32) / np.float32(255 if high < 256 else 65535)
    if pixels.dtype.kind != "f":
        raise ParameterError(f"image must hold numbers, got the type {pixels.dtype}.", argument="image")
    if not np.isfinite(pixels).all():
        raise ParameterError(
            "image holds values that are no numbers (NaN or infinite): replace them first.", argument="image"
        )
    darkest, brightest = float(pixels.min()), float(pixels.max())
    if darkest < 0 or brightest > 1:
        raise ParameterError(
            f"image must hold floats from 0 to 1, got {darkest:g} to {brightest:g}: divide by the largest.",
            argument="image",
        )
    return pixels.astype(np.float32)


def shrink(rgb: NDArray[np.float32], max_pixels: int) -> tuple[NDArray[np.float32], int]:
    """The image by means over f x f pixels, f the smallest that leaves at most `max_pixels`; and f."""
    height, width = rows, columns = rgb.shape[:2]
    factor = 1
    while rows * columns > max_pixels:
        factor += 1
        rows, columns = -(-height // factor), -(-width // factor)
    if factor == 1:
        return rgb, 1
    padded = np.pad(rgb, ((0, rows * factor - height), (0, columns * factor - width), (0, 0)), mode="edge")
    return padded.reshape(rows, factor, columns, factor, 3).mean((1, 3)), factor
