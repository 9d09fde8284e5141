"""The pages and the picture of fitted estimators, which ``est.report`` and ``est.plot`` ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import ParameterError
from softcut.files import atomic_write
from softcut.graph import Graph, GraphCollection
from softcut.metrics import evaluate
from softcut.metrics.predictions import class_scores, number_scores
from softcut.metrics.summary import summarise
from softcut.report.clustering_files import clustering_metrics, graph_facts, label_facts
from softcut.report.html_clustering import clustering_page
from softcut.report.html_learning import (
    classification_page,
    graph_columns,
    learner_facts,
    regression_page,
)
from softcut.report.html_levels import shown_levels
from softcut.report.plots import clustering_figure, save_figure


def write_page(
    path: str | Path, estimator: Any, graph: Graph, labels: np.ndarray, soft: Any, **judged: Any
) -> Path:
    """The report of clusters of a graph; `judged` has the verdict where they are those of the fit."""
    target = _place(path)
    name = graph.name or "graph"
    summary = summarise(graph, labels, soft, **judged)
    training: dict[str, Any] = {}
    if "verdict" in judged:
        metrics = clustering_metrics(name, graph, estimator)
        training = {"history": estimator.history_, "replicas": estimator.replicas_}
        metrics["verdict_sentence"] = summary.said
        training["levels"] = shown_levels(graph, estimator, summary)
    else:
        k = estimator.n_clusters_
        facts = {**graph_facts(name, graph, k), **evaluate(graph, labels, k=k)}
        metrics = {**facts, **label_facts(graph, labels, k)}
    page = clustering_page(graph, soft, metrics, clusters=labels, summary=summary, **training)
    return atomic_write(target, page.encode())


def draw_clusters(path: str | Path | None, graph: Graph, labels: np.ndarray, soft: Any) -> Any:
    """The picture of clusters of a graph, also written where `path` says so."""
    target = None if path is None else _place(path)
    made = clustering_figure(graph, labels, graph.name or "Clusters", summary=summarise(graph, labels, soft))
    if target is not None:
        save_figure(made, target)
    return made


def write_classes(
    path: str | Path, estimator: Any, graphs: GraphCollection, truth: np.ndarray, chances: np.ndarray
) -> Path:
    """The report of a classifier on some graphs; `truth` has the columns of `chances` they belong to."""
    metrics = _learner_facts(graphs, estimator)
    metrics |= {
        "classes": estimator.classes_.astype(str).tolist(),
        "subtree_share": float(estimator.subtree_share_),
    }
    metrics |= class_scores(truth, chances, int(estimator.class_count_.argmax()))
    page = classification_page(metrics, graph_columns(graphs), truth, chances)
    return atomic_write(_place(path), page.encode())


def write_numbers(
    path: str | Path, estimator: Any, graphs: GraphCollection, truth: np.ndarray, predicted: np.ndarray
) -> Path:
    """The report of predicted numbers [G, T] of some graphs."""
    metrics = _learner_facts(graphs, estimator)
    metrics["targets"] = names = estimator.target_names_
    parts = zip(names, truth.T, predicted.T, estimator.mean_.tolist(), strict=True)
    metrics["scores"] = {name: number_scores(*each) for name, *each in parts}
    page = regression_page(metrics, graph_columns(graphs), truth, predicted)
    return atomic_write(_place(path), page.encode())


def _learner_facts(graphs: GraphCollection, estimator: Any) -> dict[str, Any]:
    told = "Scores say what the model is worth only if it was not trained on these graphs."
    return {**learner_facts(graphs, estimator), "networks": len(estimator.best_epoch_), "scored_on": told}


def _place(path: str | Path) -> Path:
    target = Path(path)
    if target.is_dir():
        raise ParameterError(f"path {path} is a folder; name a file in it.", argument="path")
    return target
