"""The GPU kernels measured: product, cut loss, products per graph, whole steps; against PyTorch, cuSPARSE and a peer.

    python benchmarks/gpu_kernels.py --out results [--sections sweep product loss ...] [--budget 170]

Every number goes to OUT/gpu_kernels.json as soon as it is known; what is there already is not measured again, so a run that
was cut short is continued by the same command. Measured tile sizes are kept in OUT/softcut/kernels.json and used by the
sections after the sweep. `--tiny` rehearses everything with small sizes, without a GPU in Triton's interpreter
(TRITON_INTERPRET=1).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SECTIONS = ("machine", "sweep", "product", "loss", "ragged", "crossover", "growth", "cora", "fits")
PIECES = (128, 256, 512, 1024, 2048)


class Bench:
    """What is known, where it is kept, and how time is taken."""

    def __init__(self, out: Path, tiny: bool, budget: float) -> None:
        self.path, self.tiny, self.end = out / "gpu_kernels.json", tiny, time.monotonic() + budget
        self.known: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.graphs: dict[str, Any] = {}
        self.skipped = 0
        self.rounds, self.warm = (1, 0) if tiny else (10, 2)
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
        """Of the fastest round."""
        for _ in range(self.warm):
            work()
        found = []
        for _ in range(rounds or self.rounds):
            if CUDA:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                work()
                end.record()
                end.synchronize()
                found.append(start.elapsed_time(end))
            else:
                begin = time.perf_counter()
                work()
                found.append(1e3 * (time.perf_counter() - begin))
        return min(found)

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
    """A random graph with `entries` stored entries: uniform, or expected degrees that fall as rank^-0.7."""

    def __init__(self, kind: str, n: int, entries: int, seed: int = 0) -> None:
        from softcut.ops import CSR, CSRPattern

        self.n, self.entries = n, entries
        generator = torch.Generator(DEVICE).manual_seed(seed)
        ends = torch.empty(2, entries // 2, dtype=torch.int32, device=DEVICE)
        shuffled = torch.randperm(n, generator=generator, device=DEVICE).int()
        for end in ends:
            u = torch.rand(entries // 2, dtype=torch.float64, generator=generator, device=DEVICE)
            u = u if kind == "uniform" else u ** (1 / 0.3)  # inverse of the distribution of ranks
            end.copy_(shuffled[(u * n).long().clamp_(max=n - 1)])
            del u
        row, col = torch.cat([ends[0], ends[1]]), torch.cat([ends[1], ends[0]])
        pattern, order = CSRPattern.from_coo(row, col, (n, n))
        del row, col, order, ends, shuffled
        self.pattern = pattern
        self.op = CSR(pattern, symmetric=True).normalise()
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
    command = [sys.executable, __file__, "--compile"]
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
    from softcut.ops.kernels.plan import row_plan
    from softcut.ops.kernels.product import cut_sums, row_product
    from softcut.ops.kernels.tiles import Tiles

    rowptr = torch.tensor([0, 2, 4, 6, 8], dtype=torch.int32, device=DEVICE)
    col = torch.tensor([0, 1, 2, 3] * 2, dtype=torch.int32, device=DEVICE)
    scale, plan = torch.ones(4, device=DEVICE), row_plan(rowptr)
    for job in json.load(sys.stdin):
        x, tiles = torch.ones(4, job["k"], device=DEVICE, dtype=TYPES[job["dtype"]]), Tiles(**job["tiles"])
        try:
            if job["loss"]:
                cut_sums(col, None, x, scale, scale, plan=plan, tiles=tiles)
            else:
                row_product(col, None, x, None, plan=plan, tiles=tiles)
        except Exception as error:
            print(f"  {job}: {error}", flush=True)


def machine(bench: Bench) -> None:
    def measure() -> dict[str, Any]:
        from softcut.provenance import commit, device_name

        size = 1 << (16 if bench.tiny else 30)
        a, b = torch.zeros(2, size // 4, device=DEVICE)
        ms = bench.milliseconds(lambda: b.copy_(a))
        try:
            import triton

            version = triton.__version__
        except ImportError:
            version = "none"
        return {
            "device": device_name(DEVICE),
            "torch": torch.__version__,
            "triton": version,
            "commit": commit(),
            "copy GB/s": 2 * size / ms / 1e6,
        }

    print(bench.record("machine", measure))


def copy_speed(bench: Bench) -> float:
    return bench.known["machine"]["copy GB/s"]


def sweep(bench: Bench) -> None:
    """Tile sizes by columns, precision and mean degree; the fastest are used by what follows."""
    from softcut.ops.kernels.plan import row_plan
    from softcut.ops.kernels.product import cut_sums, row_product
    from softcut.ops.kernels.tiles import Tiles, remember
    from softcut.ops.kernels.tune import candidates

    first = bench.even[min(1, len(bench.even) - 1)]
    mean = bench.entries / bench.sizes[1]
    pairs = [(k, name) for k in bench.columns for name in TYPES]
    choices = {p: list(dict.fromkeys(candidates(p[0], mean, TYPES[p[1]]))) for p in pairs}
    choices = {p: [t for t in found if not t.gather_scale] for p, found in choices.items()}
    if bench.tiny:
        choices = {p: found[:2] for p, found in choices.items()}
    jobs = [
        {"k": k, "dtype": d, "tiles": asdict(t), "loss": False}
        for (k, d), found in choices.items()
        for t in found
    ]
    if f"sweep done {bench.tiny}" not in bench.known:
        begin = time.monotonic()
        compile_all(jobs, 12)
        print(f"compiled {len(jobs)} kernels in {time.monotonic() - begin:.0f} s", flush=True)
    losses = []
    for name in (first, *[g for g in bench.even if g != first], bench.skewed):
        for k, d in pairs:
            times = {}
            for tiles in choices[k, d]:

                def measure(name: str = name, k: int = k, d: str = d, tiles: Tiles = tiles) -> float:
                    graph = bench.graph(name)
                    x = graph.s(k, TYPES[d])
                    p = graph.pattern
                    return bench.milliseconds(
                        lambda: row_product(p.col, None, x, None, plan=p.plan, tiles=tiles), 5
                    )

                ms = bench.record(f"sweep | {name} | K={k} | {d} | {short(tiles)}", measure)
                if ms is not None:
                    times[tiles] = ms
            if times:
                ranked = sorted(times, key=lambda t: times[t])
                shown = ", ".join(f"{short(t)} {times[t]:.3f}" for t in ranked[:4])
                print(
                    f"{name:20} K={k:<3} {d:9} {shown}  (table {times.get(choices[k, d][0], math.nan):.3f})",
                    flush=True,
                )
                losses.append((name, k, d, ranked[0]))
    # The loss: D^-1/2 gathered or multiplied in first, and how many blocks of rows a program takes.
    variants = [
        (name, k, d, replace(tiles, gather_scale=g, repeat=r))
        for name, k, d, tiles in losses
        for g in (False, True)
        for r in sorted({1, max(1, 32 // tiles.rows), max(1, 128 // tiles.rows)})
    ]
    if f"sweep done {bench.tiny}" not in bench.known:
        unique = {
            (k, d, t): {"k": k, "dtype": d, "tiles": asdict(t), "loss": True} for _, k, d, t in variants
        }
        compile_all(list(unique.values()), 12)
    best: dict[tuple[str, int, str], dict[Tiles, float]] = {}
    for name, k, d, tiles in variants:

        def measure(name: str = name, k: int = k, d: str = d, tiles: Tiles = tiles) -> float:
            graph = bench.graph(name)
            s, p, op = graph.s(k, TYPES[d]), graph.pattern, graph.op
            degree = op.degree_like(s.new_empty(0, dtype=torch.float32))
            scale = op.row_scale(torch.float32)
            return bench.milliseconds(
                lambda: cut_sums(p.col, None, s, scale, degree, plan=p.plan, tiles=tiles), 5
            )

        ms = bench.record(f"sweep loss | {name} | K={k} | {d} | {short(tiles)}", measure)
        if ms is not None:
            best.setdefault((name, k, d), {})[tiles] = ms
    for (name, k, d), times in best.items():
        chosen = min(times, key=lambda t: times[t])
        shown = ", ".join(f"{short(t)} {ms:.3f}" for t, ms in sorted(times.items(), key=lambda p: p[1]))
        print(f"{name:20} K={k:<3} {d:9} loss forward: {shown}", flush=True)
        if name != bench.skewed:  # of the same mean degree as a uniform one: that one decides
            remember(k, bench.graph(name).pattern.plan.mean, TYPES[d], DEVICE, chosen)
    for piece in PIECES[:2] if bench.tiny else PIECES:

        def measure(piece: int = piece) -> float:
            graph = bench.graph(bench.skewed)
            k, p = bench.columns[min(1, len(bench.columns) - 1)], graph.pattern
            x, plan = graph.s(k), row_plan(p.rowptr, 8 if bench.tiny else piece)
            return bench.milliseconds(lambda: row_product(p.col, None, x, None, plan=plan), 5)

        print(f"long rows cut at {piece}:", bench.record(f"sweep piece {piece}", measure), "ms", flush=True)
    if not bench.skipped:
        bench.record(f"sweep done {bench.tiny}", lambda: True)


def short(tiles: Any) -> str:
    flags = (
        ("r" if tiles.along_rows else "")
        + ("" if tiles.stream else "n")
        + ("g" if tiles.gather_scale else "")
    )
    return f"{tiles.rows}x{tiles.neighbours}x{tiles.columns} w{tiles.warps} b{tiles.repeat}{' ' + flags if flags else ''}"


def cases(bench: Bench) -> Iterable[tuple[str, int, str]]:
    for name in (*bench.even, bench.skewed):
        for k in bench.columns:
            for d in TYPES:
                yield name, k, d


def product(bench: Bench) -> None:
    from softcut.ops.kernels import use
    from softcut.ops.spmm import sparse_product

    print(
        "graph | K | precision | kernel ms | share of the gather limit | scaled ms | bag ms | cuSPARSE ms | error | same bits"
    )
    for name, k, d in cases(bench):

        def measure(name: str = name, k: int = k, d: str = d) -> dict[str, Any]:
            graph, p = bench.graph(name), bench.graph(name).pattern
            x, scale = graph.s(k, TYPES[d]), graph.op.row_scale(torch.float32)
            with use("triton"):
                ms = bench.milliseconds(lambda: sparse_product(p, None, x))
                scaled = bench.milliseconds(lambda: sparse_product(p, None, x, scale))
                y, again = (sparse_product(p, None, x, scale) for _ in range(2))
            with use("torch"):
                bag = bench.milliseconds(lambda: sparse_product(p, None, x), 3)
                wide = scale.double().unsqueeze(-1)
                exact = torch.cat(
                    [wide * sparse_product(p, None, wide * x[:, i : i + 8].double()) for i in range(0, k, 8)],
                    1,
                )
            ones = torch.ones(p.nnz, device=DEVICE, dtype=x.dtype)
            matrix = torch.sparse_csr_tensor(p.rowptr, p.col, ones, p.shape, check_invariants=False)
            vendor = bench.milliseconds(lambda: matrix @ x, 3)
            limit = graph.gather_bytes(k, TYPES[d]) / copy_speed(bench) / 1e6
            error = ((y.double() - exact).abs().max() / exact.abs().max()).item()
            return {"ms": ms, "limit ms": limit, "share": limit / ms, "scaled ms": scaled, "bag ms": bag,
                    "cuSPARSE ms": vendor, "error": error, "same bits": torch.equal(y, again),
                    "longest row": graph.longest}  # fmt: skip

        r = bench.record(f"product | {name} | K={k} | {d}", measure)
        if r:
            print(f"{name:20} {k:3} {d:9} {r['ms']:8.3f} {r['share']:6.2f} {r['scaled ms']:8.3f} {r['bag ms']:8.3f} "
                  f"{r['cuSPARSE ms']:8.3f} {r['error']:.1e} {r['same bits']}", flush=True)  # fmt: skip


def loss(bench: Bench) -> None:
    from peer_formulas import sparse_mincut_loss

    from softcut.ops import mincut_loss
    from softcut.ops.kernels import use

    print(
        "graph | K | precision | kernels ms | extra / 4NK bytes | PyTorch ms, extra | peer ms, GiB | ratio | error of loss, gradient"
    )
    for name, k, d in cases(bench):

        def measure(name: str = name, k: int = k, d: str = d) -> dict[str, Any]:
            graph, dtype = bench.graph(name), TYPES[d]
            op, s = graph.op, graph.s(k, dtype).requires_grad_()

            def step(
                formula: Callable[[Tensor], Tensor] = lambda s: mincut_loss(s, op), s: Tensor = s
            ) -> tuple[Tensor, ...]:
                value = formula(s)
                return value.detach(), *torch.autograd.grad(value, s)

            unit = 4 * graph.n * k
            with use("triton"):
                found = {"ms": bench.milliseconds(step), "extra": bench.peak(step) / unit}
                value, gradient = step()
                same = all(torch.equal(a, b) for a, b in zip((value, gradient), step(), strict=True))
                exact = graph.s(k, dtype).double().requires_grad_()
            with use("torch"):
                found |= {"torch ms": bench.milliseconds(step, 3), "torch extra": bench.peak(step) / unit}
                true_value, true_gradient = step(s=exact)
            found["same bits"] = same
            found["loss error"] = abs(value.item() - true_value.item())
            worst = (gradient.double() - true_gradient).abs().max() / true_gradient.abs().max()
            found["gradient error"] = worst.item()
            del exact, true_gradient, gradient
            if d == "float32" and not name.startswith("power"):
                weight = torch.ones(graph.entries, device=DEVICE)
                with torch.device(DEVICE):
                    peer = lambda s: sparse_mincut_loss(graph.edges, s, weight)  # noqa: E731
                    found["peer ms"] = bench.milliseconds(lambda: step(peer), 3)
                    found["peer GiB"] = bench.peak(lambda: step(peer)) / 2**30
                found["ratio"] = found["peer ms"] / found["ms"]
                graph.__dict__.pop("edges")
            return found

        r = bench.record(f"loss | {name} | K={k} | {d}", measure)
        if r:
            peer = (
                f"{r['peer ms']:8.1f} {r['peer GiB']:6.1f} {r['ratio']:6.1f}x" if "peer ms" in r else " " * 23
            )
            print(f"{name:20} {k:3} {d:9} {r['ms']:8.3f} {r['extra']:6.3f} {r['torch ms']:8.3f} {r['torch extra']:6.2f} "
                  f"{peer} {r['loss error']:.1e} {r['gradient error']:.1e} same bits {r['same bits']}", flush=True)  # fmt: skip


def ragged(bench: Bench) -> None:
    """S'Y of a batch, forward and backward: the kernels against chunks and a batched product."""
    from softcut.ops import Segments
    from softcut.ops.kernels import use

    shapes = ((6, 20, 4, 4),) if bench.tiny else (
        (256, 40, 16, 32), (2048, 40, 16, 32), (8192, 40, 16, 64), (512, 2000, 16, 16), (64, 20_000, 64, 64),
    )  # fmt: skip
    for graphs, size, k, f in shapes:

        def measure(graphs: int = graphs, size: int = size, k: int = k, f: int = f) -> dict[str, Any]:
            generator = torch.Generator(DEVICE).manual_seed(0)
            counts = torch.randint(size // 4, 2 * size, (graphs,), generator=generator, device=DEVICE)
            n = int(counts.sum())
            layout = Segments(n, torch.cat([counts.new_zeros(1), counts.cumsum(0)]))
            a, b = (torch.rand(n, w, device=DEVICE, requires_grad=True) for w in (k, f))

            def step() -> tuple[Tensor, ...]:
                gram = layout.gram(a, b)
                return gram.detach(), *torch.autograd.grad(gram, (a, b), gram.detach())

            found: dict[str, Any] = {}
            results = {}
            for mode in ("torch", "triton"):
                with use(mode):
                    found[f"{mode} ms"], results[mode] = bench.milliseconds(step), step()
            pairs = zip(results["torch"], results["triton"], strict=True)
            found["error"] = max(((x - y).abs().max() / x.abs().max()).item() for x, y in pairs)
            found["work"] = n * k * f
            return found

        print(f"ragged, {graphs} graphs of about {size}, K={k}, F={f}:",
              bench.record(f"ragged | {graphs} {size} {k} {f}", measure), flush=True)  # fmt: skip


def crossover(bench: Bench) -> None:
    """From which size on the kernels are faster than the embedding bag; as replays of a CUDA graph, as in training."""
    from softcut.ops.kernels import use
    from softcut.ops.spmm import sparse_product

    sizes = ((40, 160, 4),) if bench.tiny else (
        (2_708, 10_556, 7), (2_708, 10_556, 70), (2_708, 10_556, 224), (20_000, 90_000, 96), (7_650, 240_000, 256),
        (50_000, 200_000, 16), (50_000, 1_000_000, 16), (200_000, 4_000_000, 8), (200_000, 4_000_000, 224),
    )  # fmt: skip
    for n, entries, k in sizes:

        def measure(n: int = n, entries: int = entries, k: int = k) -> dict[str, Any]:
            graph = Graph("power law", n, entries)
            x, found = graph.s(k), {}
            for mode in ("torch", "triton"):
                with use(mode):
                    call = lambda: sparse_product(graph.pattern, None, x)  # noqa: E731
                    found[f"{mode} eager ms"] = bench.milliseconds(call)
                    found[f"{mode} ms"] = bench.milliseconds(captured(call, 20)) / 20 if CUDA else None
            return found

        print(f"{n} nodes, {entries} entries, {k} columns ({entries * k / 2**22:.2f} of the limit):",
              bench.record(f"crossover | {n} {entries} {k}", measure), flush=True)  # fmt: skip


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


def growth(bench: Bench) -> None:
    """A training step of one replica (64 features, 16 hidden units, 16 clusters, 32 entries per node)."""
    from softcut.training import DenseInput, ReplicaNet
    from softcut.training.mincut import replica_losses

    edges = (400, 800) if bench.tiny else (10**5, 10**6, 10**7, 3 * 10**7, 10**8)
    rows = []
    for count in edges:

        def measure(count: int = count) -> dict[str, float]:
            bench.graphs.clear()
            graph, k = Graph("uniform", count // 16, 2 * count), 16
            net = ReplicaNet(64, k, [0], hidden=16).to(DEVICE)
            inputs = DenseInput(torch.randn(graph.n, 64, device=DEVICE))
            adam = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=CUDA)

            def step() -> None:
                adam.zero_grad(set_to_none=True)
                cut, ortho = replica_losses(graph.op, net.soft(inputs))
                (cut + ortho).sum().backward()
                adam.step()

            step()
            ms, extra = bench.milliseconds(step, 5), bench.peak(step)
            x, out = graph.s(k), torch.empty(min(graph.entries, 1 << 24), k, device=DEVICE)

            def gather() -> None:
                for part in graph.pattern.col.split(1 << 24):
                    torch.index_select(x, 0, part, out=out[: part.numel()])

            return {
                "edges": count,
                "ms": ms,
                "extra bytes": extra,
                "gather ms": bench.milliseconds(gather, 5),
            }

        found = bench.record(f"growth | {count}", measure)
        if found:
            rows.append(found)
            print(found, flush=True)
    slow = [r for r in rows if rows and r["ms"] > 10 * rows[0]["ms"]]
    for name, points in (("ms", slow), ("gather ms", slow), ("extra bytes", rows[1:])):
        if len(points) > 1 and points[0][name] and points[-1][name]:
            print(f"exponent of {name}: {slope(points, name):.3f} from {points[0]['edges']} edges on")


def slope(points: list[dict[str, float]], name: str) -> float:
    """Least squares of log against log."""
    x, y = (torch.tensor([math.log(p[c]) for p in points]) for c in ("edges", name))
    x, y = x - x.mean(), y - y.mean()
    return ((x * y).sum() / (x * x).sum()).item()


def cora(bench: Bench) -> None:
    from softcut.datasets import load
    from softcut.metrics import nmi
    from softcut.paper.citation import paper_replicas
    from softcut.training import replica_seeds

    graph, seeds = load("cora", self_loops="keep"), replica_seeds(0, 10)
    iterations = 5 if bench.tiny else 10_000

    def measure() -> dict[str, Any]:
        paper_replicas(graph, 7, seeds, max_iter=min(50, iterations), device=str(DEVICE))
        begin = time.perf_counter()
        s, _, _ = paper_replicas(graph, 7, seeds, max_iter=iterations, device=str(DEVICE))
        labels = s.argmax(-1).mT.cpu().numpy()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "nmi": sum(nmi(graph.y, each) for each in labels) / len(labels)}

    print(
        f"ten runs of {iterations} iterations on Cora:",
        bench.record(f"cora {iterations}", measure),
        flush=True,
    )


def fits(bench: Bench) -> None:
    """Default fits with and without the kernels, in turn."""
    import numpy as np

    from softcut import MinCutClustering
    from softcut.datasets import load
    from softcut.metrics import nmi
    from softcut.ops.kernels import use

    for name in ("cora",) if bench.tiny else ("cora", "citeseer", "pubmed", "photo", "computers"):

        def measure(name: str = name) -> dict[str, Any]:
            graph = load(name)
            k = len(np.unique(graph.y))
            short_run = {"max_iter": 2, "n_replicas": 1} if bench.tiny else {}
            found: dict[str, list[float]] = {}
            MinCutClustering(k, device=str(DEVICE), **{"max_iter": 5} | short_run).fit(graph)
            for mode in ("torch", "auto") * (1 if bench.tiny else 2):
                with use(mode):
                    begin = time.perf_counter()
                    labels = MinCutClustering(k, device=str(DEVICE), **short_run).fit(graph).labels_
                    found.setdefault(f"{mode} s", []).append(time.perf_counter() - begin)
                    found.setdefault(f"{mode} nmi", []).append(float(nmi(graph.y, labels)))
            return found

        print(f"default fit of {name}:", bench.record(f"fit {name}", measure), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results")
    parser.add_argument("--sections", nargs="*", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing new is begun")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to rehearse")
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compile:
        compile_share()
        return
    if not CUDA and not arguments.tiny:
        raise SystemExit("this benchmark needs a CUDA device; --tiny rehearses it without")
    os.environ["XDG_CACHE_HOME"] = str(arguments.out.resolve())  # before tile sizes are first looked up
    bench = Bench(arguments.out, arguments.tiny, arguments.budget)
    for section in dict.fromkeys(["machine", *arguments.sections]):
        begin = time.monotonic()
        print(f"\n== {section}", flush=True)
        try:
            globals()[section](bench)
        except ImportError as error:
            print(f"left out: {error}")
        print(f"({section}: {time.monotonic() - begin:.0f} s)", flush=True)
    if bench.skipped:
        print(f"\n{bench.skipped} measurements left out: the time was up; the same command goes on from here")


if __name__ == "__main__":
    main()
