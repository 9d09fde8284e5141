"""Training with each objective of the family: which graph it reads, what it counts, replicas, several graphs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from softcut import Graph
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ParameterError
from softcut.metrics import nmi
from softcut.ops import CSR, OBJECTIVES, Sum, Words, dmon_loss, evidence_loss, just_balance_loss
from softcut.training import DenseInput, ReplicaNet, TrainSettings, replica_losses, replica_seeds, train

COUNTING = ("dmon", "evidence")


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=1)


def double(graph) -> CSR:
    return CSR.from_graph(graph, dtype=torch.float64)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def net_for(inputs, seeds, k=3) -> ReplicaNet:
    return ReplicaNet(inputs.in_channels, k, seeds, hidden=4, dtype=torch.float64)


def test_replica_losses_of_the_counting_objectives(graph):
    s, op = torch.softmax(numbers(graph.num_nodes, 3, 4), -1), double(graph)
    words = Words(graph.x, dtype=torch.float64)
    modularity, collapse = replica_losses(op, s, "dmon")
    balance, none = replica_losses(op.normalise(), s, "just_balance")
    explained, nothing = replica_losses(op, s, "evidence", words=words)
    edges_only, _ = replica_losses(op, s, "evidence")
    assert not none.any()
    assert not nothing.any()
    for r in range(3):
        torch.testing.assert_close(modularity[r] + collapse[r], dmon_loss(s[:, r], op))
        torch.testing.assert_close(balance[r], just_balance_loss(s[:, r], op))
        torch.testing.assert_close(explained[r], evidence_loss(s[:, r], op, words=words))
        torch.testing.assert_close(edges_only[r], evidence_loss(s[:, r], op))
    assert (explained - edges_only).abs().min() > 1e-3


SIZES = torch.tensor([[60.0, 40.0, 20.0], [40.0, 40.0, 40.0], [70.0, 30.0, 20.0]]).double()


def held(s: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """|| S'S / ||S'S|| - diag(sizes) / ||sizes|| ||, by its formula."""
    gram = s.T @ s
    return (gram / gram.norm() - torch.diag(sizes / sizes.norm())).norm()


def test_evidence_with_sizes_to_hold_on_to(graph):
    s, op = torch.softmax(numbers(graph.num_nodes, 3, 3), -1), double(graph)
    words = Words(graph.x, dtype=torch.float64)
    free, nothing = replica_losses(op, s, "evidence", words=words)
    explained, kept = replica_losses(op, s, "evidence", SIZES, words=words)
    known, _ = replica_losses(op, s, "evidence", words=words, num_edges=60.0, words_price=words.price(3))
    assert not nothing.any()
    assert torch.equal(explained, free)  # the sizes are in the second term only
    for r in range(3):
        torch.testing.assert_close(kept[r], held(s[:, r], SIZES[r]))
    same, _ = replica_losses(
        op, s, "evidence", words=words, num_edges=float(graph.num_edges), words_price=words.price(3)
    )
    torch.testing.assert_close(same, free)
    assert (known - free).abs().min() > 1e-3


def test_a_step_of_the_evidence_follows_both_terms(graph):
    """The first step of Adam goes by the sign of the gradient of evidence + weight * L_o, computed here."""
    inputs, op = DenseInput(numbers(graph.num_nodes, 5)), double(graph)
    words = Words(graph.x, dtype=torch.float64)
    for weight in (0.0, 0.2, 5.0):
        settings = TrainSettings(
            iterations=1, lr=1e-3, objective="evidence", ortho_weight=weight, tolerance=None
        )
        net, before = (net_for(inputs, [0, 1, 2]) for _ in range(2))
        result = train(net, inputs, op, settings, sizes=SIZES, words=words)
        s = before.soft(inputs)
        explained = torch.stack([evidence_loss(s[:, r], op, words=words) for r in range(3)])
        kept = torch.stack([held(s[:, r], SIZES[r]) for r in range(3)])
        np.testing.assert_allclose(result.cut[0], explained.detach(), rtol=1e-6)
        np.testing.assert_allclose(result.ortho[0], kept.detach(), rtol=1e-6)
        gradients = torch.autograd.grad((explained + weight * kept).sum(), list(before.parameters()))
        moved = [new - old for new, old in zip(net.parameters(), before.parameters(), strict=True)]
        for move, gradient in zip(moved, gradients, strict=True):
            clear = gradient.abs() > 1e-6
            torch.testing.assert_close(
                move[clear].detach(), -1e-3 * gradient[clear].sign(), rtol=2e-2, atol=0.0
            )


@pytest.mark.parametrize("objective", ["dmon", "just_balance", "evidence"])
def test_training_is_that_of_the_loss_functions(graph, objective):
    """Against a plain loop over the functions of ops, one network written out."""
    z, op, weight = numbers(graph.num_nodes, 5), double(graph), 0.7
    words = Words(graph.x, dtype=torch.float64)
    inputs = DenseInput(z)
    net = net_for(inputs, replica_seeds(2, 1))
    p = {name: value[0].detach().clone().requires_grad_() for name, value in net.named_parameters()}
    settings = TrainSettings(
        iterations=20, lr=1e-2, tolerance=None, temperature=0.8, ortho_weight=weight, objective=objective
    )
    result = train(net, inputs, op, settings, words=words)
    optimiser = torch.optim.Adam(p.values(), lr=1e-2)
    for i in range(20):
        optimiser.zero_grad()
        h = torch.nn.functional.elu(z @ p["first.0"].T + p["bias"])
        s = torch.softmax((h @ p["second"].T + p["second_bias"]) / 0.8, -1)
        if objective == "dmon":
            collapse = 3**0.5 / len(s) * s.sum(0).norm() - 1
            first, second = dmon_loss(s, op) - collapse, collapse
        elif objective == "just_balance":
            first, second = just_balance_loss(s, op), torch.zeros(())
        else:
            first, second = evidence_loss(s, op, words=words), torch.zeros(())
        (first + weight * second).backward()
        optimiser.step()
        assert result.cut[i, 0] == pytest.approx(first.item(), abs=1e-9)
        assert result.ortho[i, 0] == pytest.approx(second.item(), abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_call_serves_every_objective(graph, objective):
    """The cut reads `op`; what counts edges reads `adjacency`, and only the evidence reads the words."""
    op, words = double(graph), Words(graph.x, dtype=torch.float64)
    other = double(attributed_communities(120, 3, n_features=40, seed=2))
    cut_graph = Sum([op.normalise(), other.normalise()]).normalise()
    inputs = DenseInput(numbers(graph.num_nodes, 5))

    def run(op, **given):
        settings = TrainSettings(iterations=5, tolerance=None, objective=objective)
        return train(net_for(inputs, [0]), inputs, op, settings, **given).cut

    everything = run(cut_graph, adjacency=op, words=words)
    if objective in COUNTING:
        given = {"words": words} if objective == "evidence" else {}
        np.testing.assert_array_equal(everything, run(op, **given))
        assert (everything != run(other, **given)).any()
        with pytest.raises(ParameterError, match="adjacency must be the graph as it is"):
            run(cut_graph)
    else:
        np.testing.assert_array_equal(everything, run(cut_graph))
        changed = run(op)
        assert (everything == changed).all() == (objective == "just_balance")


def test_several_graphs_share_one_table(graph):
    """Clusters mean the same in all graphs of a fit: the evidence is that of their union."""
    parts = [graph, attributed_communities(80, 3, n_features=40, seed=3)]
    batch = Graph.batch(parts)
    op, words = double(batch), Words(batch.x, dtype=torch.float64)
    assert op.num_graphs == 2
    union = CSR(op.pattern, op.val, symmetric=True)
    s = torch.softmax(numbers(batch.num_nodes, 2, 3), -1)
    got, _ = replica_losses(op, s, "evidence", words=words)
    torch.testing.assert_close(got, evidence_loss(s, union, words=words))
    inputs = DenseInput(numbers(batch.num_nodes, 5))
    settings = TrainSettings(iterations=5, tolerance=None, objective="evidence")
    results = [train(net_for(inputs, [0]), inputs, a, settings, words=words).cut for a in (op, union)]
    np.testing.assert_array_equal(*results)
    modularity, _ = replica_losses(op, s, "dmon")
    own = torch.stack([dmon_loss(s[:120], double(parts[0])), dmon_loss(s[120:], double(parts[1]))]).mean(0)
    torch.testing.assert_close(modularity + replica_losses(op, s, "dmon")[1], own)


def test_evidence_finds_communities_that_the_start_has_only_in_part():
    graph = attributed_communities(200, 3, 10, 60, edge_signal=0.8, feature_signal=0.4, seed=0)
    truth = torch.from_numpy(graph.y)
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(graph.num_nodes, generator=generator) < 0.4
    start = torch.where(wrong, torch.randint(0, 3, truth.shape, generator=generator), truth).unsqueeze(0)
    inputs = DenseInput(torch.eye(graph.num_nodes))
    net = ReplicaNet(graph.num_nodes, 3, [0])
    settings = TrainSettings(iterations=200, lr=1e-2, start=100, objective="evidence", tolerance=None)
    train(net, inputs, CSR.from_graph(graph), settings, start=start, words=Words(graph.x))
    found = net.assign(inputs)[:, 0].argmax(-1).numpy()
    assert nmi(graph.y, start[0].numpy()) < 0.5
    assert nmi(graph.y, found) > nmi(graph.y, start[0].numpy()) + 0.2


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


def test_words_of_another_graph_and_negative_weights_are_refused(graph):
    inputs = DenseInput(torch.rand(graph.num_nodes, 2))
    settings = TrainSettings(iterations=2, objective="evidence")
    with pytest.raises(GraphError, match="row for each of the 7 nodes"):
        train(ReplicaNet(2, 3, [0]), inputs, CSR.from_graph(graph), settings, words=Words(np.eye(7)))
    negative = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), -torch.ones(2), graph.num_nodes)
    with pytest.raises(GraphError, match="must not be negative"):
        train(ReplicaNet(2, 3, [0]), inputs, negative, settings)


def test_the_examples_of_the_page_run():
    page = (Path(__file__).resolve().parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert names["result"].iterations == 20
    assert re.findall(r'^\| `"(\w+)"` \|', page, flags=re.MULTILINE) == list(OBJECTIVES)
