"""``softcut classify``: train a classifier of graphs, or use a saved one."""

from __future__ import annotations

import csv
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut import __version__
from softcut.cli.console import TrainingBar, err, note, say_written, show_facts, spoken_warnings
from softcut.cli.output import Device, ModelOut, OutFolder, Output, Overwrite
from softcut.errors import DataError, ModelFileError, ParameterError
from softcut.files import atomic_json

if TYPE_CHECKING:
    import numpy as np

    from softcut.graph import GraphCollection
    from softcut.learning import GraphClassification

    Classified = tuple[GraphClassification, GraphCollection, np.ndarray]

RESULT_FILES = ("predictions.csv", "metrics.json")


def classify(
    graphs: Annotated[
        str, typer.Argument(help="A folder in the format of the TU data sets, or a data set's name.")
    ],
    pool: Annotated[str, typer.Option(help="The pooler, for example mincut, topk or nopool.")] = "mincut",
    model: Annotated[
        Path | None, typer.Option(help="Train nothing: classify the graphs with this saved model.")
    ] = None,
    model_out: ModelOut = None,
    out_dir: OutFolder = None,
    overwrite: Overwrite = False,
    held_out: Annotated[
        float, typer.Option(help="Share of the graphs that is not trained on and tests the model.")
    ] = 0.1,
    n_init: Annotated[int, typer.Option(help="Networks trained side by side and averaged.")] = 1,
    max_iter: Annotated[int, typer.Option("--epochs", help="The most epochs.")] = 500,
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a lower validation loss.")
    ] = 50,
    batch_size: Annotated[int, typer.Option("--batch", help="Graphs in a step.")] = 32,
    learning_rate: Annotated[float, typer.Option("--lr", help="Adam's step size.")] = 5e-4,
    random_state: Annotated[int, typer.Option("--seed", help="Random state.")] = 0,
    device: Device = "auto",
) -> None:
    """Classify graphs: train on a part of them and test on the rest, or use a model that was saved.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    import numpy as np

    start = time.perf_counter()
    if model is not None and model_out is not None:
        raise ParameterError("--model-out saves a model that is trained now: leave it out with --model.")
    if not 0 < held_out <= 0.5:
        raise ParameterError(f"--held-out must be above 0 and at most 0.5, got {held_out}.")
    output = Output(overwrite)
    place = out_dir or Path(f"{Path(graphs).name or 'graphs'}-classes")
    folder = output.folder(place, RESULT_FILES, model_out)
    models = output.model(model_out)
    settings = {
        "n_init": n_init,
        "max_iter": max_iter,
        "patience": patience,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "random_state": random_state,
        "device": device,
    }
    with spoken_warnings():
        if model is not None:
            estimator, collection, tested = _use(model, graphs, device)
        else:
            estimator, collection, tested = _train(graphs, pool, held_out, settings)
    metrics = {
        "name": collection.name,
        "softcut": __version__,
        "graphs": len(collection),
        "nodes": collection.num_nodes,
        "edges": len(collection.col) // 2,
        "pool": estimator.pool,
        "classes": [str(name) for name in estimator.classes_.tolist()],
        "note": collection.note,
    }
    if model is not None:
        metrics["model"] = model.name
    else:
        metrics |= {
            "trained_on": len(collection) - len(tested),
            "tested_on": len(tested),
            "best_epoch": estimator.best_epoch_.tolist(),
            "epochs": estimator.n_iter_,
            "validation_accuracy": [float(v) for v in estimator.validation_accuracy_],
            "interrupted": estimator.interrupted_,
        }
    chance = estimator.predict_proba(collection[tested])
    predicted, certainty = estimator.classes_[chance.argmax(1)].astype(str), chance.max(1)
    known = (
        np.full(len(tested), "")
        if collection.y is None
        else np.asarray(collection.classes)[collection.y[tested]]
    )
    if collection.y is not None:
        hits = predicted == known
        metrics["accuracy"] = float(hits.mean())
        metrics["accuracy_per_class"] = {str(c): float(hits[known == c].mean()) for c in np.unique(known)}
    metrics["seconds"] = time.perf_counter() - start
    with output:
        with (folder.staged / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["graph", "class", "predicted", "probability"])
            # Graphs are numbered from 1, as in the files of the TU data sets.
            shown = ((tested + 1).tolist(), known, predicted, (f"{p:.6f}" for p in certainty))
            writer.writerows(zip(*shown, strict=True))
        atomic_json(folder.staged / "metrics.json", metrics)
        if models is not None and model_out is not None:
            estimator.save(models.staged / model_out.name)
    _close(metrics, output)
    if metrics.get("interrupted"):
        raise SystemExit(130)


def _train(source: str, pool: str, held_out: float, settings: dict[str, Any]) -> Classified:
    """The fitted model, all graphs, and the numbers of those it was not trained on."""
    import numpy as np

    from softcut.graph.collection import hold_out
    from softcut.learning import GraphClassification

    collection, features = _read(source)
    if collection.y is None:
        raise DataError(
            f"{source} has no graph labels ({collection.name}_graph_labels.txt), and training needs them."
        )
    if collection.split is not None:
        rest, tested = np.flatnonzero(collection.split < 2), np.flatnonzero(collection.split == 2)
    else:
        rest, tested, _ = hold_out(collection.y, held_out, settings["random_state"])
    if not len(rest) or not len(tested):
        raise DataError(
            f"{source} holds {len(collection)} graphs: too few to train on some and test on others."
        )
    bar = TrainingBar(err, jobs=1)
    networks = range(settings["n_init"])
    estimator = GraphClassification(
        pool,
        # A folder's own labels and attributes, and degree and clustering coefficient as in the paper.
        features="auto" if features is None else "both",
        callbacks=[lambda state: bar.update(f"{collection.name} {pool}", networks, state)],
        **settings,
    )
    with bar:
        estimator.fit(collection[rest])
    known = None if features is None else asdict(features)
    estimator.metadata_ = {"graphs": collection.name, "node_features": known}
    return estimator, collection, tested


def _use(model: Path, source: str, device: str) -> Classified:
    """A saved model, all graphs, and the numbers of all of them, which it will classify."""
    import numpy as np

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
    collection, _ = _read(source, features)
    return estimator, collection, np.arange(len(collection))


def _read(source: str, features: Any = None) -> tuple[GraphCollection, Any]:
    """A folder with how its features were made, or a data set by name (None: the paper's features)."""
    from softcut.datasets import name_of_data_set
    from softcut.datasets.collections import COLLECTIONS, load_graphs
    from softcut.datasets.tu import read_tu_folder

    if Path(source).is_dir():
        return read_tu_folder(source, features)
    if source.strip().lower().replace("_", "-") not in (name.lower() for name in COLLECTIONS):
        if name := name_of_data_set(source):
            raise ParameterError(f"{name} is one graph: cluster its nodes with softcut cluster {name}.")
        raise ParameterError(
            f"{source} is neither a folder nor a data set; the data sets are {', '.join(COLLECTIONS)}."
        )
    collection = load_graphs(source)
    if collection.note:
        note(f"{collection.name} is {collection.note}.")
    return collection, None


def _close(metrics: dict[str, Any], output: Output) -> None:
    facts = [("pooler", metrics["pool"])]
    if "tested_on" in metrics:
        facts.append(("trained on, tested on", f"{metrics['trained_on']:,}, {metrics['tested_on']:,} graphs"))
        facts.append(("epochs", str(metrics["epochs"])))
    if "accuracy" in metrics:
        facts.append(("accuracy", f"{100 * metrics['accuracy']:.1f} %"))
        shown = metrics["accuracy_per_class"] if len(metrics["accuracy_per_class"]) <= 10 else {}
        facts += [(f"of class {name}", f"{100 * value:.1f} %") for name, value in shown.items()]
    if metrics.get("interrupted"):
        facts.append(("interrupted", f"after {metrics['epochs']} epochs"))
    facts.append(("seconds", f"{metrics['seconds']:.1f}"))
    show_facts(f"{metrics['name']}: {metrics['graphs']:,} graphs, {len(metrics['classes'])} classes", facts)
    say_written(output.written)
