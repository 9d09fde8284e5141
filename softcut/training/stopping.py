"""When training stops: two rules, and the best values each replica had.

:class:`Plateau` ends training for all replicas together and leaves the last parameters. :class:`Patience` ends
each replica on its own, and keeps what it had at its best moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.errors import ParameterError

__all__ = ["BestValues", "Patience", "Plateau", "has_converged"]


@dataclass(frozen=True)
class Plateau:
    """Stop when no replica's minimised loss has improved by `tolerance` over the last `patience` iterations.

    All replicas stop together, at one of the loop's checks; the parameters are those of the last iteration.
    """

    tolerance: float = 1e-4
    patience: int = 50

    def __post_init__(self) -> None:
        if not self.patience > 0:
            raise ParameterError(f"patience must be positive, got {self.patience}.")


@dataclass(frozen=True)
class Patience:
    """Stop a replica when its watched loss has not improved by more than `tolerance` within `patience` looks.

    The watched loss is looked at in every iteration, or, for a task with ``validate``, at every check.

    Attributes
    ----------
    patience : int
        Looks without an improvement: iterations, or validations for a task that validates.
    tolerance : float
        What an improvement must exceed; with `relative`, as a share of the best loss.
    watch : str or None
        Name of the watched loss among what ``validate`` (else ``step``) returns. None: what is minimised
        (for a task that validates: its only entry).
    keep : tuple of str
        Names of tensors (from the same place) whose values at each replica's best moment are kept.
    restore : bool
        Keep the parameters of the best moment as well, and put them back at the end.
    relative : bool
        See `tolerance`.
    """

    patience: int
    tolerance: float = 0.0
    watch: str | None = None
    keep: tuple[str, ...] = ()
    restore: bool = True
    relative: bool = False

    def __post_init__(self) -> None:
        if not self.patience > 0:
            raise ParameterError(f"patience must be positive, got {self.patience}.")
        if not self.tolerance >= 0:
            raise ParameterError(f"tolerance must not be negative, got {self.tolerance}.")


def has_converged(losses: Tensor, rule: Plateau) -> Tensor:
    """Whether each replica's losses [T, R] improved by less than the rule's tolerance over its patience: [R]."""
    if len(losses) <= rule.patience:
        return torch.zeros(losses.shape[1], dtype=torch.bool, device=losses.device)
    before, now = losses[: -rule.patience].amin(0), losses.amin(0)
    return before - now < rule.tolerance


class BestValues:
    """The best watched loss of each replica and what was kept with it, in the original order of the replicas.

    Everything lives in fixed tensors on the device, so that a CUDA graph can replay :meth:`look`.
    """

    def __init__(self, rule: Patience, replicas: int, iterations: int, device: torch.device) -> None:
        self.rule = rule
        zeros = torch.zeros(replicas, dtype=torch.long, device=device)
        self.tensors = {
            "at": zeros.clone(),
            "since": zeros.clone(),
            "ran": zeros + iterations,
            "running": torch.ones(replicas, dtype=torch.bool, device=device),
        }
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def look(self, watched: Tensor, values: Mapping[str, Tensor], active: Tensor, position: Tensor) -> None:
        """Compare the watched loss [A] of the active replicas with their best, and keep `values` where it is better.

        `position` is the number of updates made before the loss was measured.
        """
        state = self.tensors
        if "loss" not in state:
            state["loss"] = torch.full(
                state["at"].shape, torch.inf, dtype=watched.dtype, device=watched.device
            )
        mine = {name: value.index_select(0, active) for name, value in state.items()}
        margin: Tensor | float = self.rule.tolerance
        if self.rule.relative:
            margin = margin * mine["loss"].abs().nan_to_num(posinf=0.0)  # the first loss improves on nothing
        better = mine["running"] & (watched < mine["loss"] - margin)
        for name, value in values.items():
            if name not in self.kept:  # a replica that never improves (NaN) keeps its first values
                self.kept[name] = value.detach().clone()
                continue
            chosen = better.view(-1, *[1] * (value.dim() - 1))
            old = self.kept[name].index_select(0, active)
            self.kept[name].index_copy_(0, active, torch.where(chosen, value.detach(), old))
        since = torch.where(better, 0, mine["since"] + 1)
        tired = mine["running"] & (since >= self.rule.patience)
        new = {
            "loss": torch.where(better, watched, mine["loss"]),
            "at": torch.where(better, position, mine["at"]),
            "since": since,
            "ran": torch.where(tired, position, mine["ran"]),
            "running": mine["running"] & ~tired,
        }
        for name, value in new.items():
            state[name].index_copy_(0, active, value)
