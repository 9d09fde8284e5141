"""Drawings of networks, read from the modules themselves: what runs, in which order, from which size to which.

A model is called once on a small graph and every module of its first level is watched; what happens between two modules
is seen from the number of rows: fewer rows are a mean over nodes, more rows a lifting from clusters to nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import require
from softcut.nn import MinCutPool, PoolOutput
from softcut.nn.layers import ACTIVATIONS, MLP, SkipConv

__all__ = ["Step", "architecture_svg", "deep_svg", "layer_svg", "trace"]

_WIDTH, _BOX, _GAP = 300, 44, 26


@dataclass(frozen=True)
class Step:
    """One box of a drawing: what it is, its sizes, and the shape of the features that leave it."""

    name: str
    detail: str
    shape: tuple[int, int]
    kind: str = ""


def trace(model: nn.Module, x: Tensor, edge_index: Tensor) -> list[Step]:
    """The steps of a model, from one call on a graph."""
    steps: list[Step] = []
    rows = x.shape[0]

    def watch(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        nonlocal rows
        before, after = given[0], output.x if isinstance(output, PoolOutput) else output
        width = before.shape[-1]
        if before.shape[-2] > rows:
            steps.append(Step("lift", "each node takes its clusters' rows", (before.shape[-2], width)))
        elif before.shape[-2] < rows:
            steps.append(Step("mean over the nodes", "", (before.shape[-2], width)))
        rows = after.shape[-2]
        name, detail = _named(module)
        kind = "pool" if isinstance(output, PoolOutput) else ""
        if "softmax" in detail:
            detail += f": S {before.shape[-2]:,} × {rows:,}"
        steps.append(Step(name, detail, (rows, after.shape[-1]), kind))

    handles = [module.register_forward_hook(watch) for module in _children(model)]
    try:
        with torch.no_grad():
            model(x, edge_index)
    finally:
        for handle in handles:
            handle.remove()
    return steps


def _children(model: nn.Module) -> Iterator[nn.Module]:
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield child


def _named(module: nn.Module) -> tuple[str, str]:
    """What a module is called in a drawing, and its sizes."""
    if isinstance(module, SkipConv):
        act = _activation(module.act)
        return "message passing", f"{module.in_channels} to {module.out_channels}{act}"
    if isinstance(module, nn.Linear):
        return "linear", f"{module.in_features} to {module.out_features}"
    mlp = getattr(module, "mlp", None)
    if isinstance(mlp, MLP):
        return type(module).__name__, f"MLP {_widths(mlp)}, softmax"
    return type(module).__name__, module.extra_repr()


def _widths(mlp: MLP) -> str:
    layers = [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
    return " to ".join(map(str, (layers[0].in_features, *(layer.out_features for layer in layers))))


def _activation(act: Any) -> str:
    if act is None:
        return ", linear"
    names = {function: name for name, function in ACTIVATIONS.items()}
    return f", {names.get(act, getattr(act, '__name__', 'own activation'))}"


# -------------------------------------------------------------------------------------------- drawing


def _box(x: float, y: float, width: float, name: str, detail: str = "", kind: str = "") -> str:
    middle, first = x + width / 2, y + (18 if detail else 26)
    made = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="6"/>'
    made += f'<text x="{middle}" y="{first}" text-anchor="middle">{escape(name)}</text>'
    if detail:
        made += f'<text class="sub" x="{middle}" y="{y + 34}" text-anchor="middle">{escape(detail)}</text>'
    return made


def _arrow(x1: float, y1: float, x2: float, y2: float, text: str = "") -> str:
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - 7 * ux, y2 - 7 * uy
    tip = f"{x2:.1f},{y2:.1f} {bx - 4 * uy:.1f},{by + 4 * ux:.1f} {bx + 4 * uy:.1f},{by - 4 * ux:.1f}"
    made = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{bx:.1f}" y2="{by:.1f}"/><polygon class="tip" points="{tip}"/>'
    if not text:
        return made
    return (
        made
        + f'<text class="sub" x="{(x1 + x2) / 2 + 8:.1f}" y="{(y1 + y2) / 2 + 4:.1f}">{escape(text)}</text>'
    )


def _svg(height: float, body: str, label: str) -> Any:
    made = (
        f'<svg class="schema" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )
    return require("markupsafe", "report", "an HTML report").Markup(made)


def architecture_svg(steps: Sequence[Step], features: tuple[int, int], label: str) -> Any:
    """Boxes from top to bottom with the shape of the features (nodes × channels) beside each arrow."""
    left, width = 30, _WIDTH - 60
    made, y = _box(left, 4, width, "graph", "features X and adjacency matrix A"), 4
    shape = features
    for step in steps:
        below = y + _BOX + _GAP
        made += _arrow(_WIDTH / 2, y + _BOX, _WIDTH / 2, below, f"{shape[0]:,} × {shape[1]:,}")
        made += _box(left, below, width, step.name, step.detail, step.kind)
        y, shape = below, step.shape
    made += _arrow(_WIDTH / 2, y + _BOX, _WIDTH / 2, y + _BOX + _GAP, f"{shape[0]:,} × {shape[1]:,}")
    return _svg(y + _BOX + _GAP + 4, made, label)


def layer_svg(pool: MinCutPool) -> Any:
    """One layer: from X and A to S, the pooled graph and both losses."""
    layers = [layer for layer in pool.mlp.layers if isinstance(layer, nn.Linear)]
    half, right = 138, 158
    made = _box(4, 4, half, "X", f"features, N × {pool.in_channels}") + _box(right, 4, half, "A", "N × N")
    y = 4
    for i, layer in enumerate(layers):
        below = y + _BOX + _GAP
        act = _activation(pool.mlp.act) if i + 1 < len(layers) else ""
        made += _arrow(73, y + _BOX, 73, below)
        made += _box(4, below, half, "linear", f"{layer.in_features} to {layer.out_features}{act}")
        y = below
    below = y + _BOX + _GAP
    made += _arrow(73, y + _BOX, 73, below)
    temperature = "" if pool.temperature == 1 else f", temperature {pool.temperature:g}"
    made += _box(4, below, half, "softmax: S", f"N × K, K = {pool.k}{temperature}", "pool")
    made += _arrow(right + half / 2, 4 + _BOX, right + half / 2, below)
    norm = "D⁻¹ᐟ² A D⁻¹ᐟ²" if pool.normalise else "as it comes"
    made += _box(right, below, half, "Ã" if pool.normalise else "A", norm)
    last = below + _BOX + 2 * _GAP
    made += _box(4, last, half, "X' = SᵀX", f"K × {pool.in_channels}", "pool")
    diagonal = "" if pool.keep_diagonal else "diagonal 0, normalised"
    made += _box(right, last, half, "A' = SᵀÃS", diagonal, "pool")
    made += _arrow(73, below + _BOX, 73, last) + _arrow(110, below + _BOX, right + 30, last)
    made += _arrow(right + half / 2, below + _BOX, right + half / 2, last)
    losses = last + _BOX + _GAP
    made += _box(4, losses, half, "L_c", "-Tr(SᵀÃS) / Tr(SᵀD̃S)", "loss")
    made += _box(right, losses, half, "L_o", "‖SᵀS/‖SᵀS‖ - I/√K‖", "loss")
    made += f'<text class="sub" x="{_WIDTH / 2}" y="{losses + _BOX + 16}" text-anchor="middle">weights of the losses: '
    made += f"{pool.cut_weight:g} and {pool.ortho_weight:g}</text>"
    return _svg(losses + _BOX + 24, made, "The MinCutPool layer")


def deep_svg(model: nn.Module, x: Tensor, edge_index: Tensor, positions: Tensor, label: str) -> Any:
    """The graph at every level of a model with soft poolers: clusters stand as their nodes do, each level enlarged."""
    with torch.no_grad():
        pooled = model(x, edge_index).pooled
    weight = torch.zeros(x.shape[0], x.shape[0])
    weight[edge_index[0], edge_index[1]] = 1.0
    places = positions.to(torch.float32)
    size, made, y = 150, "", 6
    for level in range(len(pooled) + 1):
        count = len(places)
        low, high = places.min(0).values, places.max(0).values  # each level fills its square
        made += _small_graph(
            (places - low) / (high - low).clamp(min=1e-9), weight, (_WIDTH - size) / 2, y, size
        )
        made += f'<text class="sub" x="8" y="{y + size / 2}">{count} nodes</text>'
        y += size + 4
        text = "message passing, mean, linear"
        if level < len(pooled):
            out = pooled[level]
            s = out.selection.s.reshape(count, -1)
            places = (s.T @ places) / s.sum(0).clamp(min=1e-9).unsqueeze(-1)
            weight = out.adj.data[0]
            text = f"message passing, {type(model.pools[level]).__name__}"  # type: ignore[index]
        made += _box(30, y, _WIDTH - 60, text, kind="pool" if level < len(pooled) else "")
        y += _BOX + 8
    return _svg(y, made, label)


def _small_graph(places: Tensor, weight: Tensor, left: float, top: float, size: float) -> str:
    at = [(left + 8 + (size - 16) * float(px), top + 8 + (size - 16) * float(py)) for px, py in places]
    most = float(weight.max().clamp(min=1e-9))
    made = ""
    for a, b in torch.triu(weight, 1).gt(0.03 * most).nonzero().tolist():
        share = float(weight[a, b]) / most
        (x1, y1), (x2, y2) = at[a], at[b]
        made += (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-opacity="{0.25 + 0.6 * share:.2f}"'
            f' stroke-width="{0.5 + 1.5 * share:.2f}"/>'
        )
    radius = 3.0 if len(at) > 20 else 6.0
    return made + "".join(f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in at)
