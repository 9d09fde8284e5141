"""``softcut reproduce``: the paper's tables and figures, and the tables beyond it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from softcut.cli.bars import TrainingBar
from softcut.cli.console import err, note, out, show
from softcut.cli.output import Device
from softcut.device import choose_device
from softcut.errors import ParameterError
from softcut.report.tables import cell_table, pivot

reproduce = typer.Typer(help="The paper's tables and figures, measured.", no_args_is_help=True)

ResultFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder of the results; finished runs are kept.")
]
Datasets = Annotated[list[str] | None, typer.Option("--dataset", help="A data set; may be repeated.")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="A method; may be repeated.")]
Runs = Annotated[int, typer.Option(min=1, help="Seeds of each method.")]
Folds = Annotated[int, typer.Option(min=1, max=10, help="The first so many of the ten folds.")]
Minutes = Annotated[
    float | None, typer.Option(min=0, help="Stop cleanly after so many; the same command continues.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the folds and of all weights.")]
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets.")]


@reproduce.command()
def synthetic(
    runs: Runs = 10,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E1: communities and a grid, clustered by three methods; a picture and scores."""
    from softcut.paper.synthetic import run, table

    with err.status("starting") as status:
        rows = run(out_dir, runs, choose_device(device), status.update)
    show(table(rows))
    out.print(f"Picture: {out_dir / 'synthetic.png'}", markup=False)


@reproduce.command()
def citation(
    dataset: Datasets = None,
    method: Methods = None,
    runs: Runs = 10,
    curves: Annotated[bool, typer.Option(help="Also the loss and NMI curves on Cora.")] = True,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E3: table 1 on the citation networks, and the curves; an interrupted run resumes."""
    from softcut.paper import citation as paper

    _check_names("--dataset", dataset, paper.DATASETS)
    _check_names("--method", method, paper.METHODS)
    chosen = choose_device(device)
    with err.status("starting") as status:
        cells = paper.run(
            out_dir, dataset or paper.DATASETS, method or paper.METHODS, runs, chosen, status.update
        )
        picture = None
        if curves and (dataset is None or "cora" in dataset):
            status.update("curves on cora")
            picture = paper.curves(out_dir, device=chosen)
    show(cell_table(cells, "Table 1: clustering the citation networks"))
    if picture is not None:
        out.print(f"Curves: {picture}", markup=False)


@reproduce.command()
def quality(
    dataset: Datasets = None,
    method: Methods = None,
    runs: Runs = 5,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """Beyond the paper: the default clustering, its ablations and every baseline on eight data sets."""
    from softcut.paper import quality as paper

    _check_names("--dataset", dataset, paper.DATASETS)
    _check_names("--method", method, paper.METHODS)
    chosen = choose_device(device)
    with err.status("starting") as status:
        cells = paper.run(out_dir, dataset or paper.DATASETS, method, runs, chosen, status.update)
    title = f"NMI, mean and standard deviation over {runs} values of random_state"
    show(pivot([cell for cell in cells if cell["metric"] == "nmi"], title))


@reproduce.command()
def evidence(
    dataset: Datasets = None,
    runs: Runs = 1,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """Beyond the paper: rank correlation of evidence, and of other scores, with NMI over a pool of clusterings."""
    from softcut.paper import evidence as paper
    from softcut.paper.quality import DATASETS

    _check_names("--dataset", dataset, DATASETS)
    with err.status("starting") as status:
        rows = paper.run(out_dir, dataset or DATASETS, runs, choose_device(device), status.update)
    show(paper.table(rows))


@reproduce.command()
def autoencoder(
    runs: Runs = 10,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
    decay: Annotated[
        bool, typer.Option("--decay", help="Not the paper's: let the learning rate fall to 0.")
    ] = False,
) -> None:
    """E4: ring and grid, reconstructed from a quarter of the nodes by each pooler."""
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
    show(paper.table(report))


@reproduce.command()
def classification(
    dataset: Datasets = None,
    method: Methods = None,
    folds: Folds = 10,
    minutes: Minutes = None,
    batch: Annotated[int, typer.Option(min=1, help="Graphs of each fold in a step.")] = 32,
    epochs: Annotated[int, typer.Option(min=1, help="The most epochs.")] = 500,
    seed: Seed = 0,
    data: Data = None,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E5: table 2, graph classification by every pooler; an interrupted run resumes."""
    from softcut.learning import ClassifierSettings
    from softcut.paper import classification as paper
    from softcut.paper import table2

    datasets = table2.dataset_names(dataset or table2.DATASETS, "--dataset")
    table2.check_methods(method or (), "--method")
    methods = method or list(table2.METHODS)
    chosen, settings = choose_device(device), ClassifierSettings(batch=batch, epochs=epochs)
    with TrainingBar(err, len(datasets) * len(methods)) as bar:
        cells = paper.run(
            out_dir,
            datasets,
            methods,
            folds,
            minutes=minutes,
            seed=seed,
            settings=settings,
            device=chosen,
            data=data,
            tell=bar.tell,
            progress=bar.update,
        )
    if cells:
        show(cell_table(cells, "Table 2: test accuracy in percent", digits=1))
    finished = {(cell["dataset"], cell["method"]): cell["n"] for cell in cells}
    left = [f"{d}: {m}" for d in datasets for m in methods if finished.get((d.lower(), m), 0) < folds]
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        note(f"the time was up; not finished: {shown}. The same command continues.")


@reproduce.command()
def regression(
    properties: Annotated[
        list[str] | None, typer.Option("--property", help="A property; may be repeated.")
    ] = None,
    method: Methods = None,
    folds: Folds = 10,
    minutes: Minutes = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, by default 50.")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Clusters, by default 4.")] = None,
    unmasked: Annotated[
        bool, typer.Option("--unmasked", help="Padding counts as atoms: all molecules have 9 nodes.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A trial on few molecules for a few epochs, not the table.")
    ] = False,
    seed: Seed = 0,
    data: Data = None,
    out_dir: ResultFolder = Path("results"),
    device: Device = "auto",
) -> None:
    """E6: table 3, nine properties of molecules (QM9) by four methods; an interrupted run resumes."""
    from softcut.paper import regression as paper
    from softcut.paper import table3

    _check_names("--property", properties, table3.PROPERTIES)
    _check_names("--method", method, table3.METHODS)
    given = {"epochs": epochs, "k": k, "unmasked": unmasked or None}
    changed = {name: value for name, value in given.items() if value is not None}
    settings = paper.RegressionSettings(**{**(paper.QUICK if quick else {}), **changed})
    if settings.changed():
        note(f"a trial with {settings.changed()}, not the table of the paper.")
    names, methods = properties or list(table3.PROPERTIES), method or list(table3.METHODS)
    with TrainingBar(err, len(methods)) as bar:
        cells = paper.run(
            out_dir,
            names,
            methods,
            folds,
            minutes=minutes,
            seed=seed,
            settings=settings,
            device=choose_device(device),
            data=data,
            tell=bar.tell,
            progress=bar.update_regression,
        )
    if cells:
        show(cell_table(cells, "Table 3: test MSE of standardised properties"))
    if len(cells) < 2 * len(names) * len(methods):
        note("the time was up before everything was finished. The same command continues.")


@reproduce.command()
def segmentation(
    method: Methods = None,
    images: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    split: Annotated[str, typer.Option(help="Images: 'val', 'test' or 'train'.")] = "val",
    minutes: Minutes = None,
    figure: Annotated[bool, typer.Option(help="Also the figure of the paper's picture and others.")] = True,
    data: Data = None,
    out_dir: ResultFolder = Path("results"),
) -> None:
    """E2: images of BSDS500 scored against what people drew, and the figure; an interrupted run resumes."""
    from softcut.paper import segmentation as paper
    from softcut.paper.segmentation import METHODS
    from softcut.paper.segmentation_figure import draw

    _check_names("--method", method, METHODS)
    with err.status("starting") as status:
        cells = paper.run(
            out_dir, method, images, split=split, minutes=minutes, data=data, tell=status.update
        )
        pictures = draw(out_dir, data=data, tell=status.update) if figure else []
    show(paper.table(cells))
    for picture in pictures:
        out.print(f"Picture: {picture}", markup=False)


def _check_names(option: str, given: Iterable[str] | None, valid: Iterable[str]) -> None:
    for name in given or ():
        if name not in valid:
            raise ParameterError(f"{option} must be one of {', '.join(valid)}, got {name!r}.")
