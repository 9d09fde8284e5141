"""``softcut partition``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, cast

import typer

from softcut.cli.console import note, out, spoken_warnings
from softcut.cli.output import Output, Overwrite
from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.graph.partition import PartitionMethod

__all__ = ["partition"]


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
    folder = output.folder("--out", out_dir, PART_FILES)
    with spoken_warnings():
        data = read()
        with output:
            manifest = divide(
                data,
                parts,
                output.staged(folder),
                method=cast(PartitionMethod, method),
                paper=paper,
                seed=seed,
            )
    about = manifest.about
    if method == "auto" and about["method"] != "metis" and parts > 1:
        note("the parts are ranges of node numbers: METIS is not installed (pip install 'softcut[parts]').")
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
