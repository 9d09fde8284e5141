"""The GPU kernels measured: product, cut loss, products per graph, whole steps; against PyTorch, cuSPARSE and a peer.

    python benchmarks/gpu_kernels.py --out results [--sections sweep product loss ...] [--budget 170]

Every number goes to OUT/gpu_kernels.json as soon as it is known; what is there already is not measured again, so a run
that was cut short is continued by the same command. Measured tile sizes are kept in OUT/softcut/kernels.json and used
by the sections after the sweep. `--tiny` rehearses everything with small sizes, without a GPU in Triton's interpreter
(TRITON_INTERPRET=1).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpu_measuring import (
    CUDA,
    DEVICE,
    TYPES,
    Bench,
    Graph,
    captured,
    compile_share,
    copy_speed,
    machine,
    report,
    slope,
)
from gpu_sweep import sweep


def cases(bench: Bench) -> Iterable[tuple[str, int, str]]:
    for name in (*bench.even, bench.skewed):
        for k in bench.columns:
            for d in TYPES:
                yield name, k, d


def product(bench: Bench) -> None:
    from softcut.ops.kernels import use
    from softcut.ops.spmm import sparse_product

    print(
        "graph | K | precision | kernel ms | share of gather limit | scaled ms | bag ms | cuSPARSE ms | error | bits"
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
                bag = bench.milliseconds(lambda: sparse_product(p, None, x), 2)
                wide = scale.double().unsqueeze(-1)
                exact = torch.cat(
                    [wide * sparse_product(p, None, wide * x[:, i : i + 8].double()) for i in range(0, k, 8)],
                    1,
                )
            ones = torch.ones(p.nnz, device=DEVICE, dtype=x.dtype)
            matrix = torch.sparse_csr_tensor(p.rowptr, p.col, ones, p.shape, check_invariants=False)
            try:
                vendor = bench.milliseconds(lambda: matrix @ x, 2)
            except (RuntimeError, NotImplementedError):  # not every precision everywhere
                vendor = math.nan
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
        "graph | K | precision | kernels ms, replayed | extra | PyTorch ms, extra | peer ms, GiB | ratio | errors, bits"
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
                values = {"ms": bench.milliseconds(step), "extra": bench.peak(step) / unit}
                # A CUDA graph of the same calls, as in training: without the time that Python takes.
                values["replayed ms"] = bench.milliseconds(captured(step, 4)) / 4 if CUDA else values["ms"]
                value, gradient = step()
                same = all(torch.equal(a, b) for a, b in zip((value, gradient), step(), strict=True))
                exact = graph.s(k, dtype).double().requires_grad_()
            with use("torch"):
                values |= {"torch ms": bench.milliseconds(step, 2), "torch extra": bench.peak(step) / unit}
                true_value, true_gradient = step(s=exact)
            values["same bits"] = same
            values["loss error"] = abs(value.item() - true_value.item())
            worst = (gradient.double() - true_gradient).abs().max() / true_gradient.abs().max()
            values["gradient error"] = worst.item()
            del exact, true_gradient, gradient
            if d == "float32" and not name.startswith("power"):
                weight = torch.ones(graph.entries, device=DEVICE)
                with torch.device(DEVICE):
                    peer = lambda s: sparse_mincut_loss(graph.edges, s, weight)  # noqa: E731
                    values["peer ms"] = bench.milliseconds(lambda: step(peer), 2)
                    values["peer GiB"] = bench.peak(lambda: step(peer)) / 2**30
                values["ratio"] = values["peer ms"] / values["ms"]
                graph.__dict__.pop("edges")
            return values

        r = bench.record(f"loss | {name} | K={k} | {d}", measure)
        if r:
            peer = (
                f"{r['peer ms']:8.1f} {r['peer GiB']:6.1f} {r['ratio']:6.1f}x" if "peer ms" in r else " " * 23
            )
            ours = f"{r['ms']:8.3f} {r['replayed ms']:8.3f} {r['extra']:6.3f}"
            ours += f" {r['torch ms']:8.3f} {r['torch extra']:6.2f}"
            errors = f"{r['loss error']:.1e} {r['gradient error']:.1e} {r['same bits']}"
            print(f"{name:20} {k:3} {d:9} {ours} {peer} {errors}", flush=True)


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

            values: dict[str, Any] = {}
            results = {}
            for mode in ("torch", "triton"):
                with use(mode):
                    values[f"{mode} ms"], results[mode] = bench.milliseconds(step), step()
            pairs = zip(results["torch"], results["triton"], strict=True)
            values["error"] = max(((x - y).abs().max() / x.abs().max()).item() for x, y in pairs)
            values["work"] = n * k * f
            return values

        print(f"ragged, {graphs} graphs of about {size}, K={k}, F={f}:",
              bench.record(f"ragged | {graphs} {size} {k} {f}", measure), flush=True)  # fmt: skip


def order(bench: Bench) -> None:
    """A product before and after nodes are sorted by community: nine of ten edges inside one of 256."""
    from softcut.ops.convert import submatrix
    from softcut.ops.kernels import use

    def measure() -> dict[str, Any]:
        bench.graphs.clear()
        graph = Graph("planted", bench.sizes[1], bench.entries)
        by_group = graph.groups.argsort(stable=True)
        after, values = submatrix(graph.plain, by_group, None), {}
        with use("triton"):
            for k in bench.columns:
                x = graph.s(k)
                for name, op in (("as it is", graph.plain), ("sorted", after)):
                    values[f"K={k} {name} ms"] = bench.milliseconds(lambda op=op, x=x: op @ x)
        return values

    print("nodes sorted by community:", bench.record("order", measure), flush=True)


def crossover(bench: Bench) -> None:
    """The size at which the kernels become faster than the embedding bag, replayed as a CUDA graph as in training."""
    from softcut.ops.kernels import use
    from softcut.ops.spmm import sparse_product

    sizes = ((40, 160, 4),) if bench.tiny else (
        (2_708, 10_556, 7), (2_708, 10_556, 70), (2_708, 10_556, 224), (20_000, 90_000, 96), (7_650, 240_000, 256),
        (50_000, 200_000, 16), (50_000, 1_000_000, 16), (200_000, 4_000_000, 8), (200_000, 4_000_000, 224),
    )  # fmt: skip
    for n, entries, k in sizes:

        def measure(n: int = n, entries: int = entries, k: int = k) -> dict[str, Any]:
            graph = Graph("power law", n, entries)
            x, values = graph.s(k), {}
            for mode in ("torch", "triton"):
                with use(mode):
                    call = lambda: sparse_product(graph.pattern, None, x)  # noqa: E731
                    values[f"{mode} eager ms"] = bench.milliseconds(call)
                    values[f"{mode} ms"] = bench.milliseconds(captured(call, 20)) / 20 if CUDA else None
            return values

        print(f"{n} nodes, {entries} entries, {k} columns ({entries * k / 2**22:.2f} of the limit):",
              bench.record(f"crossover | {n} {entries} {k}", measure), flush=True)  # fmt: skip


def growth(bench: Bench) -> None:
    """A training step of one replica (64 features, 16 hidden units, 16 clusters, 32 entries per node)."""
    from softcut.training import DenseInput, ReplicaNet
    from softcut.training.mincut import replica_losses

    edges = (400, 800) if bench.tiny else (10**5, 10**6, 10**7, 3 * 10**7, 5 * 10**7, 10**8)
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
            extra = bench.peak(step)
            # As in training: a replay of a CUDA graph, whose gradients stay where they are.
            adam.zero_grad(set_to_none=True)
            ms = bench.milliseconds(captured(step, 1) if CUDA else step, 5)
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

        values = bench.record(f"growth | {count}", measure)
        if values:
            rows.append(values)
            print(values, flush=True)
    slow = [r for r in rows if rows and r["ms"] > 10 * rows[0]["ms"]]
    for name, points in (("ms", slow), ("gather ms", slow), ("extra bytes", rows[1:])):
        if len(points) > 1 and points[0][name] and points[-1][name]:
            print(f"exponent of {name}: {slope(points, name):.3f} from {points[0]['edges']} edges on")


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

    from softcut import GraphClustering
    from softcut.datasets import load
    from softcut.metrics import nmi
    from softcut.ops.kernels import use

    for name in ("cora",) if bench.tiny else ("cora", "citeseer", "pubmed", "photo", "computers"):

        def measure(name: str = name) -> dict[str, Any]:
            graph = load(name)
            k = len(np.unique(graph.y))
            short_run = {"max_iter": 2, "n_init": 1} if bench.tiny else {}
            values: dict[str, list[float]] = {}
            GraphClustering(k, device=str(DEVICE), **{"max_iter": 5} | short_run).fit(graph)
            for mode in ("torch", "auto") * (1 if bench.tiny else 2):
                with use(mode):
                    begin = time.perf_counter()
                    labels = GraphClustering(k, device=str(DEVICE), **short_run).fit(graph).labels_
                    values.setdefault(f"{mode} s", []).append(time.perf_counter() - begin)
                    values.setdefault(f"{mode} nmi", []).append(float(nmi(graph.y, labels)))
            return values

        print(f"default fit of {name}:", bench.record(f"fit {name}", measure), flush=True)


RUN = {f.__name__: f for f in (machine, sweep, product, loss, ragged, order, crossover, growth, cora, fits)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results")
    parser.add_argument("--sections", nargs="*", default=list(RUN), choices=list(RUN))
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing new is begun")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to rehearse")
    parser.add_argument(
        "--report", action="store_true", help="print what is known as tables of a page, measure nothing"
    )
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compile:
        compile_share()
        return
    if arguments.report:
        report(Bench(arguments.out, arguments.tiny, 0).known)
        return
    if not CUDA and not arguments.tiny:
        raise SystemExit("this benchmark needs a CUDA device; --tiny rehearses it without")
    os.environ["XDG_CACHE_HOME"] = str(arguments.out.resolve())  # before tile sizes are first looked up
    bench = Bench(arguments.out, arguments.tiny, arguments.budget)
    for section in dict.fromkeys(["machine", *arguments.sections]):
        begin = time.monotonic()
        print(f"\n== {section}", flush=True)
        try:
            RUN[section](bench)
        except ImportError as error:
            print(f"left out: {error}")
        print(f"({section}: {time.monotonic() - begin:.0f} s)", flush=True)
    if bench.skipped:
        print(f"\n{bench.skipped} measurements left out: the time was up; the same command goes on from here")


if __name__ == "__main__":
    main()
