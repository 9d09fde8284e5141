"""``softcut datasets``, ``demo``, ``partition``, ``segment``, ``report`` and ``serve``."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from softcut import __version__
from softcut.cli.cluster_options import whole_number
from softcut.cli.console import err, note, out, say_written, show, spoken_warnings
from softcut.cli.output import Device, OutFolder, Output, Overwrite
from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.errors import ParameterError, require
from softcut.files import atomic_json
from softcut.report.tables import Cell, Table

if TYPE_CHECKING:
    from softcut.graph.partition import PartitionMethod

_HOST = "127.0.0.1"
_SEGMENT_FILES = ("labels.png", "overlay.png", "segments.json")


def datasets(
    get: Annotated[
        str | None, typer.Option(help="Load (and download, if needed) a data set by name.")
    ] = None,
) -> None:
    """List the data sets known by name, and where they are."""
    from softcut.datasets import available, available_collections, load, load_graphs

    lists = available_collections()
    if get is not None:
        many = get.lower() in (info.name.lower() for info in lists)
        out.print(str(load_graphs(get) if many else load(get)), markup=False)
        return
    counts = ("nodes", "edges", "features", "classes")
    _show_datasets("Graphs", available(), counts)
    _show_datasets("Lists of graphs", lists, ("graphs", *counts))


def _show_datasets(title: str, infos: Any, counts: tuple[str, ...]) -> None:
    rows = [
        [
            info.name,
            *(Cell(f"{getattr(info, count):,}") for count in counts),
            str(info.path or "not here: downloaded when first used"),
        ]
        for info in infos
    ]
    show(Table(["name", *counts, "where"], rows, title))


def demo(
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    random_state: Annotated[int, typer.Option("--seed", help="Random state.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Cluster three generated graphs with four methods; prints a table and writes pictures and a report."""
    from softcut.report.demo import SCORES_MEAN, demo_table, run_demo
    from softcut.report.html_page import render_page

    output = Output(overwrite)
    pictures = ("communities.png", "grid.png", "attributed.png")
    folder = output.folder(out_dir, ("results.json", "report.html", *pictures))
    with output, err.status("starting") as status:
        rows, sections = run_demo(folder.staged, random_state, status.update)
        status.update("building the report")
        page = render_page("softcut demo", sections, f"Three generated graphs, four methods. {SCORES_MEAN}")
        (folder.staged / "report.html").write_text(page, encoding="utf-8")
    show(demo_table(rows))
    out.print(f"Pictures and results.json are in {out_dir}/", markup=False, soft_wrap=True)
    out.print(f"Report: {out_dir / 'report.html'}", markup=False, soft_wrap=True)


@reads_a_graph
def partition(
    graph: GraphFile,
    read: ReadGraph,
    parts: Annotated[int, typer.Option("--parts", "-p", help="How many parts: one per process.")],
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Folder for the parts.")],
    overwrite: Overwrite = False,
    method: Annotated[
        str, typer.Option(help="'metis', 'contiguous', 'random', or 'auto': METIS where it is installed.")
    ] = "auto",
    paper: Annotated[
        bool, typer.Option("--paper", help="For the network of the paper, on the features as they are.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random state of the division.")] = 0,
) -> None:
    """Divide a graph into memory-mapped parts for distributed training.

    Train on them with: torchrun --nproc-per-node PARTS -m softcut.clustering.distributed OUT -k K
    """
    from softcut.clustering.distributed import partition as divide
    from softcut.io.part_files import PART_FILES

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder(out_dir, PART_FILES)
    with spoken_warnings():
        data = read()
        output.check_room(data.adjacency.data.nbytes + data.adjacency.indices.nbytes + 64 * data.num_nodes)
        with output:
            how = cast("PartitionMethod", method)
            manifest = divide(data, parts, folder.staged, method=how, paper=paper, seed=seed)
    about = manifest.about
    if method == "auto" and about["method"] != "metis" and parts > 1:
        note(
            "the parts are ranges of node numbers: right, but slower to train on than those of METIS, which is not "
            "installed (pip install 'softcut[parts]')."
        )
    halo = sum(manifest.halo) / manifest.nodes
    out.print(
        f"{manifest.nodes:,} nodes in {manifest.parts} parts of {min(manifest.rows):,} to {max(manifest.rows):,} "
        f"({about['method']}); {about['crossing_share']:.1%} of the edges cross; {halo:.2f} halo rows per node\n"
        f"features: {about['features']}\n"
        f"Written in {time.perf_counter() - start:.1f} s: {out_dir}\n"
        f"Train: torchrun --nproc-per-node {manifest.parts} -m softcut.clustering.distributed {out_dir} -k K",
        markup=False,
        soft_wrap=True,
    )


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
    folder = output.folder(out_dir or Path(f"{photo.stem or 'image'}-segments"), _SEGMENT_FILES)
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
    import numpy as np

    labels, regions = segmentation.region_labels, segmentation.regions
    area = np.bincount(labels, weights=regions.area)
    colours = [np.bincount(labels, weights=regions.area * channel) / area for channel in regions.rgb.T]
    return [
        {"share": float(size / area.sum()), "colour": "#" + "".join(f"{round(255 * c):02x}" for c in colour)}
        for size, *colour in zip(area, *colours, strict=True)
    ]


def report(
    out_file: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    overwrite: Overwrite = False,
) -> None:
    """Build one HTML file with every table, figure and measurement of a folder of results."""
    from softcut.paper.report_sections import write_report

    output = Output(overwrite)
    place = output.file("--out", out_file)
    with output, err.status("building the report"):
        write_report(results, place.staged / out_file.name)
    size = out_file.stat().st_size / 1e6
    out.print(f"Report: {out_file} ({size:.1f} MB)", markup=False, soft_wrap=True)


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8050,
    max_upload: Annotated[int, typer.Option(min=1, help="The most megabytes of an upload.")] = 50,
    max_jobs: Annotated[int, typer.Option(min=1, max=64, help="Jobs that may run at once.")] = 4,
    n_init: Annotated[int | None, typer.Option(min=1, help="Replicas of each fit.")] = None,
) -> None:
    """Open a local web page to try it: drop in a graph or a picture, see the clusters, download the labels.

    Only this machine can reach it. Ctrl-C ends it, its jobs and their files.
    """
    uvicorn = require("uvicorn", "serve", "softcut serve")
    require("starlette", "serve", "softcut serve")
    from softcut.serve.app import create_app
    from softcut.serve.jobs import Jobs

    with socket.socket() as listener, Jobs(most_running=max_jobs) as jobs:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
            listener.listen()
        except OSError as error:
            raise ParameterError(
                f"--port {port} cannot be used ({error.strerror}); choose another, or 0 for a free one."
            ) from error
        taken = listener.getsockname()[1]
        hosts = [f"{_HOST}:{taken}", f"localhost:{taken}"]
        app = create_app(jobs, hosts, max_upload * 1_000_000, n_init)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        out.print(f"softcut serves http://{_HOST}:{taken} (Ctrl-C ends it)", markup=False, soft_wrap=True)
        try:
            with _ended_by_hang_up(server):
                server.run(sockets=[listener])
        except KeyboardInterrupt:
            out.print("Ended.")


@contextlib.contextmanager
def _ended_by_hang_up(server: Any) -> Iterator[None]:
    """A terminal that is closed ends the server as Ctrl-C does; not under nohup."""
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
    before = signal.SIG_IGN if hang_up is None else signal.getsignal(hang_up)
    if hang_up is None or before is signal.SIG_IGN:
        yield
        return
    signal.signal(hang_up, server.handle_exit)
    try:
        yield
    finally:
        signal.signal(hang_up, before)
