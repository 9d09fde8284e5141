"""The progress bar of a training."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from softcut.cli.bars import TrainingBar
from softcut.clustering import MinCutClustering
from softcut.datasets import ring_graph


def draw(terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with (
        pytest.warns(UserWarning, match="may have no clusters"),
        TrainingBar(console) as bar,
    ):  # a ring has none
        MinCutClustering(2, n_init=2, max_iter=30, callbacks=[bar]).fit(ring_graph(20))
    return file.getvalue()


def test_a_terminal_shows_iterations_and_losses():
    shown = draw(terminal=True)
    assert "30/30" in shown
    assert "loss -" in shown
    assert "ortho 0." in shown


def test_a_file_shows_nothing():
    assert draw(terminal=False) == ""
