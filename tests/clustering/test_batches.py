"""GraphClustering(batch_size=...): the same estimator, trained on a few parts of the graph at a time."""

import numpy as np
import pytest
import torch

from softcut import GraphClustering
from softcut.clustering import Recipe
from softcut.clustering.networks import make_batches, nodes_per_step
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import nmi
from softcut.training import minibatch

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(240, 3, average_degree=12, n_features=24, edge_signal=0.85, seed=2)


def estimator(**arguments):
    return GraphClustering(**{"n_clusters": 3, "n_init": 4, "max_iter": 15, "device": "cpu", **arguments})


@pytest.fixture(scope="module")
def whole(graph):
    return estimator().fit(graph)


@pytest.mark.parametrize("parts", ["random", "metis"])
def test_the_clusters_are_those_of_the_whole_graph(graph, whole, parts, tmp_path):
    fitted = estimator(batch_size=40, recipe=Recipe(batch_parts=parts)).fit(graph)
    assert nmi(graph.y, fitted.labels_) > nmi(graph.y, whole.labels_) - 0.05 > 0.75
    kind = "random parts" if parts == "random" else "parts found by METIS"
    assert f"trained on about 40 of 240 nodes per step: 8 of 48 {kind}." in fitted.notes_
    assert (fitted.predict(graph) == fitted.labels_).all()
    assert fitted.history_["cut"].shape == (fitted.n_iter_, 4)
    same = estimator(batch_size=40, recipe=Recipe(batch_parts=parts)).fit(graph)
    np.testing.assert_array_equal(same.soft_, fitted.soft_)
    again = GraphClustering.load(fitted.save(tmp_path / "model"))
    assert again.batch_size == 40 and again._task_recipe().batch_parts == parts
    np.testing.assert_allclose(again.predict_proba(graph), fitted.predict_proba(graph), rtol=1e-5)


def test_a_step_and_a_prediction_compute_no_more_nodes_than_a_batch(graph, monkeypatch):
    seen = []
    original = minibatch.ReplicaNet.soft

    def soft(self, inputs, temperature=1.0):
        assignments = original(self, inputs, temperature)
        seen.append(len(assignments))
        return assignments

    monkeypatch.setattr(minibatch.ReplicaNet, "soft", soft)
    fitted = estimator(batch_size=80, max_iter=5, n_init=2).fit(graph)
    fitted.predict(graph)
    assert max(seen) == 80
    estimator(max_iter=2, n_init=2).fit(graph)
    assert max(seen) == 240


def test_a_batch_of_the_whole_graph_has_no_effect(graph, whole):
    same = estimator(batch_size=240).fit(graph)
    assert "batch_size has no effect: the graph has only 240 nodes." in same.notes_
    np.testing.assert_array_equal(whole.soft_, same.soft_)
    assert estimator(batch_size="auto").fit(graph).notes_ == whole.notes_


def test_auto_takes_what_the_budget_allows_and_keeps_the_networks(graph):
    recipe = Recipe(budget_cpu=6 * 19 * 60, least_batch=1)
    options = {"n_init": 6, "max_iter": 3, "recipe": recipe}
    fewer, auto = (estimator(batch_size=size, **options).fit(graph) for size in (None, "auto"))
    assert any("4 networks instead of 6" in note for note in fewer.notes_)
    assert any("about 60 of 240 nodes per step" in note for note in auto.notes_)
    assert len(auto.replicas_) == 6 and len(fewer.replicas_) == 4
    assert (auto.predict(graph) == auto.labels_).all()


def test_nodes_of_a_step(graph):
    def asked(size, recipe=Recipe(), k=3):  # noqa: B008
        return nodes_per_step(graph, size, k, recipe, CPU, [].append)

    assert asked(None) is None and asked(240) is None and asked(239) == 239 and asked("auto") is None
    assert asked("auto", Recipe(budget_cpu=24 * 20 * 50, least_batch=1), k=4) == 50
    assert asked("auto", Recipe(budget_cpu=24 * 20 * 50 - 1, least_batch=1), k=4) == 49
    assert asked("auto", Recipe(budget_cpu=1, least_batch=100)) == 100


def test_networks_are_budgeted_by_the_nodes_of_a_step(graph):
    recipe = Recipe(budget_cpu=60 * 19 * 5, networks=8, iterations=2)
    fitted = estimator(n_init=None, max_iter=None, batch_size=60, recipe=recipe).fit(graph)
    assert len(fitted.replicas_) == 5
    assert "5 networks instead of 8: 60 nodes per step, to stay within memory and time." in fitted.notes_


def test_parts_hold_every_node_once_with_its_words(graph):
    for kind in ("random", "metis"):
        recipe, notes = Recipe(batch_parts=kind, parts_per_step=4), []
        prepared = prepare(graph, recipe, CPU, notes.append)
        batches = make_batches(prepared, 70, recipe, 0, CPU, notes.append)
        assert batches is not None and batches.words is not None
        assert notes[-1].startswith("trained on about 70 of 240 nodes per step: 4 of 16")
        order = batches.parts.order
        assert sorted(order.tolist()) == list(range(240)) and len(batches.words) == 16
        for part in range(16):
            nodes = order[batches.parts.rows(part)].numpy()
            wanted = np.asarray((graph.x[nodes] > 0).sum(0)).ravel()
            np.testing.assert_allclose(batches.words[part].table(torch.ones(len(nodes), 1))[0], wanted)
    assert make_batches(prepared, None, recipe, 0, CPU, notes.append) is None


def test_the_number_of_clusters_is_found_in_batches_too(graph):
    fitted = estimator(n_clusters=[2, 3], batch_size=80).fit(graph)
    assert fitted.n_clusters_ == 3 and set(fitted.candidates_) == {2, 3}
    with pytest.raises(ParameterError, match="batch_size is for a single graph, not for 2; leave it out"):
        estimator(batch_size=100).fit([graph, graph])


def test_a_graph_without_features_needs_no_batches(graph):
    bare = Graph.from_edges(graph.edge_index()[0], num_nodes=graph.num_nodes + 5)
    fitted = estimator(batch_size=80).fit(bare)
    np.testing.assert_array_equal(fitted.labels_, estimator().fit(bare).labels_)
    assert (fitted.predict(bare) == fitted.labels_).all()
