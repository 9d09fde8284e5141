"""The page of table 2 (docs/classification.md): significance, costs, degeneracy, trials, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.ops.uniform import uniform_ortho
from softcut.paper import table2
from softcut.paper.comparison import FOLDS, LEVEL, Results, compared, longest_curves
from softcut.paper.runs import read_cells
from softcut.paper.table2 import ABLATION_DATASETS, ABLATIONS, DATASETS, METHODS, PAPER_METHODS
from softcut.report.tables import markdown_table, mean_and_deviation, to_markdown
from tools.results import read_json
from tools.uniform import FILE as UNIFORM
from tools.uniform import table as uniform_table
from tools.verdicts import (
    TO_THE_END,
    bench_text,
    diffpool_text,
    table2_claims,
    table2_default,
    table2_others,
    worse,
)

_REFERENCES = (
    "[Mesquita, Souza and Kaski (NeurIPS 2020)](https://arxiv.org/abs/2010.11418) found the same of other poolers: "
    "with random assignments accuracy does not fall. [Bianchi and Lachi (NeurIPS "
    "2023)](https://arxiv.org/abs/2304.01575) derive when a pooler keeps what the layers before it can tell apart; "
    "Top-K and SAGPool do not."
)
# MinCutPool that cannot stay at the uniform assignment; its weight differs between epochs, so the task alone stops it.
LEAVING = "mincut+ortho_weight=auto+standardise=True+temperature=0.3+stop_on=task"
_MEASURED = ("clusters1", "clusters2", "cut1", "ortho1", "ortho2")
_CURVES = ("PROTEINS", "DD", "Bench-hard", "REDDIT-BINARY")


def degeneracy(table: Results) -> str:
    """Accuracy, clusters used and both losses of MinCutPool and its variants."""
    rows = []
    for dataset in ABLATION_DATASETS:
        for method in ("mincut", *ABLATIONS):
            runs = table.runs(dataset, method)
            if not runs:
                continue
            numbers = {
                name: float(np.mean([run[name] for run in runs])) for name in ("clusters1", "cut1", "ortho1")
            }
            k = runs[0]["settings"]["k"]
            cell = table.cells[dataset, method]
            accuracy = mean_and_deviation(cell["mean"], cell["std"], 1)
            losses = [f"{numbers['cut1']:.3f}", f"{numbers['ortho1']:.3f} ({uniform_ortho(k[0]):.3f})"]
            rows.append([dataset, method, accuracy, f"{numbers['clusters1']:.1f} of {k[0]}", *losses])
    names = ["data", "method", "accuracy", "clusters used", "L_c", "L_o"]
    return markdown_table(names, rows)


def leaving(table: Results, most: Mapping[str, float]) -> str:
    """MinCutPool that leaves the uniform assignment, beside the paper's weights, random pooling and none."""
    rows = []
    for dataset in DATASETS:
        runs = table.runs(dataset, LEAVING)
        if not runs:
            continue
        means = {name: float(np.mean([run[name] for run in runs])) for name in _MEASURED}
        row = [dataset] + [
            compared(table.cells[dataset, method], digits=1, folds=FOLDS).markdown
            if (dataset, method) in table.cells
            else "-"
            for method in (LEAVING, "mincut", "random", "nopool")
        ]
        row += [f"{worse(table, dataset, LEAVING, 'mincut'):.2f}", f"{means['cut1']:.2f}"]
        for level, k in enumerate(runs[0]["settings"]["k"], start=1):
            at_most = f", at most {most[dataset]:.1f}" if level == 1 and dataset in most else ""
            row.append(f"{means[f'clusters{level}']:.1f} of {k}{at_most}")
            row.append(f"{means[f'ortho{level}'] / uniform_ortho(k):.2f}")
        rows.append(row)
    head = ["data", "leaving", "paper's weights", "random", "no pooling", "p", "L_c", "clusters used", "L_o"]
    return markdown_table([*head, "second level", "L_o there"], rows) if rows else ""


def _left_text(table: Results) -> str:
    """On how many data sets the uniform assignment is left, clusters are used, and accuracy is lost."""
    known = {d: runs for d in DATASETS if (runs := table.runs(d, LEAVING))}

    def holds(
        runs: Sequence[Mapping[str, Any]], test: Callable[[Mapping[str, Any], int, int], float]
    ) -> bool:
        """Whether the mean of a number over the runs is positive at every level."""
        levels = list(enumerate(runs[0]["settings"]["k"], start=1))
        return all(np.mean([test(run, level, k) for run in runs]) > 0 for level, k in levels)

    left = [
        holds(runs, lambda run, i, k: 0.9 * uniform_ortho(k) - run[f"ortho{i}"]) for runs in known.values()
    ]
    used = [d for d, runs in known.items() if holds(runs, lambda run, i, k: run[f"clusters{i}"] - k / 2)]
    lower = [d for d in known if worse(table, d, LEAVING, "mincut") < LEVEL]
    return (
        f"L_o is below 0.9 of the uniform one at both levels on {sum(left)} of {len(known)} data sets, more than half "
        f"of the clusters are used at both on {len(used)} ({', '.join(used)}), and the accuracy is significantly below "
        f"that of the paper's weights on {len(lower)} ({', '.join(lower)}): it is not the layer's default."
    )


def trials(table: Results) -> str:
    """What was tried beside the table: of each network the three that are best by validation accuracy."""
    groups: dict[tuple[str, str], list[str]] = {}
    for dataset, name in table.cells:
        if table2.is_trial(name) and name != LEAVING and not name.endswith(TO_THE_END):
            groups.setdefault((dataset, table2.read_trial(name)[0]), []).append(name)
    rows = []
    for (dataset, method), names in sorted(groups.items()):
        runs = {name: table.runs(dataset, name) for name in names}
        best = sorted(names, key=lambda name: _validated(runs[name]), reverse=True)[:3]
        rows += [
            [dataset, method, *_trial_row(name, runs[name], table.cells[dataset, name])] for name in best
        ]
    head = ["data", "network", "changed", "validation", "test", "clusters used"]
    return markdown_table(head, rows) if rows else ""


def _validated(runs: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Mean validation accuracy, and the cross entropy (less is better) that decides between equals."""
    return (
        float(np.mean([run["validation_accuracy"] for run in runs])),
        -float(np.mean([run["validation_task"] for run in runs])),
    )


def _trial_row(name: str, runs: Sequence[Mapping[str, Any]], cell: Mapping[str, Any]) -> list[str]:
    changed = name.partition("+")[2]
    row = ["nothing" if changed == table2.UNCHANGED else changed.replace("+", ", ")]
    row += [f"{_validated(runs)[0]:.1f}", compared(cell, digits=1, folds=FOLDS).markdown]
    used = [run["clusters1"] for run in runs if "clusters1" in run]  # of poolers that have clusters
    return [*row, f"{np.mean(used):.1f} of {runs[0]['settings']['k'][0]}" if used else "-"]


def claims_text(out: str | Path) -> str:
    """What a reader takes home: which claims of the paper hold, and who found the same."""
    table = table2.results(out)
    return f"{to_markdown(table2_claims(table))}\n\n{table2_others(table)} {_REFERENCES}"


def default_text(out: str | Path) -> str:
    """How the default of GraphClassification stands among the columns."""
    return to_markdown(table2_default(table2.results(out)))


def page_text(out: str | Path) -> str:
    """What stands on the page between the two marks."""
    table = table2.results(out)
    gone = [*table.missing(DATASETS, PAPER_METHODS), *table.missing(ABLATION_DATASETS, tuple(ABLATIONS))]
    gpu = sum(
        cell["seconds"]
        for (_, method), cell in table.cells.items()
        if method in PAPER_METHODS and "CPU" not in cell["device"]
    )
    parts = [
        to_markdown(table2.table(table)),
        "Significance: Student's paired test over folds with the variance corrected for the overlap of their training "
        "parts (Nadeau and Bengio, 2003), one-sided, 5 %; on Bench, which has one split, Welch's test over seeds.",
        bench_text(table),
        f"All folds of all data sets took {gpu / 60:.0f} minutes of a GPU.",
        "### Does MinCutPool degenerate?",
        "Test graphs, mean over folds: clusters that are the first choice of at least one node, and both losses of "
        "the first level before their weights; in brackets the L_o of an assignment that puts every node into all "
        "clusters alike, which has L_c = -1 and is degenerate. `mincut-nolosses`: both losses off; `mincut-noortho`: "
        "L_o off; `mincut-diagonal`: the diagonal of the pooled adjacency is kept.",
        degeneracy(table),
    ]
    smoothness = read_cells(Path(out) / UNIFORM, "rows")
    if smoothness:
        parts += [
            "### Why assignments stay uniform",
            "The uniform assignment has the smallest L_c there is, and no gradient. To second order it is left only "
            "along changes of S with q below w_o / (w_c u √K): w_o and w_c are the weights of the losses, u the "
            "uniform L_o, q the squared difference between neighbours over the variance within the graph "
            "(`softcut.ops.uniform`). `smallest q`: of any direction of the first pooler's hidden features before "
            "training, mean over ten networks. While the first level is uniform, nothing differs between the clusters "
            "of the second.",
            to_markdown(uniform_table(smoothness)),
        ]
    left = leaving(
        table, {row["dataset"]: row["most_clusters"] for row in smoothness if "most_clusters" in row}
    )
    if left:
        parts += [
            "### MinCutPool that pools",
            '`MinCutPool(ortho_weight="auto", standardise=True, temperature=0.3)` weighs L_o in every graph so that it '
            "wins along the mean q of its features, and gives the scores of each cluster mean 0 and variance 1 within "
            f"each graph (`--method {LEAVING}`). L_o: share of the uniform one. `at most`: nodes that one layer cannot "
            "tell apart share a cluster. p: of a test against an accuracy below that of the paper's weights. Clusters "
            "hold nodes that are alike rather than neighbours, as L_c says.",
            _left_text(table),
            left,
            "![A protein and its pooled graphs](images/pooled_protein.png)",
        ]
    tried = trials(table)
    if tried:
        parts += [
            "### What was tried",
            "Other settings, of each network the three best on the validation graphs "
            "([all](../results/table2_trials.json)): `--method mincut+lr=0.002+batch=8`.",
            diffpool_text(table),
            tried,
        ]
    speed = throughput(out)
    if speed:
        parts += [
            "### Training graphs per second",
            "MinCutPool's network, all ten folds, 32 graphs per fold and step; making the batch is part of a step "
            "(`python benchmarks/classification.py`). PyG: PyTorch Geometric's dense layers with `dense_mincut_pool`, "
            "one fold after another; tgp: GraphConv and torch-geometric-pool's MinCutPooling on sparse graphs, "
            "likewise.",
            speed,
        ]
    parts += [
        "### What is missing",
        _missing_text(gone, table.missing(DATASETS, METHODS[len(PAPER_METHODS) :])),
    ]
    if (Path(out) / "table2_curves.json").exists():
        parts += ["### Training curves", "![Validation loss and accuracy by epoch](images/table2_curves.png)"]
    return "\n\n".join(filter(None, parts))


def throughput(out: str | Path) -> str:
    """What ``benchmarks/classification.py`` measured on each device; empty where it was not run."""
    parts = []
    for name in ("classification_step_gpu", "classification_step_cpu"):
        if not (Path(out) / f"{name}.json").exists():
            continue
        measured = read_json(out, name)
        rows = [
            [
                row["dataset"],
                row["way"],
                f"{row['graphs_per_second']:,.{0 if row['graphs_per_second'] >= 10 else 1}f}",
                f"{row['softcut_is_faster_by']:.1f}",
                f"{row['memory_bytes'] / 2**30:.2f}",
            ]
            for row in measured["rows"]
            if "graphs_per_second" in row  # a peer that is not installed has none
        ]
        columns = ["data", "way", "training graphs per second", "softcut is faster by", "peak memory, GiB"]
        parts += [f"{measured['device']}, PyTorch {measured['torch']}:", markdown_table(columns, rows)]
    return "\n\n".join(parts)


def _missing_text(gone: Sequence[tuple[str, str, int]], beyond: Sequence[tuple[str, str, int]]) -> str:
    """Missing cells with their commands: those of the paper and the ablations, then those beyond the paper."""
    parts = ["Of the paper's table and the ablations nothing: every cell has ten folds."]
    if gone:
        parts = [f"{len(gone)} cells, each with the command that makes it:", _missing_lines(gone)]
    if beyond:
        parts += [
            f"Of the poolers beyond the paper {len(beyond)} cells, for want of GPU time:",
            _missing_lines(beyond),
        ]
    return "\n\n".join(parts)


def _missing_lines(gone: Sequence[tuple[str, str, int]]) -> str:
    """One command for the data sets that lack the same methods, with as many folds so far."""
    methods: dict[tuple[str, int], list[str]] = {}
    for dataset, method, count in gone:
        methods.setdefault((dataset, count), []).append(method)
    datasets: dict[tuple[str, int], list[str]] = {}
    for (dataset, count), names in methods.items():
        datasets.setdefault((" ".join(names), count), []).append(dataset)
    return "\n".join(
        f"- {count} of {FOLDS} folds: `{table2.command_for(' '.join(listed), names)}`"
        for (names, count), listed in datasets.items()
    )


def draw_curves(curves: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Validation loss and accuracy by epoch, one column per data set, one line per method."""
    from softcut.colours import cluster_colours
    from softcut.report.plots import figure, save_figure

    chosen = longest_curves(curves)
    known = {dataset for dataset, _ in chosen}
    names = [d for d in _CURVES if d in known] or sorted(known)[:4]
    methods = [m for m in METHODS if any((d, m) in chosen for d in names)]
    colours = dict(zip(methods, cluster_colours(len(methods)), strict=True))
    fig, axes = figure(2, len(names), figsize=(3.4 * len(names), 5.2), sharex="col", squeeze=False)
    for column, dataset in enumerate(names):
        for method in methods:
            curve = chosen.get((dataset, method))
            if curve is None:
                continue
            # Where most folds have stopped, the mean is that of a few.
            last = int((np.array(curve["training"]) * 2 >= len(curve["folds"])).sum())
            for row, name in enumerate(("loss", "accuracy")):
                epochs = np.arange(1, last + 1)
                axes[row, column].plot(epochs, curve[name][:last], color=colours[method], label=method, lw=1)
        axes[0, column].set_title(dataset)
        axes[1, column].set_xlabel("epoch")
    axes[0, 0].set_ylabel("validation loss")
    axes[1, 0].set_ylabel("validation accuracy (%)")
    axes[0, -1].legend(fontsize=7)
    return save_figure(fig, path)
