"""Adam on the fused kernel of PyTorch.

``torch.optim.Adam`` runs the same kernel and gives the same numbers, but its first use imports PyTorch's compiler,
which takes as long as a whole clustering of a few thousand nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from softcut.ops._torch import add_to_each, fused_adam


class Adam:
    """Adam with its usual constants and a step size `rate`; a step on a GPU can be recorded in a CUDA graph.

    `moments` holds "step", "exp_avg" and "exp_avg_sq" of each parameter by name; nothing for one that had no gradient
    yet. On a CPU, parameters that always had a gradient together share one tensor "step".
    """

    def __init__(self, parameters: Mapping[str, Tensor], rate: float | Tensor) -> None:
        self.parameters, self.rate = dict(parameters), rate
        self.moments: dict[str, dict[str, Tensor]] = {name: {} for name in parameters}

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        by_type: dict[torch.dtype, list[str]] = {}
        shared: Tensor | None = None  # by the parameters that begin now
        for name, p in self.parameters.items():
            moments = self.moments[name]
            if p.grad is None:
                if moments and p.device.type == "cpu":
                    moments["step"] = moments["step"].clone()  # the others go on without it
                continue
            if not moments:
                if shared is None or p.device.type != "cpu":
                    shared = torch.zeros((), dtype=torch.float32, device=p.device)
                moments |= {
                    "step": shared,
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
            by_type.setdefault(p.dtype, []).append(name)
        counted = {id(step): step for names in by_type.values() for step in self._all("step", names)}
        if counted:
            add_to_each(list(counted.values()), 1)
        for names in by_type.values():
            parameters = [self.parameters[name] for name in names]
            steps, first, second = (self._all(which, names) for which in ("step", "exp_avg", "exp_avg_sq"))
            gradients = [p.grad for p in parameters]
            constants = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
            options = {"lr": self.rate, "amsgrad": False, "maximize": False, **constants}
            fused_adam(parameters, gradients, first, second, [], steps, **options)  # type: ignore[call-overload]

    def _all(self, which: str, names: list[str]) -> list[Tensor]:
        return [self.moments[name][which] for name in names]

    def select(self, rows: Tensor) -> None:
        """Go on with some rows of every parameter."""
        for moments in self.moments.values():
            for name in moments.keys() - {"step"}:
                moments[name] = moments[name][rows]
