"""Tables of the GPU kernels from files as benchmarks/gpu_kernels.py writes them."""

from __future__ import annotations

import json

import pytest
from softcut.paper.gpu_tables import GPU_TABLES

from softcut.errors import DataError


def test_a_loss_from_python_and_replayed_with_and_without_a_peer(tmp_path):
    ours = {"ms": 1.729, "replayed ms": 1.708, "extra": 2.00103, "torch ms": 5.744}
    peer = {"peer ms": 120.6, "peer GiB": 15.62, "ratio": 69.74}
    found = {"machine": {"device": "a GPU"}, "loss | uniform 2000000 | K=16 | float32": ours | peer}
    found["loss | power law 2000000 | K=8 | bfloat16"] = {**ours, "ms": 1.379}
    (tmp_path / "gpu_losses.json").write_text(json.dumps(found))
    titles, _, *rows = GPU_TABLES["gpu_losses"](tmp_path).splitlines()
    assert "| called from Python, ms | replayed, ms | extra memory / 4NK bytes |" in titles
    assert rows == [
        "| uniform, 2M nodes | 16 | float32 | 1.73 | 1.71 | 2.001 | 5.74 | 121 | 15.6 | 69.7x |",
        "| power law, 2M nodes | 8 | bfloat16 | 1.38 | 1.71 | 2.001 | 5.74 |  |  |  |",
    ]


def test_fits_are_compared_by_the_faster_ones(tmp_path):
    found = {
        "fit cora": {"torch s": [0.8, 0.5], "auto s": [0.6, 0.4]},
        "loss | uniform 48 | K=4 | float32": {},
    }
    (tmp_path / "gpu_losses.json").write_text(json.dumps(found))
    assert GPU_TABLES["gpu_fits"](tmp_path).splitlines()[2:] == ["| cora | 0.80, 0.50 | 0.60, 0.40 | 0.80 |"]


@pytest.mark.parametrize("table", ["gpu_losses", "gpu_fits"])
def test_what_is_not_measured_is_named(tmp_path, table):
    with pytest.raises(DataError, match=r"no gpu_losses\.json: python benchmarks/gpu_kernels\.py"):
        GPU_TABLES[table](tmp_path)
