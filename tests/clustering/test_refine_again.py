"""Further refinements: kept as long as the evidence rises, with everything that an estimator does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering import encoder, features, fit, replicas, sampling
from softcut.clustering import refine as refinement
from softcut.clustering.prepare import prepare
from softcut.clustering.refine import Refiner
from softcut.clustering.settings import resolve
from softcut.datasets import attributed_communities
from softcut.metrics import evidence


@pytest.fixture(scope="module")
def graph():
    """Edges and features that both say little: what one refinement leaves open, a second one settles."""
    return attributed_communities(300, 3, edge_signal=0.45, feature_signal=0.25, seed=1)


def estimator(**options):
    return sc.MinCutClustering(3, **{"n_init": 4, "max_iter": 30, "device": "cpu", **options})


def test_one_refinement_after_the_other(graph, monkeypatch):
    """Against the steps by hand, from the consensus that the same estimator finds without refinement."""
    monkeypatch.setattr(fit, "WIDTHS", fit.WIDTHS[:1])
    est, plain = estimator().fit(graph), estimator(refine=False).fit(graph)
    settings, _ = resolve(est.get_params(), sc.MinCutClustering.__init__, graph)
    encoded = prepare(graph, settings, torch.device("cpu"), [].append).encoded
    steps = [torch.from_numpy(plain.soft_)]
    for _ in range(refinement.REFINEMENTS):
        refiner = Refiner.fit(encoded.x, steps[-1].argmax(1), 3, settings.seed)
        steps.append(refiner.apply(encoded.x, steps[-1], encoded.op))
    explained = [evidence(graph, soft.argmax(1).numpy()) for soft in steps]
    rising = [explained[i] > max(explained[:i]) for i in range(2, len(steps))]
    last = 1 + (rising.index(False) if False in rising else len(rising))
    assert last > 1
    order = np.argsort(-np.bincount(steps[last].argmax(1), minlength=3), kind="stable")
    np.testing.assert_allclose(est.soft_, steps[last].numpy()[:, order], atol=1e-4)
    assert len(est._model.refiners) == last
    values = ", ".join(f"{e:.4g}" for e in explained[1 : last + 1])
    said = f"refined {last} times: evidence {explained[0]:.4g}, then {values}."
    assert [note for note in est.notes_ if "refined" in note] == [said]


def test_no_more_than_so_many(graph, monkeypatch):
    monkeypatch.setattr(fit, "REFINEMENTS", 1)
    assert len(estimator().fit(graph)._model.refiners) == 1


def test_evidence_decides_only_where_it_judges(graph):
    """Replicas weighted by agreement, as before there was evidence, are refined once."""
    est = estimator(judge="agreement").fit(graph)
    assert len(est._model.refiners) == 1
    assert not any("refined" in note for note in est.notes_)


def large(patch):
    for module in (encoder, features, fit, refinement, replicas, sampling):
        patch.setattr(module, "LARGE", 250)


@pytest.mark.parametrize("kind", ["usual", "batch", "large", "several", "silent", "best"])
def test_all_are_part_of_the_model(graph, kind, monkeypatch, tmp_path):
    """Predicting, unseen graphs, files: the same steps as in the fit."""
    if kind == "large":
        large(monkeypatch)
    data = graph
    if kind == "several":
        data = [graph.subgraph(range(200)), graph.subgraph(range(200, 300))]
    if kind == "silent":  # two nodes without edges and words
        adjacency, x = graph.adjacency.copy(), graph.x.copy()
        adjacency.resize(302, 302)
        x.resize(302, graph.num_features)
        data = sc.Graph(adjacency, x)
    options = {"batch": {"batch": 60}, "best": {"select": "best"}}.get(kind, {})
    est = estimator(**options).fit(data)
    assert len(est._model.refiners) >= 2
    found = est.predict(data)
    np.testing.assert_array_equal(np.concatenate(found) if kind == "several" else found, est.labels_)
    again = sc.MinCutClustering.load(est.save(tmp_path / "model"))
    unseen = attributed_communities(120, 3, edge_signal=0.45, feature_signal=0.25, seed=1)
    np.testing.assert_array_equal(again.predict_proba(unseen), est.predict_proba(unseen))
    est._model.refiners.pop()  # the last one matters: without it predictions are others
    assert np.abs(again.predict_proba(unseen) - est.predict_proba(unseen)).max() > 1e-3
