"""``softcut cluster`` and ``softcut predict``."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcut.cli.cluster_options import (
    cluster_counts,
    earlier_run,
    limit_of,
    pattern_of,
    refuse_with_paper,
    scale_of,
    tell_compiling,
)
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
    from softcut.report.html_levels import ShownLevels

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
    "communities.json",
    "assignments.npy",
    "metrics.json",
    "clusters.png",
    "levels.png",
    "report.html",
)


@reads_a_graph
def cluster(
    read: ReadGraph,
    named_after: Path,
    graph: OptionalGraphFile = None,
    n_clusters: Annotated[
        str,
        typer.Option(
            "--clusters",
            "-k",
            help="Number of clusters, or a range such as 2:20. Without it, or with 'auto': the scale that stands out, "
            "and levels around it.",
        ),
    ] = "auto",
    scale: Annotated[
        str | None,
        typer.Option(
            help="Without a number: 'coarse' or 'fine' for the coarsest or finest level, or the resolution of "
            "modularity."
        ),
    ] = None,
    min_size: Annotated[
        int | None, typer.Option(help="Fewest nodes of a cluster, where the edges alone decide.")
    ] = None,
    max_size: Annotated[
        int | None, typer.Option(help="Most nodes of a cluster, where the edges alone decide.")
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            help="'any' also finds clusters that keep no edges inside, such as roles (with a number of clusters)."
        ),
    ] = "communities",
    use: Annotated[
        str | None,
        typer.Option(
            help="What decides: 'edges' or 'both'. By default edges and features, but the edges alone where they were "
            "made from rows of numbers."
        ),
    ] = None,
    begin: Annotated[
        Path | None,
        typer.Option(
            "--start",
            help="labels.csv of an earlier run, or a saved model: clusters that persist keep their numbers.",
        ),
    ] = None,
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

    Ctrl-C ends the search or the training and writes what was found; a second Ctrl-C writes nothing.
    """
    with importing():
        from softcut.clustering import GraphClustering, MinCutClustering
        from softcut.clustering.arguments import LIMITS
        from softcut.report.clustering_files import clustering_metrics, levels_of
        from softcut.report.communities_file import communities
        from softcut.report.html_levels import shown_levels
        from softcut.report.html_page import plain
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
    of_edges: dict[str, Any] = {
        "scale": scale_of(scale),
        "min_size": min_size,
        "max_size": max_size,
        "use": use,
    }
    of_edges |= {"pattern": None if pattern == "communities" else pattern, "start": begin}
    if paper:
        refuse_with_paper(n_clusters, of_edges)
    more: dict[str, Any] = {"objective": objective, **of_edges, "pattern": pattern_of(pattern, n_clusters)}
    del more["start"]
    bar = TrainingBar(err)
    estimator = (MinCutClustering if paper else GraphClustering)(
        n_clusters=cluster_counts(n_clusters),
        n_init=n_init,
        max_iter=max_iter,
        random_state=random_state,
        device=device,
        callbacks=[bar],
        **({} if paper else more),
    )
    earlier = None if begin is None else earlier_run(begin, n_clusters)
    with spoken_warnings() as said:
        data = read()
        seconds = time.perf_counter() - start
        coordinate_columns(data, position)  # refused before the work
        output.check_room(bytes_of_results(data, estimator.n_clusters))
        tell_compiling(data, estimator, paper)
        with bar:
            estimator.fit(data, start=earlier)
    metrics = clustering_metrics(_name(named_after), data, estimator, read=seconds)
    summary = estimator.summary()
    metrics["verdict_sentence"] = summary.said
    with output:
        write_results(
            *(folder.staged, data, estimator.soft_, estimator.labels_, metrics, plot, spreadsheet_safe),
            *(position, summary, levels_of(estimator)),
        )
        levels = None if estimator.tree_ is None else shown_levels(data, estimator, summary)
        if estimator.tree_ is not None:
            made = communities(
                metrics["graph"], data, estimator, [summary] if levels is None else levels.summaries
            )
            atomic_json(folder.staged / "communities.json", plain(made))
        if levels is not None and plot:
            _draw_levels(folder.staged / "levels.png", levels, metrics["graph"])
        if report:
            from softcut.provenance import command_line
            from softcut.report.html_clustering import clustering_page

            more = {"history": estimator.history_, "replicas": estimator.replicas_, "command": command_line()}
            shown: dict[str, Any] = {"clusters": estimator.labels_, "summary": summary, "position": position}
            page = clustering_page(data, estimator.soft_, metrics, levels=levels, **shown, **more)
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
    level: Annotated[
        int | None,
        typer.Option(help="A level of the model, from 0 (coarse); by default the one that was chosen."),
    ] = None,
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
        labels, soft = estimator.assign(data, level=level)
    k = soft.shape[1]
    summary = summarise(data, labels, soft, communities=estimator.pattern != "any")
    metrics = {
        **graph_facts(_name(named_after), data, k),
        "model": model.name,
        **({} if level is None else {"level": estimator._level(level)}),
        **evaluate(data, labels, k=k),
        **label_facts(data, labels, k),
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


def write_results(
    folder: Path,
    graph: Graph,
    soft: Any,
    labels: np.ndarray,
    metrics: dict[str, Any],
    plot: bool = True,
    spreadsheet_safe: bool = False,
    position: tuple[str, str] | None = None,
    summary: Summary | None = None,
    levels: np.ndarray | None = None,
) -> None:
    """Labels, the summary of every cluster (made where it is not given), soft assignments, metrics and a picture."""
    import numpy as np

    from softcut.metrics.summary import summarise
    from softcut.report.clustering_files import MOST_ASSIGNMENTS, write_clusters, write_labels, write_parquet
    from softcut.report.html_page import plain
    from softcut.report.plots import plot_clustering

    summary = summarise(graph, labels, soft) if summary is None else summary
    write_labels(folder / "labels.csv", graph, soft, labels, levels, spreadsheet_safe=spreadsheet_safe)
    write_clusters(folder / "clusters.csv", summary, spreadsheet_safe=spreadsheet_safe)
    if isinstance(soft, np.ndarray) and soft.size <= MOST_ASSIGNMENTS:
        np.save(folder / "assignments.npy", soft.astype(np.float32))
    else:
        note(
            f"no assignments.npy: {soft.shape[0]:,} x {soft.shape[1]:,} numbers are too many; labels.csv has the "
            "largest of each node."
        )
    try:
        write_parquet(folder / "labels.parquet", graph, soft, labels, levels)
    except DependencyError as error:
        note(f"no labels.parquet: {error}")
    atomic_json(folder / "metrics.json", plain(metrics))
    if plot:
        shown: dict[str, Any] = {"title": metrics["graph"], "position": position, "summary": summary}
        try:
            plot_clustering(folder / "clusters.png", graph, labels, **shown)
        except DependencyError as error:
            note(f"no clusters.png: {error}")


def _draw_levels(path: Path, levels: ShownLevels, name: str) -> None:
    from softcut.report.level_plot import plot_levels

    try:
        plot_levels(path, levels.tree, levels.labels, levels.chosen, name)
    except DependencyError:
        return  # clusters.png has said so


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
        trained = metrics["replicas"] > 0
        facts.append(
            ("interrupted", f"after {metrics['iterations']} iterations" if trained else "during the search")
        )
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
