"""``softcut classify``: train a classifier of graphs, or use a saved one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut.cli.console import note, show_facts, spoken_warnings
from softcut.cli.learners import Work, learns, node_features_of
from softcut.errors import DataError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from softcut.graph import GraphCollection
    from softcut.learning import GraphClassification

    Classified = tuple[GraphClassification, GraphCollection, np.ndarray]

_CLASSES = 10  # classes whose accuracy is printed


@learns(ending="classes", loss="loss")
def classify(
    graphs: Annotated[
        str, typer.Argument(help="A folder in the format of the TU data sets, or a data set's name.")
    ],
    work: Work,
) -> None:
    """Classify graphs: train on a part of them and test on the rest, or use a model that was saved.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    import numpy as np

    from softcut.metrics.predictions import class_scores
    from softcut.report.html_learning import graph_columns

    with spoken_warnings():
        if work.model is not None:
            estimator, collection, tested = _use(work.model, graphs, work.asked.device)
        else:
            estimator, collection, tested = _train(graphs, work)
    chances = estimator.predict_proba(collection)
    classes = estimator.classes_.astype(str).tolist()
    metrics = work.facts(collection, estimator, len(tested), collection.y is not None)
    metrics |= {"classes": classes, "note": collection.note}
    if work.model is None:
        metrics["validation_accuracy"] = [float(value) for value in estimator.validation_accuracy_]
        metrics["subtree_share"] = float(estimator.subtree_share_)
    truth, known = None, np.full(len(collection), "", dtype=object)
    if collection.y is not None:
        known = np.asarray(collection.classes, dtype=object)[collection.y]
        # The model knows nothing of a class that no training graph had: it has a row in the table of mistakes.
        metrics["classes"] = classes = [*classes, *sorted(set(known[tested]) - set(classes))]
        chances = np.pad(chances, [(0, 0), (0, len(classes) - chances.shape[1])])
        truth = np.array([classes.index(each) for each in known[tested]])
        metrics |= class_scores(truth, chances[tested], int(estimator.class_count_.argmax()))
        per_class = {str(c): np.asarray(metrics["confusion"][i]) for i, c in enumerate(classes)}
        metrics["accuracy_per_class"] = {
            name: float(row[i] / row.sum()) for i, (name, row) in enumerate(per_class.items()) if row.sum()
        }
    columns = graph_columns(collection)
    predictions = {
        "graph": columns["graph"],
        "part": work.part(len(collection), tested),
        "class": known,
        "predicted": np.asarray(classes)[chances.argmax(1)],
        "probability": [f"{p:.6f}" for p in chances.max(1)],
        **{f"p_{name}": [f"{p:.6f}" for p in chances[:, i]] for i, name in enumerate(classes)},
    }
    scored = {title: [column[i] for i in tested] for title, column in columns.items()}
    data = scored, truth, chances[tested]
    work.write(metrics, estimator, predictions, "classification_page", *data)
    _show(metrics)
    work.close(metrics)


def _train(source: str, work: Work) -> Classified:
    """The fitted model, all graphs, and the numbers of those it was not trained on."""
    import numpy as np

    from softcut.graph.collection import hold_out
    from softcut.learning import GraphClassification
    from softcut.tables.arrays import plural

    collection, features = _read(source, paper="preset" in work.settings)
    if collection.y is None:
        raise DataError(
            f"{source} has no graph labels ({collection.name}_graph_labels.txt), and training needs them."
        )
    if collection.split is not None:
        rest, tested = np.flatnonzero(collection.split < 2), np.flatnonzero(collection.split == 2)
    else:
        rest, tested, _ = hold_out(collection.y, work.asked.held_out, work.asked.random_state)
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
    # The paper's network reads degree and clustering coefficient beside a folder's own labels and attributes.
    both = features is not None and "preset" in work.settings
    estimator = GraphClassification(features="both" if both else "auto", **work.settings)
    work.fit(estimator, collection.name, collection[rest])
    estimator.metadata_ = {
        "graphs": collection.name,
        "node_features": None if features is None else asdict(features),
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
