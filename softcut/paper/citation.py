"""E3, table 1 and its curves: clustering the citation networks.

MinCutPool and DiffPool by the paper's protocol (settings below), all seeds of a group as replicas of one
training; spectral clustering by scikit-learn; and, beyond the paper, k-means on propagated features,
Leiden, DMoN and softcut's own default. Labels only score.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.baselines import diffpool_replicas, dmon_replicas
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.colours import cluster_colours
from softcut.datasets import load
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import nmi
from softcut.ops import CSR
from softcut.paper import commands
from softcut.paper.comparison import paper_numbers
from softcut.paper.runs import (
    RunSession,
    Tell,
    baseline,
    cells,
    check_names,
    classes_of,
    keyword_settings,
    quiet,
)
from softcut.provenance import origin
from softcut.report.plots import figure, save_figure
from softcut.report.tables import cell_table
from softcut.training import ConvInput, Progress, ReplicaNet, TrainResult, TrainSettings, replica_seeds, train

DATASETS = ("cora", "citeseer", "pubmed")
METHODS = ("sc", "diffpool", "mincut", "kmeans", "leiden", "dmon")

# (mean, standard deviation) of ten runs, table 1 of the paper: SC, DiffPool and MinCutPool.
_NMI = {
    "cora": ".025±.014 .315±.005 .404±.018",
    "citeseer": ".014±.003 .139±.016 .287±.047",
    "pubmed": ".182±.000 .079±.001 .200±.020",
}
_CS = {
    "cora": ".126±.042 .309±.005 .392±.018",
    "citeseer": ".033±.000 .153±.020 .283±.046",
    "pubmed": ".261±.000 .085±.001 .197±.019",
}
PAPER = paper_numbers(_NMI, METHODS[:3], "nmi") | paper_numbers(_CS, METHODS[:3], "cs")

_GROUP = 100  # seeds trained together on a GPU; a tenth of it on a CPU
_SEED = 0


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = METHODS,
    runs: int = 10,
    device: torch.device | str = "cpu",
    tell: Tell = quiet,
    max_iter: int | None = None,
) -> list[dict[str, Any]]:
    """Run what is missing, and write ``table1.json`` (cells) and ``table1_runs.json`` (runs).

    A run counts as finished only where all its settings are those asked for. With `max_iter`, to try things out, the
    files are called ``table1_<max_iter>_iterations``.
    """
    check_names(datasets, DATASETS, "datasets")
    check_names(methods, METHODS, "methods")
    table = "table1" if max_iter is None else f"table1_{max_iter}_iterations"
    session = RunSession(out, device, tell=tell)
    group = _GROUP if session.device.type == "cuda" else _GROUP // 10
    made: list[dict[str, Any]] = []
    short = "" if max_iter is None else f" --max-iter {max_iter}"
    for name in datasets:
        # The authors' data keep the self-loops of the raw files.
        graph, plain = load(name, self_loops="keep"), load(name)
        for method in methods:
            command = f"softcut reproduce citation --dataset {name} --method {method} --runs {runs}{short}"
            known = settings_of(method, max_iter)
            labels_of = partial(_labels, method, graph, plain, session.device, max_iter)
            train = partial(session.cluster, table, method, known, classes_of(graph), labels_of, group)
            cells_of = partial(cells, metrics=("nmi", "cs", "acc"), paper=PAPER, command=command)
            made += session.fill(table, method, [name], runs, known, train, cells_of)
    return made


def settings_of(method: str, max_iter: int | None = None) -> dict[str, Any]:
    """Everything that decides a method's result besides the data set and the seed."""
    if method in _TRAINED:
        return keyword_settings(_TRAINED[method], **_short(max_iter))
    return keyword_settings(baseline(method))


def _short(max_iter: int | None) -> dict[str, int]:
    return {} if max_iter is None else {"max_iter": max_iter}


def _labels(
    method: str, graph: Graph, plain: Graph, device: torch.device, max_iter: int | None, seeds: Sequence[int]
) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Labels of each seed; `plain` is the graph without the self-loops that the paper's protocol keeps."""
    k = len(np.unique(classes_of(graph)))
    if method in _TRAINED:
        own = [replica_seeds(_SEED, seed + 1)[seed] for seed in seeds]
        trained = _TRAINED[method](graph, k, own, device=device, **_short(max_iter))
        labels = _columns(trained if method == "dmon" else trained[0])
    else:
        chosen = graph if method == "sc" else plain
        labels = [baseline(method)(chosen, k, random_state=seed) for seed in seeds]
    return [(row, {}) for row in labels]


def _columns(s: Tensor) -> list[np.ndarray]:
    return list(s.argmax(-1).mT.cpu().numpy())


def paper_replicas(
    graph: Graph,
    k: int,
    seeds: Sequence[int],
    *,
    x: Any = None,
    hidden: int = 16,
    max_iter: int = 10_000,
    learning_rate: float = 5e-4,
    device: torch.device | str = "cpu",
    callback: Callable[[Progress], None] | None = None,
) -> tuple[Tensor, ConvInput, TrainResult]:
    """The paper's clusterer, one replica per seed: eq. 1 with 16 units and ELU, a softmax layer.

    Returns S [N, R, K], the constant input (rows of X that sum to one, unless `x` is given) and the losses. Ctrl-C
    is not answered with half a training: KeyboardInterrupt is raised.
    """
    op = CSR.from_graph(graph, device=device)
    x = rows_that_sum_to_one(graph) if x is None else x
    inputs = ConvInput(op, x, columns=len(seeds) * hidden, device=device)
    net = ReplicaNet(inputs.in_channels, k, seeds, hidden=hidden, terms=2).to(device)
    settings = TrainSettings(iterations=max_iter, lr=learning_rate, tolerance=None)
    result = train(net, inputs, op, settings, callback)
    if result.interrupted:
        raise KeyboardInterrupt
    return net.assign(inputs), inputs, result


_TRAINED: dict[str, Callable[..., Any]] = {
    "diffpool": diffpool_replicas,
    "mincut": paper_replicas,
    "dmon": dmon_replicas,
}


def curves(
    out: str | Path,
    dataset: str = "cora",
    runs: int = 10,
    device: torch.device | str = "cpu",
    max_iter: int = 10_000,
) -> Path:
    """The losses and NMI during training, DiffPool beside MinCutPool: ``curves_<dataset>.json`` and ``.png``."""
    out = Path(out)
    graph = load(dataset, self_loops="keep")
    classes = classes_of(graph)
    k = len(np.unique(classes))
    seeds, every = replica_seeds(_SEED, runs), max(1, max_iter // 40)
    by_method: dict[str, list[dict[str, Any]]] = {}
    for method in ("diffpool", "mincut"):
        trained = _TRAINED[method]
        rows = by_method.setdefault(method, [])
        # The same constant input the training makes for itself.
        inputs = trained(graph, k, seeds[:1], max_iter=1, device=device)[1]

        def look(state: Progress, rows: list[dict[str, Any]] = rows, inputs: Any = inputs) -> None:
            if state.iteration % every == 0 or state.iteration == state.iterations:
                scores = [nmi(classes, row) for row in _columns(state.net.assign(inputs))]
                losses = {"first": state.cut.tolist(), "second": state.ortho.tolist()}
                rows.append({"iteration": state.iteration, **losses, "nmi": scores})

        trained(graph, k, seeds, max_iter=max_iter, device=device, callback=look)
    atomic_json(out / f"curves_{dataset}.json", {**origin(device), **by_method})
    return draw_curves(out / f"curves_{dataset}.png", dataset, by_method)


def draw_curves(path: Path, dataset: str, by_method: dict[str, list[dict[str, Any]]]) -> Path:
    """Two panels: losses on the left axis, NMI on the right one; mean and standard deviation over seeds."""
    # DiffPool's entropy is hundreds of times smaller than its link loss, and not drawn.
    losses = {"diffpool": {"first": "link loss"}, "mincut": {"first": "L_c", "second": "L_o"}}
    titles = {"diffpool": "DiffPool", "mincut": "MinCutPool"}
    colours = dict(zip(("first", "second", "nmi"), cluster_colours(3), strict=True))
    fig, axes = figure(1, 2, figsize=(12, 4.2))
    for ax, (method, rows) in zip(axes, by_method.items(), strict=True):
        x = [r["iteration"] for r in rows]
        other = ax.twinx()
        for key, label in {**losses[method], "nmi": "NMI"}.items():
            axis, style = (other, "--") if key == "nmi" else (ax, "-")
            values = np.array([r[key] for r in rows])
            mean, std = values.mean(1), values.std(1)
            axis.plot(x, mean, color=colours[key], label=label, linestyle=style)
            axis.fill_between(x, mean - std, mean + std, color=colours[key], alpha=0.2)
        ax.set(title=f"{titles[method]} on {dataset}", xlabel="iteration", ylabel="loss")
        other.set(ylabel="NMI", ylim=(0, 0.6))
        lines = [*ax.get_lines(), *other.get_lines()]
        names = [line.get_label() for line in lines]
        ax.legend(lines, names, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=3)
    return save_figure(fig, path)


@commands.command(
    "softcut.paper.citation",
    commands.choices("--dataset", DATASETS),
    commands.choices("--method", METHODS),
    commands.runs(10),
    commands.MAX_ITER,
    commands.option(
        "--curves", action=BooleanOptionalAction, default=True, help="also the loss and NMI curves on Cora"
    ),
)
def main(given: Any, screen: commands.Screen) -> None:
    """E3: table 1 on the citation networks, and the curves; an interrupted run resumes."""
    datasets, methods = given.dataset or DATASETS, given.method or METHODS
    with screen.working() as bar:
        made = run(given.out, datasets, methods, given.runs, given.device, bar.tell, given.max_iter)
        pictures = []
        if given.curves and "cora" in datasets and given.max_iter is None:
            bar.tell("curves on cora")
            pictures.append(f"Curves: {curves(given.out, device=given.device)}")
    screen.show(cell_table(made, "Table 1: clustering the citation networks"), *pictures)


if __name__ == "__main__":
    main()
