"""``torchrun --nproc-per-node P -m softcut.clustering.distributed PARTS -k K``: train, and write the labels."""

from __future__ import annotations

import argparse
import csv
import io
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from softcut import __version__
from softcut.clustering.distributed.group import JobGroup, ProcessError, Traffic, process_group, step_traffic
from softcut.clustering.distributed.job import DTYPES, DistributedResult, DistributedSettings, train_part
from softcut.errors import FileFormatError, ParameterError, SoftcutError
from softcut.files import atomic_json, atomic_write, check_writable
from softcut.io.part_files import read_manifest, read_names
from softcut.provenance import command_line, commit
from softcut.training import Progress

_CHECKPOINT = "checkpoint.pt"
_RESULTS = ("labels.csv", "labels.npy", "networks.safetensors", "result.json")
_BYTES_OF_NODE = 40  # in the files of results, about
_AT_ONCE = 1 << 20  # rows that a process sends to process 0 at a time


def all_labels(
    result: DistributedResult, rows: tuple[int, ...], group: JobGroup
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of all nodes on process 0, in the original order; empty arrays on the others."""
    total = sum(rows) if group.rank == 0 else 0
    labels, probability = np.zeros(total, dtype=np.int32), np.zeros(total, dtype=np.float32)
    columns = [result.part.nodes, result.labels, result.probability]
    own = torch.from_numpy(np.stack(columns, axis=1).astype(np.float64))  # numbers of nodes are exact in it
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
    parts: Path,
    out: Path,
    settings: DistributedSettings,
    result: DistributedResult,
    group: JobGroup,
    seconds: float,
) -> dict[str, Any]:
    """Write labels, networks and an account of the training; called by all processes, written by process 0.

    Returns what result.json holds. All files are written beside `out` first, which they then replace together with
    the checkpoint in it; :func:`_check_out` puts right what a process leaves that is killed meanwhile.
    """
    manifest = read_manifest(parts)
    labels, probability = all_labels(result, manifest.rows, group)
    sent = torch.tensor([result.step.halo, result.step.reduced], dtype=torch.float64, device=group.device)
    halo, reduced = (int(v) for v in group.all_reduce(sent))
    networks, recipe = result.networks, result.recipe
    net, trained = networks.net, networks.result
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
        "verdict": recipe.verdict(result.structure),
        "evidence_of_labels": result.evidence,
        "agreement": networks.agreement,
        "objective": recipe.objective,
        # Of every network; "cut" is minus the evidence where that is the objective.
        **{
            name: [getattr(replica, name) for replica in networks.replicas]
            for name in ("hops", "cut", "ortho", "evidence", "clusters_used")
        },
        "weights": result.weights.tolist(),
        "iterations": trained.iterations,
        "converged": trained.converged,
        # Rows sent by all processes in the last step; each of them adds up the same numbers.
        "networks_in_the_last_step": result.step_networks,
        "bytes_per_step": asdict(Traffic(halo, reduced // group.size)),
        "bytes_per_step_of_the_model": asdict(model),
        "seconds": seconds,
        "notes": result.notes,
    }

    def write_table(opened: Any) -> None:
        text = io.TextIOWrapper(opened, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(["node", "cluster", "probability"])
        rows = zip(read_names(parts), labels.tolist(), probability.tolist(), strict=True)
        writer.writerows((name, label, f"{p:.6f}") for name, label, p in rows)
        text.detach()

    def write() -> None:
        new, old = _beside(out)
        try:
            file = io.BytesIO()
            np.save(file, labels)
            atomic_write(new / "labels.npy", file.getvalue())
            atomic_write(new / "labels.csv", write_table)
            state = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
            atomic_write(new / "networks.safetensors", save(state))
            atomic_json(new / "result.json", said)
            if out.exists():
                out.rename(old)
            new.rename(out)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)

    group.shared(write)
    return said


def _beside(out: Path) -> tuple[Path, Path]:
    """Where results are written before they replace `out`, and where the old ones are meanwhile."""
    return out.with_name(f".{out.name}.new"), out.with_name(f".{out.name}.old")


def _check_out(out: Path, overwrite: bool, room: int) -> None:
    """Refuse a folder for the results that cannot be written or holds something else."""
    if out.exists() and not out.is_dir():
        raise ParameterError(f"--out {out} is a file; name a folder.", argument="out")
    check_writable("--out", out, out, room)
    check_writable("--out", out, out.parent)
    new, old = _beside(out)
    if old.exists() and not out.exists():
        old.rename(out)  # a process was killed between two renamings
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    inside = sorted(file.name for file in out.iterdir()) if out.exists() else []
    others = [
        name for name in inside if name not in _RESULTS and not name.lstrip(".").startswith(_CHECKPOINT)
    ]
    if others:
        raise ParameterError(
            f"--out {out} holds other files ({others[0]}); name another folder.", argument="out"
        )
    if "result.json" in inside and not overwrite:
        raise ParameterError(
            f"--out {out} holds the results of an earlier run; name another folder or add --overwrite.",
            argument="out",
        )


def _check_names(parts: Path) -> None:
    """Refuse names of nodes that could not be written after the training."""
    count, nodes = 0, read_manifest(parts).nodes
    try:
        for name in read_names(parts):
            name.encode()
            count += 1
        if count != nodes:
            raise ValueError(f"{count} names of {nodes} nodes")
    except SoftcutError:
        raise
    except (ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{parts / 'names.jsonl'} does not hold the name of each node ({error}); write the parts again with "
            "'softcut partition'."
        ) from error


# ------------------------------------------------------------------------------------------------ the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchrun --nproc-per-node P -m softcut.clustering.distributed",
        description="Cluster a graph in parts (softcut partition), one process per part.",
    )
    parser.add_argument("parts", type=Path, help="folder that 'softcut partition' wrote")
    parser.add_argument(
        "-k", "--clusters", type=int, required=True, dest="n_clusters", help="number of clusters"
    )
    parser.add_argument("--out", "-o", type=Path, help="folder for the results; by default PARTS-clusters")
    parser.add_argument("--overwrite", action="store_true", help="replace the results of an earlier run")
    parser.add_argument("--n-init", type=int, help="networks trained together")
    parser.add_argument("--max-iter", type=int, help="the most training iterations")
    parser.add_argument("--learning-rate", type=float, help="step size of Adam")
    parser.add_argument("--seed", type=int, dest="random_state", help="random state")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="precision of the training")
    parser.add_argument("--device", default="auto", help="'auto', 'cpu' (gloo) or 'cuda' (nccl)")
    parser.add_argument("--checkpoint-every", type=float, default=10.0, help="seconds between checkpoints")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for another process")
    return parser


def _tell(progress: Progress) -> None:
    best = int((progress.cut + progress.ortho).argmin())
    print(
        f"iteration {progress.iteration} of {progress.iterations}: loss {progress.cut[best]:.4f} + "
        f"{progress.ortho[best]:.4f} (the best of {len(progress.cut)} networks)",
        file=sys.stderr,
        flush=True,
    )


def _run(given: dict[str, Any], group: JobGroup) -> None:
    began = time.perf_counter()
    parts = given["parts"]
    out = given["out"] or parts.with_name(parts.name + "-clusters")
    names = ("n_clusters", "n_init", "max_iter", "learning_rate", "random_state", "dtype")
    chosen = {name: given[name] for name in names if given[name] is not None}
    settings = group.together(lambda: DistributedSettings(**chosen))

    def check() -> None:
        _check_names(parts)
        _check_out(out, given["overwrite"], room=_BYTES_OF_NODE * read_manifest(parts).nodes)

    group.shared(check)
    saving = {"checkpoint": out / _CHECKPOINT, "checkpoint_every": given["checkpoint_every"]}
    result = train_part(parts, settings, group, **saving, callback=_tell if group.rank == 0 else None)
    said = write_result(parts, out, settings, result, group, time.perf_counter() - began)
    if group.rank != 0:
        return
    traffic, model = said["bytes_per_step"], said["bytes_per_step_of_the_model"]
    print(
        f"{said['nodes']:,} nodes, {said['edges']:,} edges, {said['processes']} processes: "
        f"{said['iterations']} iterations in {said['seconds']:.1f} s\n"
        f"labels of {len(said['weights'])} of {len(said['cut'])} networks; verdict: {said['verdict']} (structure "
        f"{said['structure']:.2f}, evidence {said['evidence_of_labels']:.4f})\n"
        f"bytes a step: {traffic['halo']:,} of halo rows, {traffic['reduced']:,} added up "
        f"(model: {model['halo']:,} and {model['reduced']:,})"
    )
    if said["verdict"] == "none":
        print("These clusters explain less than it takes to describe them: the graph may have no clusters.")
    for note in said["notes"]:
        print(f"note: {note}")
    print(f"Written: {out}: labels.csv, labels.npy, networks.safetensors, result.json", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as one of the processes; the exit code."""
    given = vars(_parser().parse_args(arguments))
    # Ctrl-C reaches all processes, each at another moment: they stop at once, and go on from the last checkpoint.
    before = signal.signal(signal.SIGINT, lambda number, frame: sys.exit(130))
    first = int(os.environ.get("RANK", 0)) == 0
    try:
        with process_group(given["device"], given["timeout"]) as group:
            _run(given, group)
    except SoftcutError as error:
        lost = isinstance(error, ProcessError)
        if first or lost:  # the others have the same to say
            print(f"softcut: {error}", file=sys.stderr, flush=True)
        return 1 if lost else 2
    except OSError as error:  # of a checkpoint: the disk is full, say
        print(f"softcut: {error.filename or given['out'] or ''}: {error.strerror or error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
