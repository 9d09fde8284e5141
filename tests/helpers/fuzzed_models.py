"""Model files with a right digest and wrong content, or with wrong bytes; run as a module, it loads and uses them.

A process of its own, so that the peak of its memory is the peak of loading.
"""

import copy
import json
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from helpers.fuzzed_files import BYTES, SECONDS, damaged

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.errors import SoftcutError
from softcut.graph import Graph
from softcut.io import read_model, write_model

VALUES = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        3,
        7,
        1.5,
        -0.0,
        1e-300,
        1e308,
        10**6,
        10**9,
        2**31,
        2**63,
        10**18,
        10**400,
    ),
    *(
        "",
        "x",
        "auto",
        "cpu",
        "meta",
        "cuda:7",
        "mincut",
        "random",
        "topk",
        "dense",
        "diffpool",
        "learned",
        "placed",
    ),
    *(
        [],
        {},
        [0],
        [1, 2],
        [10**9] * 2,
        [[]] * 1000,
        {"k": 10**9},
        {"hidden": 10**9},
        "a" * 10**5,
        list(range(999)),
    ),
]
TYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool, torch.complex64]


def models() -> list[tuple[Any, Any]]:
    """Fitted models of both kinds, and what they can predict."""
    graph = attributed_communities(n_nodes=60, n_clusters=2, n_features=30, edge_signal=0.9, seed=0)
    rng = np.random.default_rng(0)
    bare = sc.Graph.from_scipy(graph.adjacency, node_names=[f"n{i}" for i in range(60)])
    measured = bare.with_features(rng.normal(size=(60, 4)), ["a", "b", "c", "d"])
    options = {"n_init": 3, "max_iter": 4}
    fitted: list[tuple[Any, Any]] = [
        (sc.GraphClustering(3, **options), graph),
        (sc.GraphClustering(3, batch_size=20, **options), measured),
        (sc.GraphClustering(3, **options), [graph, graph]),
        (sc.GraphClustering(3), bare),
        (sc.MinCutClustering(3, **options), graph),
    ]
    made = [(model.fit(data), data) for model, data in fitted]
    nodes = np.arange(6)
    ring, star = np.stack([nodes, (nodes + 1) % 6]), np.stack([0 * nodes[1:], nodes[1:]])
    graphs = [Graph.from_edges((ring, star)[i % 2]) for i in range(12)]
    named = [each.with_features(rng.normal(size=(6, 2)), ["a", "b"]) for each in graphs]
    for pool in ("mincut", "diffpool", "topk", "random", "ndp"):
        for data, features in ((graphs, "auto"), (named, "both")):
            model = sc.GraphClassification(
                "paper", pool=pool, n_init=2, hidden=4, max_iter=1, features=features
            )
            made.append((model.fit(data, [0, 1] * 6), data))
    return made


def pick(rng: np.random.Generator, values: Any) -> Any:
    values = list(values)
    return values[int(rng.integers(len(values)))]


def changed(meta: dict[str, Any], rng: np.random.Generator) -> None:
    """One field, at any depth, is another value, gone, new, or the value of another field."""
    place: Any = meta
    key = pick(rng, place)
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
        place = place[key]
        key = pick(rng, place) if isinstance(place, dict) else int(rng.integers(len(place)))
    kind = rng.random()
    if kind < 0.7:
        place[key] = copy.deepcopy(pick(rng, VALUES))
    elif kind < 0.8:
        del place[key]
    elif kind < 0.9 and isinstance(place, dict):
        place["more"] = pick(rng, VALUES)
    else:
        place[key] = copy.deepcopy(meta[pick(rng, meta)])


def reshaped(tensors: dict[str, torch.Tensor], rng: np.random.Generator) -> None:
    """One tensor has another type, shape or values, is gone or has another name."""
    name = pick(rng, tensors)
    tensor = tensors.pop(name)
    kind = int(rng.integers(7))
    if kind == 0:
        tensors[name] = tensor.to(pick(rng, TYPES))
    elif kind == 1:
        tensors[name] = tensor.unsqueeze(int(rng.integers(tensor.dim() + 1)))
    elif kind == 2:
        tensors[name] = torch.cat([tensor.reshape(-1)] * int(rng.integers(0, 3)) + [torch.zeros(1)])
    elif kind == 3:
        tensors[name] = torch.full_like(tensor, pick(rng, [0, 1, 100]))
    elif kind == 4:
        tensors[name] = tensor.float() * pick(rng, [np.nan, np.inf, -1.0, 1e38, 1e-38])
    elif kind == 5:
        tensors[pick(rng, ["more", name + ".0", *tensors])] = tensor


def main(seed: int, count: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    rng, made = np.random.default_rng(seed), models()
    wrong, slowest, said = [], 0.0, {"refused": 0, "same": 0, "other": 0}

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, too_long)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        for i in range(count):
            model, data = made[i % len(made)]
            tensors, meta = read_model(model.save(path))
            if i // len(made) % 4 == 0:
                path.write_bytes(damaged(path.read_bytes(), rng))
            else:
                for _ in range(int(rng.integers(1, 3))):
                    (changed(meta, rng) if rng.random() < 0.7 else reshaped(tensors, rng))
                path.unlink()
                try:
                    write_model(path, tensors, meta)
                except SoftcutError:  # a field that names the format
                    said["refused"] += 1
                    continue
            before = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                again = np.atleast_2d(type(model).load(path).predict(data))
                same = np.array_equal(again, np.atleast_2d(model.predict(data)))
                said["same" if same else "other"] += 1
            except SoftcutError as error:
                said["refused"] += 1
                if "\n" in str(error):
                    wrong.append(f"{i}: a message of several lines: {error}")
            except BaseException as error:
                wrong.append(f"{i}: {type(model).__name__}: {type(error).__name__}: {error}")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            slowest = max(slowest, time.perf_counter() - before)
            path.unlink(missing_ok=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - start
    if peak > BYTES:
        wrong.append(f"{peak / 2**20:.0f} MiB of memory")
    return {"models": count, "bytes": peak, "seconds": round(slowest, 2), "wrong": wrong, **said}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
