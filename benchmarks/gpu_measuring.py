"""Tools of benchmarks/gpu_kernels.py: results that outlive a run, time and memory of a call, graphs, compiling."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Bench:
    """What is known, where it is kept, and how time is taken."""

    def __init__(self, out: Path, tiny: bool, budget: float) -> None:
        self.path, self.tiny, self.end = out / "gpu_kernels.json", tiny, time.monotonic() + budget
        self.known: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.graphs: dict[str, Any] = {}
        self.skipped = 0
        self.rounds, self.warm, self.calls = (1, 0, 1) if tiny else (5, 1, 4)
        self.sizes = (48, 64) if tiny else (1_000_000, 2_000_000, 4_000_000)
        self.entries = 256 if tiny else 64_000_000
        self.columns = (4,) if tiny else (8, 16, 64)
        self.even = [f"uniform {n}" for n in self.sizes]
        self.skewed = f"power law {self.sizes[1]}"

    def record(self, key: str, work: Callable[[], Any]) -> Any:
        """The value of `key`, measured now if it is not known; None where the time is up or it failed."""
        if key in self.known:
            return self.known[key]
        if time.monotonic() > self.end:
            self.skipped += 1
            return None
        try:
            value = work()
        except Exception as error:  # one failure must not cost the rest of the run
            print(f"  {key}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            if CUDA:
                torch.cuda.empty_cache()
            return None
        self.known[key] = value
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.known, indent=1) + "\n")
        part.replace(self.path)
        return value

    def milliseconds(self, work: Callable[[], Any], rounds: int | None = None) -> float:
        """Of one call in the fastest round; a round is several calls, so that the GPU need not wait for Python."""
        for _ in range(self.warm):
            work()
        times = []
        for _ in range(rounds or self.rounds):
            if CUDA:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                for _ in range(self.calls):
                    work()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end) / self.calls)
            else:
                begin = time.perf_counter()
                work()
                times.append(1e3 * (time.perf_counter() - begin))
        return min(times)

    def peak(self, work: Callable[[], Any]) -> int:
        """Bytes that a call needs beyond what was there before it; 0 without a GPU."""
        if not CUDA:
            work()
            return 0
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def graph(self, name: str) -> Graph:
        if name not in self.graphs:
            self.graphs.clear()  # one at a time: they share the device with what is measured
            if CUDA:
                torch.cuda.empty_cache()
            kind, n = name.rsplit(" ", 1)
            self.graphs[name] = Graph(kind, int(n), self.entries)
        return self.graphs[name]


class Graph:
    """A random graph: "uniform", "power law" (expected degrees fall as rank^-0.7), or "planted" (256 groups)."""

    def __init__(self, kind: str, n: int, entries: int, seed: int = 0) -> None:
        from softcut.ops import CSR, CSRPattern

        self.n, self.entries = n, entries
        generator = torch.Generator(DEVICE).manual_seed(seed)
        ends = torch.empty(2, entries // 2, dtype=torch.int32, device=DEVICE)
        shuffled = torch.randperm(n, generator=generator, device=DEVICE).int()
        self.groups = torch.empty(n, dtype=torch.long, device=DEVICE)
        self.groups[shuffled.long()] = torch.arange(n, device=DEVICE) * 256 // n
        first = torch.empty(0)
        for number, end in enumerate(ends):
            u = torch.rand(entries // 2, dtype=torch.float64, generator=generator, device=DEVICE)
            u = u if kind == "uniform" else u ** (1 / 0.3)  # inverse of the distribution of ranks
            if kind == "planted" and number:
                near = torch.rand(entries // 2, generator=generator, device=DEVICE) < 0.9
                u = torch.where(near, ((256 * first).floor() + u) / 256, u)  # the group of the first end
                del near
            first = u
            end.copy_(shuffled[(u * n).long().clamp_(max=n - 1)])
        del u, first
        row, col = torch.cat([ends[0], ends[1]]), torch.cat([ends[1], ends[0]])
        pattern, order = CSRPattern.from_coo(row, col, (n, n))
        del row, col, order, ends, shuffled
        self.pattern = pattern
        self.plain = CSR(pattern, symmetric=True)
        self.op = self.plain.normalise()
        self.longest = int(pattern.counts.max())

    def s(self, k: int, dtype: torch.dtype = torch.float32) -> Tensor:
        generator = torch.Generator(DEVICE).manual_seed(1)
        return torch.randn(self.n, k, generator=generator, device=DEVICE).softmax(-1).to(dtype)

    @cached_property
    def edges(self) -> Tensor:
        return torch.stack([self.pattern.rows, self.pattern.col.long()])

    def gather_bytes(self, k: int, dtype: torch.dtype) -> int:
        """Indices, a row for each entry, and the result."""
        size = torch.empty(0, dtype=dtype).element_size()
        return 4 * self.entries + size * self.entries * k + size * self.n * k


def compile_all(jobs: list[dict[str, Any]], workers: int) -> None:
    """Fill Triton's cache by several processes: compiling one by one would take most of the time."""
    if not CUDA or not jobs:
        return
    command = [sys.executable, str(Path(__file__).with_name("gpu_kernels.py")), "--compile"]
    running = []
    for w in range(min(workers, len(jobs))):
        share = json.dumps(jobs[w::workers])
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdin is not None
        process.stdin.write(share)
        process.stdin.close()
        running.append(process)
    for process in running:
        process.wait()


def compile_share() -> None:
    """Run a few rows through each kernel that was asked for."""
    from softcut.ops.kernels.plan import Tiles, row_plan
    from softcut.ops.kernels.product import cut_sums, row_product

    rowptr = torch.tensor([0, 2, 4, 6, 8], dtype=torch.int32, device=DEVICE)
    col = torch.tensor([0, 1, 2, 3] * 2, dtype=torch.int32, device=DEVICE)
    scale = torch.ones(4, device=DEVICE)
    uneven = torch.tensor([0, 1, 2, 3, 8], dtype=torch.int32, device=DEVICE)
    plans = row_plan(rowptr), row_plan(uneven, piece=2)
    for job in json.load(sys.stdin):
        x, tiles = torch.ones(4, job["k"], device=DEVICE, dtype=TYPES[job["dtype"]]), Tiles(**job["tiles"])
        try:
            for plan in plans if job["uneven"] else plans[:1]:
                if job["loss"]:
                    cut_sums(col, None, x, scale, scale, plan=plan, tiles=tiles)
                else:
                    row_product(col, None, x, None, plan=plan, tiles=tiles)
        except Exception as error:
            print(f"  {job}: {error}", flush=True)


def captured(call: Callable[[], Any], times: int) -> Callable[[], None]:
    """A CUDA graph of several calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph.replay


def slope(points: list[dict[str, float]], name: str) -> float:
    """Least squares of log against log."""
    x, y = (torch.tensor([math.log(p[c]) for p in points]) for c in ("edges", name))
    x, y = x - x.mean(), y - y.mean()
    return ((x * y).sum() / (x * x).sum()).item()


def machine(bench: Bench) -> None:
    def measure() -> dict[str, Any]:
        from softcut.provenance import origin

        size = 1 << (16 if bench.tiny else 30)
        a, b = torch.zeros(2, size // 4, device=DEVICE)
        ms = bench.milliseconds(lambda: b.copy_(a))
        try:
            import triton

            version = triton.__version__
        except ImportError:
            version = "none"
        return {
            **origin(DEVICE),
            "torch": torch.__version__,
            "triton": version,
            "copy GB/s": 2 * size / ms / 1e6,
        }

    print(bench.record("machine", measure))


def copy_speed(bench: Bench) -> float:
    return bench.known["machine"]["copy GB/s"]


def short(tiles: Any) -> str:
    marks = {"r": tiles.along_rows, "a": tiles.ahead, "n": not tiles.stream, "g": tiles.gather_scale}
    flags = "".join(mark for mark, there in marks.items() if there)
    size = f"{tiles.rows}x{tiles.neighbours}x{tiles.columns}"
    return f"{size} w{tiles.warps} p{tiles.programs} {flags}".strip()


def report(known: dict[str, Any]) -> None:
    """Tables of a page, from what was measured."""
    print(f"{known['machine']['device']}, copying {known['machine']['copy GB/s']:.0f} GB/s\n")
    for section, columns in (
        ("product", ("ms", "share", "scaled ms", "bag ms", "cuSPARSE ms", "error")),
        (
            "loss",
            (
                "ms",
                "replayed ms",
                "extra",
                "torch ms",
                "torch extra",
                "peer ms",
                "peer GiB",
                "ratio",
                "gradient error",
            ),
        ),
    ):
        print("| graph | K | precision | " + " | ".join(columns) + " |")
        print("|---|---|---|" + "---|" * len(columns))
        for key, row in known.items():
            kind, *case = key.split(" | ")
            if kind == section:
                shown = ("" if row.get(c) is None else f"{row[c]:.3g}" for c in columns)
                print(f"| {case[0]} | {case[1].removeprefix('K=')} | {case[2]} | " + " | ".join(shown) + " |")
        print()
