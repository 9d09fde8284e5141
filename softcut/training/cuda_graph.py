"""The same step many times: ordinary calls on a CPU, replays of one CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

__all__ = ["repeat"]

_WARM = 3  # ordinary steps before a capture: allocations and lazy initialisation happen in these


def repeat(step: Callable[[], object], times: int, capture: bool = False) -> Iterator[None]:
    """Call `step` `times` times, yielding after each.

    With `capture` (on a CUDA device), the fourth and later ones are replays of a CUDA graph. Whatever the
    step reads or writes must then live in fixed tensors, its optimiser must be `capturable`, and gradients
    must be zeroed, not dropped.

    >>> done = []
    >>> for _ in repeat(lambda: done.append(len(done)), 3):
    ...     pass
    >>> done
    [0, 1, 2]
    """
    if not capture:
        for _ in range(times):
            step()
            yield
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(min(_WARM, times)):
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)  # whoever looks after this step sees it done
        yield
    if times > _WARM:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(times - _WARM):
            graph.replay()
            yield
