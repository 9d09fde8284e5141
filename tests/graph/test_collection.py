"""Collections from lists of graphs, and folds."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.refusals import refuses

from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph, folds, from_graphs, hold_out


def some_graphs(count: int = 6, weighted: bool = False) -> list[Graph]:
    rng = np.random.default_rng(count)
    graphs = []
    for n in range(3, 3 + count):
        dense = np.triu(rng.random((n, n)) < 0.5, 1) * (rng.integers(1, 5, (n, n)) if weighted else 1)
        graphs.append(Graph.from_dense((dense + dense.T).astype(float), x=rng.random((n, 2))))
    return graphs


@pytest.mark.parametrize("weighted", [False, True])
def test_selecting_graphs(weighted: bool) -> None:
    parts = some_graphs(weighted=weighted)
    graphs = from_graphs(parts, y=list("abcabc"))
    assert (graphs.weight is not None) == weighted
    chosen = graphs[[4, 0, 4]]
    expected = sp.block_diag([parts[i].adjacency for i in (4, 0, 4)]).toarray()
    assert np.array_equal(chosen.adjacency().toarray(), expected)
    features = np.concatenate([parts[i].x for i in (4, 0, 4)])
    assert np.allclose(chosen.dense_features(), features)
    assert chosen.y.tolist() == [1, 0, 1]
    assert len(graphs[:2]) == 2
    for number in (0, np.array([[0, 1]])):
        with pytest.raises(GraphError, match="a list of graph numbers"):
            graphs[number]
    assert len(chosen.without_edges().col) == 0


def test_pytorch_geometric_graphs_bring_their_classes() -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    edge_index = torch.tensor([[0, 1], [1, 0]])
    items = [data.Data(x=torch.ones(2, 3), edge_index=edge_index, y=torch.tensor([c])) for c in (5, 2, 5)]
    graphs = from_graphs(items)
    assert graphs.y.tolist() == [1, 0, 1]
    assert graphs.classes == ("2", "5")
    assert items[0].y is not None  # what was passed in is not changed
    several = [data.Data(x=torch.ones(2, 3), edge_index=edge_index, y=torch.tensor([1, 2]))] * 2
    assert from_graphs(several).y is None  # no classes of whole graphs


def test_bad_lists_are_one_sentence() -> None:
    parts = some_graphs()
    for graphs, y, words in (
        ([], None, "at least one"),
        (parts, [1, 2], "one class for each of the 6"),
        ([*parts, Graph.from_edges([[0], [1]])], None, "one width"),
        ([Graph.batch(parts)], None, r"graphs\[0\] is a batch"),
        (parts, [1.0, 2.0, float("nan"), 1.0, 1.0, 1.0], "missing values"),
    ):
        refuses(GraphError, words, from_graphs, graphs, y=y)


def test_one_graph_is_no_list_of_graphs() -> None:
    one, two = some_graphs(2)
    for given in (one, one.adjacency, one.adjacency.toarray(), "path", 3):
        refuses(GraphError, "graphs must be a list of graphs, got one", from_graphs, given)
    several = np.empty(2, dtype=object)
    several[:] = [one, two]
    assert len(from_graphs(several)) == len(from_graphs(iter([one, two]))) == 2


def labelled(counts: list[int]) -> object:
    pair = Graph.from_edges([[0], [1]])
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    graphs = from_graphs([pair] * len(y), y=y.tolist())
    assert graphs.value.shape == graphs.index.shape == graphs.dense_features().shape == (2 * len(y), 0)
    return graphs


def test_folds_are_stratified_disjoint_and_fixed() -> None:
    graphs = labelled([57, 31, 12])
    parts = folds(graphs, 10, seed=3)
    assert sorted(np.concatenate([p.test for p in parts]).tolist()) == list(range(100))
    for part in parts:
        assert sorted(np.concatenate(part).tolist()) == list(range(100))
        share = np.bincount(graphs.y[part.test], minlength=3)
        assert (np.abs(share - np.array([5.7, 3.1, 1.2])) < 1).all()
        assert len(part.validation) == 9
        sizes = np.bincount(graphs.y[part.validation], minlength=3)
        assert (np.abs(sizes - np.array([5.1, 2.8, 1.1])) < 1.1).all()
    other = folds(graphs, 10, seed=4)
    assert not all(np.array_equal(p.test, q.test) for p, q in zip(parts, other, strict=True))


def test_the_folds_of_published_tables_do_not_change() -> None:
    part = folds(labelled([12, 8]), 4)[1]
    train = [0, 4, *range(6, 16), 19]
    assert [p.tolist() for p in part] == [train, [2, 16], [1, 3, 5, 17, 18]]


def test_folds_need_enough_graphs() -> None:
    for count in (1, 4):
        refuses(ParameterError, "smallest class, 3", folds, labelled([10, 3]), count)
    assert [len(folds(labelled([10, 3]), count)) for count in (2, 3)] == [2, 3]
    assert [[len(part) for part in fold] for fold in folds(labelled([10, 10]))] == [[16, 2, 2]] * 10
    for share in (0.5, 0.9):
        assert [len(part) for part in hold_out(np.repeat([0, 1], 6), share)] == [6, 6, 0]
    own = replace(labelled([2, 2]), split=np.array([2, 0, 1, 0]))
    assert [[part.tolist() for part in fold] for fold in folds(own, 2)] == [[[1, 3], [2], [0]]] * 2
    refuses(ParameterError, "classes y", folds, from_graphs([Graph.from_edges([[0], [1]])] * 4), 2)


def test_a_graph_that_cannot_be_read_is_named():
    triangle = Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=np.ones((3, 1)))
    refuses(GraphError, r"^graphs\[1\]: ", from_graphs, [triangle, np.ones((2, 3))])
