"""What a search for communities found: the scales that were compared, and nested levels. Loads no compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from softcut.errors import require

NEAR = 2 / 3  # share of the highest score that is nearly the best


class Columns:
    """A table whose columns are the fields of a dataclass: `table.size`, `table["size"]`, `table.to_frame()`."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(name)
        return getattr(self, name)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [each.name for each in fields(self) if each.metadata.get("column", True)]  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self[self.columns[0]])

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row after another, of plain numbers."""
        for values in zip(*(self[name].tolist() for name in self.columns), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def to_frame(self) -> Any:
        """A pandas data frame with these columns."""
        pandas = require("pandas", "tables", "to_frame")
        return pandas.DataFrame({name: self[name] for name in self.columns})

    def __repr__(self) -> str:
        lines = ["  ".join(f"{name:>10}" for name in self.columns)]
        for row in self.rows():
            cells = (f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values())
            lines.append("  ".join(f"{cell:>10}" for cell in cells))
        return "\n".join(lines)


@dataclass(frozen=True, repr=False, eq=False)
class Scales(Columns):
    """The resolutions that were compared; each column has one value per resolution.

    `modularity` and `random` are at that resolution: of the graph, and the mean of random graphs. `agreement` is the
    mean adjusted Rand index between communities from several seeds.
    """

    resolution: np.ndarray
    number: np.ndarray
    modularity: np.ndarray
    random: np.ndarray
    agreement: np.ndarray
    given: int | None = field(default=None, metadata={"column": False})  # the row that was asked for, if any

    @property
    def score(self) -> np.ndarray:
        """(modularity - random) * agreement: the chosen resolution has the highest."""
        surplus = np.maximum(self.modularity - self.random, 0.0)
        return surplus * np.maximum(self.agreement, 0.0) * (self.number > 1)

    @property
    def chosen(self) -> int:
        """Which row is the chosen one: the highest score.

        Below resolution 1, which is what modularity without a resolution means, the finest one up to it that has at
        least two thirds of the highest score.
        """
        if self.given is not None:
            return self.given
        score = self.score
        near = np.flatnonzero((score >= NEAR * score.max()) & (self.resolution <= 1))
        return max(int(score.argmax()), int(near.max(initial=0)))

    def at(self, resolution: float) -> Scales:
        """The same with the row of a resolution as the chosen one."""
        return replace(self, given=int(np.abs(self.resolution - resolution).argmin()))

    def plot(self, path: Any = None) -> Any:
        """A picture of modularity, that of random graphs and their product with agreement, over the resolution."""
        from softcut.communities.scales_plot import draw_scales

        return draw_scales(self, path)


@dataclass(frozen=True, repr=False, eq=False)
class Tree(Columns):
    """Nested communities, a row each: coarse levels first, the largest community of a level first.

    `parent` is the id of the community one level above that holds it, -1 at the coarsest level; `inside` the share of
    the weight of its edges that stays inside.
    """

    level: np.ndarray
    id: np.ndarray
    parent: np.ndarray
    size: np.ndarray
    inside: np.ndarray


def tree_of(levels: np.ndarray, inside: list[np.ndarray]) -> Tree:
    """The tree of nested labels [L, N], coarse to fine; -1: a node in none. `inside` has the shares of each level.

    >>> tree_of(np.array([[0, 0, 0, 1], [1, 0, 0, 2]]), [np.array([0.9, 0.5]), np.array([0.5, 0.5, 0.5])]).parent
    array([-1, -1,  0,  0,  1])
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("level", "id", "parent", "size", "inside")}
    for depth, labels in enumerate(levels):
        placed = labels >= 0
        size = np.bincount(labels[placed])
        used = np.flatnonzero(size)
        parent = np.full(len(size), -1)
        if depth:
            parent[labels[placed]] = levels[depth - 1][placed]
        parts["level"].append(np.full(len(used), depth))
        parts["id"].append(used)
        parts["parent"].append(parent[used])
        parts["size"].append(size[used])
        parts["inside"].append(inside[depth][used])
    return Tree(**{name: np.concatenate(each) for name, each in parts.items()})


def inside_shares(adjacency: Any, labels: np.ndarray) -> np.ndarray:
    """Share of the weight of each community's edges that stays inside; 0 for one without edges. -1: in none."""
    k = int(labels.max(initial=-1)) + 1
    rows = np.repeat(np.arange(len(labels)), np.diff(adjacency.indptr))
    own, other, weight = labels[rows], labels[adjacency.indices], adjacency.data.astype(np.float64)
    placed, same = own >= 0, (own >= 0) & (own == other)
    total = np.bincount(own[placed], weight[placed], minlength=k)
    inside = np.bincount(own[same], weight[same], minlength=k)
    return np.divide(inside, total, out=np.zeros(k), where=total > 0)
