"""What a fit says about its answer: the verdict, warnings, notes, and the number of clusters."""

import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import Recipe, fitting, networks
from softcut.clustering import starts as starts_module
from softcut.clustering.networks import agreement
from softcut.clustering.numbers import CANDIDATE, candidate, choose
from softcut.clustering.recipe import PAPER
from softcut.clustering.starts import even_scales
from softcut.datasets import attributed_communities, community_graph
from softcut.errors import Detail
from softcut.metrics import Evidence, Judge, evidence, evidence_parts, nmi

LESS = (
    "These clusters explain less than it takes to describe them: the graph may have no clusters. Do not rely on them; "
    "n_clusters='auto' says whether another number is better."
)
RANDOM = (
    "The graph may have no clusters: the edges have no more communities than random edges between nodes of the same "
    "degrees. Do not rely on these."
)
QUICK = {"n_init": 6, "max_iter": 30}


def random_graph(n=150, degree=8, seed=0, x=None):
    graph = nx.fast_gnp_random_graph(n, degree / (n - 1), seed=seed)
    return sc.Graph.from_scipy(nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float32), x=x)


def noise(kind, n=150):
    rng = np.random.default_rng(0)
    if kind == "gauss":
        return rng.standard_normal((n, 16)).astype(np.float32)
    if kind == "correlated":  # one cloud of two dimensions, seen in 40 columns
        cloud = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 40))
        return (cloud + 0.5 * rng.standard_normal((n, 40))).astype(np.float32)
    if kind == "skewed":
        return np.exp(rng.standard_normal((n, 8))).astype(np.float32)
    return attributed_communities(n, 1, 0, 500, seed=0).x if kind == "words" else None


PLANTED = attributed_communities(150, 3, 14, 60, edge_signal=0.9, feature_signal=0.6, seed=0)


@pytest.mark.parametrize("kind", ["nothing", "gauss", "correlated", "skewed", "words"])
@pytest.mark.parametrize("k", [2, 7])
def test_a_random_graph_has_no_clusters(kind, k):
    graph = random_graph(300, x=noise(kind, 300))
    said = RANDOM if kind == "nothing" else LESS
    with pytest.warns(UserWarning, match="no clusters") as caught:
        est = sc.GraphClustering(k, **QUICK).fit(graph)
    assert [str(each.message) for each in caught] == [said]
    assert est.verdict_ == "none" and est.structure_ < 1 and said in est.notes_
    assert len(np.unique(est.labels_)) == est.n_clusters_ == k


def measured():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 400)
    x = rng.standard_normal((400, 64)) + rng.standard_normal((6, 64))[y] * 0.7
    return random_graph(400, 5, x=x.astype(np.float32))


@pytest.mark.parametrize(
    ("expected", "graph"),
    [
        ("none", sc.Graph.from_networkx(nx.random_regular_graph(4, 500, seed=1))),
        ("none", sc.Graph.from_networkx(nx.barabasi_albert_graph(500, 4, seed=1))),
        # The limit of what can be found is 1/3 for 3 clusters.
        ("none", attributed_communities(400, 4, 9, 0, edge_signal=0.1, degree_spread=0, seed=0)),
        ("clear", attributed_communities(400, 4, 12, 0, edge_signal=0.7, seed=0)),
        ("clear", attributed_communities(400, 4, 5, 1000, edge_signal=0.0, feature_signal=0.6, seed=0)),
        ("clear", attributed_communities(400, 4, 12, 2000, edge_signal=0.7, feature_signal=0.0, seed=0)),
        ("clear", measured()),  # six clusters
    ],
    ids=["regular", "hubs", "below the limit", "edges", "words", "edges among words", "measurements"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_verdict(expected, graph):
    assert sc.GraphClustering(4, n_init=6).fit(graph).verdict_ == expected


@pytest.mark.parametrize("kind", ["gauss", "words"])
def test_auto_answers_one_on_noise(kind):
    graph = random_graph(x=noise(kind))
    with pytest.warns(UserWarning, match="^No number of clusters explains more than it takes to describe"):
        est = sc.GraphClustering("auto", recipe=Recipe(auto=(2, 3, 4), networks=4, iterations=20)).fit(graph)
    assert (est.n_clusters_, est.structure_, est.verdict_) == (1, 0.0, "none")
    assert set(est.labels_) == {0} and sorted(est.candidates_) == [2, 3, 4]
    said = "no division into 2 to 4 clusters explains more than it takes to describe: 1 cluster."
    assert said in est.notes_
    assert max(each["structure"] for each in est.candidates_.values()) < 1
    with pytest.warns(UserWarning, match="explain less"):  # a range never answers one
        assert sc.GraphClustering(range(2, 4), **QUICK).fit(graph).n_clusters_ in (2, 3)
    np.testing.assert_array_equal(est.predict(graph), est.labels_)
    np.testing.assert_allclose(est.soft_, 1)


def test_auto_answers_one_where_random_graphs_have_as_many_communities():
    graph = random_graph()
    said = (
        "No communities: the edges have no more communities than random edges between nodes of the same degrees; all "
        "nodes are in one cluster. If you know that there are clusters, ask for their number or give features."
    )
    for n_clusters in ("auto", None):
        with pytest.warns(UserWarning, match="No communities") as caught:
            est = sc.GraphClustering(n_clusters).fit(graph)
        assert [str(each.message) for each in caught] == [said]
        assert (est.n_clusters_, est.structure_, est.verdict_) == (1, 0.0, "none")
        joined = np.diff(graph.adjacency.indptr) > 0
        assert set(est.labels_[joined]) == {0} and set(est.labels_[~joined]) <= {-1}
        assert est.deviations_ < Recipe().some_deviations and est.candidates_ == {}
        assert len(est.scales_) > 5 and est.tree_.size.tolist() == [joined.sum()]
        np.testing.assert_array_equal(est.predict(graph), est.labels_)
    with pytest.warns(UserWarning, match="may have no clusters"):  # a range never answers one
        assert sc.GraphClustering(range(2, 4)).fit(graph).n_clusters_ in (2, 3)


def test_one_cluster_that_was_asked_for_is_no_reason_to_warn():
    for graph in (PLANTED, PLANTED.with_features(None), random_graph()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            est = sc.GraphClustering(1, n_init=2, max_iter=3).fit(graph)
        assert (est.structure_, est.n_clusters_) == (0.0, 1)
        clear = graph.x is None and graph is not PLANTED and graph.num_edges > 700
        assert est.verdict_ == ("clear" if clear else "none"), "by edges alone it is that of the graph"
        assert set(est.labels_) <= {-1, 0}


@pytest.mark.parametrize("features", [True, False])
def test_planted_clusters_are_clear(features):
    graph = PLANTED if features else PLANTED.with_features(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = sc.GraphClustering(3, **QUICK).fit(graph)
    assert est.verdict_ == "clear" and est.structure_ > 2
    assert nmi(PLANTED.y, est.labels_) > 0.8
    joined = np.diff(graph.adjacency.indptr) > 0
    counted = graph if features else graph.subgraph(joined)
    labels = est.labels_ if features else est.labels_[joined]
    assert est.structure_ == pytest.approx(evidence_parts(counted, labels).structure)
    name, value = ("clear", est.structure_) if features else ("clear_surplus", est.surplus_)
    for limit, verdict in ((value + 1e-6, "weak"), (value, "clear")):
        recipe = Recipe(**{name: limit})
        assert sc.GraphClustering(3, **QUICK, recipe=recipe).fit(graph).verdict_ == verdict


def test_both_distances_from_random_graphs_count():
    recipe = Recipe(some_deviations=4.0, clear_deviations=6.0, some_surplus=0.01, clear_surplus=0.03)
    for deviations, surplus, verdict in (
        (4.0, 0.01, "weak"),
        (3.99, 0.5, "none"),
        (99.0, 0.009, "none"),
        (6.0, 0.03, "clear"),
        (5.99, 0.5, "weak"),
        (99.0, 0.029, "weak"),
        (-3.0, -0.1, "none"),
    ):
        assert recipe.verdict_of_edges(deviations, surplus) == verdict


def test_the_part_that_pays_is_named():
    rng = np.random.default_rng(0)
    edges = sc.GraphClustering(3, **QUICK).fit(PLANTED.with_features(rng.normal(size=(150, 12))))
    said = "the {} say nothing about these clusters: the verdict is that of the {}."
    assert said.format("features", "edges") in edges.notes_ and edges.verdict_ == "clear"
    parts = evidence_parts(PLANTED, edges.labels_, rng.normal(size=(150, 12)))
    assert parts.edges > 0 > parts.features and parts.structure > parts.value
    words = sc.GraphClustering(3, **QUICK).fit(random_graph(x=PLANTED.x))
    assert said.format("edges", "features") in words.notes_
    both = sc.GraphClustering(3, **QUICK).fit(PLANTED)
    assert not any(note.code == "verdict_of" for note in both.notes_)


# --------------------------------------------------------------------------------------- other doubts


def test_the_clusters_that_are_used_are_counted():
    two = np.kron(np.eye(2), np.ones((15, 15))) - np.eye(30)
    x = np.repeat(np.eye(2), 15, axis=0) @ np.array([[1.0, 2, 3], [3, 2, 1]])
    said = "only 2 of 5 clusters have nodes: ask for fewer"
    with pytest.warns(UserWarning, match=said):
        est = sc.GraphClustering(5, n_init=3, max_iter=10).fit(two, x)
    assert est.agreement_ == 0 and len(set(est.labels_)) == 2
    pair = sc.Graph.from_edges([[0], [1]], num_nodes=3)
    with pytest.warns(UserWarning, match="of 3 clusters") as caught:
        assert set(sc.GraphClustering(3).fit(pair).labels_) == {-1, 0, 1}
    assert [str(each.message) for each in caught] == [
        "only 2 of 3 clusters have nodes: ask for fewer clusters.",
        RANDOM,
    ]


def test_low_agreement_is_a_warning():
    usual = sc.GraphClustering(3, **QUICK).fit(PLANTED)
    assert 0.1 < usual.agreement_ <= 1
    strict = Recipe(low_agreement=usual.agreement_ + 1e-6)
    said = (
        f"restarts hardly agree \\({usual.agreement_:.2f} on a scale to 1\\): another seed would give other"
    )
    with pytest.warns(UserWarning, match=said) as caught:
        sc.GraphClustering(3, **QUICK, recipe=strict).fit(PLANTED)
    assert caught[0].filename == __file__, "a warning of the line that called fit"
    with warnings.catch_warnings():  # the limit itself is fine, and a single network has none to agree with
        warnings.simplefilter("error")
        sc.GraphClustering(3, **QUICK, recipe=Recipe(low_agreement=usual.agreement_)).fit(PLANTED)
        sc.GraphClustering(3, n_init=1, max_iter=30, recipe=Recipe(low_agreement=2.0)).fit(PLANTED)


# -------------------------------------------------------------------------------------- the number of clusters


@pytest.mark.parametrize("features", [True, False])
def test_the_planted_number_is_found(features):
    graph = attributed_communities(240, 4, 14, 80, edge_signal=0.9, feature_signal=0.6, seed=0)
    graph = graph if features else graph.with_features(None)
    est = sc.GraphClustering(range(2, 7), n_init=6, max_iter=30).fit(graph)
    assert est.n_clusters_ == 4 and sorted(est.candidates_) == [2, 3, 4, 5, 6]
    for each in est.candidates_.values():
        assert set(each) == set(CANDIDATE)
        assert each["score"] >= 0 and -1 <= each["agreement"] <= 1
    best = est.candidates_[4]
    assert best["score"] == max(each["score"] for each in est.candidates_.values())
    assert best["structure"] > 1 and best["description_length"] < 0
    assert any(note.startswith("4 clusters fit best of 2 to 6") for note in est.notes_)
    assert sc.GraphClustering(3, n_init=1, max_iter=1).fit(graph).candidates_ == {}


def test_candidates_of_a_graph_without_features_are_judged_by_their_labels():
    graph = community_graph().with_features(None)
    est = sc.GraphClustering([3, 6]).fit(graph)
    alone = sc.GraphClustering(6).fit(graph)
    assert est.n_clusters_ == 6
    np.testing.assert_array_equal(est.labels_, alone.labels_)
    parts = evidence_parts(graph, alone.labels_)
    # Numbers are compared after a few moves, which come near.
    assert est.candidates_[6]["structure"] == pytest.approx(parts.structure, rel=0.05)
    assert est.candidates_[6]["description_length"] == pytest.approx(parts.description_length, rel=0.05)
    assert est.structure_ == pytest.approx(parts.structure) == pytest.approx(evidence(graph, alone.labels_))


def chosen(scores, structures=None, is_open=False, supported=0.5, ended=None):
    """What is chosen and said where `scores` and `structures` speak for numbers, and `ended` is a whole fit's."""
    structures = structures or dict.fromkeys(scores, 2.0)
    notes, compared = [], []
    known = {"agreement": 1.0, "description_length": 0.0}

    def begun(k):
        return {"score": scores[k], "structure": structures[k], **known}

    def close(k):
        return {"score": 0.1, "structure": ended[k], **known} if ended else begun(k)

    recipe = Recipe(supported=supported)
    task = fitting.FitTask(
        tuple(scores),
        is_open,
        recipe,
        0,
        None,
        torch.device("cpu"),
        notes.append,
        comparing=compared.append,
    )
    k, candidates, _ = choose(task, begun, close)
    assert list(candidates) == compared == list(scores)
    return k, notes


def test_the_number_with_the_highest_score():
    k, notes = chosen({2: 0.8, 3: 1.6, 4: 0.4})
    assert k == 3
    assert notes == [
        "3 clusters fit best of 2 to 4.",
        "evidence times agreement of restarts, by number of clusters, relative to the highest: "
        "2: 0.50, 3: 1.00, 4: 0.25.",
    ]
    assert (notes[0].code, notes[0].values) == ("number_of_clusters", {"chosen": 3, "supported": []})
    assert chosen({2: 1.0, 3: 1.0})[0] == 2, "of equals the smallest"
    k, notes = chosen({2: 0.0, 3: 0.0})
    assert k == 2 and notes == [
        "no number of clusters from 2 to 3 stands out: each seed would divide the graph in another way. 2 was taken; "
        "give the number you want."
    ]


@pytest.mark.parametrize(
    ("scores", "supported", "also"),
    [
        ((0.5, 0.4, 1.0, 0.3, 0.6), 0.5, [2, 6]),
        ((0.5, 0.4, 1.0, 0.3, 0.6), 0.55, [6]),
        ((0.49, 0.4, 1.0, 0.3, 0.2), 0.5, []),
        ((0.9, 0.95, 1.0, 0.9, 0.9), 0.5, []),
    ],
)
def test_other_peaks_are_supported_too(scores, supported, also):
    k, notes = chosen(dict(zip(range(2, 7), scores, strict=True)), supported=supported)
    said = f"; also plausible: {', '.join(map(str, also))}" if also else ""
    assert k == 4 and notes[0] == f"4 clusters fit best of 2 to 6{said}."
    assert notes[0].values["supported"] == also
    assert [isinstance(note, Detail) for note in notes] == [False, True]  # the curve is for those who ask


def test_one_only_where_nothing_pays_and_it_may_be():
    nothing, something = {2: 0.5, 3: 0.99}, {2: 0.5, 3: 1.0}
    assert chosen({2: 0.8, 3: 0.4}, nothing, is_open=True)[0] == 1
    assert chosen({2: 0.8, 3: 0.4}, nothing, is_open=False)[0] == 2
    for is_open in (True, False):
        assert chosen({2: 0.8, 3: 0.4}, something, is_open=is_open)[0] == 3, "the one that pays"


def test_the_number_nearest_to_paying_is_looked_at_closely_before_the_answer_is_one():
    nothing = {2: 0.5, 3: 0.99, 4: 0.7}
    scores = {2: 0.8, 3: 0.4, 4: 0.2}
    assert chosen(scores, nothing, is_open=True, ended={3: 1.2})[0] == 3
    assert chosen(scores, nothing, is_open=True, ended={3: 0.999})[0] == 1
    assert chosen(scores, nothing, is_open=False, ended={3: 1.2})[0] == 2


def test_comparing_trains_no_networks_where_features_tell_numbers_apart(monkeypatch):
    trained, told = [], []
    real = fitting.train_networks

    def counted(prepared, k, recipe, seed, note, callback=None, **options):
        trained.append((k, recipe.networks, callback is not None))
        return real(prepared, k, recipe, seed, note, callback, **options)

    monkeypatch.setattr(fitting, "train_networks", counted)
    listener = type("", (), {"__call__": lambda *_: None, "comparing": lambda _, k, of: told.append(k)})()
    est = sc.GraphClustering([2, 3, 5], n_init=14, max_iter=5, callbacks=[listener]).fit(PLANTED)
    assert est.n_clusters_ == 3 and trained == [(3, 14, True)] and told == [2, 3, 5]
    assert {each["iterations"] for each in est.candidates_.values()} == {0}
    assert min(each["score"] for each in est.candidates_.values()) > 0
    trained.clear()
    est = sc.MinCutClustering([2, 3, 5, 6], n_init=3, max_iter=5).fit(
        PLANTED
    )  # nothing that k-means could read
    assert trained[:-1] == [(k, 3, False) for k in (2, 3, 5, 6)] and trained[-1] == (
        est.n_clusters_,
        3,
        False,
    )
    assert {each["iterations"] for each in est.candidates_.values()} == {5}
    trained.clear()
    sc.MinCutClustering([2, 3], n_init=1, max_iter=5).fit(PLANTED)
    assert [networks for _, networks, _ in trained] == [2, 2, 1]  # one network has nothing to agree with


@pytest.mark.parametrize(("looks", "distances", "expected"), [(18, 6, 18), (4, 6, 6), (1, 1, 2)])
def test_how_many_clusterings_of_the_features_are_compared(looks, distances, expected):
    recipe = Recipe(looks=looks, distances=Recipe().distances[:distances])
    prepared = fitting.prepare(PLANTED, recipe, torch.device("cpu"), lambda note: None)
    labels = fitting.Starts(prepared, recipe, 0).of_features(3)
    assert labels.shape == (PLANTED.num_nodes, expected)


def test_networks_begin_from_what_was_compared():
    prepared = fitting.prepare(PLANTED, Recipe(), torch.device("cpu"), lambda note: None)
    starts = fitting.Starts(prepared, Recipe(), 0)
    compared = {tuple(each.tolist()) for each in starts.of_features(3).mT}
    begun = starts(3, even_scales(6, 24)).labels
    assert sum(tuple(each.tolist()) in compared for each in begun) >= 18


@pytest.mark.parametrize("rounding", [-4, 4])
def test_rounding_does_not_decide_between_starts_that_are_the_same(rounding, monkeypatch):
    prepared = fitting.prepare(PLANTED, Recipe(), torch.device("cpu"), lambda note: None)
    plain = fitting.Starts(prepared, Recipe(), 0).of_features(3)
    real, ties = starts_module.inertias, []

    def rounded(rows, centres):
        inertia = real(rows, centres)
        pairs = inertia.view(-1, Recipe().start_restarts)
        ties.append(((pairs[:, 0] / pairs[:, 1] - 1).abs() < 1e-6).any())
        eps = rounding * torch.finfo(rows.dtype).eps
        return inertia * (1 + eps * torch.arange(len(inertia)).remainder(2))

    monkeypatch.setattr(starts_module, "inertias", rounded)
    assert torch.equal(fitting.Starts(prepared, Recipe(), 0).of_features(3), plain) and any(ties)


@pytest.mark.parametrize("distances", [Recipe().distances, (2,)])
def test_the_planted_number_is_chosen(distances):
    recipe = Recipe(networks=8, distances=distances)
    assert sc.GraphClustering("auto", recipe=recipe).fit(PLANTED).n_clusters_ == 3
    # One distance tells nearly all of this graph: clusters of the others agree by chance only.
    graph = attributed_communities(1000, 2, edge_signal=0.35, feature_signal=0.35, seed=2)
    assert sc.GraphClustering("auto", n_init=4, max_iter=5).fit(graph).n_clusters_ == 2


def test_clusterings_far_behind_the_best_one_do_not_vote():
    """Two clusterings agree, a third has other labels; how far it is behind decides whether it counts."""
    labels = torch.tensor([[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]])
    ari, judge = agreement(labels, 2), Judge(sp.csr_array(np.ones((4, 4)) - np.eye(4)))

    def said(values, **recipe):
        value = torch.tensor(values, dtype=torch.float64)
        found = Evidence(
            4 * value, torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64), 4
        )
        return candidate(judge, labels, 2, found, ari, Recipe(**recipe))["agreement"]

    assert said([1.0, 1.0, 0.0]) == pytest.approx(1)  # all of the evidence behind
    for unit in (1.0, 10.0):
        agrees = said([unit, unit, 0.9 * unit], width=0.05)
        assert agrees == pytest.approx((1 - np.exp(-4) * 2 * 0.5) / (1 + 2 * np.exp(-4)), rel=1e-6)
    assert said([10.0, 10.0, 9.0], width=0.03) == pytest.approx(1)


def test_a_clustering_of_the_features_without_all_clusters_does_not_vote(monkeypatch):
    real = fitting.Starts.of_features

    def lost(starts, k):
        return real(starts, k).clamp(max=1) if k == 3 else real(starts, k)

    monkeypatch.setattr(fitting.Starts, "of_features", lost)
    est = sc.GraphClustering([2, 3, 4], max_iter=5, recipe=Recipe(networks=4)).fit(PLANTED)
    assert est.candidates_[3] == dict.fromkeys(CANDIDATE, 0.0)


# Where clusters are not clear, another start ends elsewhere.
@pytest.mark.parametrize(("signal", "sample"), [(None, 20_000), (0.5, 20_000), (0.5, 60)])
def test_a_number_that_was_chosen_gives_what_it_gives_when_asked_for(signal, sample):
    graph = PLANTED
    if signal is not None:
        signals = {"edge_signal": signal, "feature_signal": 0.3}
        graph = attributed_communities(150, 3, n_features=30, **signals, seed=0)
    options = {"max_iter": 5, "recipe": Recipe(start_sample=sample)}  # as many k-means as are compared
    compared = sc.GraphClustering([2, 3], **options).fit(graph)
    asked = sc.GraphClustering(compared.n_clusters_, **options).fit(graph)
    np.testing.assert_array_equal(compared.soft_, asked.soft_)
    assert compared.replicas_ == asked.replicas_


def test_numbers_are_compared_on_a_sample_and_networks_begin_from_all_nodes(monkeypatch):
    seen = []
    real = starts_module.kmeans_restarts

    def counted(rows, k, *args, **options):
        seen.append((k, len(rows)))
        return real(rows, k, *args, **options)

    monkeypatch.setattr(starts_module, "kmeans_restarts", counted)
    est = sc.GraphClustering([2, 3], max_iter=5, recipe=Recipe(start_sample=60)).fit(PLANTED)
    k, nodes = est.n_clusters_, PLANTED.num_nodes
    assert nodes > 60 and {(2, 60), (3, 60), (k, nodes)} == set(seen)


def test_networks_that_lost_clusters_do_not_vote(monkeypatch):
    real = fitting.train_networks

    def lost(prepared, k, recipe, *args, **options):
        ended = real(prepared, k, recipe, *args, **options)
        if k == 3 and recipe.networks == 2:
            return replace(ended, replicas=[ended.replicas[0], replace(ended.replicas[1], collapsed=True)])
        return ended

    monkeypatch.setattr(fitting, "train_networks", lost)
    recipe = PAPER.changed(networks=3, trial_networks=2, learning_rate=0.05)
    est = sc.GraphClustering([2, 3], max_iter=60, recipe=recipe).fit(PLANTED)
    assert est.n_clusters_ == 2
    assert est.candidates_[3] == {**dict.fromkeys(CANDIDATE, 0.0), "iterations": 60}
    assert est.candidates_[2]["score"] > 0


def test_networks_that_lose_clusters_are_reported_and_left_out(monkeypatch):
    """One network is forced into a single cluster; the consensus must not see it."""
    real = networks.train

    def sabotage(net, *args, **kwargs):
        result = real(net, *args, **kwargs)
        net.second.data[0] = 0
        net.second_bias.data[0] = net.second_bias.data.new_tensor([50.0, 0.0, 0.0])
        return result

    monkeypatch.setattr(networks, "train", sabotage)
    est = sc.GraphClustering(3, n_init=4, max_iter=20, recipe=Recipe(width=100.0)).fit(PLANTED)
    assert [r.collapsed for r in est.replicas_] == [True, False, False, False]
    assert est.replicas_[0].clusters_used == 1
    assert est._model.net.replicas == len(est.weights_) == 3
    assert "1 of 4 networks found fewer than 3 clusters and did not count." in est.notes_
    assert nmi(PLANTED.y, est.labels_) > 0.75
