"""Tables of clusters straight from logits: the plain formulas, their gradients, and where they are taken."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck

from softcut.errors import GraphError
from softcut.ops import CSR, Words, as_operator
from softcut.ops.kernels import use
from softcut.ops.soft_tables import soft_tables, takes_soft_tables
from softcut.training.mincut import replica_losses, two_terms

N, R, K, F = 12, 3, 4, 9


def make(words: str, weighted: bool, seed: int = 0):
    """A graph with an isolated node, logits, and words: none, sparse or dense, of 0 and 1 or of counts."""
    rng = np.random.default_rng(seed)
    upper = sp.random_array((N - 1, N - 1), density=0.3, rng=rng, dtype=np.float64)
    dense = np.zeros((N, N))
    dense[:-1, :-1] = (upper + upper.T).toarray() if weighted else (upper + upper.T).toarray() > 0
    np.fill_diagonal(dense, 0)
    row, col = map(torch.from_numpy, np.nonzero(dense))
    weight = torch.from_numpy(dense)[row, col] if weighted else None
    op = CSR.from_edge_index(torch.stack([row, col]), weight, num_nodes=N)
    counts = rng.integers(1, 4, (N, F)) * (rng.random((N, F)) < (0.1 if "sparse" in words else 0.9))
    given = Words(counts, presence="counts" not in words, dtype=torch.float64) if words else None
    logits = torch.from_numpy(rng.normal(size=(R, K, N))).requires_grad_()
    return op, torch.from_numpy(dense), given, logits


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("words", ["", "sparse", "dense", "sparse counts", "dense counts"])
def test_tables_and_losses_are_those_of_the_plain_formulas(words, weighted):
    op, dense, given, logits = make(words, weighted)
    s = logits.softmax(1)
    tables = soft_tables(op, logits, given)
    torch.testing.assert_close(tables.s, s.permute(2, 0, 1))
    torch.testing.assert_close(tables.edges[0], s @ dense @ s.mT)
    torch.testing.assert_close(tables.gram[0], s @ s.mT)
    torch.testing.assert_close(tables.sizes[0], s.sum(-1))
    if given is not None:
        torch.testing.assert_close(tables.words[0], given.table(s.permute(2, 0, 1)))
    target = torch.rand(R, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for sizes in (None, target):  # with and without L_o, whose gradient is then missing
        mine = two_terms("evidence", soft_tables(op, logits, given, target=sizes))
        plain = replica_losses(op, logits.softmax(1).permute(2, 0, 1), "evidence", sizes, words=given)
        torch.testing.assert_close(mine, plain)
        slopes = [torch.autograd.grad(sum(each).sum(), logits)[0] for each in (mine, plain)]
        torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("words", ["", "sparse counts", "dense"])
def test_derivatives_agree_with_differences(words):
    op, _, given, logits = make(words, weighted=True, seed=1)

    def tables(logits):
        found = soft_tables(op, logits, given)
        return found.edges, found.gram, found.sizes, *([] if given is None else [found.words])

    assert gradcheck(tables, logits)


def test_where_they_are_taken():
    op, _, _, logits = make("", weighted=False)
    assert takes_soft_tables(op, logits)
    with use("triton"):
        assert not takes_soft_tables(op, logits)
    one_way = CSR.from_edge_index(torch.tensor([[0, 1], [1, 2]]), num_nodes=N)
    learned = CSR.from_edge_index(
        torch.tensor([[0, 1], [1, 0]]), torch.ones(2, requires_grad=True), num_nodes=N
    )
    several = as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=N, batch=torch.arange(N) // 6)
    assert not any(takes_soft_tables(each, logits) for each in (one_way, learned, several))


def test_words_of_another_graph_are_refused():
    op, _, _, logits = make("", weighted=False)
    with pytest.raises(GraphError, match="row for each of the 5 nodes"):
        soft_tables(op, logits, Words(np.eye(5)))
