"""The paper's architectures with every pooler."""

import pytest
import torch
from test_pool_api import GRAPHS, F, collate

from softcut.datasets import ring_graph
from softcut.nn import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
from softcut.nn.models import CLUSTERERS
from softcut.nn.pool import POOLS

WHOLE = tuple(t if t.dtype == torch.long else t.float() for t in collate(GRAPHS))


@pytest.mark.parametrize("pool", POOLS)
def test_classifier_and_regressor(pool: str) -> None:
    torch.manual_seed(0)
    for model, width in (
        (GraphClassifier(F, 3, pool, k=(4, 2)), 3),
        (GraphRegressor(F, pool=pool, k=4), 1),
    ):
        out = model(*WHOLE)
        assert out.y.shape == (len(GRAPHS), width)
        (out.y.square().mean() + out.loss).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        assert len(out.pooled) == len(model.pools)
        assert all(p.dim() >= 1 for p in model.kernels())
        assert not any(p is model.head.weight for p in model.kernels())


@pytest.mark.parametrize("pool", CLUSTERERS)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_clusterer(pool: str, layers: int) -> None:
    out = NodeClusterer(F, 3, layers=layers, pool=pool)(*WHOLE)
    assert out.s.shape == (len(WHOLE[0]), 3)
    torch.testing.assert_close(out.s.sum(1), torch.ones(len(WHOLE[0])))


@pytest.mark.parametrize("pool", POOLS)
def test_nothing_passes_around_the_bottleneck(pool: str) -> None:
    """With the pooled features erased, the reconstruction cannot depend on the input."""
    graph = ring_graph(40)
    torch.manual_seed(0)
    model = GraphAutoencoder(2, pool, k=10)
    model.pool.lift = lambda x_pool, selection, pinv=False: torch.zeros(40, 32)  # type: ignore[method-assign]
    one = model(torch.rand(40, 2), graph).x
    two = model(torch.rand(40, 2), graph).x
    assert torch.equal(one, two)
