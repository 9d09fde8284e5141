"""Just Balance pooling (Bianchi, 2022): message passing makes clusters smooth, the loss only balances them."""

from __future__ import annotations

from collections.abc import Sequence

from softcut.nn.activations import Activation
from softcut.nn.number_checks import check_number
from softcut.nn.pool.mincut import ObjectivePool

__all__ = ["JustBalancePool"]


class JustBalancePool(ObjectivePool):
    r"""Pooling with balanced clusters: S = softmax(MLP(X) / \tau), X' = S'X, A' = S'A~S.

    .. math::
        L_{balance} = -\frac{1}{\sqrt{N K}} \sum_k \|S_{:, k}\|_2 \in [-1, -1 / \sqrt{K}]

    The sum is Tr(sqrt(S'S)) with the root taken entry by entry, as its author computes it. It is -1 for hard
    clusters of one size; A takes no part in it.

    >>> import torch
    >>> from softcut.nn import JustBalancePool
    >>> pool = JustBalancePool(in_channels=8, k=2)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['balance'])

    Parameters
    ----------
    in_channels, k, hidden, act, temperature
        As for :class:`~softcut.nn.MinCutPool`.
    balance_weight : float
        Weight of the loss.

    Notes
    -----
    That neighbours share a cluster is left to the message passing before this layer: its author uses several
    steps of X <- (I - delta L) X W with delta = 0.85. The diagonal of A' is set to zero and A' is normalised
    symmetrically.
    """

    objective = "just_balance"

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None = None,
        act: Activation = "relu",
        temperature: float = 1.0,
        balance_weight: float = 1.0,
    ) -> None:
        super().__init__(in_channels, k, hidden, act, temperature)
        self.balance_weight = check_number(balance_weight, "balance_weight")

    def weights(self) -> dict[str, float]:
        return {"balance": self.balance_weight}
