"""R copies of one clustering network, with a replica axis in every parameter, and their first layer.

R restarts share the graph and the features, so R restarts are one sparse product with R*K columns, one matrix product
with R*H columns and one optimiser step. The features X are constant: what can be computed from them once is computed
once, and a sparse X (bag of words) stays sparse. Nodes are the last axis: softmax and activation then run along
contiguous memory, many times faster on CPUs.

A first layer (:class:`DenseInput` or :class:`ConvInput`) takes `terms` kernels [R, H, in_channels], and `scales` that
say which features each replica reads, to [R, H, N].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from softcut.errors import ParameterError
from softcut.ops import CSRPattern, Operator, Segments
from softcut.ops.batching import replicas_on_kernels
from softcut.ops.information import SPARSE_COST
from softcut.ops.kernels import on_cpu
from softcut.ops.numerics import elu_gradient
from softcut.ops.spmm import spmm

_ELU = nn.functional.elu_


class DenseInput:
    """W Z' for a dense constant Z, or for several: replica r reads the one that its scale names.

    >>> import torch
    >>> DenseInput(torch.ones(2, 3))([torch.ones(1, 4, 3)], [0]).shape
    torch.Size([1, 4, 2])

    `z` is [N, F], [scales, N, F], or matrices [N, F] by scale.
    """

    terms = 1

    def __init__(self, z: Tensor | Mapping[int, Tensor]) -> None:
        first = z if isinstance(z, Tensor) else next(iter(z.values()))
        self.z: Any = z.unsqueeze(0) if isinstance(z, Tensor) and z.dim() == 2 else z
        self.in_channels = first.shape[-1]

    def groups(self, scales: Sequence[int]) -> tuple[list[Tensor], list[int]]:
        """The features that are read, and how many replicas read each; those of one scale stand together."""
        each = [(scale, len(list(members))) for scale, members in itertools.groupby(scales)]
        return [self.z[scale] for scale, _ in each], [n for _, n in each]

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        return _ProductPerScale.apply(weights[0], *self.groups(scales))


def _per_scale(kernel: Tensor, features: list[Tensor], counts: list[int]) -> Tensor:
    """W_r Z' [R, H, N], with a constant Z [N, F] for each group of replicas; written into one array."""
    out = kernel.new_empty(*kernel.shape[:2], len(features[0]))
    for z, rows, part in zip(features, kernel.split(counts), out.split(counts), strict=True):
        torch.mm(rows.flatten(0, 1), z.mT, out=part.flatten(0, 1))
    return out


def _per_scale_gradient(grad: Tensor, features: list[Tensor], counts: list[int]) -> Tensor:
    parts = [g.flatten(0, 1) @ z for z, g in zip(features, grad.split(counts), strict=True)]
    return torch.cat(parts).view(*grad.shape[:2], -1)


class _ProductPerScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, features, counts):  # type: ignore[no-untyped-def]
        ctx.features, ctx.counts = features, counts
        return _per_scale(kernel, features, counts)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return _per_scale_gradient(grad.contiguous(), ctx.features, ctx.counts), None, None


class _Network(torch.autograd.Function):
    """Both layers on a CPU: arrays of the size of the hidden layer are written over instead of made anew."""

    @staticmethod
    def forward(ctx, first, bias, second, second_bias, features, counts):  # type: ignore[no-untyped-def]
        h = _ELU(_per_scale(first, features, counts).add_(bias.unsqueeze(-1)))
        ctx.features, ctx.counts = features, counts
        ctx.save_for_backward(h, second)
        return torch.baddbmm(second_bias.unsqueeze(-1), second, h)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        h, second = ctx.saved_tensors
        grad = grad.contiguous()
        to_second = torch.bmm(grad, h.mT)
        to_h = elu_gradient(torch.bmm(second.mT, grad), h)
        to_first = _per_scale_gradient(to_h, ctx.features, ctx.counts)
        return to_first, to_h.sum(-1), to_second, grad.sum(-1), None, None


class ConvInput:
    r"""A~ X T_m + X T_s, the linear part of the paper's eq. 1, for a constant X; or A~ X T_m alone.

    Of three ways to compute it, that with the fewest operations is taken.

    >>> import numpy as np, torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> layer = ConvInput(op, np.eye(2, dtype=np.float32))
    >>> layer([torch.eye(2).unsqueeze(0), torch.zeros(1, 2, 2)], [0])
    tensor([[[0., 1.],
             [1., 0.]]])

    `op` is A (normalised here) and `x` an array or scipy sparse matrix; `columns` is the width of the product (replicas
    x hidden units), on which it depends whether A~ X is worth keeping; `skip` says whether the second term exists.
    """

    def __init__(
        self,
        op: Operator,
        x: Any,
        *,
        columns: int = 16,
        skip: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.op = op.normalise()
        self.terms = 2 if skip else 1
        n, self.in_channels = x.shape
        nnz = int(x.nnz) if sp.issparse(x) else int(np.count_nonzero(x))
        edges = getattr(getattr(op, "pattern", None), "nnz", 0)
        cost = SPARSE_COST.get(torch.device(device).type, 4.0)
        dense_cost = self.terms * n * self.in_channels
        # Multiplications per column, forward: A~ (X T) with sparse or dense X, or (A~ X) T, made once.
        costs = {
            "sparse": cost * (self.terms * nnz + edges),
            "dense": dense_cost + cost * edges,
            "constant": float(dense_cost),
        }
        # A~ X is a second matrix of the size of X to keep: only where it is small beside what training holds anyway.
        if self.in_channels > 4 * columns:
            del costs["constant"]
        self.kind = min(costs, key=lambda kind: costs[kind])
        if self.kind == "sparse":
            matrix = sp.csr_array(x, dtype=np.float64)
            matrix.sort_indices()
            self.pattern = CSRPattern.from_scipy(matrix).to(device)
            self.values = torch.from_numpy(matrix.data).to(device=device, dtype=dtype)
            return
        dense = x.toarray() if sp.issparse(x) else x
        self.x = torch.as_tensor(dense).to(device=device, dtype=dtype)
        if self.kind == "constant":
            passed = self.op @ self.x
            self.x = torch.cat([passed, self.x], dim=1) if skip else passed

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        flat = [w.reshape(-1, self.in_channels) for w in weights]
        # No views are returned: what is then changed in place would be copied again for its gradient.
        if self.kind == "constant":
            return torch.cat(weights, dim=2) @ self.x.mT
        if self.kind == "sparse":
            return self._by_replica(self._sparse_terms(flat), weights)
        h = self._by_replica(self.op @ (self.x @ flat[0].mT), weights)
        return h + weights[1] @ self.x.mT if self.terms == 2 else h

    @staticmethod
    def _by_replica(rows: Tensor, weights: list[Tensor]) -> Tensor:
        """[N, R * H] as [R, H, N]."""
        return rows.unflatten(1, weights[0].shape[:2]).permute(1, 2, 0).contiguous()

    def _sparse_terms(self, weights: list[Tensor]) -> Tensor:
        if self.terms == 2 and weights[0].is_cuda:
            # One product with twice the columns: on a GPU a small one takes no longer than half of it.
            passed, own = spmm(self.pattern, self.values, torch.cat(weights).mT).chunk(2, dim=1)
            return self.op @ passed + own
        h = self.op @ spmm(self.pattern, self.values, weights[0].mT)
        return h + spmm(self.pattern, self.values, weights[1].mT) if self.terms == 2 else h


FirstLayer = DenseInput | ConvInput


def replica_seeds(random_state: int, replicas: int) -> list[int]:
    """One seed per replica; the first r seeds do not depend on how many there are.

    >>> replica_seeds(0, 4)[:2] == replica_seeds(0, 2)
    True
    """
    return np.random.SeedSequence(random_state).generate_state(replicas, np.uint32).tolist()


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

    With a :class:`ConvInput` this is the paper's model (eq. 1 and a softmax layer); with a :class:`DenseInput`, an MLP
    on propagated features. He-normal kernels in the first layer, Glorot-uniform in the last. ``hidden=0``: one linear
    layer, Glorot-uniform.

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
        act: Callable[[Tensor], Tensor] = _ELU,
        scales: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.scales = [0] * len(seeds) if scales is None else list(scales)
        if len(self.scales) != len(seeds) or self.scales != sorted(self.scales):
            raise ParameterError(
                "scales must name one scale for each replica, in rising order.", argument="scales"
            )
        self.in_channels, self.k, self.hidden, self.terms = in_channels, k, hidden, terms
        self.replicas, self.act = len(seeds), act
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
            if hidden:
                seconds.append(_glorot(k, hidden, generator))
        # [R, H, F] each
        self.first = nn.ParameterList(nn.Parameter(torch.stack(kernels).to(dtype)) for kernels in firsts)
        self.bias = nn.Parameter(torch.zeros(self.replicas, hidden or k, dtype=dtype))
        if hidden:
            self.second = nn.Parameter(torch.stack(seconds).to(dtype))  # [R, K, H]
            self.second_bias = nn.Parameter(torch.zeros(self.replicas, k, dtype=dtype))

    def forward(self, inputs: FirstLayer) -> Tensor:
        """Logits [R, K, N]."""
        if type(inputs) is DenseInput and self.act is _ELU and self.hidden and on_cpu(self.bias):
            layers = (self.first[0], self.bias, self.second, self.second_bias)
            return _Network.apply(*layers, *inputs.groups(self.scales))
        # In place, where the first layer left it: a fresh array costs more than the arithmetic.
        h = inputs(list(self.first), self.scales).add_(self.bias.unsqueeze(-1))
        if not self.hidden:
            return h
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
        net = ReplicaNet.restore({**self.meta(), "scales": [self.scales[r] for r in replicas]}, chosen)
        net.act = self.act
        return net

    def meta(self) -> dict[str, Any]:
        """Sizes, for a saved model."""
        names = ("in_channels", "k", "hidden", "terms", "scales")
        return {name: getattr(self, name) for name in names}

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
