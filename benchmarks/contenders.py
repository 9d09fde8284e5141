"""The contenders: a process of the benchmark environment sets one up and runs it when it is told to.

`python contenders.py BENCHMARK CONTENDER OPTIONS` (OPTIONS is JSON) prints one JSON line when the contender is
ready, then one for each line `{"seed": ..}` it reads. `benchmarks/run.py` holds one such process for each
contender and lets them take turns, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from softcut import Graph, GraphClustering
from softcut.clustering import PAPER, Recipe
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.datasets import load
from softcut.metrics import clusters_used, nmi
from softcut.nn import MinCutPool
from softcut.ops import CSR, mincut_loss
from softcut.training import ConvInput, ReplicaNet, TrainSettings, replica_seeds, train

# One run of a contender: from a seed to what is worth keeping. "steps" divides the measured time,
# "seconds" replaces it (where a run has to stop the clock itself).
Run = Callable[[int], dict[str, Any]]
Options = dict[str, Any]

CONTENDERS: dict[tuple[str, str], Callable[[Any, Options], Run]] = {}
DATA: dict[str, Callable[[Options], Any]] = {}

HIDDEN = PAPER.hidden


def contender(benchmark: str, name: str) -> Callable[[Any], Any]:
    """Enter a function from (data, options) to a Run under this name."""

    def enter(build: Any) -> Any:
        CONTENDERS[benchmark, name] = build
        return build

    return enter


def data_of(*benchmarks: str) -> Callable[[Any], Any]:
    """Enter a function from options to what all contenders of these benchmarks are given."""

    def enter(make: Any) -> Any:
        DATA.update(dict.fromkeys(benchmarks, make))
        return make

    return enter


# ------------------------------------------------------------------ what PyTorch Geometric's users hold


def edges_of(adjacency: sp.csr_matrix) -> tuple[Tensor, Tensor]:
    """edge_index [2, E], and the weights of D^-1/2 A D^-1/2, which the losses of the peers expect as given."""
    coo = sp.coo_matrix(adjacency)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    root = np.sqrt(np.where(degree > 0, degree, 1))
    weight = coo.data / (root[coo.row] * root[coo.col])
    edges = np.stack([coo.row, coo.col]).astype(np.int64)
    return torch.from_numpy(edges), torch.from_numpy(weight.astype(np.float32))


def dense_features(graph: Graph) -> Tensor:
    """Rows that sum to one, as a dense matrix."""
    x = rows_that_sum_to_one(graph)
    return torch.from_numpy(np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32))


def graph_conv(options: Options) -> Any:
    """PyTorch Geometric's GraphConv, or its formula."""
    if "torch-geometric" in options["missing"]:
        from peer_formulas import GraphConv
    else:
        from torch_geometric.nn import GraphConv
    return GraphConv


def dense_pool(options: Options) -> Any:
    """PyTorch Geometric's dense_mincut_pool, or its formula."""
    if "torch-geometric" in options["missing"]:
        from peer_formulas import dense_mincut_pool
    else:
        from torch_geometric.nn import dense_mincut_pool
    return dense_mincut_pool


def copy_linear(module: nn.Module, weight: Tensor) -> None:
    """Put `weight` into the one linear layer of a module, and zeros into its bias."""
    (kernel,) = (p for p in module.parameters() if p.dim() == 2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        kernel.copy_(weight)


# ------------------------------------------------------------------ one training step of the paper's model


@data_of("step", "fit")
def _cora(options: Options) -> Graph:
    return load("cora")


def _net(graph: Graph, replicas: int = 1) -> ReplicaNet:
    k = len(np.unique(graph.y))
    return ReplicaNet(graph.num_features, k, replica_seeds(0, replicas), hidden=HIDDEN, terms=2)


def _steps_of_softcut(graph: Graph, options: Options, replicas: int) -> Run:
    op = CSR.from_graph(graph)
    inputs = ConvInput(op, rows_that_sum_to_one(graph), columns=replicas * HIDDEN)
    net = _net(graph, replicas)
    steps = 5 * options["steps"]
    settings = TrainSettings(iterations=steps, lr=PAPER.learning_rate, tolerance=None)

    def run(seed: int) -> dict[str, Any]:
        result = train(net, inputs, op, settings)
        return {"steps": steps, "loss": float(result.cut[0, 0] + result.ortho[0, 0])}

    return run


@contender("step", "softcut")
def _(graph: Graph, options: Options) -> Run:
    return _steps_of_softcut(graph, options, 1)


@contender("step", "softcut, 10 replicas")
def _(graph: Graph, options: Options) -> Run:
    return _steps_of_softcut(graph, options, 10)


class _PeerModel(nn.Module):
    """GraphConv with ELU, then a pooling layer; weights as softcut's first replica."""

    def __init__(self, graph: Graph, options: Options, pool: str, sparse: bool = False) -> None:
        super().__init__()
        net = _net(graph)
        self.x = dense_features(graph)
        self.edges, self.weight = edges_of(graph.adjacency)
        self.conv = graph_conv(options)(graph.num_features, HIDDEN)
        with torch.no_grad():
            self.conv.lin_rel.weight.copy_(net.first[0][0])
            self.conv.lin_root.weight.copy_(net.first[1][0])
            self.conv.lin_rel.bias.zero_()
        self.kind = pool
        n = graph.num_nodes
        self.adjacency: Any = None
        if sparse:
            values = torch.sparse_coo_tensor(self.edges, self.weight, (n, n))
            self.adjacency = values.to_sparse_csr()
        if pool == "dense":
            self.function = dense_pool(options)
            self.dense = torch.zeros(n, n)
            self.dense[self.edges[0], self.edges[1]] = self.weight
            self.pool: nn.Module = nn.Linear(HIDDEN, net.k)
        elif "torch-geometric-pool" in options["missing"]:
            from peer_formulas import UnbatchedMinCut

            self.kind = "restated"
            self.pool = UnbatchedMinCut(HIDDEN, net.k)
        else:
            from tgp.poolers import MinCutPooling

            self.pool = MinCutPooling(HIDDEN, net.k, batched=False)
        copy_linear(self.pool, net.second[0].detach())

    def forward(self) -> tuple[Tensor, Tensor]:
        """S or its logits, and the loss."""
        given = (self.edges, self.weight) if self.adjacency is None else (self.adjacency,)
        h = nn.functional.elu(self.conv(self.x, *given))
        if self.kind == "dense":
            logits = self.pool(h)
            _, _, cut, ortho = self.function(h, self.dense, logits)
            return logits, cut + ortho
        if self.kind == "restated":
            s, _, loss = self.pool(h, self.edges, self.weight)
            return s, loss
        out = self.pool(x=h, adj=self.edges, edge_weight=self.weight)
        return out.so.s, sum(out.loss.values())

    def optimise(self, steps: int) -> tuple[Tensor, float]:
        """Train, and give the last S (or its logits) and the first loss."""
        optimiser = torch.optim.Adam(self.parameters(), lr=PAPER.learning_rate, fused=True)
        losses = []
        for _ in range(steps):
            s, loss = self()
            losses.append(loss.detach())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        return s.detach(), float(losses[0])


def _steps_of_peer(graph: Graph, options: Options, pool: str, sparse: bool = False) -> Run:
    model = _PeerModel(graph, options, pool, sparse)

    def run(seed: int) -> dict[str, Any]:
        return {"steps": options["steps"], "loss": model.optimise(options["steps"])[1]}

    return run


@contender("step", "GraphConv + dense_mincut_pool")
def _(graph: Graph, options: Options) -> Run:
    return _steps_of_peer(graph, options, "dense")


@contender("step", "the same, sparse tensor")
def _(graph: Graph, options: Options) -> Run:
    return _steps_of_peer(graph, options, "dense", sparse=True)


@contender("step", "GraphConv + unbatched MinCut")
def _(graph: Graph, options: Options) -> Run:
    return _steps_of_peer(graph, options, "unbatched")


# ------------------------------------------------------------------ the cut loss of a large graph


@data_of("cut")
def _random_graph(options: Options) -> tuple[sp.csr_matrix, Tensor]:
    """A random graph with `edges` entries in edge_index, and random assignments."""
    n, half = options["nodes"], options["edges"] // 2
    ends = np.random.default_rng(0).integers(0, n, (2, half + half // 100), dtype=np.int64)
    low, high = np.minimum(*ends), np.maximum(*ends)
    keys = np.unique((low * n + high)[low != high])
    keys = np.random.default_rng(1).permutation(keys)[:half]
    row, col = keys // n, keys % n
    ones = np.ones(2 * len(keys), dtype=np.float32)
    matrix = sp.csr_matrix((ones, (np.concatenate([row, col]), np.concatenate([col, row]))), shape=(n, n))
    torch.manual_seed(0)
    return matrix, torch.randn(n, options["k"]).softmax(-1)


def _exact_cut(adjacency: sp.csr_matrix, s: Tensor) -> float:
    """L_c in float64, by scipy."""
    dense = s.detach().double().numpy()
    degree = np.asarray(adjacency.sum(axis=1, dtype=np.float64)).ravel()
    root = sp.diags(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    normal = sp.csr_matrix(root @ adjacency.astype(np.float64) @ root)
    volume = np.asarray(normal.sum(axis=1)).ravel()
    return -float(np.sum(dense * (normal @ dense)) / np.sum(volume * np.square(dense).sum(1)))


@contender("cut", "softcut")
def _(data: Any, options: Options) -> Run:
    adjacency, s = data
    s.requires_grad_()
    op = CSR.from_graph(Graph.from_scipy(adjacency)).normalise()
    exact = _exact_cut(adjacency, s)

    def run(seed: int) -> dict[str, Any]:
        s.grad = None
        loss = mincut_loss(s, op)
        loss.backward()
        return {"loss": loss.item(), "exact": exact}

    return run


@contender("cut", "sparse_mincut_loss")
def _(data: Any, options: Options) -> Run:
    adjacency, s = data
    s.requires_grad_()
    edges, weight = edges_of(adjacency)
    if "torch-geometric-pool" in options["missing"]:
        from peer_formulas import sparse_mincut_loss
    else:
        from tgp.utils.losses import sparse_mincut_loss

    def run(seed: int) -> dict[str, Any]:
        s.grad = None
        loss = sparse_mincut_loss(edges, s, weight)
        loss.backward()
        return {"loss": loss.item()}

    return run


# ------------------------------------------------------------------ a whole fit, and quality


def _score(graph: Graph, labels: Any) -> dict[str, Any]:
    labels = np.asarray(labels)
    return {"nmi": nmi(graph.y, labels), "clusters": clusters_used(labels)}


def _classes(graph: Graph) -> int:
    return len(np.unique(graph.y))


def _default_fit(graph: Graph, options: Options, **settings: Any) -> Run:
    def run(seed: int) -> dict[str, Any]:
        est = GraphClustering(_classes(graph), random_state=seed, device="cpu", **settings)
        return _score(graph, est.fit_predict(graph))

    return run


@contender("fit", "softcut, default")
def _(graph: Graph, options: Options) -> Run:
    return _default_fit(graph, options)


@contender("fit", "one run, unbatched MinCut")
def _(graph: Graph, options: Options) -> Run:
    est = GraphClustering(_classes(graph), random_state=0, device="cpu").fit(graph)
    iterations = est.n_iter_ + Recipe().start_iterations  # as many as the default fit makes

    def run(seed: int) -> dict[str, Any]:
        model = _PeerModel(graph, options, "unbatched")
        s, _ = model.optimise(iterations)
        return {**_score(graph, s.argmax(-1).numpy()), "iterations": iterations}

    return run


@data_of("quality")
def _named(options: Options) -> Graph:
    return load(options["dataset"])


@contender("quality", "softcut, default")
def _(graph: Graph, options: Options) -> Run:
    return _default_fit(graph, options)


@contender("quality", "softcut, 4 replicas")
def _(graph: Graph, options: Options) -> Run:
    return _default_fit(graph, options, n_init=4)


# PyAGC's own settings for these data sets (benchmark/MinCut and benchmark/DMoN of its repository); Adam with
# a step of 1e-3 and weight decay 1e-5, at most 1,000 epochs, stopped after 50 without a lower loss.
_GCN = {"num_layers": 2, "dropout": 0.5, "norm": None}
PYAGC: dict[tuple[str, str], dict[str, Any]] = {
    ("mincut", "cora"): {**_GCN, "hidden_channels": 128},
    ("mincut", "photo"): {**_GCN, "hidden_channels": 64, "norm": "batch_norm"},
    ("dmon", "cora"): {**_GCN, "hidden_channels": 64, "num_layers": 1},
    ("dmon", "photo"): {**_GCN, "hidden_channels": 64, "norm": "batch_norm", "dropout": 0.0},
}


def _pyagc(graph: Graph, options: Options, kind: str) -> Run:
    setting = PYAGC[kind, options["dataset"]]
    x, k = dense_features(graph), _classes(graph)
    edges, _ = edges_of(graph.adjacency)

    def published() -> tuple[nn.Module, Callable[[], Tensor], Callable[[], Tensor]]:
        from pyagc.encoders import create_tuned_gnn
        from pyagc.models import DMoN, MinCut

        encoder = create_tuned_gnn(
            gnn_type="gcn", in_channels=x.shape[1], out_channels=None, act="selu", cached=True, **setting
        )
        model = {"mincut": MinCut, "dmon": DMoN}[kind](encoder, setting["hidden_channels"], k)
        return model, lambda: model.loss(x, edges).total, lambda: model(x, edges)

    def restated() -> tuple[nn.Module, Callable[[], Tensor], Callable[[], Tensor]]:
        from peer_formulas import Clusterer

        with_loops, weight = edges_of(sp.csr_matrix(graph.adjacency + sp.identity(graph.num_nodes)))
        ones = torch.ones(edges.shape[1])
        adjacency = torch.sparse_coo_tensor(edges, ones, (graph.num_nodes, graph.num_nodes)).coalesce()
        degree = torch.bincount(edges[0], minlength=graph.num_nodes).float()
        model = Clusterer(x.shape[1], k, kind, setting)
        soft = lambda: model.soft(x, with_loops, weight)  # noqa: E731
        return model, lambda: model.loss(soft(), adjacency, degree), lambda: soft().argmax(-1)

    def run(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        model, loss_of, labels_of = restated() if "pyagc" in options["missing"] else published()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
        best, waited, seconds, curve = float("inf"), 0, 0.0, []
        for epoch in range(1, options["epochs"] + 1):
            start = time.perf_counter()
            model.train()
            optimiser.zero_grad()
            loss = loss_of()
            loss.backward()
            optimiser.step()
            value = loss.item()
            best, waited = (value, 0) if value < best else (best, waited + 1)
            seconds += time.perf_counter() - start
            if epoch % 10 == 0:  # for the curve only: not on the clock
                model.eval()
                with torch.no_grad():
                    curve.append([round(seconds, 3), round(nmi(graph.y, labels_of().numpy()), 4)])
            if waited >= 50 or seconds > options["limit"]:
                break
        model.eval()
        with torch.no_grad():
            labels = labels_of().numpy()
        cut_short = waited < 50 and epoch < options["epochs"]
        return {
            **_score(graph, labels),
            "seconds": seconds,
            "epochs": epoch,
            "cut_short": cut_short,
            "curve": curve,
        }

    return run


@contender("quality", "MinCut as published")
def _(graph: Graph, options: Options) -> Run:
    return _pyagc(graph, options, "mincut")


@contender("quality", "DMoN as published")
def _(graph: Graph, options: Options) -> Run:
    return _pyagc(graph, options, "dmon")


@contender("quality", "spectral clustering")
def _(graph: Graph, options: Options) -> Run:
    from softcut.baselines import spectral  # scikit-learn's, with the adjacency matrix as affinity

    return lambda seed: _score(graph, spectral(graph, _classes(graph), random_state=seed))


def _sknetwork(graph: Graph, method: str) -> Run:
    import sknetwork.clustering

    make = getattr(sknetwork.clustering, method)
    adjacency = sp.csr_matrix(graph.adjacency)
    return lambda seed: _score(
        graph, make(random_state=seed, shuffle_nodes=True).fit_predict(adjacency, force_bipartite=False)
    )


@contender("quality", "Louvain")
def _(graph: Graph, options: Options) -> Run:
    return _sknetwork(graph, "Louvain")


@contender("quality", "Leiden")
def _(graph: Graph, options: Options) -> Run:
    return _sknetwork(graph, "Leiden")


# ------------------------------------------------------------------ the pooling layer on a batch of graphs


@data_of("layer")
def _batch(options: Options) -> dict[str, Tensor]:
    """Graphs of different sizes side by side: features, edge_index, batch, and one linear layer."""
    rng = np.random.default_rng(0)
    top = options["largest"]
    sizes = np.clip(np.exp(rng.normal(np.log(top / 5), 0.6, options["graphs"])), 10, top).astype(int)
    sizes[0] = top
    parts, first = [], 0
    for n in sizes:
        ends = rng.integers(0, n, (2, 3 * n))
        ends = ends[:, ends[0] != ends[1]]
        matrix = sp.coo_matrix((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
        matrix = sp.coo_matrix((matrix + matrix.T) > 0)
        parts.append(np.stack([matrix.row, matrix.col]).astype(np.int64) + first)
        first += n
    torch.manual_seed(0)
    counts = torch.from_numpy(sizes)
    return {
        "x": torch.randn(first, options["features"]),
        "edges": torch.from_numpy(np.concatenate(parts, axis=1)),
        "batch": torch.arange(len(sizes)).repeat_interleave(counts),
        "counts": counts,
        "weight": torch.randn(options["k"], options["features"]) / 4,
    }


def _layer_of_softcut(data: dict[str, Tensor], options: Options, once: bool) -> Run:
    pool = MinCutPool(options["features"], options["k"])
    copy_linear(pool, data["weight"])
    x = data["x"].clone().requires_grad_()
    edges, batch = data["edges"], data["batch"]
    op = CSR.from_edge_index(edges, num_nodes=len(x), batch=batch).normalise() if once else None

    def run(seed: int) -> dict[str, Any]:
        for _ in range(options["steps"]):
            x.grad = None
            out = pool(x, op) if op is not None else pool(x, edges, batch=batch)
            (out.x.square().mean() + out.loss).backward()
        return {"steps": options["steps"], "loss": float(out.loss.detach())}

    return run


@contender("layer", "softcut")
def _(data: Any, options: Options) -> Run:
    return _layer_of_softcut(data, options, once=False)


@contender("layer", "softcut, operator made before")
def _(data: Any, options: Options) -> Run:
    return _layer_of_softcut(data, options, once=True)


def _pad(data: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[B, N, F], [B, N, N] and mask of a batch."""
    counts, edges, batch = data["counts"], data["edges"], data["batch"]
    size, b = int(counts.max()), len(counts)
    first = counts.cumsum(0) - counts
    place = torch.arange(len(x)) - first[batch]
    padded = torch.zeros(b, size, x.shape[1]).index_put((batch, place), x)
    adj = torch.zeros(b, size, size)
    adj[batch[edges[0]], place[edges[0]], place[edges[1]]] = 1
    degree = adj.sum(-1).clamp(min=1).rsqrt()
    return padded, adj * degree.unsqueeze(-1) * degree.unsqueeze(1), torch.arange(size) < counts.unsqueeze(-1)


def _layer_of_pyg(data: dict[str, Tensor], options: Options, once: bool) -> Run:
    pool = dense_pool(options)
    linear = nn.Linear(options["features"], options["k"])
    copy_linear(linear, data["weight"])
    x = data["x"].clone().requires_grad_()
    kept = tuple(t.detach() for t in _pad(data, x)) if once else None
    if kept is not None:
        kept[0].requires_grad_()

    def run(seed: int) -> dict[str, Any]:
        for _ in range(options["steps"]):
            padded, adj, mask = kept or _pad(data, x)
            x.grad = padded.grad = None
            out, _, cut, ortho = pool(padded, adj, linear(padded), mask)
            (out.square().mean() + cut + ortho).backward()
        return {"steps": options["steps"], "loss": float((cut + ortho).detach())}

    return run


@contender("layer", "dense_mincut_pool")
def _(data: Any, options: Options) -> Run:
    return _layer_of_pyg(data, options, once=False)


@contender("layer", "dense_mincut_pool, padded before")
def _(data: Any, options: Options) -> Run:
    return _layer_of_pyg(data, options, once=True)


# ------------------------------------------------------------------ the process


def _status(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; the highest so far where /proc does not exist."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _load_libraries(names: list[str]) -> None:
    """Import what a contender needs, and what torch imports on its first step: not part of its memory."""
    for name in names:
        importlib.import_module(name)
    weight = torch.ones(1, requires_grad=True)
    optimiser = torch.optim.Adam([weight], fused=True)
    weight.sum().backward()
    optimiser.step()


def _forget_peak() -> None:
    """Give freed memory back, and start VmHWM anew (Linux only; elsewhere peaks are upper bounds)."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
    except (OSError, AttributeError):
        return


@contextmanager
def _clock(measured: dict[str, Any]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    measured["seconds"] = time.perf_counter() - start


def _answer(line: dict[str, Any]) -> None:
    sys.__stdout__.write(json.dumps(line) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def main() -> None:
    benchmark, name, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    sys.stdout = sys.stderr  # answers only
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options["threads"])
    data = DATA[benchmark](options)
    _load_libraries(options["modules"])
    _forget_peak()
    base = _status("VmRSS")
    ready: dict[str, Any] = {}
    with _clock(ready):
        run = CONTENDERS[benchmark, name](data, options)
    _answer(ready)
    for line in sys.stdin:
        seed = json.loads(line)["seed"]
        _forget_peak()
        before = _status("VmRSS")
        measured: dict[str, Any] = {}
        with _clock(measured):
            info = run(seed)
        peak = _status("VmHWM")
        measured.update(info)
        measured["seconds"] /= measured.pop("steps", 1)
        _answer({**measured, "peak": max(0, peak - base), "extra": max(0, peak - before)})


if __name__ == "__main__":
    main()
