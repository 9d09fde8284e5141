"""What layers and poolers refuse, each with one sentence that names the argument."""

import numpy as np
import pytest
import torch
from helpers.refusals import sentence_of
from test_pool_api import SETTINGS, F, make
from torch import nn

from softcut.errors import GraphError, ParameterError
from softcut.nn import (
    MLP,
    DenseSelection,
    DiffPool,
    DMoNPool,
    GCNConv,
    GraphClassifier,
    GraphConv,
    JustBalancePool,
    MinCutPool,
    NodeClusterer,
    NoPool,
    SAGPool,
    Selection,
    SkipConv,
    TopKPool,
    diff_pool,
    get_pool,
    mincut_pool,
)
from softcut.nn.pool import POOLS
from softcut.ops import Segments, as_operator

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
NEGATIVE = torch.tensor([1.0, 1.0, -5.0, -5.0, 1.0, 1.0])
X, S = torch.rand(4, 3), torch.rand(4, 2).softmax(-1)
WHOLE = "must be a whole number, got "
HOT = "temperature must be positive and finite"
DENSE = (MinCutPool, DiffPool, DMoNPool, JustBalancePool)


class Other(Selection):
    def reduce(self, x):
        return x

    def lift(self, x_pool, pinv=False):
        return x_pool


def twice(sentence, options):
    """A row for TopKPool and one for SAGPool."""
    return [(sentence, lambda c=c: c(3, **options)) for c in (TopKPool, SAGPool)]


NUMBERS = [
    *[
        (f"in_channels {WHOLE}{bad!r}", lambda c=c, b=bad: c(b, 2))
        for c in (GCNConv, GraphConv, SkipConv, *DENSE)
        for bad in (2.5, None, "3", True)
    ],
    *[
        ("in_channels must be at least 1, got 0", lambda c=c: c(0, 2))
        for c in (GCNConv, MinCutPool, DiffPool)
    ],
    *[("in_channels must be at least 1, got 0", lambda c=c: c(0)) for c in (TopKPool, SAGPool)],
    *[(f"out_channels {WHOLE}", lambda c=c: c(3, 2.5)) for c in (GCNConv, GraphConv, SkipConv)],
    *[(f"k {WHOLE}2.5", lambda c=c: c(3, 2.5)) for c in DENSE],
    *[("k must be at least 1, got 0", lambda c=c: c(3, k=0)) for c in (*DENSE, TopKPool, SAGPool)],
    (f"out_channels {WHOLE}", lambda: DiffPool(3, 2, out_channels=2.5)),
    *[("hidden must hold sizes", lambda b=b: MinCutPool(3, 2, hidden=b)) for b in (2.5, [4, 2.5])],
    *[
        ("hidden must hold sizes of at least 1", lambda b=b: MinCutPool(2, 2, hidden=b))
        for b in (0, True, [2, 0])
    ],
    ("out_channels must be at least 1", lambda: MLP(3, None, 0)),
    *[
        (HOT, lambda c=c, t=t: c(3, 2, temperature=t))
        for c, t in zip((*DENSE, *DENSE[:2]), (None, "low", torch.inf, torch.nan, 0.0, True), strict=True)
    ],
    *[("cut_weight must be a finite", lambda b=b: MinCutPool(3, 2, cut_weight=b)) for b in (None, True)],
    ("ortho_weight must be a finite number", lambda: MinCutPool(3, 2, ortho_weight=float("nan"))),
    ("link_weight must be a finite number", lambda: DiffPool(3, 2, link_weight="1")),
    ("balance_weight must be a finite number", lambda: JustBalancePool(3, 2, balance_weight=None)),
    ("normalise must be True or False", lambda: MinCutPool(3, 2, normalise="no")),
    ("standardise must be True or False", lambda: MinCutPool(3, 2, standardise="no")),
    ("ortho_weight must be a finite number, or 'auto'", lambda: MinCutPool(3, 2, ortho_weight="high")),
    (
        "ortho_weight must be a finite number, or 'auto' with objective='mincut', got 'auto' with 'dmon'",
        lambda: MinCutPool(3, 2, ortho_weight="auto", objective="dmon"),
    ),
    (f"levels {WHOLE}1.5", lambda: get_pool("graclus", levels=1.5)),
    ("levels must be at least 1", lambda: get_pool("graclus", levels=0)),
    (f"seed {WHOLE}", lambda: get_pool("graclus", seed="a")),
    *[
        ("seed must be at least 0", lambda n=n, o=o: get_pool(n, seed=-1, **o))
        for n, o in (("random", {"k": 2}), ("graclus", {}), ("ndp", {}))
    ],
    ("k must be at least 1", lambda: get_pool("random", k=0)),
    ("delta must be a finite number", lambda: get_pool("ndp", delta=None)),
    ("delta must be at least 0 and below 1", lambda: get_pool("ndp", delta=1.0)),
    *[
        row
        for bad in (None, "half", True, float("nan"), 0.0, 1.5)
        for row in twice("ratio must be above 0", {"ratio": bad})
    ],
    *twice(f"k {WHOLE}2.5", {"k": 2.5}),
    *twice("k must be None where min_score", {"k": 2, "min_score": 0.1}),
    *twice("min_score must be a finite number", {"min_score": "low"}),
    *twice("multiplier must be a finite number", {"multiplier": None}),
]
CHOICES = [
    ("act must be one of", lambda: SkipConv(2, 2, act="swish")),
    ("act must be one of", lambda: MinCutPool(2, 2, 4, act="swish")),
    *twice("act must be one of", {"nonlinearity": "swish"}),
    *twice("connect must be one of", {"connect": "three_hop"}),
    ("objective must be one of", lambda: MinCutPool(2, 2, objective="ratio")),
    ("objective must be one of", lambda: mincut_pool(X, PATH, S, objective="ratio")),
    ("count_words is an option of objective='evidence'", lambda: MinCutPool(3, 2, count_words=True)),
    ("link_scale must be one of", lambda: DiffPool(3, 2, link_scale="half")),
    ("link_scale must be one of", lambda: diff_pool(X, PATH, S, link_scale="half")),
    ("reduction must be one of", lambda: get_pool("graclus", reduction="median")),
    ("assignment must be one of gcn, skip, mlp, a module", lambda: DiffPool(3, 2, assignment="gat")),
    ("assignment must be one of", lambda: DiffPool(3, 2, assignment=3)),
    ("embed must be a module", lambda: DiffPool(3, 2, embed="gcn")),
    ("gnn must be one of gcn, graphconv, a module or its class, got 'gat'", lambda: SAGPool(3, gnn="gat")),
    ("gnn must be one of", lambda: SAGPool(3, gnn=3)),
    ("gnn must be or make a torch.nn.Module", lambda: SAGPool(3, gnn=lambda a, b: torch.relu)),
    (
        "gnn must return a tensor of shape [4, 1], got [4, 2]",
        lambda: SAGPool(3, gnn=MLP(3, None, 2))(X, PATH),
    ),
    ("assignment must return", lambda: DiffPool(3, 2, assignment=nn.Linear(3, 3))(X, PATH)),
    ("embed must return", lambda: DiffPool(3, 2, 4, embed=nn.Linear(3, 3))(X, PATH)),
    ("in_channels must be given for 'mincut'", lambda: get_pool("mincut", k=2)),
    ("'mincut' needs k", lambda: get_pool("mincut", 3)),
    ("'graclus' does not take 'k'; its options are: reduction, levels,", lambda: get_pool("graclus", 3, k=2)),
    ("'nopool' does not take 'k'; its options are: none", lambda: get_pool("nopool", k=2)),
    ("k must be given", lambda: GraphClassifier(F, 2, "mincut")),
    *[
        ("k must have one value for each of the 2", lambda k=k: GraphClassifier(F, 2, k=k))
        for k in ([3], [3] * 3)
    ],
    ("pool must be one of mincut, diffpool, dmon, justbalance", lambda: NodeClusterer(F, 3, pool="topk")),
    *[
        ("selections must have", lambda s=s: GraphClassifier(3, 2, "graclus")(X, PATH, selections=s))
        for s in ([], [0] * 3)
    ],
    ("selection must be a DenseSelection", lambda: MinCutPool(3, 2)(X, PATH, selection=Other())),
    *[
        ("selection must be", lambda n=n: get_pool(n, 3)(X, PATH, selection=DenseSelection(S, Segments(4))))
        for n in ("topk", "graclus", "ndp", "nopool")
    ],
    (
        "selection must be that of a NoPool",
        lambda: NoPool()(X, PATH, selection=TopKPool(3)(X, PATH).selection),
    ),
    *[
        (
            "selection must come from the graphs that are pooled; it has other rows",
            lambda n=n: MinCutPool(3, 2)(X, PATH, selection=DenseSelection(torch.eye(n), Segments(n))),
        )
        for n in (2, 9)
    ],
    *[
        ("s must hold assignments, which are not negative", lambda f=f: f(X, PATH, S - 0.5))
        for f in (mincut_pool, diff_pool)
    ],
    *[
        ("x must hold counts", lambda call=call: call(-X - 1))
        for call in (
            lambda x: MinCutPool(3, 2, objective="evidence", count_words=True)(x, PATH),
            lambda x: mincut_pool(x, PATH, S, objective="evidence", count_words=True),
        )
    ],
]
GRAPHS = [
    ("x must hold floating-point", lambda: SkipConv(2, 2)(torch.ones(3, 2).long(), EDGES)),
    *[("x must be a tensor", lambda s=s: SkipConv(2, 2)(torch.rand(s), EDGES)) for s in ((3,), (1, 1, 3, 2))],
    ("x has 3 features", lambda: SkipConv(2, 2)(torch.rand(3, 3), EDGES)),
    ("x has [4] nodes", lambda: SkipConv(2, 2)(torch.rand(4, 2), as_operator(EDGES))),
    ("x has [1, 3] nodes", lambda: SkipConv(2, 2)(torch.rand(3, 2), torch.rand(2, 3, 3))),
    ("edge_index names node 2", lambda: SkipConv(2, 2)(torch.rand(2, 2), EDGES)),
    ("edge_weight must", lambda: SkipConv(2, 2)(torch.rand(3, 2), EDGES, torch.ones(3))),
    (
        "adj must have shape [N, N] if it is a sparse",
        lambda: MinCutPool(3, 2)(X, torch.ones(4, 5).to_sparse()),
    ),
    (
        "selection.s must have",
        lambda: MinCutPool(3, 2)(X, PATH, selection=DenseSelection(S[1:], Segments(4))),
    ),
    *[
        (sentence, lambda f=f, change=change: f(X, PATH, change(S)))
        for f in (mincut_pool, diff_pool)
        for sentence, change in (
            ("s must have the rows of adj", lambda s: s[1:]),
            ("s must be a floating-point tensor", lambda s: s.tolist()),
            ("s must be a dense tensor", lambda s: s.to_sparse()),
            ("s must be a floating-point tensor", lambda s: s.long()),
        )
    ],
    *[
        (sentence, lambda c=c, call=call: call(c(3, 2)))
        for c in (GCNConv, GraphConv, SkipConv, MinCutPool)
        for sentence, call in (
            ("x must be a tensor of node features", lambda layer: layer(X.tolist(), PATH)),
            ("x must be a tensor of node features", lambda layer: layer(X.numpy(), PATH)),
            ("x must be a dense tensor", lambda layer: layer(X.to_sparse(), PATH)),
            ("adj must be an operator", lambda layer: layer(X, PATH.tolist())),
            ("edge_index must hold whole numbers", lambda layer: layer(X, PATH.float())),
            ("edge_weight must be a tensor", lambda layer: layer(X, PATH, [1.0] * 6)),
            ("batch must be a tensor", lambda layer: layer(X, PATH, batch=[0] * 4)),
            ("mask must be a tensor", lambda layer: layer(X, torch.ones(4, 4), mask=[[True] * 4])),
        )
    ],
]
CASES = [
    *[(ParameterError, *row) for row in NUMBERS + CHOICES],
    *[(GraphError, *row) for row in GRAPHS],
]


@pytest.mark.parametrize(
    ("error", "sentence", "call"), CASES, ids=[f"{i} {c[1]}" for i, c in enumerate(CASES)]
)
def test_one_sentence_that_names_the_argument(error, sentence, call):
    assert sentence_of(error, call).startswith(sentence)


# Negative weights are refused where degrees divide, and used as they are elsewhere.

REFUSED = {
    "SkipConv": lambda: SkipConv(3, 2),
    "GCNConv": lambda: GCNConv(3, 2),
    "MinCutPool normalise=False": lambda: MinCutPool(3, 2, normalise=False),
    "SAGPool": lambda: SAGPool(3),
    **{c.__name__: lambda c=c: c(3, 2) for c in DENSE},
    "random": lambda: get_pool("random", k=2),
    "graclus": lambda: get_pool("graclus"),
    "ndp": lambda: get_pool("ndp"),
}


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED)
def test_negative_weights_are_refused(made):
    layer, dense = made(), as_operator(PATH, NEGATIVE, num_nodes=4).to_dense()
    for adj in ((PATH, NEGATIVE), (PATH, NEGATIVE.clone().requires_grad_()), (dense,)):
        with pytest.raises(GraphError, match=r"negative|add up to less than 0"):
            layer(X, *adj)


def test_negative_weights_are_used_where_nothing_is_divided_by_degrees():
    matrix = as_operator(PATH, NEGATIVE, num_nodes=4).to_dense()
    conv = GraphConv(3, 2)
    torch.testing.assert_close(
        conv(X, PATH, NEGATIVE), matrix @ conv.lin_rel(X) + conv.bias.bias + conv.lin_root(X)
    )
    out = DiffPool(3, 2, assignment="mlp")(X, PATH, NEGATIVE)
    torch.testing.assert_close(out.adj.to_dense()[0], out.s.mT @ matrix @ out.s)
    torch.testing.assert_close(out.losses["link"], torch.linalg.matrix_norm(matrix - out.s @ out.s.mT))
    for pool in (TopKPool(3, ratio=1.0), get_pool("nopool")):
        assert pool(X, PATH, NEGATIVE).adj.to_dense().min() == -5


@pytest.mark.parametrize("name", POOLS)
def test_weights_that_are_not_finite_are_refused_by_every_pooler(name):
    weight = torch.tensor([1.0, 1.0, torch.nan, 1.0], dtype=torch.double)
    with pytest.raises(GraphError, match="edge_weight must hold finite numbers, got nan at position 2"):
        make(name, SETTINGS[name])(torch.rand(3, F, dtype=torch.double), EDGES, weight)


def test_whole_numbers_of_numpy_and_weights_in_a_column_are_accepted():
    pool = MinCutPool(np.int64(3), np.int64(2), hidden=np.int64(4))
    flat = pool(X, PATH, torch.full((6,), 2.0))
    assert flat.x.shape == (1, 2, 3)
    torch.testing.assert_close(pool(X, PATH, torch.full((6, 1), 2.0)).adj.to_dense(), flat.adj.to_dense())
