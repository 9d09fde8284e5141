"""What losses and operators accept, and the sentence where they do not."""

import math

import numpy as np
import pytest
import torch
from helpers.graph_strategies import make_sample, plain_normalise
from helpers.refusals import refuses, sentence_of

from softcut import Graph
from softcut.errors import GraphError, ParameterError
from softcut.ops import (
    CSR,
    Dense,
    Sum,
    Words,
    as_operator,
    block_diagonal,
    coarsen,
    dmon_loss,
    evidence_loss,
    get_objective,
    just_balance_loss,
    lift,
    lift_adjacency,
    mincut_loss,
    orthogonality_loss,
    quadratic_form,
    ratio_trace_loss,
    reduce,
)

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
PAIRS, BATCH = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1])
TWO = as_operator(PAIRS, num_nodes=4, batch=BATCH)
S = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
X = torch.arange(12.0).view(4, 3)
NEGATIVE = torch.tensor([1.0, 1.0, -5.0, -5.0, 1.0, 1.0])
LOSSES = [mincut_loss, ratio_trace_loss, orthogonality_loss, dmon_loss, just_balance_loss, evidence_loss]


# Formats.


def test_the_orthogonality_loss_takes_a_graph_in_every_format():
    expected = orthogonality_loss(S)
    graph = Graph.from_edges(PATH.T.numpy())
    for adj in (PATH, as_operator(PATH, num_nodes=4), graph, torch.eye(4)[[1, 0, 3, 2]].to_sparse()):
        torch.testing.assert_close(orthogonality_loss(S, adj), expected)
    torch.testing.assert_close(orthogonality_loss(S, PATH, NEGATIVE), expected)  # it does not look at weights
    torch.testing.assert_close(orthogonality_loss(S, torch.ones(4, 4)), expected)
    refuses(GraphError, "edge_index names node 3", orthogonality_loss, S[:2], PATH)
    with pytest.raises(GraphError, match="edge_weight belongs to an edge_index"):
        orthogonality_loss(S, edge_weight=torch.ones(6))


@pytest.mark.parametrize("loss", LOSSES)
def test_reductions_over_the_graphs(loss):
    each = loss(S, PAIRS, batch=BATCH, reduction="none")
    assert each.shape == (2,)
    torch.testing.assert_close(loss(S, PAIRS, batch=BATCH, reduction="sum"), each[0] + each[1])
    torch.testing.assert_close(loss(S, PAIRS, batch=BATCH), (each[0] + each[1]) / 2)


# Sentences.

THREE, LONG = PATH[:, :4], PATH[:, :2]
SINGLE, EYE = CSR.from_edge_index(LONG), torch.eye(2)
SENTENCES = [
    # operators
    ("adj must be an operator", lambda: as_operator([[0, 1]])),
    ("adj must have shape", lambda: as_operator(torch.rand(2, 3, 4))),
    ("adj must hold floating-point", lambda: Dense(torch.ones(1, 2, 2, dtype=torch.long))),
    ("adj must be an edge_index", lambda: as_operator(torch.ones(2, 2, dtype=torch.bool))),
    ("edge_index must have shape", lambda: as_operator(torch.ones(3, 4, dtype=torch.long))),
    ("edge_index must hold whole numbers", lambda: CSR.from_edge_index(torch.rand(2, 3))),
    ("edge_index names node 1, but", lambda: as_operator(LONG, num_nodes=1)),
    ("edge_index names node -1", lambda: as_operator(LONG - 1, num_nodes=2)),
    ("edge_weight must have one value", lambda: as_operator(LONG, torch.ones(3), num_nodes=2)),
    ("edge_weight must have one value", lambda: as_operator(LONG, torch.ones(2, 2), num_nodes=2)),
    *[
        ("edge_weight belongs", lambda a=a: as_operator(a, torch.ones(2)))
        for a in (SINGLE, EYE, EYE.to_sparse())
    ],
    ("batch must have one graph number", lambda: as_operator(LONG, num_nodes=2, batch=torch.zeros(3).long())),
    ("batch must be sorted", lambda: as_operator(LONG, num_nodes=2, batch=torch.tensor([1, 0]))),
    ("batch must not be negative", lambda: as_operator(LONG, num_nodes=2, batch=torch.tensor([-1, 0]))),
    ("batch must hold whole numbers", lambda: as_operator(LONG, num_nodes=2, batch=torch.zeros(2))),
    *[("batch belongs", lambda a=a: as_operator(a, batch=torch.zeros(2).long())) for a in (EYE, Dense(EYE))],
    ("batch does not name", lambda: as_operator(SINGLE, batch=torch.tensor([0, 1]))),
    ("mask belongs", lambda: as_operator(LONG, num_nodes=2, mask=torch.ones(1, 2))),
    ("mask belongs", lambda: as_operator(SINGLE, mask=torch.ones(1, 2))),
    ("mask must have shape", lambda: as_operator(torch.eye(2), mask=torch.ones(1, 3))),
    *[
        ("mask differs", lambda m=m: as_operator(Dense(EYE, torch.ones(1, 2)), mask=torch.tensor(m)))
        for m in ([[1, 0]], [[1]], [1, 1])
    ],
    ("s must have the rows of adj", lambda: SINGLE @ torch.rand(3, 2)),
    ("s must have the rows of adj", lambda: Dense(torch.eye(2)) @ torch.rand(2, 2)),
    *[("s must have the rows of adj", lambda n=n: SINGLE @ torch.rand(n)) for n in ((2,), (2, 2, 2, 2))],
    *[
        (
            "adj must have shape [N, N] if it is a sparse tensor",
            lambda n=n: as_operator(torch.ones(n).to_sparse()),
        )
        for n in ((2, 3), (3, 2), (2, 2, 2))
    ],
    ("s must hold floating-point", lambda: SINGLE @ torch.ones(2, 2, dtype=torch.long)),
    ("parts must hold", lambda: Sum([])),
    ("parts must be operators on the same rows", lambda: Sum([SINGLE, CSR.from_edge_index(THREE)])),
    ("parts must be operators on the same rows", lambda: Sum([SINGLE, Dense(torch.eye(2))])),
    (
        "parts must be operators on the same batch",
        lambda: Sum(
            [CSR.from_edge_index(THREE[:, :0], None, 3, ptr=torch.tensor([0, cut, 3])) for cut in (1, 2)]
        ),
    ),
    ("weights must have one value", lambda: Sum([SINGLE], [1.0, 2.0])),
    (
        "edge_index cannot differ between the replicas",
        lambda: torch.func.vmap(lambda e: mincut_loss(torch.eye(2), e))(torch.stack([LONG, LONG])),
    ),
    ("operators must hold at least one", lambda: block_diagonal([])),
    ("operators must all be CSR, got CSR, Dense", lambda: block_diagonal([SINGLE, Dense(torch.eye(2))])),
    ("operators must all be normalised, or none", lambda: block_diagonal([SINGLE, SINGLE.normalise()])),
    # losses
    ("s must have the rows of adj", lambda: orthogonality_loss(torch.rand(3, 2), SINGLE)),
    ("x must have the rows of adj", lambda: coarsen(S, torch.rand(3, 2), PATH)),
    ("mask belongs to a dense", lambda: orthogonality_loss(S, mask=torch.ones(1, 4))),
    ("mask must have shape", lambda: orthogonality_loss(S[None], mask=torch.ones(1, 3))),
    ("reduction must be", lambda: mincut_loss(S, PATH, reduction="max")),
    ("objective must be one of mincut, ", lambda: get_objective("cut")),
    *[("s must be a floating-point tensor", lambda f=f: f(S.tolist(), PATH)) for f in LOSSES],
    *[("s must be a floating-point tensor", lambda f=f: f(S.numpy(), PATH)) for f in LOSSES],
    *[("s must be a floating-point tensor", lambda s=s: mincut_loss(s, PATH)) for s in (S[:, 0], S.long())],
    *[("s must be a dense tensor", lambda f=f: f(S.to_sparse(), PATH)) for f in LOSSES],
    *[("s must be a dense tensor", lambda f=f: f(S.to_sparse_csr(), PATH)) for f in LOSSES],
    *[("edge_index must hold whole numbers", lambda f=f: f(S, PATH.float())) for f in LOSSES],
    ("s must be a floating-point tensor", lambda: coarsen(S.tolist(), X, PATH)),
    ("s must be a dense tensor", lambda: coarsen(S.to_sparse(), X, PATH)),
    ("x must be a tensor", lambda: coarsen(S, X.tolist(), PATH)),
    ("x must be a dense tensor", lambda: coarsen(S, X.to_sparse(), PATH)),
    ("s must be a floating-point tensor", lambda: lift(S.tolist(), torch.rand(1, 2, 3))),
    ("x_pool must be a tensor", lambda: lift(S, [[1.0, 2.0]])),
    ("s must be a tensor", lambda: TWO @ S.tolist()),
    ("s must be a dense tensor", lambda: TWO @ S.to_sparse()),
    ("s must be a dense tensor", lambda: quadratic_form(Sum([TWO, TWO]), S.to_sparse()) @ S),
    *[
        ("edge_weight must be a tensor", lambda w=w: mincut_loss(S, PATH, w))
        for w in ([1.0] * 6, np.ones(6), 2.0)
    ],
    ("edge_weight must be a dense tensor", lambda: mincut_loss(S, PATH, torch.ones(6).to_sparse())),
    ("edge_weight must hold real numbers", lambda: mincut_loss(S, PATH, torch.ones(6) * 1j)),
    ("edge_weight must have one value", lambda: mincut_loss(S, PATH, torch.ones(6, 2))),
    ("adj must hold real numbers", lambda: mincut_loss(S, torch.ones(4, 4) * 1j)),
    ("batch must be a tensor", lambda: mincut_loss(S, PAIRS, batch=[0, 0, 1, 1])),
    ("batch must be a tensor", lambda: orthogonality_loss(S, batch=BATCH.numpy())),
    ("mask must be a tensor", lambda: mincut_loss(S, torch.ones(4, 4), mask=[[True] * 4])),
    ("mask must be a tensor", lambda: orthogonality_loss(S[None], mask=[[True] * 4])),
    # words
    *[("x must hold counts of words", lambda x=x: Words(np.array([[x, 1.0]]))) for x in (-1.0, np.nan)],
    ("x must be a matrix with a row per node", lambda: Words(np.ones(3))),
    ("s must have a row for each of the 3 nodes", lambda: Words(np.eye(3)).table(torch.eye(2))),
    (
        "words must hold counts, which are not negative, got -1",
        lambda: evidence_loss(S, PATH, words=-torch.eye(4)),
    ),
    *[
        ("words must have the rows of s", lambda x=x: evidence_loss(S, PATH, words=x))
        for x in (torch.eye(2), torch.ones(4), torch.ones(4, 1, 2))
    ],
    (
        "words must be a tensor of counts",
        lambda: evidence_loss(S[None], torch.ones(1, 4, 4), words=Words(np.eye(4))),
    ),
    (
        "words must be a tensor of counts",
        lambda: evidence_loss(S, PAIRS, batch=BATCH, words=Words(np.eye(4))),
    ),
    # lift and reduce
    # A batch without its operator; with it [K, F], where there are as many clusters as graphs.
    *[("x_pool must have", lambda n=n: lift(S, torch.rand(n))) for n in ((2, 2, 3), (1, 3, 3))],
    *[("x_pool must have", lambda n=n: lift(S, torch.rand(n), TWO)) for n in ((2, 2), (1, 2, 3), (3, 2, 3))],
    ("x_pool must have", lambda: lift(S.view(2, 2, 2), torch.rand(1, 2, 3))),
    *[("x_pool must have", lambda n=n: lift(S, torch.rand(n))) for n in ((2,), (1, 1, 2, 3))],
    ("x_pool must have", lambda: lift(S[:2].unsqueeze(1), torch.rand(2, 3), SINGLE)),  # one replica
    ("a_pool must have", lambda: lift_adjacency(S, torch.rand(3, 3))),
    ("a_pool must have", lambda: lift_adjacency(S.view(2, 2, 2), torch.rand(3, 2, 2))),
    ("s must have the rows of adj", lambda: lift(torch.rand(5, 2), torch.rand(2, 2, 3), TWO)),
    ("s must have the rows of adj", lambda: lift(S.view(2, 2, 2), torch.rand(2, 2, 3), TWO)),
    ("s must have the rows of adj", lambda: reduce(torch.rand(3, 2), X, TWO)),
]


@pytest.mark.parametrize(
    ("sentence", "call"), SENTENCES, ids=[f"{i} {s[0]}" for i, s in enumerate(SENTENCES)]
)
def test_what_cannot_be_used_is_named(sentence, call):
    assert sentence_of((GraphError, ParameterError), call).startswith(sentence)


# Negative weights.


@pytest.mark.parametrize("loss", [mincut_loss, ratio_trace_loss, dmon_loss, evidence_loss])
def test_negative_weights_are_refused_where_the_graph_is_normalised(loss):
    dense = as_operator(PATH, NEGATIVE, num_nodes=4).to_dense()
    plain = as_operator(PATH, num_nodes=4)
    for call in (
        lambda: loss(S, PATH, NEGATIVE),
        lambda: loss(S, dense),
        lambda: loss(S, Sum([as_operator(PATH, NEGATIVE, num_nodes=4), plain])),
    ):
        refuses(GraphError, "edge_weight must not be negative", call)
    refuses(GraphError, "weights must not be negative", loss, S, Sum([plain, plain], [1.0, -0.5]))
    for learned in (NEGATIVE.clone().requires_grad_(), dense.requires_grad_()):
        with pytest.raises(GraphError, match="must not add up to less than 0"):
            loss(S, *([PATH, learned] if learned.dim() == 1 else [learned]))


def test_a_learned_weight_may_pass_below_zero():
    weight = torch.tensor([1.0, 1.0, -1e-6, -1e-6, 1.0, 1.0], requires_grad=True)
    loss = mincut_loss(S, PATH, weight)
    loss.backward()
    assert loss < -0.5
    assert weight.grad.isfinite().all()


# Precision.


@pytest.mark.parametrize(
    "kind", ["sparse", "operator", "dense", "dense operator", "torch.sparse", "graph", "sum"]
)
def test_a_graph_in_float32_is_used_in_the_precision_of_the_assignments(kind):
    sample = make_sample((9,), seed=1, weighted=True)
    weight = sample.edge_weight.float()
    matrix = CSR.from_edge_index(sample.edge_index, weight, 9).to_dense()
    s = sample.rand(9, 3).softmax(-1)
    adj = {
        "sparse": (sample.edge_index, weight),
        "operator": (CSR.from_edge_index(sample.edge_index, weight, 9),),
        "dense": (matrix,),
        "dense operator": (Dense(matrix),),
        "torch.sparse": (matrix.to_sparse(),),
        "graph": (Graph.from_edges(sample.edge_index, edge_weight=weight, num_nodes=9),),
        "sum": (Sum([CSR.from_edge_index(sample.edge_index, weight, 9)], [2.0]),),
    }[kind]
    plain = plain_normalise(matrix.double())
    expected = -(s * (plain @ s)).sum() / (plain.sum(1) * s.square().sum(1)).sum()
    assert s.dtype == torch.float64
    torch.testing.assert_close(mincut_loss(s, *adj), expected, atol=1e-14, rtol=0)


def test_a_promoted_operator_is_made_once_and_keeps_its_gradient():
    weight = torch.ones(6)
    op = as_operator(PATH, weight, num_nodes=4)
    assert op.promoted(torch.float32) is op
    assert op.promoted(torch.float64) is op.promoted(torch.float64)
    learned = as_operator(PATH, weight.clone().requires_grad_(), num_nodes=4)
    assert learned.promoted(torch.float64).val.requires_grad
    assert TWO.promoted(torch.float64) is TWO  # a binary graph is exact in any precision


# Weights that are no finite numbers.


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(wrong):
    weight = torch.ones(PATH.shape[1], dtype=torch.double)
    weight[2] = wrong
    dense = torch.ones(2, 3, 3, dtype=torch.double)
    dense[1, 0, 2] = wrong
    for name, place, call in (
        ("edge_weight", "2", lambda: as_operator(PATH, weight, num_nodes=4)),
        ("edge_weight", "2", lambda: as_operator(PATH, weight.clone().requires_grad_(), num_nodes=4)),
        ("edge_weight", "(2, 0)", lambda: as_operator(PATH, weight[:, None], num_nodes=4)),
        ("adj", "(1, 0, 2)", lambda: as_operator(dense)),
        ("adj", "2", lambda: as_operator(torch.sparse_coo_tensor(PATH, weight, (4, 4)).coalesce())),
    ):
        sentence = f"{name} must hold finite numbers, got {wrong:g} at position {place}; correct or drop those edges."
        assert sentence_of(GraphError, call) == sentence
    # An operator that somebody made is looked at where it is normalised.
    made = CSR.from_edge_index(PATH, torch.full((PATH.shape[1],), wrong), 4), Dense(torch.full((2, 2), wrong))
    for op in made if wrong != -math.inf else ():
        refuses(GraphError, f"edge_weight must hold finite numbers, got {wrong:g}", op.normalise)
