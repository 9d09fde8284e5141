"""Tables of large fits from files as benchmarks/large.py writes them."""

from __future__ import annotations

import json

import pytest
from softcut.paper.large_tables import growth, large_fits

from softcut.errors import DataError


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


def test_without_fits_the_command_is_named(tmp_path):
    with pytest.raises(DataError, match=r"benchmarks/large\.py"):
        large_fits(tmp_path)


def test_growth_is_fitted_where_a_step_takes_ten_times_the_least(tmp_path):
    rows = [{"edges": 10**i, "ms": ms, "extra bytes": 2**20 * 10**i, "gather ms": 10**i / 100}
            for i, ms in enumerate((1.0, 2.0, 20.0, 400.0))]  # fmt: skip
    write(tmp_path, "growth_cpu.json", rows=rows)
    lines = growth(tmp_path).splitlines()
    assert lines[2] == "| 1 | 1.00 | 1 | 0.01 |"
    assert lines[-1] == "| exponent | 1.301 | 1.000 | 1.000 |"  # 20 to 400 while the edges grow tenfold
