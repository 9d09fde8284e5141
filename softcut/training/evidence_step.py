r"""A step of networks that maximise the evidence on a CPU, block of nodes by block of nodes, its gradient written out.

A block of nodes is as large as a cache, so that what the layers compute is still there for the next operation; arrays
of all nodes are few, and the same in every step: fresh ones of many megabytes come from the system, page by page, which
takes longer than the arithmetic. Within a block nodes are the last axis, along which softmax and products run fastest;
sparse products read S of all nodes, node by node. With Y = A S, and dQ, dG, dn, dT what the losses change by with the
tables Q = S'AS, G = S'S, n = S'1, T = S'X (:mod:`softcut.ops.evidence_slopes`),

    dS = Y (dQ + dQ') + S (dG + dG') + 1 dn' + X dT'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softcut.ops import CSR, Operator, Words
from softcut.ops.evidence_slopes import Counted, Slopes, evidence_slopes
from softcut.ops.kernels import on_cpu
from softcut.ops.numerics import elu_gradient, row_blocks, softmax_gradient
from softcut.training.net import DenseInput, FirstLayer, ReplicaNet

# Numbers of a block in its widest layer, of all replicas: 2 MiB. Twice or half as many were as fast; a block is split
# between threads, too.
_NUMBERS = 1 << 19
_LEAST_NODES = 256


class EvidenceStep:
    """Losses and gradients of a net on a graph; `words` are what is counted besides the edges.

    >>> import torch
    >>> from softcut.ops.information import edge_price
    >>> ring = torch.arange(8)
    >>> edge_index = torch.cat([torch.stack([ring, ring ^ 1]), torch.stack([ring, ring ^ 2])], 1)   # two squares
    >>> op, inputs = CSR.from_edge_index(edge_index, num_nodes=8), DenseInput(torch.eye(8))
    >>> net = ReplicaNet(in_channels=8, k=2, seeds=[0, 1, 2])
    >>> step = EvidenceStep(net, inputs, op, num_edges=8.0, edges_price=edge_price(2, 8.0))
    >>> cut, ortho = step.losses()
    >>> step.set_gradients({"cut": 1.0, "ortho": 0.0})
    >>> cut.shape, net.second.grad.shape == net.second.shape
    (torch.Size([3]), True)
    """

    def __init__(
        self,
        net: ReplicaNet,
        inputs: DenseInput,
        op: CSR,
        *,
        num_edges: Tensor | float,
        edges_price: Tensor,
        words: Words | None = None,
        words_price: Tensor | None = None,
    ) -> None:
        self.net, self.inputs, self.nodes = net, inputs, op.num_rows
        self.words, self.words_price = words, words_price
        empty = net.bias.detach().new_empty
        self.num_edges = num_edges.to(net.bias.dtype) if isinstance(num_edges, Tensor) else num_edges
        self.edges_price = edges_price
        replicas, widest = net.replicas, net.replicas * max(net.hidden, net.k)
        length = min(max(_LEAST_NODES, _NUMBERS // widest), max(1, self.nodes))
        self.blocks = row_blocks(self.nodes, length)
        self.neighbours = op.row_products(self.blocks, net.bias.dtype)
        self.words_of = [] if words is None else words.row_products(self.blocks, net.bias.dtype)
        # Of all nodes: the hidden layer and S block by block, S and Y node by node. Replicas that stay use a part.
        self._h, self._s = empty(self.nodes * replicas * net.hidden), empty(self.nodes * replicas * net.k)
        self._rows, self._y = torch.empty_like(self._s), torch.empty_like(self._s)
        # Of one block: what a layer is multiplied with, and gradients.
        self._logits, self._to_s = (empty(length * replicas * net.k) for _ in range(2))
        self._to_h = empty(length * replicas * net.hidden)
        self._slopes: Slopes | None = None

    @staticmethod
    def _view(buffer: Tensor, block: slice, width: int) -> Tensor:
        """The part of a block [width, nodes] of an array that holds blocks one after another."""
        return buffer[block.start * width : block.stop * width].view(width, -1)

    def _block(self, block: slice) -> tuple[Tensor, Tensor]:
        """The hidden layer [R, H, nodes] and S [R, K, nodes] of a block."""
        r, k, hidden = self.net.replicas, self.net.k, self.net.hidden
        h, s = self._view(self._h, block, r * hidden), self._view(self._s, block, r * k)
        return h.view(r, hidden, -1), s.view(r, k, -1)

    def _by_node(self, buffer: Tensor) -> Tensor:
        """The part [N, R K] that is used of an array of all nodes."""
        width = self.net.replicas * self.net.k
        return buffer[: self.nodes * width].view(self.nodes, width)

    @torch.no_grad()
    def losses(self, sizes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Minus the evidence of S, and L_o beside `sizes` [R, K] (0 without them), [R] each."""
        net, target = self.net, None
        r, k = net.replicas, net.k
        features, counts = self.inputs.groups(net.scales)
        first = [rows.flatten(0, 1) for rows in net.first[0].split(counts)]
        bias, second_bias = net.bias.unsqueeze(-1), net.second_bias.unsqueeze(-1)
        rows, y = self._by_node(self._rows), self._by_node(self._y)
        edges, total = bias.new_zeros(r, k, k), bias.new_zeros(r, k)
        gram = None if sizes is None else torch.zeros_like(edges)
        for block in self.blocks:
            h, s = self._block(block)
            for z, kernel, part in zip(features, first, h.split(counts), strict=True):
                torch.mm(kernel, z[block].mT, out=part.flatten(0, 1))
            nn.functional.elu_(h.add_(bias))
            logits = self._logits[: s.numel()].view_as(s)
            torch.softmax(torch.baddbmm(second_bias, net.second, h, out=logits), 1, out=s)
            rows[block] = s.flatten(0, 1).mT
            total += s.sum(-1)
            if gram is not None:
                gram.baddbmm_(s, s.mT)
        for block, product in zip(self.blocks, self.neighbours, strict=True):
            y[block] = product(rows)
            edges.baddbmm_(self._block(block)[1], y[block].view(-1, r, k).transpose(0, 1))
        counted = [Counted(edges, self.num_edges, self.edges_price)]
        if self.words is not None:
            assert self.words_price is not None
            table = self.words.table_of(rows).view(r, k, -1)
            counted.append(Counted(table, self.words.count, self.words_price))
        if sizes is not None:
            target = sizes / torch.linalg.vector_norm(sizes, dim=-1, keepdim=True)
        self._slopes = evidence_slopes(self.nodes, total, counted, gram, target)
        return self._slopes.cut, self._slopes.ortho

    @torch.no_grad()
    def set_gradients(self, weights: Mapping[str, float]) -> None:
        """Give the parameters the gradients of the losses last computed, "cut" and "ortho", by their weights."""
        net, slopes = self.net, self._slopes
        assert slopes is not None
        r, k = net.replicas, net.k
        features, counts = self.inputs.groups(net.scales)
        y, second = self._by_node(self._y), net.second.mT
        to_edges, *to_words = (weights["cut"] * each for each in slopes.cut_by_counts)
        to_edges = to_edges + to_edges.mT
        to_sizes = weights["cut"] * slopes.cut_by_sizes.unsqueeze(-1)
        to_gram = None if slopes.ortho_by_gram is None else 2 * weights["ortho"] * slopes.ortho_by_gram
        words = to_words[0].flatten(0, 1).mT.contiguous() if to_words else None
        gradients = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
        first, bias, second_kernel, second_bias = (
            gradients[name] for name in ("first.0", "bias", "second", "second_bias")
        )
        to_first = [part.flatten(0, 1) for part in first.split(counts)]
        for i, block in enumerate(self.blocks):
            h, s = self._block(block)
            to_s, to_logits = (each[: s.numel()].view_as(s) for each in (self._to_s, self._logits))
            to_s.copy_(to_sizes.expand_as(s))
            to_s.baddbmm_(to_edges, y[block].view(-1, r, k).permute(1, 2, 0))
            if to_gram is not None:
                to_s.baddbmm_(to_gram, s)
            if words is not None:
                to_s.flatten(0, 1).add_(self.words_of[i](words).mT)
            softmax_gradient(to_s, s, 1, out=to_logits)
            second_kernel.baddbmm_(to_logits, h.mT)
            second_bias += to_logits.sum(-1)
            to_h = torch.bmm(second, to_logits, out=self._to_h[: h.numel()].view_as(h))
            elu_gradient(to_h, h, out=to_h)
            bias += to_h.sum(-1)
            for z, to_kernel, part in zip(features, to_first, to_h.split(counts), strict=True):
                to_kernel.addmm_(part.flatten(0, 1), z[block])
        for name, p in net.named_parameters():
            p.grad = gradients[name]


def evidence_step_of(
    net: ReplicaNet, inputs: FirstLayer, op: Operator, known: Mapping[str, Any]
) -> EvidenceStep | None:
    """The step of a net with `known` numbers; None where what is written out does not hold.

    It takes two layers with the ELU on a CPU, and one symmetric, constant graph as it is.
    """
    if type(inputs) is not DenseInput or net.hidden == 0 or net.act is not nn.functional.elu_:
        return None
    if not isinstance(op, CSR) or op.num_graphs > 1 or op.scale is not None:
        return None
    if not op.symmetric or op.requires_grad or not on_cpu(net.bias):
        return None
    return EvidenceStep(net, inputs, op, **known)
