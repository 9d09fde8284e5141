"""The paper's network on a CPU, forward and backward passes written out.

A batch of small graphs is a few tensors of some kilobytes: what modules and autograd do for each operation costs more
than its arithmetic. Every piece returns its result and a function from the gradient of the result to those of its
inputs. Rows stand replica after replica, weights are [R, out, in] and biases [R, out].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from softcut.learning.replica_net import OneHotSkipConv, feature_numbers
from softcut.nn import MinCutPool, SkipConv
from softcut.nn.models import GraphClassifier
from softcut.ops import Dense, Operator
from softcut.ops.mincut_step import step_backward, step_forward
from softcut.ops.numerics import relu_gradient, softmax_gradient

Backward = Callable[..., Any]


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


def predict(net: GraphClassifier, x: Tensor, op: Operator) -> tuple[Tensor, Tensor]:
    """Logits of every graph [B, C] and the sum of its poolers' weighted losses [B]."""
    return _Network.apply(net, x, op.normalise(), *net.parameters())


def by_replica(x: Tensor, weight: Tensor) -> Tensor:
    return x.reshape(len(weight), x.shape[:-1].numel() // len(weight), x.shape[-1])


def _weighted(losses: Tensor, weight: float) -> Tensor:
    return losses if weight == 1 else weight * losses


def linear(x: Tensor, layer: Any) -> tuple[Tensor, Backward]:
    """X W' + b for X [R, N, F]."""
    weight = layer.weight
    out = torch.baddbmm(layer.bias.unsqueeze(1), x, weight.mT)

    def backward(grad: Tensor, into: dict[Tensor, Tensor]) -> Tensor:
        into[weight], into[layer.bias] = torch.bmm(grad.mT, x), grad.sum(1)
        return torch.bmm(grad, weight)

    return out, backward


def assignments(x: Tensor, pool: MinCutPool) -> tuple[Tensor, Backward]:
    """S = softmax(MLP(X) / tau)."""
    layers: list[Any] = list(pool.mlp.layers)
    h, steps = by_replica(x, layers[0].weight), []
    for number, layer in enumerate(layers):
        h = h.relu_() if number else h
        seen = h
        h, back = linear(h, layer)
        steps.append((back, seen if number else None))
    s = (h if pool.temperature == 1 else h.div_(pool.temperature)).softmax(-1)

    def backward(grad: Tensor, into: dict[Tensor, Tensor]) -> Tensor:
        grad = softmax_gradient(grad.view(s.shape), s)
        grad = grad if pool.temperature == 1 else grad.div_(pool.temperature)
        for back, seen in reversed(steps):
            grad = back(grad, into)
            grad = grad if seen is None else relu_gradient(grad, seen)
        return grad.view(x.shape)

    return s.view(*x.shape[:-1], -1), backward


def first_messages(x: Tensor, op: Operator, conv: Any) -> tuple[Tensor, Backward]:
    """relu(A~ X W_m' + X W_s' + b); x holds numbers of one-hot features and values (see `OneHotSkipConv`)."""
    passed, own, bias = conv.neighbours.weight, conv.itself.weight, conv.itself.bias
    (replicas, width, features), one_hot = own.shape, getattr(conv, "one_hot", 0)
    numbers, values = feature_numbers(x, own, one_hot), by_replica(x[:, one_hot:], own)
    weight, count = torch.cat([passed, own], 1), x.shape[1] - one_hot
    if one_hot:
        table = weight.mT.contiguous().view(-1, 2 * width)
        both = nn.functional.embedding_bag(numbers, table, mode="sum").view(replicas, -1, 2 * width)
        if count:
            both.baddbmm_(values, weight[:, :, features - count :].mT)
    else:
        both = torch.bmm(values, weight.mT)
    both = both.view(-1, 2 * width)
    out = op.matmul(both[:, :width].contiguous()).add_(both[:, width:])
    by_replica(out, own).add_(bias.unsqueeze(1)).relu_()

    def backward(grad: Tensor, into: dict[Tensor, Tensor]) -> None:
        grad = relu_gradient(grad, out)
        both = torch.cat([op.matmul(grad), grad], 1)
        table = both.new_zeros(replicas * features, 2 * width)
        # Not the gradient of an embedding bag, which sorts the numbers first.
        for column in numbers.unbind(1):
            table.index_add_(0, column, both)
        table = table.view(replicas, features, 2 * width)
        if count:
            table[:, features - count :].baddbmm_(values.mT, by_replica(both, own))
        into[passed], into[own] = (part.contiguous() for part in table.mT.split(width, 1))
        into[bias] = by_replica(grad, own).sum(1)

    return out, backward


def dense_messages(x: Tensor, adj: Tensor, conv: Any) -> tuple[Tensor, Backward]:
    """relu(A X W_m' + X W_s' + b) for dense graphs A."""
    passed, own, bias = conv.neighbours.weight, conv.itself.weight, conv.itself.bias
    around = torch.bmm(adj, x)
    out = torch.baddbmm(bias.unsqueeze(1), by_replica(x, own), own.mT)
    out = out.baddbmm_(by_replica(around, own), passed.mT).relu_()

    def backward(grad: Tensor, into: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        grad = relu_gradient(grad.view(out.shape), out)
        to_around = torch.bmm(grad, passed).view(x.shape)
        into[passed], into[own] = (torch.bmm(grad.mT, by_replica(t, own)) for t in (around, x))
        into[bias] = grad.sum(1)
        to_x = torch.bmm(grad, own).view(x.shape).baddbmm_(adj.mT, to_around)
        return torch.bmm(to_around, x.mT), to_x

    return out.view(*x.shape[:-1], -1), backward


class _Network(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, net: Any, x: Tensor, op: Operator, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        h, first = first_messages(x, op, net.convs[0])
        losses: Any = 0.0
        levels = []
        for pool, conv in zip(net.pools, net.convs[1:], strict=True):
            s, assigned = assignments(h, pool)
            step, kept = step_forward(op, s, h, pool.keep_diagonal)
            losses = losses + _weighted(step.cut, pool.cut_weight) + _weighted(step.ortho, pool.ortho_weight)
            h, passed = dense_messages(step.x, step.adj, conv)
            levels.append((pool, op, kept, assigned, passed))
            op = Dense(step.adj, symmetric=True, normalised=True)
        nodes, shape = h.shape[1], h.shape
        out, head = linear(by_replica(h.mean(1), net.head.weight), net.head)

        def backward(to_y: Tensor, to_losses: Tensor) -> dict[Tensor, Tensor]:
            into: dict[Tensor, Tensor] = {}
            grad = head(by_replica(to_y, net.head.weight), into).view(shape[0], 1, -1)
            grad, to_next = (grad / nodes).expand(shape).contiguous(), None
            for pool, op, kept, assigned, passed in reversed(levels):
                to_adj, to_x = passed(grad, into)
                to_adj = to_adj if to_next is None else to_adj.add_(to_next)
                weighted = (_weighted(to_losses, each) for each in (pool.cut_weight, pool.ortho_weight))
                grads = (to_x, to_adj, *weighted)
                needs = (True, True, isinstance(op, Dense))
                to_s, to_h, to_next = step_backward(op, kept, grads, pool.keep_diagonal, needs)
                grad = assigned(to_s, into).add_(to_h)
            first(grad, into)
            return into

        ctx.run, ctx.parameters = backward, parameters
        return out.view(shape[0], -1), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_y: Tensor, to_losses: Tensor) -> tuple[Tensor | None, ...]:
        found = ctx.run(to_y, to_losses)
        return None, None, None, *(found[p] for p in ctx.parameters)
