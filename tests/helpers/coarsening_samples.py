"""Graphs for the tests of coarsening, and of the poolers that use it."""

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

from softcut.coarsening import clean
from softcut.datasets import grid_graph, ring_graph


def knn(n: int, k: int = 6, seed: int = 0) -> sp.csr_array:
    points = np.random.default_rng(seed).random((n, 2))
    a = sp.csr_array(kneighbors_graph(points, k))
    return clean(a.maximum(a.T), symmetric=True)


def star(n: int) -> sp.csr_array:
    leaves = np.arange(1, n)
    a = sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), leaves)), shape=(n, n))
    return clean(sp.csr_array(a + a.T), symmetric=True)


def as_graph(name: str) -> sp.csr_array:
    graphs = {
        "grid": lambda: grid_graph(30, 30).adjacency,
        "odd grid": lambda: grid_graph(31, 17).adjacency,
        "ring": lambda: ring_graph(200).adjacency,
        "odd ring": lambda: ring_graph(501).adjacency,
        "knn": lambda: knn(1000),
        "weighted knn": lambda: with_weights(knn(1000, seed=1)),
    }
    return clean(sp.csr_array(graphs[name]()), symmetric=True)


def with_weights(a: sp.csr_array, seed: int = 0) -> sp.csr_array:
    upper = sp.csr_array(sp.triu(a))
    upper.data = np.random.default_rng(seed).random(upper.nnz) + 0.05
    return clean(sp.csr_array(upper + upper.T), symmetric=True)


def random_graph(rng: np.random.Generator, n: int, degree: float, weighted: bool) -> sp.csr_array:
    upper = np.triu(rng.random((n, n)) < degree / n, 1)
    a = clean(sp.csr_array((upper + upper.T).astype(float)), symmetric=True)
    return with_weights(a, n) if weighted else a
