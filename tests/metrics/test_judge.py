"""The price of a table and the judge of clusterings, against exact sums and plain formulas."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats
from sklearn.utils.extmath import randomized_svd

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering.numbers import candidate
from softcut.datasets import attributed_communities
from softcut.metrics import Evidence, Judge, evidence, evidence_parts, features
from softcut.metrics.features import (
    axes_gain,
    axes_table,
    looked_at,
    normal_scores,
    presence,
    principal_axes,
)
from softcut.ops.information import multinomial_complexity

# ------------------------------------------------------------------------------------------------ prices
from softcut.tables.kinds import NUMBER, WORD, looks_like_words


def brute_force(k: int, n: int) -> float:
    """log of the sum over all tables of n things in k categories of the largest likelihood of each."""
    total = 0.0
    for counts in itertools.product(range(n + 1), repeat=k):
        if sum(counts) == n:
            ways = math.factorial(n)
            for c in counts:
                ways = ways / math.factorial(c) * (c / n if n else 1.0) ** c
            total += ways
    return math.log(total)


def exact(most: int, n: int) -> np.ndarray:
    """log C(K, n) for K from 1 to `most`, by the recurrence of Kontkanen and Myllymaki (2007)."""
    h = np.arange(1, n)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    terms = log_factorial[n] - log_factorial[h] - log_factorial[n - h]
    terms = terms + h * np.log(h / n) + (n - h) * np.log((n - h) / n)
    found = [1.0, 2.0 + np.exp(terms).sum() if n else 1.0]
    for k in range(1, most - 1):
        found.append(found[k] + (n / k) * found[k - 1])
    return np.log(found[:most])


def price(k: int, n: float) -> float:
    return float(multinomial_complexity(k, torch.tensor(float(n), dtype=torch.float64)))


def test_the_recurrence_is_the_sum_over_all_tables():
    for k in (1, 2, 3, 4):
        for n in (0, 1, 2, 5):
            assert exact(4, n)[k - 1] == pytest.approx(brute_force(k, n), abs=1e-9)
            assert price(k, n) == pytest.approx(brute_force(k, n), abs=0.011)


@pytest.mark.parametrize(("numbers", "within"), [([1, 2, 3, 7, 20], 0.011), ([100, 700, 5000], 4e-3)])
def test_the_price_is_that_of_the_exact_recurrence(numbers, within):
    for n in numbers:
        wanted = exact(60, n)
        for k in range(1, 61):
            assert price(k, n) == pytest.approx(wanted[k - 1], abs=within), (k, n)


def test_prices_of_many_counts_at_once():
    counts = torch.tensor([[0.0, 1.0], [2.5, 4000.0]])
    found = multinomial_complexity(7, counts)
    assert found.dtype == torch.float64 and found[0, 0] == 0
    for i, j in itertools.product(range(2), range(2)):
        assert float(found[i, j]) == pytest.approx(price(7, counts[i, j]))
    assert multinomial_complexity(1, counts).tolist() == [[0, 0], [0, 0]]
    assert price(7, 2) < price(7, 2.5) < price(7, 3)
    assert price(2, 1) == pytest.approx(math.log(2), abs=0.01)


# ------------------------------------------------------------------------------------------------- judge


def information(table: np.ndarray) -> float:
    p = table / table.sum()
    used = p > 0
    return float((p[used] * np.log(p[used] / np.outer(p.sum(1), p.sum(0))[used])).sum())


def by_hand(adjacency: np.ndarray, labels: np.ndarray, k: int, words: np.ndarray | None) -> dict[str, float]:
    """All parts of the evidence, from dense tables."""
    n, one_hot = len(labels), np.eye(k)[labels]
    entropy = -sum(p * math.log(p) for p in one_hot.mean(0) if p > 0)
    parts = {"edges": 0.0, "features": 0.0, "entropy": entropy, "told": 0.0}
    if adjacency.any():
        scaled = adjacency / adjacency.max()
        edges = scaled.sum() ** 2 / (scaled**2).sum() / 2
        parts["edges"] = edges * information(one_hot.T @ scaled @ one_hot) - price(k * (k + 1) // 2, edges)
    if words is not None:
        words = words[:, words.any(0)]
        table, counts = one_hot.T @ words, words.sum(0)
        costs = np.array([price(k, count) for count in counts])
        parts["features"] = words.sum() * information(table) - costs.sum()
        # Of the words a share q = 1, 1/2, 1/4, ... tells clusters apart.
        with np.errstate(divide="ignore", invalid="ignore"):
            share = table.sum(1, keepdims=True) / table.sum()
            each = np.nansum(table * np.log(table / counts / share), axis=0) - costs
        shares = 0.5 ** np.arange(math.ceil(math.log2(len(counts))) + 1)
        parts["told"] = max(np.log(1 - q + q * np.exp(each)).sum() for q in shares) - math.log(len(shares))
    gain, cost = parts["edges"] + parts["features"], n * entropy
    paid, structure = (max(parts["edges"], 0) + max(parts[name], 0) for name in ("features", "told"))
    ratios = {"value": gain, "paid": paid, "structure": structure}
    parts |= {name: nats / cost if cost else 0.0 for name, nats in ratios.items()}
    return parts | {"description_length": cost - gain}


def some_graph(weights: str, n: int = 40, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    upper = np.triu(rng.random((n, n)) < np.where(y[:, None] == y, 0.5, 0.05), 1).astype(float)
    if weights != "none":
        upper *= rng.exponential(size=(n, n)) + 0.01
    if weights == "huge":
        upper *= 1e200
    if weights == "no edges":
        upper *= 0
    if weights == "equal":
        upper = (upper > 0) * 7.0
    return upper + upper.T


def some_words(kind: str, n: int = 40) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Features, and the table of zeros and ones that they are counted as."""
    rng = np.random.default_rng(1)
    if kind == "words":
        x = (rng.random((n, 9)) < 0.3) * rng.integers(1, 4, (n, 9)).astype(float)
        x[:, 4] = 0  # a word that nobody has costs nothing
        x[:, 5] = np.arange(n) % 3 == 0  # one that tells a class
        return x, (x > 0).astype(float)
    if kind == "numeric":
        x = rng.normal(size=(n, 2))
        bins = np.zeros((n, 8))
        for j in range(2):
            limits = np.sort(x[:, j])
            quartiles = [np.interp(q * (n - 1), np.arange(n), limits) for q in (0.25, 0.5, 0.75)]
            bins[np.arange(n), 4 * j + (x[:, [j]] > quartiles).sum(1)] = 1
        return x, bins
    return None, None


PARTS = ("edges", "features", "entropy", "value", "paid", "told", "structure", "description_length")


@pytest.mark.parametrize("weights", ["none", "equal", "unequal", "huge", "no edges"])
@pytest.mark.parametrize("kind", ["words", "numeric", "nothing"])
def test_the_judge_is_its_formula(weights, kind):
    adjacency, (x, words) = some_graph(weights), some_words(kind)
    judge = Judge(sp.csr_array(adjacency), x)
    rng = np.random.default_rng(2)
    planted = np.arange(40) % 3
    columns = [planted, rng.integers(0, 3, 40), np.minimum(planted, 1), np.zeros(40, dtype=int)]
    together = judge(torch.from_numpy(np.stack(columns, axis=1)), 3)
    for r, labels in enumerate(columns):
        wanted = by_hand(adjacency, labels, 3, words)
        alone = judge(torch.from_numpy(labels), 3)
        for name in PARTS:
            if kind == "numeric" and name in ("told", "structure"):
                continue  # along axes, see below
            got = float(getattr(alone, name))
            assert got == pytest.approx(wanted[name], rel=1e-9, abs=1e-9), name
            if name not in ("told", "structure"):
                assert float(getattr(together, name)[r]) == got, name
    assert torch.equal(together.structure, together.paid)
    assert together[[1]].value.item() == together.value[1].item()


@pytest.mark.parametrize("some", [slice(None), slice(5, 6)])
def test_words_and_measurements_are_told_apart(some, monkeypatch):
    words, numbers = some_words("words")[0][:, some], some_words("numeric")[0]
    kinds = np.array([WORD] * words.shape[1] + [NUMBER] * 2)
    planted = np.arange(40) % 3
    numbers[:, 0] += 5 * (planted == 1)
    alone = Judge(some_graph("none"), words, kinds=kinds[:-2]), Judge(some_graph("none"), numbers)
    both = Judge(some_graph("none"), np.column_stack([words, numbers]), kinds=kinds)
    for labels in (torch.from_numpy(planted), torch.arange(40) // 14):
        told = [float(judge(labels, 3).told) for judge in alone]
        assert float(both(labels, 3).told) == pytest.approx(sum(max(nats, 0) for nats in told))
    # Of many nodes some are looked at, and count for all.
    monkeypatch.setattr(features, "_ROWS", 40)
    twice = Judge(np.zeros((80, 80)), numbers.repeat(2, 0))(torch.from_numpy(planted.repeat(2)), 3)
    assert float(twice.told) == pytest.approx(2 * float(alone[1](torch.from_numpy(planted), 3).told))


def test_one_cluster_explains_nothing_and_costs_nothing():
    parts = Judge(some_graph("none"), some_words("words")[0])(torch.zeros(40, dtype=torch.long), 1)
    assert {float(getattr(parts, name)) for name in PARTS if name != "told"} == {0.0}


def test_parts_are_plain_numbers_and_wrong_arguments_are_named():
    graph = attributed_communities(60, 3, seed=0)
    parts = evidence_parts(graph, graph.y)
    assert all(type(getattr(parts, name)) is float for name in PARTS)
    assert parts.value == evidence(graph, graph.y) and parts.features != 0
    paying = Evidence(edges=30.0, features=10.0, entropy=0.5, nodes=40)
    assert paying.value == paying.paid == paying.structure == 2.0
    assert evidence_parts(graph.adjacency, graph.y).features == 0
    with pytest.raises(sc.SoftcutError, match="labels has 59 entries but the graph has 60 nodes"):
        evidence(graph, graph.y[:-1])
    with pytest.raises(sc.SoftcutError, match="x has 59 rows but the graph has 60 nodes"):
        evidence(graph, graph.y, graph.x[:-1])


def test_what_looks_like_words_and_what_is_counted():
    half = np.array([[1.0, 0.0], [0.0, 2.0]])
    for kind in (np.asarray, sp.csr_array):
        assert looks_like_words(kind(half))
        assert looks_like_words(kind(np.zeros((3, 2))))
        assert not looks_like_words(kind(np.array([[1.0, 1.0], [0.0, 2.0]]))), "more than half"
        assert not looks_like_words(kind(np.array([[1.0, 0.0], [0.0, -2.0]]))), "negative"
        assert presence(kind(half)).toarray().tolist() == [[1, 0], [0, 1]]
    stored_zero = sp.csr_array((np.array([0.0, 3.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    assert presence(stored_zero).toarray().tolist() == [[0, 0], [0, 1]]
    x, bins = some_words("numeric")
    np.testing.assert_array_equal(presence(x).toarray(), bins)
    np.testing.assert_array_equal(presence(sp.csr_array(x)).toarray(), bins)


def test_weights_are_counted_in_whole_numbers_that_add_up_in_any_order():
    weights = np.triu(np.random.default_rng(0).exponential(size=(60, 60)), 1)
    edges, _, _ = Judge(weights + weights.T).tables(torch.arange(60) % 3, 3)
    assert torch.equal(edges, edges.round()) and edges.sum() == pytest.approx(2**50, abs=60**2)


def test_what_clusters_say_of_measurements_is_a_bayes_factor():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [30, 20, 10])
    x = random.normal(size=(60, 5)) + 2 * np.eye(3, 5)[labels]
    x = np.column_stack([x, x[:, 0], np.ones(60)])  # a column twice, and one that says nothing
    scores = stats.norm.ppf((stats.rankdata(x[:, :6], axis=0) - 0.5) / 60)
    scores = (scores - scores.mean(0)) / scores.std(0)
    np.testing.assert_allclose(normal_scores(x), scores, atol=1e-12)
    z = principal_axes(x)
    assert z.shape == (60, 5)
    left = np.linalg.svd(scores, full_matrices=False)[0]
    np.testing.assert_allclose(np.abs(z.T @ left[:, :5]) / np.sqrt(60), np.eye(5), atol=1e-8)
    one_hot = np.eye(3)[labels]
    explained = z.T @ one_hot @ np.diag(1 / one_hot.sum(0)) @ one_hot.T @ z / 60
    gains = []
    for d in range(1, 6):
        within = np.eye(d) + 60 * (np.eye(d) - explained[:d, :d])
        gains.append(d * (60 - 3) / 2 * np.log(61) - 59 / 2 * np.linalg.slogdet(within)[1])
    for k in (3, 4):  # an empty cluster changes nothing
        gain = axes_gain(axes_table(torch.from_numpy(z), torch.from_numpy(labels), k))
        assert gain.item() == pytest.approx(max(gains) - np.log(6), rel=1e-9)
    for nodes in (2, 3):
        gain = axes_gain(axes_table(torch.from_numpy(principal_axes(x[:nodes])), torch.arange(nodes) % 2, 2))
        assert (gain != 0) == (nodes > 2), "as many clusters as nodes"


def test_many_nodes_are_looked_at_evenly_and_long_tables_are_reduced_at_random(monkeypatch):
    for nodes in (3, 20_000):
        assert looked_at(nodes).tolist() == list(range(nodes))
    for nodes in (20_001, 50_000):
        seen = looked_at(nodes)
        assert (len(seen), seen[0], seen[-1], np.ptp(np.diff(seen))) == (20_000, 0, nodes - 1, 1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((90, 70)) @ np.diag(0.9 ** np.arange(70)) @ rng.standard_normal((70, 70))
    wanted = principal_axes(x)
    monkeypatch.setattr(features, "_EXACT_SIDE", 70)
    assert np.array_equal(principal_axes(x), wanted)
    monkeypatch.setattr(features, "_EXACT_SIDE", 69)
    left, length, _ = randomized_svd(normal_scores(x), 64, n_iter=4, random_state=0)
    assert np.array_equal(principal_axes(x), left[:, length > 1e-5 * length[0]] * math.sqrt(90))


def test_axes_are_white_and_few():
    rng = np.random.default_rng(3)
    for shape in ((50, 90), (200, 100), (30, 1)):
        z = principal_axes(rng.standard_normal(shape))
        assert z.shape[1] == min(shape[0] - 1, shape[1], 64)
        np.testing.assert_allclose(z.T @ z / len(z), np.eye(z.shape[1]), atol=1e-8)
    assert principal_axes(np.ones((7, 3))).shape == (7, 0)
    wide = rng.standard_normal((20, 1000))
    tracemalloc.start()
    principal_axes(wide)
    assert tracemalloc.get_traced_memory()[1] < 4e6, "no table of all pairs of columns"
    tracemalloc.stop()
    nearly = np.stack([np.arange(60), np.r_[0:29, 30, 29, 31:60]], axis=1)  # a short axis is an axis
    np.testing.assert_allclose(principal_axes(nearly).T @ principal_axes(nearly) / 60, np.eye(2), atol=1e-8)


# ------------------------------------------------------------------------- what speaks for a number of clusters


def test_the_score_of_a_number_of_clusters():
    """gain / (N H^1/2) times agreement, both weighted; the third clustering explains too little to count."""
    entropy = torch.full((3,), 4.0)
    found = Evidence(torch.tensor([80.0, 76.0, 10.0]), torch.tensor([-8.0, -8.0, 0.0]), entropy, nodes=5)
    ari = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.1], [0.1, 0.1, 1.0]])
    labels = torch.stack([torch.arange(40) % 3, torch.arange(40) % 2, torch.arange(40) // 20], dim=1)
    judge, recipe = Judge(some_graph("none")), Recipe(width=0.3)
    told = candidate(judge, labels, 3, found, ari, recipe)
    behind = (72 - 68) / 72 / 0.3  # of 72 nats
    weight = 1 / (1 + math.exp(-(behind**2)))
    mean = weight * 80 + (1 - weight) * 76
    assert told["score"] == pytest.approx(mean / (5 * 2) * 0.8, rel=1e-6)
    assert told["agreement"] == pytest.approx(0.8)
    assert told["structure"] == judge(labels[:, 0], 3).structure, "that of the one with most evidence"
    assert told["description_length"] == pytest.approx(20 - 72)
    assert candidate(judge, labels, 3, found, -ari, recipe)["score"] == 0.0
    alone = Evidence(torch.tensor([80.0, 8.0]), torch.zeros(2), entropy[:2], nodes=5)
    assert candidate(judge, labels, 3, alone, ari[:2, :2], recipe)["agreement"] == 0.0, "there is no pair"


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_what_labels_of_less_than_a_nat_explain(kind):
    parts = Evidence(kind(1.0), kind(-0.5), kind(0.25), nodes=2)
    assert (float(parts.value), float(parts.paid), float(parts.structure)) == (1.0, 2.0, 2.0)
    free = Evidence(kind(1.0), kind(-0.5), kind(0.0), nodes=2)
    assert (float(free.value), float(free.paid), float(free.description_length)) == (0.0, 0.0, -0.5)


def test_names_of_clusters_and_the_order_of_nodes_do_not_matter():
    graph = attributed_communities(60, 3, seed=0)
    labels, order = np.arange(60) * 7 % 3, np.random.default_rng(0).permutation(60)
    names = np.array(["b", "a", "c"])[labels]
    wanted = evidence(graph, labels)
    assert wanted != 0
    assert evidence(graph, names) == pytest.approx(wanted, rel=1e-12)
    turned = sc.Graph.from_scipy(sp.csr_array(graph.adjacency[order][:, order]), x=graph.x[order])
    assert evidence(turned, labels[order]) == pytest.approx(wanted, rel=1e-12)
    assert evidence(sp.csr_array(graph.adjacency * 5.0), labels, graph.x) == pytest.approx(wanted, rel=1e-12)


def test_columns_count_once_however_often_they_are_given():
    rng = np.random.default_rng(1)
    y = np.arange(120) % 3
    x = rng.standard_normal((120, 4)) + 3 * rng.standard_normal((3, 4))[y]
    adjacency = np.zeros((120, 120))
    once, often = (evidence_parts(adjacency, y, np.tile(x, (1, times))).told for times in (1, 9))
    assert once > 0
    assert often == pytest.approx(once, abs=2)


def test_no_order_preserving_change_of_a_column_changes_what_is_told():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((80, 5))
    np.testing.assert_allclose(normal_scores(np.exp(3 * x)), normal_scores(x))


def test_labels_that_say_nothing_have_a_mean_bayes_factor_of_at_most_one():
    rng = np.random.default_rng(4)
    z = torch.from_numpy(principal_axes(rng.standard_normal((60, 3))))
    drawn = (torch.from_numpy(rng.permutation(60) % 3) for _ in range(2000))
    factors = [np.exp(axes_gain(axes_table(z, labels, 3)).item()) for labels in drawn]
    assert np.mean(factors) < 1


def counted_bins(*column):
    """How many rows each bin of a single column of numbers has, for each value in turn."""
    values = np.array(column, dtype=float)[:, None]
    bins = presence(values, np.array([1])).toarray()
    assert (bins.sum(1) == 1).all(), "a bin each"
    return [int(bins[values[:, 0] == value].argmax(1)[0]) for value in np.unique(values)]


def test_a_value_of_most_rows_hides_no_other():
    assert len(set(counted_bins(*[1] * 80, *[0] * 20))) == 2
    assert len(set(counted_bins(*[2] * 90, *[0] * 5, *[1] * 5))) == 3, "few values have a bin each"
    assert len(set(counted_bins(*[9] * 97, 1, 2, 3))) == 4
    bins = counted_bins(*[0] * 90, *range(-5, 0), *range(1, 6))
    assert bins[:5] == [0] * 5 and bins[6:] == [3] * 5 and bins[5] in (1, 2), "nor those on both sides"
    assert counted_bins(*range(8)) == [0, 0, 1, 1, 2, 2, 3, 3], "equally full ones otherwise"
    assert counted_bins(2, 4, 4, 4, 5, 5, 6, 7, 7) == [0, 0, 1, 2, 3], "by quartiles 4, 5 and 6"
    # Ranks of the zeros are 4 to 14 of 20, and 9 lies in the second quarter.
    assert counted_bins(*range(-4, 0), *[0] * 10, *range(1, 7)) == [0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3]
    assert presence(np.full((5, 1), 3.0), np.array([1])).nnz == 0, "a constant says nothing"


def test_evidence_sees_a_column_of_mostly_ones():
    labels = np.arange(200) % 5 == 0
    adjacency = sc.Graph.from_edges([[0], [1]], num_nodes=200).adjacency
    x = np.column_stack([1.0 - labels, np.random.default_rng(0).standard_normal(200)])
    assert evidence_parts(sc.Graph.from_scipy(adjacency, x=x), labels.astype(int)).features > 80


def test_many_clusters_are_judged_by_the_pairs_that_occur(monkeypatch):
    """Tables of all pairs and those of the pairs that have edges give the same numbers."""
    rng = np.random.default_rng(0)
    weights = sp.random_array((200, 200), density=0.05, rng=rng, format="csr")
    x = (rng.random((200, 12)) < 0.3).astype(float)
    labels = torch.from_numpy(rng.integers(0, 40, (200, 3)))
    for judge in (
        Judge(weights + weights.T, x),
        Judge(weights + weights.T),
        Judge(sp.csr_array((200, 200)), x),
    ):
        dense, one = judge(labels, 40), judge(labels[:, 0], 40)
        with monkeypatch.context() as patch:
            patch.setattr("softcut.metrics.judge._WIDE", 10)
            patch.setattr(judge, "tables", None)
            sparse, single = judge(labels, 40), judge(labels[:, 0].contiguous(), 40)
        for name in ("edges", "features", "entropy"):
            torch.testing.assert_close(getattr(sparse, name), getattr(dense, name), rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(getattr(single, name), getattr(one, name), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(torch.as_tensor(single.told), torch.as_tensor(one.told))
