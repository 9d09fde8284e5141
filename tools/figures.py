"""Sentences with figures in the pages, made from ``results/`` as tables are; figures that nothing stands behind.

A figure is a number with a unit (seconds, bytes, percent, times, points), a share ("3 of 7") or a score below 1. In
prose it needs a source in its paragraph or section: a mark, a command, a file of results, a test or a citation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from softcut.paper.runs import read_cells
from tools.clustering_tables import short
from tools.results import read_json


def billion_line(out: Path) -> str:
    """The largest graph, for the README."""
    whole, batches = read_json(out, "billion")["runs"]
    return (
        f"One network on {whole['nodes'] / 1e6:.0f} million nodes and 5 x 10^8 edges takes {whole['seconds']:.0f} s on "
        f"one H200, or {batches['seconds']:.0f} s within {batches['peak_reserved_gib']:.0f} GiB of it "
        "([results](docs/scale-kernels.md#a-billion-entries)). "
        "[Mini-batches, several machines](docs/how-to/scale-out.md)"
    )


def large_fits(out: Path) -> str:
    """Whole fits of large graphs."""
    gpu, peers = read_json(out, "large_gpu")["rows"][-1], read_json(out, "large_peers")["rows"]
    now = read_json(out, "everyday")["rows"]["million, softcut cluster, 1000000 nodes, cpu"]
    softcut, louvain, leiden = (f"{row['seconds']:,.0f} s (NMI {short(row['nmi'])})" for row in peers)
    return (
        f"{gpu['nodes'] / 1e6:.0f} million nodes take {gpu['seconds']:.0f} s and {gpu['peak GPU GiB']:.0f} GiB on an "
        f"H200, with an NMI of {short(gpu['nmi'])} ([results](../results/large_gpu.json)).\n\n"
        "On two cores, for a million nodes and from the start of the process to the written files, an earlier version "
        f"of `softcut cluster` took {softcut}, Louvain (scikit-network) {louvain} and leidenalg {leiden} "
        f"([results](../results/large_peers.json)). In turn with commit {now['against'][:7]}, it now takes "
        f"{short(now['ratio']['seconds'], 2)} of that one's time, with an NMI of {short(now['here']['nmi'])} "
        "([results](../results/everyday.json))."
    )


def kernel_losses(out: Path) -> str:
    """The cut loss on a GPU beside a peer's formula."""
    row = read_json(out, "gpu_kernels")["loss | uniform 2000000 | K=16 | float32"]
    return (
        "On an H200 with 2 million nodes and K = 16 in float32, the cut loss with its gradient takes "
        f"{row['ms']:.2f} ms, and the formula of torch-geometric-pool {row['peer ms']:.0f} ms and "
        f"{row['peer GiB']:.1f} GiB."
    )


def paper_runs(out: Path) -> str:
    """All runs of the paper's model on Cora."""
    cells = read_cells(out / "table1.json")
    (cell,) = (c for c in cells if (c["dataset"], c["method"], c["metric"]) == ("cora", "mincut", "nmi"))
    return (
        f"On one {cell['device'].removeprefix('NVIDIA ')}: {cell['n']} runs of 10,000 iterations of the paper's model "
        f"on Cora in {cell['seconds']:.0f} s ([results/table1.json](../results/table1.json))."
    )


def minibatch_costs(out: Path) -> str:
    """Memory, time and NMI of mini-batches, as shares of those of the whole graph."""
    runs = {(run["dataset"], run["parts"]): run for run in read_json(out, "minibatch")["runs"]}
    pairs = [(run, runs[name, "whole"]) for (name, parts), run in runs.items() if parts != "whole"]
    memory, time = (
        [100 * part[key] / whole[key] for part, whole in pairs] for key in ("training_peak_mib", "seconds")
    )
    change = max(abs(part["nmi"] - whole["nmi"]) for part, whole in pairs)
    return (
        "On Photo, PubMed and a planted graph with a million edges, an eighth of the nodes per step takes "
        f"{min(memory):.0f} to {max(memory):.0f} % of the memory of a training and {min(time):.0f} to {max(time):.0f} "
        f"% of the time; NMI differs by at most {short(change)} (`python benchmarks/minibatch.py`, "
        "[results/minibatch.json](../results/minibatch.json); a recipe with up to 48 networks)."
    )


def segmentation_costs(out: Path) -> str:
    """CPU time of a segmentation beside scikit-image's, and what takes it."""
    measured = read_json(out, "segmentation_speed")
    names = ("over_segmentation", "region_graph", "clustering")
    seconds = [measured[name]["cpu_seconds"] for name in names]
    regions, features, clusters = (100 * each / sum(seconds) for each in seconds)
    return (
        f"Of one megapixel, `segment_image` takes {100 * measured['ratio']:.0f} % of the CPU "
        "time of `cut_normalized`, beside the over-segmentation that both share (`python benchmarks/segmentation.py`). "
        f"Of the whole, the over-segmentation is {regions:.0f} %, colours and textures of regions {features:.0f} %, "
        f"their clustering {clusters:.0f} %."
    )


def mixed_columns(out: Path) -> str:
    """How often a whole table is as good as its best kind of columns."""
    cases = read_json(out, "mixed_tables")["cases"]
    return (
        f"Over {len(cases)} planted graphs with such tables (`python benchmarks/mixed_tables.py`), the whole table is "
        f"within .05 NMI of its best kind of columns in {sum(case['within'] for case in cases)} of {len(cases)}."
    )


def fresh_noise(out: Path) -> str:
    """Verdicts on graphs that no threshold was chosen on."""
    drawn = read_json(out, "noise_fresh")
    none, found = (
        f"{sum((row['verdict'] == 'none') == wanted for row in drawn[group])} of {len(drawn[group])}"
        for group, wanted in (("noise", True), ("planted", False))
    )
    return (
        f'On a fresh draw (`{drawn["command"]}`) {none} fits of noise are "none", and {found} plants that were found '
        "are not."
    )


def halo_rows(out: Path) -> str:
    """Rows of other parts that a part needs, by METIS and at random."""
    rows = {row["graph"]: row for row in read_json(out, "halo")["rows"]}
    metis, random = (
        [short(rows[name][way]["halo_rows_per_node"], 2) for name in ("Cora", "Amazon Computers")]
        for way in ("metis", "random")
    )
    return (
        f"In 8 parts there are {metis[0]} halo rows per node on Cora and {metis[1]} on Amazon Computers, at random "
        f"{random[0]} and {random[1]} (`python benchmarks/halo.py`)."
    )


SENTENCES: dict[str, Callable[[Path], str]] = {
    "billion-line": billion_line,
    "large-fits": large_fits,
    "kernel-losses": kernel_losses,
    "paper-runs": paper_runs,
    "minibatch-costs": minibatch_costs,
    "segmentation-costs": segmentation_costs,
    "mixed-columns": mixed_columns,
    "fresh-noise": fresh_noise,
    "halo-rows": halo_rows,
}

# ------------------------------------------------------------------------------- figures without a source

_FIGURE = re.compile(
    r"(?<![\w.])\d[\d,.]*(?:\s|-)?(?:ms|s|seconds?|minutes?|hours?|[KMGT]i?B|%|percent|points?|times)(?![\w(])"
    r"|(?<![\w.])\d[\d,.]*x(?!\w)"  # 12x
    r"|(?<![\w.,])\d+ of \d+(?![\w.,]\d)"
    r"|(?<![\w./])0?\.\d\d+(?![\w.]\d)"
)
_SOURCE = re.compile(
    r"`(?:softcut|python|make|test_|tests/|--)[^`]*`"  # a command or a test
    r"|results/\w+\.json"
    r"|\]\(https?://"
    r"|\([^()]*(?:19|20)\d\d\)"  # (Nadeau and Bengio, 2003)
    r"|<!-- table:"
)
# What is no result: limits and constants that the code sets, with a word of the paragraph that tells which.
NO_RESULTS = {
    "docs/graphs-and-files.md": ("A compressed file may unpack",),
    "docs/scale-estimator.md": ("Each network stops on its own",),
    "docs/quality.md": ("Differences of .01",),
    "docs/segmentation.md": ("**Region graph.**", "counts the ways of cutting"),
}


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def unsourced(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, figure and paragraph of every figure in prose with no source in its paragraph or its section."""
    marked = re.sub(
        r"(<!-- table: [^>]*-->).*?<!-- end -->", lambda m: m[1] + _blank(m), text, flags=re.DOTALL
    )
    code = re.compile(r"^```.*?^```|^(?: {4}.*\n?)+", flags=re.DOTALL | re.MULTILINE)
    line = 1
    for section in re.split(r"(?m)^(?=#)", marked):
        prose = code.sub(_blank, section)
        commands = any(
            _SOURCE.search(f"`{row.strip()}`")
            for block in code.findall(section)
            for row in block.splitlines()
        )
        at = line
        for paragraph in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) ))", prose):
            plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", paragraph)
            backed = (
                commands or _SOURCE.search(paragraph) or re.search(r"results/\w+\.json|<!-- table:", prose)
            )
            if not paragraph.lstrip().startswith("|") and not backed:
                for match in _FIGURE.finditer(plain):
                    yield at, match.group(), " ".join(paragraph.split())
            at += paragraph.count("\n")
        line += section.count("\n")
