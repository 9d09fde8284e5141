"""Pages: everything inside one file, everything from outside escaped; the page of one clustering and its views."""

import base64
import hashlib
import io
import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.kept import check_kept
from helpers.refusals import refuses
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from softcut.clustering import GraphClustering, Replica
from softcut.colours import cluster_colours
from softcut.datasets import attributed_communities, grid_graph
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.metrics.summary import VERDICTS, summarise
from softcut.report import html_clustering
from softcut.report.clustering_files import clustered_part, clustering_metrics, write_segments
from softcut.report.html_clustering import (
    assignment_view,
    cluster_view,
    clustering_page,
    graph_view,
    loss_view,
    shown_nodes,
)
from softcut.report.html_page import (
    Details,
    Drawings,
    Key,
    Missing,
    Picture,
    Section,
    Text,
    View,
    picture_of,
    plain,
    render_page,
)
from softcut.report.html_summary import number_parts, score_table, summary_table, uncertain_table
from softcut.report.tables import Cell, Table, cell_table, number_table, pivot, to_markdown, to_terminal

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"


def test_text_from_outside_is_never_markup():
    parts = [
        Table([EVIL], [[EVIL], [Cell(EVIL, below=EVIL, title=EVIL)]], EVIL, heads=0),
        Text(EVIL),
        View("graph", {"names": [EVIL]}, EVIL),
        Missing(EVIL, EVIL),
        Details(EVIL, [Text(EVIL)]),
        Key([("better", EVIL, EVIL)]),
        Drawings([(EVIL, EVIL)]),
    ]
    section = Section(EVIL, parts)
    page = render_page(EVIL, [section], EVIL)
    assert "<img" not in page
    assert page.count("<script") == 2  # the data of the view, and the page's own script
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == {"names": [EVIL]}
    for made in (section, Picture("", ""), parts[0].rows[1][0], *parts):  # nothing of it changes afterwards
        with pytest.raises(FrozenInstanceError):
            made.caption = ""


def test_a_page_is_complete_and_only_its_own_script_may_run():
    page = render_page("One", [Section("Two", [View("heat", {"k": 1})])])
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page


def test_a_table_of_markdown_scrolls_in_its_box():
    html = Text("| a | b |\n|---|---|\n| 1 | **2** |").html
    assert html.startswith('<div class="box plain" tabindex="0"')
    assert "<b>2</b>" in html


def test_one_table_in_three_forms():
    best = Cell("0.390", kind="worse", strong=True, paper="0.450", test="p < 0.001", note="3 folds")
    table = Table(["data", "NMI"], [["cora", best], ["[red]", Cell("-")]], "A [caption]", notes=["A note."])
    rows = "| cora | **0.390** (0.450), 3 folds |\n| [red] | - |"
    assert to_markdown(table) == f"| data | NMI |\n|---|---|\n{rows}\n\nA note."
    page = render_page("One", [Section("Two", [table])])
    assert '<th scope="row">cora</th>' in page
    assert '<td class="number worse"><b>0.390 ▼</b><small>paper 0.450, p &lt; 0.001</small></td>' in page
    assert '<th scope="col">data</th><th scope="col" class="number">NMI</th>' in page
    assert 'tabindex="0" role="region" aria-label="A [caption]"' in page  # scrolls, also by keyboard
    console = Console(file=io.StringIO(), width=100)
    console.print(to_terminal(table))
    title, _, columns, _, first, second, _ = console.file.getvalue().splitlines()
    assert title.strip() == "A [caption]"  # no markup of rich
    assert columns.split() == ["┃", "data", "┃", "NMI", "┃"]
    assert first == "│ cora  │ 0.390 (0.450), 3 folds │"
    assert second == "│ [red] │                      - │"


def test_recorded_cells_one_below_the_other_and_by_data_set():
    shared = {"metric": "nmi", "std": 0.01, "n": 10, "paper_mean": None, "paper_std": None, "seconds": 2.0}
    means = {("cora", "sc"): 0.2, ("cora", "mincut"): 0.4, ("pubmed", "sc"): 0.3}
    cells = [{"dataset": d, "method": m, "mean": mean, **shared} for (d, m), mean in means.items()]
    assert to_markdown(pivot(cells)).splitlines() == [
        *("| method | cora | pubmed |", "|---|---|---|"),
        "| sc | 0.200 ± 0.010 | **0.300 ± 0.010** |",
        "| mincut | **0.400 ± 0.010** | - |",
    ]
    told = {**cells[0], "note": "a fresh draw", "paper_mean": 0.25, "paper_std": 0.04}
    assert to_markdown(cell_table([told, told], digits=1)).splitlines()[2:] == [
        *["| cora | sc | nmi | 0.2 ± 0.0 | 10 | 0.2 ± 0.0 | 2.0 |"] * 2,
        *("", "cora is a fresh draw."),
    ]
    table = cell_table([told])
    assert table.heads == 3 and "0.200 ± 0.010 | 10 | 0.250 ± 0.040" in to_markdown(table)
    row = number_table(["a"] * 7, [["x", 1234567, 0.123456, 62_534.5, None, True, False]]).rows[0]
    shown = [cell if isinstance(cell, str) else cell.text for cell in row]
    assert shown == ["x", "1,234,567", "0.1235", "62,530", "-", "yes", "no"]


def test_plain_has_only_what_json_has():
    value = {"a": np.array([[1.5, np.inf]]), 2: [np.float32(0.5), (np.nan, True, None)]}
    assert plain(value) == {"a": [[1.5, None]], "2": [0.5, [None, True, None]]}
    json.dumps(plain(value), allow_nan=False)


@pytest.mark.parametrize("width", [300, 900])
def test_pictures_are_made_small(tmp_path, width):
    noise = np.random.default_rng(0).integers(0, 255, (width // 6, width, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    source = picture_of(tmp_path / "a.png", "noise", most_bytes=50_000).source
    data = base64.b64decode(source.partition(",")[2])
    assert len(data) <= 50_000
    assert source.startswith("data:image/png" if width == 300 else "data:image/jpeg")
    with Image.open(io.BytesIO(data)) as image:
        assert image.width <= min(width, 1500)
        assert image.width / image.height == pytest.approx(6, rel=0.02)


def test_a_picture_is_as_wide_as_its_bytes_allow(tmp_path):
    def inlined(shape, most):
        noise = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "a.png")
        source = picture_of(tmp_path / "a.png", "noise", most_bytes=most).source
        return base64.b64decode(source.partition(",")[2])

    data, widths = inlined((10, 1600), 10**6), []
    assert len(Image.open(io.BytesIO(data)).getcolors()) == 128
    for _ in range(9):  # one byte less each time than it takes
        assert inlined((10, 1600), len(data)) == data
        widths.append(Image.open(io.BytesIO(data)).width)
        data = inlined((10, 1600), len(data) - 1)
    assert list(dict.fromkeys(widths)) == [1500, 1200, 900, 600, 300]
    assert Image.open(io.BytesIO(inlined((4000, 20), 0))).size == (15, 3000)  # ten times as high at most


@pytest.fixture(scope="module")
def case():
    graph = attributed_communities(90, 3, n_features=12, seed=0)
    return graph, np.random.default_rng(0).dirichlet(np.ones(3), 90)


def texts(table):
    return [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in table.rows]


def test_whole_pages(monkeypatch):
    rng = np.random.default_rng(0)
    n, places = 23, np.stack([np.arange(23) % 5, np.arange(23) // 5], axis=1)
    places[22] = 1000, 7  # far from all others
    monkeypatch.setattr(html_clustering, "node_positions", lambda *_: (places, "a layout"))
    first, second = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 1)).T
    x = np.round(rng.random((n, 13)), 2)
    x[:, 3], x[:, 5], x[:, 6] = 0.1, 1e-7 * x[:, 5], 1e9 + 0.1  # two are the same for all nodes
    names = ["a" * 60, "b" * 61, *(f"<script>alert({i})</script>" for i in range(2, n))]
    words = [f"</script><b>{j}" for j in range(13)]
    weights = 1.0 + first % 3
    graph = Graph.from_edges([first, second], edge_weight=weights, x=x, node_names=names, feature_names=words)
    soft = np.zeros((n, 5))  # the second cluster is empty, the last has one node
    soft[:, [0, 2, 3]] = rng.dirichlet(np.ones(3), n)
    soft[22] = [0, 0, 0, 0.25, 0.75]
    kinds = (("mincut", 16), ("evidence", 0), ("mincut", 16), ("evidence", 16), ("dmon", 0))
    replicas = [Replica(i, name, 0, 0, i / 7, 2, False, hops=hops) for i, (name, hops) in enumerate(kinds)]
    ortho = np.zeros((5, 5))
    ortho[:, 0] = ortho[:, 4] = 1.0  # evidence has no second term
    history = {"cut": np.arange(25.0).reshape(5, 5) / 3, "ortho": ortho}
    compared = {"score": 1.5, "structure": 2.0, "agreement": None, "description_length": -12345.678}
    metrics = {
        **{"graph": "<i>people", "n_clusters": 4, "verdict": "weak", "structure": 1.2345, "clusters_used": 4},
        **{"replicas": 5, "replicas_collapsed": 0, "converged": True},
        **{"notes": ["<u>"], "reading": ["first"]},
        **{"candidates": {"10": compared, "4": compared}, "seconds": {"fit": 2.25}, "softcut": "1.2.3"},
    }
    pages = [clustering_page(graph, soft, metrics, history=history, replicas=replicas, command="softcut <x>")]
    # Without names, features, networks and other clusters; then only a part of it is shown.
    bare = Graph.from_edges([first, second])
    about = {"graph": "bare", "verdict": "none", "n_clusters": 1}
    pages.append(clustering_page(bare, np.ones((n, 1)), about))
    monkeypatch.setattr(html_clustering, "_EDGES", 9)
    monkeypatch.setattr(html_clustering, "_COLUMNS", 15)
    monkeypatch.setattr(html_clustering, "shown_nodes", lambda labels: np.arange(0, n, 2))
    pages.append(clustering_page(bare, soft, {"graph": "part"}, history=history))
    bodies = (page.partition("<body>")[2].rpartition("<script>")[0] for page in pages)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|softcut 0[\w.]+", "now", "\n".join(bodies))
    assert not re.search(r"<(i|u|x|script>alert)\b|</script><b>", text)  # what comes from a user is text
    check_kept(Path(__file__).parent / "kept" / "pages.txt", text, atol=1e-6)


def test_views_keep_to_their_limits(monkeypatch):
    monkeypatch.setattr(
        html_clustering, "node_positions", lambda graph, _: (np.zeros((graph.num_nodes, 2)), "")
    )
    ring = np.arange(3000)
    around = [np.tile(ring, 5), np.concatenate([(ring + s) % 3000 for s in range(1, 6)])]
    more = [np.append(end, at) for end, at in zip(around, (0, 9), strict=True)]
    all_of_it, sampled = (graph_view(Graph.from_edges(edges), np.ones((3000, 1))) for edges in (around, more))
    assert [len(view.data["edges"]) // 2 for view in (all_of_it, sampled)] == [15_000, 15_000]
    assert (all_of_it.caption, sampled.caption) == ("", "15,000 of 15,001 edges between them are drawn.")
    assert all_of_it.data["index"] is None and set(all_of_it.data["x"]) == {0}
    assert len(graph_view(grid_graph(1, 3001), np.ones((3001, 1))).data["index"]) == 3000
    placed = {(100_000, 1): True, (100_001, 1): False, (100_001, 2): False}
    for shape, shown in placed.items():
        graph = Graph.from_edges([[0], [1]], x=np.zeros(shape))
        assert (graph_view(graph, np.ones((shape[0], 1))).data["x"] is not None) is shown
    heat = [assignment_view(grid_graph(1, n), np.ones((n, 1))).data["columns"] for n in (400, 401)]
    assert heat == [400, 400]
    replicas = [Replica(0, "mincut", 0, 0, 0, 2, False)]
    history = {"cut": np.ones((201, 1)), "ortho": np.zeros((201, 1))}
    x = loss_view(history, replicas).data["panels"][0]["series"][0]["x"]
    assert (len(x), x[0], x[-1]) == (200, 1, 201)
    discs = []
    for n, what in ((300, "a layout"), (301, "a layout"), (301, "coordinates")):
        places = np.eye(n)[:, :2], what
        monkeypatch.setattr(html_clustering, "node_positions", lambda *_, places=places: places)
        discs.append(graph_view(grid_graph(1, n), np.ones((n, 1))).data["start_with_discs"])
    assert discs == [False, True, False]


def test_small_tables_to_the_number():
    names = list("abcdefghi")
    graph = Graph.from_scipy(grid_graph(3, 3).adjacency, node_names=names)
    labels = np.arange(9) // 5
    table = summary_table(summarise(graph, labels))
    assert texts(table) == [
        ["0", "5", "71 %", "b, a, d, e, c", "to 1: 29 % of its edges (most from e)"],
        ["1", "4", "60 %", "i, h, g, f", "to 0: 40 % of its edges (most from f)"],
    ]
    # Neither features nor doubts: no columns of theirs.
    assert table.columns == ["cluster", "nodes", "edges inside", "typical", "bridges"]
    below = [[cell.below for cell in row[1:3]] for row in table.rows]
    assert below == [["56 %", "58 % by chance"], ["44 %", "42 % by chance"]]
    assert [row[0].swatch for row in table.rows] == cluster_colours(2)
    assert f'style="background:{cluster_colours(2)[1]}"' in render_page("One", [Section("Two", [table])])
    soft = np.array([[0.9, 0.1, 0.0], [0.2, 0.35, 0.45], [0.5, 0.5, 0.0]])
    table = uncertain_table(Graph.from_edges([[0, 1], [1, 2]], node_names=["x", "y", "z"]), soft)
    assert texts(table) == [
        ["z", "0", "0.50", "1", "0.50"],
        ["y", "2", "0.45", "1", "0.35"],
        ["x", "0", "0.90", "1", "0.10"],
    ]
    assert [cell.swatch for cell in table.rows[1][1::2]] == [cluster_colours(3)[2], cluster_colours(3)[1]]
    assert "one cluster" in uncertain_table(graph, np.ones((9, 1))).markdown
    assert len(uncertain_table(graph, np.eye(2)[labels]).rows) == 9
    alone = Graph.from_scipy(sp.csr_array((4, 4)), x=np.eye(4))
    assert texts(summary_table(summarise(alone, [0, 0, 1, 1])))[0][2] == "no edges"


def test_the_numbers_of_clusters_that_were_compared_are_curves():
    found = {"score": 1.5, "structure": 2.0, "agreement": 0.9, "description_length": -62_534.0}
    candidates = {"2": found, "10": dict.fromkeys(found, 0.0), "3": {**found, "score": 1.0}}
    view, table = number_parts({"candidates": candidates, "n_clusters": 2})
    assert [panel["title"] for panel in view.data["panels"]] == [
        "score",
        "structure",
        "agreement of restarts",
    ]
    (series,) = view.data["panels"][0]["series"]
    assert (series["x"], series["y"]) == ([2, 3, 10], [1.5, 1.0, None])  # nothing is known about 10
    assert all(panel["mark"] == 2 and panel["whole"] for panel in view.data["panels"])
    assert texts(table)[0] == ["2 (chosen)", "1.5", "2", "0.9", "-62,530"]
    assert texts(table)[2] == ["10", "-", "-", "-", "-"]
    # A single cluster was none of the numbers compared.
    assert number_parts({"candidates": candidates, "n_clusters": 1})[0].data["panels"][0]["mark"] is None
    assert number_parts({"candidates": {}, "n_clusters": 2}) == []


def test_what_was_found_comes_first_and_how_comes_last(case):
    graph, soft = case
    metrics = {
        **{"graph": "g", "n_clusters": 3, "verdict": "clear", "structure": 2.0, "replicas": 3, "iterations": 9},
        **{"converged": False, "notes": ["a note"], "reading": ["62 rows"]},
        "candidates": {str(k): dict.fromkeys(("score", "structure", "agreement", "description_length"), 1.0)
                       for k in (2, 3)},
    }  # fmt: skip
    replicas = [Replica(i, "evidence", -1.0, 0.1, float(i), 3, False, hops=i) for i in range(3)]
    history = {"cut": -np.ones((9, 3)), "ortho": np.ones((9, 3))}
    page = clustering_page(graph, soft, metrics, history=history, replicas=replicas, command="softcut x")
    body = page[page.index("<main") :]
    # Some of these clusters, which are made up, are no communities: the verdict can be about the graph only.
    assert "by chance: no community<" in body
    order = ["The graph has clear clusters. 90 nodes in 3 clusters.", ">edges inside<", 'data-view="graph"',
             'data-view="groups"', ">The number of clusters<", ">Doubtful nodes<", ">Soft assignments<",
             ">Scores<", ">Training<", ">Notes<", "a note", ">Where this comes from<"]  # fmt: skip
    places = [body.index(text) for text in order]
    assert places == sorted(places)
    assert "converged" not in page
    assert score_table({"structure": 62_534.0}).rows[0][1].text == "62,530"
    assert [len(score_table({"nodes_without_cluster": count}).rows) for count in (0, 1)] == [0, 1]


def test_names_from_a_users_file_are_shown_as_text(case):
    graph, soft = case
    evil = [f"<script>alert({i})</script>" for i in range(90)]
    words = [f"</script><b>{j}" for j in range(graph.num_features)]
    soft = np.eye(3)[graph.y] * 0.8 + soft * 0.2  # clusters that features tell apart, so that these are named
    made = Graph.from_scipy(graph.adjacency, x=graph.x, node_names=evil, feature_names=words, name="<i>x")
    metrics = {"graph": "<i>x", "notes": ["<u>note</u>"], **evaluate(made, soft.argmax(1))}
    page = clustering_page(made, soft, metrics, command="softcut <cluster>")
    for text in ("<script>alert", "<i>x", "<u>", "<b>0", "softcut <cluster>"):
        assert text not in page
    assert "&lt;script&gt;alert(" in page  # the table of uncertain nodes
    assert re.search(r"&lt;/script&gt;&lt;b&gt;\d+ \d+ % \(", page)  # what sets a cluster apart
    assert "\\u003cscript\\u003ealert(" in page  # the data of the view
    assert "Training" not in page  # there was none


def test_nodes_in_no_cluster_are_left_out_of_pages_unless_all_are(case):
    graph, soft = case
    for none in (0, 10, 90):
        part, own = clustered_part(graph, soft, np.where(np.arange(90) < none, -1, 0))
        assert part.num_nodes == len(own) == (80 if none == 10 else 90)


def test_a_picture_of_labels_holds_every_number(tmp_path):
    def segmented(count):
        labels, seen = np.array([[0, count - 1]]), np.zeros((1, 2, 3), np.uint8)
        return SimpleNamespace(n_segments=count, labels=labels, overlay=lambda: seen)

    for count, kind in ((256, "uint8"), (257, "uint16"), (2**16, "uint16")):
        write_segments(tmp_path, segmented(count))
        pixels = np.asarray(Image.open(tmp_path / "labels.png"))
        assert (pixels.tolist(), pixels.dtype.name) == ([[0, count - 1]], kind)
    refuses(ParameterError, "at most 65,536", write_segments, tmp_path, segmented(2**16 + 1))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_verdict_comes_first(case, verdict):
    metrics = {"graph": "g", "n_clusters": 3, "verdict": verdict, "structure": 1.2345, "clusters_used": 3}
    page = clustering_page(*case, metrics)
    sentences = {**VERDICTS, "clear": "The graph has clear clusters."}  # no clusters that keep their edges
    places = [page.index(text) for text in (sentences[verdict], "structure (nats", "clusters used")]
    assert places == sorted(places)
    assert "1.234" in page
    assert sum(sentence in page for sentence in {*VERDICTS.values(), *sentences.values()}) == 1


def test_a_clustering_without_networks_has_no_training_to_show():
    graph = attributed_communities(90, 3, n_features=0, edge_signal=0.9, seed=0)
    est = GraphClustering(range(2, 5), random_state=0).fit(graph)
    metrics = clustering_metrics("g", graph, est, read=0.25)
    assert (metrics["nodes"], metrics["edges"], metrics["features"]) == (90, graph.num_edges, 0)
    assert (metrics["replicas"], metrics["replicas_collapsed"], metrics["seconds"]["read"]) == (0, 0, 0.25)
    assert metrics["modularity"] == evaluate(graph, est.labels_)["modularity"]
    assert [*metrics["candidates"]] == ["2", "3", "4"]
    page = clustering_page(graph, est.soft_, metrics, history=est.history_, replicas=est.replicas_)
    for absent in (">Training<", ">networks<", ">iterations<", ">converged<", "Evidence of each distance"):
        assert absent not in page
    assert VERDICTS[est.verdict_] in page
    assert "agreement of restarts" in page
    for k, described in metrics["candidates"].items():
        name = f"{k} (chosen)" if int(k) == est.n_clusters_ else k
        assert f'<th scope="row">{name}</th><td class="number">{described["score"]:.4g}</td>' in page
    assert '<th scope="row">seconds, read</th><td>0.2</td>' in page


# ----------------------------------------------------------------------------- data of the interactive views


def test_the_graph_view_holds_the_graph(case):
    graph, soft = case
    data = graph_view(graph, soft.astype(np.float32)).data
    assert max(len(str(p)) for p in data["probability"]) <= 5
    json.dumps(data, allow_nan=False)
    assert data["labels"] == soft.argmax(1).tolist()
    np.testing.assert_allclose(data["probability"], soft.max(1), atol=1e-3)
    second = np.sort(soft, axis=1)[:, -2]
    np.testing.assert_allclose(data["second_probability"], second, atol=1e-3)
    rows, columns = np.array(data["edges"]).reshape(-1, 2).T
    rebuilt = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=graph.adjacency.shape)
    assert abs(sp.triu(graph.adjacency, 1) - rebuilt).nnz == 0
    members = sorted(i for cluster in data["clusters"] for i in cluster["members"])
    assert members == list(range(graph.num_nodes))
    assert min(data["x"]) >= 0 and max(data["x"]) <= 1


def test_small_views_to_the_number():
    assert shown_nodes(np.array([0] * 90 + [1] * 10), most=10).tolist() == [*range(0, 91, 10)]
    grid, labels = grid_graph(3, 3), np.arange(9) // 5
    data = graph_view(grid, np.eye(2)[labels]).data
    assert (data["labels"], len(data["edges"]) // 2) == (labels.tolist(), 12)
    assert data["x"] == [0, 0.5, 1] * 3 and data["positions"] == "coordinates: x and y"
    assert data["y"] == [0] * 3 + [0.5] * 3 + [1] * 3
    assert data["second"] == (1 - labels).tolist()
    members = [list(range(5)), list(range(5, 9))]
    assert data["clusters"] == [
        {"number": c, "size": 5 - c, "colour": cluster_colours(2)[c], "members": members[c]} for c in (0, 1)
    ]
    groups = cluster_view(grid, labels).data
    assert groups["links"] == [{"a": 0, "b": 1, "weight": 4.0}]
    assert [cluster["text"] for cluster in groups["clusters"]] == [
        "Cluster 0: 5 nodes, 29 % of its edges leave it",
        "Cluster 1: 4 nodes, 40 % of its edges leave it",
    ]
    heat = assignment_view(grid_graph(2, 1), np.array([[0.25, 0.75], [1.0, 0.0]])).data
    assert (heat["values"], heat["names"]) == ([100, 0, 25, 75], ["node 1", "node 0"])
    data = graph_view(grid, np.ones((9, 1))).data  # a single cluster has no second one
    assert data["second"] == data["second_probability"] == [None] * 9
    assert len(data["clusters"]) == 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(5, 60))
def test_samples_keep_every_cluster_and_its_share(labels, most):
    labels = np.array(labels)
    nodes = shown_nodes(labels, most)
    assert len(np.unique(nodes)) == len(nodes)
    assert set(labels[nodes]) == set(labels)
    assert len(nodes) <= max(len(labels) if len(labels) <= most else 0, most + 5)
    if len(labels) > most:
        for cluster, size in zip(*np.unique(labels, return_counts=True), strict=True):
            assert abs((labels[nodes] == cluster).sum() - most * size / len(labels)) <= 2
