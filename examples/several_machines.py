"""Train on several processes or machines.

The graph is divided into parts, one per process; each process reads its own part only, and they exchange rows at the
borders. The result does not depend on the number of parts. Here two processes run on this machine; on two machines the
`torchrun` command is given on both, with `--nnodes 2 --rdzv-endpoint FIRST:29500` in place of `--standalone`.

    python examples/several_machines.py [NODES]
"""

import csv
import subprocess
import sys
from pathlib import Path

from softcut.clustering.distributed import partition
from softcut.datasets import planted_graph
from softcut.metrics import nmi

nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
graph = planted_graph(nodes, 8 * nodes, clusters=4, features=16, edge_signal=0.7, seed=0)

# The same on the command line: softcut partition GRAPH --features X --parts 2 --out parts
manifest = partition(graph, 2, Path("parts"))
print(
    f"parts of {' and '.join(map(str, manifest.rows))} nodes, halos of {' and '.join(map(str, manifest.halo))}"
)

# torchrun --standalone --nproc-per-node 2 -m softcut.clustering.distributed parts -k 4
run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
run += ["-m", "softcut.clustering.distributed", "parts", "-k", "4", "--out", "labels"]
print(subprocess.run(run, check=True, text=True, stdout=subprocess.PIPE).stdout)

with open("labels/labels.csv", encoding="utf-8", newline="") as file:
    labels = [int(row["cluster"]) for row in csv.DictReader(file)]
print(f"NMI with the communities: {nmi(graph.y, labels):.3f}")
