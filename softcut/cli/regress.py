"""``softcut regress``: train a model that predicts numbers of graphs, or use a saved one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from softcut.cli.console import show, spoken_warnings
from softcut.cli.learners import Work, learns, node_features_of
from softcut.errors import DataError, ModelFileError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from softcut.graph import GraphCollection

Names: TypeAlias = Sequence[str] | None
Known: TypeAlias = Mapping[str, Any] | None  # what a saved model keeps of the graphs it was trained on


@dataclass(frozen=True)
class Numbered:
    """Graphs, numbers of them, and how they were read."""

    graphs: GraphCollection
    targets: np.ndarray | None  # [G, T]
    names: tuple[str, ...]  # of the targets
    columns: dict[str, list[Any]]  # what tables say about every graph first
    about: dict[str, Any]  # what a model must know to read other graphs


@learns(ending="numbers", loss="mean squared error of standardised numbers")
def regress(
    graphs: Annotated[
        str,
        typer.Argument(
            help="A table of molecules with a column of SMILES (csv, tsv, xlsx, Parquet), or a folder in the format "
            "of the TU data sets with NAME_graph_attributes.txt."
        ),
    ],
    work: Work,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A column to predict, by its title (in a folder its number, from 1); may be given again."
        ),
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(help="The column of SMILES; by default called smiles.")
    ] = None,
) -> None:
    """Predict numbers of graphs: train on a part of them and test on the rest, or use a model that was saved.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    import numpy as np

    from softcut.learning import GraphRegression
    from softcut.metrics.predictions import number_scores

    with spoken_warnings():
        if work.model is not None:
            estimator = GraphRegression.load(work.model).set_params(device=work.asked.device)
            data = _read(graphs, smiles, target, work.model, estimator.metadata_)
            # Scores are of the graphs whose numbers are known, where some are.
            known = np.isfinite(
                np.zeros((len(data.graphs), 1)) if data.targets is None else data.targets
            ).all(1)
            tested = np.flatnonzero(known | ~known.any())
        else:
            data = _read(graphs, smiles, target)
            estimator, tested = _train(graphs, data, work)
        predicted = estimator.predict(data.graphs).reshape(len(data.graphs), -1)
    truth = None if data.targets is None or not np.isfinite(data.targets[tested]).all() else data.targets
    metrics = work.facts(data.graphs, estimator, len(tested), truth is not None)
    metrics["targets"] = names = list(estimator.metadata_["targets"])
    if truth is not None:
        parts = zip(names, truth[tested].T, predicted[tested].T, estimator.mean_.tolist(), strict=True)
        metrics["scores"] = {name: number_scores(*each) for name, *each in parts}
    predictions = {title: column for title, column in data.columns.items() if title not in ("nodes", "edges")}
    predictions["part"] = work.part(len(data.graphs), tested)
    for number, name in enumerate(names):
        if truth is not None:
            predictions[f"true {name}"] = [
                "" if np.isnan(value) else value for value in truth[:, number].tolist()
            ]
        predictions[f"predicted {name}"] = [f"{value:.6g}" for value in predicted[:, number]]
    scored = {title: [column[i] for i in tested] for title, column in data.columns.items()}
    shown = scored, None if truth is None else truth[tested], predicted[tested]
    work.write(metrics, estimator, predictions, "regression_page", *shown)
    _show(metrics, predicted)
    work.close(metrics)


def _train(source: str, data: Numbered, work: Work) -> tuple[Any, np.ndarray]:
    """The fitted model, and the numbers of the graphs it was not trained on."""
    import numpy as np

    from softcut.graph.collection import hold_out
    from softcut.learning import GraphRegression
    from softcut.tables.arrays import plural

    if data.targets is None:
        raise DataError(
            f"{source} has no {data.graphs.name}_graph_attributes.txt, the numbers to train with."
        )
    alike = np.zeros(len(data.graphs), np.int64)
    rest, tested, _ = hold_out(alike, work.asked.held_out, work.asked.random_state)
    if len(rest) < 2 or not len(tested):
        held = plural(len(data.graphs), "graph")
        raise DataError(f"{source} holds {held}: too few to train on some and test on others.")
    for name, column in zip(data.names, data.targets.T, strict=True):
        if (column == column[0]).all():
            raise DataError(
                f"{source}: {name!r} is {column[0]:g} for all graphs, so there is nothing to learn."
            )
    # The paper's network reads degree and clustering coefficient beside a folder's own labels and attributes.
    both = "elements" not in data.about and "preset" in work.settings
    estimator = GraphRegression(features="both" if both else "auto", **work.settings)
    work.fit(estimator, data.graphs.name, data.graphs[rest], data.targets[rest])
    estimator.metadata_ = {
        "graphs": data.graphs.name,
        "targets": list(data.names),
        **data.about,
    }
    return estimator, tested


def _read(
    source: str,
    smiles: str | None,
    target: Names,
    model: Path | None = None,
    known: Known = None,
) -> Numbered:
    """A folder or a table; with what a saved `model` has known of the graphs it was trained on."""
    path = Path(source)
    if not path.exists():
        raise ParameterError(f"{source} is neither a folder with graphs nor a table of molecules.")
    if known is not None and "targets" not in known:
        raise ModelFileError(
            f"{model} was not trained by softcut regress, and does not say how to read {source}."
        )
    return (_folder if path.is_dir() else _table)(path, smiles, target, model, known)


def _folder(path: Path, smiles: str | None, target: Names, model: Path | None, known: Known) -> Numbered:
    from softcut.datasets.tu import read_targets, read_tu_folder
    from softcut.report.html_learning import graph_columns
    from softcut.tables.arrays import listed

    if smiles is not None:
        raise ParameterError(f"--smiles names a column of a table, and {path} is a folder: leave it out.")
    if known is not None and model is not None and "elements" in known:
        raise ModelFileError(f"{model} was trained on a table of molecules: name such a table, not {path}.")
    wanted = None if known is None or model is None else node_features_of(model, known, str(path))
    graphs, features = read_tu_folder(path, wanted)
    targets = read_targets(path, graphs)
    every = [] if targets is None else [str(i + 1) for i in range(targets.shape[1])]
    names = list(target or (every if known is None else known["targets"]))
    missing = [name for name in names if name not in every]
    if targets is not None and missing:
        raise DataError(f"{path} has no number {missing[0]!r} of graphs; there are {listed(every)}.")
    if targets is not None:
        targets = targets[:, [every.index(name) for name in names]]
    return Numbered(graphs, targets, tuple(names), graph_columns(graphs), {"node_features": asdict(features)})


def _table(path: Path, smiles: str | None, target: Names, model: Path | None, known: Known) -> Numbered:
    from softcut.datasets.molecules import read_molecules
    from softcut.report.html_learning import graph_columns

    if known is not None and "elements" not in known:
        raise ModelFileError(f"{model} was trained on a folder: name a folder with graphs, not {path}.")
    if known is None:
        table = read_molecules(path, smiles, target)
    else:  # numbers that the table has are compared with the predictions
        table = read_molecules(path, smiles, known["targets"], elements=known["elements"])
    for each in table.notes:
        typer.echo(each, err=True)
    columns = {**graph_columns(table.graphs), "graph": table.rows.tolist(), "smiles": table.smiles}
    return Numbered(table.graphs, table.targets, table.names, columns, {"elements": list(table.elements)})


def _show(metrics: Mapping[str, Any], predicted: np.ndarray) -> None:
    from softcut.report.html_learning import NUMBER_SCORES, number_cells, prediction_table
    from softcut.report.tables import Table

    title = f"{metrics['name']}: {metrics['graphs']:,} graphs"
    table = prediction_table(metrics["targets"], predicted, title)
    if "scores" in metrics:
        rows = [[name, *number_cells(score)] for name, score in metrics["scores"].items()]
        table = Table(["target", *NUMBER_SCORES], rows, title)
    facts = [f"Network: {metrics['network']}"]
    if "tested_on" in metrics:
        facts.append(f"trained on {metrics['trained_on']:,} graphs, tested on {metrics['tested_on']:,}")
        facts.append(f"{metrics['epochs']} epochs{' (interrupted)' if metrics['interrupted'] else ''}")
    show(replace(table, notes=[f"{', '.join(facts)}, {metrics['seconds']:.1f} s."]))
