"""Beyond the figure of E2: images of BSDS500 divided by minCUT and others, scored against what people drew.

All methods but felzenszwalb divide the same regions. Each has one scale (the number of segments, or what it has in
place of it) on a grid of six to ten values. ODS: the best value for all images; OIS: the best for each image. Nothing
else is chosen by what people drew. Settings were found on the validation images, which therefore are no test.
"""

from __future__ import annotations

import time
from argparse import BooleanOptionalAction
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from softcut.baselines import spectral
from softcut.clustering import GraphClustering
from softcut.datasets.bsds500 import SPLITS, DividedImage, load_bsds500
from softcut.errors import ParameterError
from softcut.files import atomic_json
from softcut.paper import commands, segmentation_figure
from softcut.paper.runs import (
    Records,
    RunSession,
    Tell,
    cells,
    check_names,
    estimator_settings,
    keyword_settings,
    quiet,
)
from softcut.paper.segmentation_figure import RECURSIVE_CUTS, OverSegmented, paper_mincut, recursive_cut
from softcut.report.tables import Cell, Table
from softcut.segment import MincutSettings, as_rgb, mincut_regions, over_segment
from softcut.segment.methods import weighted_kmeans
from softcut.segment.region_graph import COLOUR_WIDTH, HISTOGRAM_WIDTH
from softcut.segment.scores import SegmentationScores, overlap_table, table_scores
from softcut.training import replica_seeds

# Names of the scores, and whether the highest is best.
METRICS = {"covering": True, "rand_index": True, "variation": False}
OURS = "mincut"

# Arbelaez et al. (TPAMI 2011), 200 test images: ODS, OIS. People have no scale.
PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {
    "people": {"covering": (0.72, None), "rand_index": (0.88, None), "variation": (1.17, None)},
    "gPb-owt-ucm": {"covering": (0.59, 0.65), "rand_index": (0.83, 0.86), "variation": (1.69, 1.48)},
    "mean shift": {"covering": (0.54, 0.58), "rand_index": (0.79, 0.81), "variation": (1.85, 1.64)},
    "felzenszwalb": {"covering": (0.52, 0.57), "rand_index": (0.80, 0.82), "variation": (2.21, 1.87)},
    "normalised cuts": {"covering": (0.45, 0.53), "rand_index": (0.78, 0.80), "variation": (2.23, 1.89)},
}

# One grid for all methods that are told the number of segments.
CLUSTERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
SCALES: dict[str, Sequence[float]] = {
    "mincut": CLUSTERS,
    "spectral": CLUSTERS,
    "kmeans": CLUSTERS,
    "cut_normalized": (1e-6, 2e-4, 3e-3, 3e-2, 1e-1, 3e-1),  # how much a cut may cost
    "felzenszwalb": (100, 200, 300, 500, 700, 1000, 1500, 2500),  # how large regions should be
    "MinCutPool": CLUSTERS,
    "estimator": CLUSTERS,
}
METHODS = tuple(SCALES)
# The paper's network takes up to 40,000 steps of 1e-3; on the benchmark's 1,000 graphs fewer and longer ones.
_BENCHMARK_STEPS: dict[str, Any] = {"max_iter": 200, "learning_rate": 2e-2}
_BENCHMARK_SEEDS = 2
_WIDTHS = {"histogram_width": HISTOGRAM_WIDTH, "colour_width": COLOUR_WIDTH}


def _paper(image: OverSegmented, k: float) -> NDArray[np.int64]:
    labels, loss = paper_mincut(
        image.similarity, int(k), replica_seeds(0, _BENCHMARK_SEEDS), **_BENCHMARK_STEPS
    )
    return labels[int(loss.argmin())]


_LABELS: dict[str, Callable[[OverSegmented, float], NDArray[np.int64]]] = {
    "mincut": lambda image, k: mincut_regions(image.graph, int(k), area=image.described.area),
    "spectral": lambda image, k: spectral(image.graph, int(k)),
    # Of the mean colours in Lab; a region counts as many times as it has pixels.
    "kmeans": lambda image, k: weighted_kmeans(image.described.lab, int(k), image.described.area, n_init=10),
    "cut_normalized": recursive_cut,
    "MinCutPool": _paper,
    "estimator": lambda image, k: GraphClustering(int(k), random_state=0, device="cpu").fit_predict(
        image.graph
    ),
}


def labels_of(method: str, image: OverSegmented, scale: float) -> NDArray[np.int64]:
    """Segment of every region [N]; of felzenszwalb, of every pixel [H, W]."""
    if method == "felzenszwalb":
        return over_segment(as_rgb(image.image), scale=scale)
    if scale >= image.count:  # each region a segment of its own
        return np.arange(image.count)
    return _LABELS[method](image, scale)


def settings_of(method: str) -> dict[str, Any]:
    """Everything that decides a method's result besides the image."""
    own: dict[str, dict[str, Any]] = {
        "mincut": _WIDTHS | {"weight": "area"} | asdict(MincutSettings()),
        "estimator": _WIDTHS | estimator_settings(GraphClustering(2)),
        "MinCutPool": {"seeds": _BENCHMARK_SEEDS} | keyword_settings(paper_mincut, **_BENCHMARK_STEPS),
        "cut_normalized": {"num_cuts": RECURSIVE_CUTS},
        "spectral": _WIDTHS | keyword_settings(spectral),
    }
    return {"scales": list(SCALES[method]), **own.get(method, {})}


def run(
    out: str | Path,
    methods: Sequence[str] | None = None,
    images: int | None = None,
    *,
    split: str = "val",
    minutes: float | None = None,
    data: str | Path | None = None,
    tell: Tell = quiet,
) -> list[dict[str, Any]]:
    """Divide what was not divided yet; writes ``segmentation.json`` (cells) and ``segmentation_runs.json``.

    A run is one image divided by one method at all its scales; it counts as finished only where all its settings are
    those asked for.
    """
    names = list(methods or METHODS)
    check_names(names, METHODS, "methods")
    if images is not None and images < 1:
        raise ParameterError(f"images must be at least 1, got {images}.", argument="images")
    chosen = load_bsds500(split, data)[:images]
    stem = "segmentation" if split == "val" else f"segmentation_{split}"
    session = RunSession(out, minutes=minutes, tell=tell)
    records = session.records(stem)
    for number, image in enumerate(chosen):
        missing = [m for m in names if records.missing(_dataset(split, image), m, [0], settings_of(m))]
        if missing and not session.out_of_time:
            tell(f"image {number + 1} of {len(chosen)}: {', '.join(missing)}")
            records.add(_divide(split, image, missing), "cpu")
    count = "" if images is None else f" --images {images}"
    source = "" if split == "val" else f" --split {split}"
    made = summary(records, chosen, split, f"softcut reproduce segmentation{count}{source}")
    part = "" if images is None else f"_first_{images}"
    atomic_json(session.out / f"{stem}{part}.json", made)
    return made


def _dataset(split: str, image: DividedImage) -> str:
    return f"bsds500-{split}/{image.name}"


def _divide(split: str, image: DividedImage, methods: Sequence[str]) -> list[dict[str, Any]]:
    """One image by some methods, each at all its scales."""
    parts = OverSegmented(image.image())
    people = image.people()
    tables = [overlap_table(parts.regions, person) for person in people]
    _ = parts.described  # shared by methods: not part of any one's time
    runs = []
    for method in methods:
        start = time.perf_counter()
        labels = [labels_of(method, parts, scale) for scale in SCALES[method]]
        seconds = time.perf_counter() - start
        scores = [_scores(each, tables, people) for each in labels]
        runs.append(
            {
                "dataset": _dataset(split, image),
                "method": method,
                "seed": 0,
                "settings": settings_of(method),
                "regions": parts.count,
                "segments": [len(np.unique(each)) for each in labels],
                **{name: [round(getattr(s, name), 5) for s in scores] for name in METRICS},
                "seconds": round(seconds, 3),
            }
        )
    return runs


def _scores(
    labels: NDArray[np.int64], tables: Sequence[NDArray[np.int64]], people: Sequence[NDArray[np.int64]]
) -> SegmentationScores:
    """The mean over people; labels of regions are scored by the pixels that regions share with people's segments."""
    if labels.ndim == 2:
        shared = [overlap_table(labels, person) for person in people]
    else:
        numbers = np.unique(labels, return_inverse=True)[1]
        shared = []
        for table in tables:
            merged = np.zeros((int(numbers.max()) + 1, table.shape[1]), dtype=np.int64)
            np.add.at(merged, numbers, table)
            shared.append(merged)
    each = [table_scores(table) for table in shared]
    return SegmentationScores(*(float(np.mean([getattr(s, name) for s in each])) for name in METRICS))


def summary(
    records: Records, images: Sequence[DividedImage], split: str, command: str
) -> list[dict[str, Any]]:
    """Cells of the table: for each method and score the mean at the best scale for all (ODS) and for each (OIS).

    `p` is that of Wilcoxon's signed-rank test, two-sided, over the images that both minCUT and the method have
    divided; `gain` the mean of minCUT minus that of the method on them.
    """
    by_image: dict[tuple[str, str], dict[str, float]] = {}  # scores by method and metric
    made = []
    for method in METHODS:
        asked = (_dataset(split, image) for image in images)
        runs = [run for name in asked for run in records.of(name, method, [0], settings_of(method))]
        for name, high in METRICS.items() if runs else ():
            scores = np.array([run[name] for run in runs])
            place = int(scores.mean(axis=0).argmax() if high else scores.mean(axis=0).argmin())
            best = scores.max(axis=1) if high else scores.min(axis=1)
            scale = runs[0]["settings"]["scales"][place]
            for kind, values, at in (("ods", scores[:, place], scale), ("ois", best, None)):
                metric = f"{name}_{kind}"
                own = dict(zip((run["dataset"] for run in runs), values.tolist(), strict=True))
                by_image[method, metric] = own
                published = PUBLISHED.get(method, {}).get(name, (None, None))[kind == "ois"]
                scored = [{**run, metric: value} for run, value in zip(runs, values, strict=True)]
                (cell,) = cells(scored, [metric], {}, command)
                cell |= {"dataset": f"bsds500-{split}", "paper_mean": published, "scale": at}
                made.append(cell | _against(by_image.get((OURS, metric), {}), own, method))
    return made


def _against(ours: Mapping[str, float], other: Mapping[str, float], method: str) -> dict[str, Any]:
    shared = [name for name in other if name in ours]
    if method == OURS or len(shared) < 2:
        return {"gain": None, "p": None}
    gain = np.array([ours[name] - other[name] for name in shared])
    p = float(stats.wilcoxon(gain).pvalue) if np.any(gain) else 1.0
    return {"gain": round(float(gain.mean()), 4), "p": float(f"{p:.2g}")}


def table(measured: Sequence[Mapping[str, Any]]) -> Table:
    """ODS / OIS of every method beside the published figures; stars where p < 0.05.

    >>> cell = {"method": "kmeans", "metric": "covering_ods", "mean": 0.4561, "n": 100, "p": 0.001, "gain": 0.09}
    >>> [entry.text for entry in table([cell]).rows[0][1:]]
    ['100', '.456* / -', '- / -', '- / -']
    """
    by_name = {(c["method"], c["metric"]): c for c in measured}

    def shown(method: str, metric: str) -> str:
        cell = by_name.get((method, metric))
        star = "*" if cell is not None and cell["p"] is not None and cell["p"] < 0.05 else ""
        return "-" if cell is None else _short(cell["mean"], 3) + star

    rows: list[list[str | Cell]] = []
    for method in dict.fromkeys(c["method"] for c in measured):
        count = max(c["n"] for c in measured if c["method"] == method)
        numbers = [f"{shown(method, f'{m}_ods')} / {shown(method, f'{m}_ois')}" for m in METRICS]
        rows.append([method, *map(Cell, [str(count), *numbers])])
    for method, scores in PUBLISHED.items():
        numbers = [" / ".join("-" if v is None else _short(v, 2) for v in scores[m]) for m in METRICS]
        rows.append([f"{method} (published, test images)", *map(Cell, ["200", *numbers])])
    return Table(["method", "images", "covering", "Rand index", "variation of information"], rows)


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


@commands.command(
    "softcut.paper.segmentation",
    commands.choices("--method", METHODS),
    commands.option("--images", type=commands.numeric(int, 1), help="how many images, from the first"),
    commands.option(
        "--split",
        type=commands.one_of(SPLITS),
        default="val",
        help="images: val, test or train (default val)",
    ),
    commands.option(
        "--figure", action=BooleanOptionalAction, default=True, help="also the figure of some pictures"
    ),
    commands.MINUTES,
    commands.DATA,
)
def main(given: Any, screen: commands.Screen) -> None:
    """E2: images of BSDS500 scored against what people drew, and the figure; an interrupted run resumes."""
    options = {name: getattr(given, name) for name in ("images", "split", "minutes", "data")}
    with screen.working() as bar:
        made = run(given.out, given.method, **options, tell=bar.tell)
        pictures = segmentation_figure.draw(given.out, data=given.data, tell=bar.tell) if given.figure else []
    screen.show(table(made), *(f"Picture: {picture}" for picture in pictures))


if __name__ == "__main__":
    main()
