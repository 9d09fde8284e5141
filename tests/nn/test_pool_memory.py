"""A training step on 64 graphs with DD's sizes (up to 5,748 nodes) stays far below 4 GiB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "pooling.py"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "pool",
    ["diffpool", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mincut", "topk", "sagpool"))],
)
def test_a_batch_of_dd_sized_graphs(pool: str) -> None:
    command = [sys.executable, str(BENCHMARK), "one", "memory", "softcut", pool, "64"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["graphs"] == 64
    assert result["largest"] > 5700
    assert result["process_gib"] < 4  # the whole process, libraries included
