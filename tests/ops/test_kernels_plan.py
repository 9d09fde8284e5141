"""How rows are shared out, which tile sizes are taken, and when kernels are used: needs no Triton."""

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softcut.errors import ParameterError
from softcut.ops import CSRPattern, batching, kernels
from softcut.ops.batching import ragged_on_kernels, replicas_on_kernels
from softcut.ops.kernels import takes, use
from softcut.ops.kernels.plan import Tiles, choose, measured_choices, row_plan, table
from softcut.ops.spmm import on_kernels

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from gpu_tuning import candidates, remember


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.sampled_from([1, 7, 64, 512]))
def test_every_entry_is_added_once_to_its_row(lengths, piece):
    rowptr = torch.tensor([0, *lengths]).cumsum(0)
    plan = row_plan(rowptr, piece)
    owner = torch.full((int(rowptr[-1]),), -1)
    dest = torch.arange(len(lengths)) if plan.dest is None else plan.dest
    seen = dest.tolist()
    for row, first, last in zip(dest.tolist(), plan.first.tolist(), plan.last.tolist(), strict=True):
        assert last - first <= piece or plan.dest is None
        assert (owner[first:last] == -1).all()
        owner[first:last] = row
    if plan.long is not None:
        seen += plan.long.rows.tolist()
        for i, row in enumerate(plan.long.rows.tolist()):
            before = int(rowptr[row])
            for p in range(int(plan.long.bounds[i]), int(plan.long.bounds[i + 1])):
                first, last = int(plan.long.first[p]), int(plan.long.last[p])
                assert first == before and 0 < last - first <= piece  # in order, none left out
                owner[first:last] = row
                before = last
    assert sorted(seen) == list(range(len(lengths)))
    assert torch.equal(owner, torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)))


def test_rows_of_about_one_length_stay_in_order():
    assert row_plan(torch.arange(0, 3300, 33)).dest is None
    uneven = row_plan(torch.tensor([0, 1, 2, 202, 203, 204, 205, 206]))
    assert uneven.dest.tolist() == [2, 0, 1, 3, 4, 5, 6]
    assert uneven.long is None


@given(
    st.integers(1, 600), st.floats(0.1, 1e4), st.sampled_from([torch.float32, torch.bfloat16, torch.float64])
)
def test_tiles_are_powers_of_two_that_fit(k, mean, dtype):
    for choice in (table(k, dtype), *candidates(k, mean, dtype)):
        for size in (choice.rows, choice.neighbours, choice.columns, choice.warps):
            assert size & (size - 1) == 0 and size > 0
        assert choice.columns >= min(k, 64)
        registers = choice.rows * choice.neighbours * choice.columns // (32 * choice.warps)
        assert registers <= 128


def forget_choices():
    measured_choices.cache_clear()
    choose.cache_clear()


def test_a_measured_choice_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cpu, mine = torch.device("cpu"), Tiles(2, 2, 2, 1)
    forget_choices()
    try:
        before = choose(16, 30.0, torch.float32, cpu)
        assert before == table(16)
        path = remember(16, 30.0, torch.float32, cpu, mine)
        assert path == tmp_path / "softcut" / "kernels.json"
        assert choose(16, 31.0, torch.float32, cpu) == mine  # about the same mean
        assert choose(16, 31.0, torch.float32, cpu, uneven=True) == before
        assert choose(16, 70.0, torch.float32, cpu) == table(16)
        assert choose(16, 30.0, torch.bfloat16, cpu) == table(16, torch.bfloat16)
        path.write_text("[1]")
        forget_choices()
        assert choose(16, 30.0, torch.float32, cpu) == before
    finally:
        forget_choices()


def test_who_takes_a_product(monkeypatch):
    s = torch.ones(4, 4)
    assert not takes(s, 10**9)
    monkeypatch.setattr(kernels, "installed", lambda: True)
    with use("triton"):
        assert takes(s, 1)
        assert not takes(s.to(torch.int32), 1)
        for entries, columns in itertools.product(
            (0, 1), (0, 1)
        ):  # nothing to multiply is no work for a kernel
            one = torch.zeros(entries, dtype=torch.long)
            assert on_kernels(CSRPattern.from_coo(one, one, (4, 4))[0], s[:, :columns]) == (entries * columns)
        with use("torch"):
            assert not takes(s, 1)
        assert takes(s, 1)
    with (
        pytest.raises(ParameterError, match="mode must be one of 'auto', 'torch', 'triton', got 'fast'"),
        use("fast"),
    ):
        pass


def test_what_a_product_costs_decides(monkeypatch):
    asked = []
    monkeypatch.setattr(batching, "takes", lambda s, *cost: asked.append(cost) or True)
    # The multiplications of A'B, or of A with a matrix per graph or replica, are the entries times K.
    for b in (torch.rand(5, 3), torch.rand(1, 2, 3)):
        assert ragged_on_kernels(torch.rand(5, 2), b) and asked.pop() == (15, kernels.FEWEST)
    for b in (torch.rand(5, 4, 3), torch.rand(1, 4, 2, 3)):
        assert replicas_on_kernels(torch.rand(5, 4, 2), b) and asked.pop() == (60, kernels.FEWEST_SMALL)
    assert ragged_on_kernels(torch.rand(1, 1), torch.rand(1, 1)) and asked.pop() == (1, kernels.FEWEST)
    assert not ragged_on_kernels(torch.rand(5, 4, 2), torch.rand(5, 4, 3))
    assert not replicas_on_kernels(torch.rand(5, 2), torch.rand(5, 3))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # sizes may not be known
    assert not ragged_on_kernels(torch.rand(5, 2), torch.rand(5, 3)) and not asked


def test_importing_does_not_need_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    spec = importlib.util.find_spec("softcut.ops.kernels.programs")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.triton is None and callable(module.sum_rows)
