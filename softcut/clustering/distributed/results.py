"""The labels of all nodes, put together from all processes and written in the original order."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from softcut import __version__
from softcut.clustering.distributed.group import JobGroup
from softcut.clustering.distributed.job import DTYPES, DistributedResult, DistributedSettings
from softcut.clustering.distributed.traffic import Traffic, step_traffic
from softcut.errors import ParameterError
from softcut.files import atomic_json, atomic_write
from softcut.io.part_files import read_manifest, read_names
from softcut.provenance import command_line, commit

__all__ = ["CHECKPOINT", "all_labels", "check_folder", "write_result"]

CHECKPOINT = "checkpoint.pt"
# Rows that a process sends to process 0 at a time.
_AT_ONCE = 1 << 20


def check_folder(folder: str | Path, overwrite: bool) -> None:
    """A sentence, before the work, where results of an earlier run are in the way."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"--out {folder} is a file; name a folder.")
    if (folder / "result.json").exists() and not overwrite:
        raise ParameterError(
            f"--out {folder} holds the results of an earlier run; name another folder or add --overwrite."
        )


def all_labels(
    result: DistributedResult, rows: tuple[int, ...], group: JobGroup
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of all nodes on process 0, in the original order; empty arrays on the others."""
    total = sum(rows) if group.rank == 0 else 0
    labels, probability = np.zeros(total, dtype=np.int32), np.zeros(total, dtype=np.float32)
    # Numbers of nodes are exact in float64.
    own = torch.from_numpy(
        np.stack([result.part.nodes, result.labels, result.probability], axis=1).astype(np.float64)
    )
    for begin in range(0, max(rows), _AT_ONCE):
        counts = [min(_AT_ONCE, max(0, n - begin)) for n in rows]
        piece = own[begin : begin + _AT_ONCE].to(group.device)
        send = [len(piece) if p == 0 else 0 for p in range(group.size)]
        receive = counts if group.rank == 0 else [0] * group.size
        node, label, certain = group.all_to_all(piece, send, receive).cpu().numpy().T
        place = node.astype(np.int64)
        labels[place], probability[place] = label.astype(np.int32), certain.astype(np.float32)
    return labels, probability


def write_result(
    parts: str | Path,
    out: str | Path,
    settings: DistributedSettings,
    result: DistributedResult,
    group: JobGroup,
    seconds: float,
) -> dict[str, Any]:
    """Write labels, networks and an account of the training; called by all processes, written by process 0.

    Returns what result.json holds. Files are written whole or not at all, result.json last.
    """
    out, manifest = Path(out), read_manifest(parts)
    labels, probability = all_labels(result, manifest.rows, group)
    sent = torch.tensor([result.step.halo, result.step.reduced], dtype=torch.float64, device=group.device)
    halo, reduced = (int(v) for v in group.all_reduce(sent))
    networks, recipe = result.networks, result.recipe
    net = networks.net
    model = step_traffic(
        sum(manifest.halo),
        net.k,
        net.in_channels,
        hidden=net.hidden,
        replicas=result.step_networks,
        terms=net.terms,
        itemsize=DTYPES[settings.dtype].itemsize,
        objective=recipe.objective,
        vocabulary=manifest.vocabulary,
        held=recipe.start == "clusters",
    )
    said = {
        "softcut": __version__,
        "commit": commit(),
        "command": command_line(),
        "processes": group.size,
        "nodes": manifest.nodes,
        "edges": manifest.edges,
        "settings": asdict(settings),
        "recipe": recipe.digest,
        "structure": result.structure,
        "verdict": result.verdict,
        "evidence_of_labels": result.evidence,
        "agreement": networks.agreement,
        "objective": recipe.objective,
        # Of every network; "cut" is minus the evidence where that is the objective.
        **{
            name: [getattr(replica, name) for replica in networks.replicas]
            for name in ("hops", "cut", "ortho", "evidence", "clusters_used")
        },
        "weights": result.weights.tolist(),
        "iterations": networks.result.iterations,
        "converged": networks.result.converged,
        # Rows sent by all processes in the last step; each of them adds up the same numbers.
        "networks_in_the_last_step": result.step_networks,
        "bytes_per_step": asdict(Traffic(halo, reduced // group.size)),
        "bytes_per_step_of_the_model": asdict(model),
        "seconds": seconds,
        "notes": result.notes,
    }

    def write() -> None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").unlink(missing_ok=True)  # of an earlier run: it must not describe these labels
        file = io.BytesIO()
        np.save(file, labels)
        atomic_write(out / "labels.npy", file.getvalue())
        atomic_write(out / "labels.csv", lambda opened: _write_table(opened, parts, labels, probability))
        state = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
        atomic_write(out / "networks.safetensors", save(state))
        atomic_json(out / "result.json", said)
        (out / CHECKPOINT).unlink(missing_ok=True)

    group.shared(write)
    return said


def _write_table(file: Any, parts: str | Path, labels: np.ndarray, probability: np.ndarray) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(["node", "cluster", "probability"])
    rows = zip(read_names(parts), labels.tolist(), probability.tolist(), strict=True)
    writer.writerows((name, label, f"{p:.6f}") for name, label, p in rows)
    text.detach()
