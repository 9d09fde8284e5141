"""The paper's architectures with every pooler, and the autoencoder experiment on small settings."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from test_pool_api import GRAPHS, F, collate

from softcut.datasets import grid_graph, ring_graph
from softcut.errors import ParameterError
from softcut.nn import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
from softcut.nn.models import CLUSTERERS
from softcut.nn.pool import POOLS
from softcut.paper import autoencoder


@pytest.fixture(autouse=True)
def _one_thread():
    """Steps of microseconds gain nothing from threads, and lose much where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


WHOLE = tuple(t if t.dtype == torch.long else t.float() for t in collate(GRAPHS))


@pytest.mark.parametrize("pool", POOLS)
def test_classifier_and_regressor(pool: str) -> None:
    torch.manual_seed(0)
    for model, width in (
        (GraphClassifier(F, 3, pool, k=(4, 2)), 3),
        (GraphRegressor(F, pool=pool, k=4), 1),
    ):
        out = model(*WHOLE)
        assert out.y.shape == (len(GRAPHS), width)
        (out.y.square().mean() + out.loss).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        assert len(out.pooled) == len(model.pools)
        assert all(p.dim() >= 1 for p in model.kernels())
        assert not any(p is model.head.weight for p in model.kernels())


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="k must be given"):
        GraphClassifier(F, 2, "mincut")
    with pytest.raises(ParameterError, match="one value for each of the 2"):
        GraphClassifier(F, 2, "mincut", k=(3,))
    with pytest.raises(ParameterError, match="mincut, diffpool, dmon, justbalance, random"):
        NodeClusterer(F, 3, pool="topk")
    with pytest.raises(ParameterError, match="selections must have one"):
        GraphClassifier(F, 2, "graclus")(*WHOLE, selections=[])


@pytest.mark.parametrize("pool", CLUSTERERS)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_clusterer(pool: str, layers: int) -> None:
    out = NodeClusterer(F, 3, layers=layers, pool=pool)(*WHOLE)
    assert out.s.shape == (len(WHOLE[0]), 3)
    torch.testing.assert_close(out.s.sum(1), torch.ones(len(WHOLE[0])))


@pytest.mark.parametrize("pool", POOLS)
def test_nothing_passes_around_the_bottleneck(pool: str) -> None:
    """With the pooled features erased, the reconstruction cannot depend on the input."""
    graph = ring_graph(40)
    torch.manual_seed(0)
    model = GraphAutoencoder(2, pool, k=10)
    model.pool.lift = lambda x_pool, selection, pinv=False: torch.zeros(40, 32)  # type: ignore[method-assign]
    one = model(torch.rand(40, 2), graph).x
    two = model(torch.rand(40, 2), graph).x
    assert torch.equal(one, two)


def test_a_replica_does_not_depend_on_its_company() -> None:
    settings = autoencoder.Settings(iterations=10)
    for method in ("topk", "mincut", "diffpool"):
        together = autoencoder.train_replicas(ring_graph(40), method, [0, 1, 2], settings)
        alone = autoencoder.train_replicas(ring_graph(40), method, [1], settings)
        np.testing.assert_allclose(together.mse[1], alone.mse[0], rtol=1e-3)


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
    monkeypatch.setattr(autoencoder, "METHODS", ("topk", "mincut", "ndp"))
    arguments = {"runs": 2, "out_dir": tmp_path, "settings": small, "methods": ("topk", "mincut", "ndp")}
    with pytest.raises(KeyboardInterrupt):
        autoencoder.run(**arguments)
    seen = []
    report = autoencoder.run(**arguments, progress=lambda *a: seen.append(a))
    assert len(calls) == 3 + 4  # two of six cells were known already
    assert len(report["cells"]) == 6
    assert len(report["runs"]) == 12
    assert seen
    assert json.loads((tmp_path / "autoencoder.json").read_text()) == report
    assert (tmp_path / "autoencoder.png").stat().st_size > 10_000
    assert not list(tmp_path.glob(".*"))
    wanted = {"dataset", "method", "metric", "mean", "std", "n", "paper_mean", "paper_std"}
    wanted |= {"seconds", "device", "commit", "command"}
    assert all(wanted <= set(c) for c in report["cells"])
    assert "MinCutPool" in autoencoder.table(report)
    autoencoder.run(**arguments)
    assert len(calls) == 7
    with pytest.raises(ParameterError, match="methods must be among"):
        autoencoder.run(2, tmp_path, methods=["maxcut"])


@pytest.mark.parametrize("decay", [False, True])
def test_an_interrupted_cell_goes_on(tmp_path, monkeypatch, decay) -> None:
    monkeypatch.setattr(autoencoder, "_SAVE", 0.0)
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
    np.testing.assert_allclose(again.mse, whole.mse, rtol=1e-4)


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
