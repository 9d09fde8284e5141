"""softcut beside its peers: time, peak memory and ratios, measured in one run.

    python benchmarks/run.py                    # everything; also `make bench`
    python benchmarks/run.py --quick            # small sizes, without the slow peers
    python benchmarks/run.py --only step --only cut

Needs nothing but Python: it makes an environment of its own (.venv-bench) and installs softcut and the peers into
it. A peer that cannot be installed is named, and its published formula is measured instead, labelled "restated".
Every contender is a process of its own; they take turns, and medians are compared, so that whatever else the
machine does falls on all of them. docs/benchmarks.md says what each benchmark measures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environment import PEERS, ROOT, prepare, python

TITLES = {
    "step": "One training step of the paper's model on Cora",
    "cut": "Cut loss, forward and backward, {nodes:,} nodes, {edges:,} edges, K = {k}",
    "fit": "A whole fit of Cora",
    "quality": "Time and quality on {dataset}",
    "layer": "Pooling layer, {graphs} graphs of up to {largest} nodes, K = {k}, forward and backward",
}
OURS = "softcut"


@dataclass
class Contender:
    """A name known to contenders.py, the peer it needs, and whether that one's formula is written down here."""

    name: str
    peer: str = OURS
    has_formula: bool = True
    slow: bool = False


@dataclass
class Benchmark:
    """One comparison: its contenders, their options and how many rounds they take turns."""

    kind: str
    contenders: list[Contender]
    options: dict[str, Any]
    rounds: int
    warm: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return TITLES[self.kind].format(**self.options)

    def row(self, name: str) -> dict[str, Any] | None:
        """What was measured of a contender, if it ran."""
        entries = [r for r in self.rows if r["contender"] == name and "seconds" in r]
        return entries[0] if entries else None


def benchmarks(quick: bool, limit: float) -> list[Benchmark]:
    """All comparisons; the first contender of each is what the others are divided by."""
    pyg, tgp, pyagc = "torch-geometric", "torch-geometric-pool", "pyagc"
    steps = [
        Contender("softcut"),
        Contender("softcut, 10 replicas"),
        Contender("GraphConv + dense_mincut_pool", pyg),
        Contender("the same, sparse tensor", pyg, has_formula=False),
        Contender("GraphConv + unbatched MinCut", tgp),
    ]
    cut = [Contender("softcut"), Contender("sparse_mincut_loss", tgp)]
    size = {"nodes": 50_000, "edges": 500_000} if quick else {"nodes": 1_000_000, "edges": 10_000_000}
    fit = [Contender("softcut, default"), Contender("one run, unbatched MinCut", tgp)]
    layer = [
        Contender("softcut"),
        Contender("softcut, operator made before"),
        Contender("dense_mincut_pool", pyg),
        Contender("dense_mincut_pool, padded before", pyg),
    ]
    quality = [
        Contender("softcut, default"),
        Contender("softcut, 4 replicas"),
        Contender("MinCut as published", pyagc, slow=True),
        Contender("DMoN as published", pyagc, slow=True),
        Contender("spectral clustering", "scikit-learn", has_formula=False),
        Contender("Louvain", "scikit-network", has_formula=False),
        Contender("Leiden", "scikit-network", has_formula=False),
    ]
    batch = {"graphs": 64, "largest": 100 if quick else 500, "features": 32, "k": 16, "steps": 5}
    entries = [
        Benchmark("step", steps, {"steps": 2 if quick else 8}, 3 if quick else 7),
        Benchmark("cut", cut, {**size, "k": 16}, 3 if quick else 5),
        Benchmark("fit", fit, {}, 1 if quick else 3, warm=False),
        Benchmark("layer", layer, batch, 3 if quick else 7),
    ]
    for name, rounds in (("cora", 1),) if quick else (("cora", 3), ("photo", 1)):
        chosen = [c for c in quality if not (quick and c.slow)]
        setting = {"dataset": name, "epochs": 1000, "limit": limit}
        entries.append(Benchmark("quality", chosen, setting, rounds, warm=False))
    return entries


class Process:
    """A contender in a process of the environment, run when it is told to."""

    def __init__(self, benchmark: Benchmark, contender: Contender, options: dict[str, Any]) -> None:
        here = Path(__file__).resolve().parent
        modules = [p.module for p in PEERS if p.name == contender.peer and p.name not in options["missing"]]
        options = {**options, "modules": modules}
        threads = str(options["threads"])
        # Threads that wait without spinning: where other processes want the cores too, spinning ones
        # would measure the scheduler.
        env = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
        command = [python(), str(here / "contenders.py"), benchmark.kind, contender.name, json.dumps(options)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **env}
        )
        self.ready = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        last = (self.process.stderr.read().strip().splitlines() or ["it ended"])[-1]
        raise RuntimeError(last)

    def run(self, seed: int) -> dict[str, Any]:
        """One run: seconds, peak and extra memory, and what the contender reports."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer says why
            self.process.stdin.write(json.dumps({"seed": seed}) + "\n")
            self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure(
    benchmark: Benchmark, threads: int, peers: dict[str, str | None], tell: Callable[[str], None]
) -> None:
    """Let all contenders take turns, and fill in the benchmark's rows."""
    missing = [name for name, problem in peers.items() if problem is not None]
    options = {**benchmark.options, "threads": threads, "missing": missing}
    entered: list[tuple[Contender, Process]] = []
    answers: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    try:
        for contender in benchmark.contenders:
            if contender.peer in missing and not contender.has_formula:
                failed[contender.name] = f"{contender.peer} is not installed"
                continue
            try:
                tell(f"{contender.name}: setting up")
                entered.append((contender, Process(benchmark, contender, options)))
            except RuntimeError as error:
                failed[contender.name] = str(error)
        for turn in range(-1 if benchmark.warm else 0, benchmark.rounds):
            for contender, process in entered:
                if contender.name in failed:
                    continue
                what = f"round {turn + 1} of {benchmark.rounds}" if turn >= 0 else "warming up"
                tell(f"{contender.name}: {what}")
                try:
                    answers.setdefault(contender.name, []).append(process.run(max(0, turn)))
                except RuntimeError as error:
                    failed[contender.name] = str(error)
        first = benchmark.contenders[0].name
        if first in failed:  # all others are measured against it
            raise SystemExit(f"{benchmark.title}: {first} failed: {failed[first]}")
        benchmark.rows = _rows(benchmark, entered, answers, failed, missing)
    finally:
        for _, process in entered:
            process.close()
        tell("")


def _rows(
    benchmark: Benchmark,
    entered: list[tuple[Contender, Process]],
    answers: dict[str, list[dict[str, Any]]],
    failed: dict[str, str],
    missing: list[str],
) -> list[dict[str, Any]]:
    rows = []
    base: list[float] = []
    ready = {contender.name: process.ready["seconds"] for contender, process in entered}
    for contender in benchmark.contenders:
        row: dict[str, Any] = {"contender": contender.name, "peer": contender.peer}
        row["restated"] = contender.peer in missing
        rows.append(row)
        if contender.name in failed:
            row["failed"] = failed[contender.name]
            continue
        runs = answers[contender.name]
        # The loss of the first run: all began with the same weights.
        row |= {key: runs[0][key] for key in ("loss", "exact") if key in runs[0]}
        runs = runs[1:] if benchmark.warm else runs
        seconds = [r["seconds"] for r in runs]
        base = base or seconds
        ratios = [mine / first for mine, first in zip(seconds, base, strict=True)]
        row |= {
            "seconds": statistics.median(seconds),
            "all_seconds": seconds,
            "setup_seconds": ready[contender.name],
            "peak_bytes": statistics.median(r["peak"] for r in runs),
            "extra_bytes": statistics.median(r["extra"] for r in runs),
            "time_ratio": statistics.median(ratios),  # of the runs of one round, which met the same machine
            "time_ratio_range": [min(ratios), max(ratios)],
        }
        row["memory_ratio"] = row["peak_bytes"] / max(1, rows[0].get("peak_bytes", 1))
        for key in ("nmi", "clusters", "epochs", "iterations", "cut_short"):
            if key in runs[0]:
                row[key] = statistics.fmean(r[key] for r in runs)
        if "curve" in runs[0]:
            row["curves"] = [r["curve"] for r in runs]
    return rows


# ------------------------------------------------------------------ targets


def checks(benchmark: Benchmark) -> list[dict[str, Any]]:
    """What was asked for beside what was measured."""
    entries: list[dict[str, Any]] = []

    def check(what: str, measured: float | None, target: str, passed: bool | None) -> None:
        entries.append({"what": what, "measured": measured, "target": target, "passed": passed})

    def at_least(what: str, name: str, least: float) -> None:
        row = benchmark.row(name)
        if row is not None:
            ratio = row["time_ratio"]
            check(f"{what}, times faster{_label(row)}", ratio, f"at least {least:g}", ratio >= least)

    if benchmark.kind == "step":
        at_least("a step against GraphConv + dense_mincut_pool", "GraphConv + dense_mincut_pool", 20)
        at_least("a step against GraphConv + unbatched MinCut", "GraphConv + unbatched MinCut", 15)
        ten = benchmark.row("softcut, 10 replicas")
        if ten is not None:
            ratio = ten["time_ratio"]
            check("ten replicas against one, times slower", ratio, "below 8", ratio < 8)
    if benchmark.kind == "cut":
        at_least("cut loss against sparse_mincut_loss", "sparse_mincut_loss", 20)
        row = benchmark.row("softcut")
        if row is not None:
            size = row["extra_bytes"] / (4 * benchmark.options["nodes"] * benchmark.options["k"])
            check("cut loss, peak extra memory in N x K floats", size, "below 4", size < 4)
    if benchmark.kind == "fit":
        row, ours = benchmark.row("one run, unbatched MinCut"), benchmark.row("softcut, default")
        if row is not None and ours is not None:
            ratio = 1 / row["time_ratio"]
            check(f"default fit against one run, times slower{_label(row)}", ratio, "at most 3", ratio <= 3)
    if benchmark.kind == "quality":
        ours = benchmark.row("softcut, default")
        for name in ("MinCut as published", "DMoN as published"):
            row = benchmark.row(name)
            if row is None or ours is None:
                continue
            what = f"{benchmark.options['dataset']}, {name}{_label(row)}"
            what += ", stopped early" if row.get("cut_short") else ""
            better = ours["nmi"] - row["nmi"]
            # A training that was stopped early says nothing about the NMI it would have ended with.
            passed = None if row.get("cut_short") else better >= 0
            check(f"NMI of the default fit less that of {what}", better, "at least 0", passed)
            ratio = row["time_ratio"]
            check(f"seconds of {what}, over those of the default fit", ratio, "at least 1", ratio >= 1)
            reached = [first_time(curve, ours["nmi"]) for curve in row["curves"]]
            times = [t for t in reached if t is not None]
            if times:
                note = (
                    f"reaches softcut's NMI in {len(times)} of {len(reached)} runs; the first takes, seconds"
                )
                check(f"{what}, {note}", min(times), f"softcut took {ours['seconds']:.1f}", None)
            else:
                check(f"{what}, runs that ever reach softcut's NMI", 0, "", None)
    losses = {r["contender"]: r["loss"] for r in benchmark.rows if "loss" in r}
    exact = benchmark.rows[0].get("exact")
    if exact is not None:
        for name, loss in losses.items():
            gap = abs(loss - exact)
            target, passed = ("at most 1e-05", gap <= 1e-5) if name == OURS else ("", None)
            check(f"error of the cut loss by {name}, in float32", gap, target, passed)
    elif len(losses) > 1:
        gap = max(losses.values()) - min(losses.values())
        check("largest difference between the contenders' losses", gap, "at most 0.001", gap <= 1e-3)
    for item in entries:
        item["benchmark"] = benchmark.kind
    return entries


def first_time(curve: list[list[float]], nmi: float) -> float | None:
    """Seconds after which a curve of [seconds, NMI] first reaches a value."""
    return next((seconds for seconds, value in curve if value >= nmi), None)


# ------------------------------------------------------------------ printing


def _label(row: dict[str, Any]) -> str:
    return " (restated)" if row["restated"] else ""


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.1 else f"{seconds:.3g} s"


def table(benchmark: Benchmark, versions: dict[str, str]) -> str:
    """A Markdown table of the rows."""
    scored = benchmark.kind in ("fit", "quality")
    head = ["contender", "library", "median time", "ratio (range)", "peak MiB", "ratio"]
    head += ["NMI", "clusters"] if scored else []
    lines = [head]
    for row in benchmark.rows:
        library = row["peer"] + ("" if row["peer"] == OURS else f" {versions[row['peer']]}")
        library += ", restated" if row["restated"] else ""
        if "failed" in row:
            lines.append([row["contender"], library, row["failed"][:60]] + ["-"] * (len(head) - 3))
            continue
        low, high = row["time_ratio_range"]
        name = row["contender"] + (f", stopped at epoch {row['epochs']:.0f}" if row.get("cut_short") else "")
        cells = [name, library, _time(row["seconds"])]
        cells += [f"{row['time_ratio']:.2f}x ({low:.2f}-{high:.2f})", f"{row['peak_bytes'] / 2**20:.1f}"]
        cells += [f"{row['memory_ratio']:.1f}x"]
        cells += [f"{row['nmi']:.3f}", f"{row['clusters']:.0f}"] if scored else []
        lines.append(cells)
    return _aligned(lines)


def checks_table(entries: list[dict[str, Any]]) -> str:
    words = {True: "pass", False: "FAIL", None: "-"}
    lines = [["what", "measured", "target", ""]]
    lines += [[c["what"], f"{c['measured']:.3g}", c["target"], words[c["passed"]]] for c in entries]
    return _aligned(lines)


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rows = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *rows[1:]])


# ------------------------------------------------------------------ the whole run


def commit() -> str:
    """The commit measured; "+" when files of the package were changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + (
        "+" if git("status", "--porcelain", "--", "softcut", "benchmarks") else ""
    )


def write(path: Path, new: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Put benchmarks into the file in place of older ones of the same name, under a temporary name first."""
    old = json.loads(path.read_text(encoding="utf-8"))["benchmarks"] if path.exists() else []
    names = {b["title"] for b in new}
    kept = [b for b in old if b["title"] not in names]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps({**about, "benchmarks": kept + new}, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, without the slow peers")
    parser.add_argument("--only", action="append", choices=sorted(TITLES), help="only this benchmark")
    parser.add_argument("--threads", type=int, default=2, help="threads of every contender")
    parser.add_argument(
        "--limit",
        type=float,
        default=600,
        help="seconds after which a peer's training is stopped, and said so",
    )
    parser.add_argument("--rounds", type=int, help="rounds of every benchmark, in place of its own number")
    parser.add_argument("--restate", action="append", default=[], choices=[p.name for p in PEERS])
    parser.add_argument("--out", type=Path, help="JSON to write [results/benchmarks.json; --quick: none]")
    given = parser.parse_args()

    peers = prepare(slow=not given.quick)
    peers |= dict.fromkeys(given.restate, "left out by --restate")
    versions = {p.name: p.version for p in PEERS}
    for name, problem in peers.items():
        state = "installed" if problem is None else f"NOT installed ({problem}); formula restated where known"
        print(f"{name} {versions[name]}: {state}")

    command = " ".join(["python benchmarks/run.py", *sys.argv[1:]])
    about = {
        "commit": commit(),
        "command": command,
        "peers": {n: {"version": versions[n], "problem": p} for n, p in peers.items()},
        "device": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "threads": given.threads,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    out = given.out or (None if given.quick else ROOT / "results" / "benchmarks.json")
    shown = sys.stderr.isatty()

    def tell(text: str) -> None:
        if shown:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    asked: list[dict[str, Any]] = []
    done: list[dict[str, Any]] = []
    for benchmark in benchmarks(given.quick, given.limit):
        if given.only and benchmark.kind not in given.only:
            continue
        benchmark.rounds = given.rounds or benchmark.rounds
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        measure(benchmark, given.threads, peers, tell)
        entries = checks(benchmark)
        asked += entries
        note = "" if load is None else f" (load average before: {load:.1f})"
        print(f"\n{benchmark.title}{note}\n\n{table(benchmark, versions)}", flush=True)
        done.append(
            {
                "title": benchmark.title,
                "kind": benchmark.kind,
                "options": benchmark.options,
                "rows": benchmark.rows,
                "checks": entries,
                "load_before": load,
                **{k: about[k] for k in ("commit", "command", "threads", "date")},
            }
        )
        if out is not None:
            write(out, done, about)
    print(f"\nTargets\n\n{checks_table(asked)}")
    if out is not None:
        print(f"\nWritten to {os.path.relpath(out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
