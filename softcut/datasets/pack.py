"""Data sets as compact files, to carry to another machine: ``python -m softcut.datasets.pack PROTEINS --out DIR``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from softcut.datasets.collections import (
    COLLECTIONS,
    find_collection,
    load_graphs,
    load_hierarchy,
    load_raw_graphs,
)
from softcut.datasets.qm9 import load_molecules, write_molecules
from softcut.datasets.raw_graphs import write_packed
from softcut.errors import SoftcutError
from softcut.learning.hierarchy import HIERARCHIES

MOLECULES = "QM9"


def pack(name: str, out: str | Path, root: str | Path | None = None) -> Path:
    """Write one data set as ``NAME.npz``; ``load_graphs(name, out)`` (QM9: ``load_molecules(out)``) reads it again."""
    if name.upper() == MOLECULES:
        return write_molecules(Path(out) / f"{MOLECULES}.npz", load_molecules(root))
    raw, _ = load_raw_graphs(name, root)
    return write_packed(Path(out) / f"{find_collection(name).info.name}.npz", raw)


def pack_hierarchy(method: str, name: str, out: str | Path, root: str | Path | None = None) -> Path:
    """Write the coarse graphs of a data set as ``NAME.METHOD.npz``."""
    graphs = load_graphs(name, root)
    return load_hierarchy(graphs, method, root).write(Path(out) / f"{graphs.name}.{method}.npz")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m softcut.datasets.pack", description=__doc__)
    parser.add_argument(
        "names", nargs="*", default=list(COLLECTIONS), help="data sets, QM9 too; all of table 2 by default"
    )
    parser.add_argument("--out", type=Path, default=Path("packed"), help="folder for the files")
    parser.add_argument("--data", default=None, help="folder to read from")
    parser.add_argument(
        "--coarse",
        action="store_true",
        help="also the coarse graphs for Graclus and NDP (needs numba, takes minutes)",
    )
    given = parser.parse_args(arguments)
    try:
        for name in given.names:
            writers: list[Callable[..., Path]] = [pack]
            if given.coarse and name.upper() != MOLECULES:
                writers += [partial(pack_hierarchy, method) for method in HIERARCHIES]
            for write in writers:
                start = time.perf_counter()
                path = write(name, given.out, given.data)
                seconds = time.perf_counter() - start
                print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {seconds:.1f} s", flush=True)
    except SoftcutError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
