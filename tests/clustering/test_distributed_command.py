"""``torchrun -m softcut.clustering.distributed``: files, sentences, and real processes."""

import csv
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.thread_group import in_parts
from safetensors.torch import load_file

from softcut import Graph
from softcut.clustering import Recipe
from softcut.clustering.distributed import DistributedSettings, partition, train_part
from softcut.clustering.distributed.__main__ import main
from softcut.datasets import attributed_communities
from softcut.metrics import evidence_parts

GRAPH = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)


def named():
    first, second = GRAPH.edge_index()[0]
    names = [f"n{i}" for i in range(120)]
    return Graph.from_edges([first, second], num_nodes=120, x=GRAPH.x, node_names=names)


OPTIONS = ["-k", "3", "--n-init", "2", "--max-iter", "5", "--dtype", "float64"]


def test_the_command_writes_labels_in_the_order_of_the_names(tmp_path, capsys):
    partition(named(), 1, tmp_path / "parts")
    arguments = [str(tmp_path / "parts"), *OPTIONS]
    assert main(arguments) == 0
    out = tmp_path / "parts-clusters"
    names = {"labels.csv", "labels.npy", "networks.safetensors", "result.json"}
    assert {p.name for p in out.iterdir()} == names
    labels = np.load(out / "labels.npy")
    with (out / "labels.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["node", "cluster", "probability"]
    assert [row[:2] for row in rows[1:]] == [[f"n{i}", str(label)] for i, label in enumerate(labels)]
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]
    assert (result["iterations"], result["nodes"]) == (5, 120)
    said = capsys.readouterr()
    assert "left out: networks that begin from clusters of the edges" in said.out
    assert result["recipe"] == Recipe(edge_starts=0.0).changed(networks=2, iterations=5).digest
    assert result["verdict"] == Recipe().verdict(result["structure"])
    assert result["structure"] == pytest.approx(evidence_parts(GRAPH, labels).structure)
    assert f"verdict: {result['verdict']} (structure {result['structure']:.2f}" in said.out
    assert "iteration 5 of 5" in said.err
    assert main(arguments) == 2
    assert "holds the results of an earlier run" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert np.array_equal(np.load(out / "labels.npy"), labels)


def test_unknown_devices_are_refused(tmp_path, capsys):
    assert main([str(tmp_path), "-k", "3", "--device", "tpu"]) == 2
    assert "device must be 'auto', 'cpu' or 'cuda', got 'tpu'" in capsys.readouterr().err


# A process of a training; it ends with 3 where threads of its group are left. Still dropping their last message while
# Python shuts down, they abort it now and then.
PROCESS = """
import os, sys
from softcut.clustering.distributed.__main__ import main
code, tasks = main(), "/proc/self/task"
names = [open(f"{tasks}/{task}/comm").read() for task in os.listdir(tasks)] if os.path.isdir(tasks) else []
sys.exit(code or (3 if any("gloo" in name for name in names) else 0))
"""


def test_two_real_processes_agree_with_threads(tmp_path, monkeypatch):
    folder, out = tmp_path / "parts", tmp_path / "out"
    partition(GRAPH, 2, folder, method="random")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(folder), *OPTIONS, "--out", str(out), "--device", "cpu", "--timeout", "100"]
    common = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    other = subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments],
        env={**os.environ, **common, "RANK": "1", "LOCAL_RANK": "1", "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for name, value in {**common, "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 0  # the first process is this one
    message = other.communicate(timeout=100)[1]
    assert other.returncode == 0, message
    settings = DistributedSettings(3, n_init=2, max_iter=5, dtype="float64")
    expected = in_parts(2, lambda group: train_part(folder, settings, group))
    state = load_file(out / "networks.safetensors")
    for name, value in expected[0].networks.net.state_dict().items():
        torch.testing.assert_close(state[name], value, atol=1e-12, rtol=0)
    labels = np.load(out / "labels.npy")
    for found in expected:
        assert np.array_equal(labels[found.part.nodes], found.labels)
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]
