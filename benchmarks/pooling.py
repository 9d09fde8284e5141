"""Speed and memory of every pooling operator, beside torch-geometric-pool's, and of a DD-sized batch.

    python benchmarks/pooling.py speed --sizes 1000 10000 100000 1000000 --out results/pooling_speed.json
    python benchmarks/pooling.py memory --out results/pooling_memory.json

`speed`: one forward and backward pass (features and parameters) on a 6-nearest-neighbour graph, 32 features,
16 clusters or half of the nodes; the median of a few passes, after the first. Graclus and NDP: the first call
coarsens ("once"), later ones find it in the cache. `memory`: 64 graphs of the DD data set, its largest among them
(generated ones of such sizes where $SOFTCUT_DATA does not hold it); one training step of a classifier with each learned
operator, beside PyTorch Geometric's dense path: extrapolated on a CPU, measured with ``--device cuda``.

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

    options: dict[str, Any] = {"k": CLUSTERS} if name in ("mincut", "diffpool", "random") else {}
    if name == "graclus":
        options["reduction"] = "sum"  # as torch-geometric-pool does; a maximum costs more
    return get_pool(name, in_channels=FEATURES, **options)


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


def dd_graphs(count: int, seed: int = 0) -> tuple[list[tuple[Any, Any]], str]:
    """(x, edge_index) of `count` graphs, the first DD's largest (5,748 nodes), and where they come from."""
    import numpy as np
    import torch

    rng = np.random.default_rng(seed)
    raw = Path(os.environ.get("SOFTCUT_DATA", "")) / "tudataset" / "DD" / "raw"
    if not (raw / "DD_A.txt").exists():
        # Log-normal sizes around DD's (mean 284, long right tail); contacts in a protein are near
        # neighbours in space, drawn as a nearest-neighbour graph.
        sizes = np.clip(np.exp(rng.normal(math.log(240), 0.55, count)), 30, 5000).astype(int)
        sizes[0] = 5748
        made = [(torch.rand(int(n), 89), knn_edges(int(n), 4, i)) for i, n in enumerate(sizes)]
        return made, "generated, sizes like DD's"
    graph = np.loadtxt(raw / "DD_graph_indicator.txt", dtype=np.int64) - 1
    label = np.loadtxt(raw / "DD_node_labels.txt", dtype=np.int64)
    ends = np.loadtxt(raw / "DD_A.txt", delimiter=",", dtype=np.int64).T - 1
    kinds = np.unique(label)
    sizes = np.bincount(graph)
    first = np.concatenate([[0], sizes.cumsum()])
    others = rng.permutation(np.delete(np.arange(len(sizes)), sizes.argmax()))[: count - 1]
    graphs = []
    for g in [int(sizes.argmax()), *others.tolist()]:
        inside = ends[:, graph[ends[0]] == g] - first[g]
        one_hot = label[first[g] : first[g + 1], None] == kinds
        graphs.append((torch.from_numpy(one_hot.astype(np.float32)), torch.from_numpy(inside)))
    return graphs, "DD"


def measure_memory(library: str, name: str, count: int, device: str) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    graphs, source = dd_graphs(count)
    features = graphs[0][0].shape[1]
    sizes = torch.tensor([len(x) for x, _ in graphs])
    k = (142, 71)  # half of DD's mean node count, then a quarter
    cuda = device == "cuda"
    if cuda:
        torch.zeros(1, device=device)
        torch.cuda.reset_peak_memory_stats()
    before = rss()

    def clock() -> float:
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    if library == "softcut":
        from softcut.nn import GraphClassifier

        shift = sizes.cumsum(0) - sizes
        x = torch.cat([x for x, _ in graphs]).to(device)
        edges = torch.cat([e + s for (_, e), s in zip(graphs, shift, strict=True)], 1).to(device)
        batch = torch.arange(count).repeat_interleave(sizes).to(device)
        model = GraphClassifier(features, 2, name, k=k).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
        target = torch.arange(count, device=device) % 2
        times = []
        for _ in range(3):
            start = clock()
            out = model(x, edges, batch=batch)
            loss = torch.nn.functional.cross_entropy(out.y, target) + out.loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            times.append(clock() - start)
        assert math.isfinite(float(loss))
        seconds = min(times)
    else:
        from torch_geometric.nn import DenseGraphConv, dense_diff_pool, dense_mincut_pool

        n = int(sizes.max())
        x, a = torch.zeros(count, n, features, device=device), torch.zeros(count, n, n, device=device)
        mask = torch.arange(n, device=device) < sizes[:, None].to(device)
        for b, (gx, e) in enumerate(graphs):
            x[b, : len(gx)] = gx.to(device)
            a[b, e[0].to(device), e[1].to(device)] = 1
        conv, score = DenseGraphConv(features, 32).to(device), torch.nn.Linear(32, k[0]).to(device)
        start = clock()
        h = conv(x, a, mask).relu()
        pool = dense_mincut_pool if name == "mincut" else dense_diff_pool
        out_x, _, one, two = pool(h, a, score(h), mask)
        (out_x.square().mean() + one + two).backward()
        seconds = clock() - start
    used = torch.cuda.max_memory_allocated() if cuda else max(0, peak() - before)
    return {
        "library": library,
        "operator": name,
        "data": source,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "graphs": count,
        "nodes": int(sizes.sum()),
        "largest": int(sizes.max()),
        "seconds": seconds,
        "peak_gib": used / 2**30,
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
    from softcut.provenance import origin

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
                row = {"library": library, "operator": name, "nodes": n, **(row or {}), **origin()}
                rows.append(row)
                print(json.dumps(row), flush=True)
                write(given.out, {"environment": environment(), "rows": rows})
                if "failed" in row:
                    break
    print(
        "make tables writes them to docs/choosing-a-pooling-operator.md, where --out is results/pooling_speed.json"
    )


def memory(given: argparse.Namespace) -> None:
    from softcut.provenance import origin

    rows = []
    device = f"--device={given.device}"

    def measure(library: str, name: str, count: int) -> dict[str, Any]:
        row = {"library": library, "operator": name, "graphs": count}
        row |= child([*_words("memory", library, name, count), device], given.limit) or {}
        rows.append(row)
        print(json.dumps(row), flush=True)
        return row

    for name in LEARNED:
        measure("softcut", name, 64)
    for name in ("mincut", "diffpool"):
        if given.device == "cuda":
            measure("pyg-dense", name, 64)
            continue
        # The dense path of 64 graphs is too large for most machines: two sizes, carried on linearly.
        small = [measure("pyg-dense", name, count) for count in (2, 4)]
        if all("peak_gib" in r for r in small):
            each = (small[1]["peak_gib"] - small[0]["peak_gib"]) / 2
            estimate = small[0]["peak_gib"] + 62 * each
            rows.append({"library": "pyg-dense", "operator": name, "graphs": 64, "estimated_gib": estimate})
            print(json.dumps(rows[-1]), flush=True)
    write(given.out, {"environment": environment(), "rows": rows, **origin(given.device)})
    print(memory_table(rows))


def memory_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| operator | library | device | peak memory of a step | a step |", "|---|---|---|---|---|"]
    for row in rows:
        if row["graphs"] != 64:
            continue
        cells = [row["operator"], row["library"], row.get("device", "cpu")]
        if "failed" in row:
            cells += [row["failed"], "-"]
        elif "peak_gib" in row:
            cells += [f"{row['peak_gib']:.2f} GiB", f"{row['seconds']:.2f} s"]
        else:
            cells += [f"about {row['estimated_gib']:.0f} GiB, extrapolated", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
        if name == "memory":
            sub.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
        else:
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
    one.add_argument("--device", default="cpu")
    given = parser.parse_args()
    if given.command == "one":
        if given.kind == "speed":
            result = measure_speed(given.library, given.name, given.n, given.repeat, given.peer_path)
        else:
            result = measure_memory(given.library, given.name, given.n, given.device)
        print(json.dumps(result))
    else:
        {"speed": speed, "memory": memory}[given.command](given)


if __name__ == "__main__":
    main()
