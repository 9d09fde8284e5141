"""The parts of the poolers on their own: values from plain formulas, boundaries, and what is refused."""

from __future__ import annotations

import math
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from pool_samples import BATCH, PTR, features, sparse, weighted

from softcut.errors import ParameterError
from softcut.nn import (
    DiffPool,
    DMoNPool,
    JustBalancePool,
    MinCutPool,
    RandomPool,
    SAGPool,
    TopKPool,
)
from softcut.nn.pool import random as random_module
from softcut.nn.pool.node_selection import KeepSelection, top_k
from softcut.ops import Dense, Segments
from softcut.ops.batching import Padded

# ----------------------------------------------------------------------------------------------- choosing


@pytest.mark.parametrize(
    ("ratio", "k"), [(0.5, None), (0.25, None), (0.3, None), (1.0, None), (0.5, 2), (0.5, 7)]
)
def test_the_best_nodes_of_every_graph(ratio, k):
    score = features(9, 1)[:, 0]
    wanted = []
    for start, end in pairwise(PTR.tolist()):
        size = min(k, end - start) if k is not None else math.ceil(ratio * (end - start))
        order = sorted(range(start, end), key=lambda i: -float(score[i]))
        wanted.append(order[:size])
    found = top_k(score, sparse(weighted(ptr=PTR), BATCH), ratio, k)
    assert found.index.tolist() == list(chain(*wanted))
    assert found.ptr.tolist() == np.cumsum([0, *map(len, wanted)]).tolist()
    assert found.batch.tolist() == [b for b, part in enumerate(wanted) for _ in part]
    single = top_k(score, sparse(weighted()), ratio, k)
    size = min(k, 9) if k is not None else math.ceil(ratio * 9)
    assert single.index.tolist() == sorted(range(9), key=lambda i: -float(score[i]))[:size]
    assert single.ptr is None
    # The same three graphs, padded to four rows.
    mask = torch.tensor([[True] * 4, [True] + [False] * 3, [True] * 4])
    ranked = torch.full((3, 4), 9.0, dtype=torch.float64)  # padding scores highest, and is not chosen
    ranked[mask] = score
    padded = top_k(ranked, Dense(torch.zeros(3, 4, 4), mask), ratio, k)
    for b, part in enumerate(wanted):
        real = padded.index[b][padded.mask[b]]
        assert (real + PTR[b]).tolist() == part
    plain = top_k(ranked, Dense(torch.zeros(3, 4, 4)), ratio, k)
    assert plain.mask is None


def test_a_share_that_rounding_would_exceed():
    """0.1 * 30 is 3.0000000000000004: three nodes, not four."""
    score = torch.arange(30.0)
    for op in (sparse(weighted(30)), sparse(weighted(30), torch.zeros(30, dtype=torch.long))):
        assert len(top_k(score, op, 0.1, None).index) == 3
    two = sparse(weighted(60, ptr=[0, 30, 60]), torch.arange(60) // 30)
    assert top_k(torch.arange(60.0), two, 0.1, None).ptr.tolist() == [0, 3, 6]
    mask = torch.ones(1, 30, dtype=torch.bool)
    assert int(top_k(score.unsqueeze(0), Dense(torch.zeros(1, 30, 30), mask), 0.1, None).mask.sum()) == 3


def test_kept_nodes_are_gated_and_put_back():
    x, gate = features(5), torch.tensor([0.5, 0.0, -2.0], dtype=torch.float64)
    selection = KeepSelection(torch.tensor([3, 0, 4]), Segments(5), gate)
    pooled = selection.reduce(x)
    torch.testing.assert_close(pooled, x[[3, 0, 4]] * gate[:, None])
    back = selection.lift(pooled)
    wanted = torch.zeros(5, 3, dtype=torch.float64)
    wanted[[3, 0, 4]] = pooled
    torch.testing.assert_close(back, wanted)
    wanted[[3, 0, 4]] = x[[3, 0, 4]]
    wanted[0] = 0  # a closed gate lets nothing back
    torch.testing.assert_close(selection.lift(pooled, pinv=True), wanted)
    s = selection.s.to_dense()
    assert s.shape == (5, 3)
    torch.testing.assert_close(s.T @ x, pooled)
    with pytest.raises(ParameterError, match="num_rows must be given for a padded selection"):
        KeepSelection(torch.tensor([[0]]), Padded(1))
    with pytest.raises(ParameterError, match="graphs of 5 rows, but adj has 9"):
        KeepSelection(torch.tensor([0]), Segments(9), num_rows=5).check(sparse(weighted()))


def test_kept_nodes_of_a_padded_batch():
    x = features(8).view(2, 4, 3)
    index = torch.tensor([[2, 0], [3, 1]])
    mask = torch.tensor([[True, True], [True, False]])
    gate = torch.tensor([[0.5, 2.0], [3.0, 4.0]], dtype=torch.float64)
    selection = KeepSelection(index, Padded(2), gate, mask=mask, num_rows=4)
    pooled = selection.reduce(x)
    wanted = torch.stack([x[0, [2, 0]] * gate[0, :, None], x[1, [3, 1]] * gate[1, :, None]])
    wanted[1, 1] = 0
    torch.testing.assert_close(pooled, wanted)
    assert selection.s.shape == (2, 4, 2)
    torch.testing.assert_close(selection.s.mT @ x, pooled)
    full = torch.ones_like(pooled)
    back = torch.zeros(2, 4, 3, dtype=torch.float64)
    back[0, [2, 0]] = back[1, 3] = 1
    torch.testing.assert_close(selection.lift(full), back)
    gone = x.clone()
    gone[0, [1, 3]] = gone[1, [0, 1, 2]] = 0
    torch.testing.assert_close(selection.lift(pooled, pinv=True), gone)
    assert selection.batch is None
    assert selection.padded


@pytest.mark.parametrize("connect", ["adjacency", "two_hop"])
@pytest.mark.parametrize("make", [TopKPool, SAGPool])
def test_kept_nodes_are_joined_as_they_were(make, connect):
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = make(3, ratio=0.5, connect=connect).double()
    out = pool(x, sparse(a))
    square = a if connect == "adjacency" else a @ a
    kept = out.selection.index
    torch.testing.assert_close(out.adj.to_dense(), square[kept][:, kept])
    score = pool.score(x, sparse(a))
    torch.testing.assert_close(out.x, x[kept] * score[kept][:, None])
    mask = torch.ones(1, 9, dtype=torch.bool)
    mask[0, 8] = False
    padded = pool(x.unsqueeze(0), a.unsqueeze(0), mask=mask)
    kept = padded.selection.index[0][padded.mask[0]]
    assert 8 not in kept.tolist()
    b = a.clone()
    b[8] = b[:, 8] = 0
    square = b if connect == "adjacency" else b @ b
    real = padded.mask[0]
    torch.testing.assert_close(padded.adj.to_dense()[0][real][:, real], square[kept][:, kept])
    assert padded.adj.to_dense()[0][~real].abs().sum() == 0
    assert padded.adj.to_dense()[0][:, ~real].abs().sum() == 0


def test_sizes_of_score_pools():
    for bad in (0, -0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="ratio must be above 0 and at most 1"):
            TopKPool(3, ratio=bad)
    TopKPool(3, ratio=1.0)
    TopKPool(3, ratio=5.0, k=2)
    assert repr(TopKPool(3, k=2)).startswith("TopKPool(\n  3, k=2, connect='adjacency'")
    assert "ratio=0.5" in repr(TopKPool(3))
    assert TopKPool(3).ratio == SAGPool(3).ratio == 0.5


# ----------------------------------------------------------------------------------------- dense poolers


def assignment(pool, x, a) -> torch.Tensor:
    return torch.softmax(pool.logits(x, sparse(a)) / pool.temperature, -1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("make", [MinCutPool, DMoNPool, JustBalancePool, DiffPool])
def test_the_temperature_divides(make, temperature):
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = make(3, 4, temperature=temperature).double()
    torch.testing.assert_close(pool(x, sparse(a)).s, assignment(pool, x, a))
    assert pool.temperature == temperature
    assert make(3, 4).temperature == 1.0


def pooled_graph(s, a) -> torch.Tensor:
    """S'AS without its diagonal, normalised."""
    q = s.T @ a @ s
    q = q - torch.diag(q.diagonal())
    scale = q.sum(1).rsqrt()
    return scale[:, None] * q * scale


def test_mincut_by_its_formulas():
    torch.manual_seed(0)
    a, x = weighted(), features()
    scale = a.sum(1).rsqrt()
    for normalise in (True, False):
        pool = MinCutPool(3, 4, cut_weight=0.3, ortho_weight=0.7, normalise=normalise).double()
        out = pool(x, sparse(a))
        m, s = scale[:, None] * a * scale if normalise else a, assignment(pool, x, a)
        cut = -torch.trace(s.T @ m @ s) / torch.trace(s.T @ torch.diag(m.sum(1)) @ s)
        gram = s.T @ s
        ortho = torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(4) / 2)
        torch.testing.assert_close(out.losses["cut"], 0.3 * cut)
        torch.testing.assert_close(out.losses["ortho"], 0.7 * ortho)
        torch.testing.assert_close(out.loss, 0.3 * cut + 0.7 * ortho)
        torch.testing.assert_close(out.x[0], s.T @ x)
        torch.testing.assert_close(out.adj.to_dense()[0], pooled_graph(s, m))
        plain = MinCutPool(3, 4, normalise=normalise).double()
        plain.load_state_dict(pool.state_dict())
        torch.testing.assert_close(plain(x, sparse(a)).loss, cut + ortho)


def test_dmon_by_its_formulas():
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = DMoNPool(3, 4, spectral_weight=0.3, cluster_weight=0.7, ortho_weight=0.2).double()
    out, s = pool(x, sparse(a)), assignment(pool, x, a)
    d = a.sum(1)
    spectral = -torch.trace(s.T @ (a - torch.outer(d, d) / d.sum()) @ s) / d.sum()
    cluster = 2 / 9 * torch.linalg.norm(s.sum(0)) - 1
    gram = s.T @ s
    ortho = torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(4) / 2)
    torch.testing.assert_close(out.losses["spectral"], 0.3 * spectral)
    torch.testing.assert_close(out.losses["cluster"], 0.7 * cluster)
    torch.testing.assert_close(out.losses["ortho"], 0.2 * ortho)
    torch.testing.assert_close(out.x[0], torch.nn.functional.selu(s.T @ x))
    torch.testing.assert_close(out.adj.to_dense()[0], pooled_graph(s, a))
    plain = DMoNPool(3, 4).double()
    plain.load_state_dict(pool.state_dict())
    assert sorted(plain(x, sparse(a)).losses) == ["cluster", "spectral"]
    torch.testing.assert_close(plain(x, sparse(a)).loss, spectral + cluster)


def test_just_balance_by_its_formula():
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = JustBalancePool(3, 4, balance_weight=0.3).double()
    out, s = pool(x, sparse(a)), assignment(pool, x, a)
    balance = -torch.linalg.norm(s, dim=0).sum() / math.sqrt(36)
    torch.testing.assert_close(out.losses["balance"], 0.3 * balance)
    scale = a.sum(1).rsqrt()
    torch.testing.assert_close(out.adj.to_dense()[0], pooled_graph(s, scale[:, None] * a * scale))
    plain = JustBalancePool(3, 4).double()
    plain.load_state_dict(pool.state_dict())
    torch.testing.assert_close(plain(x, sparse(a)).loss, balance)


@pytest.mark.parametrize("scale", ["undivided", "divided"])
@pytest.mark.parametrize("out_channels", [None, 5])
def test_diffpool_by_its_formulas(scale, out_channels):
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = DiffPool(3, 4, out_channels, link_weight=0.3, entropy_weight=0.7, link_scale=scale).double()
    out, s = pool(x, sparse(a)), assignment(pool, x, a)
    link = torch.linalg.norm(a - s @ s.T) / (81 if scale == "divided" else 1)
    entropy = -(s * s.log()).sum() / 9
    torch.testing.assert_close(out.losses["link"], 0.3 * link)
    torch.testing.assert_close(out.losses["entropy"], 0.7 * entropy)
    z = x if out_channels is None else pool.embed(x, sparse(a))
    torch.testing.assert_close(out.x[0], s.T @ z)
    torch.testing.assert_close(out.adj.to_dense()[0], s.T @ a @ s)
    plain = DiffPool(3, 4, out_channels, link_scale=scale).double()
    plain.load_state_dict(pool.state_dict())
    torch.testing.assert_close(plain(x, sparse(a)).loss, link + entropy)
    assert DiffPool(3, 4).link_scale == "undivided"


def test_assignments_of_diffpool():
    a, x = weighted(), features()
    outs = {}
    for assignment_kind in ("gcn", "skip", "mlp"):
        pool = DiffPool(3, 4, assignment=assignment_kind).double()
        outs[assignment_kind] = torch.equal(pool(x, sparse(a)).s, pool(x, sparse(torch.zeros_like(a))).s)
        before = [p.clone() for p in pool.parameters()]
        pool.reset_parameters()
        assert any(not torch.equal(p, q) for p, q in zip(before, pool.parameters(), strict=True))
    assert outs == {"gcn": False, "skip": False, "mlp": True}, "only the last does not look at the graph"


def test_random_assignments():
    x, op = features(3000), sparse(torch.zeros(3000, 3000))
    draws = [
        torch.randn(1024, 4, generator=torch.Generator().manual_seed(5 * 1_000_003 + b)) for b in range(3)
    ]
    table = torch.cat(draws)[:3000].double()
    pool = RandomPool(4, seed=5)
    torch.testing.assert_close(pool(x, op).s, torch.softmax(table, -1))
    first = torch.softmax(table[:9], -1)
    torch.testing.assert_close(pool(features(), sparse(weighted())).s, first)
    torch.testing.assert_close(RandomPool(4, seed=5)(features(), sparse(weighted())).s, first)
    batched = pool(features(), sparse(weighted(ptr=PTR), BATCH)).s
    torch.testing.assert_close(batched, torch.cat([first[:4], first[:1], first[:4]]))
    hard = RandomPool(4, "hard", 5)(features(), sparse(weighted())).s
    torch.testing.assert_close(hard, torch.eye(4, dtype=torch.float64)[table[:9].argmax(1)])
    uniform = RandomPool(4, "uniform", 5)(features(), sparse(weighted())).s
    numbers = torch.distributions.Normal(0.0, 1.0).cdf(table[:9])
    torch.testing.assert_close(uniform, numbers / numbers.sum(1, keepdim=True))
    mask = torch.tensor([[True, True, False]])
    for kind in ("normal", "hard", "uniform"):
        s = RandomPool(4, kind, 5)(torch.rand(1, 3, 2), torch.zeros(1, 3, 3), mask=mask).s
        assert (s[0, 2] == 0).all()
        torch.testing.assert_close(s[0, :2].sum(-1), torch.ones(2))
    assert random_module._BLOCK == 1024
    assert not torch.equal(RandomPool(4, seed=1)(features(), sparse(weighted())).s, first)
