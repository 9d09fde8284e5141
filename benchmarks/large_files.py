"""Reading a large edge list block by block and at once: seconds, lines per second and peak memory, side by side.

Every reading is a process of its own, so that its peak of memory is its own. Writes ``results/large_files.json``.

    python benchmarks/large_files.py [--lines 10000000] [--kinds integers weights names] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("integers", "weights", "names", "parquet")
READERS = ("block by block", "at once")

# Runs in a process of its own: reads a file, says how long it took and how much memory it needed.
_CHILD = """
import json, resource, sys, time
from softcut.io import read_graph, readers
if sys.argv[2] == "at once":
    readers.PLAIN_BYTES = 1 << 60
import pyarrow.csv, pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
graph = read_graph(sys.argv[1])
print(json.dumps({
    "seconds": round(time.perf_counter() - began, 2),
    "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    "before_mib": round(before / 1024),
    "graph": repr(graph),
    "edges": graph.num_edges,
    "sum": int(graph.adjacency.indices.sum(dtype="int64")),
}))
"""


def write(path: Path, kind: str, lines: int) -> None:
    """A random edge list with about ten edges per node."""
    rng = np.random.default_rng(0)
    nodes = max(2, lines // 10)
    if kind == "parquet":
        import pandas as pd

        pair = rng.integers(0, nodes, (2, lines))
        pd.DataFrame({"source": pair[0], "target": pair[1]}).to_parquet(path)
        return
    with open(path, "w") as stream:
        for begin in range(0, lines, 1 << 18):
            pairs = rng.integers(0, nodes, (min(1 << 18, lines - begin), 2)).tolist()
            if kind == "names":
                stream.write("".join(f"user{u},user{v}\n" for u, v in pairs))
            elif kind == "weights":
                stream.write("".join(f"{u}\t{v}\t{(u + v) % 97 / 8}\n" for u, v in pairs))
            else:
                stream.write("".join(f"{u} {v}\n" for u, v in pairs))


def measure(file: Path, reader: str, lines: int) -> dict[str, Any]:
    """One reading."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CHILD, str(file), reader],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    measured = json.loads(done.stdout)
    return {**measured, "lines_per_second": round(lines / measured["seconds"])}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folder", help="where the files are made; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=ROOT / "results/large_files.json")
    arguments = parser.parse_args()

    from softcut.files import atomic_json
    from softcut.provenance import origin

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for kind in arguments.kinds:
            file = Path(folder, f"{kind}.{'parquet' if kind == 'parquet' else 'txt'}")
            write(file, kind, arguments.lines)
            size = file.stat().st_size
            began = time.perf_counter()
            with open(file, "rb") as stream:
                while stream.read(1 << 24):
                    pass
            plain = time.perf_counter() - began
            for reader in READERS if kind != "parquet" else READERS[:1]:
                row = {"kind": kind, "reader": reader, "lines": arguments.lines, "bytes": size}
                row |= measure(file, reader, arguments.lines) | {"seconds_to_read_bytes": round(plain, 3)}
                row |= origin()
                rows.append(row)
                print(
                    f"{kind:9s} {reader:15s} {row['seconds']:8.1f} s {row['lines_per_second'] / 1e6:6.2f} M lines/s "
                    f"{row['peak_mib']:6d} MiB",
                    flush=True,
                )
            file.unlink()
            sums = {(row["graph"], row["sum"]) for row in rows if row["kind"] == kind}
            if len(sums) > 1:
                raise SystemExit(f"the two readers disagree on {kind}: {sums}")
    atomic_json(arguments.out, {"runs": rows})


if __name__ == "__main__":
    main()
