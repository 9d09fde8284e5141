"""Replicas that stop one by one follow the path they would follow alone, and leave when they have converged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softcut.datasets import attributed_communities
from softcut.ops import CSR
from softcut.training import DenseInput, ReplicaNet, TrainSettings, mincut, train

GRAPH = attributed_communities(90, 3, n_features=12, seed=0)
OP = CSR.from_graph(GRAPH, dtype=torch.float64)
Z = torch.randn(2, 90, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SIZES = torch.tensor([[30.0, 30, 30], [50, 20, 20], [20, 30, 40], [10, 40, 40]], dtype=torch.float64)


def trained(members: list[int], callback=None, start=None, **options):
    seeds, scales = [3, 1, 4, 1], [0, 0, 1, 1]
    net = ReplicaNet(
        6, 3, [seeds[r] for r in members], scales=[scales[r] for r in members], dtype=torch.float64
    )
    settings = TrainSettings(
        **{"iterations": 120, "lr": 1e-2, "tolerance": 2e-2, "patience": 10, "check_every": 5, **options}
    )
    result = train(net, DenseInput(Z), OP, settings, callback, sizes=SIZES[members], start=start)
    return net, result


def test_each_replica_stops_where_it_would_stop_alone():
    net, result = trained([0, 1, 2, 3], one_by_one=True)
    ends = set()
    for r in range(4):
        alone, own = trained([r], one_by_one=True)
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(net.state_dict()[name][r : r + 1], value, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.cut[: own.iterations, r], own.cut[:, 0], rtol=1e-9)
        np.testing.assert_allclose(result.cut[own.iterations :, r], own.cut[-1, 0], err_msg="its last value")
        ends.add(own.iterations)
    assert len(ends) > 1
    assert result.iterations == max(ends) < 120 and result.converged
    assert net.replicas == 4 and net.scales == [0, 0, 1, 1]
    assert net.assign(DenseInput(Z)).shape == (90, 4, 3)


def test_a_replica_stops_when_its_loss_improves_by_too_small_a_share():
    _, result = trained([2], one_by_one=True, check_every=1)
    _, whole = trained([2], tolerance=None)
    losses = (whole.cut + whole.ortho)[:, 0]
    best, since, ran = np.inf, 0, 0
    while since < 10:
        better = not np.isfinite(best) or losses[ran] < best - 2e-2 * abs(best)
        best, since = (losses[ran], 0) if better else (best, since + 1)
        ran += 1
    assert result.iterations == ran


def test_parameters_are_those_of_the_last_improvement():
    net, result = trained([0, 2], one_by_one=True)
    cut, ortho = mincut.replica_losses(OP.normalise(), net.soft(DenseInput(Z)), sizes=SIZES[[0, 2]])
    total = (cut + ortho).detach().numpy()
    past = result.cut + result.ortho
    assert all(np.isclose(past[:, r], total[r], rtol=1e-9).any() for r in range(2))
    assert (total < past[0]).all()


def test_callbacks_hear_of_all_replicas():
    seen = []
    _, result = trained([0, 1, 2, 3], seen.append, one_by_one=True)
    assert {len(progress.cut) for progress in seen} == {4}
    assert all(np.isfinite(progress.cut).all() for progress in seen)
    for progress in seen:
        np.testing.assert_allclose(progress.cut, result.cut[progress.iteration - 1])


def test_without_a_tolerance_none_stops():
    assert trained([0, 1], one_by_one=True, tolerance=None)[1].iterations == 120


@pytest.mark.parametrize(("rows", "used"), [(100, 90), (89, 45), (30, 30)])
def test_the_start_is_learned_from_some_rows(rows, used, monkeypatch):
    monkeypatch.setattr(mincut, "_START_ROWS", rows)
    seen = set()
    real = torch.nn.functional.cross_entropy
    monkeypatch.setattr(
        torch.nn.functional,
        "cross_entropy",
        lambda logits, target, **options: seen.add(logits.shape) or real(logits, target, **options),
    )
    start = torch.from_numpy(GRAPH.y).expand(2, -1)
    net, _ = trained([0, 2], iterations=1, start=start)
    assert seen == {(2, 3, used)}
    assert net.replicas == 2
