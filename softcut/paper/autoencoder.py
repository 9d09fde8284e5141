"""E4, the autoencoder: reconstruct the coordinates of a ring and a grid from a quarter of the nodes.

What is run: conv 32, conv 32 (tanh), pool, lift, conv 32, conv 32 (tanh), conv 2 (linear); the decoder
sees the original graph and the lifted features only. Adam 5e-3, at most 10,000 iterations, trained and
stopped on MSE + auxiliary losses with patience 1,000 and tolerance 1e-5; the MSE at the best value of that
sum is what is reported. All seeds of a cell are replicas of one vectorised model. The paper shows pictures
and no numbers here: MinCutPool near perfect on both, DiffPool poor on the ring, Top-K failing on both.

DiffPool is run twice: with its link loss as the paper's authors have it (undivided), and divided by N^2 as
PyTorch Geometric has it. ``Settings(decay=True)`` lets the learning rate fall to
zero: without it, what is compared is partly how much Adam still shakes each pooler at the end.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from softcut.datasets import grid_graph, ring_graph
from softcut.errors import ParameterError
from softcut.files import atomic_json, atomic_write
from softcut.graph import Graph
from softcut.nn.models import GraphAutoencoder
from softcut.ops import as_operator
from softcut.training import repeat
from softcut.training.runs import commit, device_name

__all__ = ["DATASETS", "METHODS", "Settings", "draw", "run", "table", "train_replicas"]

DATASETS: dict[str, Callable[[], Graph]] = {
    "ring": lambda: ring_graph(200),
    "grid": lambda: grid_graph(30, 30),
}
# The paper's three (DiffPool with either scale of its link loss), then what it did not try.
METHODS = ("topk", "diffpool", "diffpool_divided", "mincut", "sagpool", "graclus", "ndp")
TITLES = {
    "topk": "Top-K",
    "diffpool": "DiffPool",
    "diffpool_divided": "DiffPool, link loss / N²",
    "mincut": "MinCutPool",
    "sagpool": "SAGPool",
    "graclus": "Graclus",
    "ndp": "NDP",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "diffpool_divided": {"link_scale": "divided"},
    "graclus": {"reduction": "mean"},
}
_CHECK = 50  # iterations between looks at whether every replica has stopped
_SAVE = 60.0  # seconds between checkpoints


@dataclass(frozen=True)
class Settings:
    """What decides a result besides the data, the pooler and the seed.

    `decay` is not the paper's: half a cosine from the learning rate down to 0 over all iterations.

    >>> Settings().learning_rate
    0.005
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
        """What the files of these results are called."""
        return "autoencoder_decay" if self.decay else "autoencoder"


class Replicas(NamedTuple):
    """Per-seed results: MSE, total loss and iteration of the best moment, iterations run, reconstruction."""

    mse: list[float]
    loss: list[float]
    best_iteration: list[int]
    iterations: list[int]
    x: np.ndarray
    seconds: float


Callback = Callable[[str, int, int, float], None]


def train_replicas(
    graph: Graph,
    method: str,
    seeds: Sequence[int],
    settings: Settings | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Replicas:
    """Train one autoencoder a seed, all in one step.

    >>> from softcut.datasets import ring_graph
    >>> result = train_replicas(ring_graph(20), "topk", [0, 1], Settings(iterations=5))
    >>> len(result.mse), result.x.shape
    (2, (2, 20, 2))

    Parameters
    ----------
    graph : Graph
        With coordinates as features.
    method : str
        Name of a pooler.
    seeds : sequence of int
        One replica each; a replica's result does not depend on its company.
    settings : Settings, optional
        The paper's by default.
    device : str or torch.device
        Where to train.
    checkpoint : path, optional
        Saved about once a minute and taken up again if it exists; removed by the caller.
    progress : callable, optional
        Called with (iteration, median MSE) now and then.
    """
    settings = settings or Settings()
    device = torch.device(device)
    if graph.x is None:
        raise ParameterError("graph must have features: the coordinates to reconstruct.")
    x = torch.as_tensor(np.asarray(graph.x), dtype=torch.float32, device=device)
    op = as_operator(graph, dtype=torch.float32, device=device)
    n, replicas = x.shape[0], len(seeds)
    models = []
    with torch.random.fork_rng(devices=[]):
        for seed in seeds:
            torch.manual_seed(seed)
            models.append(
                GraphAutoencoder(
                    x.shape[1],
                    method.removesuffix("_divided"),
                    settings.hidden,
                    k=round(settings.ratio * n),
                    ratio=settings.ratio,
                    pool_args=OPTIONS.get(method),
                )
            )
    model = models[0].to(device)
    params, buffers = stack_module_state([m.to(device) for m in models])
    cuda = device.type == "cuda"
    rate: float | Tensor = settings.learning_rate
    if cuda or settings.decay:
        rate = torch.tensor(rate, device=device)
    optimiser = torch.optim.Adam(params.values(), lr=rate, capturable=cuda)

    def one(p: dict[str, Tensor], b: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        out = functional_call(model, (p, b), (x, op))
        return out.x, (out.x - x).square().mean(), out.pooled.loss

    # All that the step reads or writes is in fixed tensors, so that a CUDA graph can replay it.
    position = torch.zeros((), dtype=torch.long, device=device)
    best = {
        "loss": torch.full((replicas,), torch.inf, device=device),
        "mse": torch.full((replicas,), torch.inf, device=device),
        "at": torch.zeros(replicas, dtype=torch.long, device=device),
        "stop": torch.full((replicas,), settings.iterations, dtype=torch.long, device=device),
        "x": torch.zeros(replicas, *x.shape, device=device),
    }

    def step() -> None:
        reconstruction, mse, auxiliary = vmap(one)(params, buffers)
        total = mse + auxiliary
        optimiser.zero_grad(set_to_none=not cuda)
        total.sum().backward()
        with torch.no_grad():
            running = best["stop"] > position
            better = running & (total < best["loss"] - settings.tolerance)
            now = {"loss": total, "mse": mse, "at": position, "x": reconstruction}
            for name, value in now.items():
                chosen = better.view(-1, *[1] * (best[name].dim() - 1))
                best[name].copy_(torch.where(chosen, value, best[name]))
            tired = running & (position - best["at"] >= settings.patience)
            best["stop"].copy_(torch.where(tired, position, best["stop"]))
        optimiser.step()
        position.add_(1)
        if settings.decay:
            current = optimiser.param_groups[0]["lr"]
            angle = torch.pi * position.to(current.dtype) / settings.iterations
            current.copy_(settings.learning_rate * 0.5 * (1 + torch.cos(angle)))

    start, spent = 0, 0.0
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        state = torch.load(path, map_location=device, weights_only=True)
        if state["settings"] == asdict(settings) and state["seeds"] == list(seeds):
            with torch.no_grad():
                for name, value in state["params"].items():
                    params[name].copy_(value)
            for group in state["optimiser"]["param_groups"]:  # the checkpoint may be another device's
                group["capturable"] = cuda
                now_rate = float(group["lr"])
                group["lr"] = torch.tensor(now_rate, device=device) if cuda or settings.decay else now_rate
            optimiser.load_state_dict(state["optimiser"])
            best, start, spent = state["best"], state["iteration"], state["seconds"]
            position.fill_(start)
    began = saved = time.perf_counter()
    for i, _ in enumerate(repeat(step, settings.iterations - start, capture=cuda), start):
        if (i + 1) % _CHECK == 0:
            if progress is not None:
                progress(i + 1, float(best["mse"].median()))
            if bool((best["stop"] <= i).all()):
                break
            if path is not None and time.perf_counter() - saved > _SAVE:
                saved = time.perf_counter()
                state = {
                    "settings": asdict(settings),
                    "seeds": list(seeds),
                    "params": {k: v.detach() for k, v in params.items()},
                    "optimiser": optimiser.state_dict(),
                    "best": best,
                    "iteration": i + 1,
                    "seconds": spent + saved - began,
                }
                _save(path, state)
    return Replicas(
        best["mse"].tolist(),
        best["loss"].tolist(),
        best["at"].tolist(),
        best["stop"].tolist(),
        best["x"].cpu().numpy(),
        spent + time.perf_counter() - began,
    )


def _save(path: Path, state: dict[str, Any]) -> None:
    atomic_write(path, lambda file: torch.save(state, file))


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    atomic_write(path, lambda file: np.savez_compressed(file, **arrays))


def signal_variance(graph: Graph) -> float:
    """Mean over the coordinates of their variance: the MSE of the best constant.

    >>> from softcut.datasets import ring_graph
    >>> round(signal_variance(ring_graph(200)), 6)
    0.5
    """
    return float(np.asarray(graph.x, dtype=np.float64).var(axis=0).mean())


def run(
    runs: int = 10,
    out_dir: str | os.PathLike[str] = "results",
    device: str | torch.device = "cpu",
    progress: Callback | None = None,
    seed: int = 0,
    datasets: Sequence[str] = tuple(DATASETS),
    methods: Sequence[str] = METHODS,
    settings: Settings | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Fill every cell that is not in ``out_dir/autoencoder.json`` yet; write the table and the figure.

    A cell is a data set and a pooler; its seeds ``seed .. seed + runs - 1`` train side by side. The file
    is replaced after each cell, and an interrupted cell goes on from its last checkpoint.

    Parameters
    ----------
    runs : int
        Seeds.
    out_dir : path
        Where autoencoder.json, autoencoder.npz (reconstructions) and autoencoder.png go (autoencoder_decay.*
        with `decay`).
    device : str or torch.device
        Where to train.
    progress : callable, optional
        Called with (cell, iteration, iterations, median MSE).
    seed : int
        The first seed.
    datasets, methods : sequence of str
        Which cells.
    settings : Settings, optional
        The paper's by default.
    command : str, optional
        Recorded with the results; the command line by default.
    """
    for given, valid, what in ((datasets, DATASETS, "datasets"), (methods, METHODS, "methods")):
        unknown = [g for g in given if g not in valid]
        if unknown:
            raise ParameterError(f"{what} must be among {', '.join(valid)}, got {', '.join(unknown)}.")
    if runs < 1:
        raise ParameterError(f"runs must be at least 1, got {runs}.")
    settings = settings or Settings()
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    report, arrays = _load(out, settings.name)
    seeds = list(range(seed, seed + runs))
    for dataset in datasets:
        graph = DATASETS[dataset]()
        for method in methods:
            cell = f"{dataset}/{method}"
            known = [c for c in report["cells"] if (c["dataset"], c["method"]) == (dataset, method)]
            if (
                known
                and known[0]["settings"] == asdict(settings)
                and known[0]["seeds"] == seeds
                and cell in arrays
            ):
                continue
            checkpoint = out / f".{settings.name}-{dataset}-{method}.pt"
            report_progress = None
            if progress is not None:

                def report_progress(
                    i: int, mse: float, cell: str = cell, notify: Callback = progress
                ) -> None:
                    notify(cell, i, settings.iterations, mse)

            result = train_replicas(graph, method, seeds, settings, device, checkpoint, report_progress)
            variance = signal_variance(graph)
            _forget(report, dataset, method)
            report["runs"] += [
                {
                    "dataset": dataset,
                    "method": method,
                    "seed": s,
                    "mse": result.mse[r],
                    "mse_over_variance": result.mse[r] / variance,
                    "loss": result.loss[r],
                    "best_iteration": result.best_iteration[r],
                    "iterations": result.iterations[r],
                }
                for r, s in enumerate(seeds)
            ]
            median = statistics.median(result.mse)
            report["cells"].append(
                {
                    "dataset": dataset,
                    "method": method,
                    "metric": "mse",
                    "mean": statistics.fmean(result.mse),
                    "std": statistics.pstdev(result.mse),
                    "median": median,
                    "median_over_variance": median / variance,
                    "n": runs,
                    "paper_mean": None,
                    "paper_std": None,
                    "seconds": round(result.seconds, 1),
                    "device": device_name(device),
                    "commit": commit(),
                    "command": command or " ".join([Path(sys.argv[0]).stem, *sys.argv[1:]]),
                    "settings": asdict(settings),
                    "seeds": seeds,
                }
            )
            arrays[cell] = result.x.astype(np.float32)
            _save_arrays(out / f"{settings.name}.npz", arrays)
            atomic_json(out / f"{settings.name}.json", report)
            checkpoint.unlink(missing_ok=True)
    draw(out, settings.name)
    return report


def _load(out: Path, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    import json

    report: dict[str, Any] = {"experiment": "E4 autoencoder", "cells": [], "runs": []}
    arrays: dict[str, np.ndarray] = {}
    if (out / f"{name}.json").exists():
        report = json.loads((out / f"{name}.json").read_text())
    if (out / f"{name}.npz").exists():
        with np.load(out / f"{name}.npz", allow_pickle=False) as stored:
            arrays = dict(stored)
    return report, arrays


def _forget(report: dict[str, Any], dataset: str, method: str) -> None:
    for part in ("cells", "runs"):
        report[part] = [r for r in report[part] if (r["dataset"], r["method"]) != (dataset, method)]


def percent(share: float) -> str:
    """Two digits that count, without an exponent above 10 %.

    >>> percent(0.000426), percent(0.9996)
    ('0.043 %', '100 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def table(report: dict[str, Any]) -> str:
    """The results as a Markdown table.

    >>> cell = {"dataset": "ring", "method": "topk", "mean": 0.3, "std": 0.1, "median": 0.3, "n": 10}
    >>> print(table({"cells": [cell | {"median_over_variance": 0.6, "seconds": 1.0, "device": "cpu"}]}))
    | data | pooler | MSE, mean ± std | median | median / variance | runs | seconds |
    |---|---|---|---|---|---|---|
    | ring | Top-K | 3.00e-01 ± 1.0e-01 | 3.00e-01 | 60 % | 10 | 1.0 (cpu) |
    """
    lines = ["| data | pooler | MSE, mean ± std | median | median / variance | runs | seconds |"]
    lines.append("|---|---|---|---|---|---|---|")
    order = {m: i for i, m in enumerate(METHODS)}
    for c in sorted(report["cells"], key=lambda c: (c["dataset"] != "ring", order[c["method"]])):
        lines.append(
            f"| {c['dataset']} | {TITLES[c['method']]} | {c['mean']:.2e} ± {c['std']:.1e} | {c['median']:.2e} "
            f"| {percent(c['median_over_variance'])} | {c['n']} | {c['seconds']} ({c['device']}) |"
        )
    return "\n".join(lines)


def draw(out_dir: str | os.PathLike[str], name: str = "autoencoder") -> Path | None:
    """The figure: original and reconstructions side by side, the run with the median MSE of each cell."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    out = Path(out_dir)
    report, arrays = _load(out, name)
    if not arrays:
        return None
    datasets = [d for d in DATASETS if any(a.startswith(f"{d}/") for a in arrays)]
    methods = [m for m in METHODS if any(f"{d}/{m}" in arrays for d in datasets)]
    size = (2.2 * (len(methods) + 1), 2.5 * len(datasets))
    figure, axes = plt.subplots(len(datasets), len(methods) + 1, figsize=size, squeeze=False)
    for row, dataset in enumerate(datasets):
        graph = DATASETS[dataset]()
        original = np.asarray(graph.x)
        coo = graph.adjacency.tocoo()
        low, high = original.min() - 0.15, original.max() + 0.15
        for col, method in enumerate(["original", *methods]):
            axis = axes[row, col]
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_aspect("equal")
            axis.set_xlim(low, high)
            axis.set_ylim(low, high)
            points, title = original, "original"
            if method != "original":
                runs = [r for r in report["runs"] if (r["dataset"], r["method"]) == (dataset, method)]
                if not runs:
                    axis.set_axis_off()
                    continue
                ranked = sorted(range(len(runs)), key=lambda i: runs[i]["mse"])
                middle = ranked[(len(ranked) - 1) // 2]
                points = arrays[f"{dataset}/{method}"][middle]
                share = percent(runs[middle]["mse_over_variance"])
                title = f"{TITLES[method]}\nMSE {share} of variance"
            axis.set_title(title, fontsize=8)
            lines = np.stack([points[coo.row], points[coo.col]], 1)
            axis.add_collection(LineCollection(list(lines), colors="0.75", linewidths=0.5, zorder=1))
            colour = original[:, 0] - original[:, 0].min() + (original[:, 1] - original[:, 1].min())
            axis.scatter(points[:, 0], points[:, 1], s=5, c=colour, cmap="viridis", zorder=2)
    figure.tight_layout()
    path = out / f"{name}.png"
    atomic_write(path, lambda file: figure.savefig(file, format="png", dpi=150))
    plt.close(figure)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.autoencoder --runs 10 --out results``."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m softcut.paper.autoencoder", description=main.__doc__)
    parser.add_argument("--runs", type=int, default=10, help="seeds a cell")
    parser.add_argument("--out", default="results", help="folder of the results")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=list(DATASETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--decay", action="store_true", help="let the learning rate fall to 0")
    given = parser.parse_args(arguments)
    words = sys.argv[1:] if arguments is None else list(arguments)

    def show(cell: str, i: int, of: int, mse: float) -> None:
        if i % 500 == 0:
            print(f"{cell}: iteration {i} of {of}, median MSE {mse:.2e}", flush=True)

    command = " ".join(["python -m softcut.paper.autoencoder", *words])
    report = run(
        given.runs,
        given.out,
        given.device,
        show,
        datasets=given.datasets,
        methods=given.methods,
        settings=Settings(decay=given.decay),
        command=command,
    )
    print(table(report))


if __name__ == "__main__":
    main()
