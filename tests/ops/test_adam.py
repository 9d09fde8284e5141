"""Adam on the fused kernel against torch.optim.Adam, and what a first fit imports."""

import subprocess
import sys

import pytest
import torch

from softcut.ops.adam import Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_steps_are_those_of_pytorch(dtype, as_tensor):
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
        if step < 2:  # a parameter without a gradient stays where it is, and its steps are not counted
            mine["vector"].grad = theirs["vector"].grad = None
        adam.step()
        reference.step()
    for name, p in mine.items():
        torch.testing.assert_close(p, theirs[name], rtol=0, atol=0)
        for key, value in reference.state[theirs[name]].items():
            torch.testing.assert_close(adam.moments[name][key], value, rtol=0, atol=0)


def test_going_on_with_some_rows():
    p = torch.arange(6.0).view(3, 2).requires_grad_()
    adam = Adam({"p": p}, 0.1)
    p.grad = torch.arange(6.0).view(3, 2)
    adam.step()
    whole = {name: value.clone() for name, value in adam.moments["p"].items()}
    adam.select(torch.tensor([0, 2]))
    assert adam.moments["p"]["step"] == 1
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(adam.moments["p"][name], whole[name][[0, 2]])


def test_a_fit_does_not_import_the_compiler_of_pytorch():
    """It takes longer than a fit of a few thousand nodes."""
    script = (
        "import sys, softcut; from softcut.datasets import attributed_communities;"
        "softcut.GraphClustering(3, random_state=0).fit(attributed_communities(200, 3, seed=0));"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
