"""The job of one process: open a part, then the steps of a fit together with the other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from softcut.clustering.arguments import candidates_from, recipe_from, seed_from
from softcut.clustering.consensus import by_size, merge
from softcut.clustering.distributed.group import JobGroup, Traffic
from softcut.clustering.distributed.part import PartTask, SharedCheckpoint, prepare_part
from softcut.clustering.networks import Networks, train_networks
from softcut.clustering.prepare import READS_FEATURES, left_out_of_large
from softcut.clustering.recipe import DEFAULT, PAPER, Recipe
from softcut.clustering.starts import Start
from softcut.errors import Detail, Note, ParameterError
from softcut.io.part_files import Manifest, Part, open_part, read_manifest
from softcut.training import Progress, ReplicaNet, TrainResult
from softcut.training.mincut import run_task

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class DistributedSettings:
    """How a graph in parts is clustered: the arguments of :class:`softcut.GraphClustering`, and a precision.

    `dtype` ("float32" or "float64") is that of the training; `recipe` is by default that of the estimator, or the
    paper's for parts that were written for it.
    """

    n_clusters: int
    n_init: int | None = None
    max_iter: int | None = None
    learning_rate: float | None = None
    random_state: int = 0
    dtype: str = "float32"
    recipe: Recipe | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ParameterError(
                f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}.", argument="dtype"
            )
        seed_from(self.random_state)
        self.of(paper=False)

    def of(self, *, paper: bool) -> Recipe:
        """The recipe of a training on parts."""
        base = self.recipe or (PAPER if paper else DEFAULT)
        recipe = recipe_from(base, None, self.n_init, self.max_iter, self.learning_rate)
        # Clusters of the edges need the whole graph on one machine.
        return replace(recipe, edge_starts=0.0) if recipe.start == "clusters" else recipe


@dataclass
class DistributedResult:
    """What one process has at the end."""

    part: Part  # its nodes
    labels: np.ndarray  # [n], the cluster of each of its nodes; the largest cluster is number 0
    probability: np.ndarray  # [n], how certain that is
    networks: Networks  # all networks, the same on every process, with the assignments of the own nodes
    weights: np.ndarray  # of the networks that count in the consensus
    recipe: Recipe  # what was done
    evidence: float  # of the labels of all nodes; see softcut.metrics.Evidence
    structure: float  # of the labels of all nodes; `recipe.verdict` puts it in a word
    step: Traffic  # what this process sent in the last iteration
    step_networks: int  # networks that were still trained in it
    notes: list[Note]  # what was decided, and what is left out


def train_part(
    folder: str | Path,
    settings: DistributedSettings,
    group: JobGroup,
    *,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 60.0,
    callback: Callable[[Progress], None] | None = None,
) -> DistributedResult:
    """Cluster the parts of a graph, together with the other processes; all of them call this.

    Process p opens part p of the `folder` that ``softcut partition`` wrote; the `settings` are the same on every
    process. Process 0 saves the training into the file `checkpoint` every `checkpoint_every` seconds, and all resume
    from it. The `callback` is told how the training goes on.
    """
    manifest, recipe = group.together(lambda: _checked(folder, settings, group.size))
    part = group.together(lambda: open_part(folder, group.rank))
    k, seed, notes = settings.n_clusters, settings.random_state, _first_notes(manifest, recipe)
    prepared = prepare_part(part, manifest, recipe, DTYPES[settings.dtype], group)
    saved = None
    if checkpoint is not None:
        identity = {"parts": manifest.digest, "settings": asdict(settings), "recipe": recipe.digest}
        saved = SharedCheckpoint(checkpoint, identity, checkpoint_every, group)
    sent: list[tuple[Traffic, int]] = []

    def trainer(net: ReplicaNet, start: Start | None) -> TrainResult:
        plan = recipe.training(group.device)
        task = PartTask(net, prepared, np.asarray(part.nodes), plan, group, start)
        rows, warm = len(part.nodes), start is not None
        result = run_task(task, net, plan, callback, rows=rows, warm=warm, checkpoint=saved)
        sent.append((group.traffic - task.began, task.trained))
        return result

    networks = train_networks(prepared, k, recipe, seed, notes.append, trainer=trainer)
    for iteration in [] if saved is None else saved.resumed_at:
        said = f"resumed from a checkpoint after {iteration} iterations."
        notes.append(Note("resumed", said, iterations=iteration))
    with torch.no_grad():
        merged = merge(prepared, networks, recipe, seed, notes.append)
        sizes = prepared.nodes.total(torch.bincount(merged.soft.argmax(1), minlength=k))
        soft = merged.soft[:, torch.from_numpy(by_size(sizes)).to(merged.soft.device)]
        labels = soft.argmax(1)
        evidence = prepared.judge(labels, k)
    return DistributedResult(
        part=part,
        labels=labels.cpu().numpy(),
        probability=soft.amax(1).double().cpu().numpy(),
        networks=networks,
        weights=merged.weights.cpu().numpy(),
        recipe=recipe,
        evidence=float(evidence.value),
        structure=float(evidence.structure),
        step=sent[0][0],
        step_networks=sent[0][1],
        notes=notes,
    )


def _checked(folder: str | Path, settings: DistributedSettings, size: int) -> tuple[Manifest, Recipe]:
    manifest = read_manifest(folder)
    if manifest.parts != size:
        raise ParameterError(
            f"{folder} has {manifest.parts} parts, but {size} processes were started; start one per part "
            f"(torchrun --nproc-per-node {manifest.parts}), or divide the graph anew.",
            argument="folder",
        )
    if not manifest.columns:
        raise ParameterError(
            f"{folder} holds no features; write the parts with 'softcut partition --features'.",
            argument="folder",
        )
    paper = bool(manifest.about.get("paper"))
    recipe = settings.of(paper=paper)
    if recipe.paper != paper:
        raise ParameterError(
            f"{folder} was written for {'the network of the paper' if paper else 'the default networks'}, and recipe "
            "is for the other; write the parts again with or without 'softcut partition --paper'.",
            argument="folder",
        )
    candidates_from(settings.n_clusters, manifest.nodes, recipe)
    return manifest, recipe


def _first_notes(manifest: Manifest, recipe: Recipe) -> list[Note]:
    """What networks read and what is left out, known before the work."""
    notes: list[Note] = [READS_FEATURES]
    if manifest.about.get("structural"):
        said = (
            "the nodes have no features: the networks read the structure of the graph instead "
            f"({manifest.about['features']}). GraphClustering on one machine finds clusters of the edges alone."
        )
        notes = [Note("clusters_from", said, source="structure")]
    if manifest.nodes > recipe.large and not recipe.paper:
        notes.append(left_out_of_large(recipe))
    elif recipe.start == "clusters":
        said = "left out: networks that begin from clusters of the edges, which need the whole graph on one machine."
        notes.append(Detail("no_edge_starts", said))
    return notes
