"""Speed and memory of every pooling operator, beside torch-geometric-pool's, and of a DD-sized batch.

    python benchmarks/pooling.py speed --sizes 1000 10000 100000 1000000 --out results/pooling_speed.json
    python benchmarks/pooling.py memory --out results/pooling_memory.json

`speed`: one forward and backward pass (features and parameters) on a 6-nearest-neighbour graph, 32 features,
16 clusters or half of the nodes; the median of a few passes, after the first. Graclus and NDP: the first call
coarsens ("once"), later ones find it in the cache. `memory`: 64 generated graphs with sizes like those of the DD data
set, one as large as its largest; one training step of a classifier with each learned operator.

Every measurement is a process of its own, so peaks of memory do not mix. torch-geometric-pool is used where it
can be imported (``--peer-path`` for a folder outside the environment); it needs torch_scatter, which is
replaced by PyTorch Geometric's pure-torch `scatter` where it is not installed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

OPERATORS = ("mincut", "diffpool", "topk", "sagpool", "graclus", "ndp", "random", "nopool")
LEARNED = ("mincut", "diffpool", "topk", "sagpool")
FEATURES, CLUSTERS = 32, 16


def rss() -> int:
    """Resident memory now, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def knn_edges(n: int, k: int = 6, seed: int = 0) -> Any:
    import numpy as np
    import torch
    from scipy.spatial import cKDTree

    points = np.random.default_rng(seed).random((n, 2))
    near = cKDTree(points).query(points, k + 1)[1][:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), k), near.ravel()])
    keys = np.unique(np.concatenate([pairs[0] * n + pairs[1], pairs[1] * n + pairs[0]]))
    return torch.from_numpy(np.stack([keys // n, keys % n]))


def ours(name: str) -> Any:
    from softcut.nn import get_pool

    sized = {"k": CLUSTERS} if name in ("mincut", "diffpool", "random") else {}
    return get_pool(name, in_channels=FEATURES, **sized)


def peer(name: str, path: str | None) -> Any:
    import types

    if path:
        sys.path.insert(0, path)
    try:
        import torch_scatter  # noqa: F401
    except ImportError:
        from torch_geometric.utils import scatter

        stand_in: Any = types.ModuleType("torch_scatter")
        stand_in.scatter = scatter
        stand_in.scatter_add = lambda s, i, dim=0, dim_size=None: scatter(s, i, dim, dim_size, "sum")
        stand_in.scatter_max = stand_in.scatter_min = stand_in.scatter_mul = None
        sys.modules["torch_scatter"] = stand_in
    import tgp.poolers as p

    make = {
        "mincut": lambda: p.MinCutPooling(FEATURES, CLUSTERS, batched=False),
        "diffpool": lambda: p.DiffPool(FEATURES, CLUSTERS, batched=False),
        "topk": lambda: p.TopkPooling(FEATURES, 0.5),
        "sagpool": lambda: p.SAGPooling(FEATURES, 0.5),
        "graclus": lambda: p.GraclusPooling(cached=True),
        "ndp": lambda: p.NDPPooling(cached=True),
        "nopool": lambda: p.NoPool(),
    }
    return make[name]()


def measure_speed(library: str, name: str, n: int, repeat: int, path: str | None) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    edges = knn_edges(n)
    x = torch.rand(n, FEATURES, requires_grad=True)
    pool = ours(name) if library == "softcut" else peer(name, path)

    def step() -> None:
        x.grad = None
        if library == "softcut":
            out = pool(x, edges)
            auxiliary, adj = out.loss, out.adj
            weight = getattr(adj, "val", None)
            weight = adj.to_dense() if weight is None and not hasattr(adj, "pattern") else weight
        else:
            out = pool(x=x, adj=edges)
            auxiliary = sum(out.loss.values()) if out.loss else 0.0
            weight = getattr(out, "edge_weight", None)
        loss = out.x.square().mean() + auxiliary
        if weight is not None and weight.requires_grad:
            loss = loss + weight.sum() * 0
        loss.backward()

    before = rss()
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    times = []
    while len(times) < repeat and (not times or sum(times) < 20):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return {
        "library": library,
        "operator": name,
        "nodes": n,
        "edges": edges.shape[1],
        "once": first,
        "step": statistics.median(times),
        "peak_gib": max(0, peak() - before) / 2**30,
    }


def dd_graphs(count: int, seed: int = 0) -> list[tuple[Any, Any]]:
    """(x, edge_index) of `count` generated graphs, the first as large as DD's largest (5,748 nodes).

    Other sizes are log-normal around DD's (mean 284, long right tail); contacts in a protein are near
    neighbours in space, drawn as a 5-nearest-neighbour graph.
    """
    import numpy as np
    import torch

    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(math.log(240), 0.55, count)), 30, 5000).astype(int)
    sizes[0] = 5748
    return [(torch.rand(int(n), 89), knn_edges(int(n), 4, i)) for i, n in enumerate(sizes)]


def measure_memory(library: str, name: str, count: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    graphs = dd_graphs(count)
    sizes = torch.tensor([len(x) for x, _ in graphs])
    k = (142, 71)  # half of DD's mean node count, then a quarter
    before = rss()
    if library == "softcut":
        from softcut.nn import GraphClassifier

        shift = sizes.cumsum(0) - sizes
        x = torch.cat([x for x, _ in graphs])
        edges = torch.cat([e + s for (_, e), s in zip(graphs, shift, strict=True)], 1)
        batch = torch.arange(count).repeat_interleave(sizes)
        model = GraphClassifier(89, 2, name, k=k)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            out = model(x, edges, batch=batch)
            loss = torch.nn.functional.cross_entropy(out.y, torch.arange(count) % 2) + out.loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            times.append(time.perf_counter() - start)
        assert math.isfinite(float(loss))
        seconds = min(times)
    else:
        from torch_geometric.nn import DenseGraphConv, dense_diff_pool, dense_mincut_pool

        n = int(sizes.max())
        x, a = torch.zeros(count, n, 89), torch.zeros(count, n, n)
        mask = torch.arange(n) < sizes[:, None]
        for b, (gx, e) in enumerate(graphs):
            x[b, : len(gx)] = gx
            a[b, e[0], e[1]] = 1
        conv, score = DenseGraphConv(89, 32), torch.nn.Linear(32, k[0])
        start = time.perf_counter()
        h = conv(x, a, mask).relu()
        pool = dense_mincut_pool if name == "mincut" else dense_diff_pool
        out_x, _, one, two = pool(h, a, score(h), mask)
        (out_x.square().mean() + one + two).backward()
        seconds = time.perf_counter() - start
    return {
        "library": library,
        "operator": name,
        "graphs": count,
        "nodes": int(sizes.sum()),
        "largest": int(sizes.max()),
        "seconds": seconds,
        "peak_gib": max(0, peak() - before) / 2**30,
        "process_gib": peak() / 2**30,
    }


def child(arguments: list[str], limit: float) -> dict[str, Any] | None:
    command = [sys.executable, str(Path(__file__).resolve()), "one", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = done.stderr.strip().splitlines()
        return {"failed": reason[-1][:200] if reason else f"exit {done.returncode}"}
    return json.loads(lines[-1])


def exponent(rows: list[dict[str, Any]], key: str) -> float | None:
    """Slope of log time over log nodes, from 10^4 nodes on (below, fixed costs rule)."""
    points = [(math.log(r["nodes"]), math.log(r[key])) for r in rows if key in r and r["nodes"] >= 10_000]
    if len(points) < 2:
        return None
    mx, my = (statistics.fmean(p[i] for p in points) for i in (0, 1))
    return sum((a - mx) * (b - my) for a, b in points) / sum((a - mx) ** 2 for a, _ in points)


def write(path: str | None, value: Any) -> None:
    if path:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.part")
        temporary.write_text(json.dumps(value, indent=1) + "\n")
        temporary.replace(target)


def environment() -> dict[str, Any]:
    import torch

    return {"torch": torch.__version__, "cores": os.cpu_count(), "threads": torch.get_num_threads()}


def speed(given: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    if given.out and Path(given.out).exists():  # what was measured of other operators stays
        known = json.loads(Path(given.out).read_text())["rows"]
        rows = [r for r in known if r["operator"] not in given.operators]
    for name in given.operators:
        for library in ("softcut",) if name == "random" else ("softcut", "tgp"):
            for n in given.sizes:
                row = child(
                    [*_words("speed", library, name, n), f"--repeat={given.repeat}", *_path(given)],
                    given.limit,
                )
                row = {"library": library, "operator": name, "nodes": n} | (row or {})
                rows.append(row)
                print(json.dumps(row), flush=True)
                write(given.out, {"environment": environment(), "rows": rows})
                if "failed" in row:
                    break
    print(speed_table(rows))


def speed_table(rows: list[dict[str, Any]]) -> str:
    sizes = sorted({r["nodes"] for r in rows})
    head = [
        "operator",
        "library",
        *[f"{n:,}" for n in sizes],
        "growth",
        "peak GiB at largest",
        "once at largest",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    present = {r["operator"] for r in rows}
    for name in (o for o in OPERATORS if o in present):
        by = {(r["library"], r["nodes"]): r for r in rows if r["operator"] == name}
        for library in ("softcut", "tgp"):
            if not any((library, n) in by for n in sizes):
                continue
            mine = [by[library, n] for n in sizes if (library, n) in by]
            cells = []
            for n in sizes:
                row = by.get((library, n), {})
                cell = f"{1e3 * row['step']:.1f} ms" if "step" in row else row.get("failed", "-")[:60]
                base = by.get(("softcut", n), {})
                if library == "tgp" and "step" in row and "step" in base:
                    cell += f" ({row['step'] / base['step']:.1f}x)"
                cells.append(cell)
            done = [r for r in mine if "step" in r]
            slope = exponent(done, "step")
            cells.append("-" if slope is None else f"{slope:.2f}")
            cells.append(f"{done[-1]['peak_gib']:.2f}" if done else "-")
            cells.append(f"{done[-1]['once']:.2f} s" if done else "-")
            lines.append("| " + " | ".join([name, library, *cells]) + " |")
    return "\n".join(lines)


def memory(given: argparse.Namespace) -> None:
    rows = []
    for name in LEARNED:
        rows.append(child(_words("memory", "softcut", name, 64), given.limit) or {})
        print(json.dumps(rows[-1]), flush=True)
    for name in ("mincut", "diffpool"):
        # The dense path of 64 graphs does not fit: two sizes are measured and carried on linearly.
        small = [child(_words("memory", "pyg-dense", name, count), given.limit) or {} for count in (2, 4)]
        rows += small
        if all("peak_gib" in r for r in small):
            each = (small[1]["peak_gib"] - small[0]["peak_gib"]) / 2
            estimate = small[0]["peak_gib"] + 62 * each
            rows.append({"library": "pyg-dense", "operator": name, "graphs": 64, "estimated_gib": estimate})
        for row in rows[-3:]:
            print(json.dumps(row), flush=True)
    write(given.out, {"environment": environment(), "rows": rows})


def _words(kind: str, library: str, name: str, n: int) -> list[str]:
    return [kind, library, name, str(n)]


def _path(given: argparse.Namespace) -> list[str]:
    return [f"--peer-path={given.peer_path}"] if given.peer_path else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("speed", "memory"):
        sub = commands.add_parser(name)
        sub.add_argument("--out", help="JSON file to write")
        sub.add_argument("--limit", type=float, default=120.0, help="seconds a measurement may take")
        if name == "speed":
            sub.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000, 1_000_000])
            sub.add_argument("--operators", nargs="+", default=OPERATORS, choices=OPERATORS)
            sub.add_argument("--repeat", type=int, default=5)
            sub.add_argument("--peer-path", help="folder that holds torch-geometric-pool")
    one = commands.add_parser("one", help="a single measurement (used by the others)")
    one.add_argument("kind", choices=["speed", "memory"])
    one.add_argument("library")
    one.add_argument("name")
    one.add_argument("n", type=int)
    one.add_argument("--repeat", type=int, default=5)
    one.add_argument("--peer-path")
    given = parser.parse_args()
    if given.command == "one":
        if given.kind == "speed":
            result = measure_speed(given.library, given.name, given.n, given.repeat, given.peer_path)
        else:
            result = measure_memory(given.library, given.name, given.n)
        print(json.dumps(result))
    else:
        {"speed": speed, "memory": memory}[given.command](given)


if __name__ == "__main__":
    main()
