"""``softcut cluster`` and ``softcut predict``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from softcut import __version__
from softcut.cli.console import err, note, spoken_warnings
from softcut.cli.output import Device, Output, Overwrite
from softcut.cli.reading import GraphFile, ReadGraph, reads_a_graph
from softcut.cli.results import RESULT_FILES, closing_table, write_report, write_results
from softcut.errors import ParameterError
from softcut.graph import Graph

__all__ = ["cluster", "cluster_counts", "limit_of", "predict"]

OutFolder = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for the results; by default named after the graph.")
]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option("--spreadsheet-safe", help="Put ' before names that a spreadsheet would run as a formula."),
]
Plot = Annotated[bool, typer.Option(help="Draw a picture.")]
Report = Annotated[
    bool, typer.Option("--report", help="Also write report.html, a page to look at the clusters in.")
]
_LARGEST_SEED = 2**32 - 1  # of NumPy and scikit-learn


@reads_a_graph
def cluster(
    graph: GraphFile,
    read: ReadGraph,
    n_clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="Number of clusters, a range such as 2:20, or 'auto'.")
    ],
    out_dir: OutFolder = None,
    model_out: Annotated[Path | None, typer.Option(help="Save the fitted model under this name.")] = None,
    overwrite: Overwrite = False,
    n_init: Annotated[int | None, typer.Option(help="Networks trained together.")] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's model and settings (MinCutClustering).")
    ] = False,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What networks optimise: 'evidence', 'mincut', 'ratio_trace', 'dmon' or 'just_balance'."
        ),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="The most training iterations.")] = None,
    random_state: Annotated[int, typer.Option("--seed", help="Random state, from 0 to 2^32 - 1.")] = 0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="Raise the limit of an argument, such as n_init=50000; may be given again."),
    ] = None,
    device: Device = "auto",
    spreadsheet_safe: SpreadsheetSafe = False,
    plot: Plot = True,
    report: Report = False,
) -> None:
    """Cluster the nodes of a graph; writes labels, soft assignments, metrics and a picture.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    from softcut.clustering import GraphClustering, MinCutClustering
    from softcut.clustering.arguments import LIMITS
    from softcut.metrics import evaluate
    from softcut.report.progress import TrainingBar

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder(
        "--out", out_dir or default_folder(graph), (*RESULT_FILES, *model_files(model_out))
    )
    models = None
    if model_out is not None:
        models = output.files("--model-out", model_out, model_files(model_out))
    if not 0 <= random_state <= _LARGEST_SEED:
        raise ParameterError(
            f"--seed must be a whole number from 0 to {_LARGEST_SEED:,}, got {random_state}."
        )
    for name, value in map(limit_of, limit or ()):
        LIMITS[name] = value
    bar = TrainingBar(err)
    if paper and objective is not None:
        raise ParameterError(
            "--objective has no effect with --paper, whose network minimises the cut; leave it out."
        )
    more: dict[str, Any] = {} if paper else {"objective": objective}
    estimator = (MinCutClustering if paper else GraphClustering)(
        n_clusters=cluster_counts(n_clusters),
        n_init=n_init,
        max_iter=max_iter,
        random_state=random_state,
        device=device,
        callbacks=[bar],
        **more,
    )
    with spoken_warnings() as said:
        data = read()
        seconds = time.perf_counter() - start
        with bar:
            estimator.fit(data)
    for text in estimator.notes_:
        if text not in said:
            note(text)
    metrics = {
        **_about(graph, data, estimator.n_clusters_),
        "structure": estimator.structure_,
        "verdict": estimator.verdict_,
        **evaluate(data, estimator.labels_, k=estimator.n_clusters_),
        "candidates": {str(number): described for number, described in estimator.candidates_.items()},
        "agreement_of_replicas": estimator.agreement_,
        "replicas": len(estimator.replicas_),
        "replicas_collapsed": sum(r.collapsed for r in estimator.replicas_),
        "iterations": estimator.n_iter_,
        "converged": estimator.converged_,
        "interrupted": estimator.interrupted_,
        "seconds": {"read": seconds, "fit": estimator.fit_seconds_},
        "notes": estimator.notes_,
    }
    with output:
        part = output.staged(folder)
        write_results(part, data, estimator.soft_, metrics, plot=plot, spreadsheet_safe=spreadsheet_safe)
        if report:
            write_report(part, data, estimator, metrics)
        if models is not None and model_out is not None:
            estimator.save(output.staged(models) / model_out.name)
        written = output.files_to_come()
    closing_table(metrics, written, time.perf_counter() - start)
    if estimator.interrupted_:
        raise SystemExit(130)


@reads_a_graph
def predict(
    model: Annotated[Path, typer.Argument(help="A model saved with --model-out.")],
    graph: GraphFile,
    read: ReadGraph,
    out_dir: OutFolder = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
    spreadsheet_safe: SpreadsheetSafe = False,
    plot: Plot = True,
) -> None:
    """Cluster another graph with a saved model."""
    from softcut.clustering import GraphClustering
    from softcut.metrics import evaluate

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder("--out", out_dir or default_folder(graph), RESULT_FILES)
    estimator = GraphClustering.load(model).set_params(device=device)
    with spoken_warnings() as said:
        data = read()
        read_so_far = len(said)
        soft = estimator.predict_proba(data)
    metrics = {
        **_about(graph, data, estimator.n_clusters_),
        "model": model.name,
        **evaluate(data, soft.argmax(1), k=estimator.n_clusters_),
        "notes": said[read_so_far:],
    }
    with output:
        part = output.staged(folder)
        write_results(part, data, soft, metrics, plot=plot, spreadsheet_safe=spreadsheet_safe)
        written = output.files_to_come()
    closing_table(metrics, written, time.perf_counter() - start)


def cluster_counts(text: str) -> int | range | str:
    """What ``-k`` means: a number, a range with both ends, or "auto".

    >>> cluster_counts("7"), cluster_counts("2:20"), cluster_counts("auto")
    (7, range(2, 21), 'auto')
    """
    what = "a whole number, a range such as 2:20, or 'auto'"
    if text == "auto":
        return text
    if ":" not in text:
        return _whole("--clusters", text, what)
    low, high = (_whole("--clusters", part, what, given=text) for part in text.split(":", 1))
    if not 1 <= low <= high:
        raise ParameterError(
            f"--clusters {text} is an empty range: the smaller number comes first, from 1 on."
        )
    return range(low, high + 1)


def limit_of(text: str) -> tuple[str, int]:
    """The argument and its new limit, of ``--limit``.

    >>> limit_of("n_init=50000")
    ('n_init', 50000)
    """
    from softcut.clustering.arguments import LIMITS

    name, _, value = text.replace("-", "_").partition("=")
    names = list(LIMITS)
    if name not in names or not value:
        raise ParameterError(f"--limit {text} must be NAME=NUMBER, with one of {', '.join(names)}.")
    return name, _whole("--limit", value, "NAME=NUMBER", given=text)


def _whole(option: str, text: str, what: str, given: str | None = None) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"{option} must be {what}, got {given or text!r}.") from None


def default_folder(graph: Path) -> Path:
    """``people.csv.gz`` -> ``people-clusters``; standard input -> ``graph-clusters``."""
    name = graph.name.split(".")[0] if not graph.name.startswith(".") else ""
    return Path(f"{name if name not in ('', '-') else 'graph'}-clusters")


def model_files(path: Path | None) -> list[str]:
    """The names of the files a model is saved as."""
    if path is None:
        return []
    stem = path.name.removesuffix(".safetensors").removesuffix(".json")
    return [stem + ".safetensors", stem + ".json"]


def _about(path: Path, graph: Graph, n_clusters: int) -> dict[str, Any]:
    """What every metrics.json begins with."""
    return {
        "graph": "standard input" if path == Path("-") else path.name,
        "softcut": __version__,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "reading": graph.notes,
        "n_clusters": n_clusters,
    }
