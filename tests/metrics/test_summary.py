"""The summary of every cluster: named features pay, values are readable, members and bridges are the right ones."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import features
from softcut.metrics.features import axes_gain, axes_table, column_gains, normal_scores, told_by
from softcut.metrics.summary import ROW, summarise, verdict_sentence
from softcut.metrics.traits import Trait, traits_of_clusters
from softcut.ops.information import multinomial_complexity
from softcut.tables.display_text import readable
from softcut.tables.kinds import CATEGORY, NUMBER, WORD

N, K = 400, 4
EDGES = attributed_communities(N, K, n_features=0, edge_signal=0.85, seed=0)
CLASSES = np.asarray(EDGES.y)


def people(noise: int = 0, seed: int = 0) -> Graph:
    """Salary sets class 0 apart and the department all classes; age, city and the noise say nothing."""
    rng = np.random.default_rng(seed)
    salary = np.where(CLASSES == 0, 62_500, 41_000) + rng.normal(0, 6000, N)
    department = np.where(rng.random(N) < 0.6, CLASSES, rng.integers(0, K, N))
    columns = [salary, rng.normal(40, 9, N), np.eye(K)[department], np.eye(3)[rng.integers(0, 3, N)]]
    titles = ["salary", "age", *(f"dept={d}" for d in ("Legal", "IT", "HR", "Sales"))]
    titles += [f"city={c}" for c in ("Oslo", "Rome", "Bern")] + [f"noise {j}" for j in range(noise)]
    x = np.column_stack([*columns, rng.normal(size=(N, noise))])
    return Graph.from_scipy(EDGES.adjacency, x=x, feature_names=titles)


@pytest.mark.parametrize("noise", [0, 300])
def test_features_that_pay_are_named_with_values_people_read(noise):
    graph = people(noise)
    clusters = summarise(graph, CLASSES).clusters
    x = np.asarray(graph.x)
    for cluster, department in zip(clusters, ("Legal", "IT", "HR", "Sales"), strict=True):
        named = {trait.feature: trait for trait in cluster.traits}
        assert set(named) <= {
            "salary",
            f"dept {department}",
        }  # no age, no city, no noise, no other department
        trait, column = named[f"dept {department}"], graph.feature_names.index(f"dept={department}")
        inside = cluster.cluster == CLASSES
        assert trait.measure == "share"
        assert trait.inside == pytest.approx(x[inside, column].mean())
        assert trait.elsewhere == pytest.approx(x[~inside, column].mean())
    salary = next(trait for trait in clusters[0].traits if trait.feature == "salary")
    inside = CLASSES == 0
    wide = x.astype(np.float64)  # a mean of two float32 is rounded
    assert salary.inside == np.median(wide[inside, 0]) and salary.elsewhere == np.median(wide[~inside, 0])
    assert str(salary) == f"salary {readable(salary.inside)} ({readable(salary.elsewhere)} elsewhere)"
    assert "e+" not in str(clusters) and "," in str(salary)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_named_where_clusters_say_nothing(seed):
    shuffled = np.random.default_rng(seed).permutation(CLASSES)
    assert all(not cluster.traits for cluster in summarise(people(300, seed), shuffled).clusters)
    words = attributed_communities(N, K, n_features=300, seed=seed)
    assert all(not cluster.traits for cluster in summarise(words, shuffled).clusters)


@pytest.mark.parametrize("sparse", [False, True])
def test_words_are_named_by_how_many_nodes_have_them(sparse):
    graph = attributed_communities(N, K, n_features=80, feature_signal=0.6, seed=0)
    x = sp.csr_array(graph.x) if sparse else np.asarray(sp.csr_array(graph.x).toarray())
    graph, labels = Graph.from_scipy(graph.adjacency, x=x), np.asarray(graph.y)
    dense = sp.csr_array(x).toarray() != 0
    for cluster in summarise(graph, labels).clusters:
        assert len(cluster.traits) == 6  # of more that pay
        for trait in cluster.traits:
            column = int(trait.feature.removeprefix("feature "))
            inside = labels == cluster.cluster
            assert (trait.inside, trait.elsewhere) == pytest.approx(
                (dense[inside, column].mean(), dense[~inside, column].mean())
            )
        more = [trait.inside > trait.elsewhere for trait in cluster.traits]
        strongest_first = sorted(
            cluster.traits, key=lambda trait: (trait.inside <= trait.elsewhere, -trait.nats)
        )
        assert list(cluster.traits) == strongest_first
        assert more == sorted(more, reverse=True)  # what its members have comes before what they have not


def test_each_kind_of_column_is_read_in_its_own_way(monkeypatch):
    labels = np.repeat([0, 1], 100)
    rng = np.random.default_rng(0)
    flag = np.where(labels == 0, rng.random(200) < 0.9, rng.random(200) < 0.1).astype(float)
    count = rng.poisson(np.where(labels == 0, 0.45, 0.05)).astype(float)
    day = np.where(labels == 0, 18_000.0, 12_000.0) + rng.integers(0, 300, 200)
    x = np.column_stack([flag, count, day, np.full(200, 7.0)])
    kinds = np.full(4, NUMBER)
    names = ["smoker", "children", "hired", "constant"]
    traits, _ = traits_of_clusters(x, kinds, names, labels, 2, dates=["hired"])
    said = {trait.feature: trait for trait in traits}
    assert set(said) == {"smoker", "children", "hired"}
    assert said["smoker"].measure == "share"  # 0 and 1 have no median worth reading
    assert said["children"].measure == "mean" and " on average (" in str(said["children"])
    assert said["hired"].values[0].startswith("2019-") and said["hired"].values[1].startswith("2003-")
    table = axes_table(torch.from_numpy(normal_scores(x[:, :1])), torch.from_numpy(labels), 2)
    assert said["smoker"].nats == pytest.approx(float(column_gains(table)))
    # One value of two is enough: the other is the rest.
    member = np.column_stack([flag, 1 - flag])
    for c, wanted in ((0, "member yes=1"), (1, "member no")):
        found = traits_of_clusters(
            member, np.full(2, CATEGORY + 1), ["member=yes=1", "member=no"], labels, 2
        )[c]
        assert [trait.feature for trait in found] == [wanted]
    # What a word says is the same beside numbers: n D less the price of a table of two clusters.
    beside = traits_of_clusters(
        np.column_stack([x, member]),
        np.array([*kinds, CATEGORY + 1, CATEGORY + 1]),
        [*names, "member=yes", "member=no"],
        labels,
        2,
    )[0]
    has = np.bincount(labels, flag)
    cost = float(multinomial_complexity(2, torch.tensor([has.sum()], dtype=torch.float64)))
    nats = (has * np.log(has / has.sum() / 0.5)).sum() - cost
    assert {trait.feature: trait.nats for trait in beside}["member yes"] == pytest.approx(nats)
    # In the name of a word "=" is a sign like any other.
    found = traits_of_clusters(member[:, :1], np.array([WORD]), ["a=b" + "c" * 58], labels, 2)[0]
    assert [trait.feature for trait in found] == ["a=b" + "c" * 56 + "…"]
    for k in (1, 3):
        assert traits_of_clusters(x, kinds, names, np.zeros(200, int), k) == [[]] * k
    # Of many nodes some are looked at, and count for all.
    monkeypatch.setattr(features, "_ROWS", 200)
    twice, _ = traits_of_clusters(x.repeat(2, 0), kinds, names, labels.repeat(2), 2, dates=["hired"])
    assert [trait.nats for trait in twice] == pytest.approx([2 * trait.nats for trait in traits])


def test_a_cluster_between_others_is_named_by_what_lies_on_both_sides():
    labels = np.repeat([0, 1, 2], 80)
    rng = np.random.default_rng(0)
    age = np.array([40.0, 25.0, 55.0])[labels] + rng.integers(-3, 4, 240)
    day = np.array([12_000.0, 10_000.0, 14_000.0])[labels] + rng.integers(0, 300, 240)
    x, kinds = np.column_stack([age, day, rng.normal(size=240)]), np.full(3, NUMBER)
    traits = traits_of_clusters(x, kinds, ["age", "hired", "noise"], labels, 3, dates=["hired"])
    middle, low, _ = ({trait.feature: str(trait) for trait in found} for found in traits)
    assert set(middle) == set(low) == {"age", "hired"}
    assert middle["age"] == f"age {np.median(age[:80]):.0f} (25 or 55 elsewhere)" and " or " not in low["age"]
    assert re.fullmatch(
        r"hired 2003-\d\d-\d\d \(1997-\d\d-\d\d or 2008-\d\d-\d\d elsewhere\)", middle["hired"]
    )
    # The order of clusters and empty ones between them change nothing.
    again = traits_of_clusters(x, kinds, ["age", "hired", "noise"], labels * 2, 6, dates=["hired"])
    assert again[0] == traits[0] and again[1] == []
    # What lies below is told by means: the sums of a large cluster in the middle say little.
    labels = np.repeat([0, 1, 2], [300, 20, 60])
    age = np.array([40.0, 25.0, 55.0])[labels] + np.tile([-1.0, 0, 0, 1], 95)
    ((middle,), *_) = traits_of_clusters(age[:, None], kinds[:1], ["age"], labels, 3)
    assert str(middle) == "age 40 (25 or 55 elsewhere)"


@pytest.mark.parametrize(
    ("first", "second", "pays"), [(2, 0, True), (6, 1, True), (5, 1, False), (7, 2, False)]
)
def test_a_single_word_is_named_where_it_says_more_than_its_price(first, second, pays):
    labels, has = np.repeat([0, 1], 20), np.array([first, second])
    x = np.concatenate([np.arange(20) < count for count in has])[:, None].astype(float)
    cost = float(multinomial_complexity(2, torch.tensor([has.sum()], dtype=torch.float64)))
    nats = sum(n * np.log(2 * n / has.sum()) for n in has if n) - cost
    assert pays == (2 * nats > np.log(2)) and nats < 1  # of both clusters, less the choice of a share
    found = traits_of_clusters(x, np.array([WORD]), ["w"], labels, 2)
    assert [[trait.nats for trait in each] for each in found] == [[pytest.approx(nats)] * pays] * 2


def test_dates_of_a_table_are_dates(tmp_path):
    edges, days = tmp_path / "g.csv", tmp_path / "x.csv"
    edges.write_text("".join(f"n{i},n{(i + 1) % 60}\n" for i in range(60)))
    rows = (
        f"n{i},{2019 if i < 30 else 2003}-01-{1 + i % 28:02d},{60 * (i < 30) + i % 7}\n" for i in range(60)
    )
    days.write_text("id,hired,age\n" + "".join(rows))
    first, _ = summarise(sc.read_graph(edges, features=days), np.arange(60) // 30).clusters
    measures = {trait.feature: (trait.measure, *trait.values) for trait in first.traits}
    assert measures == {"hired": ("date", "2019-01-13", "2003-01-13"), "age": ("median", "63", "3")}


def test_a_column_alone_has_the_price_of_one_axis():
    scores = torch.from_numpy(normal_scores(np.random.default_rng(0).normal(size=(N, 5))))
    scores[:, 0] += 0.5 * torch.from_numpy(CLASSES == 0)
    scores = (scores - scores.mean(0)) / scores.std(0, correction=0)
    labels = torch.from_numpy(CLASSES).clone()
    labels[7] = K  # a cluster of one, and an empty one
    each = column_gains(axes_table(scores, labels, K + 2))
    for j in range(5):
        alone = axes_table(scores[:, [j]], labels, K + 2)
        largest = float(axes_gain(alone))
        assert float(each[j]) == pytest.approx(largest)
    told, share = told_by(torch.tensor([50.0, *[-3.0] * 63]))
    assert float(share) == 1 / 64  # one of 64 columns tells, and the choice costs its price
    others = 63 * np.log(63 / 64 + np.exp(-3) / 64)
    assert float(told) == pytest.approx(np.log(63 / 64 + np.exp(50) / 64) + others - np.log(7))


def test_members_cohesion_and_bridges_to_the_number():
    # Two triangles and a pair; edge weights 1, one bridge of weight 2 and one of weight 1.
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (6, 7), (2, 3), (0, 6)]
    weights = [1.0] * 7 + [2.0, 1.0]
    graph = Graph.from_edges(np.array(pairs).T, edge_weight=weights, node_names=list("abcdefgh"))
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    soft = np.eye(3)[labels] * 0.9 + 0.1 / 3
    soft[2] = [0.5, 0.45, 0.05]
    first, second, third = summarise(graph, labels, soft).clusters
    assert (first.size, first.share) == (3, 0.375)
    assert first.cohesion == pytest.approx(6 / 9) and first.by_chance == pytest.approx(9 / 20)
    assert first.certainty == pytest.approx((2 * (0.9 + 0.1 / 3) + 0.5) / 3)
    assert first.row["cohesion"] == 0.666667
    assert first.typical == ("b", "a", "c")  # equally certain: who has fewer edges to others first
    assert [(bridge.to, bridge.weight, bridge.node) for bridge in first.bridges] == [
        (1, 2.0, "c"),
        (2, 1.0, "a"),
    ]
    assert first.bridges[0].share == pytest.approx(2 / 9)
    assert [bridge.to for bridge in second.bridges] == [0]
    assert third.cohesion == pytest.approx(2 / 3)
    light = Graph.from_edges(np.array(pairs).T, edge_weight=np.array(weights) / 1000)
    lightest = summarise(light, labels).clusters[0]
    assert (lightest.cohesion, lightest.by_chance) == pytest.approx((first.cohesion, first.by_chance))
    assert first.doubtful == ()  # all three are typical already
    big = attributed_communities(60, 2, n_features=0, seed=0)
    soft = np.full((60, 2), 0.02)
    soft[np.arange(60), big.y] = 0.98
    unsure = int(np.flatnonzero(big.y == 0)[7])
    soft[unsure] = [0.55, 0.45]
    doubt = summarise(big, big.y, soft).clusters[0].doubtful[0]
    assert str(doubt) == f"{unsure} (0.55; cluster 1: 0.45)"


PRINTED = f"""\
There is some structure; look at the clusters before you rely on them. 15 nodes in 6 clusters.

cluster 0: 10 nodes (67 %), 73 % of its edges stay inside (79 % by chance): no community
  typical:    {"y" * 17}, {"z" * 17}, n3, n4, {"x" * 39}…
  doubtful:   {"v" * 17} (0.51; cluster 1: 0.49), n7 (0.52; cluster 2: 0.48), n8 (0.53;
              cluster 3: 0.47)
  bridges:    to 4: 11 % of its edges (most from n9), to 3: 8 % (n8), to 2: 5 % (n7)

cluster 1: 1 node (7 %), 0 % of its edges stay inside (2 % by chance): no community
  typical:    a, b
  bridges:    to 0: 100 % of its edges (most from a, b)
"""


def test_a_summary_word_by_word():
    # A path of ten nodes with weights of 2 to 1; edges of weight 1, 2, 3 and 4 to four single nodes; one without edges.
    path = [(i, i + 1) for i in range(9)]
    weights = [*np.linspace(2, 1, 9), 1, 2, 3, 4]
    names = ["x" * 41, "y" * 17, "z" * 17, "n3", "n4", "n5", "v" * 17, "n7", "n8", "n9", "a, b", *"cdef"]
    pairs = [*path, (6, 10), (7, 11), (8, 12), (9, 13)]
    graph = Graph.from_edges(np.array(pairs).T, edge_weight=weights, num_nodes=15, node_names=names)
    labels = np.array([0] * 10 + [1, 2, 3, 4, 5])
    soft = np.eye(6)[labels]
    soft[[0, 1], 0] = 0.9998, 0.9996  # as certain as the others, to three digits
    soft[5, :2] = 0.996, 0.004  # too little to be printed
    for node, other, chance in ((6, 1, 0.49), (7, 2, 0.48), (8, 3, 0.47), (9, 4, 0.46)):
        soft[node, [0, other]] = 1 - chance, chance
    summary = summarise(graph, labels, soft, verdict="weak")
    assert repr(summary).startswith(PRINTED)
    last = summary.clusters[5]
    assert str(last) == "cluster 5: 1 node (7 %), no edges\n  typical:    f"
    assert (last.row["cohesion"], last.row["share"], last.row["certainty"]) == (None, 0.066667, 1.0)
    assert summary.to_frame()["by_chance"][0] == 0.787234
    soft[7:10] = np.eye(6)[0]
    assert [doubt.other for doubt in summarise(graph, labels, soft).clusters[0].doubtful] == [1]
    soft[5, :2] = 0.995, 0.005  # the least that is printed
    assert [doubt.other for doubt in summarise(graph, labels, soft).clusters[0].doubtful] == [1, 1]
    assert verdict_sentence("clear", 1) == "All nodes are in one cluster."
    assert verdict_sentence("none", 1) == "No communities: all nodes are in one cluster."
    assert verdict_sentence("clear", 2) == "The clusters are clear."
    assert verdict_sentence("clear", 2, of_graph=True) == "The graph has clear clusters."
    assert verdict_sentence("none", 0) == verdict_sentence(None, 3) == ""
    assert verdict_sentence("none", 2).startswith("The graph may have no clusters")


@pytest.mark.parametrize(("longest", "lines"), [(27, 1), (28, 2)])
def test_a_printed_line_has_100_characters(longest, lines):
    names = ["a" * longest, "b" * 28, "c" * 27]  # beside two commas, two spaces and an indent of 14
    triangle = Graph.from_edges([[0, 1, 2], [1, 2, 0]], node_names=names)
    summary = summarise(triangle, [0, 0, 0])
    assert summary.heading == "3 nodes in 1 cluster."
    assert len(str(summary.clusters[0]).splitlines()) == 1 + lines


def test_nodes_in_no_cluster_are_counted_apart():
    lonely = sp.block_diag([EDGES.adjacency, sp.csr_array((5, 5))], format="csr")
    x = np.vstack([people().x, np.zeros((5, 9))])
    labels = np.concatenate([CLASSES, [-1] * 5])
    summary = summarise(Graph.from_scipy(lonely, x=x), labels)
    assert summary.unplaced == 5 and "405 nodes in 4 clusters, 5 in none." in summary.heading
    assert [cluster.size for cluster in summary.clusters] == np.bincount(CLASSES).tolist()
    assert sum(cluster.share for cluster in summary.clusters) == pytest.approx(1)
    assert repr(summarise(EDGES, [-1] * N)) == "400 nodes in 0 clusters, 400 in none."
    # Elsewhere is the other clusters, not nodes of which nothing is known.
    kinds, names = people().kinds, people().feature_names
    found = traits_of_clusters(x, kinds, names, labels, K)
    assert found == traits_of_clusters(people().x, kinds, names, CLASSES, K)


def test_it_prints_and_becomes_a_frame():
    summary = summarise(people(), CLASSES, verdict="clear", structure=2.5)
    lines = repr(summary).splitlines()
    assert lines[0] == "The clusters are clear. 400 nodes in 4 clusters."
    assert lines[2].startswith("cluster 0: ") and "of its edges stay inside" in lines[2]
    assert max(map(len, lines)) <= 100
    said = summary.clusters[0].pieces["differs by"]
    assert [text.endswith(" elsewhere)") for text in said] == [True, False]  # is said once
    assert not any(line.lstrip().startswith("%") for line in lines)  # a number and its sign stay together
    frame = summary.to_frame()
    assert (frame.index.name, *frame.columns) == ROW
    assert frame["size"].tolist() == np.bincount(CLASSES).tolist()
    assert "dept Legal" in frame["differs_by"][0]
    many = summarise(Graph.from_scipy(EDGES.adjacency), np.arange(N) % 40)
    assert "and 20 more clusters" in repr(many) and len(many.to_frame()) == 40
    assert "more clusters" not in repr(summarise(EDGES, np.arange(N) % 20))
    with pytest.raises(ParameterError, match="one label per node"):
        summarise(people(), CLASSES[:-1])


@pytest.mark.parametrize(
    ("inside", "elsewhere", "said"),
    [
        (62_534.0, 41_012.0, "62,500 (41,000 elsewhere)"),
        (0.0312, 0.0101, "0.0312 (0.0101 elsewhere)"),
        (1987.0, 1962.0, "1987 (1962 elsewhere)"),
        (62_534.0, 62_529.0, "62,534 (62,529 elsewhere)"),
        (3.2e9, -1.5e6, "3,200,000,000 (-1,500,000 elsewhere)"),
        (4.5e-6, 0.0, "0.0000045 (0 elsewhere)"),
        (6.5, 1.0, "6.5 (1 elsewhere)"),
        (5.9912, -0.02634, "5.99 (-0.03 elsewhere)"),
        (5.7123, 0.00133, "5.71 (0 elsewhere)"),
    ],
)
def test_numbers_as_people_write_them(inside, elsewhere, said):
    assert str(Trait("x", "median", inside, elsewhere, 1.0)) == f"x {said}"


def test_days_are_dates_and_the_nearest_side_says_how_many_digits():
    assert Trait("x", "date", 0.5, -1.0, 1.0).values == ("1970-01-01", "1969-12-31")
    assert Trait("x", "date", 1e9, 1.0, 1.0).values == ("1,000,000,000", "1970-01-02")  # beyond the year 9999
    assert Trait("x", "median", 62_534.0, 62_529.0, 1.0, above=70_000.0).values[0] == "62,534"
