"""Cluster a graph with millions of edges.

A planted graph with eight communities and 16 features is drawn and clustered by mini-batches: a step of the training
sees a tenth of the nodes. Leave `batch_size` out where the graph fits into memory.

    python examples/millions_of_edges.py [EDGES]
"""

import resource
import sys
import time

import softcut as sc
from softcut.datasets import planted_graph
from softcut.metrics import nmi

edges = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
graph = planted_graph(edges // 10, edges, clusters=8, features=16, edge_signal=0.6, seed=0)
print(graph)

start = time.perf_counter()
tenth = graph.num_nodes // 10
est = sc.GraphClustering(8, n_init=4, batch_size=tenth, random_state=0)
est.fit(graph)
print(f"clustered in {time.perf_counter() - start:.1f} s")
print("decisions:", *est.notes_, sep="\n  ")

print(f"NMI with the communities {nmi(graph.y, est.labels_):.3f}")
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"most memory: {memory:.1f} GiB")
