r"""Entropy, mutual information and stochastic complexity of tables of counts, and what clusters explain, in nats.

    I = sum_ij p_ij log(p_ij / (p_i p_j)),   p = T / sum(T)
    G_e = E I(S'AS) - log C(K(K+1)/2, E)       of E edges
    G_x = W I(S'X) - sum_w log C(K, n_w)       of W words, of which n_w are word w

The gradient of I is (log(p_ij / (p_i p_j)) - I) / sum(T): the logarithms of the forward pass are kept, so
backward is one subtraction and one product. log C is the price of a table of counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.ops._torch import signed
from softcut.ops.numerics import safe_ratio


def _log(x: Tensor) -> Tensor:
    """The logarithm, finite at 0 (where it is always multiplied by 0)."""
    return x.clamp(min=torch.finfo(x.dtype).tiny).log()


def _information(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """I, log(p_ij / (p_i p_j)) and the sum of every table."""
    rows, columns = table.sum(-1, keepdim=True), table.sum(-2, keepdim=True)
    total = rows.sum(-2, keepdim=True)
    ratio = _log(table) - _log(rows) - (_log(columns) - _log(total))
    share = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    return (table * ratio).sum((-2, -1)) * share[..., 0, 0], ratio, share


@signed
class _MutualInformation(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Rows of many columns are read along memory; a product with a sparse matrix leaves them across it.
        return _information(table.contiguous())

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[0], *output)

    @staticmethod
    def backward(ctx, g, _, __):  # type: ignore[no-untyped-def]
        table, information, ratio, share = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative: the saved logarithms would count as constants
            information, ratio, share = _information(table)
        return (ratio - information[..., None, None]) * (g[..., None, None] * share)


def mutual_information(table: Tensor) -> Tensor:
    """Mutual information of the rows and columns of tables [..., I, J] of non-negative numbers: [...], in nats.

    0 for a table of zeros. Value and gradient are finite where entries are 0.

    >>> import torch
    >>> mutual_information(torch.eye(2)).exp().item()              # one of two, known exactly
    2.0
    >>> mutual_information(torch.ones(3, 2)).abs().item() < 1e-6   # independent
    True
    """
    if torch.compiler.is_compiling():
        return _information(table)[0]
    return _MutualInformation.apply(table)[0]


def entropy(sizes: Tensor) -> Tensor:
    """Entropy of the shares that sizes [..., K] are of their sum: [...], in nats; 0 where all are 0.

    >>> import torch
    >>> entropy(torch.tensor([3.0, 3.0])).exp().item()
    2.0
    """
    total = sizes.sum(-1, keepdim=True)
    shares = torch.where(total > 0, sizes / torch.where(total > 0, total, 1.0), 0.0)
    return -(shares * _log(shares)).sum(-1)


def multinomial_complexity(categories: int, counts: Tensor) -> Tensor:
    """What it costs to describe how `counts` things spread over so many categories: log C(K, n), in nats, float64.

    C(K, n) is the sum of the largest likelihoods that a multinomial of K categories gives to any n things: its
    logarithm is the stochastic complexity, the nats by which a fitted table of counts looks better than it is. By the
    uniform approximation of Szpankowski and Weinberger (2012), with Stirling's first correction: within .015 nats
    of the exact recurrence of Kontkanen and Myllymaki (2007). Counts need not be whole; 0 for no things.
    """
    n = counts.double()
    if categories < 2:
        return torch.zeros_like(n)
    some = n > 0
    n = torch.where(some, n, 1.0)
    share = categories / n
    c = 0.5 + 0.5 * (1 + 4 / share).sqrt()
    complexity = n * (share.log() + (share + 2) * c.log() - 1 / c) - 0.5 * (c + 2 / share).log()
    return torch.where(some, complexity - 1 / (6 * categories), 0.0)


def edge_price(k: int, count: Tensor | float) -> Tensor:
    """What the table of `count` edges between K clusters costs to describe, in nats, float64."""
    return multinomial_complexity(k * (k + 1) // 2, torch.as_tensor(count, dtype=torch.float64))


def word_price(k: int, counts: Tensor) -> Tensor:
    """What a table of words costs, in nats: the `counts` [..., F] of each word are spread over K clusters; [...]."""
    return multinomial_complexity(k, counts).sum(-1)


def edge_gain(edges: Tensor, count: Tensor | float) -> Tensor:
    """G_e: what clusters say about the other end of an edge, less its price, in nats; 0 without edges."""
    price = edge_price(edges.shape[-1], count).to(edges)
    return torch.where(edges.sum((-2, -1)) > 0, count * mutual_information(edges) - price, 0.0)


def word_gain(words: Tensor, count: Tensor | float, price: Tensor | None = None) -> Tensor:
    """G_x of S'X [..., K, F], which counts W words (of weighted ones their effective number); 0 without words.

    `price` is :func:`word_price` where it is known already: it does not depend on S.
    """
    if price is None:
        counts = words.sum(-2)
        total = counts.sum(-1, keepdim=True)
        scale = count.to(total).unsqueeze(-1) if isinstance(count, Tensor) else count
        price = word_price(words.shape[-2], scale * safe_ratio(counts, total))
    gain = count * mutual_information(words) - price.to(words)
    return torch.where(words.detach().sum((-2, -1)) > 0, gain, 0.0)


def word_gains(words: Tensor) -> Tensor:
    """What clusters say about each word of S'X [..., K, F], before its price, in nats [..., F]; the sum is W I(S'X)."""
    clusters = words.sum(-1, keepdim=True)
    share = safe_ratio(clusters, clusters.sum(-2, keepdim=True))
    counts = words.sum(-2)
    return (torch.xlogy(words, words) - torch.xlogy(words, share)).sum(-2) - torch.xlogy(counts, counts)
