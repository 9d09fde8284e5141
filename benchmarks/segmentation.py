"""Time of segment_image on a photograph of one megapixel beside scikit-image's recursive cut, and memory at twelve.

    python benchmarks/segmentation.py [--out results/segmentation_speed.json]

Both cluster the same over-segmentation, whose time is not counted: minCUT with the region graph, its texture and the
training, cut_normalized with rag_mean_color. The median of several runs in turn; the ratio is that of the times of
one process's CPU, which other processes disturb least. Memory is the largest of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from skimage import data, graph
from skimage.transform import resize

from softcut.files import atomic_json
from softcut.provenance import origin
from softcut.segment import as_rgb, cluster_regions, over_segment, region_graph, segment_image

K = 4


def photograph(megapixels: float) -> np.ndarray:
    """The photograph of a cup of coffee, enlarged to a number of megapixels, with the grain of a camera."""
    small = data.coffee()
    factor = (megapixels * 1e6 / (small.shape[0] * small.shape[1])) ** 0.5
    shape = (round(small.shape[0] * factor), round(small.shape[1] * factor), 3)
    large = resize(small.astype(np.float32) / 255, shape, order=3, anti_aliasing=False)
    grain = 0.01 * np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return (255 * np.clip(large + grain, 0, 1)).astype(np.uint8)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def speed(runs: int, megapixels: float) -> dict[str, Any]:
    image = photograph(megapixels)
    rgb = as_rgb(image)
    over = timed(lambda: over_segment(rgb))
    regions = over_segment(rgb)

    def ours() -> None:
        measured = region_graph(rgb, regions)
        cluster_regions(measured.graph, K, area=measured.area)

    ready = region_graph(rgb, regions)  # also loads what both of the following use
    parts = {
        "over_segmentation": over,
        "region_graph": timed(lambda: region_graph(rgb, regions)),
        "clustering": timed(lambda: cluster_regions(ready.graph, K, area=ready.area)),
    }

    def theirs() -> None:
        rag = graph.rag_mean_color(image, regions, mode="similarity")
        graph.cut_normalized(regions, rag, thresh=2e-4, num_cuts=20, rng=0)

    both = {"mincut": ours, "cut_normalized": theirs}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
    for _ in range(runs):
        for name, work in both.items():
            times[name].append(timed(work))
    measured: dict[str, Any] = {
        "pixels": int(regions.size),
        "regions": int(regions.max()) + 1,
        **{
            name: {"seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}
            for name, (wall, cpu) in parts.items()
        },
    }
    for name, values in times.items():
        wall, cpu = np.median(values, axis=0)
        measured[name] = {"seconds": round(float(wall), 2), "cpu_seconds": round(float(cpu), 2)}
    measured["ratio"] = round(
        measured["mincut"]["cpu_seconds"] / measured["cut_normalized"]["cpu_seconds"], 2
    )
    return measured


def memory(megapixels: float) -> None:
    """Divide an image and print the peak memory of this process in MiB."""
    image = photograph(megapixels)
    measured = segment_image(image, K)
    measured.overlay()
    print(
        json.dumps(
            {
                "pixels": measured.labels.size,
                "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/segmentation_speed.json"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--megapixels", type=float, nargs=2, default=(1.0, 12.0), help="for the times, and for the memory"
    )
    parser.add_argument("--memory", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        memory(given.memory)
        return
    torch.set_num_threads(2)
    words = [sys.executable, __file__, "--memory", str(given.megapixels[1])]
    peak = subprocess.run(words, capture_output=True, text=True, check=True)
    measured = {
        **speed(given.runs, given.megapixels[0]),
        "twelve_megapixels": json.loads(peak.stdout),
        **origin(),
    }
    atomic_json(given.out, measured)
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
