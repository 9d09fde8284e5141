"""Clustering networks, with each objective of the family: replicas in one pass, losses, stopping one by one."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy, elu

from softcut import Graph
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ParameterError
from softcut.ops import (
    CSR,
    OBJECTIVES,
    Sum,
    Words,
    dmon_loss,
    evidence_loss,
    just_balance_loss,
    mincut_loss,
    orthogonality_loss,
)
from softcut.training import (
    ConvInput,
    DenseInput,
    ReplicaNet,
    TrainSettings,
    mincut,
    replica_losses,
    replica_seeds,
    train,
)

GRAPH = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=1)
WORDS = Words(GRAPH.x, dtype=torch.float64)
SIZES = torch.tensor([[60.0, 40.0, 20.0], [40.0, 40.0, 40.0], [70.0, 30.0, 20.0]]).double()


def double(graph) -> CSR:
    return CSR.from_graph(graph, dtype=torch.float64)


OP = double(GRAPH)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def net_for(inputs, seeds, k=3, **rest) -> ReplicaNet:
    return ReplicaNet(inputs.in_channels, k, seeds, hidden=4, terms=inputs.terms, dtype=torch.float64, **rest)


def held(s: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """|| S'S / ||S'S|| - diag(sizes) / ||sizes|| ||, by its formula."""
    gram = s.T @ s
    return (gram / gram.norm() - torch.diag(sizes / sizes.norm())).norm()


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_replicas_in_one_pass_equal_separate_trainings(start, objective):
    inputs, k, seeds, scales = DenseInput(numbers(2, 120, 5)), 3, replica_seeds(5, 4), [0, 0, 1, 1]
    settings = TrainSettings(iterations=50, tolerance=None, lr=1e-2, objective=objective, start=10)
    labels = torch.randint(0, k, (4, 120), generator=torch.Generator().manual_seed(1))
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in labels]).double()
    given = {"start": labels, "sizes": sizes} if start else {}
    together = net_for(inputs, seeds, scales=scales)
    result = train(together, inputs, OP, settings, words=WORDS, **given)
    for r in range(4):
        alone = net_for(inputs, seeds[r : r + 1], scales=scales[r : r + 1])
        own = {name: value[r : r + 1] for name, value in given.items()}
        single = train(alone, inputs, OP, settings, words=WORDS, **own)
        np.testing.assert_allclose(result.cut[:, r], single.cut[:, 0], atol=1e-9, rtol=0)
        np.testing.assert_allclose(result.ortho[:, r], single.ortho[:, 0], atol=1e-9, rtol=0)
        for a, b in zip(together.keep([r]).parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_is_that_of_the_formulas_with_dense_matrices(objective, start):
    """Against eq. 1, the losses (held to sizes or not) and a start by cross-entropy, one replica after another."""
    k, weight, eye = 3, 0.7, torch.eye(3).double()
    x = torch.from_numpy(GRAPH.x.toarray() if sp.issparse(GRAPH.x) else GRAPH.x).double()
    inputs = ConvInput(OP, GRAPH.x, dtype=torch.float64, columns=1)
    options = {"temperature": 0.8, "ortho_weight": weight, "objective": objective, "start": 6}
    settings = TrainSettings(iterations=30, lr=1e-2, tolerance=None, **options)
    net = net_for(inputs, replica_seeds(2, 3))
    initial = {name: value.detach().clone() for name, value in net.named_parameters()}
    labels = torch.randint(0, k, (3, 120), generator=torch.Generator().manual_seed(1))
    given = {"start": labels, "sizes": SIZES} if start else {}
    result = train(net, inputs, OP, settings, words=WORDS, **given)
    a = torch.from_numpy(GRAPH.adjacency.toarray()).double()
    scale = a.sum(1).clamp(min=1e-30).rsqrt()
    a = scale[:, None] * a * scale
    d = torch.diag(a.sum(1))

    def terms(s, sizes):
        if objective == "dmon":
            collapse = k**0.5 / len(s) * s.sum(0).norm() - 1
            return dmon_loss(s, OP) - collapse, collapse
        if objective == "just_balance":
            return just_balance_loss(s, OP), torch.zeros(())
        if objective == "evidence":
            return evidence_loss(s, OP, words=WORDS), held(s, sizes) if start else torch.zeros(())
        inside, volume = s.T @ a @ s, s.T @ d @ s
        if objective == "mincut":
            return -torch.trace(inside) / torch.trace(volume), held(s, sizes)
        ridge = 1e-3 * torch.trace(volume) / k * eye
        return -torch.trace(torch.linalg.solve(volume + ridge, inside)) / k, held(s, sizes)

    for r in range(3):
        p = {name: value[r].clone().requires_grad_() for name, value in initial.items()}
        optimiser = torch.optim.Adam(p.values(), lr=1e-2)
        losses = []
        for i in range(36 if start else 30):
            optimiser.zero_grad()
            h = elu(a @ x @ p["first.0"].T + x @ p["first.1"].T + p["bias"])
            logits = h @ p["second"].T + p["second_bias"]
            if start and i < 6:
                loss = cross_entropy(logits, labels[r])
            else:
                sizes = SIZES[r] if start else torch.ones(k).double()
                first, second = terms(torch.softmax(logits / 0.8, 1), sizes)
                losses.append((first.item(), second.item()))
                loss = first + weight * second
            loss.backward()
            optimiser.step()
        both = np.c_[result.cut[:, r], result.ortho[:, r]]
        np.testing.assert_allclose(both, np.array(losses), atol=1e-9, rtol=0)
        for name, value in net.named_parameters():
            torch.testing.assert_close(value[r], p[name], atol=1e-9, rtol=0)


def test_replica_losses_are_the_losses_of_each_replica():
    s = torch.softmax(numbers(120, 3, 3), -1)
    cut, ortho = replica_losses(OP.normalise(), s)
    modularity, collapse = replica_losses(OP, s, "dmon")
    balance, none = replica_losses(OP.normalise(), s, "just_balance")
    explained, nothing = replica_losses(OP, s, "evidence", words=WORDS)
    edges_only, _ = replica_losses(OP, s, "evidence")
    kept_free, kept = replica_losses(OP, s, "evidence", SIZES, words=WORDS)
    assert not none.any() and not nothing.any()
    assert torch.equal(kept_free, explained)  # the sizes are in the second term only
    for r in range(3):
        torch.testing.assert_close(cut[r], mincut_loss(s[:, r], OP.normalise()))
        torch.testing.assert_close(ortho[r], orthogonality_loss(s[:, r]))
        torch.testing.assert_close(modularity[r] + collapse[r], dmon_loss(s[:, r], OP))
        torch.testing.assert_close(balance[r], just_balance_loss(s[:, r], OP))
        torch.testing.assert_close(explained[r], evidence_loss(s[:, r], OP, words=WORDS))
        torch.testing.assert_close(edges_only[r], evidence_loss(s[:, r], OP))
        torch.testing.assert_close(kept[r], held(s[:, r], SIZES[r]))
    assert (explained - edges_only).abs().min() > 1e-3
    price = WORDS.price(3)
    for edges, same in ((float(GRAPH.num_edges), True), (60.0, False)):
        known, _ = replica_losses(OP, s, "evidence", words=WORDS, num_edges=edges, words_price=price)
        assert torch.allclose(known, explained) == same
        assert same or (known - explained).abs().min() > 1e-3


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_call_serves_every_objective(objective):
    """The cut reads `op`; what counts edges reads `adjacency`, and only the evidence reads the words."""
    other = double(attributed_communities(120, 3, n_features=40, seed=2))
    cut_graph = Sum([OP.normalise(), other.normalise()]).normalise()
    inputs = DenseInput(numbers(120, 5))

    def run(op, **given):
        settings = TrainSettings(iterations=5, tolerance=None, objective=objective)
        return train(net_for(inputs, [0]), inputs, op, settings, **given).cut

    everything = run(cut_graph, adjacency=OP, words=WORDS)
    if objective in ("dmon", "evidence"):
        given = {"words": WORDS} if objective == "evidence" else {}
        np.testing.assert_array_equal(everything, run(OP, **given))
        assert (everything != run(other, **given)).any()
        with pytest.raises(ParameterError, match="adjacency must be the graph as it is"):
            run(cut_graph)
    else:
        np.testing.assert_array_equal(everything, run(cut_graph))
        assert (everything == run(OP)).all() == (objective == "just_balance")


def test_several_graphs_share_one_table():
    """Clusters mean the same in all graphs of a fit: the evidence is that of their union."""
    parts = [GRAPH, attributed_communities(80, 3, n_features=40, seed=3)]
    batch = Graph.batch(parts)
    op, words = double(batch), Words(batch.x, dtype=torch.float64)
    assert op.num_graphs == 2
    union = CSR(op.pattern, op.val, symmetric=True)
    s = torch.softmax(numbers(batch.num_nodes, 2, 3), -1)
    explained, _ = replica_losses(op, s, "evidence", words=words)
    torch.testing.assert_close(explained, evidence_loss(s, union, words=words))
    inputs = DenseInput(numbers(batch.num_nodes, 5))
    settings = TrainSettings(iterations=5, tolerance=None, objective="evidence")
    results = [train(net_for(inputs, [0]), inputs, a, settings, words=words).cut for a in (op, union)]
    np.testing.assert_array_equal(*results)
    modularity, collapse = replica_losses(op, s, "dmon")
    own = torch.stack([dmon_loss(s[:120], OP), dmon_loss(s[120:], double(parts[1]))]).mean(0)
    torch.testing.assert_close(modularity + collapse, own)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_graphs_with_little_in_them_train_to_finite_numbers(objective):
    """No edges, one node, isolated nodes, no words."""
    for edges, n in (([[], []], 1), ([[], []], 5), ([[0, 1], [1, 2]], 5)):
        graph = Graph.from_edges(np.array(edges, dtype=int).reshape(2, -1), num_nodes=n)
        inputs = DenseInput(torch.rand(n, 2, generator=torch.Generator().manual_seed(0)))
        for words in (None, Words(np.zeros((n, 3))), Words(np.eye(n))):
            net = ReplicaNet(2, 2, [0, 1])
            settings = TrainSettings(iterations=10, lr=0.5, tolerance=None, objective=objective)
            result = train(net, inputs, CSR.from_graph(graph), settings, words=words)
            assert np.isfinite(result.cut).all()
            assert net.assign(inputs).isfinite().all()


def test_words_of_another_graph_and_negative_weights_are_refused():
    inputs, settings = DenseInput(torch.rand(120, 2)), TrainSettings(iterations=2, objective="evidence")
    with pytest.raises(GraphError, match="row for each of the 7 nodes"):
        train(ReplicaNet(2, 3, [0]), inputs, CSR.from_graph(GRAPH), settings, words=Words(np.eye(7)))
    negative = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), -torch.ones(2), 120)
    with pytest.raises(GraphError, match="must not be negative"):
        train(ReplicaNet(2, 3, [0]), inputs, negative, settings)


@pytest.mark.parametrize(("nodes", "inside"), [(4, 1), (2**21 // 12, 1), (2**21 // 12 + 1, 2)])
def test_small_work_takes_one_thread(nodes, inside):
    """Less than 2^21 numbers: nodes, times two replicas, times four hidden units and two clusters."""
    before, seen = torch.get_num_threads(), []

    def loss(op, s):
        seen.append(torch.get_num_threads())
        return s.sum((0, 2)), s.sum((0, 2))

    torch.set_num_threads(2)
    try:
        op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=nodes)
        net = ReplicaNet(1, 2, seeds=[0, 1], hidden=4)
        train(net, DenseInput(torch.ones(nodes, 1)), op, TrainSettings(iterations=2), loss=loss)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [inside] * 2


# ------------------------------------------------------------------------------- replicas that stop one by one


SMALL = attributed_communities(90, 3, n_features=12, seed=0)
Z = numbers(2, 90, 6)
HELD = torch.tensor([[30.0, 30, 30], [50, 20, 20], [20, 30, 40], [10, 40, 40]], dtype=torch.float64)


def trained(members: list[int], callback=None, start=None, **options):
    seeds, scales = ([values[r] for r in members] for values in ([3, 1, 4, 1], [0, 0, 1, 1]))
    net = ReplicaNet(6, 3, seeds, scales=scales, dtype=torch.float64)
    usual = {"iterations": 120, "lr": 1e-2, "tolerance": 2e-2, "patience": 10, "check_every": 5}
    settings = TrainSettings(**{**usual, **options})
    return net, train(net, DenseInput(Z), double(SMALL), settings, callback, sizes=HELD[members], start=start)


def test_each_replica_stops_where_it_would_stop_alone_and_callbacks_hear_of_all():
    seen = []
    net, result = trained([0, 1, 2, 3], seen.append, one_by_one=True)
    ends = set()
    for r in range(4):
        alone, own = trained([r], one_by_one=True)
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(net.state_dict()[name][r : r + 1], value, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.cut[: own.iterations, r], own.cut[:, 0], rtol=1e-9)
        np.testing.assert_allclose(result.cut[own.iterations :, r], own.cut[-1, 0], err_msg="its last value")
        ends.add(own.iterations)
    assert len(ends) > 1
    assert result.iterations == max(ends) < 120 and result.converged
    assert net.replicas == 4 and net.scales == [0, 0, 1, 1]
    assert net.assign(DenseInput(Z)).shape == (90, 4, 3)
    for progress in seen:
        np.testing.assert_allclose(progress.cut, result.cut[progress.iteration - 1])
        assert np.isfinite(progress.cut).all() and len(progress.cut) == 4


def test_a_replica_stops_when_its_loss_improves_by_too_small_a_share():
    """The parameters are those of the last improvement."""
    net, result = trained([2], one_by_one=True, check_every=1)
    _, whole = trained([2], one_by_one=True, tolerance=None)
    assert whole.iterations == 120
    losses = (whole.cut + whole.ortho)[:, 0]
    best, since, ran = np.inf, 0, 0
    while since < 10:
        better = not np.isfinite(best) or losses[ran] < best - 2e-2 * abs(best)
        best, since = (losses[ran], 0) if better else (best, since + 1)
        ran += 1
    assert result.iterations == ran
    terms = replica_losses(double(SMALL).normalise(), net.assign(DenseInput(Z)), sizes=HELD[[2]])
    assert sum(terms).item() == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(("rows", "used"), [(100, 90), (89, 45), (30, 30)])
def test_the_start_is_learned_from_some_rows(rows, used, monkeypatch):
    monkeypatch.setattr(mincut, "_START_ROWS", rows)
    seen, real = set(), cross_entropy
    monkeypatch.setattr(
        torch.nn.functional,
        "cross_entropy",
        lambda logits, target, **options: seen.add(logits.shape) or real(logits, target, **options),
    )
    net, _ = trained([0, 2], iterations=1, start=torch.from_numpy(SMALL.y).expand(2, -1))
    assert seen == {(2, 3, used)}
    assert net.replicas == 2
    monkeypatch.undo()
    assert [mincut.start_rows(n).step for n in (0, 50_000, 50_001, 100_001)] == [1, 1, 2, 3]
