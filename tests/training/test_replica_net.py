"""Networks with a replica axis and their first layer: first weights, scales, temperature, the way products are made."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.errors import ParameterError
from softcut.ops import CSR
from softcut.training import ConvInput, DenseInput, ReplicaNet, replica_seeds


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def glorot(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * uniform - 1) * math.sqrt(6 / (rows + columns))


def test_seeds_are_words_of_a_seed_sequence_and_do_not_depend_on_their_number():
    assert replica_seeds(7, 3) == np.random.SeedSequence(7).generate_state(3, np.uint32).tolist()
    assert replica_seeds(3, 10)[:4] == replica_seeds(3, 4) != replica_seeds(4, 4)


@pytest.mark.parametrize("terms", [1, 2])
def test_first_weights(terms):
    net = ReplicaNet(5, 3, seeds=[4, 9], hidden=2, terms=terms, dtype=torch.float64)
    for r, seed in enumerate((4, 9)):
        generator = torch.Generator().manual_seed(seed)
        for kernel in net.first:
            normal = torch.randn(2, 5, generator=generator, dtype=torch.float64)
            torch.testing.assert_close(kernel[r], normal * math.sqrt(2 / 5))
        torch.testing.assert_close(net.second[r], glorot(3, 2, generator))
    assert net.bias.shape == (2, 2) and net.second_bias.shape == (2, 3)
    assert net.bias.abs().sum() == net.second_bias.abs().sum() == 0


def test_one_linear_layer():
    net = ReplicaNet(5, 3, seeds=[4], hidden=0, dtype=torch.float64)
    torch.testing.assert_close(net.first[0][0], glorot(3, 5, torch.Generator().manual_seed(4)))
    z = numbers(7, 5)
    with torch.no_grad():
        net.bias += 0.3
    torch.testing.assert_close(net(DenseInput(z))[0], (z @ net.first[0][0].T + 0.3).T)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_divides(temperature):
    z = numbers(7, 5)
    net = ReplicaNet(5, 3, seeds=[4, 5], dtype=torch.float64)
    h = torch.nn.functional.elu(torch.einsum("rhf,nf->rhn", net.first[0], z) + net.bias[..., None])
    logits = torch.einsum("rkh,rhn->rkn", net.second, h) + net.second_bias[..., None]
    wanted = torch.softmax(logits / temperature, 1).permute(2, 0, 1)
    torch.testing.assert_close(net.soft(DenseInput(z), temperature), wanted)
    torch.testing.assert_close(net.assign(DenseInput(z), temperature), wanted)
    assert net.soft(DenseInput(z)).requires_grad and not net.assign(DenseInput(z)).requires_grad


def test_scales_and_what_is_kept():
    net = ReplicaNet(5, 3, seeds=[1, 2, 3], scales=[0, 1, 1])
    kept = net.keep([0, 2])
    assert kept.scales == [0, 1]
    assert torch.equal(kept.second, net.second[[0, 2]])
    usual = {"in_channels": 5, "k": 3, "hidden": 16, "terms": 1, "scales": [0, 0]}
    assert ReplicaNet(5, 3, seeds=[1, 2]).meta() == usual
    for bad in ([1, 0], [0], [0, 1, 1]):
        with pytest.raises(ParameterError, match="scales must name one scale for each replica"):
            ReplicaNet(5, 3, seeds=[1, 2], scales=bad)


def test_both_layers_at_once_are_those_of_separate_operations():
    """On a CPU the passes are written out; another activation takes the ordinary way."""
    z, scales = numbers(2, 7, 5), [0, 1, 1]
    net = ReplicaNet(5, 3, seeds=[1, 2, 3], hidden=4, scales=scales, dtype=torch.float64)
    for bias in (net.bias, net.second_bias):
        torch.nn.init.normal_(bias, generator=torch.Generator().manual_seed(0))
    parameters, slope = list(net.parameters()), numbers(3, 3, 7, seed=2)
    mine = net(DenseInput(z))
    net.act = lambda h: torch.nn.functional.elu(h)
    plain = net(DenseInput(z))
    torch.testing.assert_close(mine, plain)
    for a, b in zip(*(torch.autograd.grad(each, parameters, slope) for each in (mine, plain)), strict=True):
        torch.testing.assert_close(a, b)
    wanted = torch.nn.functional.elu(net.first[0] @ z[scales].mT + net.bias.unsqueeze(-1))
    torch.testing.assert_close(mine, net.second @ wanted + net.second_bias.unsqueeze(-1))


def test_replicas_read_the_features_of_their_scale():
    z, kernel = numbers(3, 7, 5), numbers(4, 2, 5, seed=1)
    for given in (z, {0: z[0], 2: z[2]}):
        rows = DenseInput(given)([kernel], [0, 0, 2, 2])
        for r, scale in enumerate([0, 0, 2, 2]):
            torch.testing.assert_close(rows[r], kernel[r] @ z[scale].T)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(
    ("nonzero", "f", "columns", "kind"),
    [
        # 4 rows, 8 entries of A; a sparse multiplication costs 4 dense ones.
        (2, 40, 1, "sparse"),  # 4 (2 t + 8) against 160 t + 32
        (40, 40, 1, "sparse"),  # as much as
        (41, 40, 1, "dense"),
        (160, 40, 1, "dense"),
        (32, 40, 10, "sparse"),  # 4 (32 t + 8) against 160 t
        (37, 40, 10, "constant"),
        (160, 40, 10, "constant"),  # A~ X is kept where F <= 4 columns
        (160, 40, 9, "dense"),
    ],
)
def test_the_cheapest_way_is_taken(skip, nonzero, f, columns, kind):
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    op = CSR.from_edge_index(edges, torch.ones(8, dtype=torch.float64), num_nodes=4)
    x = np.zeros(4 * f)
    x[:nonzero] = np.arange(1, nonzero + 1)
    x = x.reshape(4, f)
    terms = 2 if skip else 1
    weights = [numbers(2, 3, f, seed=i).requires_grad_() for i in range(terms)]
    dense = torch.from_numpy(x)
    wanted = torch.einsum("rhf,nf->rhn", weights[0], op.normalise().to_dense() @ dense)
    if skip:
        wanted = wanted + torch.einsum("rhf,nf->rhn", weights[1], dense)
    gradients = torch.autograd.grad(wanted.square().sum(), weights)
    for given in (sp.csr_array(x), x):
        layer = ConvInput(op, given, columns=columns, skip=skip, dtype=torch.float64)
        assert (layer.kind, layer.terms) == (kind, terms)
        out = layer(weights, [0, 0])
        torch.testing.assert_close(out, wanted)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), weights), gradients)
