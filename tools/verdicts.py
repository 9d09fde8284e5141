"""Whether MinCutPool reaches the paper's numbers in tables 2 and 3, and how it stands among the poolers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from softcut.paper import regression, table2
from softcut.paper.comparison import LEVEL, Results, worse_by_folds, worse_by_runs
from softcut.report.tables import Table, mean_and_deviation

OURS = "mincut"
TO_THE_END = "+epochs=5000"  # trials of networks that the limit of epochs ended
_RIVALS = {"topk": "Top-K", "diffpool": "DiffPool"}  # the poolers of table 3 that MinCutPool is compared with


def _beside_targets(
    results: Results,
    names: Sequence[str],
    paper: dict[tuple[str, str, str], tuple[float, float | None]],
    allowed: Callable[[str, float], float],
) -> tuple[list[list[str]], int]:
    """MinCutPool beside the paper's mean less (of an error: plus) what is `allowed`: rows, and how many reach it."""
    rows, reached, digits = [], 0, results.digits
    sign = 1 if results.higher else -1
    for name in names:
        cell = results.cells.get((name, OURS))
        if cell is None:
            continue
        mean, std = paper[name, OURS, results.score]
        asked = mean - sign * allowed(name, std or 0.0)
        good = sign * (cell["mean"] - asked) >= 0
        reached += good
        shown = mean_and_deviation(cell["mean"], cell["std"], digits)
        rows.append([name, shown, f"{asked:.{digits}f}", "yes" if good else "no"])
    return rows, reached


def worse(table: Results, dataset: str, one: str, other: str) -> float:
    """p-value that a method is worse than another."""
    a, b = table.scores(dataset, one), table.scores(dataset, other)
    return worse_by_runs(a.values(), b.values()) if table2.is_repeated(dataset) else worse_by_folds(a, b)


def _gain(table: Results, dataset: str, other: str) -> float:
    """By how many points MinCutPool is above another method."""
    return float(table.cells[dataset, OURS]["mean"] - table.cells[dataset, other]["mean"])


def _above(table: Results, datasets: Sequence[str], other: str) -> tuple[str, str]:
    """On how many data sets MinCutPool is significantly above another method, and by how many points on each."""
    known = [d for d in datasets if (d, other) in table.cells]
    better = [d for d in known if worse(table, d, other, OURS) < LEVEL]
    shown = [f"{_gain(table, d, other):+.1f}{'*' if d in better else ''} {d}" for d in known]
    return f"{len(better)} of {len(known)}", ", ".join(shown)


def table2_claims(table: Results) -> Table:
    """What the paper says of MinCutPool in graph classification, and on how many data sets it holds."""
    data = [d for d in table2.DATASETS if (d, OURS) in table.cells]
    rivals = {d: [m for m in table2.PAPER_METHODS if m != OURS and (d, m) in table.cells] for d in data}
    ahead = {d: [m for m in rivals[d] if worse(table, d, OURS, m) < LEVEL] for d in data}
    level = {
        d: [m for m in rivals[d] if m in table2.POOLERS and worse(table, d, m, OURS) >= LEVEL] for d in data
    }

    def allowed(dataset: str, std: float) -> float:
        return max(1.0, std) if table2.is_repeated(dataset) else std

    reached, count = _beside_targets(table, data, table2.PAPER, allowed)
    short = [f"{name} {ours}, asked for {asked}" for name, ours, asked, good in reached if good == "no"]
    published = {(d, m): table2.PAPER[d, m, "accuracy"][0] for d, m, _ in table2.PAPER}
    behind = [
        f"{_gain(table, d, m):+.1f} {m} on {d} (paper: {published[d, OURS] - published[d, m]:+.1f})"
        for d in data
        for m in ahead[d]
    ]
    of = len(data)
    rows = [
        [
            "the paper's mean, less one of its standard deviations (Bench: at least a point)",
            f"{count} of {of}",
        ],
        [
            '"equal or better results with respect to every other method"',
            f"{sum(not m for m in ahead.values())} of {of}",
        ],
        [
            '"significantly better than existing pooling strategies"',
            f"{sum(not m for m in level.values())} of {of}",
        ],
        ["significantly better than no pooling"],
        ["significantly better than random pooling, which learns nothing"],
    ]
    rows[0].append("; ".join(short))
    rows[1].append("; ".join(behind))
    rows[2].append("only " + ", ".join(d for d in data if not level[d]))
    rows[3] += _above(table, data, "nopool")
    rows[4] += _above(table, data, "random")
    return Table(["MinCutPool has", "data sets", "where not, or points (* significant)"], rows)


def table2_default(table: Results) -> Table:
    """The default of GraphClassification beside the best other column, and beside MinCutPool."""
    rows, level, above = [], 0, 0
    data = [d for d in table2.DATASETS if (d, "default") in table.cells]
    for name in data:
        others = [m for m in table2.METHODS if m != "default" and (name, m) in table.cells]
        best = max(others, key=lambda method: float(table.cells[name, method]["mean"]))
        behind, ahead = worse(table, name, "default", best), worse(table, name, OURS, "default")
        level += behind >= LEVEL
        above += ahead < LEVEL
        shown = [table.cells[name, method]["mean"] for method in ("default", best, OURS)]
        rows.append(
            [
                name,
                f"{shown[0]:.1f}",
                f"{shown[1]:.1f} {best}",
                f"{behind:.2g}",
                f"{shown[2]:.1f}",
                f"{ahead:.2g}",
            ]
        )
    titles = ["data", "default", "best other column", "p, default lower", "MinCutPool", "p, MinCutPool lower"]
    note = (
        f"Not significantly below the best other column on {level} of {len(data)} data sets, significantly above "
        f"MinCutPool's on {above}."
    )
    return Table(titles, rows, notes=[note])


def table2_others(table: Results) -> str:
    """Where random pooling, no pooling and WL stand beside MinCutPool."""
    level, above = [], []
    for method, name in (("random", "random pooling"), ("nopool", "no pooling"), ("wl", "the WL kernel")):
        data = [d for d in table2.DATASETS if (d, method) in table.cells and (d, OURS) in table.cells]
        count = sum(worse(table, d, method, OURS) >= LEVEL for d in data)
        level.append(f"{name} on {count} of {len(data)} data sets")
        above.append(str(sum(_gain(table, d, method) < 0 for d in data)))
    return f"Not significantly worse than MinCutPool: {', '.join(level)}; with the higher mean on {', '.join(above)}."


def bench_text(table: Results) -> str:
    """How the fresh draw of Bench differs from the published one, and which trainings its limit of epochs ended."""
    data = [d for d in table2.DATASETS if table2.is_repeated(d) and (d, OURS) in table.cells]
    change = {
        d: {m: table.cells[d, m]["mean"] - table2.PAPER[d, m, "accuracy"][0] for m in table2.PAPER_METHODS}
        for d in data
        if all((d, m) in table.cells for m in table2.PAPER_METHODS)
    }
    signs = [
        f"WL {own['wl']:+.1f} points on {d}, where {sum(v > 0 for v in own.values())} of {len(own)} columns are above "
        "the paper's"
        for d, own in change.items()
    ]
    told = (
        f"Bench is a fresh draw, easier than the published one by these signs: {'; '.join(signs)}."
        if signs
        else ""
    )
    ended = []
    for d in table2.DATASETS:
        runs = {m: table.runs(d, m) for m in table2.METHODS if m != "default"}
        counts = {
            m: sum(r.get("epochs", 0) >= r["settings"].get("epochs", np.inf) for r in own)
            for m, own in runs.items()
        }
        if any(counts.values()):
            ended.append(f"{d}: {', '.join(f'{m} {n}' for m, n in counts.items() if n)}")
    if ended:
        told += (
            " Ended by the limit of 500 epochs while the validation loss still fell, of ten runs each: "
            f"{'; '.join(ended)}."
        )
    longer = [(d, m) for d, m in table.cells if m.endswith(TO_THE_END) and (d, base(m)) in table.cells]
    if longer:
        cells = [
            f"{d} {base(m)} {table.cells[d, m]['mean']:.1f} (at the limit {table.cells[d, base(m)]['mean']:.1f})"
            for d, m in longer
        ]
        most = max(run["epochs"] for d, m in longer for run in table.runs(d, m))
        told += (
            f" Trained to the end (`--method nopool{TO_THE_END}`; at most {most} epochs): {', '.join(cells)}."
        )
    return told


def base(trial: str) -> str:
    """The method of which a trial changes a setting."""
    return table2.read_trial(trial)[0]


def diffpool_text(table: Results) -> str:
    """What other settings change in DiffPool's accuracy where its link loss is large."""
    trials = [
        (d, m, table.cells[d, m]["mean"] - table.cells[d, "diffpool"]["mean"])
        for d, m in table.cells
        if m.startswith("diffpool+") and "degree" not in m and not m.endswith(table2.UNCHANGED)
    ]
    if not trials:
        return ""
    names = sorted({m.partition("+")[2] for _, m, _ in trials})
    link = {
        d: np.mean([r["link1"] for r in table.runs(d, "diffpool")])
        for d in dict.fromkeys(d for d, *_ in trials)
    }
    task = {d: np.mean([r["task"] for r in table.runs(d, "diffpool")]) for d in link}
    shown = ", ".join(f"{link[d]:.0f} beside {task[d]:.2f} on {d}" for d in link)
    low, high = min(t[2] for t in trials), max(t[2] for t in trials)
    return (
        f"DiffPool's link loss is large beside the cross entropy ({shown}). The paper's numbers for it do not need "
        f"other settings there: {', '.join(f'`{n}`' for n in names)} change its accuracy by {low:+.1f} to "
        f"{high:+.1f} points. So one rule holds for all poolers: losses as published, batches of 32, the epoch "
        "with the lowest validation loss."
    )


def table3_verdicts(table: Results) -> str:
    """MinCutPool against the paper's mean plus its deviation, and against the other two poolers."""
    names = [n for n in regression.PROPERTIES if all((n, m) in table.cells for m in (OURS, *_RIVALS))]
    lower = [all(table.cells[n, OURS]["mean"] < table.cells[n, m]["mean"] for m in _RIVALS) for n in names]
    significant = [
        all(worse_by_folds(table.scores(n, m), table.scores(n, OURS)) < LEVEL for m in _RIVALS) for n in names
    ]
    rows, reached = _beside_targets(table, regression.PROPERTIES, regression.PAPER, lambda name, std: std)
    of = len(regression.PROPERTIES)
    short = "; ".join(f"{name} {ours}, asked for {asked}" for name, ours, asked, good in rows if good == "no")
    return (
        "The error of MinCutPool is at most the paper's mean plus one of the paper's standard deviations on "
        f"{reached} of {of} properties{f' (not {short})' if short else ''}. It is lower than those of "
        f"{' and '.join(_RIVALS.values())} on {sum(lower)} of {of}, significantly so (5 %) on {sum(significant)}."
    )
