"""``softcut cluster`` and ``softcut predict``."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut.cli.console import TrainingBar, err, note, say_written, show_facts, show_summary, spoken_warnings
from softcut.cli.output import Device, ModelOut, OutFolder, Output, Overwrite, Place
from softcut.cli.reading import OptionalGraphFile, ReadGraph, reads_a_graph
from softcut.errors import DependencyError, Detail, ParameterError
from softcut.files import atomic_json
from softcut.imports import importing

if TYPE_CHECKING:  # load numpy and torch, which `softcut cluster --help` need not wait for
    import numpy as np

    from softcut.graph import Graph
    from softcut.metrics.summary import Summary

SpreadsheetSafe = Annotated[
    bool,
    typer.Option("--spreadsheet-safe", help="Put ' before names that a spreadsheet would run as a formula."),
]
Plot = Annotated[bool, typer.Option(help="Draw a picture.")]
Position = Annotated[
    tuple[str, str] | None,
    typer.Option(
        help="Two columns of the features (titles, or numbers from 0) that say where to draw nodes, across and up; "
        "columns called x and y, lon and lat, or pos_x and pos_y are found by themselves."
    ),
]
_SIZES = 8  # clusters whose sizes are printed
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also say how it was done, with every score to four digits.")
]
RESULT_FILES = (
    "labels.csv",
    "labels.parquet",
    "clusters.csv",
    "assignments.npy",
    "metrics.json",
    "clusters.png",
    "report.html",
)


@reads_a_graph
def cluster(
    read: ReadGraph,
    named_after: Path,
    n_clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="Number of clusters, a range such as 2:20, or 'auto'.")
    ],
    graph: OptionalGraphFile = None,
    out_dir: OutFolder = None,
    model_out: ModelOut = None,
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
    position: Position = None,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Also write the graph with clusters and colours: .graphml, .gexf (Gephi) or .json."
        ),
    ] = None,
    verbose: Verbose = False,
    report: Annotated[
        bool, typer.Option("--report", help="Also write report.html, a page to look at the clusters in.")
    ] = False,
) -> None:
    """Cluster the nodes of a graph; writes labels, a summary of every cluster, metrics and a picture.

    Ctrl-C ends the training and writes what was learnt; a second Ctrl-C writes nothing.
    """
    with importing():
        from softcut.clustering import GraphClustering, MinCutClustering
        from softcut.clustering.arguments import LIMITS
        from softcut.report.clustering_files import clustering_metrics
        from softcut.report.plots import coordinate_columns
    gc.freeze()  # and never searches it later

    start = time.perf_counter()
    output = Output(overwrite)
    place = out_dir or _default_folder(named_after)
    folder = output.folder(place, RESULT_FILES, model_out, export)
    models = output.model(model_out)
    exported = None if export is None else _export_place(output, export)
    for name, value in map(limit_of, limit or ()):
        LIMITS[name] = value
    if paper and objective is not None:
        raise ParameterError(
            "--objective has no effect with --paper, whose network minimises the cut; leave it out."
        )
    more: dict[str, Any] = {} if paper else {"objective": objective}
    bar = TrainingBar(err)
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
        coordinate_columns(data, position)  # refused before the work
        output.check_room(bytes_of_results(data, estimator.n_clusters))
        with bar:
            estimator.fit(data)
    metrics = clustering_metrics(_name(named_after), data, estimator, read=seconds)
    summary = estimator.summary()
    with output:
        write_results(
            *(folder.staged, data, estimator.soft_, estimator.labels_, metrics, plot, spreadsheet_safe),
            *(position, summary),
        )
        if report:
            from softcut.provenance import command_line
            from softcut.report.html_clustering import clustering_page

            more = {"history": estimator.history_, "replicas": estimator.replicas_, "command": command_line()}
            shown: dict[str, Any] = {"clusters": estimator.labels_, "summary": summary, "position": position}
            page = clustering_page(data, estimator.soft_, metrics, **shown, **more)
            (folder.staged / "report.html").write_text(page, encoding="utf-8")
        if models is not None and model_out is not None:
            estimator.save(models.staged / model_out.name)
        if exported is not None and export is not None:
            from softcut.io import write_graph

            write_graph(data, exported.staged / export.name, labels=estimator.labels_)
    _close(metrics, summary, output, start, verbose)
    for text in estimator.notes_:  # how it was found comes after what was found
        if text not in said and text not in data.notes and (verbose or not isinstance(text, Detail)):
            note(text)
    if estimator.interrupted_:
        raise SystemExit(130)


@reads_a_graph
def predict(
    model: Annotated[Path, typer.Argument(help="A model saved with --model-out.")],
    read: ReadGraph,
    named_after: Path,
    graph: OptionalGraphFile = None,
    out_dir: OutFolder = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
    spreadsheet_safe: SpreadsheetSafe = False,
    plot: Plot = True,
    position: Position = None,
    verbose: Verbose = False,
) -> None:
    """Cluster another graph with a saved model."""
    with importing():
        from softcut.clustering import GraphClustering
        from softcut.metrics import evaluate
        from softcut.metrics.summary import summarise
        from softcut.report.clustering_files import graph_facts, label_facts
        from softcut.report.plots import coordinate_columns
    gc.freeze()  # and never searches it later

    start = time.perf_counter()
    output = Output(overwrite)
    folder = output.folder(out_dir or _default_folder(named_after), RESULT_FILES)
    estimator = GraphClustering.load(model).set_params(device=device)
    with spoken_warnings() as said:
        data = read(schema=estimator.schema_)
        coordinate_columns(data, position)  # refused before the work
        output.check_room(bytes_of_results(data, estimator.n_clusters_))
        read_so_far = len(said)
        labels, soft = estimator.assign(data)
    summary = summarise(data, labels, soft)
    metrics = {
        **graph_facts(_name(named_after), data, estimator.n_clusters_),
        "model": model.name,
        **evaluate(data, labels, k=estimator.n_clusters_),
        **label_facts(data, labels, estimator.n_clusters_),
        "notes": said[read_so_far:],
    }
    with output:
        write_results(folder.staged, data, soft, labels, metrics, plot, spreadsheet_safe, position, summary)
    _close(metrics, summary, output, start, verbose)


def bytes_of_results(graph: Graph, clusters: Any) -> int:
    """About how much the files of a clustering take: assignments, labels with names and probabilities, a picture."""
    k = (
        clusters
        if isinstance(clusters, int)
        else max(clusters, default=0)
        if isinstance(clusters, range)
        else 2
    )
    k = min(k, graph.num_nodes)  # more are refused by the fit
    return graph.num_nodes * (8 * k + 64) + 1_000_000


def cluster_counts(text: str) -> int | range | str:
    """What ``-k`` means: a number, a range with both ends, or "auto"."""
    if text == "auto":
        return text
    what = "a whole number, a range such as 2:20, or 'auto'"
    low, *high = (whole_number("--clusters", part, what, text) for part in text.split(":", 1))
    return range(low, high[0] + 1) if high else low


def limit_of(text: str) -> tuple[str, int]:
    """The argument and its new limit, of ``--limit``."""
    from softcut.clustering.arguments import LIMITS

    name, _, value = text.replace("-", "_").partition("=")
    if name not in LIMITS or not value:
        raise ParameterError(f"--limit {text} must be NAME=NUMBER, with one of {', '.join(LIMITS)}.")
    return name, whole_number("--limit", value, "NAME=NUMBER", text)


def whole_number(option: str, text: str, what: str, given: str) -> int:
    """A part of what was given for an option, as a number; `what` says what may be given."""
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"{option} must be {what}, got {given!r}.") from None


def write_results(
    folder: Path,
    graph: Graph,
    soft: np.ndarray,
    labels: np.ndarray,
    metrics: dict[str, Any],
    plot: bool = True,
    spreadsheet_safe: bool = False,
    position: tuple[str, str] | None = None,
    summary: Summary | None = None,
) -> None:
    """Labels, the summary of every cluster (made where it is not given), soft assignments, metrics and a picture."""
    import numpy as np

    from softcut.metrics.summary import summarise
    from softcut.report.clustering_files import write_clusters, write_labels, write_parquet
    from softcut.report.html_page import plain
    from softcut.report.plots import plot_clustering

    summary = summarise(graph, labels, soft) if summary is None else summary
    write_labels(folder / "labels.csv", graph, soft, labels, spreadsheet_safe=spreadsheet_safe)
    write_clusters(folder / "clusters.csv", summary, spreadsheet_safe=spreadsheet_safe)
    np.save(folder / "assignments.npy", soft.astype(np.float32))
    try:
        write_parquet(folder / "labels.parquet", graph, soft, labels)
    except DependencyError as error:
        note(f"no labels.parquet: {error}")
    atomic_json(folder / "metrics.json", plain(metrics))
    if plot:
        shown: dict[str, Any] = {"title": metrics["graph"], "position": position, "summary": summary}
        try:
            plot_clustering(folder / "clusters.png", graph, labels, **shown)
        except DependencyError as error:
            note(f"no clusters.png: {error}")


def _close(metrics: dict[str, Any], summary: Summary, output: Output, start: float, verbose: bool) -> None:
    """What was found, and where it is; `verbose`: with every score."""
    show_summary(summary)
    facts = []
    if "verdict" in metrics and verbose:
        facts += [
            ("verdict", metrics["verdict"]),
            ("structure (nats explained per nat)", f"{metrics['structure']:.4f}"),
        ]
    facts.append(("clusters used", f"{metrics['clusters_used']} of {metrics['n_clusters']}"))
    if metrics["nodes_without_cluster"]:
        facts.append(
            ("nodes without edges and features", f"{metrics['nodes_without_cluster']:,}, in no cluster")
        )
    for kind, sizes in metrics.get("clusters_by_kind", {}).items():
        more = ", ..." if len(sizes) > _SIZES else ""
        facts.append((f"{kind} by cluster", ", ".join(f"{size:,}" for size in sizes[:_SIZES]) + more))
    scores = {
        "normalised_cut": "normalised cut",
        "modularity": "modularity",
        "balance": "balance",
        "evidence": "evidence (nats per nat of labels)",
        "agreement_of_replicas": "agreement of restarts (ARI)",
    }
    scores = scores if verbose else {key: scores[key] for key in ("normalised_cut", "modularity")}
    digits = 4 if verbose else 2  # metrics.json has all of them
    facts += [(words, f"{metrics[key]:.{digits}f}") for key, words in scores.items() if key in metrics]
    if metrics.get("interrupted"):
        facts.append(("interrupted", f"after {metrics['iterations']} iterations"))
    facts.append(("seconds", f"{time.perf_counter() - start:.1f}"))
    show_facts(f"{metrics['graph']}: {metrics['nodes']:,} nodes, {metrics['edges']:,} edges", facts)
    say_written(output.written)


def _export_place(output: Output, export: Path) -> Place:
    """Where ``--export`` will be, checked before the work."""
    from softcut.io.writers import check_export

    if export.suffix.lower() == ".csv":
        raise ParameterError("--export writes no .csv, which has no place for clusters; labels.csv has them.")
    try:
        check_export(export)
    except ParameterError:
        raise ParameterError(f"--export {export} must end in .graphml, .gexf or .json.") from None
    return output.file("--export", export)


def _name(graph: Path) -> str:
    from softcut.io.text_files import is_standard_input, label_of

    return label_of(graph if is_standard_input(graph) else graph.name)


def _default_folder(graph: Path) -> Path:
    """``people.csv.gz`` -> ``people-clusters``; standard input -> ``graph-clusters``."""
    name = graph.name.split(".")[0] if not graph.name.startswith(".") else ""
    return Path(f"{name if name not in ('', '-') else 'graph'}-clusters")
