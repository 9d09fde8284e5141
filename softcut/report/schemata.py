"""Drawings of networks, read from the modules themselves: what runs, in which order, from which size to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from softcut.datasets import available, community_graph
from softcut.datasets.collections import COLLECTIONS
from softcut.errors import require
from softcut.nn import MinCutPool, PoolOutput
from softcut.nn.layers import MLP, SkipConv
from softcut.nn.models import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
from softcut.ops.activations import ACTIVATIONS
from softcut.report.html_page import Drawings, Section, Text

_WIDTH, _BOX, _GAP = 300, 44, 26
_RATE = 0.3  # its step size
_STEPS = 150  # of the training that the drawing of the levels shows


@dataclass(frozen=True)
class Step:
    """One box of a drawing: what it is, its sizes, and the shape of the features that leave it."""

    name: str
    detail: str
    shape: tuple[int, int]
    kind: str = ""


def trace(model: nn.Module, x: Tensor, edge_index: Tensor) -> list[Step]:
    """The steps of a model, from one call on a graph in which every module of its first level is watched.

    What happens between two modules is seen from the number of rows: fewer rows are a mean over nodes, more rows a
    lifting from clusters to nodes.
    """
    steps: list[Step] = []
    rows = x.shape[0]

    def watch(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        nonlocal rows
        before, after = given[0], output.x if isinstance(output, PoolOutput) else output
        shape = (before.shape[-2], before.shape[-1])
        if shape[0] > rows:
            steps.append(Step("lift", "each node takes its clusters' rows", shape))
        elif shape[0] < rows:
            steps.append(Step("mean over the nodes", "", shape))
        rows = after.shape[-2]
        name, detail = _named(module)
        kind = "pool" if isinstance(output, PoolOutput) else ""
        if "softmax" in detail:
            detail += f": S {shape[0]:,} × {rows:,}"
        steps.append(Step(name, detail, (rows, after.shape[-1]), kind))

    modules = (
        m for child in model.children() for m in (child if isinstance(child, nn.ModuleList) else [child])
    )
    handles = [module.register_forward_hook(watch) for module in modules]
    try:
        with torch.no_grad():
            model(x, edge_index)
    finally:
        for handle in handles:
            handle.remove()
    return steps


def _named(module: nn.Module) -> tuple[str, str]:
    """What a module is called in a drawing, and its sizes."""
    if isinstance(module, SkipConv):
        return "message passing", f"{module.in_channels} to {module.out_channels}{_activation(module.act)}"
    if isinstance(module, nn.Linear):
        return "linear", f"{module.in_features} to {module.out_features}"
    mlp = getattr(module, "mlp", None)
    if isinstance(mlp, MLP):
        layers = _linear(mlp)
        widths = [layers[0].in_features, *(layer.out_features for layer in layers)]
        return type(module).__name__, f"MLP {' to '.join(map(str, widths))}, softmax"
    return type(module).__name__, module.extra_repr()


def _linear(mlp: MLP) -> list[nn.Linear]:
    return [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]


def _activation(act: Any) -> str:
    if act is None:
        return ", linear"
    names = {function: name for name, function in ACTIVATIONS.items()}
    return f", {names.get(act, getattr(act, '__name__', 'own activation'))}"


# -------------------------------------------------------------------------------------------- drawing


def _box(x: float, y: float, width: float, name: str, detail: str = "", kind: str = "") -> str:
    middle = x + width / 2
    made = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="6"/>'
    made += f'<text x="{middle}" y="{y + (18 if detail else 26)}" text-anchor="middle">{escape(name)}</text>'
    return made + (_small(middle, y + 34, detail, ' text-anchor="middle"') if detail else "")


def _small(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text class="sub" x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float, text: str = "") -> str:
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - 7 * ux, y2 - 7 * uy
    tip = f"{x2:.1f},{y2:.1f} {bx - 4 * uy:.1f},{by + 4 * ux:.1f} {bx + 4 * uy:.1f},{by - 4 * ux:.1f}"
    made = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{bx:.1f}" y2="{by:.1f}"/><polygon class="tip" points="{tip}"/>'
    return made + (_small((x1 + x2) / 2 + 8, (y1 + y2) / 2 + 4, text) if text else "")


def _chain(
    x: float, width: float, boxes: Sequence[tuple[str, str, str]], texts: Sequence[str] = ()
) -> tuple[str, int]:
    """Boxes (name, detail, kind) one below the other with arrows, and `texts` beside them; where the last one ends."""
    made, y, middle = _box(x, 4, width, *boxes[0]), 4 + _BOX, x + width / 2
    for i, box in enumerate(boxes[1:]):
        made += _arrow(middle, y, middle, y + _GAP, texts[i] if texts else "")
        made += _box(x, y + _GAP, width, *box)
        y += _GAP + _BOX
    return made, y


def _svg(height: float, body: str, label: str) -> Any:
    made = f'<svg class="schema" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
    return require("markupsafe", "report", "an HTML report").Markup(f"{made}{body}</svg>")


def architecture_svg(steps: Sequence[Step], features: tuple[int, int], label: str) -> Any:
    """Boxes from top to bottom with the shape of the features (nodes × channels) beside each arrow."""
    texts = [f"{rows:,} × {columns:,}" for rows, columns in (features, *(step.shape for step in steps))]
    boxes = [("graph", "features X and adjacency matrix A", "")]
    boxes += [(step.name, step.detail, step.kind) for step in steps]
    made, y = _chain(30, _WIDTH - 60, boxes, texts)
    made += _arrow(_WIDTH / 2, y, _WIDTH / 2, y + _GAP, texts[-1])
    return _svg(y + _GAP + 4, made, label)


def layer_svg(pool: MinCutPool) -> Any:
    """One layer: from X and A to S, the pooled graph and both losses."""
    half, right = 138, 158
    left_middle, right_middle = 4 + half / 2, right + half / 2
    boxes = [("X", f"features, N × {pool.in_channels}", "")]
    for layer in _linear(pool.mlp):
        boxes.append(
            ("linear", f"{layer.in_features} to {layer.out_features}{_activation(pool.mlp.act)}", "")
        )
    boxes[-1] = ("linear", boxes[-1][1].partition(",")[0], "")  # the last one has no activation
    temperature = "" if pool.temperature == 1 else f", temperature {pool.temperature:g}"
    boxes.append(("softmax: S", f"N × K, K = {pool.k}{temperature}", "pool"))
    made, y = _chain(4, half, boxes)
    made += _box(right, 4, half, "A", "N × N") + _arrow(right_middle, 4 + _BOX, right_middle, y - _BOX)
    norm = ("Ã", "D⁻¹ᐟ² A D⁻¹ᐟ²") if pool.normalise else ("A", "as it comes")
    made += _box(right, y - _BOX, half, *norm)
    last = y + 2 * _GAP
    made += _box(4, last, half, "X' = SᵀX", f"K × {pool.in_channels}", "pool")
    diagonal = "" if pool.keep_diagonal else "diagonal 0, normalised"
    made += _box(right, last, half, "A' = SᵀÃS", diagonal, "pool")
    made += _arrow(left_middle, y, left_middle, last) + _arrow(110, y, right + 30, last)
    made += _arrow(right_middle, y, right_middle, last)
    losses = last + _BOX + _GAP
    made += _box(4, losses, half, "L_c", "-Tr(SᵀÃS) / Tr(SᵀD̃S)", "loss")
    made += _box(right, losses, half, "L_o", "‖SᵀS/‖SᵀS‖ - I/√K‖", "loss")
    weights = f"weights of the losses: {pool.cut_weight:g} and "
    weights += pool.ortho_weight if isinstance(pool.ortho_weight, str) else f"{pool.ortho_weight:g}"
    made += _small(_WIDTH / 2, losses + _BOX + 16, weights, ' text-anchor="middle"')
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
        inside = (places - low) / (high - low).clamp(min=1e-9)
        made += _small_graph(inside, weight, (_WIDTH - size) / 2, y, size)
        made += _small(8, y + size / 2, f"{count} nodes")
        y += size + 4
        text, kind = "message passing, mean, linear", ""
        if level < len(pooled):
            out = pooled[level]
            s = out.selection.s.reshape(count, -1)
            places = (s.T @ places) / s.sum(0).clamp(min=1e-9).unsqueeze(-1)
            weight = out.adj.data[0]
            text, kind = f"message passing, {type(model.pools[level]).__name__}", "pool"  # type: ignore[index]
        made += _box(30, y, _WIDTH - 60, text, kind=kind)
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


# -------------------------------------------------------------------------------- the paper's schemata


@cache
def schemata_section() -> Section:
    """Layer, deep network, and the four architectures."""
    cora = next(info for info in available() if info.name == "cora")
    proteins, ring = COLLECTIONS["PROTEINS"], 200
    nodes, width, classes = round(proteins.nodes), proteins.info.features, proteins.info.classes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        classifier = GraphClassifier(width, classes, k=(-(-nodes // 2), -(-nodes // 4)))
        clusterer = NodeClusterer(cora.features, cora.classes)
        autoencoder = GraphAutoencoder(2, hidden=32, k=ring // 4)
        models: list[tuple[str, nn.Module, int, int]] = [
            (f"Clustering (table 1; {cora.title})", clusterer, cora.nodes, cora.features),
            ("Classification (table 2; an average graph of PROTEINS)", classifier, nodes, width),
            ("Regression (table 3; a molecule of QM9 with nine atoms)", GraphRegressor(4, k=4), 9, 4),
            ("Autoencoder (ring)", autoencoder, ring, 2),
        ]
        layer = classifier.pools[0]
        assert isinstance(layer, MinCutPool)
        drawings = [
            ("The MinCutPool layer (classification, first level)", layer_svg(layer)),
            ("A deep network: the graph at each level", _levels()),
        ]
        for name, model, count, features in models:
            own = torch.arange(count)  # each node is its own neighbour: no edge changes a shape
            steps = trace(model, torch.rand(count, features), torch.stack([own, own]))
            drawings.append((name, architecture_svg(steps, (count, features), name)))
    text = (
        "Read from the models of `softcut.nn.models`: each was called once, and the drawing shows which modules ran, "
        "in which order, and which shapes (nodes × channels) passed between them. The deep network was trained for "
        f"{_STEPS} steps on its own losses."
    )
    return Section("Figure: the layer and the networks", [Text(text), Drawings(drawings)])


def _levels() -> object:
    """A small network with two poolers on a graph of communities, after a short training without labels."""
    graph = community_graph(4, 48, seed=1)
    edge_index = torch.as_tensor(graph.edge_index()[0])
    x = torch.as_tensor(graph.x, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    model = GraphClassifier(2, 2, k=(12, 4), hidden=16)
    own = [*model.convs[:2].parameters(), *model.pools.parameters()]
    for _ in range(_STEPS):  # plain gradient descent: torch.optim takes seconds to load
        slopes = torch.autograd.grad(model(x, edge_index).loss, own)
        with torch.no_grad():
            for weight, slope in zip(own, slopes, strict=True):
                weight.sub_(_RATE * slope)
    return deep_svg(model, x, edge_index, x, "A graph of 48 nodes, pooled to 12 and to 4 clusters")
