"""The evidence straight from logits: the plain formulas, their gradients, and where it is taken."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck

from softcut.errors import GraphError
from softcut.ops import CSR, Words, as_operator
from softcut.ops.evidence_step import evidence_step, takes_evidence_step
from softcut.ops.information import edge_price
from softcut.ops.kernels import use
from softcut.ops.objectives import edge_count
from softcut.training.mincut import replica_losses

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


def known(op, words, k=K):
    edges = edge_count(op)
    prices = {"num_edges": edges, "edges_price": edge_price(k, edges)}
    return prices if words is None else prices | {"words": words, "words_price": words.price(k)}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("words", ["", "sparse", "dense", "sparse counts", "dense counts"])
def test_losses_and_gradients_are_those_of_the_plain_formulas(words, weighted):
    op, dense, given, logits = make(words, weighted)
    target = torch.rand(R, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for sizes in (None, target):  # with and without L_o
        mine = evidence_step(op, logits, sizes=sizes, **known(op, given))
        plain = replica_losses(op, logits.softmax(1).permute(2, 0, 1), "evidence", sizes, words=given)
        torch.testing.assert_close(mine, plain, rtol=1e-12, atol=1e-13)
        weights = torch.rand(2, R, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        for weight in (
            weights,
            weights * torch.tensor([[1.0], [0.0]]),
            weights * torch.tensor([[0.0], [1.0]]),
        ):
            slopes = [
                torch.autograd.grad((weight * torch.stack(each)).sum(), logits, retain_graph=True)[0]
                for each in (mine, plain)
            ]
            torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)
    s = logits.softmax(1)
    edges = s @ dense @ s.mT
    torch.testing.assert_close(replica_losses(op, s.permute(2, 0, 1), "evidence")[0], by_hand(edges, op, s))


def by_hand(edges, op, s):
    """Minus the evidence of the edges, from its formula."""
    p = edges / edges.sum((1, 2), keepdim=True)
    information = (p * (p / (p.sum(2, keepdim=True) * p.sum(1, keepdim=True))).log()).sum((1, 2))
    share = s.sum(-1) / N
    count = edge_count(op)
    gain = count * information - edge_price(K, count)
    return -gain / (N * (-(share * share.log()).sum(-1)).sqrt())


@pytest.mark.parametrize("words", ["", "sparse counts", "dense"])
def test_derivatives_agree_with_differences(words):
    op, _, given, logits = make(words, weighted=True, seed=1)
    sizes = torch.rand(R, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert gradcheck(lambda t: evidence_step(op, t, sizes=sizes, **known(op, given)), logits)


def test_no_edges_one_cluster_and_perfect_sizes_have_finite_gradients():
    alone = CSR.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=N)
    logits = torch.zeros(R, K, N, dtype=torch.float64)
    logits[0, 0] = 1000.0  # a single cluster
    logits[1] = 1000.0 * torch.eye(K, dtype=torch.float64).repeat(1, N // K)  # hard clusters of equal sizes
    logits.requires_grad_()
    op = make("", weighted=False)[0]
    for each in (alone, op):
        cut, ortho = evidence_step(
            each, logits, sizes=torch.ones(R, K, dtype=torch.float64), **known(each, None)
        )
        plain = replica_losses(
            each, logits.softmax(1).permute(2, 0, 1), "evidence", torch.ones(R, K, dtype=torch.float64)
        )
        torch.testing.assert_close((cut, ortho), plain)
        assert ortho[1] < 1e-7
        (cut + ortho).sum().backward()
        assert logits.grad.isfinite().all()
        logits.grad = None
    broken = logits.detach().clone()
    broken[2, 0, 0] = torch.nan
    assert evidence_step(op, broken, **known(op, None))[0].isnan().tolist() == [False, False, True]


def test_where_they_are_taken():
    op, _, _, logits = make("", weighted=False)
    assert takes_evidence_step(op, logits)
    with use("triton"):
        assert not takes_evidence_step(op, logits)
    one_way = CSR.from_edge_index(torch.tensor([[0, 1], [1, 2]]), num_nodes=N)
    learned = CSR.from_edge_index(
        torch.tensor([[0, 1], [1, 0]]), torch.ones(2, requires_grad=True), num_nodes=N
    )
    several = as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=N, batch=torch.arange(N) // 6)
    assert not any(takes_evidence_step(each, logits) for each in (one_way, learned, several))


def test_words_of_another_graph_are_refused():
    op, _, _, logits = make("", weighted=False)
    with pytest.raises(GraphError, match="row for each of the 5 nodes"):
        evidence_step(op, logits, **known(op, Words(np.eye(5))))
