"""The paper's network written out, against the same network by its modules and autograd."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.made_graphs import made_graphs
from torch import Tensor

from softcut.graph import folds
from softcut.learning import GraphClassification
from softcut.learning.fold_task import FoldTask, NumbersTask
from softcut.learning.replica_net import replica_net
from softcut.learning.store import BatchPlan, Gathered, GraphStore
from softcut.nn.models import GraphClassifier
from softcut.ops import Segments

OPTIONS = [
    {},
    {"levels": 1, "k": 5},
    {"levels": 3, "k": (6, 4, 2)},
    {"pool_args": {"temperature": 0.5, "cut_weight": 0.3, "ortho_weight": 2.0, "keep_diagonal": True}},
    {"pool_args": {"hidden": None}},
    {"pool_args": {"hidden": (7, 5)}},
]


def task_of(features: str, replicas: int, **options: object) -> FoldTask:
    graphs = made_graphs(12, one_hot=features != "numbers")
    if features == "one-hot":
        graphs = replace(
            graphs, value=graphs.value[:, :0], num_features=graphs.num_features - graphs.value.shape[1]
        )
    models = []
    for seed in range(replicas):
        torch.manual_seed(seed)
        given = {"levels": 2, "k": (6, 3), "hidden": 8} | options
        models.append(GraphClassifier(graphs.num_features, len(graphs.classes), **given).double())
    store = GraphStore(graphs, torch.device("cpu"), torch.float64)
    net = replica_net(models, store.one_hot, store.x.shape[1])
    return FoldTask(net, store, folds(graphs, 3)[:replicas], range(replicas), batch=5)


def values_and_gradients(task: FoldTask, weights: dict[str, float], written_out: bool) -> list[Tensor]:
    """Of the task's first step."""
    task.load_state({"steps": 0})
    written, task.written_out = task.written_out, task.written_out if written_out else None
    values = task.step()
    total = sum(weights[name] * values[name] for name in weights)
    assert isinstance(total, Tensor)
    assert total.requires_grad != written_out
    task.backward(total, weights)
    task.written_out = written
    gradients = [p.grad for p in task.parameters.values()]
    for p in task.parameters.values():
        p.grad = None
    return [*values.values(), *(g for g in gradients if g is not None)]


def assert_written_out_equals_modules(task: FoldTask, weights: dict[str, float]) -> None:
    here, there = (values_and_gradients(task, weights, written_out) for written_out in (True, False))
    assert len(here) == len(there) == 2 + len(task.parameters)
    for mine, theirs in zip(here, there, strict=True):
        torch.testing.assert_close(mine.clone(), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("features", ["one-hot", "numbers", "both"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_network_written_out_equals_its_modules(
    features: str, replicas: int, options: dict[str, object]
) -> None:
    assert_written_out_equals_modules(task_of(features, replicas, **options), {"loss": 1.0, "l2": 1e-3})


def test_losses_are_minimised_by_their_weights() -> None:
    assert_written_out_equals_modules(task_of("both", 2), {"loss": 0.3})
    assert_written_out_equals_modules(task_of("both", 2), {"loss": 0.5, "l2": 2.0})


def test_numbers_are_predicted_by_the_same_passes() -> None:
    graphs = made_graphs(12, one_hot=True)
    torch.manual_seed(0)
    models = [
        GraphClassifier(graphs.num_features, 3, levels=2, k=(6, 3), hidden=8).double() for _ in range(2)
    ]
    store = GraphStore(graphs, torch.device("cpu"), torch.float64)
    store.y = torch.randn(len(graphs) + 1, 3, dtype=torch.float64)
    net = replica_net(models, store.one_hot, store.x.shape[1])
    task = NumbersTask(net, store, folds(graphs, 3)[:2], range(2), batch=5)
    assert_written_out_equals_modules(task, {"loss": 1.0, "l2": 1e-3})


def test_a_replica_that_is_left_has_the_gradients_it_had_beside_the_others() -> None:
    task, weights = task_of("both", 3), {"loss": 1.0, "l2": 1e-3}
    before = values_and_gradients(task, weights, written_out=True)
    active = torch.tensor([0, 2])
    for p in task.parameters.values():
        p.data = p.data[active]
    task.select(active)
    assert_written_out_equals_modules(task, weights)
    for mine, all_three in zip(values_and_gradients(task, weights, written_out=True), before, strict=True):
        torch.testing.assert_close(mine.clone(), all_three[active].clone(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_gathered_together_are_those_gathered_alone(replicas: int, weighted: bool) -> None:
    graphs = made_graphs(12, one_hot=True)
    if weighted:
        weight = np.random.default_rng(0).random(len(graphs.col))
        graphs = replace(graphs, weight=weight.astype(np.float32))
    store = GraphStore(graphs, torch.device("cpu"))
    chosen = np.random.default_rng(1).integers(-1, 12, (4, replicas, 5))
    plans = store.plan(chosen)
    for plan, here in zip(plans, store.gather(*plans), strict=True):
        (alone,) = store.gather(plan)
        for name in ("row", "graph", "first", "chosen", "padding"):
            assert torch.equal(getattr(here, name), getattr(alone, name))
        assert torch.equal(here.look_up(store.x), store.x[alone.row])
        assert torch.equal(here.op.to_dense(), alone.op.to_dense())
        assert torch.equal(here.op.normalise().to_dense(), alone.op.normalise().to_dense())
        mine, theirs, plain = here.op.layout, alone.op.layout, Segments(len(alone.row), alone.op.ptr)
        a, b = torch.rand(len(alone.row), 3), torch.rand(len(alone.row), 2)
        for layout in (mine, theirs):
            assert torch.equal(layout.cut([a, b], 16), plain.cut([a, b], 16))
            assert torch.equal(layout.join(layout.cut([a], 16)), a)
            for part, known in zip(layout.chunks(16)[:2], plain.chunks(16)[:2], strict=True):
                assert torch.equal(part, known)


@pytest.mark.parametrize("at_once", [1, 200, 1 << 18])
def test_steps_take_the_batches_of_the_order(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcut.learning.fold_task._GATHERED", at_once)
    task = task_of("both", 2)
    seen: list[Tensor] = []
    gather = task.store.gather

    def noted(*plans: BatchPlan) -> list[Gathered]:
        found = gather(*plans)
        seen.extend(each.chosen for each in found)
        return found

    monkeypatch.setattr(task.store, "gather", noted)
    for _ in range(70):
        task.step()
    assert len(seen) >= 70
    for t, chosen in enumerate(seen):
        assert chosen.tolist() == [order(t).tolist() for order in task.orders]


@pytest.mark.parametrize(
    "options",
    [{"pool": "diffpool"}, {"pool": "topk"}, {"pool": "dmon"}, {"act": "elu"}]
    + [{"pool_args": given} for given in ({"objective": "dmon"}, {"act": "tanh"}, {"normalise": False})]
    + [{"pool_args": given} for given in ({"ortho_weight": "auto"}, {"standardise": True})],
)
def test_other_networks_keep_to_their_modules(options: dict[str, object]) -> None:
    assert task_of("both", 1, **options).written_out is None


def test_a_small_fit_uses_one_thread_and_puts_the_others_back() -> None:
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        model = GraphClassification(
            "paper", max_iter=2, callbacks=[lambda _: seen.append(torch.get_num_threads())]
        )
        graphs = made_graphs(12)
        model.fit(graphs)
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
        seen.clear()
        large = GraphClassification("paper", max_iter=1, hidden=4096, callbacks=model.callbacks)
        large.fit(graphs)
        assert seen == [2]
    finally:
        torch.set_num_threads(before)
