"""k-means on any device: all restarts are columns of one matrix product."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Numbers in a table of restarts, clusters and points; more restarts are done one table after another.
_NUMBERS_AT_ONCE = 1 << 25
_TRIAL = 10  # iterations after which the best starts are chosen


class KMeansResult(NamedTuple):
    """Labels [N], centres [K, F], and the sum of squared distances to them."""

    labels: Tensor
    centres: Tensor
    inertia: float


def squared_distances(x: Tensor, centres: Tensor) -> Tensor:
    """|x|^2 - 2 x c' + |c|^2, never negative."""
    cross = x @ centres.mT
    return (x.square().sum(1, keepdim=True) - 2 * cross + centres.square().sum(1)).clamp(min=0)


def assign(x: Tensor, centres: Tensor) -> Tensor:
    """Number of the nearest centre of each row, [B, N], for B sets of centres [B, K, F]."""
    return _scores(x, centres).min(1).indices  # argmin takes eight times as long


def kmeans(
    x: Tensor,
    k: int,
    *,
    n_init: int = 20,
    max_iter: int = 100,
    finalists: int | None = None,
    also: Tensor | None = None,
    random_state: int = 0,
) -> KMeansResult:
    """Lloyd's algorithm from `n_init` k-means++ starts of x [N, F]; the best of them.

    After ten iterations only the best `finalists` (by default all) go on. Random numbers are drawn on the CPU. `also`
    are labels [N] of clusters whose centres are one more start.
    """
    some = finalists is not None and finalists < n_init and max_iter > _TRIAL
    first = _TRIAL if some else max_iter
    _, centres = kmeans_restarts(x, k, n_init, max_iter=first, random_state=random_state)
    inertia = inertias(x, centres)
    if some:
        best_ones = inertia.argsort(stable=True)[:finalists]
        rest = max_iter - first
        _, centres = kmeans_restarts(x, k, len(best_ones), max_iter=rest, start=centres[best_ones])
        inertia = inertias(x, centres)
    if also is not None:
        counts, sums = _group(x, also.unsqueeze(0), k)
        start = sums / counts.clamp(min=1).unsqueeze(-1)
        centres = torch.cat([centres, kmeans_restarts(x, k, 1, max_iter=max_iter, start=start)[1]])
        inertia = inertias(x, centres)
    best = int(inertia.argmin())
    labels = squared_distances(x, centres[best]).min(1).indices
    return KMeansResult(labels, centres[best], float(inertia[best]))


def inertias(x: Tensor, centres: Tensor) -> Tensor:
    """Sums of squared distances [B] from x [N, F] to the nearest of centres [B, K, F]."""
    parts = centres.split(_at_once(x, centres.shape[1]))
    nearest = torch.cat([_scores(x, part).amin(1) for part in parts])
    return (nearest + x.square().sum(1)).clamp(min=0).sum(1)


def kmeans_restarts(
    x: Tensor,
    k: int,
    restarts: int,
    *,
    max_iter: int = 100,
    least: float = 0.0,
    random_state: int = 0,
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Labels [restarts, N] and centres [restarts, K, F] of every restart, from `start` or where k-means++ puts them.

    A cluster that shrinks below `least` points gives up its centre for a random point, during the first half of the
    iterations: no centre is spent on a few outliers while there is a better use for it.
    """
    generator = torch.Generator().manual_seed(random_state)
    centres = _plus_plus(x, k, restarts, generator) if start is None else start.clone()
    labels = torch.full((restarts, x.shape[0]), -1, device=x.device)
    active = torch.arange(restarts, device=x.device)
    early = max_iter // 2 if least > 0 else 0
    draws = torch.rand(early, restarts, k, generator=generator, dtype=torch.float64).to(x.device)
    for iteration in range(max_iter):
        part = centres if len(active) == restarts else centres[active]
        new, counts, sums = _step(x, part)
        moved = (new != labels[active]).any(1)
        labels[active] = new
        # A centre that lost all its points stays where it is.
        size = counts.unsqueeze(-1)
        updated = torch.where(size > 0, sums / size, part)
        if iteration < early:
            small = counts < least
            points = x[(draws[iteration, active] * x.shape[0]).long()]
            updated = torch.where(small.unsqueeze(-1), points, updated)
            moved |= small.any(1)
        centres[active] = updated
        active = active[moved]
        if not len(active):
            break
    return labels, centres


def _at_once(x: Tensor, k: int) -> int:
    """Restarts whose distances to all points are held at a time."""
    return max(1, _NUMBERS_AT_ONCE // (x.shape[0] * k))


def _step(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest centre of every point [B, N], and what :func:`_group` says of these clusters."""
    parts = centres.split(_at_once(x, centres.shape[1]))
    if len(parts) > 1:
        labels, counts, sums = map(torch.cat, zip(*(_step(x, part) for part in parts), strict=True))
        return labels, counts, sums
    labels = assign(x, centres)
    return labels, *_group(x, labels, centres.shape[1])


def _scores(x: Tensor, centres: Tensor) -> Tensor:
    """|c|^2 - 2 x c' for every restart: [B, K, N]; one matrix product for all of them."""
    b, k, f = centres.shape
    flat = centres.reshape(b * k, f)
    return torch.addmm(flat.square().sum(1, keepdim=True), flat, x.mT, alpha=-2).view(b, k, -1)


def _group(x: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Size [B, K] and sum [B, K, F] of each cluster, as a product with indicators."""
    b, n = labels.shape
    indicator = x.new_zeros(b, k, n).scatter_(1, labels.unsqueeze(1), 1.0)
    return indicator.sum(-1), (indicator.view(b * k, n) @ x).view(b, k, -1)


def _plus_plus(x: Tensor, k: int, restarts: int, generator: torch.Generator) -> Tensor:
    """k-means++ seeding of all restarts: each next centre is drawn with probability d^2."""
    n, norm = x.shape[0], x.square().sum(1)

    def distance_to(points: Tensor) -> Tensor:  # [B, N]
        return (points.square().sum(1, keepdim=True) - 2 * points @ x.mT + norm).clamp(min=0)

    draws = torch.rand(k, restarts, generator=generator, dtype=torch.float64)
    chosen = [x[(draws[0] * n).long().to(x.device)]]
    closest = distance_to(chosen[0])
    for i in range(1, k):
        total = closest.double().cumsum(1)
        target = draws[i].to(x.device).unsqueeze(1) * total[:, -1:]
        chosen.append(x[torch.searchsorted(total, target).squeeze(1).clamp(max=n - 1)])
        closest = torch.minimum(closest, distance_to(chosen[-1]))
    return torch.stack(chosen, dim=1)
