"""Two groups of replicas beside each other give what all of them give at once."""

import threading

import numpy as np
import pytest
import torch

from softcut.datasets import attributed_communities
from softcut.ops import CSR
from softcut.training import DenseInput, ReplicaNet, TrainSettings, groups, train

GRAPH = attributed_communities(90, 3, n_features=12, seed=0)
OP = CSR.from_graph(GRAPH, dtype=torch.float64)
Z = torch.randn(2, 90, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
START = torch.randint(3, (5, 90), generator=torch.Generator().manual_seed(1))
SIZES = torch.tensor(
    [[30.0, 30, 30], [50, 20, 20], [20, 30, 40], [10, 40, 40], [40, 40, 10]], dtype=torch.float64
)


def trained(callback=None, replicas=5, **options):
    net = ReplicaNet(6, 3, [3, 1, 4, 1, 5][:replicas], scales=[0, 0, 1, 1, 1][:replicas], dtype=torch.float64)
    usual = {"iterations": 60, "lr": 1e-2, "start": 3, "tolerance": 2e-2, "patience": 5, "check_every": 5}
    settings = TrainSettings(**{**usual, "one_by_one": True, **options})
    given = {"start": START[:replicas], "sizes": SIZES[:replicas]}
    return net, train(net, DenseInput(Z), OP, settings, callback, **given)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(groups, "_SMALLEST", 1)


@pytest.mark.parametrize("options", [{}, {"tolerance": None, "iterations": 12}, {"one_by_one": False}])
def test_groups_give_what_all_replicas_give_at_once(monkeypatch, options):
    whole, expected = trained(**options)
    monkeypatch.setattr(groups, "_SMALLEST", 1)
    seen = []
    net, result = trained(lambda progress: seen.append((progress, threading.current_thread())), **options)
    assert (result.converged, result.interrupted) == (expected.converged, False)
    assert net.replicas == 5 and net.scales == whole.scales
    if options.get("one_by_one", True):  # groups that stop together need not wait for each other
        assert result.iterations == expected.iterations
        np.testing.assert_allclose(result.cut, expected.cut, rtol=1e-9)
        np.testing.assert_allclose(result.ortho, expected.ortho, rtol=1e-9, atol=1e-12)
        for name, value in whole.state_dict().items():
            torch.testing.assert_close(net.state_dict()[name], value, rtol=1e-9, atol=1e-9)
    iterations = [progress.iteration for progress, _ in seen]
    assert iterations == sorted(set(iterations)) and iterations[-1] == result.iterations
    for progress, thread in seen:
        assert thread is threading.main_thread() and progress.net is net
        assert progress.cut.shape == progress.ortho.shape == (5,) and np.isfinite(progress.cut).all()
        assert set(progress.active) <= set(range(5))


def test_callbacks_see_the_parameters_of_the_moment(small):
    seen = []
    options = {"tolerance": None, "iterations": 5}
    net, _ = trained(lambda progress: seen.append(progress.net.assign(DenseInput(Z)).clone()), **options)
    torch.testing.assert_close(seen[-1], net.assign(DenseInput(Z)))


def test_an_interrupt_keeps_what_was_learnt(small):
    def press(progress):
        raise KeyboardInterrupt

    _, result = trained(press, tolerance=None)
    assert result.interrupted and not result.converged and 5 <= result.iterations < 60
    assert result.cut.shape == (result.iterations, 5) and np.isfinite(result.cut).all()


def test_errors_end_both_groups(small, monkeypatch):
    def fail(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trained(fail, tolerance=None)
    monkeypatch.setattr("softcut.training.mincut.replica_losses", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trained()
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]


def test_small_trainings_single_replicas_and_own_losses_are_not_divided(monkeypatch):
    """Groups begin where rows x replicas x units reach the limit: 90 x 5 x (16 + 3)."""
    net = ReplicaNet(6, 3, [0] * 5)
    monkeypatch.setattr(groups, "_SMALLEST", 90 * 5 * 19)
    assert groups.groups_pay(net, 90) and not groups.groups_pay(net, 89)
    assert groups.groups_pay(ReplicaNet(6, 3, [0, 1]), 90 * 5)
    assert not groups.groups_pay(ReplicaNet(6, 3, [0]), 90 * 5)
    called = []

    def loss(op, s):
        called.append(s.shape[1])
        return s.sum((0, 2)), s.sum((0, 2))

    monkeypatch.setattr(groups, "_SMALLEST", 1)
    train(net, DenseInput(Z[0].float()), OP, TrainSettings(iterations=2), loss=loss)
    assert called == [5, 5]


def test_the_threads_of_operations_are_shared(small, monkeypatch):
    before, seen = torch.get_num_threads(), []

    def submit(self, job, i):
        seen.append(torch.get_num_threads())
        raise ZeroDivisionError

    monkeypatch.setattr(groups.ThreadPoolExecutor, "submit", submit)
    torch.set_num_threads(4)
    try:
        with pytest.raises(ZeroDivisionError):
            trained()
        assert (seen, torch.get_num_threads()) == ([2], 4)
    finally:
        torch.set_num_threads(before)
