"""Processes that are threads of one process: the exchange of rows and sums, without torch.distributed."""

import ast
import copy
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.distributed import JobGroup
from softcut.clustering.distributed.group import packed, unpacked
from softcut.io.part_files import Part, open_part, write_parts

# A thread that fails leaves the others waiting; they give up after this many seconds.
_WAIT = 20


class ThreadGroup(JobGroup):
    """One of several threads; what each lays on the table, all can read after the barrier."""

    def __init__(self, rank: int, table: list[Any], barrier: threading.Barrier | None) -> None:
        super().__init__(rank, len(table))
        self._table, self._barrier = table, barrier

    def gather(self, value: Any) -> list[Any]:
        return [unpacked(each) for each in self._laid(packed(value))]

    def _laid(self, value: Any) -> list[Any]:
        self._table[self.rank] = value
        self._barrier.wait(_WAIT)
        seen = copy.deepcopy(self._table)  # as if it had been sent
        self._barrier.wait(_WAIT)
        return seen

    def add_up(self, values: Tensor) -> Tensor:
        return torch.stack(self._laid(values.clone())).sum(0)

    def deliver(self, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        pieces = [each[self.rank] for each in self._laid(rows.clone().split(send))]
        assert [len(piece) for piece in pieces] == receive
        return torch.cat(pieces)


def in_parts(parts: int, work: Callable[[ThreadGroup], Any]) -> list[Any]:
    """What `work` returns in each of `parts` threads that run together."""
    barrier, table = threading.Barrier(parts), [None] * parts

    def run(rank: int) -> Any:
        try:
            return work(ThreadGroup(rank, table, barrier))
        except BaseException:
            barrier.abort()
            raise

    # numpy.load parses headers with ast, which Python 3.11 cannot do in two threads at once.
    lock, parse = threading.Lock(), ast.parse

    def parse_alone(*source: Any, **options: Any) -> ast.AST:
        with lock:
            return parse(*source, **options)

    with patch("ast.parse", parse_alone), ThreadPoolExecutor(parts) as pool:
        futures = [pool.submit(run, rank) for rank in range(parts)]
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error  # the one that broke the barrier, not those who found it broken
        return [future.result() for future in futures]


def parts_of(matrix: Tensor, owner: np.ndarray, **extra: Any) -> list[Part]:
    """The parts of a small dense matrix, written and read again."""
    adjacency = sp.csr_array(matrix.numpy())
    with tempfile.TemporaryDirectory() as folder:
        write_parts(Path(folder, "parts"), adjacency, owner, **extra)
        return [open_part(Path(folder, "parts"), p) for p in range(int(owner.max()) + 1)]
