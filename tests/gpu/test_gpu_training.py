"""Training on a GPU: a captured CUDA graph takes the same steps as ordinary calls and as the CPU."""

import numpy as np
import pytest
import torch

from softcut.datasets import attributed_communities
from softcut.ops import CSR, OBJECTIVES, Words
from softcut.training import DenseInput, ReplicaNet, TrainSettings, repeat, replica_seeds, train


@pytest.mark.parametrize("times", [1, 3, 4, 20])
def test_a_captured_step_equals_an_ordinary_one(times):
    def steps(capture):
        generator = torch.Generator(device="cuda").manual_seed(0)
        x = torch.rand(50, 6, device="cuda", dtype=torch.float64, generator=generator)
        w = torch.rand(6, 3, device="cuda", dtype=torch.float64, generator=generator).requires_grad_()
        optimiser = torch.optim.Adam([w], lr=0.1, capturable=True)
        seen = torch.zeros((), device="cuda", dtype=torch.float64)

        def step():
            loss = (x @ w).softmax(-1).square().sum()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
            seen.copy_(loss.detach())

        values = []
        for _ in repeat(step, times, capture):
            values.append(seen.item())
        return values, w.detach()

    ordinary, captured = steps(False), steps(True)
    assert len(ordinary[0]) == len(captured[0]) == times
    np.testing.assert_allclose(captured[0], ordinary[0], rtol=1e-12)
    torch.testing.assert_close(captured[1], ordinary[1], rtol=1e-12, atol=1e-12)


def trained(device, dtype, **settings):
    graph = attributed_communities(300, 4, seed=0)
    x = torch.from_numpy(np.asarray(graph.x.toarray(), dtype=np.float64)).to(device, dtype)
    net = ReplicaNet(x.shape[1], 4, replica_seeds(0, 3)).to(device, dtype)
    op = CSR.from_graph(graph, device=device)
    words = Words(graph.x, dtype=dtype, device=device)
    result = train(
        net, DenseInput(x), op, TrainSettings(iterations=50, tolerance=None, **settings), words=words
    )
    return net, result


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_training_is_that_of_the_cpu(objective):
    here = trained("cpu", torch.float64, objective=objective)
    there = trained("cuda", torch.float64, objective=objective)
    assert there[1].iterations == 50
    np.testing.assert_allclose(there[1].cut, here[1].cut, atol=1e-9)
    np.testing.assert_allclose(there[1].ortho, here[1].ortho, atol=1e-9)
    for (name, a), (_, b) in zip(here[0].named_parameters(), there[0].named_parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-6, atol=1e-8, msg=name)


def test_two_trainings_agree_to_the_bit():
    first, again = (trained("cuda", torch.float32) for _ in range(2))
    assert np.array_equal(first[1].cut, again[1].cut)
    for a, b in zip(first[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(a, b)
