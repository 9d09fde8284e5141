"""The paper's schemata, drawn from the models themselves with the sizes of the experiments."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from softcut.datasets import available, community_graph
from softcut.datasets.collections import COLLECTIONS
from softcut.nn import MinCutPool
from softcut.nn.models import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
from softcut.paper.autoencoder import Settings
from softcut.report.html_page import Drawings, Section, Text
from softcut.report.schemata import architecture_svg, deep_svg, layer_svg, trace

_RATE = 0.3  # its step size
_STEPS = 150  # of the training that the drawing of the levels shows


@cache
def schemata_section() -> Section:
    """Layer, deep network, and the four architectures."""
    cora = next(info for info in available() if info.name == "cora")
    proteins, settings, ring = COLLECTIONS["PROTEINS"], Settings(), 200
    nodes, width, classes = round(proteins.nodes), proteins.info.features, proteins.info.classes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        classifier = GraphClassifier(width, classes, k=(-(-nodes // 2), -(-nodes // 4)))
        clusterer = NodeClusterer(cora.features, cora.classes)
        autoencoder = GraphAutoencoder(2, hidden=settings.hidden, k=int(settings.ratio * ring))
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
            steps = trace(model, torch.rand(count, features), _ring(count))
            drawings.append((name, architecture_svg(steps, (count, features), name)))
    text = (
        "Read from the models of `softcut.nn.models`: each was called once, and the drawing shows which modules ran, "
        "in which order, and which shapes (nodes × channels) passed between them. The deep network was trained for "
        f"{_STEPS} steps on its own losses."
    )
    return Section("Figure: the layer and the networks", [Text(text), Drawings(drawings)])


def _ring(count: int) -> Tensor:
    one = torch.arange(count)
    edges = torch.stack([one, (one + 1) % count])
    return torch.cat([edges, edges.flip(0)], dim=1)


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
