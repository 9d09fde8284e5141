"""Products with a matrix that passes through the device in blocks."""

from pathlib import Path

import pytest
import torch

from softcut.clustering.node_features import propagate
from softcut.datasets import power_law_graph
from softcut.ops import CSR


@pytest.mark.parametrize("entries", [1, 7, 10_000])
def test_blocks_give_the_product_and_the_propagation_of_the_whole(entries: int, monkeypatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from streams import product_in_blocks, propagate_in_blocks

    op = CSR.from_graph(power_law_graph(60, 200, 3, 0, seed=0))  # with nodes without edges
    x = torch.randn(60, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(product_in_blocks(op.pattern, x, entries), op @ x)
    propagated = propagate_in_blocks(op.pattern, x, 3, "cpu", columns=2, entries=entries, rows=11)
    torch.testing.assert_close(propagated, propagate(op, x, 3))
    torch.testing.assert_close(propagate_in_blocks(op.pattern, x, 0, "cpu"), x)
