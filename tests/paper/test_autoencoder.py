"""The autoencoder experiment on small settings: replicas, resuming, kill -9, files and figure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from softcut.datasets import grid_graph, ring_graph
from softcut.errors import ParameterError
from softcut.nn import GraphAutoencoder
from softcut.ops import as_operator
from softcut.paper import autoencoder
from softcut.paper.runs import Records, read_cells
from softcut.report.tables import to_markdown


@pytest.fixture(autouse=True)
def _one_thread():
    """Steps of microseconds gain nothing from threads, and lose much where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("method", ["topk", "mincut", "diffpool"])
def test_replicas_are_separate_trainings(method) -> None:
    """Against one plain module, torch.optim.Adam, and the stop rule written out."""
    graph, settings = ring_graph(40), autoencoder.Settings(iterations=60, patience=4, tolerance=2e-3)
    together = autoencoder.train_replicas(graph, method, [0, 1, 2], settings)
    x, op = torch.as_tensor(np.asarray(graph.x), dtype=torch.float32), as_operator(graph)
    for r in range(3):
        torch.manual_seed(r)
        model = GraphAutoencoder(2, method, 32, k=10, ratio=0.25)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
        best, best_mse, at, ran = np.inf, np.inf, 0, 60
        for i in range(60):
            out = model(x, op)
            mse = (out.x - x).square().mean()
            loss = mse + out.pooled.loss
            optimiser.zero_grad()
            loss.backward()
            if loss.item() < best - 2e-3:
                best, best_mse, at = loss.item(), mse.item(), i
            if i - at >= 4:
                ran = i
                break
            optimiser.step()
        assert (together.best_iteration[r], together.iterations[r]) == (at, ran)
        assert together.mse[r] == pytest.approx(best_mse, rel=1e-3)
        assert together.loss[r] == pytest.approx(best, rel=1e-3)


def test_run_resumes_and_writes_everything(tmp_path, monkeypatch) -> None:
    small = autoencoder.Settings(iterations=50, hidden=8)
    monkeypatch.setattr(
        autoencoder, "DATASETS", {"ring": lambda: ring_graph(24), "grid": lambda: grid_graph(6, 6)}
    )
    calls = []
    real = autoencoder.train_replicas

    def counted(graph, method, *args, **kwargs):
        calls.append(method)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(graph, method, *args, **kwargs)

    monkeypatch.setattr(autoencoder, "train_replicas", counted)
    methods = ("topk", "mincut", "ndp")
    arguments = {"runs": 2, "out_dir": tmp_path, "settings": small, "methods": methods}
    with pytest.raises(KeyboardInterrupt):
        autoencoder.run(**arguments)
    seen = []
    found = autoencoder.run(**arguments, progress=lambda *a: seen.append(a))
    assert len(calls) == 3 + 4  # two of six cells were known already
    assert len(found) == 6
    assert seen
    assert read_cells(tmp_path / f"{small.name}.json") == found
    assert (tmp_path / f"{small.name}.png").stat().st_size > 10_000
    assert not list(tmp_path.glob(".*"))
    records = Records(tmp_path / f"{small.name}_runs.json")
    for name in ("ring", "grid"):
        for method in methods:
            assert not records.missing(name, method, range(2), asdict(small))
    with np.load(tmp_path / f"{small.name}.npz") as arrays:
        x = np.asarray(ring_graph(24).x)
        error = ((arrays["ring/mincut"] - x) ** 2).mean((1, 2))
    recorded = [r["mse"] for r in records.of("ring", "mincut", range(2), asdict(small))]
    np.testing.assert_allclose(error, recorded, rtol=1e-4)
    wanted = {"dataset", "method", "metric", "mean", "std", "n", "paper_mean", "paper_std"}
    wanted |= {"seconds", "device", "commit", "command"}
    assert all(wanted <= set(c) for c in found)
    assert "MinCutPool" in to_markdown(autoencoder.table(found))
    autoencoder.run(**arguments)
    assert len(calls) == 7
    autoencoder.run(**{**arguments, "runs": 3, "methods": ["topk"], "datasets": ["ring"]})
    assert len(calls) == 8, "more seeds are another cell"
    with pytest.raises(ParameterError, match="methods must be among"):
        autoencoder.run(2, tmp_path, methods=["maxcut"])


def test_a_time_limit_stops_cleanly_and_the_same_call_continues(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(autoencoder, "DATASETS", {"ring": lambda: ring_graph(24)})
    settings = autoencoder.Settings(iterations=30, hidden=8)
    arguments = {"runs": 2, "settings": settings, "methods": ["mincut"], "datasets": ["ring"]}
    whole = autoencoder.run(out_dir=tmp_path / "whole", **arguments)
    found: list = []
    for _ in range(29):
        found = autoencoder.run(out_dir=tmp_path / "parts", time_limit=0.0, **arguments)
        assert not found
        assert len(list((tmp_path / "parts").glob(".*.pt"))) == 1, "what was begun is kept"
    found = autoencoder.run(out_dir=tmp_path / "parts", **arguments)
    assert found[0]["mean"] == whole[0]["mean"]
    assert not list((tmp_path / "parts").glob(".*"))


KILLED = """
import sys, torch
from softcut.datasets import ring_graph
from softcut.paper import autoencoder
torch.set_num_threads(1)
autoencoder._CHECK = 10
autoencoder.train_replicas(
    ring_graph(24), "mincut", [0, 1], autoencoder.Settings(iterations=100_000), checkpoint=sys.argv[1],
    checkpoint_every=0.01, progress=lambda i, mse: print(i, flush=True))
"""


def test_kill_9_and_resume_give_the_same_result_as_no_disturbance(tmp_path, monkeypatch) -> None:
    path, settings = tmp_path / "state.pt", autoencoder.Settings(iterations=100_000)
    words = [sys.executable, "-c", KILLED, str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 60 and path.exists():
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    done = torch.load(path, weights_only=True)["done"]
    assert done >= 10
    monkeypatch.setattr(autoencoder, "_CHECK", 10)

    def losses(checkpoint) -> dict[int, float]:
        """The median MSE at each check, for a while."""
        seen: dict[int, float] = {}

        def tell(iteration: int, mse: float) -> None:
            seen[iteration] = mse
            if iteration >= done + 40:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            autoencoder.train_replicas(
                ring_graph(24), "mincut", [0, 1], settings, checkpoint=checkpoint, progress=tell
            )
        return seen

    resumed, whole = losses(path), losses(tmp_path / "whole.pt")
    assert min(resumed) > done, "it should not begin anew"
    assert resumed == {i: mse for i, mse in whole.items() if i > done}
    one, other = (torch.load(p, weights_only=True) for p in (path, tmp_path / "whole.pt"))
    assert one["done"] == other["done"]
    for part in ("parameters", "best", "kept"):
        for name, value in other[part].items():
            assert torch.equal(one[part][name], value)
    assert torch.equal(one["history"], other["history"])


@pytest.mark.parametrize("decay", [False, True])
def test_an_interrupted_training_resumes_to_the_same_result(tmp_path, monkeypatch, decay) -> None:
    monkeypatch.setattr(autoencoder, "_CHECK", 20)
    settings = autoencoder.Settings(iterations=100, decay=decay)
    path = tmp_path / "state.pt"
    whole = autoencoder.train_replicas(ring_graph(24), "mincut", [0, 1], settings)

    def stop(i: int, mse: float) -> None:
        if i == 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        autoencoder.train_replicas(ring_graph(24), "mincut", [0, 1], settings, checkpoint=path, progress=stop)
    again = autoencoder.train_replicas(ring_graph(24), "mincut", [0, 1], settings, checkpoint=path)
    assert again[:4] == whole[:4]
    np.testing.assert_array_equal(again.x, whole.x)


@pytest.mark.slow
def test_ring_autoencoder_as_published() -> None:
    graph = ring_graph(200)
    variance = autoencoder.signal_variance(graph)
    settings = autoencoder.Settings(iterations=2000)
    median = {
        m: np.median(autoencoder.train_replicas(graph, m, range(5), settings).mse) / variance
        for m in ("topk", "mincut")
    }
    assert median["mincut"] < 0.01
    assert median["topk"] > 0.3
