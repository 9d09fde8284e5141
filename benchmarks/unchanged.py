"""Do trainings give the same numbers as in another checkout? 50 steps in float64, compared to the last digits.

    python benchmarks/unchanged.py PATH_OF_ANOTHER_CHECKOUT

Both checkouts run the same script in a process of their own; what differs by more than 1e-9 is named, and the exit
code is 1. Covered: the clustering network (both objectives, dense, sparse and several scales of features, random and
given starts), the paper's clusterer, DiffPool and DMoN as clusterers, and the autoencoder with every pooler.

Adam's fused kernel rounds the last digit differently from the plain one, and where a gradient is zero up to rounding
Adam makes that visible (7e-9 after 50 steps of the NDP autoencoder). Both checkouts therefore use the plain one here,
unless ``--fused`` is given.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LIMIT = 1e-9

# Run in each checkout. float32, where the library fixes it, is replaced by float64 before softcut is imported.
SCRIPT = """
import sys
import numpy as np
import torch

torch.float32 = torch.float64
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

if sys.argv[2] == "plain":
    make = torch.optim.Adam.__init__

    def make_plain(self, *arguments, fused=None, **options):
        make(self, *arguments, **options)

    torch.optim.Adam.__init__ = make_plain

import softcut

assert softcut.__file__.startswith(sys.argv[3]), softcut.__file__
from softcut.baselines import diffpool_replicas, dmon_replicas
from softcut.datasets import attributed_communities, grid_graph, ring_graph
from softcut.ops import CSR, OBJECTIVES
from softcut.paper import autoencoder
from softcut.paper.citation import paper_replicas
from softcut.training import ConvInput, DenseInput, ReplicaNet, TrainSettings, replica_seeds, train

steps, outcomes = int(sys.argv[4]), {}
graph = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=1)
op = CSR.from_graph(graph, dtype=torch.float64)
generator = torch.Generator().manual_seed(0)
scaled = torch.randn(2, graph.num_nodes, 5, dtype=torch.float64, generator=generator)
labels = torch.randint(0, 3, (4, graph.num_nodes), generator=generator)
sizes = torch.stack([torch.bincount(row, minlength=3) for row in labels]).double()
inputs = {
    "dense, two scales": (DenseInput(scaled), [0, 0, 1, 1]),
    "sparse features": (ConvInput(op, graph.x, dtype=torch.float64, columns=1), [0, 0, 0, 0]),
}
for name, (layer, scales) in inputs.items():
    for objective in ("mincut", "ratio_trace"):
        for start in (False, True):
            net = ReplicaNet(
                layer.in_channels, 3, replica_seeds(5, 4), hidden=4, terms=layer.terms, scales=scales,
                dtype=torch.float64,
            )
            given = {"start": labels, "sizes": sizes} if start else {}
            settings = TrainSettings(iterations=steps, tolerance=None, lr=1e-2, objective=objective, start=10)
            result = train(net, layer, op, settings, **given)
            said = objective if objective == "ratio_trace" else "mincut"
            key = f"{name}, {said}, {'given' if start else 'random'} start"
            outcomes[key + ": losses"] = np.stack([result.cut, result.ortho])
            outcomes[key + ": parameters"] = np.concatenate([p.detach().ravel().numpy() for p in net.parameters()])

stopped = ReplicaNet(5, 3, [1, 2], dtype=torch.float64, scales=[0, 1])
settings = TrainSettings(iterations=60 * steps, lr=5e-2, tolerance=1e-3, patience=50, check_every=10)
stopped_training = train(stopped, inputs["dense, two scales"][0], op, settings)
outcomes["iterations until it stops"] = np.array([stopped_training.iterations])

seeds = replica_seeds(0, 3)
for name, clusterer in (("paper", paper_replicas), ("diffpool", diffpool_replicas)):
    s, _, result = clusterer(graph, 3, seeds, max_iter=steps)
    outcomes[f"{name} clusterer: S"] = s.double().numpy()
    outcomes[f"{name} clusterer: losses"] = np.stack([result.cut, result.ortho])
outcomes["dmon clusterer: S"] = dmon_replicas(graph, 3, seeds, max_iter=steps).double().numpy()

for method in autoencoder.METHODS:
    for decay in (False, True):
        settings = autoencoder.Settings(iterations=steps, decay=decay)
        result = autoencoder.train_replicas(ring_graph(40), method, [0, 1, 2], settings)
        key = f"autoencoder, {method}, {'decaying' if decay else 'constant'} rate"
        outcomes[key + ": losses"] = np.array([result.mse, result.loss])
        outcomes[key + ": reconstruction"] = np.asarray(result.x, dtype=np.float64)
early = autoencoder.Settings(iterations=6 * steps, patience=5, tolerance=1e-3)
result = autoencoder.train_replicas(grid_graph(6, 6), "mincut", [0, 1, 2], early)
outcomes["autoencoder, stopped early"] = np.array([result.mse, result.best_iteration, result.iterations])
np.savez(sys.argv[1], **outcomes)
"""


def measure(checkout: Path, adam: str, steps: int) -> dict[str, np.ndarray]:
    """What the script finds with the package of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outcomes.npz")
        root = str(checkout.resolve())
        words = [sys.executable, "-c", SCRIPT, str(path), adam, root, str(steps)]
        subprocess.run(words, env={**os.environ, "PYTHONPATH": root}, cwd=folder, check=True)
        with np.load(path) as outcomes:
            return dict(outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--fused", action="store_true", help="Adam as each checkout has it")
    parser.add_argument("--iterations", type=int, default=50)
    given = parser.parse_args()
    adam = "own" if given.fused else "plain"
    here, there = (measure(root, adam, given.iterations) for root in (Path(__file__).parents[1], given.other))
    worst = 0.0
    for name, value in here.items():
        difference = float(np.abs(value - there[name]).max())
        worst = max(worst, difference)
        print(f"{'' if difference <= LIMIT else '*'}{name}: {difference:.1e}")
    print(f"\nlargest difference {worst:.1e}, allowed {LIMIT:.0e}")
    sys.exit(0 if worst <= LIMIT else 1)


if __name__ == "__main__":
    main()
