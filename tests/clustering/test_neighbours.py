"""Neighbours found cell by cell, against all pairs."""

from __future__ import annotations

import pytest
import torch

from softcut.clustering import neighbours
from softcut.clustering.kmeans import group_sums
from softcut.clustering.neighbours import cell_neighbours, exact_neighbours, feature_graph


def noise(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def groups(rows: int, columns: int, count: int) -> torch.Tensor:
    """Rows around some centres."""
    return 3 * noise(count, columns, 1)[torch.arange(rows) % count] + noise(rows, columns, 2)


def recall(z: torch.Tensor, index: torch.Tensor) -> float:
    """Share of the found rows that are at least as similar as the true last one."""
    z = torch.nn.functional.normalize(z, dim=1)
    least = exact_neighbours(z, index.shape[1])[0][:, -1:]
    found = torch.einsum("nkf,nf->nk", z[index], z)
    return float((found >= least - 1e-6).float().mean())


def test_noise_of_five_thousand_rows_is_searched_exactly():
    z = noise(5000, 64)
    _, index = cell_neighbours(z, 15)
    assert recall(z, index) == 1.0


@pytest.mark.parametrize(
    ("z", "candidates", "least"),
    [(groups(3000, 32, 40), 400, 0.97), (noise(3000, 5), 400, 0.95), (noise(3000, 64), 1500, 0.7)],
)
def test_most_of_the_true_neighbours_are_found(z, candidates, least):
    value, index = cell_neighbours(z, 10, candidates=candidates)
    assert recall(z, index) >= least
    rows = torch.arange(len(z)).unsqueeze(1)
    assert (index != rows).all(), "no row is its own neighbour"
    assert all(len(set(row)) == 10 for row in index.tolist())
    cosine = torch.nn.functional.cosine_similarity(z[index], z[rows], dim=-1)
    torch.testing.assert_close(value, cosine, atol=1e-5, rtol=0)


def test_each_row_is_compared_with_about_as_many_as_asked_for(monkeypatch):
    compared = []
    real = neighbours._largest
    monkeypatch.setattr(
        neighbours, "_largest", lambda block, k: compared.append(block.numel()) or real(block, k)
    )
    cell_neighbours(groups(4000, 16, 30), 5, candidates=500)
    assert 400 < sum(compared) / 4000 < 700


def test_the_search_repeats_and_depends_on_the_seed():
    z = noise(3000, 16)
    first, second, other = (cell_neighbours(z, 5, candidates=300, random_state=s)[1] for s in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_many_equal_rows_are_cut_into_several_cells():
    z = noise(3000, 8)
    z[:1500] = 0  # no direction at all: they all lie in one cell
    z[1500:2500] = z[1500]
    value, _ = cell_neighbours(z, 5, candidates=200)
    assert (value[:1500] == 0).all()
    torch.testing.assert_close(value[1500:2500], torch.ones(1000, 5))
    cells = neighbours._Cells(torch.nn.functional.normalize(z, dim=1), 100, 0)
    assert int(cells.sizes.max()) <= 60 and int(cells.sizes.min()) > 0
    assert cells.sizes.sum() == 3000
    assert torch.equal(cells.starts, cells.sizes.cumsum(0) - cells.sizes)
    assert torch.equal(cells.order.sort().values, torch.arange(3000))


def test_all_pairs_of_a_large_graph(monkeypatch):
    z = noise(700, 4)
    wanted = exact_neighbours(z, 5)
    monkeypatch.setattr(neighbours, "LARGE", 600)
    found = exact_neighbours(z, 5)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("columns", [640, 1000, 1001])
def test_the_largest_of_long_rows_in_two_steps(columns):
    block = noise(50, columns)
    value, index = neighbours._largest(block, 5)
    wanted = block.topk(5, dim=1)
    assert torch.equal(value, wanted.values)
    assert torch.equal(index, wanted.indices)


def test_the_approximate_feature_graph_of_a_batch_stays_within_its_graphs(monkeypatch):
    monkeypatch.setitem(neighbours.CANDIDATES, "cpu", 60)
    z = noise(330, 4)
    ptr = [0, 300, 324, 330]  # the last two are searched exactly
    near, exact = (feature_graph(z, 5, ptr=ptr, approximate=a).to_dense() for a in (True, False))
    torch.testing.assert_close(near[300:, 300:], exact[300:, 300:])
    assert not near[:300, 300:].any() and not near[300:324, 324:].any()
    assert torch.equal(near, near.T)
    both = (near > 0) & (exact > 0)
    torch.testing.assert_close(near[both], exact[both])
    assert both.sum() > 0.8 * (exact > 0).sum()


def test_sums_of_many_groups():
    x, labels = noise(200, 3).double(), torch.randint(7, (200,), generator=torch.Generator().manual_seed(3))
    labels[labels == 4] = 5  # an empty group
    counts, sums = group_sums(x, labels, 7)
    indicator = torch.nn.functional.one_hot(labels, 7).double()
    assert torch.equal(counts, indicator.sum(0).long())
    torch.testing.assert_close(sums, indicator.T @ x)
