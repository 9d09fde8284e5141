"""The demo."""

import numpy as np
import pytest

from softcut.datasets import attributed_communities
from softcut.report import demo


@pytest.mark.parametrize(("nodes", "height"), [(60, 1), (400, 3)])
def test_every_method_has_a_legend_and_large_graphs_more_panels(tmp_path, monkeypatch, nodes, height):
    graph = attributed_communities(nodes, 2, seed=0)
    by_method = {"other": 1 - graph.y, "softcut (default)": graph.y}  # matched: the same numbers
    kept = []
    monkeypatch.setattr(demo, "save_figure", lambda fig, path: kept.append(fig))
    demo.draw_methods(tmp_path / "a.png", graph, by_method, [{"k": 2, "normalised_cut": 0.5, "nmi": 1.0}] * 2)
    assert len(kept[0].axes) == 2 * height
    assert [ax.get_title() for ax in kept[0].axes[:2]] == [f"{m}\ncut 0.50, NMI 1.00" for m in by_method]
    sizes = np.bincount(graph.y)
    for ax in kept[0].axes[-2:]:
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert [text.split(",")[0] for text in said] == [f"{i}: {size} nodes" for i, size in enumerate(sizes)]


def test_labels_that_match_get_the_same_number():
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 5, 200)
    renamed = np.array([3, 9, 0, 7, 1])[reference]
    np.testing.assert_array_equal(demo.numbered_like(renamed, reference), reference)
    split = np.where(np.arange(200) < 150, renamed, 20)  # one more cluster than the reference
    again = demo.numbered_like(split, reference)
    assert len(np.unique(again)) == 6
    assert (again == reference)[:150].all()
