"""The report of predictions about graphs: what the model is worth, where it is wrong, how it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softcut import __version__
from softcut.colours import colour_of
from softcut.graph import GraphCollection
from softcut.metrics.predictions import reliability
from softcut.report.html_page import Part, Section, Text, View, plain, render_page
from softcut.report.html_summary import note_table, origin_table
from softcut.report.tables import Cell, Table, number_table
from softcut.tables.arrays import plural
from softcut.tables.display_text import percent, readable, shortened

_ROWS = 20  # graphs in a table
_NAME = 40  # characters of the name of a class
_POINTS = 200  # of a curve
_DOTS = 2000  # graphs in a picture
_LINES = ("training", "validation")

# What metrics.json holds, in the order of the page and in words.
_SCORES = {
    "accuracy": "accuracy",
    "baseline_accuracy": "accuracy of always saying the most frequent class of the training graphs",
    "balanced_accuracy": "balanced accuracy (mean over the classes)",
    "log_loss": "log loss (nats per graph; lower is better)",
    "calibration_error": "expected calibration error (0: as often right as the probabilities say)",
}
# Titles of what "scores" of metrics.json holds about every target.
NUMBER_SCORES = {"MAE": "mae", "RMSE": "rmse", "R²": "r2"}
_MEANING = (
    "*MAE*: mean absolute error. *RMSE*: root of the mean squared error. *mean*: the same of always saying the mean of "
    "the training graphs. *R²*: the share of the variance that is explained; 0 is as good as the mean, 1 is perfect."
)


def learner_facts(graphs: GraphCollection, estimator: Any) -> dict[str, Any]:
    """What a page says about the graphs and the network of a fitted estimator."""
    paper = estimator.preset == "paper"
    return {
        "name": graphs.name,
        "softcut": __version__,
        "graphs": len(graphs),
        "nodes": graphs.num_nodes,
        "edges": len(graphs.col) // 2,
        "network": f"the paper's, {estimator.pool or 'mincut'}" if paper else "default",
    }


def graph_columns(graphs: GraphCollection) -> dict[str, list[Any]]:
    """What a table says about every graph; numbered from 1, as in the files of the TU data sets.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> graph_columns(from_graphs([Graph.from_edges([[0, 1], [1, 2]]), Graph.from_edges([[0], [1]])]))
    {'graph': [1, 2], 'nodes': [3, 2], 'edges': [2, 1]}
    """
    edges = (np.diff(graphs.entries_ptr) // 2).tolist()
    return {"graph": [*range(1, len(graphs) + 1)], "nodes": graphs.sizes.tolist(), "edges": edges}


def classification_page(
    metrics: Mapping[str, Any],
    graphs: Mapping[str, Sequence[Any]],
    truth: np.ndarray | None,
    chances: np.ndarray,
    *,
    curve: Mapping[str, Any] | None = None,
    command: str = "",
) -> str:
    """The page that ``softcut classify`` writes.

    `graphs` has the columns that name the scored graphs (number, nodes, edges), `truth` the columns of `chances` they
    belong to (None where that is not known), `curve` what :func:`curve_view` draws. `metrics` is metrics.json, whose
    "classes" name the columns.
    """
    names = [shortened(str(name), _NAME) for name in metrics["classes"]]
    parts: dict[str, Sequence[Part]] = {"Summary": _class_summary(metrics, names, chances)}
    if truth is not None:
        wrong = np.flatnonzero(chances.argmax(1) != truth)
        wrong = wrong[np.argsort(-chances[wrong].max(1), kind="stable")]
        parts["Confusion matrix"] = [_confusion_table(np.asarray(metrics["confusion"]), names)]
        parts["Calibration"] = _calibration_parts(chances.max(1), chances.argmax(1) == truth)
        caption = _first("wrongly classified graphs", len(wrong), "the most certain mistakes first")
        mistakes = _class_table(wrong, graphs, truth, chances, names, caption)
        parts["Wrongly classified graphs"] = [mistakes] if len(wrong) else [Text("None.")]
    top = -np.sort(-chances, axis=1)[:, :2]
    doubtful = np.argsort(top[:, 0] - top[:, 1], kind="stable")
    caption = _first("graphs", len(doubtful), "those whose two most probable classes are closest")
    parts["Least certain graphs"] = [_class_table(doubtful, graphs, truth, chances, names, caption)]
    return _page(metrics, parts, "classes of graphs", f"{len(names)} classes", curve, command)


def regression_page(
    metrics: Mapping[str, Any],
    graphs: Mapping[str, Sequence[Any]],
    truth: np.ndarray | None,
    predicted: np.ndarray,
    *,
    curve: Mapping[str, Any] | None = None,
    command: str = "",
) -> str:
    """The page that ``softcut regress`` writes.

    `graphs` has the columns that name the scored graphs, `truth` and `predicted` a column for each of the targets that
    `metrics` (metrics.json) names; `truth` is None where it is not known.
    """
    names = [shortened(str(name), _NAME) for name in metrics["targets"]]
    parts: dict[str, Sequence[Part]] = {"Summary": _number_summary(metrics, names, predicted)}
    if truth is not None:
        told = [f"graph {each}" for each in graphs["graph"]]
        pairs = zip(names, truth.T, predicted.T, strict=True)
        parts["Predicted and true numbers"] = [_number_view(*each, told) for each in pairs]
        parts["Worst graphs"] = [_number_table(graphs, names, truth, predicted)]
    title = ", ".join(names) if len(names) < 4 else f"{len(names)} numbers"
    return _page(metrics, parts, title, plural(len(names), "number") + " to predict", curve, command)


def _number_summary(metrics: Mapping[str, Any], names: Sequence[str], predicted: np.ndarray) -> list[Part]:
    if "scores" not in metrics:
        said = f"{metrics['scored_on']} Their true numbers are not known, so there are no scores."
        return [Text(said), prediction_table(names, predicted)]
    scores = list(metrics["scores"].values())
    rows = [[name, *number_cells(score)] for name, score in zip(names, scores, strict=True)]
    heading = f"**R² {readable(float(np.mean([score['r2'] for score in scores])))}"
    heading += f", the mean over {len(scores)} targets.**" if len(scores) > 1 else f" of {names[0]}.**"
    return [
        Text(heading),
        Text(metrics["scored_on"]),
        number_table(["target", *NUMBER_SCORES], rows),
        Text(_MEANING),
    ]


def prediction_table(names: Sequence[str], predicted: np.ndarray, caption: str = "") -> Table:
    """What was predicted where there is nothing to compare it with.

    >>> import numpy as np
    >>> from softcut.report.html_learning import prediction_table
    >>> [cell.text for cell in prediction_table(["a"], np.array([[1.0], [2.0], [4.0]])).rows[0][1:]]
    ['1', '2', '4']
    """
    ends = np.quantile(predicted, [0, 0.5, 1], axis=0).T.tolist()
    columns = ["target", "lowest prediction", "median", "highest"]
    return number_table(columns, [[name, *row] for name, row in zip(names, ends, strict=True)], caption)


def number_cells(score: Mapping[str, float | None]) -> list[Cell]:
    """The scores of a target in the order of ``NUMBER_SCORES``, with those of the mean where they are known.

    >>> from softcut.report.html_learning import number_cells
    >>> score = {"mae": 0.5, "baseline_mae": 1.25, "rmse": 0.75, "baseline_rmse": None, "r2": 0.6}
    >>> [cell.markdown for cell in number_cells(score)]
    ['0.5 (mean: 1.25)', '0.75', '0.6']
    """
    cells = []
    for key in NUMBER_SCORES.values():
        value, base = score[key], score.get(f"baseline_{key}")
        below = "" if base is None else f"mean: {readable(base)}"
        cells.append(Cell("-" if value is None else readable(value), below=below))
    return cells


def _number_view(name: str, truth: np.ndarray, predicted: np.ndarray, graphs: Sequence[str]) -> View:
    """A point per graph, of many a sample: predicted against true numbers, and what is left."""
    shown, caption = np.arange(len(truth)), ""
    if len(truth) > _DOTS:
        shown = np.sort(np.random.default_rng(0).choice(len(truth), _DOTS, replace=False))
        caption = f"{_DOTS:,} of {len(truth):,} graphs are shown."
    true, said, error = ([_digits(v) for v in each[shown]] for each in (truth, predicted, predicted - truth))
    low, high = min(true + said), max(true + said)
    panels = [
        {
            "title": f"{name}, predicted",
            "x": f"{name}, true",
            "xs": true,
            "ys": said,
            "lines": [[low, low, high, high]],
        },
        {
            **{"title": f"{name}, predicted minus true", "x": f"{name}, predicted", "xs": said, "ys": error},
            "lines": [[min(said), 0.0, max(said), 0.0]],
        },
    ]
    hint = (
        "Hover or tap: a graph. Predictions on the dashed lines are exact; a model that has learnt all there is leaves "
        "errors without a pattern."
    )
    return View(
        "points",
        plain({"panels": panels, "names": [graphs[i] for i in shown.tolist()], "hint": hint}),
        caption,
    )


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def _number_table(
    graphs: Mapping[str, Sequence[Any]], names: Sequence[str], truth: np.ndarray, predicted: np.ndarray
) -> Table:
    """The graphs with the largest errors, each with its worst target."""
    spread = np.maximum(truth.std(axis=0), np.finfo(float).tiny)
    error = predicted - truth
    relative = np.abs(error) / spread
    rows, several = [], len(names) > 1
    for i in np.argsort(-relative.max(axis=1), kind="stable")[:_ROWS].tolist():
        j = int(relative[i].argmax())
        number, *others = (column[i] for column in graphs.values())
        told = (shortened(each, _NAME) if isinstance(each, str) else each for each in others)
        numbers = (float(each[i, j]) for each in (truth, predicted, error))
        rows.append([str(number), *([names[j]] if several else []), *numbers, *told])
    order = (
        "the largest errors in units of the spread of their target first"
        if several
        else "the largest errors first"
    )
    columns = ["graph", *(["target"] if several else []), "true", "predicted", "error", *list(graphs)[1:]]
    return number_table(columns, rows, _first("graphs", len(truth), order))


def _page(
    metrics: Mapping[str, Any],
    parts: dict[str, Sequence[Part]],
    title: str,
    what: str,
    curve: Mapping[str, Any] | None,
    command: str,
) -> str:
    """The page of these parts, with how the model was trained and where all of it comes from."""
    if curve:
        alone = "The networks alone: models of subtree patterns join them when they are trained."
        parts["Learning curve"] = [
            *([Text(alone)] if metrics.get("subtree_share") else []),
            curve_view(curve),
        ]
    notes = note_table(metrics)
    if notes is not None:
        parts["Notes"] = [notes]
    seconds = {"in all": metrics["seconds"]} if "seconds" in metrics else {}
    made = origin_table({"softcut": metrics["softcut"], "seconds": seconds}, command)
    parts["Where this comes from"] = [Table(made.columns, [*_training_rows(metrics), *made.rows])]
    sizes = (
        f"{metrics['graphs']:,} graphs with {metrics['nodes']:,} nodes and {metrics['edges']:,} edges, {what}"
    )
    sections = [Section(*each) for each in parts.items()]
    return render_page(f"{metrics['name']}: {title}", sections, sizes)


def _class_summary(metrics: Mapping[str, Any], names: Sequence[str], chances: np.ndarray) -> list[Part]:
    if "accuracy" not in metrics:
        said = np.bincount(chances.argmax(1), minlength=len(names)).tolist()
        counts = number_table(["class", "graphs predicted"], zip(names, said, strict=True))
        return [Text(f"{metrics['scored_on']} Their classes are not known, so there are no scores."), counts]
    low, high = metrics["accuracy_interval"]
    heading = (
        f"**{100 * metrics['accuracy']:.1f} % of {plural(len(chances), 'graph')} are classified correctly** "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)."
    )
    if (baseline := metrics["baseline_accuracy"]) is not None:
        heading += f" Always saying the most frequent class of the training graphs is right for {100 * baseline:.1f} %."
    rows = [[words, _score(key, metrics[key])] for key, words in _SCORES.items() if metrics[key] is not None]
    return [Text(heading), Text(metrics["scored_on"]), number_table(["score", "value"], rows)]


def _score(name: str, value: float) -> Any:
    return Cell(f"{100 * value:.1f} %") if name.endswith("accuracy") else value


def _confusion_table(confusion: np.ndarray, names: Sequence[str]) -> Table:
    """Counts, shaded by the share of the true class; the last column and row are recall and precision."""
    of_row, of_column = confusion.sum(1), confusion.sum(0)
    rows: list[list[str | Cell]] = []
    for c, (name, counts) in enumerate(zip(names, confusion, strict=True)):
        shares = counts / max(of_row[c], 1)
        cells = (
            Cell(
                f"{count:,}", below=percent(share) if of_row[c] else "", strong=c == p, shade=round(share, 3)
            )
            for p, (count, share) in enumerate(zip(counts.tolist(), shares.tolist(), strict=True))
        )
        rows.append([name, *cells, Cell(percent(shares[c]) if of_row[c] else "-")])
    precision = (percent(confusion[c, c] / n) if n else "-" for c, n in enumerate(of_column))
    rows.append(["precision", *map(Cell, precision), Cell("")])
    caption = (
        "Rows: the true class. Columns: the predicted one. Percentages are of the row. Recall: the share of a class "
        "that is recognised. Precision: the share of the predictions of a class that is right."
    )
    return Table(["true class", *names, "recall"], rows, caption)


def _calibration_parts(probability: np.ndarray, right: np.ndarray) -> list[Part]:
    table = reliability(probability, right)
    width = 0.1
    bins = [f"{low:.1f} to {low + width:.1f}" for low in table.low]
    panel = {
        "title": "share of them that is right",
        "x": "probability of the predicted class",
        "xs": np.round(table.probability, 4),
        "ys": np.round(table.accuracy, 4),
        "counts": table.count,
        "lines": [[float(table.low[0]), float(table.low[0]), 1.0, 1.0]],
    }
    names = [f"{plural(n, 'graph')} at {name}" for n, name in zip(table.count.tolist(), bins, strict=True)]
    hint = "Hover or tap: a bin. The larger a disc, the more graphs; the dashed line is perfect calibration."
    data = {"panels": [panel], "names": names, "hint": hint}
    shown = (table.count.tolist(), table.probability, table.accuracy)
    rows = [[name, n, percent(p), percent(a)] for name, n, p, a in zip(bins, *shown, strict=True)]
    cells = [[name, n, Cell(p), Cell(a)] for name, n, p, a in rows]
    said = (
        f"Expected calibration error {table.error:.3f}. Below the dashed line the model is more certain than it is "
        "right, above it less."
    )
    columns = ["probability of the predicted class", "graphs", "mean probability", "right"]
    return [Text(said), View("points", plain(data)), number_table(columns, cells)]


def _class_table(
    chosen: np.ndarray,
    graphs: Mapping[str, Sequence[Any]],
    truth: np.ndarray | None,
    chances: np.ndarray,
    names: Sequence[str],
    caption: str,
) -> Table:
    """Some graphs: their two most probable classes and, where it is known, the true one."""
    rows, several = [], len(names) > 2
    for i in chosen[:_ROWS].tolist():
        first, second = np.argsort(-chances[i], kind="stable")[:2].tolist()
        row: list[Any] = [shortened(str(graphs["graph"][i]), _NAME)]
        if truth is not None:
            row.append(names[truth[i]])
        row += [names[first], Cell(f"{chances[i, first]:.2f}")]
        row += [names[second], Cell(f"{chances[i, second]:.2f}")] if several else []
        rows.append([*row, graphs["nodes"][i], graphs["edges"][i]])
    columns = ["graph", *(["true class"] if truth is not None else []), "predicted", "probability"]
    columns += ["next class", "its probability"] if several else []
    return number_table([*columns, "nodes", "edges"], rows, caption)


def _first(what: str, count: int, order: str) -> str:
    return f"{'All' if count <= _ROWS else f'{_ROWS} of'} {count:,} {what}, {order}."


def _training_rows(metrics: Mapping[str, Any]) -> list[list[str | Cell]]:
    """How the model came about."""
    words = {
        "network": "network",
        "model": "model",
        "trained_on": "graphs trained on (a part of them decides when to stop)",
        "tested_on": "graphs held out, on which all scores are",
        "networks": "networks whose answers are averaged",
        "subtree_share": "share of the models of subtree patterns in this average",
        "epochs": "epochs",
    }
    rows: list[list[str | Cell]] = []
    for key, said in words.items():
        if key in metrics:
            value = metrics[key]
            rows.append([said, f"{value:,}" if isinstance(value, int) else str(value)])
    if metrics.get("interrupted"):
        rows.append(["ended by", "Ctrl-C"])
    return rows


def curve_view(curve: Mapping[str, Any]) -> View:
    """Numbers by epoch: "panels" has the lines "training" and "validation" of each title, "best" the best epochs.

    >>> from softcut.report.html_learning import curve_view
    >>> view = curve_view({"panels": {"loss": {"training": [2.0, 1.0], "validation": [2.0, 1.5]}}, "best": [2]})
    >>> [series["y"] for series in view.data["panels"][0]["series"]], view.caption
    ([[2.0, 1.0], [2.0, 1.5]], 'The dashed line: the epoch with the lowest validation loss, whose weights are kept.')
    """
    panels, best = [], sorted(curve["best"])
    for title, lines in curve["panels"].items():
        series = []
        for name, values in lines.items():
            at = np.unique(np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(int))
            y = [_digits(v) for v in np.asarray(values, dtype=float)[at]]
            series.append({"name": name, "colour": colour_of(_LINES.index(name)), "x": at + 1, "y": y})
        mark = best[0] if len(best) == 1 else None
        panels.append({"title": title, "x": "epoch", "mark": mark, "series": series})
    caption = "The dashed line: the epoch with the lowest validation loss, whose weights are kept."
    if len(best) > 1:
        caption = (
            f"Mean over {len(best)} networks; each keeps the weights of the epoch with its lowest validation loss, "
            f"between {best[0]} and {best[-1]}."
        )
    return View("curves", plain({"panels": panels}), caption)
