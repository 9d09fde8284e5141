"""Which scale, and whether there are communities at all: random graphs, small real ones, and tables made by hand."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import softcut as sc
from softcut.clustering import Recipe
from softcut.communities import scales as module
from softcut.communities.engine import adjusted_rand
from softcut.communities.network import Network
from softcut.communities.random_graphs import rewired
from softcut.communities.scales import ASKED, RESOLUTIONS, Search
from softcut.communities.tree import Scales


def search_of(graph, weight="weight", seed=0, order=None):
    matrix = sp.csr_array(nx.to_scipy_sparse_array(graph, weight=weight, dtype=float))
    if order is not None:
        matrix = sp.csr_array(matrix[order][:, order])
    network = Network(matrix)
    return Search(network, lambda which: rewired(network, which), seed)


def verdict(graph, weight="weight", seed=0):
    found = search_of(graph, weight, seed).compared(Recipe().clear_deviations)
    return Recipe().verdict_of_edges(found.deviations, found.surplus)


RANDOM = {
    **{f"random {s}": nx.gnm_random_graph(120, 120 * d, seed=s) for s, d in enumerate((2, 3, 4, 6, 8))},
    **{f"hubs {d}": nx.barabasi_albert_graph(200, d, seed=d) for d in (2, 4)},
    **{f"regular {d}": nx.random_regular_graph(d, 150, seed=d) for d in (3, 6)},
    "tree": nx.from_prufer_sequence(np.random.default_rng(0).integers(0, 80, 78).tolist()),
    "ring": nx.cycle_graph(60),
    "star": nx.star_graph(40),
    "complete": nx.complete_graph(25),
    "one edge": nx.path_graph(2),
}
COMMUNITIES = {
    "karate": (nx.karate_club_graph(), "weight"),
    "karate without weights": (nx.karate_club_graph(), None),
    "Les Miserables": (nx.les_miserables_graph(), "weight"),
    "Les Miserables without weights": (nx.les_miserables_graph(), None),
    "caveman": (nx.connected_caveman_graph(6, 6), None),
    "planted": (nx.planted_partition_graph(4, 40, 0.3, 0.03, seed=0), None),
    "large": (nx.planted_partition_graph(10, 100, 0.12, 0.004, seed=0), None),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_graphs_have_no_communities(name):
    assert verdict(RANDOM[name]) == "none"


@pytest.mark.parametrize("name", COMMUNITIES)
def test_communities_are_clear(name):
    assert verdict(*COMMUNITIES[name]) == "clear"


@pytest.mark.parametrize("name", ["random 3", "hubs 4", "regular 6"])
def test_the_surplus_of_random_graphs_is_near_zero(name):
    table = search_of(RANDOM[name]).scales()
    assert np.abs(table.modularity - table.random).max() < 0.02
    assert (search_of(*COMMUNITIES["planted"]).scales().score > 0.1).any()


def test_as_few_random_graphs_as_decide_it():
    clear, none = (search_of(g).compared(6.0) for g in (COMMUNITIES["planted"][0], RANDOM["random 3"]))
    assert (clear.random_graphs, none.random_graphs) == (3, 20)
    assert clear.deviations > 18 and clear.surplus > 0.1 and abs(none.deviations) < 4
    assert search_of(COMMUNITIES["planted"][0]).compared(1e9).random_graphs == 20


@pytest.mark.parametrize(
    ("graph", "weight", "numbers"),
    [
        (nx.karate_club_graph(), "weight", {4}),
        (nx.karate_club_graph(), None, {4}),
        (nx.les_miserables_graph(), "weight", {5, 6}),
        (nx.connected_caveman_graph(6, 6), None, {6}),
        (nx.planted_partition_graph(4, 40, 0.3, 0.03, seed=0), None, {4}),
    ],
    ids=["karate weighted", "karate", "Les Miserables", "caveman", "planted"],
)
def test_the_number_of_communities_in_any_order_of_the_nodes(graph, weight, numbers):
    n, found = len(graph), []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(n) if seed else np.arange(n)
        search = search_of(graph, weight, order=order)
        table = search.scales()
        labels = np.empty(n, int)
        labels[order] = search.best(float(table.resolution[table.chosen]))
        found.append((table.chosen, labels))
        assert labels.max() + 1 in numbers
    for row, labels in found[1:]:
        assert row == found[0][0] and adjusted_rand(labels, found[0][1]) > 0.99


# ---------------------------------------------------------------------------------------------- chosen row


def table(score, resolution=None, number=5, **columns):
    n = len(score)
    resolution = np.geomspace(0.125, 8, n) if resolution is None else np.array(resolution, float)
    made = {
        "number": np.full(n, number),
        "modularity": np.array(score) + 0.25,
        "random": np.full(n, 0.25),
        "agreement": np.ones(n),
    }
    return Scales(resolution, **(made | columns))


def test_the_score_is_what_modularity_exceeds_times_agreement():
    made = table([0.5, 0.5, 0.5, -0.25], agreement=np.array([1.0, 0.5, -0.5, 1.0]))
    np.testing.assert_allclose(made.score, [0.5, 0.25, 0, 0])
    assert table([0.5, 0.5], number=1).score.tolist() == [0, 0], "one community is none"


@pytest.mark.parametrize(
    ("score", "resolution", "chosen"),
    [
        ([0.1, 0.2, 0.9, 0.3], [0.5, 1, 2, 4], 2),
        ([0.9, 0.8, 0.3, 0.2], [0.5, 1, 2, 4], 1),  # the finest up to 1 with two thirds of the highest
        ([0.9, 0.61, 0.59, 0.2], [0.25, 0.5, 1, 2], 1),
        ([0.9, 0.59, 0.65, 0.2], [0.25, 0.5, 1, 2], 2),
        ([0.9, 0.8, 0.7, 0.85], [0.25, 0.5, 1.1, 2], 1),
        ([0.8, 0.8, 0.9, 0.85], [0.25, 0.5, 1.1, 2], 2),
        ([0.0, 0.0], [0.5, 1], 1),
    ],
)
def test_the_chosen_row(score, resolution, chosen):
    assert table(score, resolution).chosen == chosen


def test_a_row_that_was_asked_for():
    made = table([0.1, 0.2, 0.9, 0.3], [0.5, 1, 2, 4])
    assert made.at(1.1).chosen == 1 and made.at(100).chosen == 3 and made.at(2) != made
    assert made.columns == ["resolution", "number", "modularity", "random", "agreement"]
    assert list(made.to_frame().columns) == made.columns and len(made.to_frame()) == len(made) == 4
    assert next(made.rows()) == dict(zip(made.columns, (0.5, 5, pytest.approx(0.35), 0.25, 1.0), strict=True))
    assert made["random"].tolist() == [0.25] * 4 and made == table([0.1, 0.2, 0.9, 0.3], [0.5, 1, 2, 4])
    with pytest.raises(KeyError):
        made["given"]
    assert repr(made).splitlines()[0].split() == made.columns and len(repr(made).splitlines()) == 5


def test_a_given_resolution_is_looked_at_and_chosen():
    found = search_of(nx.karate_club_graph()).scales(1.234)
    assert found.resolution[found.chosen] == 1.234 and len(found) == len(RESOLUTIONS) + 1
    usual = search_of(nx.karate_club_graph()).scales()
    assert usual.given is None and usual.resolution.tolist() == list(RESOLUTIONS)
    assert set(ASKED) <= set(RESOLUTIONS)


def test_earlier_labels_say_which_scale_it_was():
    search = search_of(nx.les_miserables_graph())
    found = search.scales()
    for g in (RESOLUTIONS[3], 1.0, RESOLUTIONS[-2]):
        labels = search.best(g) * 10 + 5
        same = search.best(search.nearest(found, labels))
        assert adjusted_rand(search.best(g), same) == 1
        labels[:3] = -1
        assert adjusted_rand(search.best(search.nearest(found, labels)), same) > 0.9


# ---------------------------------------------------------------------------------------------- interrupts


@pytest.mark.parametrize("after", [1, 4, 20, 60])
def test_an_interrupt_gives_what_was_found(after, monkeypatch):
    real, runs = module.communities, []

    def stopping(*args, **options):
        runs.append(0)
        if len(runs) > after:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(module, "communities", stopping)
    search = search_of(nx.les_miserables_graph())
    found = search.scales()
    assert search.interrupted and 1 <= len(found) <= len(RESOLUTIONS)
    assert len(found) == min(after, len(RESOLUTIONS))
    levels, chosen, marks = search.levels(found)
    assert levels.shape == (len(marks), 77) and levels[chosen].max() > 0
    runs.clear()
    with pytest.warns(UserWarning, match="^interrupted; the result is what was found until then") as caught:
        est = sc.GraphClustering().fit(nx.les_miserables_graph())
    assert est.interrupted_ and est.n_clusters_ > 1 and est.labels_.shape == (77,)
    assert len(caught) == 1, "nothing is said about communities that were not looked for"


def test_an_interrupt_before_anything_was_found_ends_the_search(monkeypatch):
    def stopping(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "communities", stopping)
    with pytest.raises(KeyboardInterrupt):
        search_of(nx.karate_club_graph()).scales()


# ---------------------------------------------------------------------------------------------- levels


def blocks_in_blocks(outer=3, inner=4, size=12, seed=0):
    """A graph of blocks of blocks, and both divisions."""
    fine = np.repeat(np.arange(outer * inner), size)
    coarse = fine // inner
    chance = np.where(fine[:, None] == fine, 0.8, np.where(coarse[:, None] == coarse, 0.12, 0.005))
    upper = np.triu(np.random.default_rng(seed).random(chance.shape) < chance, 1)
    return sp.csr_array((upper + upper.T).astype(float)), coarse, fine


@pytest.mark.parametrize("seed", range(3))
def test_blocks_in_blocks_are_levels(seed):
    matrix, coarse, fine = blocks_in_blocks(seed=seed)
    est = sc.GraphClustering(min_size=3).fit(matrix)
    assert est.verdict_ == "clear"
    count = len(est.levels_.labels)
    for truth in (coarse, fine):
        assert max(adjusted_rand(truth, est.labels_at(level)) for level in range(count)) > 0.9
    for upper, lower in itertools.pairwise(est.levels_.labels):
        assert len(np.unique(np.stack([upper, lower]), axis=1).T) == lower.max() + 1 > upper.max() + 1
    assert list(est.levels_.marks) == sorted(est.levels_.marks)
    np.testing.assert_array_equal(est.labels_at(est.level_), est.labels_)
    coarsest, finest = (sc.GraphClustering(scale=s).fit(matrix) for s in ("coarse", "fine"))
    assert (coarsest.level_, finest.level_) == (0, len(finest.levels_.labels) - 1)
    assert coarsest.n_clusters_ < finest.n_clusters_


def test_levels_are_few_and_differ():
    search = search_of(nx.les_miserables_graph())
    found = search.scales()
    levels, chosen, marks = search.levels(found)
    assert 2 <= len(levels) <= 5 and marks[chosen] == found.resolution[found.chosen]
    assert all(adjusted_rand(a, b) < 0.95 for a, b in itertools.pairwise(levels))
    sizes = [np.bincount(each).min() for each in search.levels(found, smallest=3)[0]]
    assert min(sizes) >= 3
