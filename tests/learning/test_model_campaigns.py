"""Hundreds of mutated models, and of kills while a model is saved over another, for both kinds of model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import softcut as sc
from softcut import files
from softcut.datasets import attributed_communities
from softcut.graph import Graph

pytestmark = pytest.mark.slow


def test_five_hundred_mutated_models() -> None:
    """Loaded and used, or refused in one sentence, within 10 seconds each and 1 GiB."""
    words = [sys.executable, "-m", "helpers.fuzzed_models", "0", "500"]
    folder = Path(__file__).parents[1]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert told["models"] == 500 == told["refused"] + told["same"] + told["other"]
    assert told["refused"] > 400 and told["same"] > 10, "both happen"


def clusterings() -> list[sc.GraphClustering]:
    graph = attributed_communities(n_nodes=2000, n_clusters=4, seed=0)
    return [sc.GraphClustering(k, n_init=2, max_iter=2).fit(graph) for k in (3, 4)]


def classifiers() -> list[sc.GraphClassification]:
    graphs = [Graph.from_edges(ends) for ends in ([[0, 1, 2], [1, 2, 0]], [[0, 0, 0], [1, 2, 3]])] * 4
    return [sc.GraphClassification("paper", max_iter=1, hidden=w).fit(graphs, [0, 1] * 4) for w in (64, 65)]


@pytest.mark.parametrize("made", [clusterings, classifiers])
def test_a_hundred_kills_while_saving(made: object, tmp_path: Path) -> None:
    """Always the one or the other model, whole; and the next save removes what was left."""
    models = made()
    started = time.perf_counter()
    whole = [model.save(tmp_path / "m").read_bytes() for model in models]
    once = (time.perf_counter() - started) / 2
    rng, file, found = np.random.default_rng(0), tmp_path / "m.safetensors", []
    ready, saving = os.pipe()
    for _ in range(100):
        child = os.fork()
        if child == 0:
            os.write(saving, b"x")
            while True:
                for model in models:
                    model.save(tmp_path / "m")
        os.read(ready, 1)
        time.sleep(rng.uniform(0, 4 * once))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found.append(whole.index(file.read_bytes()))
        type(models[0]).load(file)
    assert 0 < sum(found) < 100, "both were found"
    for path in tmp_path.iterdir():
        os.utime(path, (0, time.time() - files._ABANDONED - 1))
    models[0].save(file)
    assert list(tmp_path.iterdir()) == [file]
