"""Every pooler behind one interface, over one awkward batch."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from softcut.errors import ParameterError
from softcut.nn import NoPool, SkipConv, get_pool
from softcut.nn.layers import Bias, UnitLinear
from softcut.nn.pool import POOLS, pool_options
from softcut.ops import CSR, Dense, as_operator

F = 6
SETTINGS = {
    "mincut": {"k": 4, "hidden": 8},
    "diffpool": {"k": 4},
    "topk": {"ratio": 0.5},
    "sagpool": {"ratio": 0.5},
    "graclus": {},
    "ndp": {},
    "nopool": {},
    "random": {"k": 4},
    "dmon": {"k": 4, "hidden": 8},
    "justbalance": {"k": 4, "hidden": 8},
}
VARIANTS = [
    *SETTINGS.items(),
    ("mincut", {"k": 3, "objective": "ratio_trace"}),
    ("mincut", {"k": 3, "objective": "dmon"}),
    ("mincut", {"k": 3, "objective": "just_balance"}),
    ("mincut", {"k": 3, "objective": "evidence"}),
    ("mincut", {"k": 3, "normalise": False}),
    ("dmon", {"k": 3, "ortho_weight": 1.0}),
    ("diffpool", {"k": 4, "out_channels": F, "assignment": "skip", "link_scale": "divided"}),
    ("topk", {"k": 3, "connect": "two_hop"}),
    ("sagpool", {"k": 3, "gnn": "graphconv", "connect": "two_hop"}),
    ("graclus", {"levels": 2, "reduction": "mean"}),
    ("ndp", {"levels": 2, "delta": 0.0}),
    ("random", {"k": 3, "kind": "hard"}),
]
LEARNED = ("mincut", "diffpool", "topk", "sagpool", "dmon", "justbalance")
DENSE = ("mincut", "diffpool", "random", "dmon", "justbalance")


def name_of(value: object) -> str:
    return value if isinstance(value, str) else "-".join(map(str, value.values())) or "default"  # type: ignore[attr-defined]


def make(name: str, options: dict, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return get_pool(name, in_channels=F, **options).double()


def random_graph(rng: np.random.Generator, n: int, p: float, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
    upper = np.triu(rng.random((n, n)) < p, 1)
    row, col = np.nonzero(upper)
    weight = rng.random(len(row)) + 0.1 if weighted else np.ones(len(row))
    return np.stack([np.r_[row, col], np.r_[col, row]]), np.r_[weight, weight]


def awkward_graphs() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """1, 2, 5 and 500 nodes; no edges; disconnected with an isolated node; weighted."""
    rng = np.random.default_rng(0)
    none = np.zeros((2, 0), dtype=int)
    pieces = np.array([[0, 1, 1, 2, 3, 4, 4, 5, 3, 5], [1, 0, 2, 1, 4, 3, 5, 4, 5, 3]])
    cases = [
        (1, none, np.zeros(0)),
        (2, np.array([[0, 1], [1, 0]]), np.ones(2)),
        (5, *random_graph(rng, 5, 0.7, False)),
        (500, *random_graph(rng, 500, 0.01, True)),
        (4, none, np.zeros(0)),
        (7, pieces, np.ones(10)),
        (30, *random_graph(rng, 30, 0.2, True)),
    ]
    return [
        (torch.tensor(rng.standard_normal((n, F))), torch.tensor(e), torch.tensor(w, dtype=torch.double))
        for n, e, w in cases
    ]


def collate(graphs: list) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    sizes = [len(x) for x, _, _ in graphs]
    shift = np.cumsum([0, *sizes[:-1]])
    return (
        torch.cat([x for x, _, _ in graphs]),
        torch.cat([e + int(s) for (_, e, _), s in zip(graphs, shift, strict=True)], 1),
        torch.cat([w for _, _, w in graphs]),
        torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes)),
    )


GRAPHS = awkward_graphs()


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_shapes_and_finite_gradients(name: str, options: dict) -> None:
    x, edge_index, weight, batch = collate(GRAPHS)
    x.requires_grad_()
    weight.requires_grad_()
    pool = make(name, options)
    out = pool(x, edge_index, weight, batch)
    assert out.adj.num_graphs == len(GRAPHS)
    if name in DENSE:
        assert out.x.shape == (len(GRAPHS), options["k"], F)
        assert out.batch is None
    else:
        assert out.x.shape == (out.adj.num_rows, F)
        assert out.batch is not None
        assert (torch.bincount(out.batch, minlength=len(GRAPHS)) > 0).all()  # no graph is lost
        assert torch.equal(torch.diff(out.adj.ptr), torch.bincount(out.batch))
    lifted = pool.lift(out.x, out.selection)
    assert lifted.shape == x.shape
    assert pool.lift(out.x, out.selection, pinv=True).isfinite().all()
    after = SkipConv(F, F).double()(out.x, out.adj)
    assert after.shape == out.x.shape
    (after.square().sum() + lifted.square().sum() + out.loss).backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0
    for parameter in pool.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    if weight.grad is not None:
        assert weight.grad.isfinite().all()
    assert all(v.dim() == 0 and v.isfinite() for v in out.losses.values())
    rows, edges, values, graph = out.to_pyg()
    assert len(rows) == len(graph)
    assert edges.shape[1] == len(values)
    assert torch.equal(graph[edges[0]], graph[edges[1]])


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_batched_equals_one_by_one(name: str, options: dict) -> None:
    pool = make(name, options)
    together = pool(*collate(GRAPHS))
    alone = [pool(x, e, w) for x, e, w in GRAPHS]
    for key, values in together.graph_losses.items():
        torch.testing.assert_close(values, torch.stack([out.losses[key] for out in alone]))
        torch.testing.assert_close(together.losses[key], values.mean())
    dense = together.adj.to_dense()
    for b, out in enumerate(alone):
        if name in DENSE:
            torch.testing.assert_close(together.x[b], out.x[0])
            torch.testing.assert_close(dense[b], out.adj.to_dense()[0])
        else:
            rows = together.batch == b
            torch.testing.assert_close(together.x[rows], out.x)
            torch.testing.assert_close(dense[rows][:, rows], out.adj.to_dense())


@pytest.mark.parametrize(("name", "options"), [v for v in VARIANTS if v[0] in LEARNED], ids=name_of)
def test_permutation_equivariance_of_learned_poolers(name: str, options: dict) -> None:
    pool = make(name, options)
    graphs = GRAPHS
    if name == "sagpool" and "gnn" not in options:
        # A GCN gives all nodes of a pair and of a triangle one score: a tie, which goes by node number.
        graphs = [g for i, g in enumerate(GRAPHS) if i not in (1, 5)]
    generator = torch.Generator().manual_seed(1)
    shuffled, orders = [], []
    for x, e, w in graphs:
        order = torch.randperm(len(x), generator=generator)
        place = torch.argsort(order)
        shuffled.append((x[order], place[e], w))
        orders.append(order)
    plain, moved = pool(*collate(graphs)), pool(*collate(shuffled))
    torch.testing.assert_close(plain.x, moved.x)  # clusters, and nodes by score, come in one order
    torch.testing.assert_close(plain.adj.to_dense(), moved.adj.to_dense())
    for key in plain.losses:
        torch.testing.assert_close(plain.losses[key], moved.losses[key])
    shift = np.cumsum([0, *[len(x) for x, _, _ in graphs]])
    order = torch.cat([o + int(s) for o, s in zip(orders, shift, strict=False)])
    lifted, again = pool.lift(plain.x, plain.selection), pool.lift(moved.x, moved.selection)
    torch.testing.assert_close(lifted[order], again)


@pytest.mark.parametrize("name", ["graclus", "ndp"])
def test_permutation_equivariance_without_ties(name: str) -> None:
    rng = np.random.default_rng(3)
    for n, p in ((40, 0.15), (120, 0.05), (400, 0.02)):
        e, w = random_graph(rng, n, p, True)
        x, e, w = torch.tensor(rng.standard_normal((n, F))), torch.tensor(e), torch.tensor(w)
        order = torch.tensor(rng.permutation(n))
        plain = make(name, {})(x, e, w)
        moved = make(name, {})(x[order], torch.argsort(order)[e], w)
        assert plain.x.shape == moved.x.shape
        if name == "graclus":
            one, two = plain.selection.cluster[order], moved.selection.cluster
            assert torch.equal(one[:, None] == one[None], two[:, None] == two[None])
        else:
            kept = set(plain.selection.index.tolist())
            assert kept == set(order[moved.selection.index].tolist())


@pytest.mark.parametrize(
    ("name", "options"),
    [v for v in VARIANTS if v[0] in LEARNED],
    ids=name_of,
)
def test_padded_batch_equals_ragged(name: str, options: dict) -> None:
    graphs = [g for g in GRAPHS if len(g[0]) < 100]
    x, edge_index, weight, batch = collate(graphs)
    n = max(len(g[0]) for g in graphs)
    mask = torch.zeros(len(graphs), n, dtype=torch.bool)
    dense_x, dense_a = torch.full((len(graphs), n, F), 7.0).double(), torch.zeros(len(graphs), n, n).double()
    for b, (gx, e, w) in enumerate(graphs):
        mask[b, : len(gx)] = True
        dense_x[b, : len(gx)] = gx
        dense_a[b, e[0], e[1]] = w
    pool = make(name, options)
    ragged = pool(x, edge_index, weight, batch)
    padded = pool(dense_x, dense_a, mask=mask)
    for key in ragged.losses:
        torch.testing.assert_close(padded.losses[key], ragged.losses[key])
    if name in DENSE:
        torch.testing.assert_close(padded.x, ragged.x)
        torch.testing.assert_close(padded.adj.to_dense(), ragged.adj.to_dense())
    else:
        torch.testing.assert_close(padded.x[padded.mask], ragged.x)
        a = ragged.adj.to_dense()
        for b in range(len(graphs)):
            rows, real = ragged.batch == b, padded.mask[b]
            torch.testing.assert_close(padded.adj.to_dense()[b][real][:, real], a[rows][:, rows])
    lifted = pool.lift(padded.x, padded.selection)
    torch.testing.assert_close(lifted[mask], pool.lift(ragged.x, ragged.selection))


@pytest.mark.parametrize("first", POOLS)
@pytest.mark.parametrize("second", POOLS)
def test_stacking(first: str, second: str) -> None:
    x, edge_index, weight, batch = collate(GRAPHS)
    one = make(first, SETTINGS[first])(x, edge_index, weight, batch)
    two_pool = make(second, SETTINGS[second] | ({"k": 2} if second in DENSE else {}))
    h = SkipConv(F, F).double()(one.x, one.adj)
    two = two_pool(h, one.adj)
    assert two.adj.num_graphs == len(GRAPHS)
    assert two.x.isfinite().all()
    assert two_pool.lift(two.x, two.selection).shape == h.shape
    assert SkipConv(F, F).double()(two.x, two.adj).isfinite().all()


@pytest.mark.parametrize("name", ["mincut", "diffpool", "topk", "sagpool", "graclus", "ndp", "nopool"])
def test_replicas_by_vmap(name: str) -> None:
    """Selecting, reducing and lifting one graph runs under vmap with shared A and stacked weights."""
    x, e, w = GRAPHS[6]
    op = as_operator(e, w, num_nodes=len(x))
    pools = [make(name, SETTINGS[name], seed) for seed in range(3)]
    state = torch.func.stack_module_state(pools)

    def run(params: dict, buffers: dict, x: torch.Tensor) -> torch.Tensor:
        out = torch.func.functional_call(pools[0], (params, buffers), (x, op))
        return out.selection.lift(out.x) + out.loss

    features = torch.stack([x * (1 + r) for r in range(3)])
    got = torch.func.vmap(run)(*state, features)
    want = []
    for pool, f in zip(pools, features, strict=True):
        out = pool(f, op)
        want.append(pool.lift(out.x, out.selection) + out.loss)
    torch.testing.assert_close(got, torch.stack(want))


def test_topk_padded_is_static_under_vmap() -> None:
    pool = make("topk", {"ratio": 0.5})
    x, a = torch.rand(4, 2, 10, F).double(), torch.rand(2, 10, 10).double()
    a = a + a.mT

    def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = pool(x, a)
        return out.x, out.adj.to_dense()

    got = torch.func.vmap(run)(x)
    for r in range(4):
        torch.testing.assert_close(got[0][r], run(x[r])[0])
        torch.testing.assert_close(got[1][r], run(x[r])[1])


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("mincut", {"k": 0}),
        ("diffpool", {"k": 0}),
        ("diffpool", {"k": 2, "temperature": 0.0}),
        ("diffpool", {"k": 2, "assignment": "transformer"}),
        ("diffpool", {"k": 2, "link_scale": "half"}),
        ("topk", {"ratio": 0.0}),
        ("topk", {"ratio": 1.5}),
        ("topk", {"k": 0}),
        ("topk", {"connect": "three_hop"}),
        ("sagpool", {"gnn": "gat"}),
        ("graclus", {"reduction": "median"}),
        ("graclus", {"levels": 0}),
        ("ndp", {"delta": 1.0}),
        ("random", {"k": 0}),
        ("random", {"k": 2, "kind": "soft"}),
    ],
)
def test_bad_values_are_refused(name: str, bad: dict) -> None:
    with pytest.raises(ParameterError):
        get_pool(name, in_channels=F, **bad)


def test_a_selection_of_the_wrong_kind_is_refused() -> None:
    x, e, w = GRAPHS[2]
    soft = make("mincut", {"k": 2})(x, e, w).selection
    for name in ("topk", "graclus", "ndp"):
        with pytest.raises(ParameterError, match="selection must be"):
            make(name, {})(x, e, w, selection=soft)


@pytest.mark.parametrize("name", POOLS)
def test_pools_pickle_and_print(name: str) -> None:
    x, e, w = GRAPHS[2]
    pool = make(name, SETTINGS[name])
    out = pool(x, e, w)
    again = pickle.loads(pickle.dumps(pool))(x, e, w)
    torch.testing.assert_close(out.x, again.x)
    assert type(pool).__name__ in repr(pool)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_s_is_the_assignment_matrix(name: str, options: dict) -> None:
    x, e, w = GRAPHS[6]
    out = make(name, options)(x, e, w)
    s = out.s.to_dense().double()
    if name == "graclus":
        assert torch.equal(s.sum(1), torch.ones(len(x)).double())
    elif options.get("out_channels") is None:
        pooled = s.mT @ x
        if name == "dmon":
            pooled = torch.nn.functional.selu(pooled)
        torch.testing.assert_close(pooled.reshape(out.x.shape), out.x)


def test_unconnected_output_costs_no_connection() -> None:
    x, e, w = GRAPHS[6]
    out = make("topk", {})(x, e, w)
    assert not isinstance(out._adj, CSR)
    assert out.adj is out.adj


def test_nopool_keeps_the_mask() -> None:
    mask = torch.tensor([[True, False]])
    out = NoPool()(torch.ones(1, 2, 3), torch.ones(1, 2, 2), mask=mask)
    assert torch.equal(out.mask, mask)
    assert isinstance(out.adj, Dense)


class Called(torch.nn.Module):
    """A linear layer that can be called and nothing else, as one with an axis of replicas would be."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_linear_layers_are_only_called_so_they_may_be_swapped(name: str, options: dict) -> None:
    model = make(name, options)
    x, edge_index, weight, batch = collate(GRAPHS)
    before = model(x, edge_index, weight, batch)
    linear = (torch.nn.Linear, Bias, UnitLinear)
    owned = {id(p) for m in model.modules() if isinstance(m, linear) for p in m.parameters()}
    assert owned == {id(p) for p in model.parameters()}  # no parameter stands outside of them
    for parent in list(model.modules()):
        for child, module in list(parent.named_children()):
            if isinstance(module, linear):
                parent.register_module(child, Called(module))
    after = model(x, edge_index, weight, batch)
    assert torch.equal(before.x, after.x)
    assert torch.equal(before.loss, after.loss)


def test_pools_by_name():
    assert not pool_options("nopool")
    assert list(pool_options("random")) == ["k", "kind", "seed"]
    with pytest.raises(ParameterError, match=r"unknown pooler 'minkut': .* Did you mean 'mincut'\?"):
        get_pool("minkut", 3, k=2)
    with pytest.raises(ParameterError, match="in_channels must be given for 'mincut'"):
        get_pool("mincut", k=2)
    with pytest.raises(ParameterError, match="'mincut' needs k"):
        get_pool("mincut", 3)
    with pytest.raises(
        ParameterError, match="'graclus' does not take 'k'; its options are: reduction, levels, seed, cache"
    ):
        get_pool("graclus", 3, k=2)
    with pytest.raises(ParameterError, match="its options are: none"):
        get_pool("nopool", k=2)
