"""The cost model: formulas by hand, and sizes of a real part."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.clustering.partition import partition
from softcut.datasets import attributed_communities
from softcut.graph.partition import partition_nodes
from softcut.io.parts import open_part
from softcut.ops import CSRPattern
from softcut.ops.halo import Exchange, Halo
from softcut.training import DenseInput, ReplicaNet
from softcut.training.distributed import JobGroup, Traffic, inputs, parameter_count, step_traffic
from softcut.training.distributed.cost import Scale, main, random_halo_share
from softcut.training.distributed.selection import judge
from softcut.training.distributed.task import PartTask


@pytest.mark.parametrize("terms", [1, 2])
def test_parameters_are_those_of_the_networks(terms):
    net = ReplicaNet(in_channels=5, k=3, seeds=[0, 1], hidden=4, terms=terms)
    assert parameter_count(3, 5, 4, 2, terms) == sum(p.numel() for p in net.parameters())


def test_bytes_of_a_step_by_hand():
    # 7 rows of 2 x 3 numbers; 2 x (9 + 2) sums; 2 x (4 x 5 + 4 + 12 + 3) gradients
    assert step_traffic(7, 3, 5, hidden=4, replicas=2, itemsize=8) == Traffic(8 * 7 * 6, 8 * (22 + 78))


def test_a_ring_sends_each_number_almost_twice():
    assert Traffic(5, 1000).ring(1) == 0
    assert Traffic(5, 1000).ring(2) == 1000
    assert Traffic(5, 1000).ring(4) == 1500


def test_memory_of_the_graph_is_that_of_the_files(tmp_path):
    graph = attributed_communities(400, 4, seed=0)
    manifest = partition(graph, 4, tmp_path / "parts", method="contiguous")
    parts = [open_part(tmp_path / "parts", p) for p in range(4)]
    job = Scale(400, graph.adjacency.nnz, manifest.columns, 4, parts=4, halo_share=sum(manifest.halo) / 400)
    stored = np.mean([4 * len(p.col) + 4 * len(p.rowptr) + 4 * (len(p.send) + p.num_halo) for p in parts])
    assert job.graph_memory == pytest.approx(stored, rel=0.01)
    assert job.feature_memory == np.mean([p.x.nbytes for p in parts])


def test_parts_divide_what_can_be_divided():
    whole = Scale(1e6, 2e7, 64, 16, replicas=4)
    tenth = Scale(1e6, 2e7, 64, 16, replicas=4, parts=10, halo_share=0.3)
    for name in (
        "product_operations",
        "network_operations",
        "product_bytes",
        "network_bytes",
        "feature_memory",
    ):
        assert getattr(tenth, name) == pytest.approx(getattr(whole, name) / 10)
    assert (whole.halo_bytes, whole.halo) == (0, 0)
    assert tenth.halo_bytes == pytest.approx(4 * 4 * 16 * 0.3 * 1e5)
    assert tenth.reduced_bytes == whole.reduced_bytes == step_traffic(0, 16, 64, replicas=4).reduced
    assert whole.seconds(1e12, 1e9)[1] == 0
    compute, messages = tenth.seconds(1e12, 1e9)
    assert compute == pytest.approx((tenth.product_bytes + tenth.network_bytes) / 1e12)
    assert messages == pytest.approx((tenth.halo_bytes + 1.8 * tenth.reduced_bytes) / 1e9)


def test_features_are_propagated_in_float64():
    job = Scale(1000, 1e4, 64, 4, parts=2, halo_share=0.5)
    assert job.hop_bytes == 8 * 64 * 250
    extra = job.preparation_memory - job.graph_memory - job.feature_memory
    # All columns, degree and scale; 16 columns four times, those of the halo, and 5,000 entries.
    assert extra == 8 * (500 * (64 + 2) + 16 * (4 * 500 + 250) + 5000)


class Echo(JobGroup):
    """A process whose halo is full of zeros: sizes are all that matters here."""

    def deliver(self, rows, send, receive):
        return rows.new_zeros(sum(receive), *rows.shape[1:])


def part_operator(n: int, halo: int, degree: int) -> Halo:
    columns = torch.from_numpy(np.random.default_rng(0).integers(0, n + halo, n * degree))
    rows = torch.arange(n).repeat_interleave(degree)
    pattern, _ = CSRPattern.from_coo(rows, columns, (n, n + halo))
    exchange = Exchange(Echo(), n, torch.zeros(halo, dtype=torch.long), [halo], [halo])
    return Halo(CSRPattern(pattern.rowptr.int(), pattern.col.int(), pattern.shape), exchange)


def peak_of(work) -> int:
    """The most bytes that PyTorch held at a time of what `work` allocated."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as found:
        work()
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return int(np.cumsum(sizes).max())


def job_of(n: int, halo: int, degree: int, columns: int, k: int, **more: int) -> Scale:
    """A job one part of which has these sizes."""
    parts = 2 if halo else 1
    return Scale(parts * n, parts * n * degree, columns, k, parts=parts, halo_share=halo / n, **more)


@pytest.mark.parametrize(
    ("halo", "hidden", "k", "replicas"),
    [(0, 16, 16, 1), (0, 8, 32, 2), (0, 128, 8, 1), (4000, 16, 16, 2), (16000, 16, 16, 1)],
)
def test_memory_of_a_step_is_that_of_the_model(halo, hidden, k, replicas):
    """The three moments: after the product, backward through wide hidden layers, and while a large halo arrives."""
    n, columns = 8000, 8
    op = part_operator(n, halo, 6).normalise()
    net = ReplicaNet(columns, k, list(range(replicas)), hidden=hidden)
    task = PartTask(net, DenseInput(torch.randn(n, columns)), op, n)

    def step() -> None:
        torch.stack(list(task.step().values())).sum().backward()
        net.zero_grad()

    step()  # what is made once
    job = job_of(n, halo, 6, columns, k, hidden=hidden, replicas=replicas)
    assert peak_of(step) == pytest.approx(job.step_memory, rel=0.01)


@pytest.mark.parametrize(("halo", "degree"), [(0, 4), (0, 40), (5000, 4), (20000, 4)])
def test_memory_of_the_evidence_is_that_of_the_model(halo, degree):
    n, k, replicas = 5000, 16, 3
    op = part_operator(n, halo, degree)
    part = SimpleNamespace(words=None)
    manifest = SimpleNamespace(vocabulary=1, num_words=1, nodes=n, edge_worth=1.0)

    def judged() -> None:
        s = torch.rand(n, replicas, k)
        judge(part, op, s.argmax(-1), manifest, k)

    assert peak_of(judged) == pytest.approx(
        job_of(n, halo, degree, 8, k, replicas=replicas).judging_memory, rel=0.03
    )


@pytest.mark.parametrize(
    ("halo", "degree", "columns"), [(0, 4, 32), (0, 40, 32), (9000, 4, 8), (30000, 4, 16)]
)
def test_memory_of_the_preparation_is_that_of_the_model(monkeypatch, halo, degree, columns):
    n, hops = 9000, (0, 2)
    monkeypatch.setattr(inputs, "_ROWS_AT_ONCE", 256)
    op = part_operator(n, halo, degree)
    part = SimpleNamespace(nodes=np.arange(n))
    sample = inputs.Sample(part, n, Echo(), count=64)
    x = np.ones((n, columns), dtype=np.float32)
    found = []

    def prepared() -> None:
        found.append(inputs.distances(op, x, hops, sample, torch.float32))

    job = job_of(n, halo, degree, columns, 4, distances=2)
    in_float64 = 8 * n * columns  # made by NumPy, which PyTorch does not count
    assert peak_of(prepared) + in_float64 == pytest.approx(
        job.preparation_memory - job.graph_memory, rel=0.03
    )


def test_the_command_prints_what_a_job_needs(capsys):
    main(["--nodes", "111e6", "--entries", "3.2e9", "--parts", "8", "--halo-share", "0.5"])
    lines = [line.rsplit("  ", 1) for line in capsys.readouterr().out.splitlines()]
    table = {name.strip(): value.strip() for name, value in lines}
    job = Scale(111e6, 3.2e9, 128, 16, parts=8, halo_share=0.5)
    assert table["memory of a part in training"] == f"{job.memory / 2**30:,.1f} GiB"
    assert table["own nodes of a part"] == "13.9 M"
    assert table["halo received by a part"] == f"{4 * 16 * 0.5 * 111e6 / 8 / 1e9:.2f} GB"
    main(["--nodes", "1e6", "--entries", "2e7", "--parts", "4"])
    halo = random_halo_share(4, 20.0) * 1e6 / 4
    assert f"{halo / 1e6:,.1f} M" in capsys.readouterr().out.splitlines()[1]


def test_the_halo_of_random_parts():
    n, degree = 2000, 10
    ring = sum(sp.eye_array(n, n, k=k) + sp.eye_array(n, n, k=k - n) for k in range(1, degree // 2 + 1))
    adjacency = sp.csr_array(ring + ring.T)
    owner, _ = partition_nodes(adjacency, 4, "random")
    rows = owner[adjacency.tocoo().row]
    crossing = rows != owner[adjacency.indices]
    pairs = set(zip(rows[crossing].tolist(), adjacency.indices[crossing].tolist(), strict=True))
    assert len(pairs) / n == pytest.approx(random_halo_share(4, degree), rel=0.02)
