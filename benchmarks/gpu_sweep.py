"""The sweep of benchmarks/gpu_kernels.py: which tile sizes are fastest."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace

import torch
from gpu_measuring import DEVICE, TYPES, Bench, compile_all, short

PIECES = (128, 256, 512, 1024, 2048)


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
                        lambda: row_product(p.col, None, x, None, plan=p.plan, tiles=tiles), 3
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
        (name, k, d, replace(tiles, gather_scale=g, programs=r))
        for name, k, d, tiles in losses
        for g in (False, True)
        for r in (1 << 12, 1 << 14, 1 << 16, 1 << 30)
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
                lambda: cut_sums(p.col, None, s, scale, degree, plan=p.plan, tiles=tiles), 3
            )

        ms = bench.record(f"sweep loss | {name} | K={k} | {d} | {short(tiles)}", measure)
        if ms is not None:
            best.setdefault((name, k, d), {})[tiles] = ms
    for (name, k, d), times in best.items():
        chosen = min(times, key=lambda t: times[t])
        shown = ", ".join(f"{short(t)} {ms:.3f}" for t, ms in sorted(times.items(), key=lambda p: p[1]))
        print(f"{name:20} K={k:<3} {d:9} loss forward: {shown}", flush=True)
        mean = bench.entries / int(name.rsplit(" ", 1)[1])
        remember(k, mean, TYPES[d], DEVICE, chosen, uneven=name == bench.skewed)
    for piece in PIECES[:2] if bench.tiny else PIECES:

        def measure(piece: int = piece) -> float:
            graph = bench.graph(bench.skewed)
            k, p = bench.columns[min(1, len(bench.columns) - 1)], graph.pattern
            x, plan = graph.s(k), row_plan(p.rowptr, 8 if bench.tiny else piece)
            return bench.milliseconds(lambda: row_product(p.col, None, x, None, plan=plan), 2)

        print(f"long rows cut at {piece}:", bench.record(f"sweep piece {piece}", measure), "ms", flush=True)
    if not bench.skipped:
        bench.record(f"sweep done {bench.tiny}", lambda: True)
