"""``torchrun --nproc-per-node P -m softcut.clustering.distributed PARTS -k K``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from softcut.clustering.distributed.group import JobGroup, ProcessError, process_group
from softcut.clustering.distributed.job import DistributedSettings, train_part
from softcut.clustering.distributed.results import CHECKPOINT, check_folder, write_result
from softcut.errors import SoftcutError
from softcut.training import Progress


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
    parser.add_argument("--checkpoint-every", type=float, default=60.0, help="seconds between checkpoints")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for another process")
    return parser


def _settings(given: dict[str, Any]) -> DistributedSettings:
    names = ("n_clusters", "n_init", "max_iter", "learning_rate", "random_state", "dtype")
    return DistributedSettings(**{name: given[name] for name in names if given[name] is not None})


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
    settings = group.together(lambda: _settings(given))
    group.shared(lambda: check_folder(out, given["overwrite"]))
    result = train_part(
        parts,
        settings,
        group,
        checkpoint=out / CHECKPOINT,
        checkpoint_every=given["checkpoint_every"],
        callback=_tell if group.rank == 0 else None,
    )
    said = write_result(parts, out, settings, result, group, time.perf_counter() - began)
    if group.rank == 0:
        _close(said, out)


def _close(said: dict[str, Any], out: Path) -> None:
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
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
