"""The command line: ``softcut cluster``, ``predict``, ``datasets``, ``demo``, ``reproduce``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

# Threads that wait should sleep: spinning ones slow a shared machine down many times. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from softcut import __version__
from softcut.errors import DependencyError, ParameterError, SoftcutError, require

app = typer.Typer(
    name="softcut",
    help="Cluster and coarsen graphs with a differentiable minCUT objective.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Tables that go to a file or a pipe are not squeezed into 80 columns.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)


def main() -> None:
    """Run a command; a mistake in the input is one sentence and exit code 2, without a traceback."""
    try:
        app()
    except SoftcutError as error:
        err.print(f"softcut: {error}", markup=False, soft_wrap=True)
        sys.exit(2)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        err.print(f"softcut: {name}{error.strerror or error}.", markup=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("softcut: interrupted.")
        sys.exit(130)


@contextmanager
def _spoken_warnings() -> Iterator[None]:
    """Warnings as sentences on standard error, each once."""

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        err.print(f"[yellow]note:[/yellow] {message}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def _version(value: bool) -> None:
    if value:
        out.print(f"softcut {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


GraphFile = Annotated[
    Path, typer.Argument(help="Edge list (csv, tsv, txt, .gz), GraphML, GML, .mtx or .npz.")
]
FeatureFile = Annotated[Path | None, typer.Option("--features", "-f", help="Node features: csv, npy or npz.")]
SelfLoops = Annotated[bool, typer.Option("--keep-self-loops", help="Keep edges from a node to itself.")]


@app.command()
def cluster(
    graph: GraphFile,
    k: Annotated[str, typer.Option("--clusters", "-k", help="Number of clusters, or 'auto'.")],
    features: FeatureFile = None,
    out_dir: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the results.")] = None,
    model_out: Annotated[Path | None, typer.Option(help="Save the fitted model under this name.")] = None,
    n_init: Annotated[int | None, typer.Option(help="Replicas trained together.")] = None,
    preset: Annotated[str, typer.Option(help="'default' or 'paper'.")] = "default",
    select: Annotated[str | None, typer.Option(help="'consensus' or 'best'.")] = None,
    hops: Annotated[str, typer.Option(help="How often features are propagated, or 'auto'.")] = "auto",
    feature_graph: Annotated[float, typer.Option(help="Weight of the feature graph; 0 for none.")] = 1.0,
    max_iter: Annotated[int | None, typer.Option(help="The most training iterations.")] = None,
    random_state: Annotated[int, typer.Option("--seed", help="Random state.")] = 0,
    device: Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")] = "auto",
    keep_self_loops: SelfLoops = False,
    plot: Annotated[bool, typer.Option(help="Draw a picture.")] = True,
) -> None:
    """Cluster the nodes of a graph; writes labels, soft assignments, metrics and a picture."""
    from softcut import MinCutClustering
    from softcut.metrics import evaluate

    start = time.perf_counter()
    folder = _folder(out_dir, graph)
    if model_out is not None:
        _check_writable("--model-out", model_out.parent)
    estimator = MinCutClustering(
        n_clusters=_number_or("--clusters", k, "auto", int),
        n_init=n_init,
        preset=preset,
        select=select,
        hops=_number_or("--hops", hops, "auto", int),
        feature_graph=True if feature_graph == 1 else feature_graph,
        max_iter=max_iter,
        random_state=random_state,
        device=device,
        verbose=True,
    )
    with _spoken_warnings():
        data = _read(graph, features, keep_self_loops)
        read = time.perf_counter() - start
        estimator.fit(data)
    soft = estimator.soft_
    scores = evaluate(data, estimator.labels_, k=estimator.n_clusters_)
    metrics = {
        "graph": graph.name,
        "nodes": data.num_nodes,
        "edges": data.num_edges,
        "features": data.num_features,
        "n_clusters": estimator.n_clusters_,
        **scores,
        "agreement_of_replicas": estimator.agreement_,
        "replicas": len(estimator.replicas_),
        "replicas_collapsed": sum(r.collapsed for r in estimator.replicas_),
        "iterations": estimator.n_iter_,
        "converged": estimator.converged_,
        "seconds": {"read": read, "fit": estimator.fit_seconds_},
        "notes": estimator.notes_,
        "softcut": __version__,
    }
    written = _write_results(folder, data, estimator.labels_, soft, metrics, plot)
    if model_out is not None:
        stem = estimator.save(model_out)
        written += [stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")]
    _closing_table(metrics, written, time.perf_counter() - start)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model saved with --model-out.")],
    graph: GraphFile,
    features: FeatureFile = None,
    out_dir: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the results.")] = None,
    device: Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")] = "auto",
    keep_self_loops: SelfLoops = False,
    plot: Annotated[bool, typer.Option(help="Draw a picture.")] = True,
) -> None:
    """Cluster another graph with a saved model."""
    from softcut import MinCutClustering
    from softcut.metrics import evaluate

    start = time.perf_counter()
    folder = _folder(out_dir, graph)
    estimator = MinCutClustering.load(model).set_params(device=device)
    with _spoken_warnings():
        data = _read(graph, features, keep_self_loops)
    labels = estimator.predict(data)
    soft = estimator.predict_proba(data)
    metrics = {
        "graph": graph.name,
        "model": model.name,
        "nodes": data.num_nodes,
        "edges": data.num_edges,
        "features": data.num_features,
        "n_clusters": estimator.n_clusters_,
        **evaluate(data, labels, k=estimator.n_clusters_),
        "softcut": __version__,
    }
    written = _write_results(folder, data, labels, soft, metrics, plot)
    _closing_table(metrics, written, time.perf_counter() - start)


@app.command()
def datasets(
    get: Annotated[
        str | None, typer.Option(help="Load (and download, if needed) a data set by name.")
    ] = None,
) -> None:
    """List the data sets known by name, and where they are."""
    from softcut.datasets import available, load

    if get is not None:
        out.print(str(load(get)), markup=False)
        return
    table = Table(title="Data sets")
    for column in ("name", "nodes", "edges", "features", "classes", "where"):
        table.add_column(column, justify="left" if column in ("name", "where") else "right")
    for info in available():
        where = str(info.path) if info.path else "not here: downloaded when first used"
        numbers = (f"{n:,}" for n in (info.nodes, info.edges, info.features, info.classes))
        table.add_row(info.name, *numbers, where)
    out.print(table)


@app.command()
def demo(
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    random_state: Annotated[int, typer.Option("--seed", help="Random state.")] = 0,
) -> None:
    """Cluster three embedded graphs with four methods; prints a table and writes pictures."""
    from softcut.cli.demo import run_demo

    with err.status("starting") as status:
        rows = run_demo(out_dir, random_state, status.update)
    table = Table(title="softcut demo")
    columns = ("graph", "method", "NMI", "completeness", "cut", "modularity", "clusters used", "seconds")
    for column in columns:
        table.add_column(column, justify="left" if column in ("graph", "method") else "right")
    for i, row in enumerate(rows):
        keys = ("nmi", "completeness", "normalised_cut", "modularity")
        scores = ("-" if row.get(key) is None else f"{row[key]:.3f}" for key in keys)
        last = i + 1 == len(rows) or rows[i + 1]["graph"] != row["graph"]
        used = f"{row['clusters_used']} of {row['k']}"
        table.add_row(row["graph"], row["method"], *scores, used, f"{row['seconds']:.1f}", end_section=last)
    out.print(table)
    out.print(f"Pictures and results.json are in {out_dir}/", markup=False)


reproduce = typer.Typer(help="The paper's tables and figures, measured.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")

ResultFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder of the results; finished runs are kept.")
]
Device = Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")]


@reproduce.command()
def synthetic(
    runs: Annotated[int, typer.Option(min=1, help="Seeds of each method.")] = 10,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E1: communities and a grid, clustered by three methods; a picture and scores."""
    from softcut.device import choose_device
    from softcut.paper.synthetic import run

    with err.status("starting") as status:
        rows = run(out_dir, runs, choose_device(device), status.update)
    columns = ("nmi", "accuracy", "normalised_cut", "modularity", "balance", "clusters_used")
    table = Table(title=f"Synthetic graphs, mean and standard deviation over {runs} seeds")
    for column in ("graph", "method", *columns):
        table.add_column(
            column.replace("_", " "), justify="left" if column in ("graph", "method") else "right"
        )
    for row in rows:
        cells = (f"{row[c]:.3f} ± {row[c + '_std']:.3f}" if c in row else "-" for c in columns)
        table.add_row(row["dataset"], row["method"], *cells)
    out.print(table)
    out.print(f"Picture: {out_dir / 'synthetic.png'}", markup=False)


@reproduce.command()
def citation(
    dataset: Annotated[
        list[str] | None, typer.Option(help="cora, citeseer, pubmed; may be repeated.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="A column of the table; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Seeds of each method.")] = 10,
    curves: Annotated[bool, typer.Option(help="Also the loss and NMI curves on Cora.")] = True,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E3: table 1 on the citation networks, and the curves; an interrupted run resumes."""
    from softcut.device import choose_device
    from softcut.paper import citation as paper

    for given, valid, option in ((dataset, paper.DATASETS, "--dataset"), (method, paper.METHODS, "--method")):
        for name in given or ():
            if name not in valid:
                raise ParameterError(f"{option} must be one of {', '.join(valid)}, got {name!r}.")
    chosen = choose_device(device)
    with err.status("starting") as status:
        cells = paper.run(
            out_dir, dataset or paper.DATASETS, method or paper.METHODS, runs, chosen, status.update
        )
        picture = None
        if curves and (dataset is None or "cora" in dataset):
            status.update("curves on cora")
            picture = paper.curves(out_dir, device=chosen)
    _cell_table("Table 1: clustering the citation networks", cells)
    if picture is not None:
        out.print(f"Curves: {picture}", markup=False)


@reproduce.command()
def quality(
    dataset: Annotated[list[str] | None, typer.Option(help="A data set by name; may be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A row of the table; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Values of random_state.")] = 5,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """Beyond the paper: the default clustering, its ablations and every baseline on five data sets."""
    from softcut.device import choose_device
    from softcut.paper import quality as paper

    valid = (*paper.BASELINE_METHODS, *paper.ABLATIONS)
    for given, names, option in ((dataset, paper.DATASETS, "--dataset"), (method, valid, "--method")):
        for name in given or ():
            if name not in names:
                raise ParameterError(f"{option} must be one of {', '.join(names)}, got {name!r}.")
    chosen = choose_device(device)
    with err.status("starting") as status:
        cells = paper.run(out_dir, dataset or paper.DATASETS, method, runs, chosen, status.update)
    shown = list(dataset or paper.DATASETS)
    table = Table(title=f"NMI, mean and standard deviation over {runs} values of random_state")
    table.add_column("method")
    for name in shown:
        table.add_column(name, justify="right")
    by_name = {(c["dataset"], c["method"]): c for c in cells if c["metric"] == "nmi"}
    for row in dict.fromkeys(c["method"] for c in cells):
        values = (by_name[name, row] for name in shown)
        table.add_row(row, *(f"{c['mean']:.3f} ± {c['std']:.3f}" for c in values))
    out.print(table)


@reproduce.command()
def autoencoder(
    runs: Annotated[int, typer.Option(min=1, help="Seeds of each pooler.")] = 10,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
    decay: Annotated[
        bool, typer.Option("--decay", help="Not the paper's: let the learning rate fall to 0.")
    ] = False,
) -> None:
    """E4: ring and grid, reconstructed from a quarter of the nodes by each pooler."""
    from softcut.device import choose_device
    from softcut.paper import autoencoder as paper

    with err.status("starting") as status:

        def tell(cell: str, iteration: int, iterations: int, mse: float) -> None:
            status.update(f"{cell}: iteration {iteration} of at most {iterations}, median MSE {mse:.2e}")

        report = paper.run(
            runs=runs,
            out_dir=out_dir,
            device=choose_device(device),
            progress=tell,
            settings=paper.Settings(decay=decay),
        )
    out.print(paper.table(report), markup=False)


def _cell_table(title: str, cells: list[dict[str, Any]]) -> None:
    """Cells side by side with the paper's numbers."""
    table = Table(title=title)
    for column in ("data set", "method", "metric", "measured", "runs", "paper"):
        table.add_column(column, justify="left" if column in ("data set", "method", "metric") else "right")
    for cell in cells:
        paper = "-" if cell["paper_mean"] is None else f"{cell['paper_mean']:.3f} ± {cell['paper_std']:.3f}"
        measured = f"{cell['mean']:.3f} ± {cell['std']:.3f}"
        table.add_row(cell["dataset"], cell["method"], cell["metric"], measured, str(cell["n"]), paper)
    out.print(table)


def _number_or(option: str, text: str, word: str, kind: type) -> Any:
    if text == word:
        return word
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ParameterError(f"{option} must be {what} or '{word}', got {text!r}.") from None


def _read(graph: Path, features: Path | None, keep_self_loops: bool) -> Any:
    from softcut import read_graph

    return read_graph(graph, features=features, self_loops="keep" if keep_self_loops else "drop")


def _folder(chosen: Path | None, graph: Path) -> Path:
    """Where results go; looked at before the work begins."""
    folder = chosen or Path(f"{_plain_stem(graph)}-clusters")
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"--out {folder} is a file; name a folder.")
    _check_writable("--out", folder)
    return folder


def _check_writable(option: str, path: Path) -> None:
    """Say before the work, not after it, that nothing can be written there."""
    parent = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not parent.is_dir():
        raise ParameterError(f"{option} {path} cannot be written: {parent} is a file.")
    if not os.access(parent, os.W_OK):
        raise ParameterError(f"{option} {path} cannot be written: no permission to write to {parent}.")


def _plain_stem(path: Path) -> str:
    name = path.name
    for suffix in reversed(path.suffixes):
        if suffix in (
            ".gz",
            ".csv",
            ".tsv",
            ".txt",
            ".npz",
            ".mtx",
            ".gml",
            ".graphml",
            ".edges",
            ".edgelist",
        ):
            name = name.removesuffix(suffix)
    return name or "graph"


def _write_results(
    folder: Path, data: Any, labels: Any, soft: Any, metrics: dict[str, Any], plot: bool
) -> list[Path]:
    """All results, or none: they are made in a temporary folder and moved when complete."""
    import csv

    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    names = data.node_names or [str(i) for i in range(data.num_nodes)]
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as temporary:
        part = Path(temporary)
        with (part / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["node", "cluster"])
            writer.writerows(zip(names, labels.tolist(), strict=True))
        np.save(part / "assignments.npy", soft.astype(np.float32))
        try:
            arrow = require("pyarrow", "parquet", "labels.parquet")
            parquet = require("pyarrow.parquet", "parquet", "labels.parquet")
            columns = {"node": names, "cluster": labels}
            columns |= {f"p{j}": soft[:, j] for j in range(soft.shape[1])}
            parquet.write_table(arrow.table(columns), part / "labels.parquet")
        except DependencyError as error:
            err.print(f"note: no labels.parquet. {error}", markup=False, soft_wrap=True)
        (part / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
        if plot:
            from softcut.report.plots import plot_clustering

            plot_clustering(
                part / "clusters.png", data, labels, title=f"{metrics['graph']}: {soft.shape[1]} clusters"
            )
        written = []
        for file_path in sorted(part.iterdir()):
            written.append(file_path.rename(folder / file_path.name))
    return written


def _closing_table(metrics: dict[str, Any], written: list[Path], seconds: float) -> None:
    table = Table(
        title=f"{metrics['graph']}: {metrics['nodes']:,} nodes, {metrics['edges']:,} edges", show_header=False
    )
    table.add_column("what")
    table.add_column("value", justify="right")
    rows = [
        ("clusters used", f"{metrics['clusters_used']} of {metrics['n_clusters']}"),
        ("normalised cut", f"{metrics['normalised_cut']:.4f}"),
        ("modularity", f"{metrics['modularity']:.4f}"),
        ("balance", f"{metrics['balance']:.4f}"),
    ]
    if "agreement_of_replicas" in metrics:
        rows.append(("agreement of replicas (ARI)", f"{metrics['agreement_of_replicas']:.4f}"))
    rows.append(("seconds", f"{seconds:.1f}"))
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print("Written: " + ", ".join(str(p) for p in written), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
