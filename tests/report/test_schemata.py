"""Drawings of networks are what the networks are."""

import re

import torch
from torch import nn

from softcut.nn import MinCutPool
from softcut.nn.models import GraphAutoencoder, GraphClassifier, NodeClusterer
from softcut.report.schemata import architecture_svg, deep_svg, layer_svg, trace


def ring(n: int) -> torch.Tensor:
    one = torch.arange(n)
    edges = torch.stack([one, (one + 1) % n])
    return torch.cat([edges, edges.flip(0)], dim=1)


def steps(model: nn.Module, nodes: int, features: int) -> list:
    return trace(model, torch.rand(nodes, features), ring(nodes))


def test_the_autoencoder_lifts_its_clusters():
    made = steps(GraphAutoencoder(2, hidden=8, k=5), 20, 2)
    assert [step.name for step in made] == [
        *("message passing", "message passing", "MinCutPool", "lift"),
        *("message passing", "message passing", "message passing"),
    ]
    assert [step.shape for step in made] == [(20, 8), (20, 8), (5, 8), (20, 8), (20, 8), (20, 8), (20, 2)]
    assert made[-1].detail == "8 to 2, linear"


def test_another_model_gives_another_drawing():
    small, wide = (steps(GraphClassifier(3, 2, k=(4, 2), hidden=h), 12, 3) for h in (8, 64))
    assert [step.shape for step in small][-3:] == [(2, 8), (1, 8), (1, 2)]
    svg = architecture_svg(wide, (12, 3), '"><b>')
    assert "64 to 64, relu" in svg and "<b>" not in svg
    # A box every 70 units with the shape beside each arrow, and one more arrow at the end.
    shapes = [f"{rows} × {columns}" for rows, columns in ((12, 3), *(step.shape for step in wide))]
    assert re.findall(r'y="(\d+)" width="240"', svg) == [str(4 + 70 * i) for i in range(len(wide) + 1)]
    assert re.findall(r">(\d+ × \d+)<", svg) == shapes
    other = steps(GraphClassifier(3, 2, pool="topk", ratio=0.5), 12, 3)
    assert [step.shape[0] for step in other if step.kind == "pool"] == [6, 3]


def test_a_trace_leaves_no_hooks_behind():
    model = NodeClusterer(3, 2, act="tanh")
    assert steps(model, 6, 3)[0].detail == "3 to 16, tanh"
    assert all(not module._forward_hooks for module in model.modules())


def test_the_layer_is_read_from_the_layer():
    made = layer_svg(MinCutPool(12, 3, hidden=[9, 7], temperature=0.5, ortho_weight=2.0))
    for text in ("12 to 9, relu", "9 to 7, relu", "7 to 3<", "temperature 0.5", "1 and 2", "diagonal 0"):
        assert text in made
    assert "diagonal 0" not in layer_svg(MinCutPool(12, 3, keep_diagonal=True))
    assert "as it comes" in layer_svg(MinCutPool(12, 3, normalise=False))
    svg = layer_svg(MinCutPool(12, 3))
    boxes = [(int(x), int(y)) for x, y in re.findall(r'x="(\d+)" y="(\d+)" width="138"', svg)]
    assert sorted(y for x, y in boxes if x == 4) == [4, 74, 144, 240, 310]  # X, linear, S, X', L_c
    assert sorted(y for x, y in boxes if x == 158) == [4, 144, 240, 310]  # A, its normalisation, A', L_o
    assert '<line x1="110.0" y1="188.0" x2="182.2" y2="236.1"' in svg  # from S to A'
    assert '<polygon class="tip" points="73.0,74.0 69.0,67.0 77.0,67.0"/>' in svg


def test_every_level_shows_its_clusters_where_their_nodes_stand():
    places = torch.tensor([[0.0, 0], [1, 0], [2, 0], [2, 4], [1, 4], [0, 4]])
    svg = deep_svg(GraphClassifier(2, 2, k=(4, 2), hidden=8), places, ring(6), places, "levels")
    circles = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="6.0"', svg)
    # A square of 134 inside one of 150, in the middle of 300; each level fills its own.
    expected = [(f"{83 + 67 * x:.1f}", f"{14 + 33.5 * y:.1f}") for x, y in places.tolist()]
    assert circles[:6] == expected and len(circles) == 6 + 4 + 2
    assert re.findall(r">(\d) nodes<", svg) == ["6", "4", "2"]
    edges = re.findall(r'stroke-opacity="([\d.]+)" stroke-width="([\d.]+)"', svg)
    assert edges[:6] == [("0.85", "2.00")] * 6
    assert re.findall(r'y="(\d+)" width="240"', svg) == ["160", "366", "572"]
