"""The command line called as a user calls it, in an empty folder."""

import gc
import re
import signal
import sys

import numpy as np
import pytest
from helpers.csv_files import write_csv
from PIL import Image

from softcut import cli
from softcut.datasets import attributed_communities


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["softcut", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        gc.unfreeze()  # a command that ends leaves everything to the end of its process
        signal.signal(signal.SIGINT, before)  # a command that was interrupted ends deaf to more of it
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def done(run):
    """Call a command that must succeed: (standard output, standard error)."""

    def call(*words):
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    return call


@pytest.fixture
def refused(run, tmp_path):
    """Call a command that must be refused: exit code 2, nothing printed or left behind; its one sentence."""

    def call(*words):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = run(*words)
        *others, sentence = err.splitlines()
        assert (code, out) == (2, ""), err
        assert sentence.startswith("softcut: ") and sentence.endswith((".", "?"))
        assert all(re.search(": edge list|: [0-9]+ molecule|^note: ", line) for line in others), err
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return sentence

    return call


@pytest.fixture
def ring(tmp_path):
    """A ring of thirty nodes, and the words that cluster it quickly."""
    (tmp_path / "ring.csv").write_text("".join(f"{i},{(i + 1) % 30}\n" for i in range(30)))
    return "cluster", "ring.csv", "-k", 2, "--n-init", 2, "--max-iter", 30, "--no-plot"


@pytest.fixture
def people(tmp_path):
    """An edge list with names, and features joined by name in another order."""
    graph = attributed_communities(n_nodes=120, n_clusters=3, n_features=30, edge_signal=0.9, seed=0)
    return graph, write_csv(graph, tmp_path / "people.csv", tmp_path / "words.csv", "node {:03d}")


@pytest.fixture
def photo(tmp_path):
    """Three noisy stripes of 40 x 90 pixels, and their numbers."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 30)[None].repeat(40, axis=0)
    colours = np.array([[200, 60, 60], [60, 180, 70], [60, 80, 200]])
    pixels = np.clip(colours[truth] + 45 * rng.standard_normal((40, 90, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return truth


@pytest.fixture
def shapes(tmp_path):
    """Writes a folder of rings and stars of 4 to 9 nodes, their nodes labelled at random; the classes."""

    def write(name, count, seed=0, labels=True, numbers=False):
        rng = np.random.default_rng(seed)
        edges, indicator, node_labels = [], [], []
        for number in range(count):
            n, first = int(rng.integers(4, 10)), len(indicator) + 1
            for i in range(n):
                other = (i + 1) % n if number % 2 == 0 else 0
                if other != i:
                    edges += [f"{first + i}, {first + other}", f"{first + other}, {first + i}"]
            indicator += [number + 1] * n
            node_labels += rng.integers(2, size=n).tolist()
        classes = [1 + number % 2 for number in range(count)]
        files = {"A": edges, "graph_indicator": indicator, "node_labels": node_labels}
        files |= {"graph_labels": classes} if labels else {}
        if numbers:  # the size of a graph, and its class with a sign
            sizes = np.bincount(indicator)[1:]
            files["graph_attributes"] = [f"{n}, {-0.5 * c}" for n, c in zip(sizes, classes, strict=True)]
        (tmp_path / name).mkdir()
        for kind, lines in files.items():
            (tmp_path / name / f"SHAPES_{kind}.txt").write_text("".join(f"{line}\n" for line in lines))
        return classes

    return write
