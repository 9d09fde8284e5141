"""What a run of the quality table is known by, and the baseline that is the default without its networks."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from softcut.clustering import PAPER, Recipe
from softcut.clustering.consensus import Refiner
from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.metrics import nmi
from softcut.paper import quality
from softcut.paper.runs import Records

KMEANS = "k-means on softcut's features"


def test_every_ablation_changes_a_constant_that_exists():
    fields = {field.name for field in dataclasses.fields(Recipe)}
    for name, changed in quality.ABLATIONS.items():
        assert set(changed) <= fields, name
        assert quality.settings_of(name)["recipe"] == Recipe(**changed).digest
    digests = [quality.settings_of(name)["recipe"] for name in quality.ABLATIONS]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("method", ["default", KMEANS, f"{KMEANS}, refined", "number of clusters chosen"])
def test_runs_with_another_constant_do_not_count(method, tmp_path):
    now = quality.settings_of(method)
    other = {**now, "recipe": Recipe(width=0.3).digest}
    records = Records(tmp_path / "runs.json")
    records.add([{"dataset": "cora", "method": method, "seed": 0, "settings": other, "nmi": 0.5}])
    assert records.missing("cora", method, [0], now) == [0]
    assert records.missing("cora", method, [0], other) == []


def test_the_papers_model_is_known_by_its_own_recipe():
    assert quality.settings_of("the paper's model") == {
        "estimator": "MinCutClustering",
        "recipe": PAPER.digest,
        "chosen": False,
    }
    assert "recipe" not in quality.settings_of("leiden")


@pytest.mark.parametrize(("edges", "signal", "seed"), [(0.45, 0.25, 0), (0.3, 0.3, 3)])
@pytest.mark.parametrize("refined", [False, True])
def test_k_means_has_the_features_and_the_refinement_of_the_default(
    edges, signal, seed, refined, tmp_path, monkeypatch
):
    graph = attributed_communities(300, 3, edge_signal=edges, feature_signal=signal, seed=seed)
    monkeypatch.setattr(quality, "load", lambda name, root=None: graph)
    quality.run(tmp_path, ["cora"], [f"{KMEANS}, refined" if refined else KMEANS], runs=1)
    (run,) = Records(tmp_path / "quality_runs.json").runs
    # By hand.
    encoded = prepare(graph, Recipe(), torch.device("cpu"), [].append).encoded
    z = encoded.rows.flatten(1)
    distance = squared_distances(z, kmeans(z, 3, random_state=0).centres)
    soft = torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)
    labels = soft.argmax(1)
    if refined:
        corrected = Refiner.fit(encoded.x, labels, 3).apply(encoded.x, soft, encoded.op).argmax(1)
        assert (corrected != labels).any()
        labels = corrected
    assert run["nmi"] == pytest.approx(nmi(graph.y, labels.numpy()), abs=1e-9)
