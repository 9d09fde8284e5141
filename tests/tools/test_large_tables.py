"""Tables of large fits and of GPU kernels from files as the scripts of benchmarks/ write them."""

from __future__ import annotations

import json

import pytest

from softcut.errors import DataError
from tools.large_tables import LARGE_TABLES, growth_cpu, large_fits


def write(folder, name, **content):
    (folder / name).write_text(json.dumps(content))


def test_every_fit_of_every_file_is_a_row(tmp_path):
    common = {"nodes": 100_000, "edges": 999_660}
    done = {"seconds": 31.24, "cpu seconds": 48.3, "nmi": 0.9803, "peak GiB": 1.34, "replicas": 6}
    notes = ["6 networks instead of 24: 100,000 nodes, to stay within memory and time."]
    write(
        tmp_path,
        "large_cpu.json",
        device="2 cores",
        commit="abc",
        rows=[
            {"what": "softcut", **common, **done, "notes": notes},
            {"what": "softcut", **common, "failed": 1},
        ],
    )
    other = {"what": "softcut", **common, **done, "seconds": 2.5, "peak GPU GiB": 12.25}
    write(tmp_path, "large_gpu.json", device="a GPU", rows=[other])
    lines = large_fits(tmp_path).splitlines()
    assert (
        lines[2]
        == "| default fit | 100,000 | 999,660 | 2 cores | 31.2 | 48 | 1.3 | 0.980 | 6 | fewer networks | abc |"
    )
    assert lines[3] == "| default fit | 100,000 | 999,660 | a GPU | 2.5 | 48 | 12.2 | 0.980 | 6 |  | - |"
    assert len(lines) == 4, "what failed is no row"


def test_growth_is_fitted_where_a_step_takes_ten_times_the_least(tmp_path):
    rows = [{"edges": 10**i, "ms": ms, "extra bytes": 2**20 * 10**i, "gather ms": 10**i / 100}
            for i, ms in enumerate((1.0, 2.0, 20.0, 400.0))]  # fmt: skip
    write(tmp_path, "growth_cpu.json", rows=rows)
    lines = growth_cpu(tmp_path).splitlines()
    assert lines[2] == "| 1 | 1.00 | 1 | 0.01 |"
    assert lines[-1] == "| exponent | 1.301 | 1.000 | 1.000 |"  # 20 to 400 while the edges grow tenfold


def test_a_loss_from_python_and_replayed_with_and_without_a_peer(tmp_path):
    ours = {"ms": 1.729, "replayed ms": 1.708, "extra": 2.00103, "torch ms": 5.744}
    peer = {"peer ms": 120.6, "peer GiB": 15.62, "ratio": 69.74}
    found = {"machine": {"device": "a GPU"}, "loss | uniform 2000000 | K=16 | float32": ours | peer}
    found["loss | power law 2000000 | K=8 | bfloat16"] = {**ours, "ms": 1.379}
    (tmp_path / "gpu_losses.json").write_text(json.dumps(found))
    titles, _, *rows = LARGE_TABLES["gpu_losses"](tmp_path).splitlines()
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
    assert LARGE_TABLES["gpu_fits"](tmp_path).splitlines()[2:] == [
        "| cora | 0.80, 0.50 | 0.60, 0.40 | 0.80 |"
    ]


@pytest.mark.parametrize(
    ("table", "script"), [("gpu_losses", "gpu_kernels"), ("gpu_fits", "gpu_kernels"), ("large_fits", "large")]
)
def test_what_is_not_measured_is_named_with_its_command(tmp_path, table, script):
    with pytest.raises(DataError, match=rf"results/ holds no .*: python benchmarks/{script}\.py"):
        LARGE_TABLES[table](tmp_path)
