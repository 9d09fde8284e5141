"""The paper's network on a CPU, forward and backward passes written out.

A batch of small graphs is a few tensors of some kilobytes: what modules and autograd do for each operation costs more
than its arithmetic. Every piece returns its result and a function from the gradient of the result to those of its
inputs. Rows stand replica after replica, weights are [R, out, in] and biases [R, out].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softcut.learning.replica_net import OneHotSkipConv, feature_numbers
from softcut.nn import MinCutPool, SkipConv
from softcut.nn.models import GraphClassifier
from softcut.ops import Dense, Operator
from softcut.ops.mincut_step import step_backward, step_forward
from softcut.ops.numerics import relu_gradient, softmax_gradient

Backward = Callable[..., Any]
Gradients = dict[Tensor, Tensor]  # of the parameters


def can_be_written_out(net: GraphClassifier) -> bool:
    """Whether a replica net is the paper's: MinCut pooling as published, ReLU, weights on a CPU."""
    relu = nn.functional.relu
    pools = all(
        type(pool) is MinCutPool
        and pool.objective == "mincut"
        and pool.normalise
        and not pool.standardise
        and pool.ortho_weight != "auto"
        and pool.mlp.act is relu
        for pool in net.pools
    )
    convs: list[Any] = list(net.convs)
    known = isinstance(convs[0], OneHotSkipConv | SkipConv) and all(
        type(conv) is SkipConv for conv in convs[1:]
    )
    biased = known and all(conv.act is relu and conv.itself.bias is not None for conv in convs)
    return bool(net.pools) and pools and biased and net.head.weight.device.type == "cpu"


class Linear(NamedTuple):
    """X W' + b."""

    weight: Tensor
    bias: Tensor


class Messages(NamedTuple):
    """relu(A X W_m' + X W_s' + b)."""

    passed: Tensor
    own: Tensor
    bias: Tensor

    @classmethod
    def of(cls, conv: Any) -> Messages:
        return cls(conv.neighbours.weight, conv.itself.weight, conv.itself.bias)


class Level(NamedTuple):
    """A pooler, and the layer after it."""

    mlp: list[Linear]
    temperature: float
    cut_weight: float
    ortho_weight: float
    keep_diagonal: bool
    after: Messages

    @classmethod
    def of(cls, pool: Any, conv: Any) -> Level:
        mlp = [Linear(layer.weight, layer.bias) for layer in pool.mlp.layers]
        weights = pool.temperature, pool.cut_weight, pool.ortho_weight
        return cls(mlp, *weights, pool.keep_diagonal, Messages.of(conv))


class WrittenOut:
    """The passes of a network that :func:`can_be_written_out`; its parameters are looked up once."""

    def __init__(self, net: Any) -> None:
        self.one_hot: int = getattr(net.convs[0], "one_hot", 0)
        self.first = Messages.of(net.convs[0])
        self.levels = [Level.of(*pair) for pair in zip(net.pools, net.convs[1:], strict=True)]
        self.head = Linear(net.head.weight, net.head.bias)

    @torch.inference_mode()
    def predict(self, x: Tensor, op: Operator) -> tuple[Tensor, Tensor, Backward]:
        """Logits of every graph [B, C], the sum of its poolers' weighted losses [B], and the backward pass.

        That takes the gradients of both and returns those of all parameters.
        """
        op = op.normalise()
        h, first = first_messages(x, op, self.first, self.one_hot)
        losses: Any = 0.0
        passes = []
        for level in self.levels:
            s, assigned = assignments(h, level)
            step, kept = step_forward(op, s, h, level.keep_diagonal)
            losses = (
                losses + _weighted(step.cut, level.cut_weight) + _weighted(step.ortho, level.ortho_weight)
            )
            h, passed = dense_messages(step.x, step.adj, level.after)
            passes.append((level, op, kept, assigned, passed))
            op = Dense(step.adj, symmetric=True, normalised=True)
        graphs, nodes, width = h.shape
        replicas = len(self.head.weight)
        out, head = linear(h.mean(1).view(replicas, -1, width), self.head)

        def backward(to_y: Tensor, to_losses: Tensor) -> Gradients:
            into: Gradients = {}
            grad = head(to_y.view(replicas, graphs // replicas, -1), into).view(graphs, 1, width)
            grad, to_next = (grad / nodes).expand(h.shape).contiguous(), None
            for level, op, kept, assigned, passed in reversed(passes):
                to_adj, to_x = passed(grad, into)
                to_adj = to_adj if to_next is None else to_adj.add_(to_next)
                weighted = (_weighted(to_losses, each) for each in (level.cut_weight, level.ortho_weight))
                grads = (to_x, to_adj, *weighted)
                needs = (True, True, isinstance(op, Dense))
                to_s, to_h, to_next = step_backward(op, kept, grads, level.keep_diagonal, needs)
                grad = assigned(to_s, into).add_(to_h)
            first(grad, into)
            return into

        return out.view(graphs, -1), losses, backward


def _weighted(losses: Tensor, weight: float) -> Tensor:
    return losses if weight == 1 else weight * losses


def linear(x: Tensor, layer: Linear) -> tuple[Tensor, Backward]:
    """X W' + b for X [R, N, F]."""
    weight, bias = layer
    out = torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    def backward(grad: Tensor, into: Gradients) -> Tensor:
        into[weight], into[bias] = torch.bmm(grad.mT, x), grad.sum(1)
        return torch.bmm(grad, weight)

    return out, backward


def assignments(x: Tensor, level: Level) -> tuple[Tensor, Backward]:
    """S = softmax(MLP(X) / tau)."""
    replicas = len(level.mlp[0].weight)
    h, hidden, steps = x.view(replicas, -1, x.shape[-1]), level.mlp[:-1], []
    for layer in hidden:
        h, back = linear(h, layer)
        h = h.relu_()
        steps.append((back, h))
    # The last layer and the softmax run over columns: PyTorch is slow along a short last axis.
    seen, (weight, bias) = h, level.mlp[-1]
    logits = torch.baddbmm(bias.unsqueeze(2), weight, h.mT)
    columns = (logits if level.temperature == 1 else logits.div_(level.temperature)).softmax(1)
    s = columns.mT.contiguous()

    def backward(grad: Tensor, into: Gradients) -> Tensor:
        grad = softmax_gradient(grad.view(s.shape).mT, columns, 1)
        grad = grad if level.temperature == 1 else grad.div_(level.temperature)
        into[weight], into[bias] = torch.bmm(grad, seen), grad.sum(2)
        grad = torch.bmm(grad.mT, weight)
        for back, result in reversed(steps):
            grad = back(relu_gradient(grad, result), into)
        return grad.view(x.shape)

    return s.view(*x.shape[:-1], -1), backward


def first_messages(x: Tensor, op: Operator, layer: Messages, one_hot: int) -> tuple[Tensor, Backward]:
    """The first layer; x holds numbers of one-hot features and values (see `OneHotSkipConv`)."""
    passed, own, bias = layer
    replicas, width, features = own.shape
    count = x.shape[1] - one_hot
    numbers = feature_numbers(x, own, one_hot)
    values = x[:, one_hot:].contiguous().view(replicas, -1, count) if count else None
    table = torch.cat([passed, own], 1).mT.contiguous()
    of_values = table[:, features - count :]
    if one_hot:
        both = nn.functional.embedding_bag(numbers, table.view(-1, 2 * width), mode="sum")
        both = both.view(replicas, -1, 2 * width)
        if values is not None:
            both.baddbmm_(values, of_values)
    else:
        assert values is not None
        both = torch.bmm(values, of_values)
    both = both.view(-1, 2 * width)
    out = op.matmul(both[:, :width].contiguous()).add_(both[:, width:])
    out.view(replicas, -1, width).add_(bias.unsqueeze(1)).relu_()

    def backward(grad: Tensor, into: Gradients) -> None:
        grad = relu_gradient(grad, out)
        both = torch.cat([op.matmul(grad), grad], 1)
        table = both.new_zeros(replicas * features, 2 * width)
        # Not the gradient of an embedding bag, which sorts the numbers first.
        for column in numbers.unbind(1):
            table.index_add_(0, column, both)
        table = table.view(replicas, features, 2 * width)
        if values is not None:
            table[:, features - count :].baddbmm_(values.mT, both.view(replicas, -1, 2 * width))
        into[passed], into[own] = (part.contiguous() for part in table.mT.split(width, 1))
        into[bias] = grad.view(replicas, -1, width).sum(1)

    return out, backward


def dense_messages(x: Tensor, adj: Tensor, layer: Messages) -> tuple[Tensor, Backward]:
    """A layer on dense graphs A."""
    passed, own, bias = layer
    rows = (len(own), -1, x.shape[-1])
    around = torch.bmm(adj, x)
    out = torch.baddbmm(bias.unsqueeze(1), x.view(rows), own.mT)
    out = out.baddbmm_(around.view(rows), passed.mT).relu_()

    def backward(grad: Tensor, into: Gradients) -> tuple[Tensor, Tensor]:
        grad = relu_gradient(grad.view(out.shape), out)
        to_around = torch.bmm(grad, passed).view(x.shape)
        into[passed], into[own] = (torch.bmm(grad.mT, t.view(rows)) for t in (around, x))
        into[bias] = grad.sum(1)
        to_x = torch.bmm(grad, own).view(x.shape).baddbmm_(adj.mT, to_around)
        return torch.bmm(to_around, x.mT), to_x

    return out.view(*x.shape[:-1], -1), backward
