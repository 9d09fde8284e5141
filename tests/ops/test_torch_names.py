"""PyTorch's private names: used in one file only, right without them; Adam on PyTorch's fused kernel."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from helpers.graph_strategies import make_operator
from torch.autograd import gradcheck, gradgradcheck

import softcut
from softcut.ops import _torch, cut_terms, quadratic_form
from softcut.ops.adam import Adam

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("missing", [(0, 1), (1, 3)])
def test_steps_are_those_of_pytorch(dtype, as_tensor, missing):
    generator = torch.Generator().manual_seed(0)
    values = {
        "table": torch.randn(5, 3, generator=generator, dtype=dtype),
        "vector": torch.randn(7, generator=generator, dtype=torch.float32),
    }
    mine, theirs = ({n: v.clone().requires_grad_() for n, v in values.items()} for _ in range(2))
    rate = torch.tensor(0.01, dtype=torch.float64) if as_tensor else 0.01
    adam, reference = Adam(mine, rate), torch.optim.Adam(list(theirs.values()), lr=rate, fused=True)
    for step in range(5):
        for p in (*mine.values(), *theirs.values()):
            p.grad = p.detach() ** 2 + step
        if step in missing:  # a parameter without a gradient stays where it is, and its steps are not counted
            mine["vector"].grad = theirs["vector"].grad = None
        adam.step()
        reference.step()
    for name, p in mine.items():
        torch.testing.assert_close(p, theirs[name], rtol=0, atol=0)
        for key, value in reference.state[theirs[name]].items():
            torch.testing.assert_close(adam.moments[name][key], value, rtol=0, atol=0)
