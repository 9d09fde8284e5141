"""E3, table 1 and its curves: clustering the citation networks.

MinCutPool and DiffPool by the paper's protocol (settings below), all seeds of a group as replicas of one
training; spectral clustering by scikit-learn; and, beyond the paper, k-means on propagated features,
Leiden, DMoN and softcut's own default. Labels only score.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.baselines import BASELINES, diffpool_replicas, dmon_replicas
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.datasets import load
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import nmi
from softcut.ops import CSR
from softcut.paper.common import (
    Tell,
    check_names,
    experiment_parser,
    keyword_settings,
    quiet,
    run_experiment,
    say,
    scores_of,
)
from softcut.paper.comparison import paper_numbers
from softcut.paper.runs import Records, cells, merge_cells
from softcut.provenance import commit, device_name
from softcut.report.plots import cluster_colours, figure, save_figure
from softcut.report.tables import cell_table, to_markdown
from softcut.training import ConvInput, Progress, ReplicaNet, TrainResult, TrainSettings, replica_seeds, train

__all__ = [
    "DATASETS",
    "METHODS",
    "PAPER",
    "curves",
    "draw_curves",
    "main",
    "paper_replicas",
    "run",
    "settings_of",
]

DATASETS = ("cora", "citeseer", "pubmed")
METHODS = ("sc", "diffpool", "mincut", "kmeans", "leiden", "dmon")

# (mean, standard deviation) of ten runs, table 1 of the paper: SC, DiffPool and MinCutPool.
_PAPER_ROWS = {
    "nmi": {
        "cora": ".025±.014 .315±.005 .404±.018",
        "citeseer": ".014±.003 .139±.016 .287±.047",
        "pubmed": ".182±.000 .079±.001 .200±.020",
    },
    "cs": {
        "cora": ".126±.042 .309±.005 .392±.018",
        "citeseer": ".033±.000 .153±.020 .283±.046",
        "pubmed": ".261±.000 .085±.001 .197±.019",
    },
}
PAPER: dict[tuple[str, str, str], tuple[float, float | None]] = {
    key: value
    for metric, rows in _PAPER_ROWS.items()
    for key, value in paper_numbers(rows, METHODS[:3], metric).items()
}

_BASELINES = {"kmeans": "kmeans_propagated"}  # names in this table that differ from those of the baselines
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
    out = Path(out)
    table = "table1" if max_iter is None else f"table1_{max_iter}_iterations"
    records = Records(out / f"{table}_runs.json")
    device = torch.device(device)
    group = _GROUP if device.type == "cuda" else _GROUP // 10
    found: list[dict[str, Any]] = []
    for name in datasets:
        # The authors' data keep the self-loops of the raw files.
        graph, plain = load(name, self_loops="keep"), load(name)
        assert graph.y is not None
        for method in methods:
            settings = settings_of(method, max_iter)
            missing = records.missing(name, method, range(runs), settings)
            while missing:
                part, missing = missing[:group], missing[group:]
                tell(f"{name}: {method}, {len(part)} runs, {len(missing)} to go")
                start = time.perf_counter()
                labels = _labels(method, graph, plain, part, device, max_iter)
                seconds = (time.perf_counter() - start) / len(part)
                shared = {"dataset": name, "method": method, "settings": settings, "seconds": seconds}
                scored = (
                    {**scores_of(graph.y, row), "nmi_geometric": nmi(graph.y, row, "geometric")}
                    for row in labels
                )
                rows = zip(part, scored, strict=True)
                records.add([{**shared, "seed": seed, **scores} for seed, scores in rows], device)
            options = f"--dataset {name} --method {method} --runs {runs}"
            command = f"softcut reproduce citation {options}"
            if max_iter is not None:
                command = f"python -m softcut.paper.citation {options} --max-iter {max_iter}"
            wanted = records.of(name, method, range(runs), settings)
            found += cells(wanted, ("nmi", "cs", "acc"), PAPER, command)
            merge_cells(out / f"{table}.json", found)
    return found


def settings_of(method: str, max_iter: int | None = None) -> dict[str, Any]:
    """Everything that decides a method's result besides the data set and the seed."""
    trained = {**_TRAINED, "dmon": dmon_replicas}
    if method in trained:
        return keyword_settings(trained[method], **({} if max_iter is None else {"max_iter": max_iter}))
    return keyword_settings(BASELINES[_BASELINES.get(method, method)])


def _labels(
    method: str,
    graph: Graph,
    plain: Graph,
    seeds: Sequence[int],
    device: torch.device,
    max_iter: int | None,
) -> list[np.ndarray]:
    """Labels of each seed; `plain` is the graph without the self-loops that the paper's protocol keeps."""
    assert graph.y is not None
    k = len(np.unique(graph.y))
    short: dict[str, Any] = {} if max_iter is None else {"max_iter": max_iter}
    own = [replica_seeds(_SEED, seed + 1)[seed] for seed in seeds]
    if method in _TRAINED:
        return _columns(_TRAINED[method](graph, k, own, device=device, **short)[0])
    if method == "dmon":
        return _columns(dmon_replicas(graph, k, own, device=device, **short))
    baseline = BASELINES[_BASELINES.get(method, method)]
    return [baseline(graph if method == "sc" else plain, k, random_state=seed) for seed in seeds]


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


_TRAINED: dict[str, Callable[..., Any]] = {"diffpool": diffpool_replicas, "mincut": paper_replicas}


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
    assert graph.y is not None
    k = len(np.unique(graph.y))
    seeds = replica_seeds(_SEED, runs)
    every = max(1, max_iter // 40)
    found: dict[str, Any] = {}
    for method, trained in _TRAINED.items():
        rows: list[dict[str, Any]] = []
        found[method] = rows
        # The same constant input the training makes for itself.
        inputs = trained(graph, k, seeds[:1], max_iter=1, device=device)[1]

        def look(progress: Progress, rows: list[dict[str, Any]] = rows, inputs: Any = inputs) -> None:
            if progress.iteration % every and progress.iteration != progress.iterations:
                return
            labels = _columns(progress.net.assign(inputs))
            rows.append(
                {
                    "iteration": progress.iteration,
                    "first": progress.cut.tolist(),
                    "second": progress.ortho.tolist(),
                    "nmi": [nmi(graph.y, row) for row in labels],  # type: ignore[arg-type]
                }
            )

        trained(graph, k, seeds, max_iter=max_iter, device=device, callback=look)
    atomic_json(out / f"curves_{dataset}.json", {"commit": commit(), "device": device_name(device), **found})
    return draw_curves(out / f"curves_{dataset}.png", dataset, found)


def draw_curves(path: Path, dataset: str, found: dict[str, Any]) -> Path:
    """Two panels: losses on the left axis, NMI on the right one; mean and standard deviation over seeds."""
    names = {"diffpool": ("link loss", "entropy"), "mincut": ("L_c", "L_o")}
    titles = {"diffpool": "DiffPool", "mincut": "MinCutPool"}
    colours = cluster_colours(3)
    fig, axes = figure(1, 2, figsize=(12, 4.2))
    for ax, (method, rows) in zip(axes, found.items(), strict=True):
        x = [r["iteration"] for r in rows]
        other = ax.twinx()
        series = [
            ("first", ax, names[method][0]),
            ("second", ax if method == "mincut" else None, names[method][1]),
        ]
        for (key, axis, label), colour in zip([*series, ("nmi", other, "NMI")], colours, strict=True):
            if axis is None:  # DiffPool's entropy is hundreds of times smaller than its link loss
                continue
            values = np.array([r[key] for r in rows])
            mean, std = values.mean(1), values.std(1)
            axis.plot(x, mean, color=colour, label=label, linestyle="--" if key == "nmi" else "-")
            axis.fill_between(x, mean - std, mean + std, color=colour, alpha=0.2)
        ax.set(title=f"{titles[method]} on {dataset}", xlabel="iteration", ylabel="loss")
        other.set_ylabel("NMI")
        other.set_ylim(0, 0.6)
        lines = [line for axis in (ax, other) for line in axis.get_lines()]
        names_shown = [line.get_label() for line in lines]
        ax.legend(lines, names_shown, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=3)
    return save_figure(fig, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.citation --dataset cora --method mincut --runs 10``."""
    parser = experiment_parser(
        "citation", "E3: table 1 on the citation networks, and the curves.", 10, DATASETS, METHODS
    )
    parser.add_argument("--max-iter", type=int, help="fewer iterations, to try things out")
    parser.add_argument("--no-curves", action="store_true", help="leave the curves on Cora out")

    def run_it(given: Any) -> str:
        found = run(given.out, given.dataset, given.method, given.runs, given.device, say, given.max_iter)
        if not given.no_curves and "cora" in given.dataset and given.max_iter is None:
            say(f"curves: {curves(given.out, device=given.device)}")
        return to_markdown(cell_table(found))

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
