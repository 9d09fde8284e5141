"""The progress bar of a training."""

from __future__ import annotations

import io

from rich.console import Console

from softcut.clustering import MinCutClustering
from softcut.datasets import ring_graph
from softcut.report.progress import TrainingBar


def draw(terminal):
    file = io.StringIO()
    with TrainingBar(Console(file=file, force_terminal=terminal, width=100)) as bar:
        MinCutClustering(2, n_init=2, max_iter=30, callbacks=[bar]).fit(ring_graph(20))
    return file.getvalue()


def test_a_terminal_shows_iterations_and_losses():
    shown = draw(terminal=True)
    assert "30/30" in shown
    assert "cut -" in shown


def test_a_file_shows_nothing():
    assert draw(terminal=False) == ""
