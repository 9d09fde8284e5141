"""The steps of a fit, each on its own: budgets, scales, starts, the choice of K, selection, numbering, silence."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import fit, prepare, replicas
from softcut.clustering import number as numbers
from softcut.clustering.fit import merge, number, refine, select
from softcut.clustering.kmeans import kmeans_restarts
from softcut.clustering.model import signature
from softcut.clustering.number import choose_k, score
from softcut.clustering.prepare import budget, is_constant, silence_rule, silent_nodes, without
from softcut.clustering.replicas import Replica, Trained, train_replicas
from softcut.clustering.settings import resolve
from softcut.datasets import attributed_communities
from softcut.metrics import Evidence, evidence
from softcut.training import DenseInput, ReplicaNet, TrainResult, replica_losses


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)


def settings_of(graph, **options):
    est = sc.MinCutClustering(**{"n_clusters": 3, **options})
    return resolve(est.get_params(), sc.MinCutClustering.__init__, graph)[0]


def prepared_of(graph, settings, notes=None):
    return prepare.prepare(graph, settings, torch.device("cpu"), (notes if notes is not None else []).append)


# ----------------------------------------------------------------------------------------------- preparing


def test_the_budget_of_a_device():
    assert budget(torch.device("cpu")) == (2**24, 2**37)
    assert budget(torch.device("cuda")) == (3 * 2**28, 2**42)
    assert budget(torch.device("meta")) == (2**24, 2**37)


def test_the_feature_graph_is_approximate_only_above_the_budget(graph, monkeypatch):
    settings = settings_of(graph)
    columns = prepared_of(graph, settings).encoded.x.shape[1]
    for pairs, words in ((120 * 120 * columns, 0), (120 * 120 * columns - 1, 1)):
        monkeypatch.setitem(prepare.BUDGET, "cpu", (1 << 24, pairs))
        notes = []
        prepared_of(graph, settings, notes)
        assert sum("approximate neighbours" in note for note in notes) == words
    both = sc.Graph.batch([graph, graph])
    monkeypatch.setitem(prepare.BUDGET, "cpu", (1 << 24, 2 * 120 * 120 * columns))
    notes = []
    prepared_of(both, settings, notes)
    assert notes == [], "pairs are counted graph by graph"


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_the_same_for_all_nodes(sparse):
    kind = sp.csr_array if sparse else np.asarray
    assert is_constant(kind(np.full((4, 3), 2.0)))
    assert is_constant(kind(np.zeros((4, 3))))
    other = np.full((4, 3), 2.0)
    other[3, 2] = 1.0
    assert not is_constant(kind(other))


def test_which_nodes_say_nothing():
    ends = [[0, 1], [1, 2]]
    bare = sc.Graph.from_edges(ends, num_nodes=5)
    assert silence_rule(bare) == silence_rule(bare.with_features(np.ones((5, 2)))) == "isolated"
    words = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert silence_rule(bare.with_features(words)) == "empty"
    assert silence_rule(bare.with_features(-words)) == "never"
    assert silent_nodes(bare.with_features(words), "empty").tolist() == [False, False, False, False, True]
    assert silent_nodes(bare.with_features(words), "isolated").tolist() == [False, False, False, True, True]
    assert not silent_nodes(bare.with_features(words), "never").any()
    assert not silent_nodes(bare, "never").any()


def test_graphs_without_some_of_their_nodes():
    one = sc.Graph.from_edges([[0, 1], [1, 2]], num_nodes=4, x=np.arange(8.0).reshape(4, 2))
    kept = without(one, np.array([False, False, False, True]))
    np.testing.assert_array_equal(kept.adjacency.toarray(), one.adjacency.toarray()[:3, :3])
    batch = sc.Graph.batch([one, one, one])
    silent = np.array([False] * 3 + [True] * 6 + [False] * 3)
    some = without(batch, silent)
    assert some.ptr.tolist() == [0, 3, 6]
    np.testing.assert_array_equal(some.x, batch.x[~silent])


def test_local_structure_serves_several_graphs_and_positions_one():
    graph = attributed_communities(60, 2, seed=0).with_features(None)
    settings = settings_of(graph, n_clusters=2)
    notes = []
    single = prepared_of(graph, settings, notes)
    assert single.positional
    assert single.encoder.hops == (0, 1, 2)
    assert single.words is None, "positions are not words"
    assert "leading eigenvectors" in notes[0]
    several = prepared_of(sc.Graph.batch([graph, graph]), settings, notes)
    assert not several.positional
    assert several.encoder.structural
    assert several.encoded.graph.num_features == 5
    assert "degrees in the neighbourhood" in notes[-1]


# ------------------------------------------------------------------------------------------------ replicas


@pytest.mark.parametrize(
    ("distances", "count", "wanted"),
    [
        (6, 1, [3]),
        (6, 2, [2, 3]),
        (6, 4, [1, 2, 3, 4]),
        (6, 8, [0, 1, 2, 2, 3, 3, 4, 5]),
        (3, 2, [1, 2]),
        (1, 3, [0] * 3),
    ],
)
def test_replicas_read_the_middle_distances_first(distances, count, wanted):
    assert replicas._scales(distances, count) == wanted


@pytest.mark.parametrize(
    ("numbers", "count"), [(120 * 19 * 10, 10), (120 * 19 * 10 - 1, 9), (1, 4), (1 << 30, 12)]
)
def test_as_many_replicas_as_the_budget_allows(graph, monkeypatch, numbers, count):
    settings = settings_of(graph, feature_graph=False)
    prepared = prepared_of(graph, settings)
    monkeypatch.setitem(prepare.BUDGET, "cpu", (numbers, 1 << 37))
    notes = []
    assert replicas._affordable(prepared, 3, settings, 12, notes.append) == count
    assert len(notes) == (count < 12)
    assert replicas._affordable(prepared, 3, settings, 2, notes.append) == 2


def test_every_replica_starts_from_the_better_of_two_k_means_of_its_own_features():
    z = torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(0))
    start = replicas._start(DenseInput(z), [0, 0, 1], 5, seed=11)
    least = 0.25 * 50 / 5
    wanted = []
    for scale, count in ((0, 2), (1, 1)):
        labels, centres = kmeans_restarts(
            z[scale], 5, 2 * count, max_iter=30, least=least, random_state=11 + scale
        )
        error = torch.stack(
            [(z[scale] - c[row]).square().sum() for row, c in zip(labels, centres, strict=True)]
        )
        wanted += [labels[2 * i + int(error[2 * i] > error[2 * i + 1])] for i in range(count)]
    assert torch.equal(start.labels, torch.stack(wanted))
    counted = torch.stack([torch.bincount(row, minlength=5) for row in wanted]).float()
    torch.testing.assert_close(start.sizes, counted.clamp(min=least))
    fewer = start.of([0, 1])
    assert torch.equal(fewer.labels, start.labels[[0, 2]])
    assert torch.equal(fewer.sizes, start.sizes[[0, 2]])


def test_small_clusters_are_held_to_a_quarter_of_the_mean_size(monkeypatch):
    labels = torch.tensor([[0] * 49 + [1], [0] * 30 + [1] * 20])
    fixed = labels, torch.zeros(2, 5, 4)
    monkeypatch.setattr(replicas, "kmeans_restarts", lambda *arguments, **options: fixed)
    start = replicas._start(DenseInput(torch.rand(50, 4)), [0], 5, seed=0)
    assert start.labels.tolist() == labels[:1].tolist()
    assert start.sizes.tolist() == [[49, 2.5, 2.5, 2.5, 2.5]]


def some_trained(
    ari: torch.Tensor,
    used: list[int],
    k: int = 3,
    losses: list[float] | None = None,
    evidence: list[float] | None = None,
    objectives: list[str] | None = None,
) -> Trained:
    count = len(ari)
    net = ReplicaNet(2, k, seeds=range(count), hidden=2)
    history = np.zeros((4, count))
    losses, evidence = losses or [0.0] * count, evidence or [1.0] * count
    objectives = objectives or ["trace_ratio"] * count
    ended = [
        Replica(r, objectives[r], losses[r], 0.5, evidence[r], used[r], used[r] < k) for r in range(count)
    ]
    s = torch.arange(count).float().view(1, count, 1).expand(5, count, k)
    return Trained(net, TrainResult(history, history, 4, True, False), s, ari.clone(), ari, ended)


def test_mean_agreement_is_over_pairs():
    ari = torch.tensor([[1.0, 0.2, 0.4], [0.2, 1.0, 0.9], [0.4, 0.9, 1.0]])
    trained = some_trained(ari, [3, 3, 3])
    assert trained.mean_agreement() == pytest.approx((0.2 + 0.4 + 0.9) / 3)
    assert trained.mean_agreement([0, 2]) == pytest.approx(0.4)
    assert trained.mean_agreement([1]) == 1.0
    assert some_trained(ari, [2, 2, 1]).mean_agreement() == 0.0
    assert some_trained(ari, [3, 2, 3]).full == [0, 2]
    assert trained.replicas[0].loss == 0.5


def test_histories_are_joined_side_by_side():
    long = TrainResult(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.zeros((3, 2)), 3, True, False)
    short = TrainResult(np.array([[7.0], [8.0]]), np.ones((2, 1)), 2, False, True)
    joined = replicas._joined_results([long, short], [0, 2, 1])
    assert joined.cut.tolist() == [[1, 7, 2], [3, 8, 4], [5, 8, 6]]
    assert joined.ortho.tolist() == [[0, 1, 0]] * 3
    assert (joined.iterations, joined.converged, joined.interrupted) == (3, False, True)
    assert not replicas._joined_results([long, long], [0, 1, 2, 3]).interrupted
    assert replicas._joined_results([long, long], [0, 1, 2, 3]).converged


def test_replicas_are_judged_by_the_plain_losses(graph):
    settings = settings_of(graph, n_init=3, max_iter=5, temperature=0.5)
    prepared = prepared_of(graph, settings)
    trained = train_replicas(prepared, 3, settings, [].append)
    s = trained.net.assign(prepared.encoded.inputs, 0.5)
    torch.testing.assert_close(trained.s, s)
    cut, ortho = replica_losses(prepared.op, s)
    explained, _ = replica_losses(prepared.encoded.op, s, "evidence", words=prepared.words)
    own = [cut[r] if x.objective == "trace_ratio" else explained[r] for r, x in enumerate(trained.replicas)]
    assert sorted(r.objective for r in trained.replicas) == ["evidence", "trace_ratio", "trace_ratio"]
    assert [r.cut for r in trained.replicas] == pytest.approx([float(value) for value in own])
    first = [r for r, x in enumerate(trained.replicas) if x.objective == "trace_ratio"]
    assert [trained.replicas[r].ortho for r in first] == pytest.approx(ortho[first].tolist())
    found = [evidence(graph, s[:, r].argmax(1).numpy()) for r in range(3)]
    assert [r.evidence for r in trained.replicas] == pytest.approx(found)
    assert [r.clusters_used for r in trained.replicas] == [len(s[:, r].argmax(1).unique()) for r in range(3)]


def test_the_score_of_a_number_of_clusters():
    gains, entropy = torch.tensor([6.0, 6.0, 1.0]), torch.tensor([1.0, 1.0, 1.0])
    parts = Evidence(gains, torch.zeros(3), entropy, nodes=2)
    ari = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.1], [0.1, 0.1, 1.0]])
    # The third replica explains far less: neither it nor its disagreement counts.
    assert score(parts, ari) == pytest.approx(3.0 * 0.8)
    halved = Evidence(gains, torch.zeros(3), 4 * entropy, nodes=2)
    assert score(halved, ari) == pytest.approx(1.5 * 0.8), "divided by the root of the entropy"
    assert score(parts, -ari) == 0.0
    nothing = Evidence(-gains, torch.zeros(3), entropy, nodes=2)
    assert score(nothing, ari) == 0.0


def chosen(monkeypatch, scores: dict[int, float], used: dict[int, list[int]] | None = None, n_init: int = 20):
    """choose_k, where scores are as told."""
    asked = []

    class Told(SimpleNamespace):
        def first(self):
            return SimpleNamespace(only_first=True)

    def fake(prepared, k, settings, note, callback=None, wanted=None, batches=None):
        asked.append((k, wanted, hasattr(settings, "only_first")))
        return some_trained(torch.eye(2), (used or {}).get(k, [k, k]), k)

    monkeypatch.setattr(numbers, "train_replicas", fake)
    monkeypatch.setattr(numbers, "score", lambda parts, ari: scores[parts])
    notes = []
    prepared = SimpleNamespace(judge=lambda labels, k: k)
    trained = choose_k(prepared, Told(n_init=n_init, candidates=tuple(scores)), notes.append, None)
    return trained, asked, notes


def test_the_number_with_the_highest_score(monkeypatch):
    trained, asked, notes = chosen(monkeypatch, {2: 0.8, 3: 1.6, 4: 0.4})
    assert trained.k == 3
    assert asked == [(2, 12, True), (3, 12, True), (4, 12, True), (3, None, False)]
    assert trained.candidates == {2: 0.8, 3: 1.6, 4: 0.4}
    assert "3 chosen" in notes[0]
    assert "2: 0.50, 3: 1.00, 4: 0.25" in notes[0]


def test_replicas_that_lost_clusters_do_not_count(monkeypatch):
    trained, _, _ = chosen(monkeypatch, {2: 0.5, 3: 0.9}, {3: [3, 2]})
    assert trained.k == 2
    assert trained.candidates == {2: 0.5, 3: 0.0}


def test_where_nothing_agrees_the_smallest_number_is_taken(monkeypatch):
    trained, asked, notes = chosen(monkeypatch, {2: 0.0, 3: 0.0}, n_init=1)
    assert trained.k == 2
    assert asked == [(2, 2, True), (3, 2, True), (2, None, False)]
    assert "no number from 2 to 3" in notes[0]


# ------------------------------------------------------------------------------- select, merge, refine, number


def test_selecting():
    ari = torch.eye(4)
    consensus, best = (
        SimpleNamespace(select=name, judge="agreement", objectives=("trace_ratio",))
        for name in ("consensus", "best")
    )
    notes = []
    all_full = some_trained(ari, [3] * 4, losses=[4.0, 2.0, 1.0, 3.0])
    assert select(all_full, consensus, notes.append).index == [0, 1, 2, 3]
    assert select(all_full, best, notes.append).index == [2]
    assert notes == []
    some = some_trained(ari, [3, 2, 3, 2], losses=[4.0, 2.0, 3.0, 1.0])
    found = select(some, consensus, notes.append)
    assert found.index == [0, 2]
    assert found.net.replicas == 2
    torch.testing.assert_close(found.s, some.s[:, [0, 2]])
    assert select(some, best, notes.append).index == [2]
    assert notes[0] == "2 of 4 replicas used fewer than 3 clusters and were left out."
    none = some_trained(ari, [1, 2, 2, 1], losses=[0.0, 2.0, 1.0, 0.0])
    assert select(none, consensus, notes.append).index == [2]
    assert notes[-1].startswith("all 4 replicas used fewer than 3 clusters")


def test_merging_a_single_replica_leaves_it_as_it_is(graph):
    trained = some_trained(torch.eye(2), [3, 3])
    settings = SimpleNamespace(select="best", judge="evidence")
    selected = select(trained, settings, [].append)
    merged = merge(None, trained, selected, settings, [].append)
    assert merged.consensus is None
    torch.testing.assert_close(merged.soft, selected.s[:, 0])
    assert selected.weights.tolist() == [1.0]


def test_the_best_replica_and_the_weights_by_evidence():
    best, consensus = (SimpleNamespace(select=name, judge="evidence") for name in ("best", "consensus"))
    families = ["trace_ratio", "trace_ratio", "evidence", "evidence"]
    trained = some_trained(
        torch.eye(4), [3] * 4, losses=[1.0, 9.0, 5.0, 5.0], evidence=[1.0, 2.0, 3.0, 1.0], objectives=families
    )
    assert select(trained, best, [].append).index == [2]
    found = select(trained, consensus, [].append)
    assert found.index == [1, 2], "the others explain far less"
    assert found.weights.tolist() == [0.5, 0.5], "as much for every objective"
    lost = some_trained(torch.eye(3), [1, 2, 2], evidence=[9.0, 1.0, 2.0])
    assert select(lost, consensus, [].append).index == [2]


def test_the_lowest_loss_is_of_the_first_objective():
    settings = SimpleNamespace(select="best", judge="agreement", objectives=("trace_ratio", "evidence"))
    families = ["trace_ratio", "trace_ratio", "evidence"]
    trained = some_trained(torch.eye(3), [3] * 3, losses=[-0.5, -0.7, -9.0], objectives=families)
    assert select(trained, settings, [].append).index == [1]


@pytest.mark.parametrize(("rows", "said"), [(120, 0), (119, 1), (10, 1)])
def test_large_graphs_are_merged_on_a_sample(graph, monkeypatch, rows, said):
    settings = settings_of(graph, n_init=4, max_iter=5)
    prepared, notes = prepared_of(graph, settings), []
    trained = train_replicas(prepared, 3, settings, notes.append)
    monkeypatch.setattr(fit, "CONSENSUS_ROWS", rows)
    merged = merge(prepared, trained, select(trained, settings, notes.append), settings, notes.append)
    assert merged.soft.shape == (120, 3)
    assert sum("consensus found on" in note for note in notes) == said


def test_features_that_tell_nothing_refine_nothing():
    """The nodes of two complete graphs are alike: no column is left, and neighbours alone are no reason."""
    pair = sc.Graph.batch([sc.Graph.from_dense(np.ones((4, 4)) - np.eye(4))] * 2)
    settings = settings_of(pair, n_clusters=2)
    prepared, notes = prepared_of(pair, settings), []
    assert prepared.encoded.x.shape == (8, 0)
    soft = torch.tensor([[0.9, 0.1], [0.6, 0.4]] * 2 + [[0.2, 0.8], [0.4, 0.6]] * 2)
    after, refiners = refine(prepared, soft, settings, notes.append)
    assert refiners == []
    assert torch.equal(after, soft)


def test_a_refinement_that_empties_a_cluster_is_left_out(graph, monkeypatch):
    settings = settings_of(graph)
    prepared, notes = prepared_of(graph, settings), []
    soft = torch.full((120, 3), 0.2)
    soft[torch.arange(120), torch.arange(120) % 3] = 0.6

    class Fake:
        after = torch.eye(3)[torch.zeros(120, dtype=torch.long)]

        @classmethod
        def fit(cls, x, labels, k, seed):
            assert torch.equal(labels, torch.arange(120) % 3)
            assert k == 3
            return cls()

        def apply(self, x, proba, op):
            return self.after

    monkeypatch.setattr(fit, "Refiner", Fake)
    kept, refiners = refine(prepared, soft, settings, notes.append)
    assert kept is soft
    assert refiners == []
    assert notes == ["no refinement: it would have emptied a cluster."]
    Fake.after = torch.eye(3)[torch.arange(120) % 3]
    kept, refiners = refine(prepared, soft, settings, notes.append)
    assert kept is Fake.after
    assert [type(refiner) for refiner in refiners] == [Fake]
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("evidence", "times"),
    [
        ((1.0, 2.0, 3.0, 4.0, 4.0), 3),
        ((1.0, 2.0, 3.0, 2.0, 9.0), 2),
        ((1.0, 2.0, 2.0, 9.0, 9.0), 1),
        ((3.0, 1.0, 2.0, 9.0, 9.0), 1),
        ((3.0, 2.0, 1.0, 9.0, 9.0), 1),
    ],
)
def test_a_further_refinement_needs_most_evidence(graph, monkeypatch, evidence, times):
    settings = settings_of(graph)
    prepared = prepared_of(graph, settings)
    labels = torch.arange(120) % 3
    # Five ways to put the nodes into three clusters; the judge knows each by its first nodes.
    steps = [torch.eye(3)[labels.roll(i) if i < 3 else 2 - labels.roll(i)] for i in range(5)]
    known = {tuple(s.argmax(1)[:3].tolist()): e for s, e in zip(steps, evidence, strict=True)}
    assert len(known) == 5

    class Fake:
        fitted = 0

        @classmethod
        def fit(cls, x, found, k, seed):
            assert torch.equal(found, steps[cls.fitted].argmax(1))
            cls.fitted += 1
            return cls()

        def apply(self, x, proba, op):
            return steps[self.fitted]

    def judge(hard, k):
        columns = hard.mT if hard.dim() == 2 else hard.unsqueeze(0)
        values = torch.tensor([known[tuple(column[:3].tolist())] for column in columns])
        return SimpleNamespace(value=values if hard.dim() == 2 else values[0])

    monkeypatch.setattr(fit, "Refiner", Fake)
    monkeypatch.setattr(fit, "REFINEMENTS", 4)
    soft, refiners = refine(replace(prepared, judge=judge), steps[0], settings, [].append)
    assert soft is steps[times]
    assert len(refiners) == times


def test_clusters_are_numbered_by_size():
    soft = torch.eye(4)[torch.tensor([1, 1, 1, 3, 3, 0, 2, 2])]
    assert number(soft).tolist() == [1, 2, 3, 0]


def test_a_signature_knows_edges_and_weights():
    def signed(a):
        return signature(sc.Graph.from_scipy(sp.csr_array(np.array(a, dtype=float))))

    one = signed([[0, 1, 0], [1, 0, 2], [0, 2, 0]])
    assert len(one) == 64
    assert one == signed([[0, 1, 0], [1, 0, 2], [0, 2, 0]])
    assert one != signed([[0, 1, 0], [1, 0, 3], [0, 3, 0]])
    assert one != signed([[0, 0, 1], [0, 0, 2], [1, 2, 0]])
