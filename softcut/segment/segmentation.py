"""segment_image: an image divided into K segments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation, find_objects

from softcut.clustering.arguments import seed_from
from softcut.device import choose_device
from softcut.errors import Argument, Note, ParameterError, require
from softcut.segment.images import as_rgb, check_choice, read_image, shrink
from softcut.segment.methods import METHODS, cluster_regions, number_of_segments
from softcut.segment.region_graph import RegionGraph, over_segment, region_graph

# Larger images are divided at a smaller size: segments are large, and time and memory grow with the pixels.
MAX_PIXELS = 1 << 20


@dataclass(frozen=True)
class Segmentation:
    """An image divided into segments."""

    labels: NDArray[np.int64]  # [H, W], segment of every pixel, the largest first
    image: NDArray[np.float32] = field(repr=False)  # [H, W, 3], RGB in [0, 1]
    regions: RegionGraph = field(repr=False)  # the over-segmentation and its graph, at the size it was made
    region_labels: NDArray[np.int64] = field(repr=False)  # [N], segment of every region
    notes: list[Note] = field(default_factory=list)  # what was decided on the way

    @property
    def n_segments(self) -> int:
        """How many segments there are."""
        return int(self.region_labels.max()) + 1

    def overlay(self, opacity: float = 0.5) -> NDArray[np.uint8]:
        """The image under the mean colours of its segments, with their borders: uint8 [H, W, 3].

        An `opacity` of 0 shows the image alone, 1 the colours alone.

        >>> import numpy as np
        >>> image = np.zeros((20, 20), dtype=np.uint8)
        >>> image[:, 10:] = 255
        >>> segment_image(image, 2).overlay().shape
        (20, 20, 3)
        """
        if not 0 <= opacity <= 1:
            raise ParameterError(f"opacity must be from 0 to 1, got {opacity!r}.", argument="opacity")
        segments = require("skimage.segmentation", "images", "Segmenting images")
        area = self.regions.area
        weight = np.bincount(self.region_labels, weights=area)
        colours = np.stack(
            [np.bincount(self.region_labels, weights=area * c) / weight for c in self.regions.rgb.T], axis=1
        ).astype(np.float32)
        mixed = self.image * np.float32(1 - opacity)
        mixed += np.float32(opacity) * colours[self.labels]
        width = max(1, round(max(self.labels.shape) / 800))  # a line that can be seen on large images too
        lines = segments.find_boundaries(self.labels, mode="inner" if width == 1 else "thick")
        if width > 1:
            lines = binary_dilation(lines, iterations=width // 2)
        mixed[lines] = (1.0, 0.85, 0.0)
        return np.asarray(mixed * 255 + 0.5).astype(np.uint8)

    def cut_outs(self) -> Iterator[NDArray[np.uint8]]:
        """Each segment alone, cropped to where it is: RGBA, uint8 [h, w, 4], transparent where others are.

        >>> import numpy as np
        >>> image = np.zeros((20, 20), dtype=np.uint8)
        >>> image[:, 12:] = 255
        >>> [pixels.shape for pixels in segment_image(image, 2).cut_outs()]
        [(20, 12, 4), (20, 8, 4)]
        """
        for number, box in enumerate(find_objects(self.labels + 1)):
            if box is not None:
                inside = self.labels[box] == number
                colours = (self.image[box] * 255 + 0.5).astype(np.uint8)
                yield np.dstack([colours * inside[..., None], np.where(inside, 255, 0).astype(np.uint8)])


def segment_image(
    image: Any,
    k: int | str = 4,
    *,
    method: str = "mincut",
    regions: str = "felzenszwalb",
    texture: bool = True,
    position: bool = False,
    random_state: int | np.random.RandomState | np.random.Generator | None = 0,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
) -> Segmentation:
    """Divide an image into segments: over-segmentation, region graph, clustering.

    Regions of one colour become the nodes of a graph; regions that touch are joined, the stronger the longer their
    border and the more alike their colour and texture. Its nodes are clustered into `k` segments.

    >>> import numpy as np
    >>> import softcut as sc
    >>> image = np.zeros((30, 40, 3), dtype=np.uint8)
    >>> image[:, 20:] = (250, 200, 0)
    >>> divided = sc.segment_image(image, 2)
    >>> divided.labels.shape, divided.n_segments, bool(divided.labels[0, 0] != divided.labels[0, -1])
    ((30, 40), 2, True)

    Parameters
    ----------
    image : array or path
        Grey, RGB or RGBA, of 8 or 16 bits or floats in [0, 1]; or an image file.
    k : int or "auto"
        Segments. "auto": one more than the number of ways in which the region graph can be cut cheaply, from 2 to 12.
    method : {"mincut", "ncut", "diffpool"}
        minCUT by consensus; spectral clustering (the normalised cut); DiffPool's auxiliary losses.
    regions : {"felzenszwalb", "slic"}
        The over-segmentation, see :func:`softcut.segment.over_segment`.
    texture : bool
        Whether texture counts beside colour in the weights of the graph.
    position : bool
        Whether the position of a region is a feature beside its mean colour: segments become more compact.
    random_state : int, None, RandomState or Generator
        An int gives the same segments every time on one device.
    device : str
        Where networks are trained: "auto" (a GPU where there is one), "cpu" or "cuda".
    max_pixels : int
        A larger image is divided at a smaller size; the labels have the size of the image.
    """
    check_choice("method", method, METHODS)
    auto = isinstance(k, str) and k == "auto"
    if not auto and (not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1):
        raise ParameterError(f"k must be a whole number of at least 1, or 'auto', got {k!r}.", argument="k")
    if not max_pixels >= 1:
        raise ParameterError(f"max_pixels must be positive, got {max_pixels!r}.", argument="max_pixels")
    rgb = as_rgb(read_image(image) if isinstance(image, str | os.PathLike) else image)
    small, factor = shrink(rgb, int(max_pixels))
    notes: list[Note] = []
    if factor > 1:
        notes.append(
            Note(
                "image_shrunk",
                f"divided at {small.shape[1]} x {small.shape[0]} pixels, 1/{factor} of the image's size; pass ",
                Argument("max_pixels"),
                " with a larger number to keep more.",
                factor=factor,
            )
        )
    numbers = over_segment(small, regions)
    count = int(numbers.max()) + 1
    if count == 1:
        raise ParameterError(
            "image is a single region of one colour: there is nothing to divide; give an image with more contrast.",
            argument="image",
        )
    if not auto and int(k) > count:
        raise ParameterError(
            f"k is {k}, but the image has only {count} regions of its own colour; ask for fewer segments.",
            argument="k",
        )
    features = ("colour", "position") if position else ("colour",)
    described = region_graph(small, numbers, features=features, weights="likeness" if texture else "colour")
    if auto:
        k = number_of_segments(described.graph)
        said = f"the image was divided into {k} segments; ", Argument("k"), " sets another number."
        notes.append(Note("segments_chosen", *said, segments=k))
    seed, area = seed_from(random_state), described.area
    labels = cluster_regions(described.graph, int(k), method, seed, choose_device(device), area=area)
    # The largest segment becomes number 0; clusters without a region are left out.
    used, labels = np.unique(labels, return_inverse=True)
    order = np.argsort(-np.bincount(labels, weights=area), kind="stable")
    labels = np.argsort(order)[labels]
    if len(used) < int(k):
        fewer = f"{len(used)} segments instead of {k}: the others are empty."
        notes.append(Note("segments_empty", fewer, segments=len(used)))
    pixels = described.paint(labels)
    if factor > 1:
        pixels = pixels.repeat(factor, axis=0).repeat(factor, axis=1)[: rgb.shape[0], : rgb.shape[1]]
    return Segmentation(pixels, rgb, described, labels, notes)
