"""Every pooler behind one interface, over one awkward batch."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.errors import ParameterError
from softcut.nn import SkipConv, get_pool
from softcut.nn.pool import POOLS, pool_options
from softcut.ops import OBJECTIVES, as_operator

F = 6
SETTINGS = {
    **{name: {"k": 4, "hidden": 8} for name in ("mincut", "dmon", "justbalance")},
    **{name: {"k": 4} for name in ("diffpool", "random")},
    **{name: {"ratio": 0.5} for name in ("topk", "sagpool")},
    **{name: {} for name in ("graclus", "ndp", "nopool")},
}
VARIANTS = [
    *SETTINGS.items(),
    *[("mincut", {"k": 3, "objective": name}) for name in OBJECTIVES if name != "mincut"],
    ("mincut", {"k": 3, "normalise": False}),
    ("dmon", {"k": 3, "ortho_weight": 1.0}),
    ("diffpool", {"k": 4, "out_channels": F, "assignment": "skip", "link_scale": "divided"}),
    ("topk", {"k": 3, "connect": "two_hop"}),
    ("sagpool", {"k": 3, "gnn": "graphconv", "connect": "two_hop"}),
    ("graclus", {"levels": 2, "reduction": "mean"}),
    ("ndp", {"levels": 2, "delta": 0.0}),
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


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_a_padded_batch_equals_the_ragged_one(name: str, options: dict) -> None:
    """Whatever stands in the padding."""
    graphs = [g for g in GRAPHS if len(g[0]) < 100]
    pool, ragged_batch = make(name, options), collate(graphs)
    mask = to_dense_batch(*ragged_batch[::3])[1]
    both = mask.unsqueeze(-1) & mask.unsqueeze(1)
    x = to_dense_batch(*ragged_batch[::3], fill_value=torch.nan)[0]
    adj = torch.where(both, to_dense_adj(ragged_batch[1], ragged_batch[3], ragged_batch[2]), 7.0)
    ragged, padded = pool(*ragged_batch), pool(x, adj, mask=mask)
    torch.testing.assert_close(padded.graph_losses, ragged.graph_losses)
    a, b = padded.adj.to_dense(), ragged.adj.to_dense()
    if padded.mask is None:  # clusters, or rows one after another
        torch.testing.assert_close((padded.x, a), (ragged.x, b))
    else:
        torch.testing.assert_close(padded.x[padded.mask], ragged.x)
        for graph, real in enumerate(padded.mask):
            rows = ragged.batch == graph
            torch.testing.assert_close(a[graph][real][:, real], b[rows][:, rows])
    for pinv in (False, True):
        lifted = pool.lift(padded.x, padded.selection, pinv)
        torch.testing.assert_close(lifted[mask], pool.lift(ragged.x, ragged.selection, pinv))
    rows, edges, _, numbers = padded.to_pyg()
    if name not in DENSE:  # padding does not become nodes
        assert torch.equal(numbers.bincount(), ragged.batch.bincount())
    assert len(rows) == len(numbers) > edges.max()


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


@pytest.mark.parametrize("name", POOLS)
def test_pools_are_copied_saved_and_printed(name: str) -> None:
    x, e, w = GRAPHS[2]
    pool, other = make(name, SETTINGS[name]), make(name, SETTINGS[name], seed=1)
    out = pool(x, e, w)
    assert name not in LEARNED or not torch.equal(other(x, e, w).x, out.x)
    other.load_state_dict(pool.state_dict())
    twin = copy.deepcopy(pool)
    for each in (pickle.loads(pickle.dumps(pool)), other, twin):
        torch.testing.assert_close((each(x, e, w).x, each(x, e, w).loss), (out.x, out.loss))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    torch.testing.assert_close(pool(x, e, w).x, out.x)  # a copy of its own
    assert type(pool).__name__ in repr(pool)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_s_is_the_assignment_matrix(name: str, options: dict) -> None:
    x, e, w = GRAPHS[6]
    adj = to_dense_adj(e, edge_attr=w)
    for out in (make(name, options)(x, e, w), make(name, options)(x, adj)):
        s = out.s.to_dense().double()
        if name == "graclus":
            assert torch.equal(s.sum(-1), torch.ones(s.shape[:-1]).double())
        elif options.get("out_channels") is None:
            pooled = torch.nn.functional.selu(s.mT @ x) if name == "dmon" else s.mT @ x
            torch.testing.assert_close(pooled.reshape(out.x.shape), out.x)


def test_pools_by_name():
    assert not pool_options("nopool")
    assert list(pool_options("random")) == ["k", "seed"]
    with pytest.raises(ParameterError, match=r"unknown pooler 'minkut': choose .* Did you mean 'mincut'\?"):
        get_pool("minkut", 3, k=2)
