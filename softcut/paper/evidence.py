"""Does evidence find the good clusterings? Its rank correlation with NMI over a pool of clusterings of each data set.

The pool: for each of 0, 1, 2, 4, 8 and 16 hops a k-means of the features, a minCUT replica that starts there, and
one that starts at random, each with and without refinement; and a k-means of all distances together. Scores that need
no classes (evidence, its two parts, modularity, the normalised cut, the mean agreement with the rest of the pool)
are compared with NMI by Spearman's rank correlation; labels do nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from softcut.clustering import MinCutClustering
from softcut.clustering.consensus import agreement
from softcut.clustering.kmeans import kmeans, kmeans_restarts
from softcut.clustering.prepare import Prepared, prepare, silence_rule, silent_nodes, without
from softcut.clustering.refine import Refiner
from softcut.clustering.settings import Settings, resolve
from softcut.datasets import load
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import modularity, nmi, normalised_cut
from softcut.paper.common import check_names, experiment_parser, markdown_table, run_experiment
from softcut.paper.quality import DATASETS
from softcut.provenance import commit, device_name
from softcut.training import ReplicaNet, replica_seeds, train

__all__ = ["SCORES", "main", "pool", "rank_correlations", "run"]

SCORES = ("evidence", "edges", "features", "agreement", "modularity", "normalised cut")


def pool(graph: Graph, k: int, seed: int, device: torch.device) -> tuple[Prepared, dict[str, Tensor]]:
    """The clusterings [N] of a graph whose nodes all say something, by name.

    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(60, 3, n_features=30, seed=0)
    >>> len(pool(graph, 3, 0, torch.device("cpu"))[1])
    37
    """
    arguments = MinCutClustering(k, random_state=seed).get_params(deep=False)
    settings, _ = resolve(arguments, MinCutClustering.__init__, graph)
    prepared = prepare(graph, settings, device, lambda text: None)
    encoded = prepared.encoded
    hops = prepared.encoder.hops
    starts = torch.cat([kmeans_restarts(z, k, 1, max_iter=30, random_state=seed)[0] for z in encoded.z])
    families = {
        "k-means": torch.nn.functional.one_hot(starts.T, k).float(),
        "minCUT from k-means": _mincut(prepared, settings, k, starts),
        "minCUT from random": _mincut(prepared, settings, k, None),
    }
    found = {"k-means, all distances": kmeans(encoded.rows.flatten(1), k, random_state=seed).labels}
    for name, s in families.items():
        for r, h in enumerate(hops):
            found[f"{name}, {h} hops"] = s[:, r].argmax(1)
            refiner = Refiner.fit(encoded.x, s[:, r].argmax(1), k, seed)
            found[f"{name}, {h} hops, refined"] = refiner.apply(encoded.x, s[:, r], encoded.op).argmax(1)
    return prepared, found


def _mincut(prepared: Prepared, settings: Settings, k: int, start: Tensor | None) -> Tensor:
    """One replica for each distance: [N, distances, K]."""
    inputs, count = prepared.encoded.inputs, len(prepared.encoder.hops)
    net = ReplicaNet(
        inputs.in_channels,
        k,
        replica_seeds(settings.seed, count),
        hidden=settings.hidden,
        terms=inputs.terms,
        scales=range(count),
    ).to(prepared.device)
    sizes = None if start is None else torch.stack([torch.bincount(row, minlength=k) for row in start])
    held = None if sizes is None else sizes.float().clamp(min=0.25 * start.shape[1] / k)  # type: ignore[union-attr]
    train(net, inputs, prepared.op, settings.training("trace_ratio"), start=start, sizes=held)
    return net.assign(inputs)


def rank_correlations(values: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, float | None]:
    """Spearman's rank correlation of every score with `truth`; None for a score that is constant.

    >>> rank_correlations({"a": np.array([1, 2, 3]), "b": np.zeros(3)}, np.array([0.1, 0.3, 0.2]))
    {'a': 0.5, 'b': None}
    """
    return {
        name: round(float(spearmanr(value, truth).statistic), 3) if np.ptp(value) > 0 else None
        for name, value in values.items()
    }


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    seed: int = 0,
    device: torch.device | str = "cpu",
    tell: Callable[[str], None] | None = None,
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """One row per data set; writes ``evidence.json``, after each of them.

    Parameters
    ----------
    out : path
        Folder of the results.
    datasets : sequence of str
        Which data sets.
    seed : int
        Of the pool.
    device : str
        Where to compute.
    tell : callable, optional
        Told what is being done.
    data : path, optional
        Folder of the data sets, as for :func:`softcut.datasets.load`.
    """
    check_names(datasets, DATASETS, "datasets")
    rows = []
    for name in datasets:
        began = time.perf_counter()
        whole = load(name, root=data)
        silent = silent_nodes(whole, silence_rule(whole))
        graph = without(whole, silent) if silent.any() else whole
        assert graph.y is not None
        k = len(np.unique(graph.y))
        prepared, found = pool(graph, k, seed, torch.device(device))
        labels = torch.stack(list(found.values()), dim=1)
        parts = prepared.judge(labels, k)
        hard = labels.cpu().numpy()
        close = agreement(labels, k)[0].fill_diagonal_(0).sum(1) / (labels.shape[1] - 1)
        values = {
            "evidence": parts.value.cpu().numpy(),
            "edges": parts.edges.cpu().numpy(),
            "features": parts.features.cpu().numpy(),
            "agreement": close.cpu().numpy(),
            "modularity": np.array([modularity(graph, c) for c in hard.T]),
            "normalised cut": -np.array([normalised_cut(graph, c) for c in hard.T]),
        }
        truth = np.array([nmi(graph.y, c) for c in hard.T])
        order = np.argsort(-values["evidence"])
        rows.append(
            {
                "dataset": name,
                "rank_correlation": rank_correlations(values, truth),
                "nmi_of_most_evidence": round(float(truth[order[0]]), 4),
                "best_nmi": round(float(truth.max()), 4),
                "mean_nmi": round(float(truth.mean()), 4),
                "pool": {
                    label: {"evidence": round(float(e), 4), "nmi": round(float(t), 4)}
                    for label, e, t in zip(found, values["evidence"], truth, strict=True)
                },
                "seed": seed,
                "seconds": round(time.perf_counter() - began, 2),
                "device": device_name(device),
                "commit": commit(),
                "command": f"python -m softcut.paper.evidence --dataset {name}",
            }
        )
        atomic_json(Path(out) / "evidence.json", rows)
        if tell is not None:
            tell(f"{name}: {rows[-1]['rank_correlation']}, {rows[-1]['seconds']} s")
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.evidence --dataset cora citeseer``."""
    parser = experiment_parser("evidence", "Rank correlation of evidence with NMI.", 1, DATASETS)
    parser.add_argument("--data", help="folder of the data sets (default: $SOFTCUT_DATA, then the cache)")

    def run_it(given: Any) -> str:
        def tell(text: str) -> None:
            print(text, flush=True)

        rows = run(given.out, given.dataset, 0, given.device, tell, given.data)
        cells = []
        for row in rows:
            found = (row["rank_correlation"][score] for score in SCORES)
            numbers = ["-" if value is None else f"{value:.2f}" for value in found]
            best = [f"{row[key]:.3f}" for key in ("nmi_of_most_evidence", "best_nmi")]
            cells.append([row["dataset"], *numbers, *best])
        return markdown_table(["data", *SCORES, "NMI of most evidence", "best NMI"], cells)

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
