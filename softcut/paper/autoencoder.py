"""E4, the autoencoder: reconstruct the coordinates of a ring and a grid from a quarter of the nodes.

Trained and stopped on MSE + auxiliary losses; reported is the MSE at the best value of that sum. The paper shows
pictures and no numbers here. DiffPool is run with its link loss undivided, as the paper's authors have it, and divided
by N^2, as PyTorch Geometric has it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from softcut.datasets import grid_graph, ring_graph
from softcut.files import atomic_write
from softcut.graph import Graph
from softcut.nn.models import GraphAutoencoder
from softcut.ops import as_operator
from softcut.paper import commands
from softcut.paper.runs import Pair, RunSession, cells, check_names, locked, quiet, read_cells, settings_hash
from softcut.provenance import command_line
from softcut.report.plots import figure, save_figure
from softcut.report.tables import Cell, Table
from softcut.training import Checkpoint, Loop, LoopProgress, LoopSettings, Patience, Task

DATASETS: dict[str, Callable[[], Graph]] = {
    "ring": lambda: ring_graph(200),
    "grid": lambda: grid_graph(30, 30),
}
# The paper's three (DiffPool with either scale of its link loss), then what it did not try.
TITLES = {
    "topk": "Top-K",
    "diffpool": "DiffPool",
    "diffpool_divided": "DiffPool, link loss / N²",
    "mincut": "MinCutPool",
    "sagpool": "SAGPool",
    "graclus": "Graclus",
    "ndp": "NDP",
}
METHODS = tuple(TITLES)
OPTIONS: dict[str, dict[str, Any]] = {
    "diffpool_divided": {"link_scale": "divided"},
    "graclus": {"reduction": "mean"},
}
_CHECK = 50  # iterations between looks at whether every replica has stopped


@dataclass(frozen=True)
class Settings:
    """What decides a result besides the data, the pooler and the seed.

    `decay` is not the paper's: half a cosine from the learning rate down to 0 over all iterations.
    """

    hidden: int = 32
    ratio: float = 0.25
    learning_rate: float = 5e-3
    iterations: int = 10_000
    patience: int = 1_000
    tolerance: float = 1e-5
    decay: bool = False

    @property
    def name(self) -> str:
        """What the files of these results are called; the paper's settings have the plain name."""
        known = {Settings(): "autoencoder", Settings(decay=True): "autoencoder_decay"}
        return known.get(self) or f"autoencoder_{settings_hash(asdict(self))}"


class Replicas(NamedTuple):
    """Per-seed results: MSE, total loss and iteration of the best moment, iterations run, reconstruction."""

    mse: list[float]
    loss: list[float]
    best_iteration: list[int]
    iterations: list[int]
    x: np.ndarray
    seconds: float
    finished: bool


Callback = Callable[[str, int, int, float], None]


class _Autoencoders(Task):
    """One autoencoder per seed, vectorised."""

    capturable = True

    def __init__(self, models: Sequence[GraphAutoencoder], x: Tensor, op: Any) -> None:
        self.model, self.x, self.op = models[0], x, op
        self.stacked, self.buffers = stack_module_state(list(models))
        self.parameters = self.stacked

    def step(self) -> dict[str, Tensor]:
        x, mse, auxiliary = vmap(self._one)(self.stacked, self.buffers)
        return {"mse": mse, "auxiliary": auxiliary, "x": x}

    def _one(self, p: dict[str, Tensor], b: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        out = functional_call(self.model, (p, b), (self.x, self.op))
        return out.x, (out.x - self.x).square().mean(), out.pooled.loss


def train_replicas(
    graph: Graph,
    method: str,
    seeds: Sequence[int],
    settings: Settings | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    progress: Callable[[int, float], None] = quiet,
    *,
    time_limit: float | None = None,
    checkpoint_every: float = 60.0,
) -> Replicas:
    """Train one autoencoder per seed, all in one step; a replica's result does not depend on its company.

    The checkpoint is saved about once a minute (`checkpoint_every` seconds), resumed from if it exists, and removed by
    the caller. Ctrl-C saves it as well and raises KeyboardInterrupt. `progress` is called with the iteration and the
    median MSE.
    """
    settings = settings or Settings()
    device = torch.device(device)
    x = torch.as_tensor(np.asarray(graph.x), dtype=torch.float32, device=device)
    op = as_operator(graph, dtype=torch.float32, device=device)
    models = []
    with torch.random.fork_rng(devices=[]):
        for seed in seeds:
            torch.manual_seed(seed)
            model = GraphAutoencoder(
                x.shape[1],
                method.removesuffix("_divided"),
                settings.hidden,
                k=round(settings.ratio * x.shape[0]),
                ratio=settings.ratio,
                pool_args=OPTIONS.get(method),
            )
            models.append(model.to(device))
    loop_settings = LoopSettings(
        iterations=settings.iterations,
        lr=settings.learning_rate,
        minimise={"mse": 1.0, "auxiliary": 1.0},
        decay=settings.decay,
        check_every=_CHECK,
        stop=Patience(settings.patience, settings.tolerance, keep=("mse", "x"), restore=False),
    )

    def tell(state: LoopProgress) -> None:
        progress(state.iteration, float(np.median(state.losses["mse"])))

    saved = None
    if checkpoint is not None:
        identity = {"method": method, "seeds": list(seeds), "nodes": graph.num_nodes, **asdict(settings)}
        saved = Checkpoint(Path(checkpoint), identity, checkpoint_every)
    result = Loop(_Autoencoders(models, x, op), loop_settings).run(tell, saved, time_limit)
    if result.interrupted:
        raise KeyboardInterrupt
    assert result.best_loss is not None
    assert result.best_iteration is not None
    assert result.ran is not None
    return Replicas(
        result.best["mse"].tolist(),
        result.best_loss.tolist(),
        result.best_iteration.tolist(),
        result.ran.tolist(),
        result.best["x"].cpu().numpy(),
        result.seconds,
        not result.timed_out,
    )


def signal_variance(graph: Graph) -> float:
    """Mean over the coordinates of their variance: the MSE of the best constant."""
    return float(np.asarray(graph.x, dtype=np.float64).var(axis=0).mean())


def run(
    runs: int = 10,
    out_dir: str | Path = "results",
    device: str | torch.device = "cpu",
    progress: Callback = quiet,
    datasets: Sequence[str] = tuple(DATASETS),
    methods: Sequence[str] = METHODS,
    settings: Settings | None = None,
    minutes: float | None = None,
) -> list[dict[str, Any]]:
    """Run every cell that is missing; write the table, its runs, the reconstructions and the figure.

    A cell is a data set and a pooler; its seeds train side by side. The files (``autoencoder.json``, ``_runs.json``,
    ``.npz`` and ``.png``; see :attr:`Settings.name`) are replaced after each cell, and an interrupted cell continues
    from its last checkpoint, as does one that `minutes` ended.
    """
    check_names(datasets, tuple(DATASETS), "datasets")
    check_names(methods, METHODS, "methods")
    settings = settings or Settings()
    known, session = asdict(settings), RunSession(out_dir, device, minutes)
    stem, records = str(session.out / settings.name), session.records(settings.name)
    arrays = _stored(Path(f"{stem}.npz"))
    for dataset, method in itertools.product(datasets, methods):
        train = partial(_train, session, dataset, method, list(range(runs)), settings, arrays, progress)
        session.fill(settings.name, method, [dataset], runs, known, train, _cells)
    made = read_cells(f"{stem}.json")
    shown = [run for c in made for run in records.of(c["dataset"], c["method"], c["seeds"], c["settings"])]
    draw_reconstructions(f"{stem}.png", shown, arrays)
    return made


def _stored(path: Path) -> dict[str, np.ndarray]:
    """The reconstructions that are on disk."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def _train(
    session: RunSession,
    dataset: str,
    method: str,
    seeds: list[int],
    settings: Settings,
    arrays: dict[str, np.ndarray],
    progress: Callback,
    missing: list[Pair],
) -> None:
    """Train all seeds of a cell, where one is missing, and record them; out of time, a checkpoint is left."""
    graph, cell, known = DATASETS[dataset](), f"{dataset}/{method}", asdict(settings)
    checkpoint = session.checkpoint(f"{dataset}-{method}", {"cell": cell, "seeds": seeds, **known})

    def tell(iteration: int, mse: float) -> None:
        progress(cell, iteration, settings.iterations, mse)

    result = train_replicas(
        graph, method, seeds, settings, session.device, checkpoint, tell, time_limit=session.left
    )
    if not result.finished:
        return
    arrays[cell] = result.x.astype(np.float32)
    path = session.out / f"{settings.name}.npz"
    with locked(path):
        arrays |= {name: value for name, value in _stored(path).items() if name != cell}
        atomic_write(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
    shared = {"dataset": dataset, "method": method, "settings": known, "seconds": result.seconds / len(seeds)}
    runs, variance = [], signal_variance(graph)
    for row, seed in enumerate(seeds):
        measured = {
            name: getattr(result, name)[row] for name in ("mse", "loss", "best_iteration", "iterations")
        }
        runs.append({**shared, "seed": seed, **measured, "mse_over_variance": measured["mse"] / variance})
    session.keep(settings.name, runs, checkpoint)


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    (cell,) = cells(runs, ["mse"], {}, command_line(), digits=None)
    cell["median"] = statistics.median(run["mse"] for run in runs)
    cell["median_over_variance"] = statistics.median(run["mse_over_variance"] for run in runs)
    return [{**cell, "settings": runs[0]["settings"], "seeds": [run["seed"] for run in runs]}]


def table(made: Iterable[Mapping[str, Any]]) -> Table:
    """MSE of every graph and pooler: mean, median, and the median as a share of the signal's variance."""
    rows: list[list[str | Cell]] = []
    for c in sorted(made, key=lambda c: (c["dataset"] != "ring", METHODS.index(c["method"]))):
        numbers = [f"{c['mean']:.2e} ± {c['std']:.1e}", f"{c['median']:.2e}"]
        numbers += [percent(c["median_over_variance"]), str(c["n"]), f"{c['seconds']} ({c['device']})"]
        rows.append([c["dataset"], TITLES[c["method"]], *map(Cell, numbers)])
    columns = ["data", "pooler", "MSE, mean ± std", "median", "median / variance", "runs", "seconds"]
    return Table(columns, rows, "Reconstruction from a quarter of the nodes", heads=2)


def percent(share: float) -> str:
    """Two digits that count, without an exponent above 10 %."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def draw_reconstructions(
    path: str | Path, runs: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> Path | None:
    """One row per graph, one column per pooler: of each, the run with the median MSE; None where nothing was run."""
    own: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        if (cell := f"{run['dataset']}/{run['method']}") in arrays:
            own.setdefault(cell, []).append(run)
    shown = [name for name in DATASETS if any(cell.startswith(f"{name}/") for cell in own)]
    methods = [method for method in METHODS if any(cell.endswith(f"/{method}") for cell in own)]
    if not shown:
        return None
    columns = len(methods) + 1
    fig, axes = figure(len(shown), columns, figsize=(2.2 * columns, 2.5 * len(shown)), squeeze=False)
    for line, name in zip(axes, shown, strict=True):
        graph = DATASETS[name]()
        _draw(line[0], graph, np.asarray(graph.x), "original")
        for axis, method in zip(line[1:], methods, strict=True):
            cell = f"{name}/{method}"
            if cell not in own:
                axis.set_axis_off()
                continue
            ranked = sorted(range(len(own[cell])), key=lambda i: own[cell][i]["mse"])
            middle = ranked[(len(ranked) - 1) // 2]
            share = percent(own[cell][middle]["mse_over_variance"])
            _draw(axis, graph, arrays[cell][middle], f"{TITLES[method]}\nMSE {share} of variance")
    return save_figure(fig, path, dpi=150)


def _draw(axis: Any, graph: Graph, points: np.ndarray, title: str) -> None:
    """Nodes at `points`, coloured by where they belong, with the edges of the graph."""
    from matplotlib.collections import LineCollection

    original = np.asarray(graph.x)
    edges = graph.adjacency.tocoo()
    low, high = original.min() - 0.15, original.max() + 0.15
    axis.set(xticks=[], yticks=[], aspect="equal", xlim=(low, high), ylim=(low, high))
    axis.set_title(title, fontsize=8)
    lines = np.stack([points[edges.row], points[edges.col]], 1)
    axis.add_collection(LineCollection(list(lines), colors="0.75", linewidths=0.5, zorder=1))
    colour = (original - original.min(0)).sum(1)
    axis.scatter(points[:, 0], points[:, 1], s=5, c=colour, cmap="viridis", zorder=2)


@commands.command(
    "softcut.paper.autoencoder",
    commands.choices("--dataset", tuple(DATASETS)),
    commands.choices("--method", METHODS),
    commands.runs(10),
    commands.MINUTES,
    commands.option("--decay", action="store_true", help="not the paper's: let the learning rate fall to 0"),
    commands.MAX_ITER,
)
def main(given: Any, screen: commands.Screen) -> None:
    """E4: ring and grid, reconstructed from a quarter of the nodes by each pooler."""
    settings = Settings(decay=given.decay, iterations=given.max_iter or Settings.iterations)
    chosen = (given.dataset or tuple(DATASETS), given.method or METHODS, settings, given.minutes)
    with screen.working() as bar:

        def tell(cell: str, iteration: int, iterations: int, mse: float) -> None:
            if iteration % 500 == 0:
                bar.tell(f"{cell}: iteration {iteration} of at most {iterations}, median MSE {mse:.2e}")

        made = run(given.runs, given.out, given.device, tell, *chosen)
    screen.show(table(made))


if __name__ == "__main__":
    main()
