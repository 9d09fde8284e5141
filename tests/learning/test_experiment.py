"""Training folds: settings, results, checkpoints, time limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.made_graphs import made_graphs

from softcut.errors import ParameterError
from softcut.graph import Graph, Split, folds, from_graphs
from softcut.learning import ClassifierSettings, train_folds
from softcut.learning.experiment import (
    METHODS,
    build_models,
    build_task,
    cluster_sizes,
    folds_at_once,
    loop_settings,
    numbers_of_step,
)
from softcut.training import LoopProgress, LoopResult, LoopSettings, Patience

QUICK = ClassifierSettings(batch=8, epochs=4, patience=2, lr=5e-3, hidden=8)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_and_says_what_it_did(method: str) -> None:
    graphs = made_graphs(40)
    results, loop = train_folds(graphs, method, [1, 3], settings=QUICK, count=4)
    assert [r.fold for r in results] == [1, 3]
    steps = math.ceil(27 / 8)  # of an epoch: of 30 training graphs 3 are for validation
    assert loop.validated_at.tolist() == [steps * epoch for epoch in range(1, len(loop.validated_at) + 1)]
    assert loop.iterations == steps * max(r.epochs for r in results)
    for i, r in enumerate(results):
        assert 0 <= r.accuracy <= 1
        assert r.best_epoch == np.nanargmin(loop.validation["loss"][:, i]) + 1 <= r.epochs <= 4
        known = [loop.validation[name][r.best_epoch - 1, i] for name in ("loss", "task", "accuracy")]
        assert [r.validation_loss, r.validation_task, r.validation_accuracy] == pytest.approx(known)
        assert math.isfinite(r.details["loss"])
        if method == "mincut":
            assert -1 <= r.details["cut1"] <= 0 <= r.details["ortho2"] <= 1.5
            assert 1 <= r.details["clusters2"] <= cluster_sizes(graphs)[1]
    assert loop.seconds > 0


def test_seeds_and_folds_are_those_of_their_numbers() -> None:
    graphs = made_graphs(40)
    options = {"settings": replace(QUICK, epochs=1, lr=1e-12)}
    for given, seed, count in ({"seed": 2, "count": 4}, 2, 4), ({}, 0, 10):
        (result,), _ = train_folds(graphs, "nopool", [1], **given, **options)
        task = build_task(graphs, "nopool", [folds(graphs, count, seed)[1]], [1000 * seed + 1], QUICK)
        assert result.validation_loss == pytest.approx(task.validate()["loss"].item(), abs=1e-6)
        assert result.details["loss"] == pytest.approx(task.evaluate()["loss"].item(), abs=1e-6)
    assert [r.fold for r in train_folds(graphs, "nopool", **options)[0]] == list(range(10))


def test_the_loop_of_an_epoch() -> None:
    splits = [Split(np.arange(n), np.arange(2), np.arange(2)) for n in (15, 17, 9)]
    stop, minimise = Patience(patience=2, watch="loss"), {"loss": 1.0, "l2": 1e-4}
    expected = LoopSettings(12, 5e-3, minimise, check_every=3, stop=stop, drop_finished=True)
    assert loop_settings(splits, QUICK) == expected
    assert loop_settings([Split(*[np.arange(0)] * 3)], QUICK).iterations == 4


def test_dense_does_not_see_edges() -> None:
    graphs = made_graphs(30)
    given = (graphs, "dense"), (graphs.without_edges(), "nopool"), (graphs, "nopool")
    tasks = [build_task(*each, folds(graphs, 3)[:1], [0], QUICK) for each in given]
    dense, without, joined = (task.validate()["loss"] for task in tasks)
    assert torch.equal(dense, without) and not torch.equal(dense, joined)
    measured = [
        dense,
        tasks[0].evaluate()["loss"],
        tasks[0].predict(np.arange(2)),
        tasks[0].outputs([np.arange(2)]),
    ]
    assert not any(value.requires_grad for value in measured)


def test_sizes_and_groups_of_folds_follow_the_mean_size() -> None:
    path = Graph.from_edges([range(999), range(1, 1000)])
    small = from_graphs([Graph.from_edges([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])] * 3)
    assert cluster_sizes(small) == (3, 1) and cluster_sizes(small, 4) == (3, 1, 1, 1)
    graphs = from_graphs([path] * 2)
    assert cluster_sizes(graphs, 3) == (500, 250, 125)
    # 2,000,000 entries over batches of B graphs of 1,000 nodes times max(K, hidden).
    known = [({}, 1), ({"batch": 2}, 2), ({"batch": 2, "k": (20, 10)}, 31), ({"k": (100, 9)}, 1)]
    for settings, count in known:
        assert folds_at_once(graphs, ClassifierSettings(**settings)) == count
    assert folds_at_once(graphs, ClassifierSettings(), "cuda") is None
    wide = ClassifierSettings(batch=2, k=(20, 10), hidden=50)
    assert numbers_of_step(graphs, wide) == 8 * 2 * 1000 * 50  # eight tensors


def test_models_have_the_weights_of_their_seed() -> None:
    state = torch.random.get_rng_state()
    first, second = build_models(5, 2, "mincut", (4, 2), [3, 4], QUICK)
    again = build_models(5, 2, "mincut", (4, 2), [4], QUICK)[0]
    assert torch.equal(torch.random.get_rng_state(), state)  # the global generator is left alone
    assert torch.equal(second.head.weight, again.head.weight)
    assert build_models(5, 1, "nopool", (4, 2), [4], QUICK)[0].head.weight.shape == (1, 8)
    assert not torch.equal(first.head.weight, second.head.weight)


def test_a_stopped_training_continues_to_the_same_result(tmp_path: object) -> None:
    graphs = made_graphs(40)
    path = f"{tmp_path}/training.pt"

    def interrupt(progress: LoopProgress) -> None:
        if progress.iteration == 8:  # the second epoch
            raise KeyboardInterrupt

    def train(settings: ClassifierSettings = QUICK, **rest: object) -> tuple[list[object], LoopResult]:
        return train_folds(graphs, "mincut", [0, 1], settings=settings, count=4, **rest)

    straight, _ = train()
    results, loop = train(checkpoint=path, callback=interrupt)
    assert loop.interrupted and results == []
    assert train(checkpoint=path)[0] == straight
    with pytest.raises(ParameterError, match="batch"):
        train(replace(QUICK, batch=9), checkpoint=path)


def test_a_time_limit_without_a_checkpoint_gives_the_best_so_far() -> None:
    settings = ClassifierSettings(batch=8, epochs=10_000, patience=10_000, hidden=8)
    for limit, count in ((0.5, 1), (0.0, 0)):
        results, loop = train_folds(made_graphs(40), "nopool", [0], 0, settings, count=4, time_limit=limit)
        assert loop.timed_out and len(results) == count


def test_bad_settings_are_one_sentence() -> None:
    for options, words in (
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"l2": -1.0}, "l2 must not be negative, got -1.0"),
        ({"stop_on": "x"}, "stop_on must be one of loss, task, error, not 'x'"),
    ):
        with pytest.raises(ParameterError, match=words):
            ClassifierSettings(**options)
    with pytest.raises(ParameterError, match="at least one model"):
        train_folds(made_graphs(10), "mincut", [], settings=QUICK, count=2)
    with pytest.raises(ParameterError, match="method must be one of mincut"):
        train_folds(made_graphs(10), "maxcut", [0], settings=QUICK, count=2)
