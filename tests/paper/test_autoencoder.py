"""The autoencoder experiment on small settings: replicas, resuming, kill -9, files and figure."""

import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from softcut.datasets import grid_graph, ring_graph
from softcut.nn import GraphAutoencoder
from softcut.ops import as_operator
from softcut.paper import autoencoder
from softcut.paper.runs import Records, read_cells
from softcut.report.tables import to_markdown

RESULTS = Path(__file__).parents[2] / "results"


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
    graphs = {"ring": lambda: ring_graph(24), "grid": lambda: grid_graph(6, 6)}
    monkeypatch.setattr(autoencoder, "DATASETS", graphs)
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
    seen, began = [], time.perf_counter()
    cells = autoencoder.run(**arguments, progress=lambda *a: seen.append(a))
    took = time.perf_counter() - began
    assert len(calls) == 3 + 4  # two of six cells were known already
    assert len(cells) == 6 and seen
    assert read_cells(tmp_path / f"{small.name}.json") == cells
    assert (tmp_path / f"{small.name}.png").stat().st_size > 10_000
    assert not list((tmp_path / "checkpoints").glob("*"))
    records = Records(tmp_path / f"{small.name}_runs.json")
    with np.load(tmp_path / f"{small.name}.npz") as arrays:
        error = ((arrays["ring/mincut"] - np.asarray(ring_graph(24).x)) ** 2).mean((1, 2))
    recorded = [r["mse"] for r in records.of("ring", "mincut", range(2), asdict(small))]
    np.testing.assert_allclose(error, recorded, rtol=1e-4)
    last = [r["seconds"] for r in records.runs if r["dataset"] == "grid"]
    assert min(last) > 0 and sum(last) < took  # every seed has its share
    made = autoencoder.table(cells)
    assert [row[:2] for row in made.rows] == [
        [name, title] for name in ("ring", "grid") for title in ("Top-K", "MinCutPool", "NDP")
    ]
    assert made.heads == 2 and "MinCutPool" in to_markdown(made)


def test_recorded_runs_are_those_of_the_settings_and_graphs():
    for settings in (autoencoder.Settings(), autoencoder.Settings(decay=True)):
        runs = Records(RESULTS / f"{settings.name}_runs.json").runs
        variance = {name: autoencoder.signal_variance(make()) for name, make in autoencoder.DATASETS.items()}
        for run in runs:
            assert run["settings"] == asdict(settings)
            assert run["mse"] / variance[run["dataset"]] == pytest.approx(run["mse_over_variance"], rel=1e-5)
        for cell in read_cells(RESULTS / f"{settings.name}.json"):
            own = [r for r in runs if (r["dataset"], r["method"]) == (cell["dataset"], cell["method"])]
            (again,) = autoencoder._cells(own)
            for name in set(cell) - {"command"}:
                assert again[name] == (pytest.approx(v) if isinstance(v := cell[name], float) else v)
        with np.load(RESULTS / f"{settings.name}.npz") as arrays:
            for name, make in autoencoder.DATASETS.items():
                assert arrays[f"{name}/mincut"].shape == (10, *make().x.shape)


def test_the_figure_shows_the_run_with_the_median_error(tmp_path, monkeypatch):
    rng, drawn = np.random.default_rng(0), []
    monkeypatch.setattr(autoencoder, "save_figure", lambda fig, path, dpi: drawn.append(fig))
    nodes = {"ring/topk": 200, "ring/ndp": 200, "grid/ndp": 900}
    arrays = {name: rng.random((4, n, 2)) for name, n in nodes.items()}
    runs = [
        {"dataset": d, "method": m, "mse": mse, "mse_over_variance": share}
        for d, m in (cell.split("/") for cell in arrays)
        for mse, share in ((0.3, 0.5), (0.1, 0.4), (0.2, 0.0123), (0.4, 2.5))
    ]
    assert autoencoder.draw_reconstructions("x", [], arrays) is None
    autoencoder.draw_reconstructions("x", [*runs, {"dataset": "ring", "method": "mincut"}], arrays)
    axes = np.reshape(drawn[0].axes, (2, 3))
    assert [[axis.get_title() for axis in row] for row in axes] == [
        ["original", "Top-K\nMSE 1.2 % of variance", "NDP\nMSE 1.2 % of variance"],
        ["original", "", "NDP\nMSE 1.2 % of variance"],
    ]
    assert not axes[1, 1].axison and axes[1, 0].axison
    lines, points = axes[1, 2].collections
    graph = grid_graph(30, 30)
    np.testing.assert_array_equal(points.get_offsets(), arrays["grid/ndp"][2])
    np.testing.assert_allclose(points.get_array(), (graph.x - graph.x.min(0)).sum(1))
    edges = graph.adjacency.tocoo()
    ends = np.stack([arrays["grid/ndp"][2][edges.row], arrays["grid/ndp"][2][edges.col]], 1)
    np.testing.assert_array_equal(lines.get_segments(), ends)
    assert (points.get_sizes(), lines.get_linewidths()) == ([5], [0.5])
    assert axes[1, 2].get_xlim() == axes[1, 2].get_ylim() == (graph.x.min() - 0.15, graph.x.max() + 0.15)
    assert [autoencoder.percent(share) for share in (2.5, 0.1, 0.0996)] == ["250 %", "10 %", "10 %"]


KILLED = """
import sys
from softcut.datasets import ring_graph
from softcut.paper import autoencoder
autoencoder._CHECK = 10
autoencoder.train_replicas(
    ring_graph(24), "mincut", [0, 1], autoencoder.Settings(iterations=600, decay=sys.argv[2] == "True"),
    checkpoint=sys.argv[1], checkpoint_every=0.0, progress=lambda i, mse: print(i, flush=True))
"""


@pytest.mark.parametrize("decay", [False, True])
def test_kill_9_and_resume_give_the_same_result_as_no_disturbance(tmp_path, monkeypatch, decay) -> None:
    path, settings = tmp_path / "state.pt", autoencoder.Settings(iterations=600, decay=decay)
    words = [sys.executable, "-c", KILLED, str(path), str(decay)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 60 and path.exists():
            process.kill()
            break
    assert process.wait() == -signal.SIGKILL
    done = torch.load(path, weights_only=True)["done"]
    assert done >= 10
    monkeypatch.setattr(autoencoder, "_CHECK", 10)
    seen: list[int] = []
    given, look = (ring_graph(24), "mincut", [0, 1], settings), lambda i, mse: seen.append(i)
    resumed, whole = (
        autoencoder.train_replicas(*given, checkpoint=file, progress=look) for file in (path, None)
    )
    assert seen[0] > done, "it should not begin anew"
    assert resumed[:4] == whole[:4]
    np.testing.assert_array_equal(resumed.x, whole.x)


def test_a_time_limit_stops_cleanly_and_the_same_call_continues(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(autoencoder, "DATASETS", {"ring": lambda: ring_graph(24)})
    settings = autoencoder.Settings(iterations=300, hidden=8)
    arguments = {"runs": 2, "settings": settings, "methods": ["mincut"], "datasets": ["ring"]}
    whole = autoencoder.run(out_dir=tmp_path / "whole", **arguments)
    stopped = 0
    while not (cells := autoencoder.run(out_dir=tmp_path / "parts", minutes=1e-3, **arguments)):
        stopped += 1
        assert len(list((tmp_path / "parts/checkpoints").glob("*.pt"))) == 1, "what was begun is kept"
    assert stopped
    assert cells[0]["mean"] == whole[0]["mean"]
    assert not list((tmp_path / "parts/checkpoints").glob("*"))


@pytest.mark.slow
def test_ring_autoencoder_as_published() -> None:
    graph, settings = ring_graph(200), autoencoder.Settings(iterations=2000)
    trained = (autoencoder.train_replicas(graph, m, range(5), settings) for m in ("mincut", "topk"))
    mincut, topk = (np.median(each.mse) / autoencoder.signal_variance(graph) for each in trained)
    assert mincut < 0.01 and topk > 0.3


def test_every_500th_iteration_is_told(monkeypatch, capsys) -> None:
    def run(runs, out, device, tell, *chosen):
        for iteration in range(1001):
            tell("ring/topk", iteration, 5000, 0.25)
        return []

    monkeypatch.setattr(autoencoder, "run", run)
    autoencoder.main(["--device", "cpu"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ring/topk")]
    assert said == [f"ring/topk: iteration {i} of at most 5000, median MSE 2.50e-01" for i in (0, 500, 1000)]
