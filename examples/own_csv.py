"""Cluster your own CSV files.

`friends.csv` lists who knows whom, `hobbies.csv` has the hours per week that each person spends on five hobbies. Both
are read, joined by name, and clustered; the labels and a picture are written to the folder you are in.

    python examples/own_csv.py [EDGES.csv FEATURES.csv]
"""

import csv
import sys
from pathlib import Path

import softcut as sc
from softcut.metrics import evaluate
from softcut.report.plots import plot_clustering

here = Path(__file__).parent
edges, features = sys.argv[1:3] or (here / "friends.csv", here / "hobbies.csv")

graph = sc.read_graph(edges, features=features)
print(graph)
print("read as:", *graph.notes, sep="\n  ")  # columns, header, how rows were joined

est = sc.GraphClustering(n_clusters=3, random_state=0).fit(graph)
print(f"verdict: {est.verdict_}, {est.structure_:.2f} nats explained for each nat that the clusters take")
sure = est.predict_proba(graph).max(axis=1)  # probability of the cluster that was chosen
names = graph.node_names

for cluster in range(est.n_clusters_):
    members = [names[i] for i in (est.labels_ == cluster).nonzero()[0]]
    print(f"cluster {cluster}: {len(members)} people, {', '.join(members[:6])}, ...")
scores = evaluate(graph, est.labels_)
print(f"modularity {scores['modularity']:.2f}, least sure about {names[sure.argmin()]} ({sure.min():.0%})")

with open("labels.csv", "w", newline="", encoding="utf-8") as file:
    table = csv.writer(file)
    table.writerow(["node", "cluster", "probability"])
    table.writerows(zip(names, est.labels_.tolist(), sure.round(4).tolist(), strict=True))
plot_clustering("friends.png", graph, est.labels_, title="Friends")
