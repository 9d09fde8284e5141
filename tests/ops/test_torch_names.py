"""PyTorch's private names: used in one file only, and everything is right without them."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from helpers.graph_strategies import make_operator, plain_cut, plain_normalise
from torch.autograd import gradcheck, gradgradcheck

import softcut
from softcut.nn import MinCutPool
from softcut.ops import CSR, _torch, cut_terms, mincut_loss, quadratic_form

NAMES = ("_functorch", "_autograd", "_dispatch_keys", "_BATCHED")
PRIVATE = re.compile(r"\btorch\._\w|from torch(\.\w+)*\._|import torch\._|\._version\b")


def test_one_file_uses_private_names_of_torch():
    root = Path(softcut.__file__).parent
    users = {p.relative_to(root).as_posix() for p in root.rglob("*.py") if PRIVATE.search(p.read_text())}
    assert users == {"ops/_torch.py"}


@pytest.fixture(params=[*NAMES, "all"])
def without(request, monkeypatch):
    """A PyTorch that lacks one of the names, or all of them."""
    for name in NAMES if request.param == "all" else [request.param]:
        monkeypatch.setattr(_torch, name, None)
    monkeypatch.setattr(_torch, "_clear_stack", nullcontext)
    return request.param


@pytest.mark.parametrize("kind", ["binary", "ragged weighted", "sum", "dense symmetric"])
def test_losses_and_gradients_are_right_without_them(without, kind):
    op, sample = make_operator(kind)
    op = op.normalise()
    s = (sample.assignments(2) if op.layout.rows == 1 else sample.pad(sample.assignments(2))).requires_grad_()
    for function in (lambda s: cut_terms(op, s), lambda s: quadratic_form(op, s)):
        assert gradcheck(function, s)
        assert gradgradcheck(function, s)
    twice = cut_terms(op, s)[0].sum()
    first = torch.autograd.grad(twice, s, retain_graph=True)[0].clone()
    torch.testing.assert_close(torch.autograd.grad(twice, s)[0], first)


def test_a_step_is_right_without_them(without):
    sample = make_operator("weighted")[1]
    s = sample.assignments(3)
    loss = mincut_loss(s, sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(loss, plain_cut(plain_normalise(sample.block()), s))
    out = MinCutPool(3, 2).double()(sample.rand(sample.n, 3), sample.edge_index, sample.edge_weight)
    out.loss.backward()


def test_where_changes_in_place_are_not_counted_no_pattern_is_kept(monkeypatch):
    monkeypatch.setattr("softcut.ops.csr.version", lambda t: None)
    edges = torch.tensor([[0, 1], [1, 0]])
    assert CSR.from_edge_index(edges, num_nodes=3).to_dense()[0, 1] == 1
    edges += 1
    assert CSR.from_edge_index(edges, num_nodes=3).to_dense()[1, 2] == 1
