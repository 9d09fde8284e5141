"""``softcut classify``: train a classifier of graphs, or use a saved one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut.cli.console import note, show_facts, spoken_warnings
from softcut.cli.learners import (
    BatchSize,
    Curve,
    Epochs,
    HeldOut,
    LearningRate,
    Networks,
    PatienceOf,
    Pool,
    Report,
    SavedModel,
    Seed,
    check_share,
    close,
    columns_of,
    facts_of,
    given,
    node_features_of,
    places,
    scored_on,
    write_files,
)
from softcut.cli.output import Device, ModelOut, OutFolder, Overwrite
from softcut.errors import DataError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from softcut.graph import GraphCollection
    from softcut.learning import GraphClassification

    Classified = tuple[GraphClassification, GraphCollection, np.ndarray]

_CLASSES = 10  # classes whose accuracy is printed


def classify(
    graphs: Annotated[
        str, typer.Argument(help="A folder in the format of the TU data sets, or a data set's name.")
    ],
    pool: Pool = None,
    model: SavedModel = None,
    model_out: ModelOut = None,
    out_dir: OutFolder = None,
    overwrite: Overwrite = False,
    held_out: HeldOut = 0.1,
    n_init: Networks = None,
    max_iter: Epochs = None,
    patience: PatienceOf = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    random_state: Seed = 0,
    device: Device = "auto",
    report: Report = True,
) -> None:
    """Classify graphs: train on a part of them and test on the rest, or use a model that was saved.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    import numpy as np

    from softcut.metrics.predictions import class_scores

    start = time.perf_counter()
    check_share(held_out)
    output, folder, models = places(graphs, "classes", out_dir, overwrite, model, model_out)
    settings = given(
        pool=pool,
        n_init=n_init,
        max_iter=max_iter,
        patience=patience,
        batch_size=batch_size,
        learning_rate=learning_rate,
    )
    curve = Curve("loss")
    with spoken_warnings():
        if model is not None:
            estimator, collection, tested = _use(model, graphs, device)
        else:
            settings |= {"random_state": random_state, "device": device}
            estimator, collection, tested = _train(graphs, held_out, settings, curve)
    chances = estimator.predict_proba(collection)
    classes = estimator.classes_.astype(str).tolist()
    metrics = facts_of(collection, estimator, len(tested), model)
    metrics |= {"classes": classes, "note": collection.note}
    metrics["scored_on"] = scored_on(
        len(tested), collection, held_out, random_state, model, collection.y is not None
    )
    if model is None:
        metrics["validation_accuracy"] = [float(value) for value in estimator.validation_accuracy_]
        metrics["subtree_share"] = float(estimator.subtree_share_)
    truth, known = None, np.full(len(collection), "", dtype=object)
    if collection.y is not None:
        known = np.asarray(collection.classes, dtype=object)[collection.y]
        # The model knows nothing of a class that no training graph had: it has a row in the table of mistakes.
        metrics["classes"] = classes = [*classes, *sorted(set(known[tested]) - set(classes))]
        chances = np.pad(chances, [(0, 0), (0, len(classes) - chances.shape[1])])
        truth = np.array([classes.index(each) for each in known[tested]])
        counts = estimator.metadata_.get("class_counts", {})
        most = max(counts, key=counts.get, default=None)
        metrics |= class_scores(truth, chances[tested], None if most is None else classes.index(most))
        per_class = {str(c): np.asarray(metrics["confusion"][i]) for i, c in enumerate(classes)}
        metrics["accuracy_per_class"] = {
            name: float(row[i] / row.sum()) for i, (name, row) in enumerate(per_class.items()) if row.sum()
        }
    metrics["seconds"] = time.perf_counter() - start
    part = np.full(len(collection), "training" if model is None else "")
    part[tested] = "test" if model is None else ""
    best, columns = chances.argmax(1), columns_of(collection)
    rows = zip(
        *(columns["graph"], part, known, np.asarray(classes)[best]),
        *([f"{p:.6f}" for p in column] for column in (chances.max(1), *chances.T)),
        strict=True,
    )

    def page() -> str:
        from softcut.provenance import command_line
        from softcut.report.html_learning import classification_page

        drawn = None if model is not None else curve.drawn(estimator.best_epoch_.tolist())
        scored = {title: [column[i] for i in tested] for title, column in columns.items()}
        shown: dict[str, Any] = {"curve": drawn, "command": command_line()}
        return classification_page(metrics, scored, truth, chances[tested], **shown)

    with output:
        titles = ["graph", "part", "class", "predicted", "probability", *(f"p_{name}" for name in classes)]
        write_files(folder.staged, metrics, titles, rows, page if report else None)
        if models is not None and model_out is not None:
            estimator.save(models.staged / model_out.name)
    _show(metrics)
    close(metrics, output)
    if metrics.get("interrupted"):
        raise SystemExit(130)


def _train(source: str, held_out: float, settings: dict[str, Any], curve: Curve) -> Classified:
    """The fitted model, all graphs, and the numbers of those it was not trained on."""
    import numpy as np

    from softcut.graph.collection import hold_out
    from softcut.learning import GraphClassification
    from softcut.tables.arrays import plural

    collection, features = _read(source, paper=settings.get("preset") == "paper")
    if collection.y is None:
        raise DataError(
            f"{source} has no graph labels ({collection.name}_graph_labels.txt), and training needs them."
        )
    if collection.split is not None:
        rest, tested = np.flatnonzero(collection.split < 2), np.flatnonzero(collection.split == 2)
    else:
        rest, tested, _ = hold_out(collection.y, held_out, settings["random_state"])
    counts = np.bincount(collection.y, minlength=len(collection.classes))
    few = [name for name, count in zip(collection.classes, counts, strict=True) if count == 1]
    if not len(rest) or not len(tested):
        held = plural(len(collection), "graph")
        raise DataError(f"{source} holds {held}: too few to train on some and test on others.")
    if len(counts) < 2:
        raise DataError(
            f"{source}: all graphs have the class {collection.classes[0]!r}; two classes are needed."
        )
    if few:
        raise DataError(
            f"{source}: only one graph has the class {few[0]!r}, and none would be left to train on or to test with: "
            "leave it out, or give it a class that more graphs have."
        )
    # A folder's own labels and attributes, and degree and clustering coefficient as in the paper.
    estimator = GraphClassification(features="auto" if features is None else "both", **settings)
    curve.fit(estimator, collection.name, collection[rest])
    estimator.metadata_ = {
        "graphs": collection.name,
        "node_features": None if features is None else asdict(features),
        "class_counts": dict(
            zip(
                collection.classes,
                np.bincount(collection.y[rest], minlength=len(counts)).tolist(),
                strict=True,
            )
        ),
    }
    return estimator, collection, tested


def _use(model: Path, source: str, device: str) -> Classified:
    """A saved model, all graphs, and the numbers of all of them, which it will classify."""
    import numpy as np

    from softcut.learning import GraphClassification

    estimator = GraphClassification.load(model).set_params(device=device)
    features = node_features_of(model, estimator.metadata_, source)
    collection, _ = _read(source, features, paper=estimator.preset == "paper")
    return estimator, collection, np.arange(len(collection))


def _read(source: str, features: Any = None, *, paper: bool) -> tuple[GraphCollection, Any]:
    """A folder with how its features were made, or a data set by name, with degrees where the `paper` has them."""
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
    collection = load_graphs(source, structure=paper)
    if collection.note:
        note(f"{collection.name} is {collection.note}.")
    return collection, None


def _show(metrics: Mapping[str, Any]) -> None:
    facts = [("network", metrics["network"])]
    if "tested_on" in metrics:
        facts.append(("trained on, tested on", f"{metrics['trained_on']:,}, {metrics['tested_on']:,} graphs"))
        facts.append(("epochs", str(metrics["epochs"])))
    if "accuracy" in metrics:
        low, high = metrics["accuracy_interval"]
        facts.append(("accuracy", f"{100 * metrics['accuracy']:.1f} %"))
        facts.append(("95 % interval of it", f"{100 * low:.1f} to {100 * high:.1f} %"))
        if metrics["baseline_accuracy"] is not None:
            facts.append(("baseline: the most frequent class", f"{100 * metrics['baseline_accuracy']:.1f} %"))
        shown = metrics["accuracy_per_class"] if len(metrics["accuracy_per_class"]) <= _CLASSES else {}
        facts += [(f"of class {name}", f"{100 * value:.1f} %") for name, value in shown.items()]
        facts.append(("calibration error", f"{metrics['calibration_error']:.3f}"))
    if metrics.get("interrupted"):
        facts.append(("interrupted", f"after {metrics['epochs']} epochs"))
    facts.append(("seconds", f"{metrics['seconds']:.1f}"))
    show_facts(f"{metrics['name']}: {metrics['graphs']:,} graphs, {len(metrics['classes'])} classes", facts)
