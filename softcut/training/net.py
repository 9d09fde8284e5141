"""R copies of one clustering network, with a replica axis in every parameter.

R restarts share the graph and the features, so R restarts are one sparse product with R*K columns, one
matrix product with R*H columns and one optimiser step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.layers import Activation, get_activation
from softcut.ops import Segments
from softcut.ops.batching import replicas_on_kernels
from softcut.training.inputs import FirstLayer

__all__ = ["ReplicaNet", "replica_seeds", "softmax_of"]


def replica_seeds(random_state: int, replicas: int) -> list[int]:
    """One seed per replica; the first r seeds do not depend on how many there are.

    >>> replica_seeds(0, 4)[:2] == replica_seeds(0, 2)
    True
    """
    words = np.random.SeedSequence(random_state).generate_state(replicas, np.uint32)
    return [int(w) for w in words]


def softmax_of(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """S [N, R, K] (a view of [R, K, N]) from logits [R, K, N]."""
    if temperature != 1.0:
        logits = logits / temperature
    return torch.softmax(logits, dim=1).permute(2, 0, 1)


def _glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    uniform = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * uniform - 1) * math.sqrt(6 / (rows + columns))


class ReplicaNet(nn.Module):
    r"""R copies of: logits = act(first layer + b) W + b', with their own weights.

    With a :class:`~softcut.training.inputs.ConvInput` this is the paper's model (eq. 1 and a softmax
    layer); with a :class:`~softcut.training.inputs.DenseInput`, an MLP on propagated features. He-normal
    kernels in the first layer, Glorot-uniform in the last. ``hidden=0``: one linear layer, Glorot-uniform.

    >>> import torch
    >>> from softcut.training import DenseInput
    >>> net = ReplicaNet(in_channels=3, k=2, seeds=[0, 1], hidden=4)
    >>> net(DenseInput(torch.ones(5, 3))).shape                # [R, K, N]
    torch.Size([2, 2, 5])
    >>> net.assign(DenseInput(torch.ones(5, 3))).shape         # S: [N, R, K]
    torch.Size([5, 2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        seeds: Sequence[int],
        hidden: int = 16,
        terms: int = 1,
        act: Activation = "elu",
        scales: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.scales = [0] * len(seeds) if scales is None else list(scales)
        if len(self.scales) != len(seeds) or self.scales != sorted(self.scales):
            raise ParameterError("scales must name one scale for each replica, in rising order.")
        self.in_channels, self.k, self.hidden, self.terms = in_channels, k, hidden, terms
        self.replicas = len(seeds)
        self.act = get_activation(act)
        width = hidden or k
        firsts: list[list[Tensor]] = [[] for _ in range(terms)]
        seconds = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            for kernels in firsts:
                if hidden:
                    normal = torch.randn(hidden, in_channels, generator=generator, dtype=torch.float64)
                    kernels.append(normal * math.sqrt(2 / max(1, in_channels)))
                else:
                    kernels.append(_glorot(k, in_channels, generator))
            seconds.append(_glorot(k, hidden, generator) if hidden else torch.zeros(0, 0))
        self.first = nn.ParameterList(
            nn.Parameter(torch.stack(kernels).to(dtype))  # [R, H, F]
            for kernels in firsts
        )
        self.bias = nn.Parameter(torch.zeros(self.replicas, width, dtype=dtype))
        if hidden:
            self.second = nn.Parameter(torch.stack(seconds).to(dtype))  # [R, K, H]
            self.second_bias = nn.Parameter(torch.zeros(self.replicas, k, dtype=dtype))

    def forward(self, inputs: FirstLayer) -> Tensor:
        """Logits [R, K, N]."""
        h = inputs(list(self.first), self.scales) + self.bias.unsqueeze(-1)
        if not self.hidden:
            return h
        if self.act is not None:
            h = self.act(h)
        rows, kernel = h.permute(2, 0, 1), self.second.mT.unsqueeze(0)
        if replicas_on_kernels(rows, kernel):
            logits = Segments(h.shape[-1]).matmul(rows, kernel).permute(1, 2, 0)
            return logits + self.second_bias.unsqueeze(-1)
        return torch.baddbmm(self.second_bias.unsqueeze(-1), self.second, h)

    def keep(self, replicas: Sequence[int]) -> ReplicaNet:
        """A net with some of the replicas only."""
        index = torch.as_tensor(list(replicas))
        chosen = {k: v.detach().cpu()[index] for k, v in self.state_dict().items()}
        return ReplicaNet.restore({**self.meta(), "scales": [self.scales[r] for r in replicas]}, chosen)

    def meta(self) -> dict[str, Any]:
        """Sizes, for a saved model."""
        return {
            "in_channels": self.in_channels,
            "k": self.k,
            "hidden": self.hidden,
            "terms": self.terms,
            "scales": self.scales,
        }

    @classmethod
    def restore(cls, meta: dict[str, Any], state: dict[str, Tensor]) -> ReplicaNet:
        """From what :meth:`meta` and ``state_dict`` gave."""
        net = cls(seeds=[0] * len(meta["scales"]), dtype=state["bias"].dtype, **meta)
        net.load_state_dict(state)
        return net

    def soft(self, inputs: FirstLayer, temperature: float = 1.0) -> Tensor:
        """S of every replica, [N, R, K] (a view of [R, K, N])."""
        return softmax_of(self(inputs), temperature)

    @torch.no_grad()
    def assign(self, inputs: FirstLayer, temperature: float = 1.0) -> Tensor:
        """As :meth:`soft`, without a graph of gradients."""
        return self.soft(inputs, temperature)
