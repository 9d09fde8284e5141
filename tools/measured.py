"""The report of all results as the site shows it: what was measured beyond the paper, in words and with its tables.

``softcut report`` shows the same files as plain tables. A file of results or a table of the documentation that no
section names is shown at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from softcut.errors import SoftcutError
from softcut.paper.report_files import any_table, load_result
from softcut.paper.report_origin import origin_of_file
from softcut.paper.report_sections import other_results
from softcut.report.html_page import Details, Missing, Part, Section, Text
from tools.tables import TABLES

__all__ = ["MEASURED", "Measured", "measured_sections"]

# Links to pages that are not beside the report; in brackets they go with what they say.
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
_ASIDE = re.compile(rf" \({_LINK.pattern}\)")


@dataclass(frozen=True)
class Measured:
    """A section: its title, what was measured, the files, and the tables of the documentation that show them."""

    title: str
    text: str
    files: Mapping[str, str]  # what makes each
    tables: Mapping[str, str] = field(default_factory=dict)  # by the title of the table here


# Tables of the documentation whose numbers other sections show.
_TABLES_SHOWN = (
    *(
        "table1",
        "table2",
        "table3",
        "beyond-table1",
        "synthetic",
        "headline",
        "benchmarks-short",
        "segmentation",
    ),
    *("reconstruction", "reconstruction-spread", "rank-correlations"),
)
MEASURED = (
    Measured(
        "Quality of the default clustering: tables of the documentation",
        "The same numbers as above, rounded, and what follows from the single runs.",
        {},
        {
            "NMI": "quality-nmi",
            "Accuracy": "quality-accuracy",
            "Adjusted Rand index": "quality-ari",
            "With one part of the default changed": "ablations",
            "Structure and verdict": "structure",
            "Where another method is ahead": "behind",
            "When the number of clusters is chosen, too": "number-of-clusters",
        },
    ),
    Measured(
        "Segmentation: tests and time",
        "Paired differences of the segmentations above, their best scales, and the time of a photo.",
        {},
        {
            "Paired differences over images": "segmentation-tests",
            "Number of segments with the best score for all images, and time": "segmentation-scales",
            "Time of a photo of one megapixel": "segmentation-speed",
        },
    ),
    Measured(
        "Tables 2 and 3: variants, trials and speed",
        "MinCutPool without parts of it, other settings than the tables', and training steps per second.",
        {
            "table2_ablation.json": "softcut reproduce classification --method mincut-noortho",
            "table2_trials.json": "softcut reproduce classification --method mincut+lr=0.002",
            "table3_trials.json": "softcut reproduce regression --unmasked",
            "table3_speed.json": "python benchmarks/regression.py --out results/table3_speed.json",
            "classification_step_cpu.json": "python benchmarks/classification.py",
            "classification_step_gpu.json": "python benchmarks/classification.py --device cuda",
        },
    ),
    Measured(
        "Objectives: what is minimised",
        "Each objective of the family trains replicas from the same k-means start; NMI with the classes of the data.",
        {"objectives.json": "python benchmarks/objectives.py"},
        {
            "Mean over the replicas": "objectives-mean",
            "The replica with the most evidence": "objectives-most-evidence",
            "Rank correlation of evidence and NMI": "objectives-rank-correlation",
            "By the distance that features were propagated": "objectives-by-distance",
        },
    ),
    Measured(
        "Speed and memory beside other libraries",
        "The same computation by softcut and by other libraries on the same machine, one process each, in turns.",
        {"benchmarks.json": "make bench"},
        {"Ratios": "benchmarks", "Time and quality of whole fits": "time-and-quality"},
    ),
    Measured(
        "Other kinds of graphs",
        "Tables of numbers as nearest-neighbour graphs, a social network, and generated graphs whose classes show in "
        "the edges, in the features or in both. NMI, mean over three values of random_state.",
        {"regimes.json": "python benchmarks/regimes.py"},
        {"NMI": "regimes"},
    ),
    Measured(
        "Edge lists without features",
        "Modularity of clusterings of graphs that have edges and nothing else.",
        {"edgelists.json": "python benchmarks/edgelists.py"},
        {"Modularity": "edge-lists"},
    ),
    Measured(
        "Large graphs",
        "The default estimator from a graph in memory to labels.",
        {
            "large_cpu.json": "python benchmarks/large.py --nodes 100000 --out results/large_cpu.json",
            "large_peers.json": "python benchmarks/large.py --nodes 1000000 --command --peers "
            "--out results/large_peers.json",
            "large_gpu.json": "python benchmarks/large.py --device cuda --nodes 100000 300000 1000000 3000000 "
            "--out results/large_gpu.json",
            "large_growth.json": "python benchmarks/large.py --nodes 10000 30000 100000 300000 "
            "--out results/large_growth.json",
        },
        {"Whole fits": "large_fits"},
    ),
    Measured(
        "Growth of a training step on a CPU",
        "Time and memory of one step of one replica by the number of edges, beside a plain gather of the same size.",
        {"growth_cpu.json": "python benchmarks/growth.py"},
        {"A step by the number of edges": "growth_cpu"},
    ),
    Measured(
        "A graph with a billion entries on one GPU",
        "31 million nodes, 64 features, 16 planted communities: full-batch training and mini-batches.",
        {"billion.json": "python benchmarks/billion.py"},
        {"From an edge list in memory to labels": "billion"},
    ),
    Measured(
        "GPU kernels",
        "The sparse product and the cut loss beside what the card's memory allows, cuSPARSE and the embedding bag.",
        {
            "gpu_kernels.json": "python benchmarks/gpu_kernels.py --sections product growth cora --out results",
            "gpu_losses.json": "python benchmarks/gpu_kernels.py --sections machine loss fits",
            "gpu_kernels_small.json": "python benchmarks/gpu_kernels.py --sections ragged",
            "gpu_sweep.json": "python benchmarks/gpu_kernels.py --sections sweep",
        },
        {
            "The product": "gpu_products",
            "The cut loss, forward and backward": "gpu_losses",
            "Products per graph of a batch": "gpu_ragged",
            "A training step by the number of edges": "gpu_growth",
            "Default fits with and without the kernels": "gpu_fits",
        },
    ),
    Measured(
        "Reading large files",
        "Edge lists of millions of lines, read block by block and at once: seconds and peak memory of the process.",
        {"large_files.json": "python benchmarks/large_files.py"},
    ),
    Measured(
        "Mini-batches",
        "Training on parts of the graph with running estimates of the sums of the whole, beside training on all of it.",
        {"minibatch.json": "python benchmarks/minibatch.py", "minibatch_trials.json": "-"},
        {
            "Quality and memory": "minibatch",
            "Losses of two replicas by how the sums are estimated": "minibatch-trials",
        },
    ),
    Measured(
        "Training with several processes",
        "Each process owns a part of the nodes and exchanges the rows of its halo (neighbours in other parts); "
        "parameters equal those of one process.",
        {
            "distributed.json": "python benchmarks/distributed.py",
            "halo.json": "python benchmarks/halo.py",
            "distributed_model.json": "python benchmarks/distributed_cost.py --out results/distributed_model.json",
        },
        {
            "Exchanged bytes, counted and by the cost model": "distributed",
            "NMI": "distributed-quality",
            "How many rows a part needs from others": "distributed-halo",
            "111 million nodes and 3.2 billion entries, by the cost model": "distributed-model",
        },
    ),
    Measured(
        "Speed and memory of the poolers",
        "A forward and a backward pass of every pooling operator: on graphs of growing size, and on 64 graphs at once.",
        {
            "pooling_speed.json": "python benchmarks/pooling.py speed --out results/pooling_speed.json",
            "pooling_memory.json": "python benchmarks/pooling.py memory --out results/pooling_memory.json",
            "pooling_memory_gpu.json": "python benchmarks/pooling.py memory --device cuda "
            "--out results/pooling_memory_gpu.json",
        },
        {"A step by the number of nodes": "pooling-speed", "A batch of 64 graphs": "pooling-memory"},
    ),
    Measured(
        "Graphs without clusters",
        "Fits of graphs in which there is nothing to find, and of graphs in which there is: the verdicts.",
        {
            "noise.json": "python benchmarks/noise.py",
            "noise_fresh.json": "python benchmarks/noise.py --seed 1 --out results/noise_fresh.json",
            "structure_curve.json": "python benchmarks/noise.py --curve",
        },
        {"Verdicts": "noise"},
    ),
    Measured(
        "What a default fit costs",
        "Seconds and memory of one fit.",
        {"fit_cost.json": "python benchmarks/fit_cost.py"},
        {"Fits": "fit-cost"},
    ),
    Measured(
        "How often networks lose clusters",
        "Generated graphs with weak signal, average degree 4 to 100 and 16 to 8,000 features: networks that use all "
        "six clusters.",
        {"collapse.json": "python benchmarks/collapse.py"},
        {"Networks that keep all clusters": "collapse"},
    ),
    Measured(
        "How hard the generated example graph is",
        "NMI of baselines that see the edges, the features, or both.",
        {"generated.json": "python benchmarks/generated.py"},
        {"NMI": "generated"},
    ),
    Measured(
        "Fit on a small graph, predict a large one",
        "Both graphs are generated by the same process, the second is ten times larger.",
        {"transfer.json": "python benchmarks/transfer.py"},
    ),
    Measured(
        "Table 2: when assignments stay uniform",
        "The uniform assignment is left only along directions whose quotient q is below a bound that depends on K. "
        "Smallest q that the features allow before training, the bound, and the weight of the orthogonality loss that "
        "would leave it.",
        {"table2_uniform.json": "python -m softcut.paper.classification_uniform"},
    ),
    Measured(
        "Small wrong changes that the tests notice",
        "Mutation testing: small changes of the code, made by hand or drawn at random, and how many make a test fail.",
        {"mutants.json": "make mutants"},
        {
            "Drawn changes": "mutants",
            "Drawn with seed 0, by room": "mutants-seed-0",
            "Drawn with seed 1, by room": "mutants-seed-1",
            "Made by hand": "mutants-by-hand",
        },
    ),
)


def _table_parts(folder: Path, tables: Mapping[str, str]) -> list[Part]:
    """Tables of the documentation below their titles; those whose results are not there are left out."""
    parts: list[Part] = []
    for title, name in tables.items():
        try:
            text = TABLES[name](folder)
        except (SoftcutError, OSError, LookupError, ValueError, StopIteration):
            continue
        if _says_something(text):
            parts += [Text(f"### {title}"), Text(_LINK.sub(r"\1", _ASIDE.sub("", text)))]
    return parts


def _says_something(table: str) -> bool:
    """Whether a table in Markdown holds more than names and dashes."""
    values = [cell.strip() for line in table.splitlines()[2:] for cell in line.split("|")[2:-1]]
    return any(value not in ("", "-") for value in values)


def measured_sections(folder: Path, shown: Iterable[str]) -> list[Section]:
    """The sections of :data:`MEASURED`, then every other file of results but those that are `shown` elsewhere."""
    sections = [section for section in (_section(folder, given) for given in MEASURED) if section.parts]
    files = {*shown, *(name for given in MEASURED for name in given.files)}
    tables = {*_TABLES_SHOWN, *(name for given in MEASURED for name in given.tables.values())}
    left = {
        name.replace("-", " ").replace("_", " ").capitalize(): name for name in TABLES if name not in tables
    }
    parts = _table_parts(folder, left)
    text = Text("Tables of the documentation that are made from several of these files.")
    more = [Section("Other tables", [text, *parts])] if parts else []
    return [*sections, *other_results(folder, files), *more]


def _section(folder: Path, given: Measured) -> Section:
    tables = _table_parts(folder, given.tables)
    parts: list[Part] = [Text(given.text), *tables] if given.files or tables else []
    for name, command in given.files.items():
        if not (folder / name).exists():
            parts.append(Missing(name, command))
            continue
        value = load_result(folder / name)
        plain = any_table(value)
        parts += [Details(f"All numbers of {name}", plain)] if tables else plain
        parts.append(origin_of_file(value, folder, name, command))
    return Section(given.title, parts)
