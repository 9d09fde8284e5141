"""``softcut segment``: divide a photograph into segments."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from softcut import __version__
from softcut.cli.console import err, note, out, say_written, spoken_warnings, table
from softcut.cli.output import Device, Output, Overwrite
from softcut.errors import ParameterError

__all__ = ["segment"]

RESULT_FILES = ("labels.png", "overlay.png", "segments.json")
_LARGEST_LABEL = 65535  # of a PNG with 16 bits


def segment(
    photo: Annotated[Path, typer.Argument(help="An image: PNG, JPEG, TIFF, ...")],
    k: Annotated[str, typer.Option("-k", "--segments", help="Number of segments, or 'auto'.")] = "auto",
    method: Annotated[str, typer.Option(help="'mincut', 'ncut' or 'diffpool'.")] = "mincut",
    regions: Annotated[
        str, typer.Option(help="The over-segmentation: 'felzenszwalb' or 'slic'.")
    ] = "felzenszwalb",
    texture: Annotated[bool, typer.Option(help="Whether texture counts beside colour.")] = True,
    position: Annotated[bool, typer.Option(help="Whether position counts: compact segments.")] = False,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results; by default named after the image."),
    ] = None,
    overwrite: Overwrite = False,
    max_pixels: Annotated[
        int | None, typer.Option(min=1, help="A larger image is divided at a smaller size.")
    ] = None,
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Random state.")] = 0,
    device: Device = "cpu",
) -> None:
    """Divide a photograph into segments; writes their numbers, an overlay and their sizes and colours."""
    from softcut.segment import segment_image
    from softcut.segment.segmentation import MAX_PIXELS

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder("--out", out_dir or Path(f"{photo.stem or 'image'}-segments"), RESULT_FILES)
    with spoken_warnings(), err.status("dividing the image"):
        segmentation = segment_image(
            photo,
            _segments(k),
            method=method,
            regions=regions,
            texture=texture,
            position=position,
            random_state=random_state,
            device=device,
            max_pixels=MAX_PIXELS if max_pixels is None else max_pixels,
        )
    for text in segmentation.notes:
        note(text)
    about = {
        "image": photo.name,
        "softcut": __version__,
        "width": segmentation.labels.shape[1],
        "height": segmentation.labels.shape[0],
        "method": method,
        "regions": len(segmentation.region_labels),
        "segments": _described(segmentation),
        "notes": segmentation.notes,
        "seconds": time.perf_counter() - start,
    }
    with output:
        part = output.staged(folder)
        _write(part, segmentation, about)
        written = output.files_to_come()
    listing = table(
        f"{photo.name}: {segmentation.n_segments} segments of {len(segmentation.region_labels):,} regions",
        ("segment", "share of the image", "mean colour"),
    )
    for number, each in enumerate(about["segments"]):
        listing.add_row(str(number), f"{100 * each['share']:.1f} %", each["colour"])
    out.print(listing)
    say_written(written)


def _segments(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"--segments must be a whole number or 'auto', got {text!r}.") from None


def _described(segmentation: Any) -> list[dict[str, Any]]:
    """Share and mean colour of every segment."""
    area = np.bincount(segmentation.region_labels, weights=segmentation.regions.area)
    colours = np.stack(
        [
            np.bincount(segmentation.region_labels, weights=segmentation.regions.area * c) / area
            for c in segmentation.regions.rgb.T
        ],
        axis=1,
    )
    return [
        {"share": float(size / area.sum()), "colour": "#" + "".join(f"{round(255 * c):02x}" for c in colour)}
        for size, colour in zip(area, colours, strict=True)
    ]


def _write(folder: Path, segmentation: Any, about: dict[str, Any]) -> None:
    from PIL import Image

    kind = np.uint8 if segmentation.n_segments <= 256 else np.uint16
    if segmentation.n_segments > _LARGEST_LABEL + 1:
        raise ParameterError(f"--segments must be at most {_LARGEST_LABEL + 1:,}, to fit into labels.png.")
    Image.fromarray(segmentation.labels.astype(kind)).save(folder / "labels.png")
    Image.fromarray(segmentation.overlay()).save(folder / "overlay.png")
    (folder / "segments.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
