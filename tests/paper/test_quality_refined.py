"""What the quality table records of refinements, and the baseline that is refined by the same rule."""

from __future__ import annotations

import pytest
import torch

from softcut.clustering import MinCutClustering
from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.prepare import prepare
from softcut.clustering.refine import Refiner
from softcut.clustering.settings import resolve
from softcut.datasets import attributed_communities
from softcut.metrics import evidence, nmi
from softcut.paper import quality
from softcut.training.runs import Records

REFINED = "k-means on softcut's features, refined, no minCUT"


@pytest.mark.parametrize(
    "method", ["consensus", REFINED, "no evidence replicas", "number of clusters chosen"]
)
def test_runs_that_were_refined_at_most_once_do_not_count(method, tmp_path):
    now = quality.settings_of(method)
    once = {name: value for name, value in now.items() if name != "refinements"}
    records = Records(tmp_path / "runs.json")
    records.add([{"dataset": "cora", "method": method, "seed": 0, "settings": once, "nmi": 0.5}])
    assert records.missing("cora", method, [0], now) == [0]
    assert records.missing("cora", method, [0], once) == []


@pytest.mark.parametrize(
    "method",
    [
        "k-means on softcut's features, no minCUT",
        "minCUT replicas by agreement",
        "weights by agreement",
        "no refinement",
        "the paper's model",
        "dmon",
    ],
)
def test_methods_that_are_never_refined_twice_are_known_as_before(method):
    assert "refinements" not in quality.settings_of(method)


@pytest.mark.parametrize(("edges", "signal", "seed", "times"), [(0.45, 0.25, 0, 2), (0.3, 0.3, 3, 1)])
def test_k_means_is_refined_by_the_same_rule(edges, signal, seed, times, tmp_path, monkeypatch):
    graph = attributed_communities(300, 3, edge_signal=edges, feature_signal=signal, seed=seed)
    monkeypatch.setattr(quality, "load", lambda name, root=None: graph)
    quality.run(tmp_path, ["cora"], [REFINED], runs=1)
    (run,) = Records(tmp_path / "quality_runs.json").runs
    # By hand.
    est = MinCutClustering(3, feature_graph=False)
    settings, _ = resolve(est.get_params(), MinCutClustering.__init__, graph)
    encoded = prepare(graph, settings, torch.device("cpu"), [].append).encoded
    z = encoded.rows.flatten(1)
    distance = squared_distances(z, kmeans(z, 3, random_state=0).centres)
    steps = [torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)]
    for _ in range(2):
        refiner = Refiner.fit(encoded.x, steps[-1].argmax(1), 3)
        steps.append(refiner.apply(encoded.x, steps[-1], encoded.op))
    labels = [soft.argmax(1).numpy() for soft in steps]
    explained = [evidence(graph, found) for found in labels]
    assert (2 if explained[2] > max(explained[:2]) else 1) == times
    assert run["nmi"] == pytest.approx(nmi(graph.y, labels[times]), abs=1e-9)
    assert abs(run["nmi"] - nmi(graph.y, labels[3 - times])) > 1e-3
