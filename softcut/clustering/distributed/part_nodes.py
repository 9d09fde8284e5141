"""The nodes of a graph that processes share: samples of them, sums over all, and numbers that all processes have."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.nodes import Nodes, sample_rows
from softcut.io.part_files import Manifest, Part
from softcut.ops.halo import Group

__all__ = ["PartNodes"]


class PartNodes(Nodes):
    """All nodes of a graph in parts, of which this process has some; every process must call the same methods.

    Parameters
    ----------
    part : Part
        The nodes of this process.
    manifest : Manifest
        How many there are in all.
    group : Group
        The processes.
    """

    def __init__(self, part: Part, manifest: Manifest, group: Group) -> None:
        super().__init__(manifest.nodes)
        self.here, self.group = max(manifest.rows), group
        self._own = np.asarray(part.nodes)
        self._places: dict[int, tuple[int, Tensor, Tensor]] = {}

    def sample(self, rows: Tensor, most: int) -> Tensor:
        size, mine, place = self._of_sample(most)
        out = rows.new_zeros(size, *rows.shape[1:])
        out[place.to(rows.device)] = rows[mine.to(rows.device)]
        return self.group.all_reduce(out)  # every row is there once: the sum is the row

    def _of_sample(self, most: int) -> tuple[int, Tensor, Tensor]:
        """Rows of the sample, which of the own nodes are in it, and where."""
        if most not in self._places:
            chosen = sample_rows(self.count, most).numpy()
            place = np.searchsorted(chosen, self._own)
            mine = np.flatnonzero(chosen[np.minimum(place, len(chosen) - 1)] == self._own)
            self._places[most] = len(chosen), torch.from_numpy(mine), torch.from_numpy(place[mine])
        return self._places[most]

    def total(self, values: Tensor) -> Tensor:
        return self.group.all_reduce(values.clone(memory_format=torch.contiguous_format))

    def agreed(self, values: Tensor) -> Tensor:
        # The others add zeros: all have the numbers of process 0, on unlike machines too.
        own = values if self.group.rank == 0 else torch.zeros_like(values)
        return self.total(own)
