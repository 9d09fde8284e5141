"""Generated graphs: shapes with coordinates, communities with attributes, and communities in rings to classify."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import ParameterError
from softcut.graph import Graph, GraphCollection, from_graphs


def check_rules(*rules: tuple[str, object, bool, str]) -> None:
    """Refuse the first argument that breaks its rule: (name, value, whether it keeps the rule, the rule)."""
    for name, value, kept, rule in rules:
        if not kept:
            raise ParameterError(f"{name} must {rule}, got {value}.", argument=name)


def _symmetric(n: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> sp.csr_matrix:
    """The binary symmetric adjacency of a list of edges (duplicates and both directions allowed)."""
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    adjacency = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, n))
    adjacency.data[:] = 1.0
    return adjacency


def ring_graph(n_nodes: int = 200) -> Graph:
    """A cycle; the features are the coordinates of the nodes on the unit circle.

    >>> from softcut.datasets import ring_graph
    >>> graph = ring_graph(200)
    >>> graph.num_nodes, graph.num_edges, graph.x.shape
    (200, 200, (200, 2))
    """
    check_rules(("n_nodes", n_nodes, n_nodes >= 3, "be at least 3 for a ring"))
    nodes = np.arange(n_nodes)
    angle = 2 * np.pi * nodes / n_nodes
    x = np.column_stack([np.cos(angle), np.sin(angle)]).astype(np.float32)
    adjacency = _symmetric(n_nodes, nodes, (nodes + 1) % n_nodes)
    return Graph.from_scipy(adjacency, x=x, name="ring", feature_names=["x", "y"])


def grid_graph(height: int = 15, width: int = 10) -> Graph:
    """A regular grid, each node joined to its four neighbours; features are coordinates in [0, 1].

    Node ``i`` is in row ``i // width`` and column ``i % width``; its features are (column, row). The longer
    side has length 1, so neighbours are equally far apart in both directions.

    >>> from softcut.datasets import grid_graph
    >>> graph = grid_graph(15, 10)
    >>> graph.num_nodes, graph.num_edges, graph.x.shape
    (150, 275, (150, 2))
    """
    if height < 1 or width < 1:
        raise ParameterError(
            f"height and width must be at least 1, not {height} and {width}.", argument="height"
        )
    nodes = np.arange(height * width).reshape(height, width)
    first = np.concatenate([nodes[:, :-1].ravel(), nodes[:-1].ravel()])
    second = np.concatenate([nodes[:, 1:].ravel(), nodes[1:].ravel()])
    rows, columns = np.divmod(nodes.ravel(), width)
    x = np.column_stack([columns, rows]) / max(height - 1, width - 1, 1)
    adjacency = _symmetric(nodes.size, first, second)
    return Graph.from_scipy(adjacency, x=x.astype(np.float32), name="grid", feature_names=["x", "y"])


def community_graph(n_communities: int = 6, n_nodes: int = 150, seed: int = 0) -> Graph:
    """Communities of random sizes on a circle, dense inside and joined by few random edges.

    Modelled on the ``Community`` graph of PyGSP: every community has at least a third of the average size;
    its nodes are spread over a disc whose area grows with its size, around a centre on a large circle;
    nodes of one community closer than a fixed distance are joined, and each node to its nearest one; about
    ``n_nodes / 2`` pairs drawn at random are joined as well. The features are the two coordinates, ``y`` the
    communities.

    >>> from softcut.datasets import community_graph
    >>> graph = community_graph(6, 150, seed=0)
    >>> graph.num_nodes, graph.x.shape, len(set(graph.y.tolist()))
    (150, (150, 2), 6)
    """
    from scipy.spatial import cKDTree  # takes a while

    if n_communities < 1 or n_nodes < 2 * n_communities:
        raise ParameterError(
            f"n_nodes must be at least 2 per community, not {n_nodes} for n_communities={n_communities}.",
            argument="n_nodes",
        )
    rng = np.random.default_rng(seed)
    smallest = max(2, round(n_nodes / n_communities / 3))
    y = np.concatenate(
        [
            np.repeat(np.arange(n_communities), smallest),
            rng.integers(n_communities, size=n_nodes - n_communities * smallest),
        ]
    )
    y.sort()
    sizes = np.bincount(y)

    angle = 2 * np.pi * np.arange(n_communities) / n_communities
    centres = np.sqrt(n_nodes) * np.column_stack([np.cos(angle), np.sin(angle)])
    radius, direction = np.sqrt(rng.random(n_nodes)), rng.uniform(0, 2 * np.pi, n_nodes)
    offset = radius[:, None] * np.column_stack([np.cos(direction), np.sin(direction)])
    x = centres[y] + np.sqrt(sizes[y])[:, None] * offset * 0.7

    # Communities lifted onto separate levels: no neighbour is found across two of them.
    lifted = np.column_stack([x, y * 10.0 * n_nodes])
    tree = cKDTree(lifted)
    near = tree.query_pairs(np.sqrt(2 * np.sqrt(n_nodes)) / 2, output_type="ndarray").astype(np.int64)
    nearest = tree.query(lifted, k=2)[1][:, 1]
    random = rng.integers(n_nodes, size=(n_nodes // 2, 2))
    random = random[random[:, 0] != random[:, 1]]
    edges = np.concatenate([near, np.column_stack([np.arange(n_nodes), nearest]), random])
    adjacency = _symmetric(n_nodes, edges[:, 0], edges[:, 1])
    return Graph.from_scipy(
        adjacency, x=x.astype(np.float32), y=y, name="community", feature_names=["x", "y"]
    )


def community_rings(
    n_graphs: int = 1000,
    n_communities: int = 6,
    sizes: tuple[int, int] = (8, 16),
    *,
    test_sizes: tuple[int, int] | None = None,
    links: int = 3,
    average_degree: float = 4.0,
    noise: float = 0.1,
    seed: int = 0,
) -> GraphCollection:
    """Graphs whose class is how their communities are joined: in one ring, or in two rings of half as many.

    Every community is a cycle through its nodes with random chords, and is joined to two others by `links` random edges
    each. Both classes therefore have the same communities, degrees and neighbourhoods; what differs is seen only over
    several communities. The feature of a node is the number of its community (one-hot; the order in the rings is
    random), for a share `noise` of the nodes a random one.

    >>> from softcut.datasets import community_rings
    >>> graphs = community_rings(20, sizes=(5, 8))
    >>> len(graphs), graphs.num_features, graphs.classes, np.bincount(graphs.split).tolist()
    (20, 6, ('one ring', 'two rings'), [14, 2, 4])

    Parameters
    ----------
    n_graphs, n_communities : int
        Graphs, half of each class: seven tenths to train, one tenth to stop, two tenths to test (``graphs.split``);
        communities of each, an even number of 6 or more.
    sizes, test_sizes : (int, int)
        The fewest and the most nodes of a community; those of the test graphs, where they are to be others.
    links, average_degree, noise, seed
        See above; edges inside a community are about half of its nodes times `average_degree`.
    """
    ranges = [sizes, sizes if test_sizes is None else test_sizes]
    check_rules(
        ("n_graphs", n_graphs, n_graphs >= 20, "be at least 20"),
        (
            "n_communities",
            n_communities,
            n_communities >= 6 and n_communities % 2 == 0,
            "be an even number of 6 or more",
        ),
        *(
            (name, given, 3 <= given[0] <= given[1], "be two numbers of nodes, 3 or more, the smaller first")
            for name, given in zip(("sizes", "test_sizes"), ranges, strict=True)
        ),
        ("links", links, links >= 1, "be at least 1"),
        ("average_degree", average_degree, average_degree >= 2, "be at least 2"),
        ("noise", noise, 0 <= noise <= 1, "lie between 0 and 1"),
    )
    rng = np.random.default_rng(seed)
    names = ("one ring", "two rings")
    split = np.repeat([0, 1, 2], [n_graphs - 3 * (n_graphs // 10), n_graphs // 10, 2 * (n_graphs // 10)])
    graphs = []
    for number in range(n_graphs):
        low, high = ranges[int(split[number] == 2)]
        size = rng.integers(low, high + 1, n_communities)
        own = np.repeat(np.arange(n_communities), size)
        first = np.cumsum(size) - size
        # Each node and the next one of its community, then chords between random nodes of one community.
        ends = [
            (np.arange(len(own)), np.arange(len(own)) + 1 - np.where(np.diff(own, append=-1), size[own], 0))
        ]
        chords = rng.choice(own, round(len(own) * (average_degree - 2) / 2))
        joined = [(chords, chords)]
        rings = np.split(rng.permutation(n_communities), 1 + number % 2)
        joined += [(np.repeat(ring, links), np.repeat(np.roll(ring, 1), links)) for ring in rings]
        ends += [tuple(first[c] + rng.integers(size[c]) for c in pair) for pair in joined]
        rows, columns = (np.concatenate(each) for each in zip(*ends, strict=True))
        other = rows != columns
        told = np.where(rng.random(len(own)) < noise, rng.integers(n_communities, size=len(own)), own)
        x = np.eye(n_communities, dtype=np.float32)[told]
        graphs.append(Graph.from_scipy(_symmetric(len(own), rows[other], columns[other]), x=x))
    made = from_graphs(graphs, y=[names[number % 2] for number in range(n_graphs)], name="community rings")
    return replace(made, split=split.astype(np.int8))


def attributed_communities(
    n_nodes: int = 3000,
    n_clusters: int = 8,
    average_degree: float = 8.0,
    n_features: int = 300,
    *,
    edge_signal: float = 0.6,
    feature_signal: float = 0.4,
    degree_spread: float = 0.7,
    size_spread: float = 0.0,
    words_per_node: float | None = None,
    seed: int = 0,
) -> Graph:
    """Communities known in advance, with a degree-corrected random graph and bag-of-words features.

    Every node has a class ``y``. **Edges**: the first end is drawn in proportion to a node weight; the
    second, in proportion to the same weights, from the class of the first for a share ``edge_signal`` of
    the edges, else from all nodes. **Features** are the distinct words a node uses: each word comes from
    the Zipf distribution of the class with probability ``feature_signal``, else from one that all classes
    share. A signal of 0 says nothing about the classes, a signal of 1 everything it can. A million edges
    take a second or two.

    Parameters
    ----------
    n_nodes, n_clusters
        Size of the graph and number of classes; none of them is empty.
    average_degree
        The number of edges is ``n_nodes * average_degree / 2``, without self-loops and repetitions (a few
        less when the graph is so dense that new pairs are hard to draw).
    n_features
        Number of words; 0 for a graph without features.
    edge_signal, feature_signal
        Between 0 and 1, see above.
    degree_spread
        Standard deviation of the logarithm of the node weights: 0 for nearly equal degrees, 1 for hubs.
    size_spread
        Standard deviation of the logarithm of the class sizes: 0 for nearly equal classes.
    words_per_node
        Average number of words drawn per node, repetitions included; by default a quarter of the words, at
        least 2 and at most 20.
    seed
        The same seed gives the same graph, and the same words to each class whatever the number of nodes.

    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(400, 4, average_degree=6, n_features=50, seed=1)
    >>> graph.num_nodes, graph.num_edges, graph.x.shape, len(set(graph.y.tolist()))
    (400, 1200, (400, 50), 4)
    """
    check_rules(
        ("n_clusters", n_clusters, 1 <= n_clusters <= n_nodes, f"lie between 1 and n_nodes={n_nodes}"),
        (
            "average_degree",
            average_degree,
            0 <= average_degree <= n_nodes - 1,
            f"lie between 0 and {n_nodes - 1}",
        ),
        ("n_features", n_features, n_features >= 0, "not be negative"),
        ("edge_signal", edge_signal, 0 <= edge_signal <= 1, "lie between 0 and 1"),
        ("feature_signal", feature_signal, 0 <= feature_signal <= 1, "lie between 0 and 1"),
        ("degree_spread", degree_spread, 0 <= degree_spread <= 5, "lie between 0 and 5"),
        ("size_spread", size_spread, 0 <= size_spread <= 5, "lie between 0 and 5"),
    )
    if words_per_node is None:
        words_per_node = float(np.clip(n_features / 4, 2, 20))
    rng = np.random.default_rng(seed)

    share = np.exp(size_spread * rng.standard_normal(n_clusters))
    extra = rng.choice(n_clusters, size=n_nodes - n_clusters, p=share / share.sum())
    y = rng.permutation(np.concatenate([np.arange(n_clusters), extra]))
    weight = np.exp(degree_spread * rng.standard_normal(n_nodes))

    adjacency = _draw_edges(rng, y, weight, round(n_nodes * average_degree / 2), edge_signal)
    x = None
    if n_features:
        # The classes' own words depend on the seed alone, so graphs of different sizes are of one kind.
        order = np.argsort(np.random.default_rng([seed, n_clusters]).random((n_clusters, n_features)), axis=1)
        x = draw_words(rng, y, order, words_per_node, feature_signal)
    return Graph.from_scipy(adjacency, x=x, y=y, name="attributed communities")


def _draw_edges(
    rng: np.random.Generator, y: NDArray[np.int64], weight: NDArray[np.float64], m: int, signal: float
) -> sp.csr_matrix:
    n = len(y)
    order = np.argsort(y, kind="stable")  # nodes class by class: a class is an interval of `cumulated`
    cumulated = np.concatenate([[0.0], np.cumsum(weight[order])])
    bounds = cumulated[np.concatenate([[0], np.cumsum(np.bincount(y))])]

    def pick(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
        point = low + rng.random(len(low)) * (high - low)
        return order[np.minimum(np.searchsorted(cumulated, point, side="right") - 1, n - 1)]

    def draw(count: int, inside: bool) -> NDArray[np.int64]:
        first = pick(np.zeros(count), np.full(count, cumulated[-1]))
        low, high = (bounds[y[first]], bounds[y[first] + 1]) if inside else (np.zeros(count), cumulated[-1:])
        second = pick(low, high)
        pairs = np.minimum(first, second) * n + np.maximum(first, second)
        return pairs[first != second]

    keys = np.empty(0, dtype=np.int64)
    for wanted, inside in ((round(m * signal), True), (m - round(m * signal), False)):
        goal = len(keys) + wanted
        for _ in range(40):
            missing = goal - len(keys)
            if not missing:
                break
            pairs = draw(missing + missing // 5 + 16, inside)
            fresh = pairs[np.sort(np.unique(pairs, return_index=True)[1])]  # in the order of drawing
            fresh = fresh[~np.isin(fresh, keys)]
            keys = np.concatenate([keys, fresh[:missing]])
    return _symmetric(n, *np.divmod(keys, n))


def draw_words(
    rng: np.random.Generator,
    y: NDArray[np.int64],
    ranks_of_class: NDArray[np.int64],
    words_per_node: float,
    signal: float,
) -> sp.csr_matrix:
    """Distinct words of every node, from the Zipf distribution of its class or from a common one: [N, F] of ones."""
    n, n_features = len(y), ranks_of_class.shape[1]
    zipf = np.cumsum(1.0 / np.arange(1, n_features + 1))
    nodes = np.repeat(np.arange(n), np.maximum(rng.poisson(words_per_node, n), 1))
    rank = np.searchsorted(zipf, rng.random(len(nodes)) * zipf[-1], side="right")
    from_class = rng.random(len(nodes)) < signal
    words = np.where(from_class, ranks_of_class[y[nodes], rank], rank)
    x = sp.csr_matrix((np.ones(len(nodes), np.float32), (nodes, words)), shape=(n, n_features))
    x.data[:] = 1.0
    return x
