"""The cost model: formulas by hand, and sizes of a real part."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.clustering.partition import partition
from softcut.datasets import attributed_communities
from softcut.graph.partition import partition_nodes
from softcut.io.parts import open_part
from softcut.training import ReplicaNet
from softcut.training.distributed import Traffic, parameter_count, step_traffic
from softcut.training.distributed.cost import Scale, main, random_halo_share


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
    assert extra == 8 * (500 * 64 + 6 * 500 * 16 + 2 * 250 * 16)


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
