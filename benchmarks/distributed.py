"""Distributed training equals single: parameters, bytes between processes, and a process that is killed.

    python benchmarks/distributed.py [--only equality killing] [--out results/distributed.json]

Runs 1, 2 and 4 gloo processes on this machine, 50 iterations in float64, and compares their parameters. The bytes of
a step are counted three ways: by the code that sends, by the model of docs/distributed.md, and by the operating
system (what a process wrote to its sockets; Linux only). Then one of two processes is killed in the middle of a
training, once with torchrun --max-restarts and once without, where the command is run again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from softcut import GraphClustering
from softcut.clustering import Recipe
from softcut.clustering.distributed import (
    DistributedSettings,
    JobGroup,
    partition,
    process_group,
    train_part,
)
from softcut.clustering.distributed.group import Traffic, step_traffic
from softcut.datasets import attributed_communities, load
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.io.part_files import read_manifest
from softcut.metrics import nmi
from softcut.provenance import origin

ITERATIONS = 50
PROCESSES = (1, 2, 4)
WHAT = ["equality", "killing", "quality"]
# Standalone: any free port, so that several jobs of one machine do not meet.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def graph_of(name: str) -> Graph:
    """Cora, or a generated graph with a number of nodes."""
    return load(name) if name == "cora" else attributed_communities(int(name), 8, 20, 100, seed=0)


def settings_of(k: int) -> DistributedSettings:
    return DistributedSettings(k, n_init=4, max_iter=ITERATIONS, dtype="float64")


# ------------------------------------------------------------------------------------------------ one process


def bytes_written() -> int | None:
    """What this process has written to files and sockets so far; None where the system does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return int(dict(line.split(": ") for line in lines)["wchar"])


def worker(parts: Path, k: int, out: Path) -> None:
    """Train as one of the processes, and write what it found."""
    written: list[tuple[int, int | None, float]] = []
    settings, vocabulary = settings_of(k), read_manifest(parts).vocabulary
    with process_group("cpu") as group:
        result = train_part(
            parts,
            settings,
            group,
            callback=lambda p: written.append((p.iteration, bytes_written(), time.perf_counter())),
        )
        (first, before, began), (last, after, ended) = written[0], written[-1]
        rows = len(result.part.send)
        net = result.networks.net
        model = step_traffic(
            rows,
            k,
            net.in_channels,
            replicas=result.step_networks,
            terms=net.terms,
            itemsize=8,
            objective=result.recipe.objective,
            vocabulary=vocabulary,
        )
        measured = None if before is None or after is None else (after - before) / (last - first)
        of_processes = {
            "sent_rows": rows,
            "counted": vars(result.step),
            "model": vars(model),
            "model_on_the_wire": model.halo + 2 * (group.size - 1) / group.size * model.reduced,  # a ring
            "written_to_sockets": measured,
            "milliseconds_per_step": 1000 * (ended - began) / (last - first),
        }
        every = group.gather(of_processes)
        if group.rank == 0:
            state = {name: value.detach().clone() for name, value in net.state_dict().items()}
            save_file(state, out / "networks.safetensors")
            losses = result.networks.result.cut + result.networks.result.ortho
            atomic_json(out / "found.json", {"processes": every, "losses": losses.tolist()})


# ----------------------------------------------------------------------------------------- all processes


def torchrun(processes: int, *words: Any) -> None:
    command = [*TORCHRUN, "--nproc-per-node", str(processes), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def equality(name: str, paper: bool, folder: Path) -> list[dict[str, Any]]:
    """Parameters and bytes of 1, 2 and 4 processes on one graph."""
    graph = graph_of(name)
    k = len(np.unique(graph.y))
    rows, alone, calm = [], None, None
    for processes in PROCESSES:
        own = f"{name}-{'paper' if paper else 'default'}-{processes}"
        parts, out = folder / own, folder / f"out-{own}"
        manifest = partition(graph, processes, parts, paper=paper)
        out.mkdir()
        torchrun(processes, __file__, "--worker", parts, k, out)
        state = load_file(out / "networks.safetensors")
        alone = alone or state
        written = json.loads((out / "found.json").read_text())
        of_processes, losses = written["processes"], np.array(written["losses"])
        calm = losses if calm is None else calm
        sent = sum((Traffic(**each["counted"]) for each in of_processes), Traffic(0, 0))
        model = sum((Traffic(**each["model"]) for each in of_processes), Traffic(0, 0))
        sockets = [each["written_to_sockets"] for each in of_processes]
        row = {
            "graph": name if name == "cora" else "made",
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "paper": paper,
            "processes": processes,
            "method": manifest.about["method"],
            "crossing_share": manifest.about["crossing_share"],
            "halo_rows_per_node": sum(manifest.halo) / manifest.nodes,
            "largest_difference_of_a_parameter": max(float((state[n] - alone[n]).abs().max()) for n in state),
            "largest_difference_of_a_loss": float(np.abs(losses - calm).max()),
            "counted_bytes_per_step": sent.halo + sent.reduced,
            "model_bytes_per_step": model.halo + model.reduced,
            "model_bytes_on_the_wire": sum(each["model_on_the_wire"] for each in of_processes),
            "bytes_written_to_sockets": None if None in sockets else sum(sockets),
            "milliseconds_per_step": max(each["milliseconds_per_step"] for each in of_processes),
        }
        rows.append(row)
        wire, real = row["model_bytes_on_the_wire"], row["bytes_written_to_sockets"]
        print(
            f"{own}: largest difference of a parameter {row['largest_difference_of_a_parameter']:.1e}, of a loss "
            f"{row['largest_difference_of_a_loss']:.1e}; "
            f"bytes a step {row['counted_bytes_per_step']:,} (model {row['model_bytes_per_step']:,}); on the wire "
            f"{0 if real is None else real:,.0f} (model {wire:,.0f})",
            flush=True,
        )
    return rows


def rank_of(process: str) -> str | None:
    """The rank of a process of torchrun, from its environment."""
    try:
        text = Path("/proc", process, "environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return next((line.removeprefix("RANK=") for line in text.split("\0") if line.startswith("RANK=")), None)


def children(parent: int) -> list[str]:
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def run_and_kill(command: list[str], log: Path, line: str) -> tuple[int, str]:
    """Start a job, kill -9 its second process once `line` is in its output, and wait for the end."""
    with log.open("w") as file:
        job = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True, env=environment())
        while line not in log.read_text():
            if job.poll() is not None:
                raise SystemExit(f"the job ended before it could be disturbed:\n{log.read_text()}")
            time.sleep(0.02)
        victim = next(int(p) for p in children(job.pid) if rank_of(p) == "1")
        os.kill(victim, signal.SIGKILL)
        code = job.wait()
    return code, log.read_text()


def killing(name: str, folder: Path) -> dict[str, Any]:
    """Labels after a process was killed, with and without automatic restarts, against an undisturbed run."""
    graph = graph_of(name)
    k = len(np.unique(graph.y))
    parts = folder / "killed"
    partition(graph, 2, parts, paper=True)  # the paper's training has no end of its own
    options = ["-m", "softcut.clustering.distributed", str(parts), "-k", str(k), "--max-iter", "300"]
    options += ["--device", "cpu"]
    disturbed = [*options, "--checkpoint-every", "0.2"]
    torchrun(2, *options, "--out", folder / "calm")
    expected = np.load(folder / "calm" / "labels.npy")
    command = [*TORCHRUN, "--nproc-per-node", "2"]

    def compared(name: str) -> dict[str, Any]:
        labels = np.load(folder / name / "labels.npy")
        states = [load_file(folder / each / "networks.safetensors") for each in ("calm", name)]
        notes = json.loads((folder / name / "result.json").read_text())["notes"]
        return {
            "labels_equal": bool(np.array_equal(labels, expected)),
            "parameters_equal_to_the_bit": all(torch.equal(states[0][n], states[1][n]) for n in states[0]),
            "resumed": [note for note in notes if note.startswith("resumed")],
            "nmi": nmi(graph.y, labels),
        }

    restart = [*command, "--max-restarts", "1", *disturbed, "--out", str(folder / "restarted")]
    code, _ = run_and_kill(restart, folder / "restarted.log", "iteration 100 of")
    by_itself = {"exit_code": code, **compared("restarted")}
    again = [*command, *disturbed, "--out", str(folder / "again")]
    code, output = run_and_kill(again, folder / "again.log", "iteration 100 of")
    sentence = next((line for line in output.splitlines() if line.startswith("softcut: ")), None)
    second = subprocess.run(again, capture_output=True, text=True, env=environment())
    by_hand = {
        "exit_code": code,
        "sentence": sentence,
        "second_exit_code": second.returncode,
        **compared("again"),
    }
    print("killed, restarted by torchrun:", by_itself)
    print("killed, command run again:", by_hand, flush=True)
    return {"restarted_by_torchrun": by_itself, "run_again": by_hand}


def quality(folder: Path) -> list[dict[str, Any]]:
    """NMI with the classes, of one recipe on the whole graph and on parts, and labels that agree; three seeds."""
    rows = []
    for name in ("cora", "citeseer", "pubmed", "photo"):
        graph = load(name)
        k = len(np.unique(graph.y))
        partition(graph, 1, folder / name)
        scores, alike = [], []
        for seed in range(3):
            recipe = Recipe(edge_starts=0.0)
            whole = GraphClustering(k, random_state=seed, recipe=recipe).fit(graph).labels_
            parts = train_part(folder / name, DistributedSettings(k, random_state=seed), JobGroup()).labels
            scores.append((nmi(graph.y, whole), nmi(graph.y, parts)))
            alike.append(float((whole == parts).mean()))
        mean, std = np.mean(scores, axis=0), np.std(scores, axis=0)
        rows.append(
            {
                "graph": name,
                "whole": float(mean[0]),
                "whole std": float(std[0]),
                "parts": float(mean[1]),
                "parts std": float(std[1]),
                "alike": float(np.mean(alike)),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/distributed.json"))
    parser.add_argument("--only", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--graph", nargs="+", default=["cora", "20000"], help="cora, or a number of nodes")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        parts, k, out = options.worker
        worker(Path(parts), int(k), Path(out))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder, ways = Path(temporary), [(name, paper) for name in options.graph for paper in (True, False)]
        compared = [equality(*way, folder) for way in ways] if "equality" in options.only else []
        killed = killing(options.graph[0], folder) if "killing" in options.only else {}
        scores = quality(folder) if "quality" in options.only else []
    content = {
        "settings": {"iterations": ITERATIONS, "dtype": "float64", "backend": "gloo"},
        "rows": [row for rows in compared for row in rows],
        "killed": killed,
        "quality": scores,
        **origin(),
    }
    atomic_json(options.out, content)


if __name__ == "__main__":
    main()
