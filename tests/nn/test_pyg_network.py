"""A network of PyTorch Geometric with dense_mincut_pool, and the same one with MinCutPool: the same training.

The network is that of PyTorch Geometric's example on PROTEINS: a GCN layer, two levels of minCUT pooling (to half
of the average number of nodes, then to half of that) with dense graph convolutions after each, a mean over the
clusters and two linear layers. The adjacency is not normalised there, hence ``normalise=False``.
"""

import copy
import math

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGraphConv, GCNConv, dense_mincut_pool
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj, to_dense_batch

from softcut.nn import MinCutPool

HIDDEN = 32


class Network(nn.Module):
    """Both networks have these parameters; they differ in how they pool."""

    def __init__(self, in_channels, classes, average_nodes):
        super().__init__()
        first = math.ceil(average_nodes / 2)
        second = math.ceil(first / 2)
        self.conv = GCNConv(in_channels, HIDDEN)
        self.pools = nn.ModuleList([MinCutPool(HIDDEN, k, normalise=False) for k in (first, second)])
        self.dense = nn.ModuleList([DenseGraphConv(HIDDEN, HIDDEN), DenseGraphConv(HIDDEN, HIDDEN)])
        self.head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))

    def classify(self, x):
        return self.head(x.mean(1)).log_softmax(-1)


class Ours(Network):
    def forward(self, data):
        x = self.conv(data.x, data.edge_index).relu()
        one = self.pools[0](x, data.edge_index, batch=data.batch)
        x = self.dense[0](one.x, one.adj.to_dense()).relu()
        two = self.pools[1](x, one.adj)
        x = self.dense[1](two.x, two.adj.to_dense())
        return self.classify(x), one.loss + two.loss


class Theirs(Network):
    def forward(self, data):
        x = self.conv(data.x, data.edge_index).relu()
        x, mask = to_dense_batch(x, data.batch)
        adj = to_dense_adj(data.edge_index, data.batch).to(x.dtype)
        x, adj, cut, ortho = dense_mincut_pool(x, adj, self.pools[0].mlp(x), mask)
        loss = cut + ortho
        x = self.dense[0](x, adj).relu()
        x, adj, cut, ortho = dense_mincut_pool(x, adj, self.pools[1].mlp(x))
        x = self.dense[1](x, adj)
        return self.classify(x), loss + cut + ortho


def train(model, train_set, test_set, epochs):
    """Losses of every step, and the accuracy on the test set after every epoch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-4)
    losses, accuracies = [], []
    for epoch in range(epochs):
        order = torch.randperm(len(train_set), generator=torch.Generator().manual_seed(epoch))
        for data in DataLoader([train_set[int(i)] for i in order], batch_size=20):
            optimiser.zero_grad()
            scores, auxiliary = model(data)
            loss = nn.functional.nll_loss(scores, data.y) + auxiliary
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        with torch.no_grad():
            right = sum(
                int((model(data)[0].argmax(-1) == data.y).sum())
                for data in DataLoader(test_set, batch_size=20)
            )
        accuracies.append(right / len(test_set))
    return torch.tensor(losses, dtype=torch.float64), accuracies


def compare(graphs, classes, epochs):
    for graph in graphs:
        graph.x = graph.x.double()
    average = sum(graph.num_nodes for graph in graphs) / len(graphs)
    torch.manual_seed(0)
    ours = Ours(graphs[0].num_features, classes, average).double()
    theirs = Theirs(graphs[0].num_features, classes, average).double()
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(12345)).tolist()
    tenth = max(1, len(graphs) // 10)
    test_set, train_set = [graphs[i] for i in order[:tenth]], [graphs[i] for i in order[tenth:]]
    got, expected = (train(model, train_set, test_set, epochs) for model in (ours, theirs))
    assert expected[0].isfinite().all()
    assert (got[0] - expected[0]).abs().max() <= 1e-8
    assert got[1] == expected[1]
    return got


def test_one_epoch_on_generated_graphs():
    torch.manual_seed(0)
    graphs = []
    for i in range(60):
        n = int(torch.randint(5, 25, ()))
        path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        more = erdos_renyi_graph(n, 0.1 + 0.2 * (i % 2))
        edges = torch.cat([path, path.flip(0), more], 1).unique(dim=1)
        graphs.append(Data(x=torch.randn(n, 3), edge_index=edges, y=torch.tensor([i % 2])))
    losses, _ = compare(graphs, classes=2, epochs=1)
    assert losses[-1] < losses[0]
