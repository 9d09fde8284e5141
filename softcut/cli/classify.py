"""``softcut classify``: train a classifier of graphs, or use a saved one."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from softcut import __version__
from softcut.cli.cluster import model_files
from softcut.cli.console import err, note, out, say_written, spoken_warnings, table
from softcut.cli.output import Device, Output, Overwrite
from softcut.errors import DataError, ModelFileError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softcut.graph import GraphCollection
    from softcut.learning import GraphClassification

__all__ = ["classify"]

RESULT_FILES = ("predictions.csv", "metrics.json")


def classify(
    graphs: Annotated[
        str, typer.Argument(help="A folder in the format of the TU data sets, or a data set's name.")
    ],
    pool: Annotated[str, typer.Option(help="The pooler, for example mincut, topk or nopool.")] = "mincut",
    model: Annotated[
        Path | None, typer.Option(help="Train nothing: classify the graphs with this saved model.")
    ] = None,
    model_out: Annotated[Path | None, typer.Option(help="Save the fitted model under this name.")] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results; by default named after the graphs."),
    ] = None,
    overwrite: Overwrite = False,
    held_out: Annotated[
        float, typer.Option(help="Share of the graphs that is not trained on and tests the model.")
    ] = 0.1,
    n_init: Annotated[int, typer.Option(help="Networks trained side by side and averaged.")] = 1,
    epochs: Annotated[int, typer.Option(help="The most epochs.")] = 500,
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a lower validation loss.")
    ] = 50,
    batch: Annotated[int, typer.Option(help="Graphs in a step.")] = 32,
    lr: Annotated[float, typer.Option(help="Adam's step size.")] = 5e-4,
    seed: Annotated[int, typer.Option(help="Random state.")] = 0,
    device: Device = "auto",
) -> None:
    """Classify graphs: train on a part of them and test on the rest, or use a model that was saved.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    start = time.perf_counter()
    if model is not None and model_out is not None:
        raise ParameterError("--model-out saves a model that is trained now: leave it out with --model.")
    if not 0 < held_out <= 0.5:
        raise ParameterError(f"--held-out must be above 0 and at most 0.5, got {held_out}.")
    for option, value in (("--epochs", epochs), ("--batch", batch), ("--lr", lr)):
        if not value > 0:
            raise ParameterError(f"{option} must be positive, got {value}.")
    output = Output(overwrite)
    place = out_dir or Path(f"{Path(graphs).name or 'graphs'}-classes")
    folder = output.folder("--out", place, (*RESULT_FILES, *model_files(model_out)))
    models = None
    if model_out is not None:
        models = output.files("--model-out", model_out, model_files(model_out))
    if model is not None:
        estimator, collection, tested = _use(model, graphs, device)
        metrics = _about(collection, estimator) | {"model": model.name}
    else:
        settings = {
            "n_init": n_init,
            "max_iter": epochs,
            "patience": patience,
            "batch_size": batch,
            "learning_rate": lr,
            "random_state": seed,
            "device": device,
        }
        estimator, collection, tested = _train(graphs, pool, held_out, seed, settings)
        metrics = _about(collection, estimator) | {
            "trained_on": len(collection) - len(tested),
            "tested_on": len(tested),
            "best_epoch": estimator.best_epoch_.tolist(),
            "epochs": estimator.n_iter_,
            "validation_accuracy": [float(v) for v in estimator.validation_accuracy_],
            "interrupted": estimator.interrupted_,
        }
    chance = estimator.predict_proba(collection[tested])
    metrics |= _accuracy(estimator, collection, tested, chance)
    metrics["seconds"] = time.perf_counter() - start
    with output:
        part = output.staged(folder)
        _write(part, estimator, collection, tested, chance, metrics)
        if models is not None and model_out is not None:
            estimator.save(output.staged(models) / model_out.name)
        written = output.files_to_come()
    _closing(metrics, written)
    if model is None and estimator.interrupted_:
        raise SystemExit(130)


def _train(
    source: str, pool: str, held_out: float, seed: int, settings: dict[str, Any]
) -> tuple[GraphClassification, GraphCollection, NDArray[np.int64]]:
    """The fitted model, all graphs, and the numbers of those it was not trained on."""
    from dataclasses import asdict

    from softcut.cli.bars import JobBar
    from softcut.graph.splits import hold_out
    from softcut.learning import GraphClassification

    bar = JobBar(err)
    with spoken_warnings():
        collection, features = _read(source)
        if collection.y is None:
            raise DataError(
                f"{source} has no graph labels ({collection.name}_graph_labels.txt), and training needs them."
            )
        if collection.split is not None:
            rest, tested = np.flatnonzero(collection.split < 2), np.flatnonzero(collection.split == 2)
        else:
            rest, tested, _ = hold_out(collection.y, held_out, seed)
        if not len(rest) or not len(tested):
            raise DataError(
                f"{source} holds {len(collection)} graphs: too few to train on some and test on others."
            )
        # A folder's own labels and attributes, and degree and clustering coefficient as in the paper.
        kind = "auto" if features is None else "both"
        estimator = GraphClassification(
            pool,
            features=kind,
            callbacks=[lambda state: bar.update(collection.name, pool, range(settings["n_init"]), state)],
            **settings,
        )
        with bar:
            estimator.fit(collection[rest])
    known = None if features is None else asdict(features)
    estimator.metadata_ = {"graphs": collection.name, "node_features": known}
    return estimator, collection, tested


def _use(
    model: Path, source: str, device: str
) -> tuple[GraphClassification, GraphCollection, NDArray[np.int64]]:
    """A saved model, and all graphs, which it will classify."""
    from softcut.datasets.tu import NodeFeatures
    from softcut.learning import GraphClassification

    estimator = GraphClassification.load(model).set_params(device=device)
    known = estimator.metadata_.get("node_features")
    if Path(source).is_dir() and known is None:
        name = estimator.metadata_.get("graphs", "a list of graphs")
        raise ModelFileError(
            f"{model} was trained on {name}, not on a folder, and its node features cannot be made for {source}."
        )
    if not Path(source).is_dir() and known is not None:
        raise ModelFileError(f"{model} was trained on a folder: name a folder with graphs, not {source!r}.")
    try:
        features = None if known is None else NodeFeatures(**known)
    except TypeError as error:
        raise ModelFileError(f"{model}: the model is damaged or incomplete ({error}).") from error
    with spoken_warnings():
        collection, _ = _read(source, features)
    return estimator, collection, np.arange(len(collection))


def _read(source: str, features: Any = None) -> tuple[GraphCollection, Any]:
    """A folder with how its features were made, or a data set by name (None: the paper's features)."""
    from softcut.datasets.collections import COLLECTIONS, load_graphs
    from softcut.datasets.tu import read_tu_folder

    if Path(source).is_dir():
        return read_tu_folder(source, features)
    if source.strip().lower().replace("_", "-") not in (name.lower() for name in COLLECTIONS):
        raise ParameterError(
            f"{source} is neither a folder nor a data set; the data sets are {', '.join(COLLECTIONS)}."
        )
    collection = load_graphs(source)
    if collection.note:
        note(f"{collection.name} is {collection.note}.")
    return collection, None


def _about(graphs: GraphCollection, estimator: GraphClassification) -> dict[str, Any]:
    return {
        "name": graphs.name,
        "softcut": __version__,
        "graphs": len(graphs),
        "nodes": graphs.num_nodes,
        "edges": len(graphs.col) // 2,
        "pool": estimator.pool,
        "classes": [str(name) for name in estimator.classes_.tolist()],
        "note": graphs.note,
    }


def _accuracy(
    estimator: GraphClassification,
    graphs: GraphCollection,
    tested: NDArray[np.int64],
    chance: NDArray[np.float64],
) -> dict[str, Any]:
    """Accuracy and that of every class; nothing where the graphs have no classes."""
    if graphs.y is None:
        return {}
    names = np.asarray(graphs.classes)[graphs.y[tested]]
    hits = estimator.classes_[chance.argmax(1)].astype(str) == names
    per_class = {str(name): float(hits[names == name].mean()) for name in np.unique(names)}
    return {"accuracy": float(hits.mean()), "accuracy_per_class": per_class}


def _write(
    folder: Path,
    estimator: GraphClassification,
    graphs: GraphCollection,
    tested: NDArray[np.int64],
    chance: NDArray[np.float64],
    metrics: dict[str, Any],
) -> None:
    best = chance.argmax(1)
    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", "class", "predicted", "probability"])
        for row, number in enumerate(tested.tolist()):
            known = "" if graphs.y is None else graphs.classes[graphs.y[number]]
            # Graphs are numbered from 1, as in the files of the TU data sets.
            writer.writerow(
                [number + 1, known, estimator.classes_[best[row]], f"{chance[row, best[row]]:.6f}"]
            )
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")


def _closing(metrics: dict[str, Any], written: list[Path]) -> None:
    listing = table(
        f"{metrics['name']}: {metrics['graphs']:,} graphs, {len(metrics['classes'])} classes",
        ("what", "value"),
        text=("what",),
    )
    rows = [("pooler", metrics["pool"])]
    if "tested_on" in metrics:
        rows.append(("trained on, tested on", f"{metrics['trained_on']:,}, {metrics['tested_on']:,} graphs"))
        rows.append(("epochs", str(metrics["epochs"])))
    if "accuracy" in metrics:
        rows.append(("accuracy", f"{100 * metrics['accuracy']:.1f} %"))
        shown = metrics["accuracy_per_class"] if len(metrics["accuracy_per_class"]) <= 10 else {}
        rows += [(f"of class {name}", f"{100 * value:.1f} %") for name, value in shown.items()]
    if metrics.get("interrupted"):
        rows.append(("interrupted", f"after {metrics['epochs']} epochs"))
    rows.append(("seconds", f"{metrics['seconds']:.1f}"))
    for row in rows:
        listing.add_row(*row)
    out.print(listing)
    say_written(written)
