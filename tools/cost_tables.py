"""Tables of time, memory, large graphs, reconstruction and segmentation in the pages, and of what the tests notice.

Each function takes the folder of the results and returns Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softcut.paper import segmentation
from softcut.paper.autoencoder import TITLES, percent
from softcut.paper.runs import read_cells
from softcut.report.tables import markdown_table, mean_and_deviation, to_markdown
from tools.clustering_tables import TITLES as DATA_TITLES
from tools.clustering_tables import plus_minus
from tools.results import read_json


def _times(value: float) -> str:
    """A ratio with two digits."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def _part(value: float) -> str:
    """A share: 1/14, 1/1.6."""
    return f"1/{value:.1f}" if value < 2 else f"1/{value:.0f}"


def _tiny(value: float) -> str:
    """One digit and an exponent."""
    digits, _, exponent = f"{value:.0e}".partition("e")
    return f"{digits}e{int(exponent)}"


# What is measured by benchmarks/everyday.py, as readers know it, and the share of the earlier time that was asked for.
_EVERYDAY = {
    "fits, 300, cpu": ("fit, 300 nodes", 0.2),
    "fits, cora, cpu": ("fit, Cora", 0.15),
    "fits, photo, cpu": ("fit, Photo", 0.2),
    "fits, 10000, cpu": ("fit, 10,000 nodes", 0.2),
    "fits, 100000, cpu": ("fit, 100,000 nodes", 0.5),
    "million, softcut cluster, 1000000 nodes, cpu": ("`softcut cluster`, 1,000,000 nodes", 0.5),
    "classify, PROTEINS, cpu": ("`GraphClassification`, PROTEINS", 0.33),
    "command, softcut cluster friends.csv, cpu": ("`softcut cluster`, 60 nodes", None),
    "command, softcut --help, cpu": ("`softcut --help`", None),
    "command, softcut cluster --wrong, cpu": ("`softcut cluster --wrong`", None),
    "command, imports after torch, cpu": ("import after torch", None),
}


def everyday(out: Path) -> str:
    """Time and memory of everyday calls as shares of those of an earlier commit, and how good the result is."""
    rows, cells = read_json(out, "everyday")["rows"], []
    for key, (title, asked) in _EVERYDAY.items():
        if key not in rows:
            continue
        row = rows[key]
        ratio, here, other = row["ratio"], row["here"], row["other"]
        score = next((name for name in ("nmi", "accuracy") if name in here), None)
        quality = "" if score is None else f"{here[score]:.3f} ({other[score]:.3f})"
        memory = f"{ratio['peak_mib']:.2f}" if "peak_mib" in ratio else ""
        share = f"{ratio['seconds']:.2f}"
        cells.append([title, share, "" if asked is None else f"{asked:g}", memory, quality, str(row["runs"])])
    table = markdown_table(["what", "time", "asked", "memory", "NMI or accuracy (then)", "runs"], cells)
    times = [row["ratio"]["seconds"] for key, row in rows.items() if key.startswith("busy")]
    said = (
        f"Beside two processes that keep both cores busy, these fits take {min(times):.1f} to {max(times):.1f} "
        "times as long (`--what busy`)."
    )
    return f"{table}\n\n{said}"


def everyday_peers(out: Path) -> str:
    """Seconds of a default fit and of other methods on the same graphs, in turns, and NMI."""
    rows, cells = read_json(out, "everyday")["rows"], []
    for key, row in rows.items():
        kind, graph, _ = key.split(", ", 2)
        if kind != "peers":
            continue
        fit = row["here"]
        title = f"{int(graph):,} nodes" if graph.isdigit() else DATA_TITLES[graph]
        for peer in (name for name in row if isinstance(row[name], dict) and name != "here"):
            own = row[peer]
            times, clusters = f"{fit['seconds'] / own['seconds']:.1f}", str(round(own["clusters"]))
            cells.append([title, peer, times, f"{own['nmi']:.3f}", f"{fit['nmi']:.3f}", clusters])
    return markdown_table(
        ["graph", "peer", "softcut's time / its", "its NMI", "softcut's NMI", "its clusters"], cells
    )


def benchmarks(out: Path) -> str:
    """Speed and memory against peers, with the range over rounds and what was asked for."""
    measured = {b["kind"]: b for b in read_json(out, "benchmarks")["benchmarks"]}

    def row(kind: str, contender: str) -> Mapping[str, Any]:
        return next(row for row in measured[kind]["rows"] if row["contender"] == contender)

    def check(kind: str, begins: str) -> Mapping[str, Any]:
        return next(check for check in measured[kind]["checks"] if check["what"].startswith(begins))

    def faster(title: str, kind: str, contender: str, target: str = "", memory: bool = True) -> list[str]:
        own = row(kind, contender)
        less = f", {_part(own['memory_ratio'])} of the memory" if memory else ""
        spread = "-".join(map(_times, own["time_ratio_range"]))
        asked = check(kind, target)["target"] if target else ""
        return [title, f"{_times(own['time_ratio'])}x faster{less}", spread, asked]

    ten = row("step", "softcut, 10 replicas")
    extra = check("cut", "cut loss, peak extra memory")
    ours, theirs = (check("cut", f"error of the cut loss by {n}") for n in ("softcut", "sparse_mincut"))
    fit = row("fit", "one run, unbatched MinCut")
    step, sparse = "a step against GraphConv + ", "the same, sparse tensor"
    rows = [
        faster(
            "a step against `GraphConv` + `dense_mincut_pool`",
            "step",
            "GraphConv + dense_mincut_pool",
            f"{step}dense",
        ),
        faster("a step against the same with a sparse tensor", "step", sparse, memory=False),
        faster(
            "a step against `GraphConv` + unbatched MinCut",
            "step",
            "GraphConv + unbatched MinCut",
            f"{step}unbatched",
        ),
        [
            "ten replicas against one",
            f"{ten['time_ratio']:.1f}x the time",
            "-".join(f"{value:.1f}" for value in ten["time_ratio_range"]),
            check("step", "ten replicas")["target"],
        ],
        faster("cut loss against `sparse_mincut_loss`", "cut", "sparse_mincut_loss", "cut loss against"),
        ["peak extra memory of the cut loss", f"{extra['measured']:.1f} N K floats", "", extra["target"]],
        [
            "error of the cut loss in float32",
            f"{_tiny(ours['measured'])} (the peer's: {_tiny(theirs['measured'])})",
            "",
            ours["target"],
        ],
        [
            "default fit of Cora against one run of one network",
            f"{1 / fit['time_ratio']:.2f}x its time",
            "-".join(f"{1 / value:.2f}" for value in reversed(fit["time_ratio_range"])),
            check("fit", "default fit")["target"],
        ],
        faster("64 graphs against `dense_mincut_pool`", "layer", "dense_mincut_pool"),
    ]
    return markdown_table(["what", "measured", "range over rounds", "target"], rows)


def pooling_memory(out: Path) -> str:
    """A batch of 64 graphs on a CPU and on a GPU."""
    names = {"softcut": "{}", "pyg-dense": "dense_{}_pool"}
    by: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for device, file in (("cpu", "pooling_memory"), ("gpu", "pooling_memory_gpu")):
        rows = read_json(out, file)["rows"]
        by |= {(r["library"], r["operator"], device): r for r in rows if r["graphs"] == 64}
    lines = []
    for library, operator in dict.fromkeys(key[:2] for key in by):
        cpu, gpu = by[library, operator, "cpu"], by[library, operator, "gpu"]
        large = 1 if gpu["peak_gib"] >= 10 else 2
        seconds = 2 if gpu["seconds"] >= 0.1 else 3
        name = names[library].format(operator.replace("pool", "") if library == "pyg-dense" else operator)
        memory = (
            f"{cpu['peak_gib']:.2f} GiB"
            if "peak_gib" in cpu
            else f"about {cpu['estimated_gib']:.0f} GiB, extrapolated"
        )
        lines.append(
            [
                f"`{name}`",
                "softcut" if library == "softcut" else "PyTorch Geometric",
                memory,
                f"{gpu['peak_gib']:.{large}f} GiB",
                f"{gpu['seconds']:.{seconds}f} s",
            ]
        )
    titles = ["CPU, peak memory of the step", "H200, peak memory of the step", "H200, a step"]
    return markdown_table(["operator", "library", *titles], lines)


def reconstruction(out: Path) -> str:
    """Median error of the autoencoder as a share of the variance, one column per pooler."""
    lines = []
    for file, ending in (("autoencoder", ""), ("autoencoder_decay", ", decay")):
        cells = {(c["dataset"], c["method"]): c for c in read_cells(out / f"{file}.json")}
        for name in ("ring", "grid"):
            shares = (percent(cells[name, method]["median_over_variance"]) for method in TITLES)
            lines.append([name + ending, *shares])
    return markdown_table(["", *TITLES.values()], lines)


def mutants(out: Path) -> str:
    """Drawn changes that were noticed at first try; numbers aligned to the right."""
    lines = []
    for seed in read_json(out, "mutants")["seeds"]:
        run, noticed = (sum(room[key] for room in seed["rooms"]) for key in ("run", "noticed_first"))
        lines.append([str(seed["seed"]), f"{noticed} of {run} ({100 * noticed / run:.1f} %)"])
    head, _, *rows = markdown_table(["seed", "first try"], lines).split("\n")
    return "\n".join([head, "|---|---:|", *rows])


def distributed_quality(out: Path) -> str:
    """NMI of training on parts, beside the default of the whole graph."""
    graphs = read_json(out, "distributed")["quality"]
    lines = [
        [title, *(plus_minus(row[key], row[f"{key} std"]) for row in graphs)]
        for title, key in (("`GraphClustering`", "whole"), ("on one part", "parts"))
    ]
    lines.append(["nodes labelled alike", *(f"{100 * row['alike']:.1f} %" for row in graphs)])
    return markdown_table(["", *(DATA_TITLES.get(row["graph"], row["graph"]) for row in graphs)], lines)


def billion(out: Path) -> str:
    """31 million nodes and 10^9 entries on one GPU."""
    names = {"full": "all nodes at every step", "batches": "a sixteenth of the nodes at every step"}
    lines = []
    for run in read_json(out, "billion", "python benchmarks/billion.py.")["runs"]:
        times = [
            f"{run['seconds']:.1f}",
            f"{run['phases']['training']:.1f}",
            f"{run['peak_reserved_gib']:.1f}",
        ]
        lines.append([names[run["mode"]], *times, f"{run['nmi_of_start']:.3f}", f"{run['nmi']:.3f}"])
    titles = ["training", "seconds", "of these training", "peak GiB", "NMI before training", "NMI"]
    return markdown_table(titles, lines)


def community_rings(out: Path) -> str:
    """Who tells one ring of communities from two."""
    rows = [
        [
            f"`{cell['method']}`",
            mean_and_deviation(cell["mean"], cell["std"], 1),
            mean_and_deviation(cell["larger_mean"], cell["larger_std"], 1),
        ]
        for cell in read_json(out, "community_rings")
    ]
    return markdown_table(["pooler", "test accuracy", "communities three times as large"], rows)


COST_TABLES: dict[str, Callable[[Path], str]] = {
    "benchmarks": benchmarks,
    "everyday": everyday,
    "everyday-peers": everyday_peers,
    "community-rings": community_rings,
    "pooling-memory": pooling_memory,
    "reconstruction": reconstruction,
    "mutants": mutants,
    "distributed-quality": distributed_quality,
    "billion": billion,
    "segmentation-test": lambda out: to_markdown(
        segmentation.table(read_cells(out / "segmentation_test.json"))
    ),
    "segmentation": lambda out: to_markdown(segmentation.table(read_cells(out / "segmentation.json"))),
}
