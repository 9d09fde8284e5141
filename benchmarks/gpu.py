"""Times on a GPU: the paper's model on Cora, and the default fit of the five data sets.

python benchmarks/gpu.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from softcut import GraphClustering
from softcut.datasets import load
from softcut.metrics import nmi
from softcut.paper.citation import paper_replicas
from softcut.training import replica_seeds


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of some work on the GPU, and its seconds."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    cora = load("cora", self_loops="keep")
    seeds = replica_seeds(0, 10)
    paper_replicas(cora, 7, seeds, max_iter=50, device="cuda")  # warm up
    (s, _, _), seconds = timed(lambda: paper_replicas(cora, 7, seeds, device="cuda"))
    scores = [nmi(cora.y, labels) for labels in s.argmax(-1).mT.cpu().numpy()]
    print(
        f"ten runs of 10,000 iterations on Cora: {seconds:.2f} s, NMI {np.mean(scores):.3f} ± {np.std(scores):.3f}"
    )
    first, second = (paper_replicas(cora, 7, seeds, max_iter=500, device="cuda")[0] for _ in range(2))
    print("repeats to the bit:", torch.equal(first, second))
    for name in ("cora", "citeseer", "pubmed", "photo", "computers"):
        graph = load(name)
        k = len(np.unique(graph.y))
        GraphClustering(k, device="cuda", max_iter=5).fit(graph)  # warm up
        est, seconds = timed(lambda graph=graph, k=k: GraphClustering(k, device="cuda").fit(graph))
        print(f"default fit of {name}: {seconds:.2f} s, NMI {nmi(graph.y, est.soft_.argmax(1)):.3f}")


if __name__ == "__main__":
    main()
