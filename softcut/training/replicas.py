"""Many restarts of one clustering network, trained in one vectorised pass.

R restarts share the graph and the features, so R restarts are one sparse product with R*K columns, one
matrix product with R*H columns and one optimiser step. Parameters carry a replica axis; the loss is the
sum over replicas, so every replica gets exactly the gradient it would get alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.activations import Activation, get_activation
from softcut.ops import OBJECTIVES, Operator, cut_terms, orthogonality, self_gram
from softcut.ops.cut import ratio_trace, safe_ratio
from softcut.training.cuda_graph import repeat
from softcut.training.inputs import FirstLayer

__all__ = [
    "Progress",
    "ReplicaNet",
    "TrainResult",
    "TrainSettings",
    "replica_losses",
    "replica_seeds",
    "train",
]


# From (op, S [N, R, K]) to the two terms of an objective, one number a replica each.
Loss = Callable[[Operator, Tensor], tuple[Tensor, Tensor]]


def replica_seeds(random_state: int, replicas: int) -> list[int]:
    """One seed a replica; the first r seeds do not depend on how many there are.

    >>> replica_seeds(0, 4)[:2] == replica_seeds(0, 2)
    True
    """
    words = np.random.SeedSequence(random_state).generate_state(replicas, np.uint32)
    return [int(w) for w in words]


def _glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    uniform = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return (2 * uniform - 1) * math.sqrt(6 / (rows + columns))


class ReplicaNet(nn.Module):
    r"""R copies of: logits = act(first layer + b) W + b', with their own weights.

    With a :class:`~softcut.training.inputs.ConvInput` this is the paper's model (eq. 1 and a softmax
    layer); with a :class:`~softcut.training.inputs.DenseInput`, an MLP on propagated features. He-normal
    kernels in the first layer, Glorot-uniform in the last. ``hidden=0``: one linear layer, Glorot-uniform.

    >>> import torch
    >>> from softcut.training import DenseInput
    >>> net = ReplicaNet(in_channels=3, k=2, seeds=[0, 1], hidden=4)
    >>> net(DenseInput(torch.ones(5, 3))).shape                # [R, K, N]
    torch.Size([2, 2, 5])
    >>> net.assign(DenseInput(torch.ones(5, 3))).shape         # S: [N, R, K]
    torch.Size([5, 2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        seeds: Sequence[int],
        hidden: int = 16,
        terms: int = 1,
        act: Activation = "elu",
        scales: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.scales = [0] * len(seeds) if scales is None else list(scales)
        if len(self.scales) != len(seeds) or self.scales != sorted(self.scales):
            raise ParameterError("scales must name one scale for each replica, in rising order.")
        self.in_channels, self.k, self.hidden, self.terms = in_channels, k, hidden, terms
        self.replicas = len(seeds)
        self.act = get_activation(act)
        width = hidden or k
        firsts: list[list[Tensor]] = [[] for _ in range(terms)]
        seconds = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            for kernels in firsts:
                if hidden:
                    normal = torch.randn(hidden, in_channels, generator=generator, dtype=torch.float64)
                    kernels.append(normal * math.sqrt(2 / max(1, in_channels)))
                else:
                    kernels.append(_glorot(k, in_channels, generator))
            seconds.append(_glorot(k, hidden, generator) if hidden else torch.zeros(0, 0))
        self.first = nn.ParameterList(
            nn.Parameter(torch.stack(kernels).to(dtype))  # [R, H, F]
            for kernels in firsts
        )
        self.bias = nn.Parameter(torch.zeros(self.replicas, width, dtype=dtype))
        if hidden:
            self.second = nn.Parameter(torch.stack(seconds).to(dtype))  # [R, K, H]
            self.second_bias = nn.Parameter(torch.zeros(self.replicas, k, dtype=dtype))

    def forward(self, inputs: FirstLayer) -> Tensor:
        """Logits [R, K, N]."""
        h = inputs(list(self.first), self.scales) + self.bias.unsqueeze(-1)
        if not self.hidden:
            return h
        if self.act is not None:
            h = self.act(h)
        return torch.baddbmm(self.second_bias.unsqueeze(-1), self.second, h)

    def keep(self, replicas: Sequence[int]) -> ReplicaNet:
        """A net with some of the replicas only."""
        index = torch.as_tensor(list(replicas))
        chosen = {k: v.detach().cpu()[index] for k, v in self.state_dict().items()}
        return ReplicaNet.restore({**self.meta(), "scales": [self.scales[r] for r in replicas]}, chosen)

    def meta(self) -> dict[str, Any]:
        """Sizes, for a saved model."""
        return {
            "in_channels": self.in_channels,
            "k": self.k,
            "hidden": self.hidden,
            "terms": self.terms,
            "scales": self.scales,
        }

    @classmethod
    def restore(cls, meta: dict[str, Any], state: dict[str, Tensor]) -> ReplicaNet:
        """From what :meth:`meta` and ``state_dict`` gave."""
        net = cls(seeds=[0] * len(meta["scales"]), dtype=state["bias"].dtype, **meta)
        net.load_state_dict(state)
        return net

    def soft(self, inputs: FirstLayer, temperature: float = 1.0) -> Tensor:
        """S of every replica, [N, R, K] (a view of [R, K, N])."""
        logits = self(inputs)
        if temperature != 1.0:
            logits = logits / temperature
        return torch.softmax(logits, dim=1).permute(2, 0, 1)

    @torch.no_grad()
    def assign(self, inputs: FirstLayer, temperature: float = 1.0) -> Tensor:
        """As :meth:`soft`, without a graph of gradients."""
        return self.soft(inputs, temperature)


@dataclass(frozen=True)
class TrainSettings:
    """How replicas are trained.

    >>> TrainSettings(iterations=100).lr
    0.002

    Attributes
    ----------
    iterations : int
        The most iterations.
    lr : float
        Adam's step size.
    temperature : float
        Of the softmax.
    objective : {"trace_ratio", "ratio_trace"}
        Which cut loss.
    ortho_weight : float
        Weight of L_o.
    start : int
        Iterations spent, before the cut is minimised, on learning the given start (see :func:`train`).
    tolerance : float or None
        A replica has converged when its best loss improved by less than this over `patience` iterations;
        training stops when all have. None: never stops early.
    patience, check_every : int
        See `tolerance`; how often it is looked at (and callbacks are called).
    """

    iterations: int = 700
    lr: float = 2e-3
    temperature: float = 1.0
    objective: str = "trace_ratio"
    ortho_weight: float = 1.0
    start: int = 40
    tolerance: float | None = 1e-4
    patience: int = 50
    check_every: int = 25

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ParameterError(f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}.")
        for name in ("iterations", "lr", "temperature", "patience", "check_every"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("ortho_weight", "start"):
            if not getattr(self, name) >= 0:
                raise ParameterError(f"{name} must not be negative, got {getattr(self, name)}.")


@dataclass(frozen=True)
class Progress:
    """What a callback is told: `iteration` of `iterations`, and each replica's losses [R]."""

    iteration: int
    iterations: int
    cut: np.ndarray
    ortho: np.ndarray
    net: ReplicaNet = field(repr=False)


@dataclass
class TrainResult:
    """What training left behind.

    Attributes
    ----------
    cut, ortho : array [T, R]
        L_c and L_o of every replica at every iteration.
    iterations : int
        How many were run.
    converged : bool
        Whether every replica's loss had stopped improving.
    interrupted : bool
        Whether Ctrl-C ended it; the parameters are those of the last finished iteration.
    """

    cut: np.ndarray
    ortho: np.ndarray
    iterations: int
    converged: bool
    interrupted: bool


def replica_losses(
    op: Operator, s: Tensor, objective: str = "trace_ratio", sizes: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L_c and L_o of every replica, mean over the graphs: two vectors [R]; `sizes` [R, K] as in L_o.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2).normalise()
    >>> cut, ortho = replica_losses(op, torch.eye(2).unsqueeze(1))
    >>> cut.tolist(), ortho.tolist()
    ([-0.0], [0.0])
    """
    if objective == "trace_ratio":
        cut = -safe_ratio(*cut_terms(op, s)).mean(0)
    else:
        cut = -ratio_trace(op, s).mean(0)
    return cut, orthogonality(self_gram(op.layout, s), sizes).mean(0)


def train(
    net: ReplicaNet,
    inputs: FirstLayer,
    op: Operator,
    settings: TrainSettings | None = None,
    callback: Callable[[Progress], None] | None = None,
    *,
    start: Tensor | None = None,
    sizes: Tensor | None = None,
    loss: Loss | None = None,
) -> TrainResult:
    """Minimise L_c + w L_o for all replicas at once; `net` is changed in place.

    Both losses have degenerate neighbourhoods: on dense graphs with weak features a random network can slide
    into a single cluster. With `start`, each replica first learns a given assignment (k-means on its own
    features, say) by cross-entropy, and minimises the cut from there.

    On a CUDA device the step is captured once as a CUDA graph and replayed.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> from softcut.training import DenseInput, ReplicaNet, TrainSettings, train
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), num_nodes=4)
    >>> net = ReplicaNet(in_channels=4, k=2, seeds=[0, 1, 2])
    >>> result = train(net, DenseInput(torch.eye(4)), op, TrainSettings(iterations=20, tolerance=None))
    >>> result.cut.shape
    (20, 3)

    Parameters
    ----------
    net : ReplicaNet
        The replicas.
    inputs : FirstLayer
        The constant features.
    op : Operator
        The graph whose cut is minimised (normalised here).
    settings : TrainSettings, optional
        See there.
    callback : callable, optional
        Called with a :class:`Progress` every `check_every` iterations. Raising KeyboardInterrupt in it, or
        pressing Ctrl-C, ends training and keeps what was learnt.
    start : Tensor, optional
        [R, N] cluster numbers each replica learns first, for ``settings.start`` iterations.
    sizes : Tensor, optional
        [R, K] cluster sizes for L_o to hold on to, in place of equal ones.
    loss : callable, optional
        Another objective: from (op, S [N, R, K]) to its two terms, [R] each; `op` is then used as it is.
    """
    settings = settings or TrainSettings()
    if loss is None:
        op = op.normalise()
        loss = partial(replica_losses, objective=settings.objective, sizes=sizes)
    with _threads_for(net, op):
        return _Trainer(net, inputs, op, settings, callback, start, loss).run()


# Below this many numbers (rows x replicas x units) one thread is faster than waking others at every operation.
_ONE_THREAD = 1 << 18


@contextmanager
def _threads_for(net: ReplicaNet, op: Operator) -> Iterator[None]:
    """One thread for small work on the CPU, as many as before for the rest."""
    before = torch.get_num_threads()
    small = op.num_rows * net.replicas * (net.hidden + net.k) < _ONE_THREAD
    if net.bias.is_cuda or before == 1 or not small:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Trainer:
    def __init__(
        self,
        net: ReplicaNet,
        inputs: FirstLayer,
        op: Operator,
        settings: TrainSettings,
        callback: Callable[[Progress], None] | None,
        start: Tensor | None,
        loss: Loss,
    ) -> None:
        self.net, self.inputs, self.op, self.settings, self.callback = net, inputs, op, settings, callback
        self.start, self.loss = start, loss
        device = net.bias.device
        self.cuda = device.type == "cuda"
        self.optimiser = torch.optim.Adam(net.parameters(), lr=settings.lr, fused=True, capturable=self.cuda)
        # Everything the step reads or writes lives in fixed tensors, so that a CUDA graph can replay it.
        self.history = torch.zeros(settings.iterations, 2, net.replicas, device=device, dtype=net.bias.dtype)
        self.position = torch.zeros(1, dtype=torch.long, device=device)

    def step(self) -> None:
        """One iteration of the objective."""
        s = self.net.soft(self.inputs, self.settings.temperature)
        cut, ortho = self.loss(self.op, s)
        self._update((cut + self.settings.ortho_weight * ortho).sum())
        self.history.index_copy_(0, self.position, torch.stack([cut.detach(), ortho.detach()]).unsqueeze(0))
        self.position += 1

    def step_to_start(self) -> None:
        """One iteration towards the given start."""
        assert self.start is not None
        logits = self.net(self.inputs)  # [R, K, N]
        self._update(nn.functional.cross_entropy(logits, self.start) * self.net.replicas)

    def _update(self, loss: Tensor) -> None:
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=not self.cuda)

    def run(self) -> TrainResult:
        settings = self.settings
        done, converged, interrupted = 0, False, False
        # The solver inside the ratio-trace objective cannot be captured.
        capture = self.cuda and settings.objective != "ratio_trace"
        try:
            if self.start is not None:
                for _ in repeat(self.step_to_start, settings.start, capture):
                    pass
            for _ in repeat(self.step, settings.iterations, capture):
                done += 1
                if done % settings.check_every == 0 or done == settings.iterations:
                    converged = self._look(done)
                    if converged:
                        break
        except KeyboardInterrupt:
            interrupted = True
            done = int(self.position)
        history = self.history[:done].cpu().double().numpy()
        return TrainResult(history[:, 0], history[:, 1], done, converged, interrupted)

    def _look(self, done: int) -> bool:
        """Tell the callback, and say whether every replica's loss has stopped improving."""
        settings = self.settings
        if self.callback is not None:
            last = self.history[done - 1].cpu().double().numpy()
            self.callback(Progress(done, settings.iterations, last[0], last[1], self.net))
        if settings.tolerance is None or done <= settings.patience:
            return False
        total = self.history[:done, 0] + settings.ortho_weight * self.history[:done, 1]
        before, now = total[: -settings.patience].amin(0), total.amin(0)
        return bool((before - now < settings.tolerance).all())
