"""The paper's network written out, against the same network by its modules and autograd."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.made_graphs import made_graphs
from torch import Tensor

from softcut.graph import folds
from softcut.learning import GraphClassification
from softcut.learning.fold_task import FoldTask
from softcut.learning.replica_net import replica_net
from softcut.learning.store import GraphStore
from softcut.nn.models import GraphClassifier

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


def values_and_gradients(task: FoldTask, written_out: bool) -> list[Tensor]:
    task.written_out = written_out
    graphs = np.arange(5 * len(task.splits)).reshape(1, len(task.splits), 5) % 12
    logits, _, losses = task.losses(task.gather(task.plan(graphs)[0], full=True))
    weights = torch.arange(losses.numel(), dtype=torch.float64).view(losses.shape) + 1
    gradients = torch.autograd.grad((weights * losses).sum(), list(task.parameters.values()))
    return [logits, losses, *gradients]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("features", ["one-hot", "numbers", "both"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_network_written_out_equals_its_modules(
    features: str, replicas: int, options: dict[str, object]
) -> None:
    task = task_of(features, replicas, **options)
    assert task.written_out
    for here, there in zip(*(values_and_gradients(task, each) for each in (True, False)), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"pool": "diffpool"}, {"pool": "topk"}, {"pool": "dmon"}, {"act": "elu"}]
    + [{"pool_args": given} for given in ({"objective": "dmon"}, {"act": "tanh"}, {"normalise": False})]
    + [{"pool_args": given} for given in ({"ortho_weight": "auto"}, {"standardise": True})],
)
def test_other_networks_keep_to_their_modules(options: dict[str, object]) -> None:
    assert not task_of("both", 1, **options).written_out


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
