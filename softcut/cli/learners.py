"""What ``softcut classify`` and ``softcut regress`` share: options, the learning curve, and what is written."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut import __version__
from softcut.cli.console import TrainingBar, err, note, out, say_written
from softcut.cli.output import Output, Place
from softcut.errors import DependencyError, ModelFileError, ParameterError
from softcut.files import atomic_json

if TYPE_CHECKING:
    import numpy as np

    from softcut.datasets.tu import NodeFeatures
    from softcut.graph import GraphCollection
    from softcut.training import LoopProgress

RESULT_FILES = ("predictions.csv", "metrics.json", "report.html")

# Options that are not given are left to the estimator.
Pool = Annotated[
    str | None,
    typer.Option(help="The paper's network with this pooler, for example mincut, topk or nopool."),
]
SavedModel = Annotated[
    Path | None, typer.Option(help="Train nothing: predict with this model, saved with --model-out.")
]
HeldOut = Annotated[
    float, typer.Option(help="Share of the graphs that is not trained on and tests the model.")
]
Networks = Annotated[
    int | None, typer.Option(help="Networks trained side by side and averaged; 3, with --pool 1.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", help="The most epochs; 200, with --pool 500.")]
PatienceOf = Annotated[
    int | None,
    typer.Option(help="Stop after so many epochs without a lower validation loss; 20, with --pool 50."),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch", help="Graphs in a step; by the number of graphs, with --pool 32."),
]
LearningRate = Annotated[
    float | None, typer.Option("--lr", help="Adam's step size; 0.001, with --pool 0.0005.")
]
Seed = Annotated[int, typer.Option("--seed", help="Random state.")]
Report = Annotated[bool, typer.Option(help="Write report.html, a page with all scores and curves.")]


class Curve:
    """A callback that remembers the numbers of every epoch, of training and of validation, and draws a bar."""

    def __init__(self, loss: str) -> None:
        self._titles = {"loss": loss, "accuracy": "accuracy"}
        self._told: list[LoopProgress] = []

    def fit(self, estimator: Any, job: str, *data: Any) -> None:
        """Train the estimator, with a bar."""
        bar = TrainingBar(err, jobs=1)
        estimator.set_params(callbacks=[self, lambda state: bar.update(job, range(self.networks), state)])
        with bar:
            estimator.fit(*data)

    def __call__(self, state: LoopProgress) -> None:
        self._told.append(state)

    @property
    def networks(self) -> int:
        """How many are trained."""
        return 1 + max(max(state.active) for state in self._told)

    def drawn(self, best: Sequence[int]) -> dict[str, Any] | None:
        """What the page draws: means over the networks, those that have stopped at their last value."""
        import numpy as np

        from softcut.training.task import held

        if not self._told:
            return None

        def line(part: str, name: str) -> np.ndarray:
            values = np.full((len(self._told), self.networks), np.nan)
            for row, state in zip(values, self._told, strict=True):
                row[list(state.active)] = getattr(state, part)[name]
            return held(values).mean(1)

        panels: dict[str, Any] = {}
        for name, title in self._titles.items():
            parts = {"training": "means", "validation": "validation"}
            lines = {said: line(p, name) for said, p in parts.items() if name in getattr(self._told[0], p)}
            if "validation" in lines:
                panels[title] = lines
        return {"panels": panels, "best": list(best)}


def places(
    graphs: str,
    ending: str,
    out_dir: Path | None,
    overwrite: bool,
    model: Path | None,
    model_out: Path | None,
) -> tuple[Output, Place, Place | None]:
    """Where results and the model will be, checked before the work."""
    if model is not None and model_out is not None:
        raise ParameterError("--model-out saves a model that is trained now: leave it out with --model.")
    output, name = Output(overwrite), Path(graphs).name.split(".")[0] or "graphs"
    folder = output.folder(out_dir or Path(f"{name}-{ending}"), RESULT_FILES, model_out)
    return output, folder, output.model(model_out)


def check_share(held_out: float) -> None:
    """Refuse shares of which nothing, or nearly all, would be left to train on."""
    if not 0 < held_out <= 0.5:
        raise ParameterError(f"--held-out must be above 0 and at most 0.5, got {held_out}.")


def given(**settings: Any) -> dict[str, Any]:
    """The options that were given, for an estimator."""
    chosen = {name: value for name, value in settings.items() if value is not None}
    return {**chosen, "preset": "paper"} if "pool" in chosen else chosen


def facts_of(collection: GraphCollection, estimator: Any, scored: int, model: Path | None) -> dict[str, Any]:
    """What every metrics.json begins with."""
    facts: dict[str, Any] = {
        "name": collection.name,
        "softcut": __version__,
        "graphs": len(collection),
        "nodes": collection.num_nodes,
        "edges": len(collection.col) // 2,
        "network": f"the paper's, {estimator.pool or 'mincut'}" if estimator.preset == "paper" else "default",
    }
    if model is not None:
        return {**facts, "model": model.name}
    return {
        **facts,
        "trained_on": len(collection) - scored,
        "tested_on": scored,
        "networks": len(estimator.best_epoch_),
        "best_epoch": estimator.best_epoch_.tolist(),
        "epochs": estimator.n_iter_,
        "interrupted": estimator.interrupted_,
    }


def scored_on(
    count: int, collection: GraphCollection, held_out: float, seed: int, model: Path | None, known: bool
) -> str:
    """Which graphs the scores are of, in a sentence; `known`: whether there are any."""
    if model is not None and not known:
        return f"{count:,} graphs were given to the model {model.name}."
    if model is not None:
        return (
            f"Scores are on {count:,} graphs given to the model {model.name}: they say what it is worth only if it was "
            "not trained on these graphs."
        )
    if collection.split is not None:
        return f"Scores are on the {count:,} test graphs of {collection.name}'s own split, which were not trained on."
    return (
        f"Scores are on {count:,} graphs that were held out and not trained on: {100 * held_out:g} % of all, drawn at "
        f"random (--held-out {held_out:g} --seed {seed})."
    )


def node_features_of(model: Path, metadata: Mapping[str, Any], source: str) -> NodeFeatures | None:
    """How a saved model wants the node features of a folder; None for a data set by name."""
    from softcut.datasets.tu import NodeFeatures

    known = metadata.get("node_features")
    if Path(source).is_dir() and known is None:
        name = metadata.get("graphs", "a list of graphs")
        raise ModelFileError(
            f"{model} was trained on {name}, not on a folder, and its node features cannot be made for {source}."
        )
    if not Path(source).is_dir() and known is not None:
        raise ModelFileError(f"{model} was trained on a folder: name a folder with graphs, not {source!r}.")
    try:
        return None if known is None else NodeFeatures(**known)
    except TypeError as error:
        raise ModelFileError(f"{model}: the model is damaged or incomplete ({error}).") from error


def columns_of(collection: GraphCollection) -> dict[str, list[Any]]:
    """What a table says about every graph; numbered from 1, as in the files of the TU data sets."""
    ends = collection.entries_ptr
    edges = ((ends[1:] - ends[:-1]) // 2).tolist()
    return {"graph": [*range(1, len(collection) + 1)], "nodes": collection.sizes.tolist(), "edges": edges}


def write_files(
    folder: Path,
    metrics: dict[str, Any],
    titles: Sequence[str],
    rows: Iterable[Sequence[Any]],
    page: Any,
) -> None:
    """predictions.csv, metrics.json and the page, which `page` makes (None: none is wanted)."""
    from softcut.report.html_page import plain

    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(titles)
        writer.writerows(rows)
    atomic_json(folder / "metrics.json", plain(metrics))
    if page is not None:
        try:
            (folder / "report.html").write_text(page(), encoding="utf-8")
        except DependencyError as error:
            note(f"no report.html: {error}")


def close(metrics: Mapping[str, Any], output: Output) -> None:
    """Which graphs the scores are of, and the files."""
    out.print(metrics["scored_on"], markup=False, soft_wrap=True)
    say_written(output.written)
