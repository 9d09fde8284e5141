"""Two message-passing layers of other papers that poolers need: GCN (DiffPool, SAGPool) and GraphConv."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softcut.nn.activations import Activation
from softcut.nn.layers import Bias, GraphLayer, accept_keys
from softcut.ops.numerics import inverse_sqrt
from softcut.ops.operator import Operator

__all__ = ["GCNConv", "GraphConv", "gcn_scale"]


def gcn_scale(op: Operator, x: Tensor) -> Tensor:
    """(D + I)^-1/2 as a column, computed in the precision of `x` and in float32 at least."""
    # The degrees of a binary graph have no precision of their own: float32 would cost half of the digits of float64.
    like = x.new_empty(0, dtype=torch.promote_types(x.dtype, torch.float32))
    return inverse_sqrt(op.degree_like(like) + 1).to(x.dtype).unsqueeze(-1)


class GCNConv(GraphLayer):
    r"""X' = act(D^-1/2 (A + I) D^-1/2 X W + b), with D the degrees of A + I (Kipf and Welling).

    >>> import torch
    >>> GCNConv(8, 4)(torch.zeros(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 4])

    Called as ``conv(x, adj, edge_weight=None, batch=None, mask=None)``; `adj` in any format that
    :class:`~softcut.nn.SkipConv` accepts, and not normalised. Negative edge weights are an error.
    ``load_state_dict`` takes the parameters of PyTorch Geometric's layer of the same name.
    """

    def __init__(
        self, in_channels: int, out_channels: int, act: Activation = None, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, act)
        in_channels, out_channels = self.in_channels, self.out_channels
        # The bias stands apart: it comes after the product with A, the matrix before it where it narrows.
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = Bias(out_channels, in_channels) if bias else None
        accept_keys(self, {"bias": "bias.bias"})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.lin.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias.bias)

    def messages(self, x: Tensor, op: Operator) -> Tensor:
        op.refuse_negative()
        scale = gcn_scale(op, x)
        narrow = self.out_channels < self.in_channels
        h = scale * (self.lin(x) if narrow else x)
        h = scale * (op.product(h) + h)
        h = h if narrow else self.lin(h)
        return h if self.bias is None else self.bias(h)


class GraphConv(GraphLayer):
    r"""X' = act(A X W_1 + b + X W_2): sums over neighbours, no normalisation (Morris et al.).

    >>> import torch
    >>> GraphConv(8, 1)(torch.zeros(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 1])

    Called as ``conv(x, adj, edge_weight=None, batch=None, mask=None)``; `adj` in any format that
    :class:`~softcut.nn.SkipConv` accepts. Negative edge weights are fine.
    ``load_state_dict`` takes the parameters of PyTorch Geometric's layer of the same name.
    """

    def __init__(
        self, in_channels: int, out_channels: int, act: Activation = None, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, act)
        in_channels, out_channels = self.in_channels, self.out_channels
        self.lin_rel = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = Bias(out_channels, in_channels) if bias else None
        self.lin_root = nn.Linear(in_channels, out_channels, bias=False)
        accept_keys(self, {"lin_rel.bias": "bias.bias"})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_rel.reset_parameters()
        if self.bias is not None:
            self.bias.reset_parameters()
        self.lin_root.reset_parameters()

    def messages(self, x: Tensor, op: Operator) -> Tensor:
        h = self.passed(x, self.lin_rel, op)
        h = h if self.bias is None else self.bias(h)
        return h + self.lin_root(x)
