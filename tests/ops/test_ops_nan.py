"""NaN stays NaN in every loss, of its own graph alone; graphs without nodes do not count in a mean."""

import pytest
import torch

from softcut import ops
from softcut.nn import get_pool
from softcut.ops import OBJECTIVES

# Four graphs of 3, 0, 4 and 2 nodes; the last one has no edge.
BATCH = torch.tensor([0, 0, 0, 2, 2, 2, 2, 3, 3])
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6, 4, 5], [1, 0, 2, 1, 4, 3, 6, 5, 5, 4]])
NODES = {0: torch.arange(3), 2: torch.arange(3, 7), 3: torch.arange(7, 9)}
LOSSES = (
    *(ops.mincut_loss, ops.ratio_trace_loss, ops.orthogonality_loss, ops.dmon_loss, ops.just_balance_loss),
    ops.evidence_loss,
)
POOLS = [
    *(("mincut", {"objective": name}) for name in OBJECTIVES),
    ("dmon", {"ortho_weight": 1.0}),
    *(("justbalance", {}), ("diffpool", {}), ("diffpool", {"link_scale": "divided"})),
]


def inputs(columns: int = 3) -> torch.Tensor:
    return torch.rand(9, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def padded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same batch with all graphs padded to five nodes: features, A and mask."""
    rows, a, mask = x.new_zeros(4, 5, x.shape[1]), x.new_zeros(4, 5, 5), torch.zeros(4, 5, dtype=torch.bool)
    whole = x.new_zeros(9, 9)
    whole[EDGES[0], EDGES[1]] = 1.0
    for graph, own in NODES.items():
        n = len(own)
        rows[graph, :n], a[graph, :n, :n], mask[graph, :n] = x[own], whole[own][:, own], True
    return rows, a, mask


def check(per_graph, per_graph_with_nan, mean):
    """Graph 2 of the second holds NaN, and nothing else changes; the mean of the first is over three graphs."""
    assert per_graph.isfinite().all() and per_graph[1] == 0
    assert per_graph_with_nan.isnan().tolist() == [False, False, True, False]
    others = torch.tensor([0, 1, 3])
    torch.testing.assert_close(per_graph_with_nan[others], per_graph[others])
    torch.testing.assert_close(mean, per_graph.sum() / 3)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("dense", [False, True], ids=["ragged", "padded"])
def test_losses(loss, dense):
    s = inputs().softmax(-1)
    broken = s.clone()
    broken[4] = torch.nan

    def measure(s, reduction):
        if dense:
            rows, a, mask = padded(s)
            return loss(rows, a, mask=mask, reduction=reduction)
        return loss(s, EDGES, batch=BATCH, reduction=reduction)

    check(measure(s, "none"), measure(broken, "none"), measure(s, "mean"))
    assert measure(broken, "mean").isnan()


@pytest.mark.parametrize(("name", "options"), POOLS, ids=str)
@pytest.mark.parametrize("dense", [False, True], ids=["ragged", "padded"])
def test_layers(name, options, dense):
    torch.manual_seed(0)
    pool = get_pool(name, in_channels=5, k=3, **options).double()
    x = inputs(5).requires_grad_()
    broken = x.detach().clone()
    broken[4, 2] = torch.nan

    def call(x):
        if dense:
            rows, a, mask = padded(x)
            return pool(rows, a, mask=mask)
        return pool(x, EDGES, batch=BATCH)

    out, hurt = call(x), call(broken)
    for loss in out.losses:
        check(out.graph_losses[loss], hurt.graph_losses[loss], out.losses[loss])
        assert hurt.losses[loss].isnan()
    assert hurt.operator.to_dense().isnan().flatten(1).any(1).tolist() == [False, False, True, False]
    out.loss.backward()
    assert x.grad.isfinite().all() and all(p.grad.isfinite().all() for p in pool.parameters())


def test_a_batch_of_empty_graphs_has_losses_of_zero():
    mask = torch.zeros(2, 3, dtype=torch.bool)
    out = get_pool("mincut", in_channels=5, k=2)(torch.rand(2, 3, 5), torch.rand(2, 3, 3), mask=mask)
    assert [value.item() for value in out.losses.values()] == [0.0, 0.0]
