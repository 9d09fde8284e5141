"""The steps of a fit: preparing, budgets, starts, judging, selection, merging, numbering; and training in batches."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut import Graph, GraphClustering
from softcut.clustering import PAPER, Recipe, Replica
from softcut.clustering.consensus import Consensus, merge
from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.networks import (
    Networks,
    agreement,
    make_batches,
    nodes_per_step,
    numbers_of_training,
    train_networks,
)
from softcut.clustering.node_features import sample_rows
from softcut.clustering.prepare import is_constant, prepare, silence_rule, silent_nodes
from softcut.clustering.starts import Starts
from softcut.communities.fixed_number import FixedNumber
from softcut.communities.network import Network
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.metrics import Evidence, nmi
from softcut.training import ReplicaNet, TrainResult, minibatch, replica_losses, replica_seeds

CPU = torch.device("cpu")
QUICK = Recipe(networks=4, iterations=6)

GRAPH = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)


@pytest.fixture(scope="module")
def prepared():
    return prepare(GRAPH, Recipe(), CPU, [].append)


# ----------------------------------------------------------------------------------------------- preparing


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_that_are_the_same_for_all_nodes(kind):
    assert is_constant(kind(np.full((4, 3), 2.0)))
    assert is_constant(kind(np.zeros((4, 3))))
    for row in range(4):
        other = np.full((4, 3), 2.0)
        other[row, 2] = 1.0
        assert not is_constant(kind(other))


def test_which_nodes_say_nothing():
    bare = Graph.from_edges([[0, 1], [1, 2]], num_nodes=5)
    assert silence_rule(bare) == silence_rule(bare.with_features(np.ones((5, 2)))) == "isolated"
    words = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0.0]])
    assert silence_rule(bare.with_features(words)) == "empty"
    assert silence_rule(bare.with_features(-words)) == "never", "in measurements a row of zeros is a value"
    for given in (words, sp.csr_array(words)):
        told = bare.with_features(given)
        assert silent_nodes(told, "empty").tolist() == [False, False, False, False, True]
        assert silent_nodes(told, "isolated").tolist() == [False, False, False, True, True]
        assert not silent_nodes(told, "never").any()
    assert not silent_nodes(bare, "never").any()
    assert silent_nodes(bare, "empty").tolist() == [False] * 3 + [True] * 2


def test_local_structure_serves_several_graphs_and_positions_one():
    graph = attributed_communities(60, 2, seed=0).with_features(None)
    notes = []
    single = prepare(graph, PAPER, CPU, notes.append)
    assert single.encoder.structural and single.words is None, "positions are not words"
    assert single.encoded.graph.num_features == 32
    several = prepare(Graph.batch([graph, graph]), Recipe(), CPU, notes.append)
    assert several.encoder.structural and several.encoded.graph.num_features == 5
    assert len(several.judge.counts) == 0
    same = prepare(graph.with_features(np.ones((60, 2))), PAPER, CPU, notes.append)
    assert same.encoded.graph.num_features == 32
    expected = ("leading", "no"), ("degrees in", "no"), ("leading", "all nodes")
    for note, (what, why) in zip(notes, expected, strict=True):
        assert note.startswith(why) and f"structure of the graph instead ({what}" in note
        assert (note.code, note.values) == ("clusters_from", {"source": "structure"})


def test_each_of_several_graphs_is_propagated_by_itself():
    parts = [GRAPH, GRAPH.subgraph(range(30))]
    both = prepare(Graph.batch(parts), Recipe(), CPU, [].append)
    assert both.encoded.op.to_dense()[:120, 120:].abs().max() == 0
    for part, rows in zip(parts, (slice(0, 120), slice(120, 150)), strict=True):
        alone = both.encoder.encode(part, CPU)
        torch.testing.assert_close(alone.z, both.encoded.z[:, rows], atol=1e-5, rtol=1e-4)


# ------------------------------------------------------------------------------------------------ networks


def untrained(net, start=None):
    """A training that does nothing."""
    return TrainResult(np.zeros((1, net.replicas)), np.zeros((1, net.replicas)), 1, True, False)


EACH = 120 * 19  # numbers of a network with 16 units and 3 clusters of 120 nodes


@pytest.mark.parametrize(
    ("budget", "count"), [(EACH * 10, 10), (EACH * 10 - 1, 9), (2 * 36, 2), (4 * 36, 4), (1 << 30, 12)]
)
def test_as_many_networks_as_the_budget_allows(prepared, budget, count):
    notes = []
    recipe = Recipe(networks=12, budget_cpu=budget)
    networks = train_networks(prepared, 3, recipe, 0, notes.append, trainer=untrained)
    assert networks.net.replicas == count
    said = f"{count} networks instead of 12: 120 nodes in 3 clusters, to stay within memory and time."
    assert notes == ([said] if count < 12 else [])
    few = replace(recipe, networks=2)
    assert train_networks(prepared, 3, few, 0, notes.append, trainer=untrained).net.replicas == 2


def starts_of(prepared, k, recipe, seed=0, edge_labels=None):
    """The networks and their start, where `edge_labels` are the clusters of the edges."""
    seen = []

    def trainer(net, start):
        seen.append((net, start))
        return untrained(net)

    with pytest.MonkeyPatch.context() as patch:
        if edge_labels is not None:
            patch.setattr(Starts, "_of_edges", lambda starts, k: edge_labels)
        train_networks(prepared, k, recipe, seed, [].append, trainer=trainer)
    return seen[0]


def test_networks_read_the_middle_distances_first(prepared):
    for wanted in ([3], [2, 3], [1, 2, 3, 4], [0, 1, 2, 2, 3, 3, 4, 5], [i // 4 for i in range(24)]):
        assert starts_of(prepared, 3, Recipe(networks=len(wanted), start="random"))[0].scales == wanted


def better_k_means(rows, k, networks, tries, seed):
    """Centres of the best of `tries` k-means for each network."""
    least = 0.25 * len(rows) / k
    labels, centres = kmeans_restarts(rows, k, tries * networks, max_iter=30, least=least, random_state=seed)
    error = [float((rows - c[row]).square().sum()) for row, c in zip(labels, centres, strict=True)]
    return [centres[i + int(np.argmin(error[i : i + tries]))] for i in range(0, len(error), tries)]


def test_networks_start_from_k_means_of_their_own_features_and_some_of_them_from_the_edges(prepared):
    net, start = starts_of(prepared, 5, Recipe(networks=20), seed=11)
    assert net.k == 5 and net.hidden == 16
    z = prepared.encoded.z
    search = FixedNumber(Network(GRAPH.adjacency), [5], 11, quick=True, pattern="any")
    from_edges = torch.from_numpy(search.settled(5)[:, 0].astype(np.int64))
    place = 0
    for scale in range(6):
        count = net.scales.count(scale)
        assert torch.equal(start.labels[place], from_edges), "a quarter of three or four is one"
        for i, centres in enumerate(better_k_means(z[scale], 5, count - 1, 2, 11 + scale)):
            wanted = assign(z[scale], centres.unsqueeze(0))[0]
            assert torch.equal(start.labels[place + 1 + i], wanted), (scale, i)
        place += count
    assert place == 20
    sizes = torch.stack([torch.bincount(row, minlength=5) for row in start.labels]).float()
    torch.testing.assert_close(start.sizes, sizes.clamp(min=6))


def test_starts_follow_the_recipe(prepared):
    known = torch.arange(120) % 4
    _, single = starts_of(prepared, 4, QUICK, edge_labels=known)
    assert not (single.labels == known).all(1).any(), "a single one at each distance reads features"
    _, pairs = starts_of(prepared, 4, replace(QUICK, networks=12), edge_labels=known)
    assert (pairs.labels == known).all(1).tolist() == [True, False] * 6, "one of two begins from the edges"
    several = prepare(Graph.batch([GRAPH, GRAPH]), Recipe(), CPU, [].append)
    _, both = starts_of(several, 4, replace(QUICK, networks=12), edge_labels=known.repeat(2))
    assert not (both.labels == known.repeat(2)).all(1).any(), "edges of one graph mean nothing in another"
    _, all_of_them = starts_of(prepared, 4, replace(QUICK, edge_starts=1.0), edge_labels=known)
    assert (all_of_them.labels == known).all()
    _, none = starts_of(prepared, 4, replace(QUICK, networks=12, edge_starts=0.0), edge_labels=known)
    assert not (none.labels == known).all(1).any()
    assert starts_of(prepared, 4, replace(QUICK, start="random"))[1] is None
    skewed = torch.where(torch.arange(120) < 118, 0, torch.arange(120) - 117)
    _, held = starts_of(prepared, 4, replace(QUICK, edge_starts=1.0, least=0.1), edge_labels=skewed)
    torch.testing.assert_close(held.sizes[0], torch.tensor([118.0, 3.0, 3.0, 3.0]))


def test_starts_of_large_graphs_come_from_a_sample_and_not_from_the_edges(prepared):
    recipe = Recipe(networks=12, large=119, start_sample=90)
    _, start = starts_of(prepared, 3, recipe, edge_labels=torch.zeros(120, dtype=torch.long))
    assert start.labels.shape == (12, 120)
    assert start.labels.any(1).all(), "no network begins from the edges"
    rows = prepared.encoded.z[0][sample_rows(120, 90)]
    for labels, centres in zip(start.labels, better_k_means(rows, 3, 2, 5, 0), strict=False):
        assert torch.equal(labels, assign(prepared.encoded.z[0], centres.unsqueeze(0))[0])


@pytest.mark.parametrize("objective", ["evidence", "mincut", "ratio_trace", "dmon", "just_balance"])
def test_networks_are_judged_by_evidence_and_by_the_plain_losses(prepared, objective):
    recipe = replace(QUICK, networks=3, temperature=0.5, objective=objective)
    networks = train_networks(prepared, 3, recipe, 7, [].append)
    s = networks.net.assign(prepared.encoded.inputs, 0.5)
    torch.testing.assert_close(networks.s, s)
    op = prepared.adjacency if objective in ("evidence", "dmon") else prepared.encoded.op.normalise()
    cut, ortho = replica_losses(op, s, objective, words=prepared.words)
    assert {r.objective for r in networks.replicas} == {objective}
    assert [r.cut for r in networks.replicas] == pytest.approx(cut.tolist(), abs=1e-5)
    assert [r.ortho for r in networks.replicas] == pytest.approx(ortho.tolist(), abs=1e-5)
    assert [r.loss for r in networks.replicas] == pytest.approx((cut + ortho).tolist(), abs=1e-5)
    hard = s.argmax(-1)
    assert [r.evidence for r in networks.replicas] == pytest.approx(
        [float(prepared.judge(hard[:, r], 3).value) for r in range(3)]
    )
    assert [r.seed for r in networks.replicas] == replica_seeds(7, 3)
    assert [r.hops for r in networks.replicas] == [(0, 1, 2, 4, 8, 16)[i] for i in networks.net.scales]
    assert [r.clusters_used for r in networks.replicas] == [len(hard[:, r].unique()) for r in range(3)]
    torch.testing.assert_close(networks.ari, agreement(hard, 3))
    pairs = [float(networks.ari[a, b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert networks.agreement == pytest.approx(np.mean(pairs))


def test_the_training_of_a_recipe():
    usual = Recipe().training(CPU)
    assert usual.one_by_one and (usual.ortho_weight, usual.patience, usual.tolerance) == (0.2, 10, 2e-3)
    assert usual.check_every == 5 and Recipe().training(torch.device("cuda")).check_every == 20
    assert Recipe(objective="mincut").training(CPU).ortho_weight == 2.0
    assert (PAPER.training(CPU).tolerance, PAPER.training(CPU).check_every) == (None, 25)
    assert (usual.iterations, usual.lr, usual.temperature, usual.start) == (50, 0.04, 1.0, 10)
    assert Recipe().budget(torch.device("cuda")) == 3 << 28 and Recipe().budget(CPU) == 1 << 24
    assert [Recipe().verdict(s) for s in (0.99, 1.0, 1.49, 1.5)] == ["none", "weak", "weak", "clear"]


def test_a_training_that_was_stopped_before_it_began_leaves_nothing(prepared):
    def stopped(net, start):
        nothing = np.zeros((0, net.replicas))
        return TrainResult(nothing, nothing, 0, False, True)

    with pytest.raises(KeyboardInterrupt):
        train_networks(prepared, 3, QUICK, 0, [].append, trainer=stopped)


# ----------------------------------------------------------------------------- select, merge, number by size


def ended(prepared, used, values, losses=None, k=3):
    """Networks of which we say how many clusters they use, what they explain, and what they lost."""
    count = len(used)
    net = ReplicaNet(prepared.encoded.inputs.in_channels, k, seeds=range(count), hidden=2, scales=[0] * count)
    s = torch.softmax(torch.randn(120, count, k, generator=torch.Generator().manual_seed(0)) * 3, -1)
    parts = Evidence(torch.tensor(values) * 120.0, torch.zeros(count), torch.ones(count), nodes=120)
    losses = losses or [0.0] * count
    replicas = [Replica(r, "evidence", losses[r], 0.5, values[r], used[r], used[r] < k) for r in range(count)]
    history = np.zeros((4, count))
    result = TrainResult(history, history, 4, True, False)
    return Networks(net, result, s, parts, torch.eye(count), replicas)


def test_agreement_counts_only_where_some_network_is_full(prepared):
    ari = torch.tensor([[1.0, 0.2, 0.4], [0.2, 1.0, 0.9], [0.4, 0.9, 1.0]])
    networks = replace(ended(prepared, [3, 2, 3], [1.0] * 3), ari=ari)
    assert networks.full == [0, 2]
    assert networks.agreement == pytest.approx(0.5)
    assert replace(networks, replicas=ended(prepared, [2, 1, 2], [1.0] * 3).replicas).agreement == 0.0
    assert replace(ended(prepared, [3], [1.0]), ari=torch.ones(1, 1)).agreement == 1.0
    assert networks.replicas[0].loss == 0.5


def merged_of(prepared, networks, recipe, seed=5):
    notes = []
    return merge(prepared, networks, replace(recipe, refine=False), seed, notes.append), notes


def test_networks_that_lost_clusters_and_those_that_explain_little_do_not_count(prepared):
    networks = ended(prepared, [3, 2, 3, 3], [2.0, 9.0, 1.9, 0.5])
    merged, notes = merged_of(prepared, networks, Recipe())
    assert notes == ["1 of 4 networks found fewer than 3 clusters and did not count."]
    behind = np.exp(-((0.1 / (2 * Recipe().width)) ** 2))
    np.testing.assert_allclose(merged.weights.numpy(), np.array([1, behind]) / (1 + behind), rtol=1e-4)
    assert merged.net.replicas == 2
    wanted = Consensus.fit(
        networks.s[:, [0, 2]], prepared.encoded.rows, 3, scales=[0, 0], weights=merged.weights, random_state=5
    )
    torch.testing.assert_close(merged.consensus.centres, wanted.centres)
    torch.testing.assert_close(merged.soft, wanted.proba(networks.s[:, [0, 2]], prepared.encoded.rows))
    wide, _ = merged_of(prepared, networks, Recipe(width=10.0))
    assert wide.net.replicas == 3
    plain, _ = merged_of(prepared, networks, Recipe(fusion=0.0, consensus_columns=3, consensus_restarts=1))
    assert plain.consensus.basis.shape[1] == 3 and not torch.equal(plain.soft, merged.soft)


@pytest.mark.parametrize(
    ("used", "values", "losses", "recipe", "best"),
    [
        ([3, 3, 2, 3], [1.0, 2.0, 9.0, 1.5], [-3.0, -1.0, -9.0, -2.0], Recipe(select="best"), 1),
        ([3, 3, 2, 3], [1.0, 2.0, 9.0, 1.5], [-3.0, -1.0, -9.0, -2.0], PAPER, 0),
        # Where all networks lost clusters, the one that says most of those that used most of them.
        ([1, 2, 2, 1], [9.0, 1.0, 1.5, 0.1], [0.0, -2.0, -1.0, -9.0], Recipe(), 2),
        ([1, 2, 2, 1], [9.0, 1.0, 1.5, 0.1], [0.0, -2.0, -1.0, -9.0], PAPER, 1),
    ],
)
def test_the_best_network_alone(prepared, used, values, losses, recipe, best):
    networks = ended(prepared, used, values, losses)
    merged, notes = merged_of(prepared, networks, recipe)
    assert merged.consensus is None and merged.refiner is None and merged.net.replicas == 1
    assert merged.weights.tolist() == [1.0]
    torch.testing.assert_close(merged.soft, networks.s[:, best])
    if max(used) < 3:
        said = "all 4 networks found fewer than 3 clusters; the one that found most of them was taken."
        assert notes == [said] and notes[0].values == {"networks": 4, "of": 4}


@pytest.mark.parametrize(("large", "said"), [(120, 0), (119, 1), (60, 1)])
def test_large_graphs_are_merged_on_a_sample(prepared, large, said):
    networks = ended(prepared, [3, 3], [1.0, 1.0])
    merged, notes = merged_of(prepared, networks, Recipe(large=large))
    told = f"consensus found on {large} of 120 nodes; the others join the nearest centre."
    assert notes == [told] * said
    assert merged.soft.shape == (120, 3)
    rows, finalists = sample_rows(120, large), 4 if said else None
    options = {"scales": [0, 0], "weights": merged.weights, "finalists": finalists, "random_state": 5}
    wanted = Consensus.fit(networks.s[rows], prepared.encoded.rows[rows], 3, **options)
    torch.testing.assert_close(merged.consensus.mean, wanted.mean)
    torch.testing.assert_close(merged.consensus.centres, wanted.centres)


# ------------------------------------------------------------------------ batches


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(240, 3, average_degree=12, n_features=24, edge_signal=0.85, seed=2)


def estimator(**arguments):
    return GraphClustering(**{"n_clusters": 3, "n_init": 4, "max_iter": 15, "device": "cpu", **arguments})


@pytest.fixture(scope="module")
def whole(graph):
    return estimator().fit(graph)


@pytest.mark.parametrize("parts", ["random", "metis"])
def test_the_clusters_are_those_of_the_whole_graph(graph, whole, parts):
    fitted = estimator(batch_size=40, recipe=Recipe(batch_parts=parts)).fit(graph)
    assert nmi(graph.y, fitted.labels_) > nmi(graph.y, whole.labels_) - 0.05 > 0.75
    kind = "random parts" if parts == "random" else "parts found by METIS"
    assert f"trained on about 40 of 240 nodes per step: 8 of 48 {kind}." in fitted.notes_
    assert fitted.history_["cut"].shape == (fitted.n_iter_, 4)
    same = estimator(batch_size=40, recipe=Recipe(batch_parts=parts)).fit(graph)
    np.testing.assert_array_equal(same.soft_, fitted.soft_)


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
    assert (
        "5 networks instead of 8: 60 nodes per step in 3 clusters, to stay within memory and time."
        in fitted.notes_
    )


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


def test_many_clusters_are_noted_or_refused_before_memory_is_taken(prepared, monkeypatch):
    notes = []
    networks = train_networks(prepared, 60, Recipe(budget_cpu=4 * 60**2), 0, notes.append, trainer=untrained)
    assert networks.net.replicas == 1
    assert notes == ["1 network instead of 24: 120 nodes in 60 clusters, to stay within memory and time."]
    monkeypatch.setattr("softcut.clustering.networks.memory_of", lambda device: 2.0**20)
    small = attributed_communities(400, 3, seed=0)
    said = r"n_clusters is 300, which takes about .* nodes, and there are 0\.0\d+ GiB"
    with pytest.raises(ParameterError, match=said) as told:
        GraphClustering(300).fit(small)
    assert told.value.argument == "n_clusters"
    bare = GraphClustering(300).fit(small.with_features(None))
    assert bare.n_clusters_ == 300, "edges alone need no table of nodes and clusters"


@pytest.mark.slow
def test_the_estimate_of_memory_is_about_what_a_fit_takes():
    """Peak of a process with 600 clusters, beside one with 2."""

    def peak(k):
        code = (
            "import resource, warnings; warnings.simplefilter('ignore'); import softcut as sc;"
            "from softcut.datasets import attributed_communities as made;"
            f"sc.GraphClustering({k}, n_init=4, max_iter=2).fit(made(600, 3, n_features=30, seed=0));"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
        )
        return int(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        )

    needed = 4 * numbers_of_training(600, 600, 4, Recipe())
    assert peak(600) - peak(2) < needed
