"""Replicas in two groups, trained side by side by two threads.

A replica follows the path it would follow alone, so groups need not wait for each other at every operation, as the
threads of a single product do. Groups depend on sizes only, never on the number of cores: a fit gives the same result
with one core and with eight.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch

from softcut.device import shared_threads
from softcut.training.net import ReplicaNet
from softcut.training.task import Progress, TrainResult, held

# Numbers (rows x replicas x units) from which two groups pay: in smaller trainings the time goes to Python, of which
# one thread runs at a time.
_SMALLEST = 1 << 19
_WAIT = 0.1  # seconds between two looks for Ctrl-C, which some systems only notice between waits

# Trains a net that holds some of the replicas, those of the slice, and tells its progress.
Train = Callable[[ReplicaNet, slice, Callable[[Progress], None]], TrainResult]


def groups_pay(net: ReplicaNet, rows: int) -> bool:
    """Whether a training of so many rows is faster in two groups."""
    large = rows * net.replicas * (net.hidden + net.k) >= _SMALLEST
    return large and net.replicas > 1 and not net.bias.is_cuda


def train_in_groups(
    net: ReplicaNet, train: Train, callback: Callable[[Progress], None] | None = None
) -> TrainResult:
    """Train both halves of the replicas at a time; `net` is changed in place, `callback` is called in this thread."""
    half = -(-net.replicas // 2)
    places = [slice(0, half), slice(half, net.replicas)]
    parts = [net.keep(range(net.replicas)[place]) for place in places]
    stop = threading.Event()
    told: queue.Queue[tuple[int, Progress | None]] = queue.Queue()

    def run(i: int) -> TrainResult:
        def tell(progress: Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt  # ends this training; what it has learnt is kept
            if callback is not None:
                active = tuple(places[i].start + r for r in progress.active)
                _copy(progress.net, net, active)
                told.put((i, replace(progress, active=active, net=net)))

        try:
            return train(parts[i], places[i], tell)
        except BaseException:
            stop.set()
            raise
        finally:
            told.put((i, None))

    with shared_threads(len(parts)), ThreadPoolExecutor(len(parts)) as pool:
        runs = [pool.submit(run, i) for i in range(len(parts))]
        try:
            for progress in _merged(told, len(parts)):
                assert callback is not None
                callback(progress)
        except KeyboardInterrupt:
            stop.set()
        except BaseException:
            stop.set()
            raise
    results = [each.result() for each in runs]
    for part, place in zip(parts, places, strict=True):
        _copy(part, net, range(net.replicas)[place])
    iterations = max(each.iterations for each in results)
    cut, ortho = (
        np.concatenate([held(getattr(each, name), iterations) for each in results], axis=1)
        for name in ("cut", "ortho")
    )
    converged = all(each.converged for each in results)
    return TrainResult(cut, ortho, iterations, converged, stop.is_set())


@torch.no_grad()
def _copy(part: ReplicaNet, net: ReplicaNet, replicas: Sequence[int]) -> None:
    """The parameters of a part, which are those of some replicas, into the whole net."""
    for name, whole in net.named_parameters():
        whole[list(replicas)] = part.get_parameter(name)


def _merged(told: queue.Queue[tuple[int, Progress | None]], groups: int) -> Iterator[Progress]:
    """The progress of all replicas, whenever the slowest group has come further; ends with the last group."""
    last: dict[int, Progress] = {}
    running, done = set(range(groups)), 0
    while running:
        try:
            i, progress = told.get(timeout=_WAIT)
        except queue.Empty:
            continue
        if progress is None:
            running.discard(i)
        else:
            last[i] = progress
        if len(last) < groups:
            continue
        behind = [last[i].iteration for i in running]
        iteration = min(behind) if running else max(each.iteration for each in last.values())
        if iteration > done:
            done = iteration
            both = [last[i] for i in range(groups)]
            cut, ortho = (np.concatenate([getattr(each, name) for each in both]) for name in ("cut", "ortho"))
            active = tuple(r for i in sorted(running) for r in last[i].active)
            left = max((last[i].seconds_left for i in running), default=0.0)
            yield replace(
                both[0], iteration=iteration, cut=cut, ortho=ortho, active=active, seconds_left=left
            )
