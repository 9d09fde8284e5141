"""``softcut segment``: divide a photograph into segments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from softcut import __version__
from softcut.cli.cluster import whole_number
from softcut.cli.console import err, note, say_written, show, spoken_warnings
from softcut.cli.output import Device, OutFolder, Output, Overwrite
from softcut.files import atomic_json
from softcut.report.tables import Cell, Table

RESULT_FILES = ("labels.png", "overlay.png", "segments.json")


def segment(
    photo: Annotated[Path, typer.Argument(help="An image: PNG, JPEG, TIFF, ...")],
    k: Annotated[str, typer.Option("-k", "--segments", help="Number of segments, or 'auto'.")] = "auto",
    method: Annotated[str, typer.Option(help="'mincut', 'ncut' or 'diffpool'.")] = "mincut",
    regions: Annotated[
        str, typer.Option(help="The over-segmentation: 'felzenszwalb' or 'slic'.")
    ] = "felzenszwalb",
    texture: Annotated[bool, typer.Option(help="Whether texture counts beside colour.")] = True,
    position: Annotated[bool, typer.Option(help="Whether position counts: compact segments.")] = False,
    out_dir: OutFolder = None,
    overwrite: Overwrite = False,
    max_pixels: Annotated[
        int | None, typer.Option(min=1, help="A larger image is divided at a smaller size.")
    ] = None,
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Random state.")] = 0,
    device: Device = "auto",
) -> None:
    """Divide a photograph into segments; writes their numbers, an overlay and their sizes and colours."""
    from softcut.report.clustering_files import write_segments
    from softcut.segment import segment_image
    from softcut.segment.segmentation import MAX_PIXELS

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder(out_dir or Path(f"{photo.stem or 'image'}-segments"), RESULT_FILES)
    with spoken_warnings(), err.status("dividing the image"):
        segmentation = segment_image(
            photo,
            k if k == "auto" else whole_number("--segments", k, "a whole number or 'auto'", k),
            method=method,
            regions=regions,
            texture=texture,
            position=position,
            random_state=random_state,
            device=device,
            max_pixels=max_pixels or MAX_PIXELS,
        )
    for text in segmentation.notes:
        note(text)
    segments = _described(segmentation)
    about = {
        "image": photo.name,
        "softcut": __version__,
        "width": segmentation.labels.shape[1],
        "height": segmentation.labels.shape[0],
        "method": method,
        "regions": len(segmentation.region_labels),
        "segments": segments,
        "notes": segmentation.notes,
        "seconds": time.perf_counter() - start,
    }
    with output:
        write_segments(folder.staged, segmentation)
        atomic_json(folder.staged / "segments.json", about)
    rows: list[list[str | Cell]] = [
        [str(number), Cell(f"{100 * each['share']:.1f} %"), Cell(each["colour"])]
        for number, each in enumerate(segments)
    ]
    title = f"{photo.name}: {segmentation.n_segments} segments of {len(segmentation.region_labels):,} regions"
    show(Table(["segment", "share of the image", "mean colour"], rows, title))
    say_written(output.written)


def _described(segmentation: Any) -> list[dict[str, Any]]:
    """Share and mean colour of every segment."""
    labels, regions = segmentation.region_labels, segmentation.regions
    area = np.bincount(labels, weights=regions.area)
    colours = [np.bincount(labels, weights=regions.area * channel) / area for channel in regions.rgb.T]
    return [
        {"share": float(size / area.sum()), "colour": "#" + "".join(f"{round(255 * c):02x}" for c in colour)}
        for size, *colour in zip(area, *colours, strict=True)
    ]
