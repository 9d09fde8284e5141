"""What ``softcut classify`` and ``softcut regress`` share: options, the learning curve, and what is written."""

from __future__ import annotations

import csv
import inspect
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut import __version__
from softcut.cli.console import TrainingBar, err, note, out, say_written
from softcut.cli.output import Device, ModelOut, OutFolder, Output, Overwrite
from softcut.errors import DependencyError, ModelFileError, ParameterError
from softcut.files import atomic_json

if TYPE_CHECKING:
    import numpy as np

    from softcut.datasets.tu import NodeFeatures
    from softcut.graph import GraphCollection
    from softcut.training import LoopProgress

_RESULT_FILES = ("predictions.csv", "metrics.json", "report.html")


def _option(kind: Any, *flags: str, help: str) -> Any:
    return Annotated[kind, typer.Option(*flags, help=help)]


# Options of the estimator; those that are not given are left to it.
_SETTINGS = {
    "pool": _option(
        str | None, help="The paper's network with this pooler, for example mincut, topk or nopool."
    ),
    "n_init": _option(int | None, help="Networks trained side by side and averaged; 3, with --pool 1."),
    "max_iter": _option(int | None, "--epochs", help="The most epochs; 100, with --pool 500."),
    "patience": _option(
        int | None, help="Stop after so many epochs without a lower validation loss; 15, with --pool 50."
    ),
    "batch_size": _option(
        int | None, "--batch", help="Graphs in a step; by the number of graphs, with --pool 32."
    ),
    "learning_rate": _option(float | None, "--lr", help="Adam's step size; 0.001, with --pool 0.0005."),
}
# All options and their defaults.
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "model": (
        _option(Path | None, help="Train nothing: predict with this model, saved with --model-out."),
        None,
    ),
    "model_out": (ModelOut, None),
    "out_dir": (OutFolder, None),
    "overwrite": (Overwrite, False),
    "held_out": (
        _option(float, help="Share of the graphs that is not trained on and tests the model."),
        0.1,
    ),
    **{name: (kind, None) for name, kind in _SETTINGS.items()},
    "random_state": (_option(int, "--seed", help="Random state."), 0),
    "device": (Device, "auto"),
    "report": (_option(bool, help="Write report.html, a page with all scores and curves."), True),
}


def learns(ending: str, loss: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a learner, in place of which it gets a :class:`Work`.

    Results go to a folder with this `ending` by default; `loss` is what networks minimise, in words.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        types = typing.get_type_hints(command, include_extras=True)
        own = [p.replace(annotation=types[p.name]) for p in inspect.signature(command).parameters.values()]
        kind = inspect.Parameter.KEYWORD_ONLY
        shown = [p.replace(kind=kind) for p in own if p.name != "work"]
        shown += [
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in _OPTIONS.items()
        ]

        def run(graphs: str, **given: Any) -> None:
            asked = SimpleNamespace(**{name: given.pop(name) for name in _OPTIONS})
            command(graphs=graphs, work=Work(graphs, ending, loss, asked), **given)

        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in shown}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return give


class Work:
    """One run of a command: what was asked for, where results go, and the numbers of every epoch."""

    def __init__(self, graphs: str, ending: str, loss: str, asked: SimpleNamespace) -> None:
        self.start = time.perf_counter()
        if asked.model is not None and asked.model_out is not None:
            raise ParameterError("--model-out saves a model that is trained now: leave it out with --model.")
        if not 0 < asked.held_out <= 0.5:
            raise ParameterError(f"--held-out must be above 0 and at most 0.5, got {asked.held_out}.")
        self.model: Path | None = asked.model
        self.asked, self.curve = asked, Curve(loss)
        self.output, name = Output(asked.overwrite), Path(graphs).name.split(".")[0] or "graphs"
        place = asked.out_dir or Path(f"{name}-{ending}")
        self.folder = self.output.folder(place, _RESULT_FILES, asked.model_out)
        self.models = self.output.model(asked.model_out)

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the estimator."""
        names = (*_SETTINGS, "random_state", "device")
        chosen = {name: value for name in names if (value := getattr(self.asked, name)) is not None}
        return {**chosen, "preset": "paper"} if "pool" in chosen else chosen

    def fit(self, estimator: Any, job: str, *data: Any) -> None:
        """Train the estimator, with a bar."""
        bar, curve = TrainingBar(err, jobs=1), self.curve
        tell = [curve, lambda state: bar.update(job, range(curve.networks), state)]
        with bar:
            estimator.set_params(callbacks=tell).fit(*data)

    def facts(self, collection: GraphCollection, estimator: Any, scored: int, known: bool) -> dict[str, Any]:
        """What every metrics.json begins with; `known`: whether there is something to score `scored` graphs by."""
        paper = estimator.preset == "paper"
        facts: dict[str, Any] = {
            "name": collection.name,
            "softcut": __version__,
            "graphs": len(collection),
            "nodes": collection.num_nodes,
            "edges": len(collection.col) // 2,
            "network": f"the paper's, {estimator.pool or 'mincut'}" if paper else "default",
            "scored_on": self._scored_on(collection, scored, known),
        }
        if self.model is not None:
            return {**facts, "model": self.model.name}
        return {
            **facts,
            "trained_on": len(collection) - scored,
            "tested_on": scored,
            "networks": len(estimator.best_epoch_),
            "best_epoch": estimator.best_epoch_.tolist(),
            "epochs": estimator.n_iter_,
            "interrupted": estimator.interrupted_,
        }

    def _scored_on(self, collection: GraphCollection, count: int, known: bool) -> str:
        """Which graphs the scores are of, in a sentence."""
        if self.model is not None and not known:
            return f"{count:,} graphs were given to the model {self.model.name}."
        if self.model is not None:
            return (
                f"Scores are on {count:,} graphs given to the model {self.model.name}: they say what it is worth only "
                "if it was not trained on these graphs."
            )
        if collection.split is not None:
            own = f"the {count:,} test graphs of {collection.name}'s own split"
            return f"Scores are on {own}, which were not trained on."
        share, seed = self.asked.held_out, self.asked.random_state
        return (
            f"Scores are on {count:,} graphs that were held out and not trained on: {100 * share:g} % of all, drawn at "
            f"random (--held-out {share:g} --seed {seed})."
        )

    def part(self, count: int, tested: np.ndarray) -> list[str]:
        """What every graph was used for; "" where nothing was trained."""
        import numpy as np

        part = np.full(count, "training" if self.model is None else "")
        part[tested] = "test" if self.model is None else ""
        return part.tolist()

    def write(
        self,
        metrics: dict[str, Any],
        estimator: Any,
        predictions: Mapping[str, Sequence[Any]],
        page: str,
        *data: Any,
    ) -> None:
        """predictions.csv, metrics.json, the model, and the page that a function of the report makes of `data`."""
        from softcut.provenance import command_line
        from softcut.report import html_learning
        from softcut.report.html_page import plain

        metrics["seconds"] = time.perf_counter() - self.start
        with self.output:
            folder = self.folder.staged
            with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(predictions)
                writer.writerows(zip(*predictions.values(), strict=True))
            atomic_json(folder / "metrics.json", plain(metrics))
            if self.asked.report:
                drawn = None if self.model is not None else self.curve.drawn(estimator.best_epoch_.tolist())
                try:
                    made = getattr(html_learning, page)(metrics, *data, curve=drawn, command=command_line())
                    (folder / "report.html").write_text(made, encoding="utf-8")
                except DependencyError as error:
                    note(f"no report.html: {error}")
            if self.models is not None:
                estimator.save(self.models.staged / self.asked.model_out.name)

    def close(self, metrics: Mapping[str, Any]) -> None:
        """Which graphs the scores are of, and the files."""
        out.print(metrics["scored_on"], markup=False, soft_wrap=True)
        say_written(self.output.written)
        if metrics.get("interrupted"):
            raise SystemExit(130)


class Curve:
    """A callback that remembers the numbers of every epoch, of training and of validation."""

    def __init__(self, loss: str) -> None:
        self._titles = {"loss": loss, "accuracy": "accuracy"}
        self._told: list[LoopProgress] = []

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
    """What a table says about every graph; numbered from 1, as in the files of the TU data sets.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> columns_of(from_graphs([Graph.from_edges([[0, 1], [1, 2]]), Graph.from_edges([[0], [1]])]))
    {'graph': [1, 2], 'nodes': [3, 2], 'edges': [2, 1]}
    """
    ends = collection.entries_ptr
    edges = ((ends[1:] - ends[:-1]) // 2).tolist()
    return {"graph": [*range(1, len(collection) + 1)], "nodes": collection.sizes.tolist(), "edges": edges}
