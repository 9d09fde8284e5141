"""Beyond the figure of E2: images of BSDS500 divided by minCUT and others, scored against what people drew.

All methods but felzenszwalb divide the same regions. Each has one scale (the number of segments, or what it has in
place of it) on a grid of six to ten values. ODS: the best value for all images; OIS: the best for each image. Nothing
else is chosen by what people drew. Settings were found on the validation images, which therefore are no test.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from softcut.datasets.bsds500 import SPLITS, DividedImage, load_bsds500
from softcut.errors import ParameterError
from softcut.files import atomic_json
from softcut.paper.common import Tell, check_names, experiment_parser, quiet, run_experiment, say
from softcut.paper.runs import Records
from softcut.paper.segmentation_methods import METHODS, SCALES, OverSegmented, labels_of, settings_of
from softcut.report.tables import Cell, Table, to_markdown
from softcut.segment.scores import SegmentationScores, overlap_table, table_scores

__all__ = ["METRICS", "OURS", "PUBLISHED", "main", "run", "summary", "table"]

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
        raise ParameterError(f"images must be at least 1, got {images}.")
    chosen = load_bsds500(split, data)[:images]
    stem = "segmentation" if split == "val" else f"segmentation_{split}"
    records = Records(Path(out) / f"{stem}_runs.json")
    began = time.perf_counter()
    for number, image in enumerate(chosen):
        missing = [m for m in names if records.missing(_dataset(split, image), m, [0], settings_of(m))]
        if not missing:
            continue
        if minutes is not None and time.perf_counter() - began > 60 * minutes:
            break
        tell(f"image {number + 1} of {len(chosen)}: {', '.join(missing)}")
        records.add(_divide(split, image, missing), "cpu")
    count = "" if images is None else f" --images {images}"
    source = "" if split == "val" else f" --split {split}"
    made = summary(records, chosen, split, f"softcut reproduce segmentation{count}{source}")
    part = "" if images is None else f"_first_{images}"
    atomic_json(Path(out) / f"{stem}{part}.json", made)
    return made


def _dataset(split: str, image: DividedImage) -> str:
    return f"bsds500-{split}/{image.name}"


def _divide(split: str, image: DividedImage, methods: Sequence[str]) -> list[dict[str, Any]]:
    """One image by some methods, each at all its scales."""
    parts = OverSegmented(image.image())
    people = image.people()
    tables = [overlap_table(parts.regions, person) for person in people]
    _ = parts.described  # shared by methods: not part of any one's time
    found = []
    for method in methods:
        start = time.perf_counter()
        labels = [labels_of(method, parts, scale) for scale in SCALES[method]]
        seconds = time.perf_counter() - start
        scores = [_scores(each, tables, people) for each in labels]
        found.append(
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
    return found


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
    values = {m: _values(records, images, split, m) for m in METHODS}
    chosen = {(m, name): _chosen(found, name) for m, found in values.items() if found for name in METRICS}
    made = []
    for (method, name), kinds in chosen.items():
        runs = list(values[method].values())
        for kind, (by_image, scale) in kinds.items():
            ours = chosen.get((OURS, name), {}).get(kind, ({}, None))[0]
            published = PUBLISHED.get(method, {}).get(name)
            numbers = np.array(list(by_image.values()))
            made.append(
                {
                    "dataset": f"bsds500-{split}",
                    "method": method,
                    "metric": f"{name}_{kind}",
                    "mean": round(float(numbers.mean()), 4),
                    "std": round(float(numbers.std()), 4),
                    "n": len(numbers),
                    "paper_mean": None if published is None else published[kind == "ois"],
                    "paper_std": None,
                    "scale": scale,
                    **_against(ours, by_image, method),
                    "seconds": round(sum(run["seconds"] for run in runs), 1),
                    **{
                        key: ", ".join(dict.fromkeys(run[key] for run in runs))
                        for key in ("device", "commit")
                    },
                    "command": command,
                }
            )
    return made


def _values(
    records: Records, images: Sequence[DividedImage], split: str, method: str
) -> dict[str, dict[str, Any]]:
    """Finished runs of a method by image."""
    settings = settings_of(method)
    found = {image.name: records.of(_dataset(split, image), method, [0], settings) for image in images}
    return {name: runs[0] for name, runs in found.items() if runs}


def _chosen(
    runs: Mapping[str, Mapping[str, Any]], name: str
) -> dict[str, tuple[dict[str, float], float | None]]:
    """The score of every image at the best scale for all, with that scale, and at the best one for it."""
    table = np.array([run[name] for run in runs.values()])
    high = METRICS[name]
    place = int(table.mean(axis=0).argmax() if high else table.mean(axis=0).argmin())
    best = table.max(axis=1) if high else table.min(axis=1)
    scale = next(iter(runs.values()))["settings"]["scales"][place]
    return {
        "ods": (dict(zip(runs, table[:, place].tolist(), strict=True)), scale),
        "ois": (dict(zip(runs, best.tolist(), strict=True)), None),
    }


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
    >>> print(to_markdown(table([cell])).splitlines()[2])
    | kmeans | 100 | .456* / - | - / - | - / - |
    """
    found = {(c["method"], c["metric"]): c for c in measured}
    rows: list[list[str | Cell]] = []
    for method in dict.fromkeys(c["method"] for c in measured):
        count = max(c["n"] for c in measured if c["method"] == method)
        shown = [f"{_entry(found, method, m, 'ods')} / {_entry(found, method, m, 'ois')}" for m in METRICS]
        rows.append([method, *map(Cell, [str(count), *shown])])
    for method, scores in PUBLISHED.items():
        shown = [" / ".join("-" if v is None else _short(v, 2) for v in scores[m]) for m in METRICS]
        rows.append([f"{method} (published, test images)", *map(Cell, ["200", *shown])])
    return Table(["method", "images", "covering", "Rand index", "variation of information"], rows)


def _entry(found: Mapping[tuple[str, str], Mapping[str, Any]], method: str, name: str, kind: str) -> str:
    cell = found.get((method, f"{name}_{kind}"))
    if cell is None:
        return "-"
    star = "*" if cell["p"] is not None and cell["p"] < 0.05 else ""
    return _short(cell["mean"], 3) + star


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.segmentation --method mincut --images 20``."""
    parser = experiment_parser("segmentation", "Images of BSDS500 divided into segments.", 1, (), METHODS)
    parser.add_argument("--images", type=int, help="only the first so many")
    parser.add_argument("--split", default="val", choices=SPLITS, help="which images (default: val)")
    parser.add_argument("--minutes", type=float, help="stop after so many; the same command continues")
    parser.add_argument("--data", help="folder of the data sets (default: $SOFTCUT_DATA, then the cache)")

    def run_it(given: Any) -> str:
        options = {name: getattr(given, name) for name in ("split", "minutes", "data")}
        return to_markdown(table(run(given.out, given.method, given.images, tell=say, **options)))

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
