"""The job of one process: open a part, train all replicas with the other processes, judge them, label its nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.errors import ParameterError
from softcut.io.parts import Manifest, Part, open_part, read_manifest
from softcut.ops.halo import Halo
from softcut.training.distributed.group import JobGroup
from softcut.training.distributed.inputs import (
    PaperInput,
    Sample,
    Start,
    distances,
    kmeans_start,
    replica_scales,
)
from softcut.training.distributed.selection import SELECT, best_replica, consensus, judge
from softcut.training.distributed.task import PartTask, SharedCheckpoint
from softcut.training.distributed.traffic import Traffic
from softcut.training.inputs import DenseInput, FirstLayer
from softcut.training.loop import Loop
from softcut.training.net import ReplicaNet, replica_seeds
from softcut.training.stopping import Plateau
from softcut.training.task import LoopProgress, LoopSettings

__all__ = ["DistributedResult", "DistributedSettings", "train_part"]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class DistributedSettings:
    """How a graph in parts is clustered; the defaults are those of :class:`softcut.MinCutClustering`.

    >>> DistributedSettings(k=7).iterations, DistributedSettings.paper(7).iterations
    (200, 10000)

    Attributes
    ----------
    k : int
        Clusters.
    replicas : int
        Networks trained together; the best is selected.
    hops : tuple of int
        The distances over which features are propagated; each replica reads one. Not used by the paper's network.
    iterations, lr, tolerance, patience, ortho_weight, temperature, hidden
        As in :class:`softcut.training.TrainSettings`.
    start : int
        Iterations spent on learning a k-means of the features before the cut is minimised; 0 for none.
    select : {"consensus", "evidence", "loss"}
        Labels are the consensus of the replicas (a k-means of all their assignments, on a sample of the nodes), or
        those of the best one: with the most evidence, or the lowest loss.
    seed : int
        What all random numbers are drawn from.
    dtype : {"float32", "float64"}
        Of the training.
    """

    k: int
    replicas: int = 6
    hops: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    iterations: int = 200
    lr: float = 1e-2
    tolerance: float | None = 1e-3
    patience: int = 50
    ortho_weight: float = 2.0
    temperature: float = 1.0
    hidden: int = 16
    start: int = 40
    select: str = "consensus"
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name in ("k", "replicas", "iterations", "lr", "patience", "temperature", "hidden"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("start", "ortho_weight", "seed"):
            if not getattr(self, name) >= 0:
                raise ParameterError(f"{name} must not be negative, got {getattr(self, name)}.")
        if not self.hops or min(self.hops) < 0 or list(self.hops) != sorted(set(self.hops)):
            raise ParameterError(f"hops must be rising numbers from 0 on, got {self.hops}.")
        if self.select not in SELECT:
            raise ParameterError(f"select must be one of {', '.join(SELECT)}, got {self.select!r}.")
        if self.dtype not in _DTYPES:
            raise ParameterError(f"dtype must be one of {', '.join(_DTYPES)}, got {self.dtype!r}.")

    @classmethod
    def paper(cls, k: int, **changed: Any) -> DistributedSettings:
        """The settings of the paper's section 5.1."""
        own: dict[str, Any] = {
            "replicas": 10,
            "iterations": 10_000,
            "lr": 5e-4,
            "tolerance": None,
            "ortho_weight": 1.0,
            "start": 0,
            "select": "evidence",
        }
        return cls(k, **{**own, **changed})


@dataclass
class DistributedResult:
    """What one process has at the end.

    Attributes
    ----------
    part : Part
        Its nodes.
    labels, probability : array [n]
        Cluster of each of its nodes, and how certain that is.
    net : ReplicaNet
        All replicas; the same on every process.
    best : int
        The replica with the most evidence (or the lowest loss, where that selects).
    cut, ortho, evidence : array [R]
        The losses of the last iteration and the evidence of every replica.
    clusters_used : array [R]
        How many clusters have nodes.
    evidence_of_labels : float
        The evidence of the labels of all nodes.
    iterations : int
        How many were run.
    converged : bool
        Whether the losses had stopped improving.
    step : Traffic
        What this process sent in one iteration.
    notes : list of str
        What of the estimator's default is left out, and what was decided.
    """

    part: Part
    labels: np.ndarray
    probability: np.ndarray
    net: ReplicaNet
    best: int
    cut: np.ndarray
    ortho: np.ndarray
    evidence: np.ndarray
    clusters_used: np.ndarray
    evidence_of_labels: float
    iterations: int
    converged: bool
    step: Traffic
    notes: list[str] = field(default_factory=list)


def train_part(
    folder: str | Path,
    settings: DistributedSettings,
    group: JobGroup,
    *,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 60.0,
    callback: Callable[[LoopProgress], None] | None = None,
) -> DistributedResult:
    """Train on the parts of a graph, together with the other processes; all of them call this.

    Parameters
    ----------
    folder : path
        The parts, as ``softcut partition`` writes them; process p opens part p.
    settings : DistributedSettings
        The same on every process.
    group : JobGroup
        The processes; as many as there are parts.
    checkpoint : path, optional
        Where process 0 saves the training now and then; it is resumed from there.
    checkpoint_every : float
        Seconds between two savings.
    callback : callable, optional
        Called at every check of the loop.
    """
    manifest = group.together(lambda: _checked(folder, settings, group.size))
    part = group.together(lambda: open_part(folder, group.rank))
    dtype, device = _DTYPES[settings.dtype], group.device
    op = Halo.from_part(part, group, dtype=torch.float64, device=device)  # features are propagated in float64
    inputs, start, notes = _inputs(part, op, manifest, settings, group)
    scales = replica_scales(len(settings.hops), settings.replicas) if inputs.terms == 1 else None
    net = ReplicaNet(
        in_channels=inputs.in_channels,
        k=settings.k,
        seeds=replica_seeds(settings.seed, settings.replicas),
        hidden=settings.hidden,
        terms=inputs.terms,
        scales=scales,
        dtype=dtype,
    ).to(device)
    normalised = op.normalise()
    task = PartTask(net, inputs, normalised, manifest.nodes, settings.temperature, start)
    loop = Loop(task, _loop_settings(settings, start))
    saved = None
    if checkpoint is not None:
        identity = {"parts": manifest.digest, "settings": asdict(settings)}
        saved = SharedCheckpoint(checkpoint, identity, checkpoint_every, group)
    normalised.degree_like(net.bias)  # constant, and asked of the other processes once: here
    result = loop.run(callback, saved)
    step = group.traffic - task.step_began
    for iteration in [] if saved is None else saved.resumed_at:
        notes.append(f"resumed from a checkpoint after {iteration} iterations.")
    with torch.no_grad():
        s = net.soft(inputs, settings.temperature)
        labels = s.argmax(-1)
        found = judge(part, op, labels, manifest, settings.k)
        last = {name: values[-1] for name, values in result.history.items()}
        score = found.evidence
        if settings.select == "loss":
            score = -(last["cut"] + settings.ortho_weight * last["ortho"])
        best = best_replica(score, found.used, settings.k)
        chosen, probability = labels[:, best], s[:, best].amax(-1)
        if settings.select == "consensus" and settings.replicas > 1:
            sample = Sample(part, manifest.nodes, group)
            chosen, probability = consensus(s, found, op.layout, sample, settings.seed)
    if found.used[best] < settings.k:
        notes.append(f"every replica lost clusters: the best one uses {found.used[best]} of {settings.k}.")
    return DistributedResult(
        part=part,
        labels=chosen.cpu().numpy(),
        probability=probability.double().cpu().numpy(),
        net=net,
        best=best,
        cut=last["cut"],
        ortho=last["ortho"],
        evidence=found.evidence,
        clusters_used=found.used,
        evidence_of_labels=float(judge(part, op, chosen.unsqueeze(1), manifest, settings.k).evidence[0]),
        iterations=result.iterations,
        converged=result.converged,
        step=step,
        notes=notes,
    )


def _checked(folder: str | Path, settings: DistributedSettings, size: int) -> Manifest:
    manifest = read_manifest(folder)
    if manifest.parts != size:
        raise ParameterError(
            f"{folder} has {manifest.parts} parts, but {size} processes were started; start one per part "
            f"(torchrun --nproc-per-node {manifest.parts}), or divide the graph anew."
        )
    if not manifest.columns:
        raise ParameterError(
            f"{folder} holds no features; write the parts with 'softcut partition --features'."
        )
    if settings.k > manifest.nodes:
        raise ParameterError(f"k is {settings.k}, but the graph has {manifest.nodes} nodes.")
    return manifest


def _inputs(
    part: Part, op: Halo, manifest: Manifest, settings: DistributedSettings, group: JobGroup
) -> tuple[FirstLayer, Start | None, list[str]]:
    dtype = _DTYPES[settings.dtype]
    assert part.x is not None
    if manifest.about.get("preset") == "paper":
        x = torch.from_numpy(np.array(part.x)).to(device=group.device, dtype=dtype)
        return PaperInput(op, x), None, []
    sample = Sample(part, manifest.nodes, group)
    z = distances(op, part.x, settings.hops, sample, dtype)
    notes = [
        "left out of the default: the feature graph in the cut, replicas that maximise the evidence, fusion with the "
        "features in the consensus, and the refinement."
    ]
    if sample.size < manifest.nodes:
        notes.append(f"centres, scales and every k-means are those of a sample of {sample.size:,} nodes.")
    start = None
    if settings.start:
        scales = replica_scales(len(settings.hops), settings.replicas)
        start = kmeans_start(z, scales, settings.k, manifest.nodes, sample, group, settings.seed)
    return DenseInput(z), start, notes


def _loop_settings(settings: DistributedSettings, start: Start | None) -> LoopSettings:
    return LoopSettings(
        iterations=settings.iterations,
        lr=settings.lr,
        minimise={"cut": 1.0, "ortho": settings.ortho_weight},
        warm_up=0 if start is None else settings.start,
        stop=None if settings.tolerance is None else Plateau(settings.tolerance, settings.patience),
    )
