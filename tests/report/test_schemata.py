"""Drawings of networks are what the networks are."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.kept import check_kept
from torch import nn

from softcut.nn import MinCutPool
from softcut.nn.models import GraphClassifier, NodeClusterer
from softcut.report import schemata
from softcut.report.schemata import architecture_svg, deep_svg, layer_svg, schemata_section, trace

KEPT = Path(__file__).parent / "kept"


def ring(n: int) -> torch.Tensor:
    one = torch.arange(n)
    edges = torch.stack([one, (one + 1) % n])
    return torch.cat([edges, edges.flip(0)], dim=1)


def steps(model: nn.Module, nodes: int, features: int) -> list:
    return trace(model, torch.rand(nodes, features), ring(nodes))


def below_each_other(*drawings: str) -> str:
    return "\n".join(drawings).replace("><", ">\n<") + "\n"


def test_the_figure_of_the_paper_shows_the_layer_the_levels_and_four_networks():
    schemata_section.cache_clear()  # drawn here, not by an earlier test
    section = schemata_section()
    text, figure = section.parts
    drawings = "\n".join(f"{name}\n{drawing}" for name, drawing in figure.drawings)
    graphs = re.compile(r"<circle[^>]*>|<line[^>]*stroke-opacity[^>]*>")  # where training led to, differs
    kept = below_each_other(section.title, text.markdown, graphs.sub("", drawings))
    check_kept(KEPT / "schemata.txt", kept)
    assert drawings.count("<circle") == 48 + 12 + 4
    assert schemata_section() is section  # its training is not repeated


def test_the_network_of_the_levels_goes_down_the_slope_of_its_own_losses(monkeypatch):
    drawn = []
    monkeypatch.setattr(schemata, "deep_svg", lambda *given: drawn.append(given))
    for number in (0, 1):
        monkeypatch.setattr(schemata, "_STEPS", number)
        torch.manual_seed(0)
        schemata._levels()
    (before, x, edges, places, _), (after, *_) = drawn
    assert x is places and x.std(0).tolist() == pytest.approx([1, 1])
    slopes = torch.autograd.grad(before(x, edges).loss, [*before.parameters()], materialize_grads=True)
    for old, slope, new in zip(before.parameters(), slopes, after.parameters(), strict=True):
        torch.testing.assert_close(new, old - 0.3 * slope)


def test_another_model_gives_another_drawing():
    small, wide = (steps(GraphClassifier(3, 2, k=(4, 2), hidden=h), 12, 3) for h in (8, 64))
    assert [step.shape for step in small][-3:] == [(2, 8), (1, 8), (1, 2)]
    svg = architecture_svg(wide, (12, 3), '"><b>')
    assert "64 to 64, relu" in svg and "<b>" not in svg
    other = steps(GraphClassifier(3, 2, pool="topk", ratio=0.5), 12, 3)
    assert [step.shape[0] for step in other if step.kind == "pool"] == [6, 3]
    with pytest.raises(AttributeError):  # what was seen is not changed afterwards
        small[0].name = "other"


def test_a_trace_leaves_no_hooks_behind():
    model = NodeClusterer(3, 2, act="tanh")
    assert steps(model, 6, 3)[0].detail == "3 to 16, tanh"
    assert all(not module._forward_hooks for module in model.modules())


def test_the_layer_is_read_from_the_layer():
    layers = (
        MinCutPool(12, 3, hidden=[9, 7], temperature=0.5, ortho_weight=2.0),
        MinCutPool(12, 3, keep_diagonal=True, temperature=2.0),
        MinCutPool(12, 3, normalise=False),
    )
    check_kept(KEPT / "layers.txt", below_each_other(*map(layer_svg, layers)))


class Pooled(nn.Module):
    """Pools a ring to three clusters (the last one empty, one edge too faint to see), and to one of them."""

    def __init__(self, n: int) -> None:
        super().__init__()
        first = torch.zeros(n, 3)
        first[:, 0], first[1:, 1] = 0.25, 0.75
        self.pools = nn.ModuleList([nn.Identity(), nn.ReLU()])
        adjacency = torch.tensor([[0.2, 0.4, 0.01], [0.4, 0.3, 0.1], [0.01, 0.1, 0.0]])
        self.levels = (first, adjacency), (torch.tensor([[0.5], [0.25], [0.0]]), torch.zeros(1, 1))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> SimpleNamespace:
        made = [
            SimpleNamespace(selection=SimpleNamespace(s=s[None]), adj=SimpleNamespace(data=adjacency[None]))
            for s, adjacency in self.levels
        ]
        return SimpleNamespace(pooled=made)


def test_every_level_shows_its_clusters_where_their_nodes_stand():
    places = torch.tensor([[0.0, 3], [1, 3], [2, 3], [5, 3], [1, 3], [0, 3]])  # on a line
    svg = deep_svg(Pooled(6), places, ring(6), places, "levels")
    check_kept(KEPT / "levels.txt", below_each_other(svg))
    for n, radius in ((20, "6.0"), (21, "3.0")):  # many nodes are small
        places = torch.rand(n, 2)
        svg = deep_svg(Pooled(n), places, ring(n), places, "levels")
        assert re.findall(r'r="([\d.]+)"', svg)[:n] == [radius] * n
