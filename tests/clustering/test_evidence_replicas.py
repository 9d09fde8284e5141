"""Replicas of two objectives: how they are divided, what holds them, and what is trained a second time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering import prepare, replicas
from softcut.clustering.replicas import train_replicas
from softcut.clustering.settings import resolve
from softcut.datasets import attributed_communities
from softcut.training import TrainResult, replica_losses, replica_seeds


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)


def settings_of(graph, **options):
    est = sc.MinCutClustering(**{"n_clusters": 3, **options})
    return resolve(est.get_params(), sc.MinCutClustering.__init__, graph)[0]


def prepared_of(graph, settings):
    return prepare.prepare(graph, settings, torch.device("cpu"), [].append)


def test_replicas_are_divided_among_the_objectives(graph):
    settings = settings_of(graph, n_init=5, max_iter=8, tol=0)
    trained = train_replicas(prepared_of(graph, settings), 3, settings, [].append)
    assert trained.net.scales == sorted([*replicas._scales(6, 3), *replicas._scales(6, 2)])
    of = {o: [r for r in trained.replicas if r.objective == o] for o in ("trace_ratio", "evidence")}
    seeds = replica_seeds(0, 5)
    assert sorted(r.seed for r in of["trace_ratio"]) == sorted(seeds[::2])
    assert sorted(r.seed for r in of["evidence"]) == sorted(seeds[1::2])
    short = [r for r, x in enumerate(trained.replicas) if x.objective == "evidence"]
    assert trained.result.cut.shape == (8, 5)
    assert (trained.result.cut[4:, short] == trained.result.cut[3, short]).all(), "half of the iterations"
    alone = settings_of(graph, n_init=1, max_iter=3)
    assert [r.objective for r in train_replicas(prepared_of(graph, alone), 3, alone, [].append).replicas] == [
        "trace_ratio"
    ]


def test_a_family_of_replicas_is_the_same_alone_and_beside_another(graph):
    both = settings_of(graph, n_init=4, max_iter=6)
    alone = settings_of(graph, n_init=2, max_iter=6, objective="trace_ratio")
    prepared = prepared_of(graph, both)
    beside = train_replicas(prepared, 3, both, [].append)
    single = train_replicas(prepared, 3, alone, [].append)
    first = [
        r
        for r, x in enumerate(beside.replicas)
        if x.objective == "trace_ratio" and x.seed == replica_seeds(0, 1)[0]
    ]
    torch.testing.assert_close(beside.s[:, first], single.s[:, :1])


def test_evidence_replicas_are_held_to_the_sizes_of_their_start(graph):
    prepared = prepared_of(graph, settings_of(graph))
    s = torch.rand(120, 2, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    sizes = torch.tensor([[60.0, 40.0, 20.0], [40.0, 40.0, 40.0]])
    found, held = replicas._HeldEvidence(prepared, sizes, 0.1)(prepared.op, s)
    plain, _ = replica_losses(prepared.encoded.op, s, "evidence", words=prepared.words)
    torch.testing.assert_close(found, plain)
    for r in range(2):
        gram = s[:, r].T @ s[:, r]
        target = torch.diag(sizes[r]) / sizes[r].norm()
        torch.testing.assert_close(held[r], 0.1 * (gram / gram.norm() - target).norm())


def collapse(net, replica):
    """All nodes of one replica in its first cluster."""
    with torch.no_grad():
        net.second[replica] = 0
        net.second_bias[replica] = torch.tensor([50.0, 0.0, 0.0])


def test_an_evidence_replica_that_lost_a_cluster_is_trained_again_from_its_own_start(graph, monkeypatch):
    settings = settings_of(graph, n_init=6, max_iter=8, tol=0, objective="evidence")
    prepared = prepared_of(graph, settings)
    untouched = train_replicas(prepared, 3, settings, [].append)
    real, calls, holds = replicas.train, [], []
    held = replicas._HeldEvidence

    def sabotage(net, *args, **kwargs):
        result = real(net, *args, **kwargs)
        calls.append((net.scales, kwargs["start"], kwargs["sizes"], result))
        if len(calls) == 1:
            collapse(net, 4)
        return result

    def noted(prepared, sizes, hold):
        holds.append(hold)
        return held(prepared, sizes, hold)

    monkeypatch.setattr(replicas, "train", sabotage)
    monkeypatch.setattr(replicas, "_HeldEvidence", noted)
    again = train_replicas(prepared, 3, settings, [].append)
    (scales, start, sizes, _), (own_scales, own_start, own_sizes, own_result) = calls
    assert own_scales == [scales[4]]
    torch.testing.assert_close(own_start, start[4:5])
    torch.testing.assert_close(own_sizes, sizes[4:5])
    assert holds == [0.1, 2.0]
    others = [0, 1, 2, 3, 5]
    torch.testing.assert_close(again.s[:, others], untouched.s[:, others])
    assert not again.replicas[4].collapsed
    assert (again.s[:, 4] - untouched.s[:, 4]).abs().max() > 1e-4, "the firmer hold has an effect"
    assert [r.seed for r in again.replicas] == [r.seed for r in untouched.replicas]
    np.testing.assert_allclose(again.result.cut[:, 4], own_result.cut[:, 0])
    np.testing.assert_allclose(again.result.cut[:, others], untouched.result.cut[:, others], rtol=1e-5)


def test_an_interrupted_second_training_keeps_the_first(graph, monkeypatch):
    settings = settings_of(graph, n_init=6, max_iter=8, tol=0, objective="evidence")
    real, calls = replicas.train, []

    def interrupted(net, *args, **kwargs):
        calls.append(net.replicas)
        result = real(net, *args, **kwargs)
        if len(calls) == 1:
            collapse(net, 4)
            return result
        return TrainResult(result.cut, result.ortho, result.iterations, False, True)

    monkeypatch.setattr(replicas, "train", interrupted)
    found = train_replicas(prepared_of(graph, settings), 3, settings, [].append)
    assert calls == [6, 1]
    assert found.result.interrupted
    assert [r.collapsed for r in found.replicas] == [False, False, False, False, True, False]


def test_minimised_cuts_and_random_starts_are_trained_once(graph, monkeypatch):
    real, calls = replicas.train, []

    def sabotage(net, *args, **kwargs):
        calls.append(net.replicas)
        result = real(net, *args, **kwargs)
        collapse(net, 0)
        return result

    monkeypatch.setattr(replicas, "train", sabotage)
    for options in ({"objective": "trace_ratio"}, {"objective": "evidence", "init": "random"}):
        settings = settings_of(graph, n_init=3, max_iter=3, **options)
        assert train_replicas(prepared_of(graph, settings), 3, settings, [].append).replicas[0].collapsed
    assert calls == [3, 3]
