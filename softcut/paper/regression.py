"""E6, table 3: nine properties of QM9's molecules, ten folds, four methods.

All folds and properties of a method train side by side, 90 networks in one step
(:class:`softcut.training.DenseBatchTask`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold
from torch import Tensor, nn

from softcut.datasets.qm9 import PROPERTIES, Molecules, load_molecules
from softcut.errors import ParameterError
from softcut.graph.collection import Split, hold_out
from softcut.nn.models import GraphRegressor
from softcut.paper import commands, default_regression
from softcut.paper.comparison import FOLDS, Results, grid, paper_numbers
from softcut.paper.poolers import stated
from softcut.paper.runs import Pair, Progress, RunSession, Tell, cells, check_names, quiet, settings_hash
from softcut.paper.runs import merge as merge_folders
from softcut.report.tables import Table, cell_table
from softcut.training import Checkpoint, DenseBatchTask, Loop, LoopProgress, LoopResult

PAPER_METHODS = ("topk", "diffpool", "mincut", "flat")
METHODS = (*PAPER_METHODS, "default")  # the last is that of GraphRegression, see default_regression.py

_PAPER_ROWS: dict[str, str] = {
    "mu": ".600±.085 .651±.026 .538±.012 .559±.007",
    "alpha": ".197±.087 .114±.001 .078±.007 .065±.006",
    "homo": ".698±.102 .712±.015 .526±.021 .435±.013",
    "lumo": ".601±.050 .646±.013 .540±.005 .515±.007",
    "gap": ".630±.044 .698±.004 .584±.007 .552±.008",
    "r2": ".452±.087 .440±.024 .261±.006 .204±.006",
    "zpve": ".402±.032 .410±.004 .328±.005 .284±.005",
    "u0_atom": ".308±.055 .245±.006 .193±.002 .163±.001",
    "cv": ".291±.118 .337±.018 .148±.004 .127±.002",
}
# (mean, standard deviation) of the test MSE of standardised targets.
PAPER = paper_numbers(_PAPER_ROWS, PAPER_METHODS, "mse")

QM9_MOLECULES = 130_831
VALIDATION = 0.1  # share of each training part
POOLERS = {"topk": "topk", "diffpool": "diffpool", "mincut": "mincut", "flat": "nopool"}

# Also part of what runs are known by; trials with other values are in results/.
_FIXED: Mapping[str, Any] = {"bond_orders": False, "readout": "mean"}
_ORDER = ("batch", "lr", "epochs", "hidden", "k", *_FIXED, "unmasked", "molecules", "pool_args")


@dataclass(frozen=True)
class RegressionSettings:
    """How a regressor is trained; the defaults are the paper's."""

    batch: int = 32  # molecules of each replica in a step
    lr: float = 5e-4
    epochs: int = 50  # all are run; the test error is taken at the one with the lowest validation error
    hidden: int = 32
    k: int = 4  # clusters: half of the mean number of heavy atoms, rounded up to 9
    unmasked: bool = False  # padding counts as atoms: 9 nodes each, some without edges and features
    molecules: int | None = None  # how many are drawn at random; None: all 130,831
    pool_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("batch", "lr", "epochs", "hidden", "k"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, got {getattr(self, name)}.", argument=name)
        if self.molecules is not None and self.molecules < 10 * FOLDS:
            raise ParameterError(
                f"molecules must be at least {10 * FOLDS}, got {self.molecules}.", argument="molecules"
            )

    @property
    def known(self) -> dict[str, Any]:
        """What a run is known by, besides its folds and seed."""
        return {**asdict(self), "pool_args": dict(self.pool_args), **_FIXED}

    def changed(self) -> dict[str, Any]:
        """What differs from the paper's settings."""
        return _changed(self.known)


QUICK: Mapping[str, Any] = {"molecules": 2000, "epochs": 10}  # a trial on a CPU: minutes, not the table


def _changed(known: Mapping[str, Any]) -> dict[str, Any]:
    default = RegressionSettings().known
    if "levels" in known:  # of the default, which has settings of its own
        return {}
    return {name: known[name] for name in _ORDER if known.get(name, default[name]) != default[name]}


def table_of(settings: RegressionSettings) -> str:
    """The name of the files for cells and runs: trials with other settings stand in files of their own."""
    return "table3_trials" if settings.changed() else "table3"


def label_of(method: str, known: Mapping[str, Any]) -> str:
    """The method's name, and in brackets what differs from the paper's settings in those that a run is known by.

    >>> label_of("mincut", {"k": 4}), label_of("mincut", {"k": 5, "unmasked": True, "pool_args": {"hidden": 8}})
    ('mincut', 'mincut (k 5, unmasked, pool hidden 8)')
    """
    parts = []
    for name, value in _changed(known).items():
        pairs = {f"pool {n}": v for n, v in value.items()} if name == "pool_args" else {name: value}
        parts += [n.replace("_", " ") + ("" if v is True else f" {v}") for n, v in pairs.items()]
    return f"{method} ({', '.join(parts)})" if parts else method


class PaddedRegressor(nn.Module):
    """A :class:`~softcut.nn.GraphRegressor` for padded graphs.

    Called as ``net(x, adjacency, mask)`` with [B, N, F], [B, N, N] and [B, N]; returns a number and the sum of the
    poolers' losses for every graph, [B] each. All shapes are fixed, as ``torch.func.vmap`` and CUDA graphs ask.
    """

    def __init__(self, net: GraphRegressor) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        out = self.net(x, adjacency, mask=mask.bool())
        auxiliary = x.new_zeros(x.shape[0])
        for pooled in out.pooled:
            auxiliary = sum(pooled.graph_losses.values(), auxiliary)
        return out.y.squeeze(-1), auxiliary


def regressor(
    method: str,
    features: int,
    seed: int,
    k: int = 4,
    pool_args: Mapping[str, Any] | None = None,
    hidden: int = 32,
) -> PaddedRegressor:
    """MP - pool - MP - mean - linear with the weights that `seed` draws."""
    pool = POOLERS[method]
    options: dict[str, Any] = {"k": k, "hidden": hidden, "pool_args": stated(pool, pool_args or {})}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PaddedRegressor(GraphRegressor(features, pool=pool, **options))


def squared_error(output: tuple[Tensor, Tensor], target: Tensor) -> dict[str, Tensor]:
    """Squared error and the poolers' losses of every molecule."""
    predicted, auxiliary = output
    return {"mse": (predicted - target).square(), "auxiliary": auxiliary}


def folds_of(count: int, seed: int = 0) -> list[Split]:
    """Ten shuffled folds of `count` molecules; a tenth of each training part is for validation."""
    parts = []
    every = KFold(FOLDS, shuffle=True, random_state=seed).split(np.arange(count))
    for number, (rest, test) in enumerate(every):
        own = hold_out(np.zeros(len(rest), np.int64), VALIDATION, seed=1000 * seed + number)
        parts.append(Split(rest[own.train], rest[own.validation], test))
    return parts


def build_task(
    molecules: Molecules,
    method: str,
    pairs: Sequence[Pair],
    settings: RegressionSettings,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
) -> DenseBatchTask:
    """Models, molecules on the device, standardised targets and orders for some properties and folds.

    Targets are standardised by the mean and standard deviation of each replica's own training molecules.
    """
    device = torch.device(device)
    adjacency, mask = molecules.dense_adjacency()
    given = (molecules.dense_features(), adjacency, np.ones_like(mask) if settings.unmasked else mask)
    x, adjacency_, mask_ = (torch.from_numpy(array).to(device, dtype) for array in given)
    parts = folds_of(len(molecules), seed)
    targets = torch.empty(len(pairs), len(molecules), dtype=dtype)
    for row, (name, fold) in enumerate(pairs):
        values = molecules.targets[:, PROPERTIES.index(name)].astype(np.float64)
        train = values[parts[fold].train]
        targets[row] = torch.from_numpy((values - train.mean()) / train.std())
    options: dict[str, Any] = {"hidden": settings.hidden, "k": settings.k, "pool_args": settings.pool_args}
    # Another seed of weights and orders for every property and fold.
    seeds = [1000 * seed + 100 * PROPERTIES.index(name) + fold for name, fold in pairs]
    models = [regressor(method, x.shape[-1], own, **options).to(dtype) for own in seeds]
    return DenseBatchTask(
        models,
        [x, adjacency_, mask_],
        targets.to(device),
        [parts[fold] for _, fold in pairs],
        squared_error,
        seeds,
        settings.batch,
        evaluation_batch=1024 if device.type == "cuda" else 128,
        compiled=compiled,
    )


def run(
    out: str | Path,
    properties: Sequence[str] = PROPERTIES,
    methods: Sequence[str] = METHODS,
    folds: int = FOLDS,
    *,
    minutes: float | None = None,
    seed: int = 0,
    settings: RegressionSettings | None = None,
    device: torch.device | str = "cpu",
    data: str | Path | None = None,
    compiled: bool = False,
    tell: Tell = quiet,
    progress: Progress = quiet,
) -> list[dict[str, Any]]:
    """Train what is missing; write ``table3.json`` (cells), ``table3_runs.json`` and ``table3_curves.json``.

    With settings other than the paper's the files are called ``table3_trials``, and cells name what is different.
    """
    check_names(properties, PROPERTIES, "properties")
    check_names(methods, METHODS, "methods")
    if not 1 <= folds <= FOLDS:
        raise ParameterError(f"folds must be between 1 and {FOLDS}, got {folds}.", argument="folds")
    settings = RegressionSettings() if settings is None else settings
    session, table = RunSession(out, device, minutes, tell), table_of(settings)
    drawn = {"split_seed": seed, "folds": FOLDS, "validation": VALIDATION}
    known = {**settings.known, **drawn}
    random = np.random.default_rng(seed)
    molecules: Molecules | None = None

    def train(method: str, pairs: list[Pair]) -> None:
        """Train properties and folds side by side, and record them; a checkpoint is left where the time is up."""
        nonlocal molecules
        if molecules is None:
            every, count = load_molecules(data), settings.molecules
            chosen = (
                None
                if count is None or count >= len(every)
                else random.choice(len(every), count, replace=False)
            )
            molecules = every if chosen is None else every[chosen]
            session.tell(f"{len(molecules)} molecules of QM9")
        if method == "default":
            train_default(molecules, pairs)
            return
        networks = f"{len(pairs)} network{'s' if len(pairs) > 1 else ''}"
        session.tell(f"{method}: {networks}, {settings.epochs} epochs")
        task = build_task(
            molecules, method, pairs, settings, seed=seed, device=session.device, compiled=compiled
        )
        identity = {"method": method, "replicas": [list(pair) for pair in pairs], **known}
        checkpoint = session.checkpoint(f"{table}-{method}", identity)
        watch = session.watch(
            method, settings.epochs, _describe, partial(progress, method, range(len(pairs)))
        )
        # The poolers' losses do not count in the choice of the best epoch.
        steps = task.settings(settings.epochs, settings.lr, {"mse": 1.0, "auxiliary": 1.0}, watch="mse")
        result = Loop(task, steps).run(watch, Checkpoint(checkpoint, identity), session.left)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.timed_out:
            done = result.iterations / task.steps
            session.tell(f"{method} stopped after {done:.1f} epochs; the same command continues it")
            return
        seconds = round(result.seconds / len(pairs), 3)
        shared = {"method": method, "settings": known, "seconds": seconds, "trained_together": len(pairs)}
        runs = [
            {"dataset": name, "seed": fold, **shared, **_measured(result, row)}
            for row, (name, fold) in enumerate(pairs)
        ]
        session.keep(table, runs, checkpoint, _curves(method, pairs, known, result))
        session.tell(f"{method}: {networks} took {result.seconds:.1f} s")

    def train_default(molecules: Molecules, pairs: list[Pair]) -> None:
        """One network per fold learns all properties."""
        own = sorted({fold for _, fold in pairs})
        task = default_regression.build_task(
            molecules, own, folds_of(len(molecules), seed), seed, session.device
        )
        settled = default_regression.known(len(molecules))
        identity = {"method": "default", "folds": own, "split_seed": seed, **settled}
        checkpoint = session.checkpoint("table3-default", identity)
        watch = session.watch("default", settled["epochs"], _describe, partial(progress, "default", own))
        minimise = {"mse": 1.0, "l2": settled["l2"]}
        steps = task.settings(settled["epochs"], settled["lr"], minimise, watch="mse")
        result = Loop(task, steps).run(watch, Checkpoint(checkpoint, identity), session.left)
        if result.interrupted:
            raise KeyboardInterrupt
        if result.timed_out:
            session.tell("default stopped; the same command continues it")
            return
        shared: dict[str, Any] = {"method": "default", "settings": {**settled, **drawn}}
        shared |= {"seconds": round(result.seconds / len(pairs), 3), "trained_together": len(own)}
        runs = [
            {"dataset": pair[0], "seed": pair[1], **shared}
            | default_regression.measured(result, own.index(pair[1]), pair)
            for pair in pairs
        ]
        session.keep("table3_trials" if settings.molecules else "table3", runs, checkpoint)
        session.tell(f"default: {len(own)} networks took {result.seconds:.1f} s")

    made: list[dict[str, Any]] = []
    for method in methods:
        settled, place = known, table
        if method == "default":
            settled = {**default_regression.known(settings.molecules or QM9_MOLECULES), **drawn}
            place = "table3_trials" if settings.molecules else "table3"
        made += session.fill(place, method, properties, folds, settled, partial(train, method), _cells)
    return made


def _describe(state: LoopProgress) -> str:
    training, validation = (state.validation[name].mean() for name in ("training_mse", "mse"))
    return f"MSE: training {training:.4f}, validation {validation:.4f}"


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The cells of runs that share a property, a method and settings; those of a trial name what is different."""
    method = runs[0]["method"]
    label = label_of(method, runs[0]["settings"])
    command = command_for(method, known=runs[0]["settings"], folds=len(runs))
    made = cells(runs, ["mse", "mse_last"], PAPER, command)
    return [{**cell, "method": label} for cell in made]


def _measured(result: LoopResult, row: int) -> dict[str, Any]:
    """What one replica came to."""
    values = {name: numbers[:, row] for name, numbers in result.validation.items()}
    best = int(np.argmin(values["mse"]))
    return {
        "mse": round(float(values["test_mse"][best]), 6),
        "mse_last": round(float(values["test_mse"][-1]), 6),
        "best_epoch": best + 1,
        "epochs": len(values["mse"]),
        "validation_mse": round(float(values["mse"][best]), 6),
        "training_mse": round(float(values["training_mse"][best]), 6),
        "auxiliary": round(float(values["test_auxiliary"][best]), 6),
    }


def _curves(
    method: str, pairs: Sequence[Pair], known: Mapping[str, Any], result: LoopResult
) -> list[dict[str, Any]]:
    """MSE after every epoch, mean over the folds of a property."""
    curves = []
    for name in dict.fromkeys(name for name, _ in pairs):
        rows = [row for row, pair in enumerate(pairs) if pair[0] == name]
        curve: dict[str, Any] = {"dataset": name, "method": method, "settings": settings_hash(known)}
        curve["folds"] = [pairs[row][1] for row in rows]
        for part, key in (("training", "training_mse"), ("validation", "mse"), ("test", "test_mse")):
            curve[part] = [round(float(v), 5) for v in result.validation[key][:, rows].mean(1)]
        curves.append(curve)
    return curves


def results(out: str | Path) -> Results:
    """The cells and runs of a folder; "mse" is that at the best validation epoch."""
    return Results(out, ("table3",), "mse", "mse", "regression", digits=3, higher=False)


def table(measured: Results) -> Table:
    """Table 3: measured, and the paper's; bold is the lowest error, or not significantly higher."""
    note = (
        "Test MSE of standardised properties at the epoch with the lowest validation MSE, mean ± standard deviation "
        "over ten folds; in brackets the paper's. Bold: the lowest, and those not significantly higher "
        "(Student's paired test over folds with the variance corrected for the overlap of their training parts, "
        "Nadeau and Bengio, 2003; one-sided, 5 %)."
    )
    return replace(grid(measured, "property", PROPERTIES, METHODS, among=METHODS), notes=[note])


def command_for(
    method: str, name: str | None = None, known: Mapping[str, Any] | None = None, folds: int = FOLDS
) -> str:
    """What makes a method's cells, or its cell of one property, with the settings that a run is known by.

    >>> command_for("mincut", known={"k": 6, "unmasked": True}, folds=2)
    'softcut reproduce regression --method mincut --folds 2 --k 6 --unmasked'
    """
    words = ["softcut reproduce regression --method", method]
    words += [] if name is None else ["--property", name]
    words += [] if folds == FOLDS else ["--folds", str(folds)]
    for setting, value in _changed(known or {}).items():
        words += [f"--{setting}"] if value is True else [f"--{setting}", str(value)]
    return " ".join(words)


def merge(out: str | Path, folders: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Put the runs of several folders into `out`, and write its cells; see :func:`softcut.paper.runs.merge`."""
    return merge_folders(out, folders, ("table3", "table3_trials"), _cells)


_NUMBERS = {"batch": int, "epochs": int, "lr": float, "k": int, "molecules": int}


@commands.command(
    "softcut.paper.regression",
    commands.choices("--property", PROPERTIES),
    commands.choices("--method", METHODS),
    *commands.OF_FOLDS,
    *commands.settings_options(RegressionSettings(), _NUMBERS),
    commands.option(
        "--unmasked", action="store_true", help="padding counts as atoms: all molecules have 9 nodes"
    ),
    commands.option("--quick", action="store_true", help=f"a trial, not the table: {dict(QUICK)}"),
    commands.option(
        "--compile", action="store_true", help="compile the step (a minute per method, then faster)"
    ),
)
def main(given: Any, screen: commands.Screen) -> None:
    """E6: table 3, nine properties of molecules (QM9) by four methods; an interrupted run resumes."""
    if given.merge:
        screen.show(cell_table(merge(given.out, given.merge)))
        return
    changed = {**(QUICK if given.quick else {}), **commands.given_settings(given, _NUMBERS)}
    settings = RegressionSettings(**changed, unmasked=given.unmasked)
    if settings.changed():
        screen.note(f"a trial with {settings.changed()}, not the table of the paper.")
    properties, methods = given.property or PROPERTIES, given.method or METHODS
    options = {name: getattr(given, name) for name in ("folds", "minutes", "seed", "device", "data")}
    with screen.working(len(methods)) as bar:
        options |= {"compiled": given.compile, "tell": bar.tell, "progress": bar.update}
        made = run(given.out, properties, methods, settings=settings, **options)
    if made:
        screen.show(cell_table(made, "Table 3: test MSE of standardised properties"))
    if len(made) < 2 * len(properties) * len(methods):
        screen.note("the time was up before everything was finished. The same command continues.")


if __name__ == "__main__":
    main()
