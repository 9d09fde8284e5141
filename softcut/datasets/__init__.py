"""Graphs to cluster and lists of graphs to classify: published data sets by name, and generated ones.

>>> from softcut.datasets import available, grid_graph
>>> [info.name for info in available()]
['cora', 'citeseer', 'pubmed', 'photo', 'computers', 'blogcatalog', 'physics', 'polblogs']
>>> grid_graph(15, 10).num_nodes
150
"""

from softcut.imports import importing

with importing():
    from softcut.datasets.collections import available_collections, load_graphs
    from softcut.datasets.fetching import DatasetInfo, cache_dir
    from softcut.datasets.generators import GeneratedGraph, generate, planted_graph, power_law_graph
    from softcut.datasets.registry import available, load, name_of_data_set
    from softcut.datasets.synthetic import (
        attributed_communities,
        community_graph,
        community_rings,
        grid_graph,
        ring_graph,
    )

__all__ = [
    "DatasetInfo",
    "GeneratedGraph",
    "attributed_communities",
    "available",
    "available_collections",
    "cache_dir",
    "community_graph",
    "community_rings",
    "generate",
    "grid_graph",
    "load",
    "load_graphs",
    "name_of_data_set",
    "planted_graph",
    "power_law_graph",
    "ring_graph",
]
