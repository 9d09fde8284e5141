"""The command line called as a user calls it, in an empty folder."""

from __future__ import annotations

import csv
import signal
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from softcut import cli
from softcut.datasets import attributed_communities


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["softcut", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        signal.signal(signal.SIGINT, before)  # a command that was interrupted ends deaf to more of it
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def ring(tmp_path):
    """A ring of thirty nodes, and the words that cluster it quickly."""
    (tmp_path / "ring.csv").write_text("".join(f"{i},{(i + 1) % 30}\n" for i in range(30)))
    return "cluster", "ring.csv", "-k", 2, "--n-init", 2, "--max-iter", 30, "--no-plot"


@pytest.fixture
def people(tmp_path):
    """An edge list with names, and features joined by name in another order."""
    graph = attributed_communities(n_nodes=120, n_clusters=3, n_features=30, edge_signal=0.9, seed=0)
    names = [f"node {i:03d}" for i in range(120)]
    pairs = sp.coo_array(sp.triu(graph.adjacency))
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows((names[a], names[b]) for a, b in zip(pairs.row, pairs.col, strict=True))
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    with (tmp_path / "words.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"w{j}" for j in range(dense.shape[1]))])
        for i in np.random.default_rng(0).permutation(120):
            writer.writerow([names[i], *dense[i].tolist()])
    return graph, names
