"""The sweep of benchmarks/gpu_kernels.py: which tile sizes are fastest.

All of them are measured on the second uniform graph, the best eight (and the table's choice) on the others; then the
variants of the loss for the best one of each graph. The fastest are used by the sections that follow.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
from gpu_measuring import DEVICE, TYPES, Bench, compile_all, short
from gpu_tuning import candidates, remember

PIECES = (128, 256, 512, 1024, 2048)
PROGRAMS = (1 << 12, 1 << 14, 1 << 16)  # two numbers each are kept until they are added up
BEST = 8
Case = tuple[int, str]  # columns and precision


def compile_once(bench: Bench, jobs: Iterable[tuple[Case, Any]], **how: bool) -> None:
    """Compile what the coming measurements need, unless they are known from an earlier run."""
    if f"sweep done {bench.tiny}" in bench.known or time.monotonic() > bench.end:
        return
    begin = time.monotonic()
    # How many programs are launched is not compiled in.
    kinds = dict.fromkeys((case, replace(tiles, programs=1)) for case, tiles in jobs)
    compile_all([{"k": k, "dtype": d, "tiles": asdict(tiles), **how} for (k, d), tiles in kinds], 12)
    print(f"compiled {len(kinds)} kernels in {time.monotonic() - begin:.0f} s", flush=True)


def product_times(bench: Bench, name: str, choices: dict[Case, list[Any]]) -> dict[Case, list[Any]]:
    """Tile sizes of each case on one graph, fastest first."""
    from softcut.ops.kernels.product import row_product

    ranked = {}
    for (k, d), tilings in choices.items():

        def measure(tiles: Any, k: int = k, d: str = d) -> float:
            graph = bench.graph(name)
            x, p = graph.s(k, TYPES[d]), graph.pattern
            return bench.milliseconds(lambda: row_product(p.col, None, x, None, plan=p.plan, tiles=tiles), 2)

        keys = {tiles: f"sweep | {name} | K={k} | {d} | {short(tiles)}" for tiles in tilings}
        times = {tiles: bench.record(key, lambda t=tiles: measure(t)) for tiles, key in keys.items()}
        times = {tiles: ms for tiles, ms in times.items() if ms is not None}
        if times:
            ranked[k, d] = sorted(times, key=lambda t: times[t])
            shown = ", ".join(f"{short(t)} {times[t]:.3f}" for t in ranked[k, d][:5])
            table = f"table {times[tilings[0]]:.3f}" if tilings[0] in times else ""
            print(f"{name:20} K={k:<3} {d:9} {shown}  {table}", flush=True)
    return ranked


def loss_times(bench: Bench, name: str, best: dict[Case, Any]) -> None:
    """D^-1/2 gathered or multiplied in first, and how many programs; the fastest is remembered."""
    from softcut.ops.kernels.product import cut_sums

    for (k, d), tiles in best.items():

        def measure(tiles: Any, k: int = k, d: str = d) -> float:
            graph = bench.graph(name)
            s, p, op = graph.s(k, TYPES[d]), graph.pattern, graph.op
            degree = op.degree_like(s.new_empty(0, dtype=torch.float32))
            scale = op.row_scale(torch.float32)
            return bench.milliseconds(
                lambda: cut_sums(p.col, None, s, scale, degree, plan=p.plan, tiles=tiles), 2
            )

        times = {}
        for variant in [replace(tiles, gather_scale=g, programs=p) for g in (False, True) for p in PROGRAMS]:
            key = f"sweep loss | {name} | K={k} | {d} | {short(variant)}"
            ms = bench.record(key, lambda t=variant: measure(t))
            if ms is not None:
                times[variant] = ms
        if times:
            ranked = sorted(times, key=lambda t: times[t])
            shown = ", ".join(f"{short(t)} {times[t]:.3f}" for t in ranked)
            print(f"{name:20} K={k:<3} {d:9} loss forward: {shown}", flush=True)
            mean = bench.entries / int(name.rsplit(" ", 1)[1])
            remember(k, mean, TYPES[d], DEVICE, ranked[0], uneven=name == bench.skewed)


def piece_times(bench: Bench) -> None:
    """Where long rows are cut."""
    from softcut.ops.kernels.plan import row_plan
    from softcut.ops.kernels.product import row_product

    for piece in PIECES[:1] if bench.tiny else PIECES:

        def measure(piece: int = piece) -> float:
            graph = bench.graph(bench.skewed)
            k, p = bench.columns[min(1, len(bench.columns) - 1)], graph.pattern
            x, plan = graph.s(k), row_plan(p.rowptr, 8 if bench.tiny else piece)
            return bench.milliseconds(lambda: row_product(p.col, None, x, None, plan=plan), 2)

        print(f"long rows cut at {piece}:", bench.record(f"sweep piece {piece}", measure), "ms", flush=True)


def sweep(bench: Bench) -> None:
    """Tile sizes by columns, precision and mean degree."""
    first, *others = bench.even[1], *[g for g in bench.even if g != bench.even[1]], bench.skewed
    mean = bench.entries / bench.sizes[1]
    choices = {}
    for k in bench.columns:
        for d, dtype in TYPES.items():
            tilings = [t for t in candidates(k, mean, dtype) if not t.gather_scale]
            choices[k, d] = tilings[:2] if bench.tiny else tilings
    compile_once(bench, ((c, t) for c, tilings in choices.items() for t in tilings), loss=False, uneven=False)
    ranked = product_times(bench, first, choices)
    few = {case: list(dict.fromkeys([choices[case][0], *best[:BEST]])) for case, best in ranked.items()}
    compile_once(bench, ((c, t) for c, tilings in few.items() for t in tilings), loss=False, uneven=True)
    best = {first: {case: tilings[0] for case, tilings in ranked.items()}}
    for name in others:
        best[name] = {case: tilings[0] for case, tilings in product_times(bench, name, few).items()}
    variants = [
        (case, replace(tiles, gather_scale=g))
        for cases in best.values()
        for case, tiles in cases.items()
        for g in (False, True)
    ]
    compile_once(bench, variants, loss=True, uneven=True)
    for name, cases in best.items():
        loss_times(bench, name, cases)
    piece_times(bench)
    if not bench.skipped:
        bench.record(f"sweep done {bench.tiny}", lambda: True)
