"""Two message-passing layers of other papers that poolers need: GCN (DiffPool, SAGPool) and GraphConv."""

from __future__ import annotations

from torch import Tensor, nn

from softcut.nn.activations import Activation, get_activation
from softcut.ops import Operator
from softcut.ops.operator import inverse_sqrt

__all__ = ["GCNConv", "GraphConv"]


class GCNConv(nn.Module):
    r"""X' = act(D^-1/2 (A + I) D^-1/2 X W + b), with D the degrees of A + I (Kipf and Welling).

    >>> import torch
    >>> from softcut.ops import as_operator
    >>> GCNConv(8, 4)(torch.zeros(2, 8), as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, in_channels: int, out_channels: int, act: Activation = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=bias)
        self.act = get_activation(act)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.lin.weight)
        if self.lin.bias is not None:
            nn.init.zeros_(self.lin.bias)

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        scale = inverse_sqrt(op.degree + 1).to(x.dtype).unsqueeze(-1)
        narrow = self.lin.out_features < self.lin.in_features
        h = nn.functional.linear(x, self.lin.weight) if narrow else x
        h = scale * h
        h = scale * (op @ h + h)
        h = h if narrow else nn.functional.linear(h, self.lin.weight)
        h = h if self.lin.bias is None else h + self.lin.bias
        return h if self.act is None else self.act(h)


class GraphConv(nn.Module):
    r"""X' = act(A X W_1 + b + X W_2): sums over neighbours, no normalisation (Morris et al.).

    >>> import torch
    >>> from softcut.ops import as_operator
    >>> GraphConv(8, 1)(torch.zeros(2, 8), as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)).shape
    torch.Size([2, 1])
    """

    def __init__(
        self, in_channels: int, out_channels: int, act: Activation = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.lin_rel = nn.Linear(in_channels, out_channels, bias=bias)
        self.lin_root = nn.Linear(in_channels, out_channels, bias=False)
        self.act = get_activation(act)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_rel.reset_parameters()
        self.lin_root.reset_parameters()

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        weight = self.lin_rel.weight
        if self.lin_rel.out_features < self.lin_rel.in_features:
            h = op @ nn.functional.linear(x, weight)
        else:
            h = nn.functional.linear(op @ x, weight)
        h = h if self.lin_rel.bias is None else h + self.lin_rel.bias
        h = h + self.lin_root(x)
        return h if self.act is None else self.act(h)
