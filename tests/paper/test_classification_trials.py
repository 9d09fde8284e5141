"""Trials beside table 2: names, what they change, what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softcut import Graph
from softcut.errors import ParameterError
from softcut.graph import folds, from_graphs
from softcut.learning import ClassifierSettings, train_folds, with_structure
from softcut.learning.experiment import build_task
from softcut.paper import table2
from softcut.paper.table2 import read_trial, with_degree


def test_every_change_reaches_the_settings() -> None:
    name = (
        "topk+batch=8+lr=0.01+epochs=3+patience=4+l2=0+hidden=7+k=5,2+stop_on=task+connect=two_hop+degree=log"
    )
    method, settings = table2.network_of(name, ClassifierSettings())
    assert method == "topk"
    assert settings == ClassifierSettings(
        batch=8, lr=0.01, epochs=3, patience=4, l2=0.0, hidden=7, k=(5, 2), stop_on="task",
        pool_args={"connect": "two_hop"},
    )  # fmt: skip
    assert read_trial(name)[1]["degree"] == "log"
    settings = table2.network_of("mincut+temperature=0.1+keep_diagonal=True", ClassifierSettings())[1]
    assert settings.pool_args == {"temperature": 0.1, "keep_diagonal": True}
    assert table2.network_of("mincut+table", ClassifierSettings()) == ("mincut", ClassifierSettings())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wl+lr=1", "must begin with a network"),
        ("mincut+", "must change one of batch, lr"),
        ("mincut+connect=two_hop", "temperature, cut_weight, ortho_weight, .* not connect"),
        ("mincut+lr", "must give lr one value, as in lr=VALUE"),
        ("mincut+lr=1+lr=2", "must give lr one value"),
        ("mincut+lr=fast", "lr must be a number, not 'fast'"),
        ("mincut+batch=0", "batch must be positive, not 0"),
        ("mincut+k=a", "k must be a number, not 'a'"),
        ("mincut+stop_on=luck", "stop_on must be one of loss, task, error, not 'luck'"),
    ],
)
def test_bad_names_are_one_sentence(name: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        table2.check_methods([name])


def test_forms_of_the_degree() -> None:
    """Everything but the degree stays; the degree is what the plain formula says."""
    star = Graph.from_edges([[0, 0, 0, 0], [1, 2, 3, 4]], x=[[9.0], [8.0], [7.0], [6.0], [5.0]])
    path = Graph.from_edges([[0, 1], [1, 2]], x=[[4.0], [3.0], [2.0]])
    plain = with_structure(from_graphs([star, path]))
    degree = np.array([4, 1, 1, 1, 1, 1, 2, 1])
    seen, log, capped = (with_degree(plain, how) for how in ("seen", "log", "2"))
    rest = plain.dense_features()[:, 5:]
    for graphs, width in ((seen, 3), (log, 0), (capped, 3)):
        assert graphs.num_features == width + 2 + (graphs is log)
        assert np.array_equal(graphs.dense_features()[:, -2:], rest)
        assert np.array_equal(graphs.col, plain.col)
    assert np.array_equal(seen.dense_features()[:, :3], degree[:, None] == [1, 2, 4])
    assert np.array_equal(capped.dense_features()[:, :3], np.minimum(degree, 2)[:, None] == [0, 1, 2])
    logarithm = np.log(1 + degree)
    expected = (logarithm - logarithm.mean()) / logarithm.std()
    assert np.allclose(log.dense_features()[:, 0], expected, atol=1e-6)
    assert seen.index.shape == plain.index.shape
    with pytest.raises(ParameterError, match="degree must be seen, log or at least 1, not 0"):
        with_degree(plain, "0")
    with pytest.raises(ParameterError, match="its first feature is not the degree"):
        with_degree(from_graphs([star, path]), "log")


def test_what_training_stops_on() -> None:
    """Each rule's best epoch is that with the lowest watched number."""
    rng = np.random.default_rng(0)
    ring = [[0, 1, 2, 3], [1, 2, 3, 0]]
    graphs = from_graphs(
        [Graph.from_edges(ring, x=rng.normal(size=(4, 3)) + 0.4 * (i % 2)) for i in range(60)],
        y=[i % 2 for i in range(60)],
    )
    epochs = {}
    for rule in ("loss", "task", "error"):
        settings = ClassifierSettings(
            batch=8, epochs=20, patience=20, lr=3e-3, hidden=8, k=(3, 2), stop_on=rule
        )
        (result,), loop = train_folds(graphs, "mincut", [0], settings=settings, count=4)
        epochs[rule] = result.best_epoch
        assert result.best_epoch == 1 + int(loop.validation[rule][:, 0].argmin())
        best = result.best_epoch - 1
        assert result.validation_loss == pytest.approx(loop.validation[rule][best, 0], abs=1e-6)
        assert result.validation_task == loop.validation["task"][best, 0]
        assert result.validation_accuracy == loop.validation["accuracy"][best, 0]
        assert np.allclose(loop.validation["error"], 1 - loop.validation["accuracy"])
    assert len(set(epochs.values())) > 1


def test_validation_numbers_are_those_of_the_validation_graphs() -> None:
    rng = np.random.default_rng(1)
    made = [Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=rng.normal(size=(3, 2))) for _ in range(40)]
    graphs = from_graphs(made, y=[i % 2 for i in range(40)])
    split = folds(graphs, 4)[0]
    task = build_task(graphs, "mincut", [split], [0], ClassifierSettings(hidden=4))
    probabilities = task.predict(split.validation)[0].double()
    y = torch.as_tensor(graphs.y[split.validation])
    found = task.validate()
    assert found["task"].item() == pytest.approx(torch.nn.functional.nll_loss(probabilities.log(), y).item())
    assert found["accuracy"].item() == pytest.approx((probabilities.argmax(1) == y).double().mean().item())
    batch = task.batch(split.validation[None])
    losses = [v for pooled in task.forward(batch)[0].pooled for v in pooled.graph_losses.values()]
    auxiliary = sum(batch.per_graph(value).double().mean().item() for value in losses)
    assert found["loss"].item() == pytest.approx(found["task"].item() + auxiliary)
