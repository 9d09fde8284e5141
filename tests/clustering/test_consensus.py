"""The consensus of replicas."""

from __future__ import annotations

import torch

from softcut.clustering.consensus import Consensus


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_consensus_finds_what_noisy_replicas_share():
    truth = torch.arange(300) % 4
    rng = generator(0)
    replicas = []
    for _ in range(16):  # each replica renames the clusters and gets 40 % of the nodes wrong
        wrong = torch.rand(300, generator=rng) < 0.4
        noisy = torch.where(wrong, torch.randint(0, 4, (300,), generator=rng), truth)
        replicas.append(torch.eye(4)[torch.randperm(4, generator=rng)[noisy]])
    s = torch.stack(replicas, dim=1)
    z = torch.zeros(300, 1, 0)
    consensus = Consensus.fit(s, z, 4)
    labels = consensus.predict(s, z)
    joint = torch.zeros(4, 4).index_put((truth, labels), torch.ones(()), accumulate=True)
    assert joint.max(1).values.sum() / 300 > 0.97
    proba = consensus.proba(s, z)
    torch.testing.assert_close(proba.sum(1), torch.ones(300))
    assert torch.equal(proba.argmax(1), labels)


def test_consensus_on_a_sample_labels_the_rest():
    truth = torch.arange(400) % 2
    s = torch.eye(2)[truth].unsqueeze(1)
    consensus = Consensus.fit(s, torch.zeros(400, 1, 0), 2, sample=50)
    labels = consensus.predict(s, torch.zeros(400, 1, 0))
    assert (labels[truth == 0] == labels[0]).all()
    assert (labels[truth == 1] != labels[0]).all()
