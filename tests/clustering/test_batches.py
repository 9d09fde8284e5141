"""MinCutClustering(batch=...): the same estimator, trained on a few parts of the graph at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from softcut import MinCutClustering
from softcut.clustering import batches, prepare
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import nmi
from softcut.training import Progress, minibatch


@pytest.fixture(scope="module")
def graph() -> Graph:
    return attributed_communities(240, 3, average_degree=12, n_features=24, edge_signal=0.8, seed=2)


def estimator(**arguments) -> MinCutClustering:  # type: ignore[no-untyped-def]
    return MinCutClustering(**{"n_clusters": 3, "n_init": 4, "max_iter": 25, "device": "cpu", **arguments})


@pytest.fixture(scope="module")
def whole(graph: Graph) -> MinCutClustering:
    return estimator().fit(graph)


@pytest.mark.parametrize("parts", ["random", "metis"])
def test_the_clusters_are_those_of_the_whole_graph(
    graph: Graph, whole: MinCutClustering, parts: str, tmp_path: Path
) -> None:
    fitted = estimator(batch=40, batch_parts=parts).fit(graph)
    assert nmi(graph.y, fitted.labels_) > nmi(graph.y, whole.labels_) - 0.02 > 0.8
    kind = "random parts" if parts == "random" else "parts found by METIS"
    assert f"trained on about 40 of 240 nodes per step: 8 of 48 {kind}." in fitted.notes_
    assert (fitted.predict(graph) == fitted.labels_).all()
    assert fitted.history_["cut"].shape == (fitted.n_iter_, 4)
    assert {r.objective for r in fitted.replicas_} == {"trace_ratio", "evidence"}
    again = MinCutClustering.load(fitted.save(tmp_path / "model"))
    assert again.batch == 40 and again.batch_parts == parts
    np.testing.assert_allclose(again.predict_proba(graph), fitted.predict_proba(graph), rtol=1e-5)


def test_a_seed_decides(graph: Graph) -> None:
    first, again, other = (estimator(batch=60, random_state=seed, n_init=2).fit(graph) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.soft_, again.soft_)
    np.testing.assert_array_equal(first.history_["cut"], again.history_["cut"])
    assert not np.array_equal(first.history_["cut"], other.history_["cut"])


def test_a_step_and_a_prediction_compute_no_more_nodes_than_a_batch(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = minibatch.ReplicaNet.soft

    def soft(self, inputs, temperature=1.0):  # type: ignore[no-untyped-def]
        found = original(self, inputs, temperature)
        seen.append(len(found))
        return found

    monkeypatch.setattr(minibatch.ReplicaNet, "soft", soft)
    fitted = estimator(batch=80, max_iter=5, n_init=2).fit(graph)
    fitted.predict(graph)
    assert max(seen) == 80
    estimator(max_iter=2, n_init=2).fit(graph)
    assert max(seen) == 240


def test_callbacks_see_every_check(graph: Graph) -> None:
    told: list[Progress] = []
    estimator(
        batch=80,
        n_init=2,
        max_iter=50,
        objective="trace_ratio",
        callbacks=[told.append],
        tol=None,
        init="random",
    ).fit(graph)
    assert [p.iteration for p in told] == [25, 50]


def test_a_batch_of_the_whole_graph_has_no_effect(graph: Graph, whole: MinCutClustering) -> None:
    same = estimator(batch=240).fit(graph)
    assert "batch has no effect: the graph has only 240 nodes." in same.notes_
    np.testing.assert_array_equal(whole.soft_, same.soft_)
    auto = estimator(batch="auto").fit(graph)
    assert auto.notes_ == whole.notes_
    np.testing.assert_array_equal(whole.soft_, auto.soft_)


def test_auto_takes_what_the_budget_allows_and_keeps_the_replicas(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(prepare.BUDGET, "cpu", (6 * 19 * 60, 1 << 37))
    monkeypatch.setattr(batches, "_LEAST", 1)
    fewer, auto = (estimator(n_init=6, max_iter=3, batch=batch).fit(graph) for batch in (None, "auto"))
    assert any("4 replicas instead of 6" in note for note in fewer.notes_)
    assert any("about 60 of 240 nodes per step" in note for note in auto.notes_)
    assert len(auto.replicas_) == 6 and len(fewer.replicas_) == 4
    assert (auto.predict(graph) == auto.labels_).all()


def test_the_number_of_clusters_is_found_in_batches_too(graph: Graph) -> None:
    fitted = estimator(n_clusters=[2, 3], batch=80).fit(graph)
    assert fitted.n_clusters_ == 3 and set(fitted.candidates_) == {2, 3}


def test_a_graph_without_features_and_nodes_without_anything(graph: Graph) -> None:
    bare = Graph.from_edges(graph.edge_index()[0], num_nodes=graph.num_nodes + 5)
    fitted = estimator(batch=80).fit(bare)
    assert fitted.labels_.shape == (245,) and (fitted.predict(bare) == fitted.labels_).all()
    assert nmi(graph.y, fitted.labels_[:240]) > 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch": 0}, "^batch must be a whole number of at least 16, None or 'auto', got 0"),
        ({"batch": "all"}, "^batch must be"),
        ({"batch": 100, "batch_parts": "louvain"}, "^batch_parts must be one of 'random', 'metis'"),
        ({"batch": 100, "preset": "paper"}, "^batch is for preset='default'"),
        ({"batch": 100, "objective": "ratio_trace"}, "^objective 'ratio_trace' cannot be trained in batches"),
    ],
)
def test_wrong_arguments_are_named(graph: Graph, arguments: dict, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ParameterError, match=sentence):
        estimator(**arguments).fit(graph)


def test_several_graphs_are_refused_and_parts_without_batch_are_mentioned(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="batch is for a single graph, not for 2"):
        estimator(batch=100).fit([graph, graph])
    fitted = estimator(batch_parts="metis", n_init=2, max_iter=2).fit(graph)
    assert "batch_parts has no effect without batch." in fitted.notes_


def test_words_move_between_devices() -> None:
    from softcut.ops import Words

    s = torch.rand(4, 2)
    for x in (np.eye(4, 30), np.ones((4, 3)), 2 * np.eye(4, 30)):
        words = Words(x, presence=False)
        moved = words.to("meta")
        assert moved.table(s.to("meta")).shape == words.to("cpu").table(s).shape
        torch.testing.assert_close(words.to("cpu").table(s), s.mT @ torch.from_numpy(x).float())
