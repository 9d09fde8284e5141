"""Adam on the fused kernel of PyTorch.

``torch.optim.Adam`` runs the same kernel and gives the same numbers, but its first use imports PyTorch's compiler,
which takes as long as a whole clustering of a few thousand nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from softcut.ops._torch import fused_adam

__all__ = ["Adam"]


class Adam:
    """Adam with its usual constants; a step on a GPU can be recorded in a CUDA graph.

    >>> import torch
    >>> p = torch.ones(1, requires_grad=True)
    >>> p.grad = torch.ones(1)
    >>> Adam({"p": p}, 0.1).step()
    >>> round(p.item(), 4)
    0.9

    Parameters
    ----------
    parameters : mapping of str to Tensor
        What is changed, by name.
    rate : float or Tensor
        The step size.

    Attributes
    ----------
    moments : dict of str to dict
        "step", "exp_avg" and "exp_avg_sq" of each parameter; nothing for one that had no gradient yet.
    """

    def __init__(self, parameters: Mapping[str, Tensor], rate: float | Tensor) -> None:
        self.parameters, self.rate = dict(parameters), rate
        self.moments: dict[str, dict[str, Tensor]] = {name: {} for name in parameters}

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        names = [name for name, p in self.parameters.items() if p.grad is not None]
        for name in names:
            if not self.moments[name]:
                p = self.parameters[name]
                self.moments[name] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        parameters = [self.parameters[name] for name in names]
        step, first, second = (
            [self.moments[name][which] for name in names] for which in ("step", "exp_avg", "exp_avg_sq")
        )
        fused_adam(parameters, [p.grad for p in parameters], first, second, step, self.rate)  # type: ignore[misc]

    def select(self, rows: Tensor) -> None:
        """Go on with some rows of every parameter."""
        for moments in self.moments.values():
            for name in moments.keys() - {"step"}:
                moments[name] = moments[name][rows]
