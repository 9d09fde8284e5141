"""The environment of the benchmarks: softcut and the peers it is measured against, at fixed versions."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-bench"


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes
    ----------
    name, version : str
        As on the package index.
    module : str
        What is imported from it.
    steps : tuple of tuple of str
        Arguments of `pip install`, one tuple for each call.
    slow : bool
        Built from source: minutes.
    """

    name: str
    version: str
    module: str
    steps: tuple[tuple[str, ...], ...]
    slow: bool = False


def _plain(name: str, version: str, module: str) -> Peer:
    return Peer(name, version, module, ((f"{name}=={version}",),))


PEERS = (
    _plain("torch-geometric", "2.8.1", "torch_geometric.nn"),
    _plain("scikit-learn", "1.9.1", "sklearn.cluster"),
    _plain("scikit-network", "0.33.5", "sknetwork.clustering"),
    Peer(
        "torch-geometric-pool",
        "1.0.2",
        "tgp.poolers",
        # torch_scatter is built against the torch that is installed.
        (
            ("wheel==0.48.0",),
            ("--no-build-isolation", "torch_scatter==2.1.2"),
            ("--no-deps", "torch-geometric-pool==1.0.2"),
        ),
        slow=True,
    ),
    # For torch-geometric-pool's Graclus (benchmarks/pooling.py).
    Peer(
        "torch_cluster",
        "1.6.3",
        "torch_cluster",
        (("--no-build-isolation", "torch_cluster==1.6.3"),),
        slow=True,
    ),
    Peer(
        "pyagc",
        "1.1.2",
        "pyagc.models",
        # Without their dependencies, which name torch again; what they import is listed instead.
        (
            ("pyyaml==6.0.3", "psutil==7.2.2", "tqdm==4.70.1", "pandas==3.1.1", "pyarrow==26.0.1"),
            ("pillow==13.0.0", "outdated==0.2.2", "six==1.17.0", "urllib3==2.8.0"),
            ("--no-deps", "pytorch-frame==0.3.0", "ogb==1.3.6", "pyagc==1.1.2"),
        ),
    ),
)


def python() -> str:
    """The interpreter of the environment."""
    return str(FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def works(module: str) -> str | None:
    """None when the environment can import `module`, else the last line of the error."""
    done = subprocess.run([python(), "-c", f"import {module}"], capture_output=True, text=True, cwd=FOLDER)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def _pip(*arguments: str) -> str | None:
    """None, or why `pip install` failed."""
    command = [python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", str(ROOT / "constraints.txt"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    return (errors or done.stderr.splitlines() or ["pip failed"])[-1].strip()


def prepare(*, slow: bool = True) -> dict[str, str | None]:
    """Make the environment where it is missing; for each peer None, or why it is not there.

    Parameters
    ----------
    slow : bool
        Whether peers that take minutes to build are built when they are missing.
    """
    if not Path(python()).exists():
        print(f"Making {FOLDER.name} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    if works("torch, softcut, numba") is not None:
        print("Installing torch and softcut ...", flush=True)
        # torch first and by its exact version: on Linux a looser requirement may choose a build for GPUs.
        for arguments in (
            ["torch==2.13.0"],
            ["setuptools"],
            ["--no-build-isolation", "--editable", "."],
        ):
            problem = _pip(*arguments)
            if problem is not None:
                raise SystemExit(f"softcut could not be installed into {FOLDER.name}: {problem}")
    problems: dict[str, str | None] = {}
    for peer in PEERS:
        problem = works(peer.module)
        if problem is not None and peer.slow and not slow:
            problem = "left out by --quick: it is built from source"
        elif problem is not None:
            print(f"Installing {peer.name} {peer.version}{' (minutes)' if peer.slow else ''} ...", flush=True)
            for step in peer.steps:
                problem = _pip(*step)
                if problem is not None:
                    break
            else:
                problem = works(peer.module)
        problems[peer.name] = problem
    return problems
