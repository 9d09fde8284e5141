"""Reports in a browser: they render without complaints, and the graph reacts to hover, filter and keys."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from softcut.clustering import GraphClustering, Replica
from softcut.datasets import attributed_communities
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.metrics.predictions import class_scores
from softcut.paper.report_sections import statistics_section, table1_section, view_sections
from softcut.report.html_clustering import clustering_page
from softcut.report.html_learning import classification_page
from softcut.report.html_page import render_page

RESULTS = Path(__file__).resolve().parents[2] / "results"
EVIL = "<img src=x onerror=window.pwned=1>"


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> str:
    graph = attributed_communities(80, 3, n_features=30, feature_signal=0.8, seed=0)
    names = [f"{EVIL}{i}" for i in range(80)]
    words = [f"{EVIL}{j}" for j in range(30)]
    parts = {"node_names": names, "feature_names": words, "name": EVIL}
    graph, classes = Graph.from_scipy(graph.adjacency, x=graph.x, **parts), graph.y
    soft = 0.6 * np.eye(3)[classes] + 0.4 * np.random.default_rng(0).dirichlet(np.ones(3), 80)
    replicas = [Replica(i, "evidence", -1.0, 0.1, float(i), 3, False, hops=i) for i in range(3)]
    history = {"cut": -np.random.default_rng(1).random((9, 3)), "ortho": np.ones((9, 3))}
    compared = {"score": 1.0, "structure": 2.0, "agreement": 0.5, "description_length": -62_534.0}
    metrics = {
        **{
            "graph": EVIL,
            "n_clusters": 3,
            "notes": [EVIL],
            "candidates": {str(k): compared for k in (2, 3, 4)},
        },
        **evaluate(graph, soft.argmax(1)),
    }
    path = tmp_path_factory.mktemp("own") / "report.html"
    more = {"history": history, "replicas": replicas, "command": EVIL}
    path.write_text(clustering_page(graph, soft, metrics, **more), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> str:
    sections = [table1_section(RESULTS), *view_sections(RESULTS), statistics_section()]
    path = tmp_path_factory.mktemp("whole") / "report.html"
    path.write_text(render_page("Report", sections), encoding="utf-8")
    return path.as_uri()


def scroll(page) -> None:
    """Down to the end, so that every view is drawn."""
    page.evaluate("""async () => {
        for (let y = 0; y < document.body.scrollHeight; y += 500) {
            window.scrollTo(0, y);
            await new Promise((wake) => requestAnimationFrame(() => requestAnimationFrame(wake)));
        }
    }""")


def test_every_view_is_drawn_and_fits_a_phone(open_page, whole):
    for width, scheme in ((390, "dark"), (1200, "light")):
        page = open_page(whole, viewport={"width": width, "height": 800}, color_scheme=scheme)
        scroll(page)
        views = page.locator("[data-view]").count()
        assert views == 10
        page.wait_for_function(f"document.querySelectorAll('[data-view].view').length === {views}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert dark == (scheme == "dark")


def test_the_graph_reacts(open_page, own):
    page = open_page(own)
    page.locator("[data-view=graph]").scroll_into_view_if_needed()
    canvas, status = page.locator("[data-view=graph] canvas"), page.locator("[data-view=graph] .status")
    canvas.wait_for()
    ask = "document.querySelector('[data-view=graph]').graphView"
    x, y = page.evaluate(f"{ask}.place(5)")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert EVIL in status.text_content()
    assert "probability" in status.text_content()
    assert page.evaluate(f"{ask}.shown()") == 80
    chip = page.get_by_role("button", name="Cluster 1,")
    size = int(chip.text_content().split(":")[1])
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.evaluate(f"{ask}.shown()") == 80 - size
    page.get_by_role("button", name="Show all clusters").click()
    assert page.evaluate(f"{ask}.shown()") == 80
    canvas.focus()
    page.keyboard.press("+")
    assert page.evaluate(f"{ask}.zoom()") > 1
    page.keyboard.press("0")
    assert page.evaluate(f"{ask}.zoom()") == 1
    find = page.get_by_label("Find a node by name")
    find.fill(f"{EVIL}17")
    find.press("Enter")
    assert status.text_content().startswith(f"{EVIL}17: cluster ")
    assert not page.evaluate("window.pwned")


def test_the_graph_takes_the_colours_of_another_level(open_page, tmp_path):
    est = GraphClustering().fit(nx.les_miserables_graph())
    est.report(tmp_path / "levels.html")
    page = open_page((tmp_path / "levels.html").as_uri())
    page.locator("[data-view=graph]").scroll_into_view_if_needed()
    chips = page.get_by_role("button", name="Cluster ")
    choice = page.get_by_label("Level of the clusters")
    assert choice.input_value() == str(est.level_)
    for level in (0, len(est.levels_.labels) - 1, est.level_):
        choice.select_option(str(level))
        assert chips.count() == len(est.summary(level=level))
    chips.first.click()
    shown = page.evaluate("document.querySelector('[data-view=graph]').graphView.shown()")
    assert shown == est._graph.num_nodes - len(est.labels_[est.labels_ == 0])
    page.locator("#levels details").first.click()
    assert page.locator("#levels details table").first.is_visible()


def test_charts_answer_the_keyboard_and_the_mouse(open_page, own):
    page = open_page(own)
    scroll(page)
    page.locator("#training [data-view=curves] svg[role=img]").first.focus()
    page.keyboard.press("ArrowRight")
    assert "iteration 1:" in page.locator("#training [data-view=curves] .status").text_content()
    page.locator("[data-view=groups] circle").first.focus()
    assert "Cluster 0:" in page.locator("[data-view=groups] .status").text_content()
    page.locator("[data-view=heat] canvas").hover()
    assert ": cluster 1, 0." in page.locator("[data-view=heat] .status").text_content()


def test_the_summary_fits_a_phone_and_wide_tables_say_that_they_scroll(open_page, own):
    page = open_page(own, viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    summary = page.locator("#summary .box.stacked")
    assert summary.evaluate("box => box.scrollWidth <= box.clientWidth")
    for column in ("differs by", "typical", "doubtful", "bridges"):  # names are text
        assert any(
            "<img src=x" in text for text in summary.locator(f"td[data-title='{column}']").all_text_contents()
        )
    assert page.locator("#summary .hint").is_hidden()
    hint = page.locator("#the-number-of-clusters .hint")
    assert hint.is_visible() and "scroll" in hint.text_content()
    wide = open_page(own, viewport={"width": 1280, "height": 800})
    assert wide.locator("#the-number-of-clusters .hint").is_hidden()
    assert not page.evaluate("window.pwned") and page.locator("img").count() == 0


def test_the_curve_over_the_numbers_of_clusters(open_page, own):
    page = open_page(own)
    scroll(page)
    view = page.locator("#the-number-of-clusters [data-view=curves]")
    assert view.locator("svg[role=img]").count() == 3
    assert view.locator("line.mark").count() == 3
    labels = view.locator("svg[role=img]").first.locator("text[text-anchor=middle]").all_text_contents()
    assert labels == ["2", "3", "4", "number of clusters"]  # whole numbers only


def test_all_charts_are_on_paper_and_light(open_page, own):
    page = open_page(own, color_scheme="dark", viewport={"width": 800, "height": 300})
    views = page.locator("[data-view]").count()
    assert page.locator("[data-view].view").count() < views  # those far below are not drawn yet
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("[data-view].view").count() == views
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    assert page.evaluate(ink) == "#1b1f24"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ink) == "#e6e9ed"
    assert len(page.pdf()) > 20_000


def test_the_points_of_a_calibration_are_named(open_page, tmp_path):
    rng = np.random.default_rng(0)
    truth, chances = rng.integers(2, size=50), rng.dirichlet(np.ones(2), 50)
    facts = {"name": EVIL, "softcut": "1", "graphs": 50, "nodes": 9, "edges": 9, "seconds": 1.0}
    metrics = {**facts, "classes": [EVIL, "b"], "scored_on": "", **class_scores(truth, chances, 0)}
    graphs = {"graph": [EVIL] * 50, "nodes": [1] * 50, "edges": [1] * 50}
    path = tmp_path / "report.html"
    path.write_text(classification_page(metrics, graphs, truth, chances), encoding="utf-8")
    for width in (390, 1200):
        page = open_page(path.as_uri(), viewport={"width": width, "height": 800})
        view = page.locator("[data-view=points]")
        view.scroll_into_view_if_needed()
        view.locator("svg").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        view.locator("svg").focus()
        page.keyboard.press("ArrowRight")
        assert "0.5 to 0.6: probability of the predicted class 0." in view.locator(".status").inner_text()
        view.locator("circle.disc").last.hover()
        assert "0.9 to 1.0: probability" in view.locator(".status").inner_text()
    assert not page.evaluate("window.pwned")
