"""Graphs that change: where a fit begins, and which communities are still the same."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import softcut as sc
from softcut.clustering.earlier import earlier_clusters, with_earlier_ids
from softcut.communities.engine import adjusted_rand
from softcut.errors import ParameterError

NAMES = ["ann", "bob", "cem", "dee"]
NAMED = sc.Graph.from_edges([[0, 1, 2], [1, 2, 3]], node_names=NAMES)
PLAIN = sc.Graph.from_edges([[0, 1, 2], [1, 2, 3]])
CAVES = nx.connected_caveman_graph(5, 8)


def test_labels_by_name_of_a_dictionary_a_series_and_a_file(tmp_path):
    by_name = {"dee": 3, "ann": 7, "bob": 7, "gone": 1}
    wanted = [7, 7, -1, 3]
    (tmp_path / "labels.csv").write_text("node,cluster,level_0\nann,7,0\nbob,7,0\ncem,,\ndee,3,0\ngone,1,0\n")
    for start in (by_name, pd.Series(by_name), tmp_path / "labels.csv", str(tmp_path / "labels.csv")):
        found = earlier_clusters(start, NAMED)
        assert found.labels.tolist() == wanted and found.resolution is None
    assert earlier_clusters({0: 4, 3: 5}, PLAIN).labels.tolist() == [4, -1, -1, 5]
    assert found.of(np.array([True, False, False, True])).labels.tolist() == [7, 3]


def test_labels_by_place():
    for start in ([2, 2, 1, -1], np.array([2, 2, 1, -1.0]), (2, 2, 1, -5)):
        assert earlier_clusters(start, NAMED).labels.tolist() == [2, 2, 1, -1]
    assert earlier_clusters([2, 2], PLAIN).labels.tolist() == [2, 2, -1, -1], "new nodes come last"


def test_a_fitted_estimator():
    est = sc.GraphClustering(scale=1.5).fit(CAVES)
    graph = sc.Graph.from_networkx(CAVES)
    found = earlier_clusters(est, graph)
    np.testing.assert_array_equal(found.labels, est.labels_)
    assert found.resolution == est.levels_.marks[est.level_] == 1.5
    by_name = sc.GraphClustering(scale=1.0).fit(nx.les_miserables_graph())
    fewer = nx.les_miserables_graph()
    fewer.remove_nodes_from(list(fewer)[5:9])
    fewer = sc.Graph.from_networkx(fewer)
    place = {name: i for i, name in enumerate(by_name.node_names_)}
    wanted = by_name.labels_[[place[name] for name in fewer.node_names]]
    np.testing.assert_array_equal(earlier_clusters(by_name, fewer).labels, wanted)
    assert earlier_clusters(sc.GraphClustering(3).fit(CAVES), graph).resolution is None


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ({"eve": 1}, "start has the name of no node of this graph"),
        ([1, 2, 3, 4, 5], "start has 5 labels but the graph has 4 nodes; give the nodes names"),
        ([float("nan"), 1, 2, 3], "start must hold whole numbers"),
        ([0.5, 1, 2, 3], "start must hold whole numbers, one cluster per node"),
        (["a", "b", "c", "d"], "start must hold whole numbers"),
        ({"ann": "red"}, "start must hold whole numbers"),
        ("nowhere/labels.csv", "start: nowhere/labels.csv cannot be read as a labels.csv"),
    ],
)
def test_what_cannot_be_is_refused(start, sentence):
    with pytest.raises(ParameterError, match=sentence) as caught:
        sc.GraphClustering().fit(NAMED, start=start)
    assert caught.value.argument == "start" and "\n" not in str(caught.value)


def test_files_that_are_no_labels_are_refused(tmp_path):
    path = tmp_path / "labels.csv"
    for text, sentence in (
        ("name,group\nann,1\n", "has no columns node and cluster, as labels.csv has"),
        ("node,cluster\nann,red\n", "cannot be read as a labels.csv"),
        ("", "has no columns node and cluster"),
    ):
        path.write_text(text)
        with pytest.raises(ParameterError, match=sentence):
            earlier_clusters(path, NAMED)
    path.write_bytes(b"node,cluster\n\xff\xfe,1\n")
    with pytest.raises(ParameterError, match="cannot be read as a labels"):
        earlier_clusters(path, NAMED)


def test_a_start_keeps_its_scale():
    with pytest.raises(ParameterError, match="start keeps the scale of the earlier clusters") as caught:
        sc.GraphClustering(3).fit(NAMED, start=[0, 0, 1, 1])
    assert caught.value.argument == "start"


# ------------------------------------------------------------------------------------- born, merged, split, died


@pytest.mark.parametrize(
    ("labels", "earlier", "ids", "said"),
    [
        ([0, 0, 1, 1], [5, 5, 9, 9], [5, 5, 9, 9], "2 of 2 clusters persist."),
        ([0, 0, 1, 1], [5, 5, -1, -1], [5, 5, 6, 6], "1 of 1 clusters persist; born: 6."),
        (
            [0, 0, 0, 1, 1],
            [4, 4, 4, 4, 4],
            [4, 4, 4, 5, 5],
            "1 of 1 clusters persist; split: 5 from 4.",
        ),
        ([0] * 5, [3, 3, 3, 8, 8], [3] * 5, "1 of 2 clusters persist; merged: 8 into 3."),
        (
            [0, 0, 0, 0, 1, 1, 1, 1],
            [2, 2, 2, 7, 3, 3, 3, 7],
            [2, 2, 2, 2, 3, 3, 3, 3],
            "2 of 3 clusters persist; died: 7.",
        ),
        ([0, -1, 1], [-1, 6, 2], [3 + 4, -1, 2], "1 of 1 clusters persist; born: 7."),
    ],
    ids=["the same", "born", "split", "merged", "died", "without edges"],
)
def test_what_happened_to_each_cluster(labels, earlier, ids, said):
    found, note = with_earlier_ids(np.array(labels), np.array(earlier))
    assert found.tolist() == ids and note.code == "changes"
    assert note == said


def test_the_largest_overlap_keeps_the_number():
    found, note = with_earlier_ids(np.repeat([0, 1], [4, 3]), np.array([1, 1, 1, 0, 0, 0, 0]))
    assert found.tolist() == [1, 1, 1, 1, 0, 0, 0] and note.values["persisting"] == 2


def test_a_fit_that_begins_from_an_earlier_one():
    rng = np.random.default_rng(0)
    graph = nx.planted_partition_graph(6, 30, 0.35, 0.02, seed=0)
    before = sc.GraphClustering().fit(graph)
    for _ in range(3):
        changed = graph.copy()
        edges = list(changed.edges)
        changed.remove_edges_from(edges[i] for i in rng.choice(len(edges), len(edges) // 100, replace=False))
        after = sc.GraphClustering().fit(changed, start=before)
        assert (after.labels_ == before.labels_).mean() > 0.97
        assert any(note.code == "changes" and note.values["persisting"] == 6 for note in after.notes_)
        assert after.levels_.marks[after.level_] == before.levels_.marks[before.level_]
        np.testing.assert_array_equal(after.labels_at(after.level_), after.labels_)
        np.testing.assert_array_equal(after.predict(changed), after.labels_)
        np.testing.assert_array_equal(after.soft_.argmax(1), after.labels_)
        graph, before = changed, after


def test_numbers_of_clusters_that_went_are_not_used_again(tmp_path):
    truth = np.repeat([3, 8, 40, 41, 42], 8)
    est = sc.GraphClustering(scale=1).fit(CAVES, start=truth)
    assert adjusted_rand(np.repeat(range(5), 8), np.unique(est.labels_, return_inverse=True)[1]) > 0.8
    assert set(est.labels_) <= set(truth) and est.n_clusters_ == 43
    again = sc.GraphClustering.load(est.save(tmp_path / "m"))
    np.testing.assert_array_equal(again.labels_, est.labels_)
    np.testing.assert_array_equal(again.predict(CAVES), est.labels_)
    larger = sp.csr_array(sp.block_diag([nx.to_scipy_sparse_array(CAVES), np.ones((8, 8)) - np.eye(8)]))
    grown = sc.GraphClustering(scale=1).fit(larger, start=est)
    assert set(grown.labels_[40:]) == {43}, "a new number for a new community"
    assert any("born: 43" in note for note in grown.notes_)
