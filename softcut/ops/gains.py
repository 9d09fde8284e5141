r"""What clusters explain: information of tables of counts, less the price of the tables, in nats.

G_e = E I(S'AS) - log C(K(K+1)/2, E)       of E edges
G_x = W I(S'X) - sum_w log C(K, n_w)       of W words, of which n_w are word w
"""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.ops.information import entropy, multinomial_complexity, mutual_information
from softcut.ops.numerics import safe_ratio

__all__ = ["cluster_evidence", "edge_gain", "edge_price", "word_gain", "word_gains", "word_price"]

# Below this entropy (nats) the evidence is divided by no less: a single cluster has none.
_LEAST_ENTROPY = 1e-6


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
    """G_x: what clusters say about the words of a node, less its price, in nats; 0 without words.

    Parameters
    ----------
    words : Tensor
        S'X [..., K, F].
    count : Tensor or float
        W; of weighted words their effective number.
    price : Tensor, optional
        :func:`word_price`, where it is known already: it does not depend on S.
    """
    if price is None:
        counts = words.sum(-2)
        total = counts.sum(-1, keepdim=True)
        scale = count.to(total).unsqueeze(-1) if isinstance(count, Tensor) else count
        price = word_price(words.shape[-2], scale * safe_ratio(counts, total))
    gain = count * mutual_information(words) - price.to(words)
    return torch.where(words.detach().sum((-2, -1)) > 0, gain, 0.0)


def word_gains(words: Tensor) -> Tensor:
    """What clusters say about each word of S'X [..., K, F], before its price, in nats [..., F]; the sum is W I(S'X).

    >>> import torch
    >>> word_gains(torch.tensor([[50.0, 0.0, 5.0], [0.0, 50.0, 5.0]])).round(decimals=2).abs().tolist()
    [34.66, 34.66, 0.0]
    """
    clusters = words.sum(-1, keepdim=True)
    share = safe_ratio(clusters, clusters.sum(-2, keepdim=True))
    counts = words.sum(-2)
    return (torch.xlogy(words, words) - torch.xlogy(words, share)).sum(-2) - torch.xlogy(counts, counts)


def cluster_evidence(
    edges: Tensor,
    sizes: Tensor,
    words: Tensor | None = None,
    *,
    num_edges: Tensor | float,
    num_words: Tensor | float = 0.0,
    words_price: Tensor | None = None,
    power: float = 0.5,
) -> Tensor:
    r"""What clusters explain of edges and words, (G_e + G_x) / (N H^power), from their tables.

    As a score of a clustering ``power=1``: nats explained per nat of labels. As an objective 1/2: divided by H
    itself, it is largest where H is next to 0.

    >>> import torch
    >>> round(cluster_evidence(torch.eye(2) * 100, torch.tensor([20.0, 20.0]), num_edges=100, power=1.0).item(), 3)
    2.329

    Parameters
    ----------
    edges, sizes, words : Tensor
        S'AS [..., K, K], S'1 [..., K] and S'X [..., K, F] (None: no features).
    num_edges, num_words : Tensor or float
        How many edges and words the tables count.
    words_price : Tensor, optional
        As `price` of :func:`word_gain`.
    power : float
        Of the entropy.
    """
    gain = edge_gain(edges, num_edges)
    if words is not None:
        gain = gain + word_gain(words, num_words, words_price)
    return safe_ratio(gain, sizes.sum(-1)) / entropy(sizes).clamp(min=_LEAST_ENTROPY) ** power
