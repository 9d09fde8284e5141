"""What leaves the uniform assignment: scores standardised within graphs, and a weight of L_o for every graph."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from softcut import GraphClassification
from softcut.datasets import community_rings
from softcut.nn import MinCutPool, mincut_pool
from softcut.ops import Dense, as_operator
from softcut.ops.uniform import largest_quotient, leaving_weight, quotients, standardise, uniform_ortho

SIZES = (5, 1, 8, 3)  # the second has one node, the last no edges


def made(seed: int = 0) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adjacencies of some graphs, and features, edge_index and batch vector of all of them."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number, n in enumerate(SIZES):
        a = np.triu(rng.random((n, n)) < 0.5, 1) * (number != 3)
        if number != 3:
            a[np.arange(n - 1), np.arange(1, n)] = 1
        blocks.append(torch.from_numpy((a + a.T).astype(float)))
    batch = torch.repeat_interleave(torch.arange(4), torch.tensor(SIZES))
    x = torch.from_numpy(rng.normal(size=(sum(SIZES), 3)))
    whole = torch.block_diag(*blocks)
    for _ in range(3):  # neighbours become similar
        x = (x + whole @ x) / (1 + whole.sum(1, keepdim=True))
    x = 100 * x + torch.tensor([0.0, 1.0, -2.0])
    return blocks, x, whole.nonzero().T, batch


def padded(blocks: list[torch.Tensor], x: torch.Tensor) -> tuple[Dense, torch.Tensor, torch.Tensor]:
    """The same graphs in one dense batch: operator, features and mask; padding holds what must not count."""
    n = max(SIZES)
    adjacency, rows, mask = (
        torch.zeros(4, n, n).double(),
        torch.full((4, n, 3), 7.0).double(),
        torch.zeros(4, n),
    )
    for number, (block, part) in enumerate(zip(blocks, x.split(SIZES), strict=True)):
        k = len(block)
        adjacency[number, :k, :k], rows[number, :k], mask[number, :k] = block, part, 1
    return as_operator(adjacency, mask=mask.bool()), rows, mask.bool()


def plain_quotient(a: torch.Tensor, x: torch.Tensor) -> float:
    """Mean of the squared differences between neighbours over the variance, of features that count alike."""
    if not a.any():
        return 0.0
    scale = a.sum(1).rsqrt()
    a = scale[:, None] * a * scale
    floor = 1e-6 * x.mean(0).square() + 1e-10  # as standardise has it
    h = (x - x.mean(0)) / (x.var(0, correction=0) + floor).sqrt()
    differences = (a.unsqueeze(-1) * (h[:, None] - h[None]).square()).sum() / 2 / a.sum()
    return min(1.0, (differences / h.square().mean(0).sum()).item())


def test_features_are_standardised_within_each_graph() -> None:
    blocks, x, edges, batch = made()
    pool = MinCutPool(3, 4, standardise=True, temperature=0.5).double()
    parts = pool.mlp(x).split(SIZES)
    floors = [1e-6 * s.mean(0).square() + 1e-10 for s in parts]
    variances = [s.var(0, correction=0) + floor for s, floor in zip(parts, floors, strict=True)]
    expected = torch.cat([(s - s.mean(0)) / v.sqrt() for s, v in zip(parts, variances, strict=True)])
    out = pool(x, edges, batch=batch)
    torch.testing.assert_close(out.s, (expected / 0.5).softmax(-1), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(out.s[5], torch.full((4,), 0.25).double())  # a node alone
    dense, rows, mask = padded(blocks, x)
    torch.testing.assert_close(
        standardise(dense, rows)[mask].mean(), torch.zeros(()).double(), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(pool(rows, dense).s[mask], out.s)


def test_gradients_pass_and_stay_finite_where_all_nodes_are_alike() -> None:
    dense, rows, _ = padded(*made()[:2])
    assert gradcheck(lambda x: standardise(dense, x), rows.requires_grad_())
    for value in (0.0, 3.0):
        same = torch.full((1, 4, 2), value, requires_grad=True)
        out = standardise(Dense(torch.ones(1, 4, 4)), same)
        assert not out.any()
        out.sum().backward()
        assert torch.isfinite(same.grad).all()
    # Differences of the size of rounding errors are not blown up.
    noisy = 100 + 1e-5 * torch.randn(1, 4, 2)
    assert standardise(Dense(torch.ones(1, 4, 4)), noisy).abs().max() < 1e-2


def test_the_quotient_is_the_plain_formula_for_every_graph() -> None:
    blocks, x, edges, batch = made()
    expected = [plain_quotient(a, part) for a, part in zip(blocks, x.split(SIZES), strict=True)]
    assert expected[1] == expected[3] == 0 < expected[0] < 1
    dense, rows, _ = padded(blocks, x)
    measured = quotients(dense.normalise(), rows.requires_grad_())
    assert not measured.requires_grad
    assert measured.tolist() == pytest.approx(expected, rel=1e-9)
    light = Dense(1e-3 * dense.normalise().data, dense.mask)  # the unit of the weights does not count
    assert quotients(light, rows).tolist() == pytest.approx(expected, rel=1e-9)
    pool = MinCutPool(3, 9, ortho_weight="auto", cut_weight=0.5).double()
    out = pool(x, edges, batch=batch)  # no hidden layer: S is a function of x
    weight = [0.5 * max(1.0, q / largest_quotient(9)) for q in expected]
    assert out.weights["ortho"].tolist() == pytest.approx(weight, rel=1e-9)
    torch.testing.assert_close(out.graph_losses["ortho"], out.weights["ortho"] * out.raw_losses["ortho"])
    torch.testing.assert_close(out.graph_losses["cut"], 0.5 * out.raw_losses["cut"])
    assert not out.weights["ortho"].requires_grad
    pair = as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2).normalise()
    assert quotients(pair, torch.tensor([[-1.0], [1.0]])).tolist() == [1.0]  # by the formula 2


@pytest.mark.parametrize("k", [5, 16])
def test_with_this_weight_neither_loss_wins_along_the_features(k: int) -> None:
    """Second differences of the pooler's losses at the uniform assignment, along all features in equal parts."""
    blocks, x, _, _ = made(2)
    a, h = blocks[2].unsqueeze(0), x.split(SIZES)[2].unsqueeze(0)
    torch.manual_seed(0)
    ways = torch.linalg.qr(torch.randn(k, 3).double())[0]
    ways = torch.linalg.qr(ways - ways.mean(0))[0].T  # orthogonal, and rows of E sum to 0
    e, step = standardise(as_operator(a), h) @ ways, 1e-4 / k

    def losses(t: float) -> torch.Tensor:
        out = mincut_pool(h, a, 1 / k + t * e)
        return torch.stack([out.losses["cut"], out.losses["ortho"]])

    cut, ortho = (losses(step) + losses(-step) - 2 * losses(0)) / step**2
    weight = quotients(as_operator(a).normalise(), h).item() / largest_quotient(k)
    assert weight == pytest.approx((-cut / ortho).item(), rel=1e-3)
    held = leaving_weight(as_operator(a).normalise(), h, k, 1.0).item()
    assert held == pytest.approx(max(1.0, weight), rel=1e-6)


def test_a_network_leaves_the_uniform_assignment_that_the_papers_weights_keep() -> None:
    torch.manual_seed(0)
    x = torch.rand(60, 8)
    nodes = torch.arange(60)
    edges = torch.stack([torch.cat([nodes, (nodes + 1) % 60]), torch.cat([(nodes + 1) % 60, nodes])])
    outcome = {}
    for name, options in {
        "paper": {},
        "both": {"ortho_weight": "auto", "standardise": True, "temperature": 0.3},
    }.items():
        torch.manual_seed(1)
        pool = MinCutPool(8, 20, hidden=16, **options)
        optimiser = torch.optim.Adam(pool.parameters(), lr=5e-3)
        for _ in range(200):
            optimiser.zero_grad()
            pool(x, edges).loss.backward()
            optimiser.step()
        out = pool(x, edges)
        share = out.raw_losses["ortho"].item() / uniform_ortho(20)
        outcome[name] = share, len(out.s.argmax(-1).unique())
    assert outcome["paper"][0] > 0.98
    assert outcome["both"][0] < 0.8 and outcome["both"][1] > 10


def test_weights_are_those_of_any_other_pool_and_files_load(tmp_path) -> None:
    plain = MinCutPool(3, 4, hidden=5)
    leaving = MinCutPool(3, 4, hidden=5, ortho_weight="auto", standardise=True)
    leaving.load_state_dict(plain.state_dict())
    assert leaving.eval()(torch.rand(4, 3), torch.tensor([[0, 1], [1, 0]])).weights["ortho"].shape == (1,)
    graphs = community_rings(40, sizes=(3, 4))
    model = GraphClassification(
        preset="paper", max_iter=2, pool_args={"ortho_weight": "auto", "standardise": True}, random_state=0
    ).fit(graphs, graphs.y)
    model.save(tmp_path / "model")
    again = GraphClassification.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))
    assert math.isfinite(model.score(graphs, graphs.y))
