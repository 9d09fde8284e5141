"""Training in batches: unbiased estimates of sums and gradients, and the same training with a single part."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.ops import CSR, ClusterTables, Operator, Sum, Words, get_objective
from softcut.ops.objectives import edge_count, word_table
from softcut.training import (
    DenseInput,
    Parts,
    ReplicaNet,
    TrainSettings,
    assign_in_chunks,
    replica_losses,
    train,
    train_in_batches,
)
from softcut.training.minibatch import BatchTables, RunningSums, _BatchTask
from softcut.training.parts import PartedOperator

CPU = torch.device("cpu")
OBJECTIVES = ["mincut", "dmon", "just_balance", "evidence"]


@pytest.fixture(scope="module", autouse=True)
def _float64() -> object:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def a_graph(n: int = 24, weighted: bool = False) -> Graph:
    graph = attributed_communities(n, 3, average_degree=5, n_features=12, seed=1)
    if not weighted:
        return graph
    upper = sp.triu(graph.adjacency)
    upper.data = np.random.default_rng(0).uniform(0.5, 2.0, upper.nnz)
    return Graph.from_scipy(upper + upper.T, x=graph.x)


def operators(graph: Graph) -> dict[str, Operator]:
    """A~, A~ plus another graph, and A."""
    plain = CSR.from_graph(graph, dtype=torch.float64)
    ring = torch.arange(graph.num_nodes)
    pairs = torch.stack([ring, (ring + 1) % graph.num_nodes])
    other = CSR.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), num_nodes=graph.num_nodes)
    joined = Sum([plain.normalise(), other.normalise()], [1.0, 0.5]).normalise()
    return {"A~": plain.normalise(), "sum": joined, "A": plain}


def net_of(channels: int = 5) -> ReplicaNet:
    return ReplicaNet(in_channels=channels, k=3, seeds=[0, 1], dtype=torch.float64)


PARTS = Parts.random(24, count=6, per_step=3, seed=2)
ALL_BATCHES = list(itertools.combinations(range(6), 3))
SIZES = torch.tensor([[9.0, 8.0, 7.0], [6.0, 6.0, 12.0]], dtype=torch.float64)


def rows_of(batch: tuple[int, ...]) -> Tensor:
    assert PARTS.order is not None
    return torch.cat([PARTS.order[PARTS.rows(p)] for p in batch])


@pytest.mark.parametrize("kind", ["A~", "sum", "A"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_over_all_batches_is_the_whole_operator(kind: str, weighted: bool) -> None:
    op = operators(a_graph(weighted=weighted))[kind]
    parted, whole, degree = PartedOperator(op, PARTS), torch.zeros(24, 24), torch.zeros(24)
    for batch in ALL_BATCHES:
        rows, taken, dense = rows_of(batch), parted.take(batch, CPU), torch.zeros(24, 24)
        dense[rows.unsqueeze(1), rows] = taken.to_dense()
        whole += dense / len(ALL_BATCHES)
        degree[rows] += taken.degree / len(ALL_BATCHES)
        x = torch.rand(len(rows), 2)
        torch.testing.assert_close(taken @ x, taken.to_dense() @ x)
    torch.testing.assert_close(whole, op.to_dense())
    torch.testing.assert_close(degree, op.degree)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_expected_gradient_is_the_gradient_of_the_whole_graph(objective: str) -> None:
    """With the sums of the whole graph known, over all batches, for every objective and for its held form."""
    graph, chosen = a_graph(), get_objective(objective)
    op = operators(graph)["sum" if chosen.normalised else "A"]
    z, net = torch.randn(24, 5), net_of()
    words = Words(graph.x, dtype=torch.float64) if objective == "evidence" else None
    s = net.soft(DenseInput(z))
    table, number = word_table(op, s, words)
    given = {"num_edges": float(edge_count(op)), "num_words": number}
    given["target"] = SIZES if objective in ("mincut", "evidence") else None

    def loss_of(tables: ClusterTables) -> Tensor:
        return torch.stack([term.mean(0) for term in chosen.losses(tables)]).sum()

    whole = ClusterTables(op, s, words=table, **given)
    wanted = torch.autograd.grad(loss_of(whole), list(net.parameters()))
    exact = {"edges": whole.edges, "gram": whole.gram, "sizes": whole.sizes, "words": table}
    exact["inside"], exact["volume"] = whole.cut_terms

    def known(name: str, estimate: Tensor) -> Tensor:
        return exact[name].detach() + estimate - estimate.detach()

    parted, mean = PartedOperator(op, PARTS), [torch.zeros_like(p) for p in net.parameters()]
    for batch in ALL_BATCHES:
        rows = rows_of(batch)
        own, own_words = net.soft(DenseInput(z[rows])), None
        if words is not None:
            own_words = known("words", 2 * Words(graph.x[rows.numpy()], dtype=torch.float64).table(own)[None])
        taken = parted.take(batch, CPU)
        loss = loss_of(BatchTables(taken, own, words=own_words, sums=known, factor=2.0, **given))
        torch.testing.assert_close(loss, loss_of(whole))
        for total, part in zip(mean, torch.autograd.grad(loss, list(net.parameters())), strict=True):
            total += part / len(ALL_BATCHES)
    for mine, theirs in zip(mean, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
        assert theirs.abs().max() > 1e-6


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_single_batch_is_the_training_of_the_whole_graph(objective: str, held: bool) -> None:
    """A step on all parts is a step on the graph, whether clusters are held to sizes or not."""
    graph, nets = a_graph(), [net_of(), net_of()]
    ops, z = operators(graph), torch.randn(24, 5, generator=torch.Generator().manual_seed(1))
    options = {"objective": objective, "ortho_weight": 0.2 if held else 1.0}
    settings = TrainSettings(iterations=15, tolerance=None, start=5, **options)
    parts = Parts.random(24, count=4, per_step=4, seed=0)
    assert parts.order is not None
    words, x = Words(graph.x, dtype=torch.float64), graph.x[parts.order.numpy()]
    split = [Words(x[parts.rows(p)], dtype=torch.float64) for p in range(4)]
    start = torch.arange(24).remainder(3).repeat(2, 1)
    given = {"start": start, "sizes": SIZES if held else None, "adjacency": ops["A"]}
    whole = train(nets[0], DenseInput(z), ops["sum"], settings, words=words, **given)
    batched = train_in_batches(nets[1], DenseInput(z), ops["sum"], parts, settings, words=split, **given)
    assert whole.ortho.any() == (objective in ("mincut", "dmon") or (held and objective == "evidence"))
    np.testing.assert_allclose(batched.cut, whole.cut, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(batched.ortho, whole.ortho, rtol=1e-8, atol=1e-10)
    for mine, theirs in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


def test_several_batches_come_close_to_the_training_of_the_whole_graph() -> None:
    graph = attributed_communities(300, 3, average_degree=12, n_features=12, edge_signal=0.8, seed=1)
    op = CSR.from_graph(graph, dtype=torch.float64)
    z = op.normalise() @ torch.from_numpy(graph.x.toarray().astype(np.float64))
    z = (z - z.mean(0)) / z.std()
    settings = TrainSettings(iterations=100, lr=1e-2, tolerance=None, start=5)
    start = torch.from_numpy(graph.y).repeat(2, 1)
    nets = [net_of(12) for _ in range(4)]
    train(nets[1], DenseInput(z), op, settings, start=start)
    splits = Parts.random(300, 16, 4, 0), Parts.metis(graph.adjacency, 16, 4, 0)
    for net, parts in zip(nets[2:], splits, strict=True):
        train_in_batches(net, DenseInput(z), op, parts, settings, start=start)
    losses = [torch.stack(replica_losses(op.normalise(), net.assign(DenseInput(z)))).sum(0) for net in nets]
    begin, whole, *batched = losses
    assert bool((begin - whole > 0.2).all())
    for each in batched:
        assert bool((each - whole < 0.25 * (begin - whole)).all())


def test_running_sums_move_with_the_parameters_and_never_fall_to_zero_by_noise() -> None:
    sums = RunningSums(memory=10)
    sums.begin({})
    assert sums("t", torch.tensor([1.0, 4.0, 2.0])).tolist() == [1.0, 4.0, 2.0]
    sums.begin({"t": torch.tensor([9.0, 4.0, 5.0])})
    new = torch.tensor([0.1, 4.0, 6.0], requires_grad=True)
    value = sums("t", new)
    # At least half of it; as it was; the mean of 2 and 5, and 1 more.
    assert value.tolist() == [0.5, 4.0, 4.5]
    assert torch.autograd.grad(value.sum(), new)[0].tolist() == [1.0, 1.0, 1.0]
    alone = RunningSums(memory=1)
    for each in (1.0, 3.0):
        alone.begin({})
        assert alone("t", torch.tensor(each)).item() == each


def test_every_pass_takes_each_part_once_in_a_new_order() -> None:
    parts = Parts.random(40, count=8, per_step=2, seed=3)
    drawn = list(itertools.islice(parts.batches(), 8))
    for taken in (drawn[:4], drawn[4:]):
        assert sorted(itertools.chain(*taken)) == list(range(8))
    assert drawn[:4] != drawn[4:] and drawn == list(itertools.islice(parts.batches(), 8))
    assert sorted(parts.order.tolist()) == list(range(40))  # type: ignore[union-attr]
    net, z = net_of(), DenseInput(torch.randn(40, 5))
    op = PartedOperator(CSR.from_graph(a_graph(40)), parts)
    task = _BatchTask(net, z, op, parts, TrainSettings(), None, None, None)
    assert task.sums.memory == 12  # three passes of four steps
    assert torch.equal(parts.arranged(torch.arange(40)), parts.order)


def test_what_cannot_be_trained_in_batches_is_refused() -> None:
    for per_step in (1, 3, 0):
        with pytest.raises(ParameterError, match="per_step must divide"):
            Parts.ranges(20, 4, per_step)
    graph = a_graph()
    op, parts = CSR.from_graph(graph), Parts.ranges(24, 4, 2)
    net, inputs = ReplicaNet(in_channels=5, k=3, seeds=[0]), DenseInput(torch.randn(24, 5))
    with pytest.raises(ParameterError, match="ratio_trace"):
        train_in_batches(net, inputs, op, parts, TrainSettings(objective="ratio_trace"))
    with pytest.raises(ParameterError, match="2 graphs"):
        train_in_batches(net, inputs, CSR.from_graph(Graph.batch([graph, graph])), parts)
    with pytest.raises(ParameterError, match="parts are of 24 nodes"):
        train_in_batches(net, inputs, CSR.from_graph(a_graph(30)), parts)


def test_assignments_in_chunks_are_the_same() -> None:
    net = ReplicaNet(in_channels=4, k=3, seeds=[0, 1], scales=[0, 1], dtype=torch.float64)
    inputs = DenseInput(torch.randn(2, 17, 4))
    torch.testing.assert_close(assign_in_chunks(net, inputs, 0.5, rows=5), net.assign(inputs, 0.5))
    torch.testing.assert_close(assign_in_chunks(net, inputs), net.soft(inputs).detach())
    assert not assign_in_chunks(net, inputs).requires_grad
    plain = {"op": CSR.from_graph(a_graph()), "s": torch.rand(24, 1, 3)}
    for name in ("edges", "gram", "sizes"):  # of the whole graph, unless said otherwise
        torch.testing.assert_close(getattr(BatchTables(**plain), name), getattr(ClusterTables(**plain), name))
