"""Pool inside a PyTorch Geometric classifier.

Graphs of 24 nodes with two, three or four communities are told apart. All have about five edges per node, so the
network has to look at how they are connected; nodes are described by the probabilities that a random walk returns.
`MinCutPool` takes the place of any other pooling layer in an ordinary training loop; its losses are added to the
cross entropy.

    python examples/pyg_classifier.py [GRAPHS]
"""

import sys

import networkx as nx
import torch
from torch.nn import Linear, Module
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import from_networkx

from softcut.nn import MinCutPool

COMMUNITIES = (2, 3, 4)
describe = AddRandomWalkPE(walk_length=6, attr_name=None)  # six features per node


def make(communities: int, seed: int) -> Data:
    """24 nodes in so many communities, five edges per node."""
    size = 24 // communities
    inside = (5 - 0.03 * (24 - size)) / (size - 1)
    data = describe(from_networkx(nx.planted_partition_graph(communities, size, inside, 0.03, seed=seed)))
    data.y = torch.tensor([COMMUNITIES.index(communities)])
    return data


class Net(Module):
    """Message passing, pooling to eight clusters, mean over the clusters."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.conv = GCNConv(6, hidden)
        self.pool = MinCutPool(in_channels=hidden, k=8, hidden=16)
        self.out = Linear(hidden, len(COMMUNITIES))

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        pooled = self.pool(x, edge_index, batch=batch)  # pooled.x is [graphs, 8, hidden]
        return self.out(pooled.x.relu().mean(1)), pooled.loss


count = int(sys.argv[1]) if len(sys.argv) > 1 else 600
torch.manual_seed(0)
graphs = [make(COMMUNITIES[seed % 3], seed) for seed in range(count)]
train = DataLoader(graphs[: count * 3 // 4], batch_size=32, shuffle=True)
test = DataLoader(graphs[count * 3 // 4 :], batch_size=256)
net = Net()
optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)

for epoch in range(1, 31):
    net.train()
    for batch in train:
        logits, auxiliary = net(batch.x, batch.edge_index, batch.batch)
        loss = cross_entropy(logits, batch.y) + auxiliary
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if epoch % 10 == 0:
        net.eval()
        with torch.no_grad():
            right = sum((net(b.x, b.edge_index, b.batch)[0].argmax(1) == b.y).sum().item() for b in test)
        print(f"epoch {epoch}: loss {loss.item():.3f}, test accuracy {right / len(test.dataset):.2f}")
