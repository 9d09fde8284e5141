"""The step that is written out: the plain formulas, their gradients by autograd, and where it is taken."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.errors import GraphError
from softcut.ops import CSR, Words, as_operator
from softcut.ops.information import edge_price
from softcut.ops.kernels import use
from softcut.ops.objectives import edge_count
from softcut.training import ConvInput, DenseInput, ReplicaNet, evidence_step, replica_losses
from softcut.training.evidence_step import EvidenceStep, evidence_step_of
from softcut.training.mincut import ClusteringTask, TrainSettings

N, R, K, F = 12, 3, 4, 9


def make(words: str, weighted: bool, seed: int = 0):
    """A graph with an isolated node, features at two distances, and words: none, sparse or dense, 0 and 1 or counts."""
    rng = np.random.default_rng(seed)
    upper = sp.random_array((N - 1, N - 1), density=0.3, rng=rng, dtype=np.float64)
    dense = np.zeros((N, N))
    dense[:-1, :-1] = (upper + upper.T).toarray() if weighted else (upper + upper.T).toarray() > 0
    np.fill_diagonal(dense, 0)
    row, col = map(torch.from_numpy, np.nonzero(dense))
    weight = torch.from_numpy(dense)[row, col] if weighted else None
    op = CSR.from_edge_index(torch.stack([row, col]), weight, num_nodes=N)
    counts = rng.integers(1, 4, (N, F)) * (rng.random((N, F)) < (0.1 if "sparse" in words else 0.9))
    given = Words(counts, presence="counts" not in words, dtype=torch.float64) if words else None
    inputs = DenseInput({scale: torch.from_numpy(rng.normal(size=(N, 5))) for scale in (0, 2)})
    return op, torch.from_numpy(dense), given, inputs


def net_of(replicas: int = R) -> ReplicaNet:
    net = ReplicaNet(5, K, list(range(replicas)), 6, scales=[0, 2, 2][:replicas], dtype=torch.float64)
    with torch.no_grad():
        for p in (net.bias, net.second_bias):
            p.normal_(generator=torch.Generator().manual_seed(4))
    return net


def known(op, words, k=K):
    edges = edge_count(op)
    prices = {"num_edges": edges, "edges_price": edge_price(k, edges)}
    return prices if words is None else prices | {"words": words, "words_price": words.price(k)}


def plain_losses(net, inputs, op, words, sizes):
    return replica_losses(op, net.soft(inputs), "evidence", sizes, words=words)


@pytest.fixture(params=[1, 5, 256], ids="blocks of {}".format)
def block_size(request, monkeypatch):
    monkeypatch.setattr(evidence_step, "_NUMBERS", 1)
    monkeypatch.setattr(evidence_step, "_LEAST_NODES", request.param)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("words", ["", "sparse", "dense", "sparse counts", "dense counts"])
def test_losses_and_gradients_are_those_of_the_plain_formulas(words, weighted, block_size):
    op, _, given, inputs = make(words, weighted)
    target = torch.rand(R, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    net = net_of()
    step = EvidenceStep(net, inputs, op, **known(op, given))
    assert len(step.blocks) == -(-N // min(N, evidence_step._LEAST_NODES))
    for sizes in (target, None, target):  # with and without L_o; the arrays of a step are used again
        mine, plain = step.losses(sizes), plain_losses(net, inputs, op, given, sizes)
        torch.testing.assert_close(mine, plain, rtol=1e-12, atol=1e-13)
        for weights in ({"cut": 1.0, "ortho": 0.2}, {"cut": 0.0, "ortho": 3.0}, {"cut": 2.0, "ortho": 0.0}):
            step.set_gradients(weights)
            wanted = weights["cut"] * plain[0] + weights["ortho"] * plain[1]
            slopes = torch.autograd.grad(wanted.sum(), list(net.parameters()), retain_graph=True)
            mine_too = [p.grad for p in net.parameters()]
            torch.testing.assert_close(mine_too, list(slopes), rtol=1e-9, atol=1e-12)


def test_the_evidence_of_edges_is_its_formula():
    op, dense, _, inputs = make("", weighted=True)
    net = net_of()
    s = net.soft(inputs).permute(1, 2, 0)
    edges = s @ dense @ s.mT
    p = edges / edges.sum((1, 2), keepdim=True)
    information = (p * (p / (p.sum(2, keepdim=True) * p.sum(1, keepdim=True))).log()).sum((1, 2))
    share, count = s.sum(-1) / N, edge_count(op)
    gain = count * information - edge_price(K, count)
    by_hand = -gain / (N * (-(share * share.log()).sum(-1)).sqrt())
    torch.testing.assert_close(EvidenceStep(net, inputs, op, **known(op, None)).losses()[0], by_hand)


@pytest.mark.parametrize("words", ["", "sparse counts", "dense"])
def test_replicas_that_leave_change_nothing_for_the_others(words, block_size):
    op, _, given, inputs = make(words, weighted=True, seed=1)
    net = net_of()
    step = EvidenceStep(net, inputs, op, **known(op, given))
    cut = step.losses()[0]
    step.set_gradients({"cut": 1.0})
    before = {name: p.grad.clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.data = p.data[1:]
    net.scales, net.replicas = net.scales[1:], R - 1
    torch.testing.assert_close(step.losses()[0], cut[1:])
    for p in net.parameters():
        p.grad = None
    step.set_gradients({"cut": 1.0})
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.grad, before[name][1:])


def saturated(logits: torch.Tensor) -> tuple[ReplicaNet, DenseInput]:
    """A net whose logits [R, K, N] are given: each node is a feature, each of 12 units passes on one of them."""
    net = ReplicaNet(N, K, list(range(len(logits))), N, dtype=torch.float64)
    with torch.no_grad():
        net.first[0].copy_(torch.eye(N))
        net.second.copy_(logits)
    return net, DenseInput(torch.eye(N, dtype=torch.float64))


def test_no_edges_one_cluster_and_perfect_sizes_have_finite_gradients():
    alone = CSR.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=N)
    logits = torch.zeros(R, K, N, dtype=torch.float64)
    logits[0, 0] = 1000.0  # a single cluster
    logits[1] = 1000.0 * torch.eye(K, dtype=torch.float64).repeat(1, N // K)  # hard clusters of equal sizes
    sizes = torch.ones(R, K, dtype=torch.float64)
    for each in (alone, make("", weighted=False)[0]):
        net, inputs = saturated(logits)
        step = EvidenceStep(net, inputs, each, **known(each, None))
        cut, ortho = step.losses(sizes)
        torch.testing.assert_close((cut, ortho), plain_losses(net, inputs, each, None, sizes))
        assert ortho[1] < 1e-7
        step.set_gradients({"cut": 1.0, "ortho": 1.0})
        assert all(p.grad.isfinite().all() for p in net.parameters())
        broken = logits.clone()
        broken[2, 0, 0] = torch.nan
        net, inputs = saturated(broken)
        step = EvidenceStep(net, inputs, each, **known(each, None))
        assert step.losses()[0].isnan().tolist() == [False, False, True]


def test_where_it_is_taken():
    op, _, _, inputs = make("", weighted=False)
    net, given = net_of(), known(op, None)
    assert evidence_step_of(net, inputs, op, given) is not None
    with use("triton"):
        assert evidence_step_of(net, inputs, op, given) is None
    one_way = CSR.from_edge_index(torch.tensor([[0, 1], [1, 2]]), num_nodes=N)
    learned = CSR.from_edge_index(
        torch.tensor([[0, 1], [1, 0]]), torch.ones(2, requires_grad=True), num_nodes=N
    )
    several = as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=N, batch=torch.arange(N) // 6)
    for other in (one_way, learned, several, op.normalise()):
        assert evidence_step_of(net, inputs, other, given) is None
    conv = ConvInput(op, np.ones((N, 5)), dtype=torch.float64)
    assert evidence_step_of(net, conv, op, given) is None
    for other in (ReplicaNet(5, K, [0], hidden=0), ReplicaNet(5, K, [0], act=torch.relu)):
        assert evidence_step_of(other, inputs, op, given) is None


@pytest.mark.parametrize(
    ("temperature", "objective", "taken"),
    [(1.0, "evidence", True), (0.5, "evidence", False), (1.0, "mincut", False)],
)
def test_a_task_takes_it_where_it_holds_and_passes_the_same_gradients(temperature, objective, taken):
    op, _, words, inputs = make("sparse", weighted=False)
    net = net_of()
    settings = TrainSettings(objective=objective, temperature=temperature)
    sizes = torch.ones(R, K, dtype=torch.float64)
    task = ClusteringTask(net, inputs, op, settings, sizes=sizes, words=words)
    assert (task.written_out is not None) == taken
    losses = task.step()
    task.backward(losses["cut"] + 2 * losses["ortho"], {"cut": 1.0, "ortho": 2.0})
    read = op.normalise() if objective == "mincut" else op
    counted = words if objective == "evidence" else None
    plain = replica_losses(read, net.soft(inputs, temperature), objective, sizes, words=counted)
    torch.testing.assert_close((losses["cut"], losses["ortho"]), plain)
    slopes = torch.autograd.grad((plain[0] + 2 * plain[1]).sum(), list(net.parameters()))
    torch.testing.assert_close([p.grad for p in net.parameters()], list(slopes), rtol=1e-9, atol=1e-12)


def test_words_of_another_graph_are_refused():
    op, _, _, inputs = make("", weighted=False)
    with pytest.raises(GraphError, match="row for each of the 5 nodes"):
        EvidenceStep(net_of(), inputs, op, **known(op, Words(np.eye(5))))
