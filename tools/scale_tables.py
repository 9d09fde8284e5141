"""Tables of large graphs in the pages: mini-batches, and distributed training, measured and by its cost model.

Each function takes the folder of the results and returns Markdown. :mod:`tools.tables` knows which page shows
which.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from softcut.report.tables import markdown_table
from tools.clustering_tables import TITLES, plus_minus, short
from tools.results import read_json

__all__ = ["SCALE_TABLES"]

_GRAPHS = {"cora": "Cora", "made": "generated, 20,000 nodes"}
_DEFAULT = ("default", "nmi")  # method and metric of the default in quality.json


def minibatch(out: Path) -> str:
    """NMI and memory of the training in batches beside those of the whole graph, means over seeds."""
    runs = read_json(out, "minibatch")["runs"]
    names = {"photo": "Amazon Photo", "pubmed": "PubMed", "planted": "planted, 1M edges"}
    lines = []
    for dataset, parts in dict.fromkeys((run["dataset"], run["parts"]) for run in runs):
        own = [run for run in runs if (run["dataset"], run["parts"]) == (dataset, parts)]
        whole = [run for run in runs if (run["dataset"], run["parts"]) == (dataset, "whole")]
        mean = {
            key: float(np.mean([run[key] for run in own])) for key in ("nmi", "training_peak_mib", "seconds")
        }
        share = mean["training_peak_mib"] / float(np.mean([run["training_peak_mib"] for run in whole]))
        batch = own[0]["batch"]
        lines.append(
            [
                names.get(dataset, dataset),
                "whole graph" if batch is None else f"{batch:,} nodes, {parts} parts",
                f"{mean['nmi']:.3f} ({len(own)})",
                f"{mean['training_peak_mib']:.1f} MiB",
                f"{share:.2f}",
                f"{mean['seconds']:.0f} s",
            ]
        )
    titles = ["graph", "a step takes", "NMI (seeds)", "peak memory of the training", "share", "seconds"]
    return markdown_table(titles, lines)


def minibatch_trials(out: Path) -> str:
    """Losses of two replicas with each way of estimating the sums of the whole graph."""
    rows = read_json(out, "minibatch_trials")["rows"]
    columns = list(rows[0]["losses"])
    lines = [
        [row["sums"], *(", ".join(map(short, row["losses"].get(name, []))) for name in columns)]
        for row in rows
    ]
    return markdown_table(["T from", *columns], lines)


def distributed(out: Path) -> str:
    """What several processes exchanged, and how far their parameters are from those of one."""
    rows = read_json(out, "distributed")["rows"]
    lines = [
        [
            _GRAPHS.get(row["graph"], row["graph"]),
            "paper" if row["paper"] else "default",
            str(row["processes"]),
            f"{row['halo_rows_per_node']:.2f}",
            "-" if row["processes"] == 1 else f"{row['largest_difference_of_a_parameter']:.0e}",
            f"{row['counted_bytes_per_step']:,}",
            f"{row['model_bytes_per_step']:,}",
            f"{row['bytes_written_to_sockets']:,.0f}",
            f"{row['model_bytes_on_the_wire']:,.0f}",
        ]
        for row in rows
    ]
    titles = ["graph", "network", "processes", "halo rows per node", "largest difference of a parameter"]
    titles += ["bytes a step, counted", "model", "sockets", "model"]
    return markdown_table(titles, lines)


def distributed_quality(out: Path) -> str:
    """NMI of training on parts, beside the default of the whole graph."""
    found = read_json(out, "distributed")["quality"]
    lines = [
        [title, *(plus_minus(row[key], row[f"{key} std"]) for row in found)]
        for title, key in (("`GraphClustering`", "whole"), ("on one part", "parts"))
    ]
    lines.append(["nodes labelled alike", *(f"{100 * row['alike']:.1f} %" for row in found)])
    return markdown_table(["", *(TITLES.get(row["graph"], row["graph"]) for row in found)], lines)


def halo(out: Path) -> str:
    """Neighbours on the other side, by METIS and by chance."""
    rows = read_json(out, "halo")["rows"]
    lines = [
        [
            row["graph"],
            f"{row['degree']:.1f}",
            f"{row['metis']['halo_rows_per_node']:.2f}",
            f"{row['random']['halo_rows_per_node']:.2f}",
            f"{100 * row['metis']['crossing_share']:.0f} %",
        ]
        for row in rows
    ]
    titles = ["graph", "mean degree", "halo rows per node, METIS", "at random", "edges that cross, METIS"]
    return markdown_table(titles, lines)


def distributed_model(out: Path) -> str:
    """What the cost model says of 111 million nodes."""
    jobs = read_json(out, "distributed_model")["jobs"]
    rows: dict[str, Callable[[dict[str, float]], str]] = {
        "nodes of a part": lambda job: f"{job['rows'] / 1e6:.1f} M",
        "halo rows of a part": lambda job: f"{job['halo'] / 1e6:.1f} M" if job["halo"] else "0",
        "memory in training": lambda job: f"{job['memory'] / 2**30:.1f} GiB",
        "memory while features are propagated": lambda job: f"{job['preparation_memory'] / 2**30:.1f} GiB",
        "memory traffic of a step": lambda job: f"{job['traffic'] / 1e9:,.0f} GB",
        "halo received in a step": lambda job: f"{job['halo_bytes'] / 1e9:.2f} GB" if job["halo"] else "0",
        "numbers added up in a step": lambda job: f"{job['reduced_bytes'] / 1e3:.1f} kB",
        "seconds of a step: memory + messages": _seconds,
        "all steps": lambda job: f"{job['steps'] * (job['seconds_memory'] + job['seconds_messages']):.0f} s",
    }
    lines = [[title, *(text(job) for job in jobs.values())] for title, text in rows.items()]
    return markdown_table(["", *jobs], lines)


def _seconds(job: dict[str, float]) -> str:
    messages = f"{job['seconds_messages']:.3f}" if job["halo"] else "0"
    return f"{job['seconds_memory']:.3f} + {messages}"


SCALE_TABLES: dict[str, Callable[[Path], str]] = {
    "minibatch": minibatch,
    "minibatch-trials": minibatch_trials,
    "distributed-quality": distributed_quality,
    "distributed": distributed,
    "distributed-halo": halo,
    "distributed-model": distributed_model,
}
