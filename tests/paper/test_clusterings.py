"""Table 1, the table of quality, evidence beside NMI: resuming, settings, cells; the figure of synthetic graphs."""

import inspect
import json
import shlex
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import spearmanr
from torch.nn.functional import one_hot

from softcut import Graph
from softcut.baselines import BASELINES, dmon_replicas
from softcut.clustering import PAPER, Recipe
from softcut.clustering.consensus import Refiner
from softcut.clustering.kmeans import kmeans, kmeans_restarts, squared_distances
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.metrics import evidence as evidence_of
from softcut.metrics import modularity, nmi, normalised_cut
from softcut.paper import citation, evidence, quality, synthetic
from softcut.paper.citation import curves as curves_of
from softcut.paper.runs import Records, cells, read_cells
from softcut.provenance import origin
from softcut.training import replica_seeds

RESULTS = Path(__file__).parents[2] / "results"
KMEANS = "k-means on softcut's features"


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(80, 3, n_features=40, seed=0)


@pytest.fixture
def small(monkeypatch, graph):
    for module in (citation, quality, evidence):
        monkeypatch.setattr(module, "load", lambda name, **kwargs: graph)


def read(path):
    return json.loads(path.read_text())


def test_cells_have_the_agreed_form(small, tmp_path):
    citation.run(tmp_path, ["cora"], ["mincut"], runs=2, max_iter=3)
    table = read(tmp_path / "table1_3_iterations.json")
    cell = next(c for c in table if c["metric"] == "nmi")
    assert (cell["n"], cell["paper_mean"], cell["paper_std"]) == (2, 0.404, 0.018)
    command = "softcut reproduce citation --dataset cora --method mincut --runs 2 --max-iter 3 --device cpu"
    assert cell["command"] == command
    runs = read(tmp_path / "table1_3_iterations_runs.json")
    assert cell["mean"] == pytest.approx(np.mean([r["nmi"] for r in runs]), abs=1e-4)
    assert all(1 <= r["clusters_used"] <= 3 and r["nmi_geometric"] >= r["nmi"] for r in runs)
    # A trial with few iterations is no run of the table: neither by its file nor by its settings.
    assert not (tmp_path / "table1.json").exists() and not (tmp_path / "table1_runs.json").exists()
    records = Records(tmp_path / "table1_3_iterations_runs.json")
    assert records.missing("cora", "mincut", range(3), citation.settings_of("mincut", 3)) == [2]
    assert records.missing("cora", "mincut", range(3), citation.settings_of("mincut")) == [0, 1, 2]


def test_ten_seeds_at_once_on_a_cpu(small, graph, tmp_path):
    said, began = [], time.perf_counter()
    citation.run(tmp_path, ["cora"], ["mincut", "kmeans"], runs=11, max_iter=3, tell=said.append)
    seconds = [run["seconds"] for run in read(tmp_path / "table1_3_iterations_runs.json")]
    assert min(seconds) > 0 and sum(seconds) < time.perf_counter() - began  # each has its share
    assert said[2:] == ["cora: kmeans, 10 runs, 1 to go", "cora: kmeans, 1 runs, 0 to go"]
    s = citation.paper_replicas(graph, 3, replica_seeds(0, 11), max_iter=3)[0].argmax(-1).T.numpy()
    runs = [run for run in read(tmp_path / "table1_3_iterations_runs.json") if run["method"] == "mincut"]
    assert [run["nmi"] for run in runs] == pytest.approx([nmi(graph.y, labels) for labels in s])


def test_curves(small, graph, tmp_path, monkeypatch):
    """Forty points of losses and NMI, and the last; mean and deviation over seeds are drawn."""

    def trained(graph, k, seeds, max_iter, device, callback=lambda state: None):
        net = SimpleNamespace(assign=lambda inputs: one_hot(torch.tensor(graph.y)[:, None].expand(-1, 2), 3))
        for i in range(1, max_iter + 1):
            losses = {"cut": np.array([i, i + 2.0]), "ortho": np.array([0.5, 0.7])}
            callback(SimpleNamespace(iteration=i, iterations=max_iter, net=net, **losses))
        return None, None

    drawn = []
    monkeypatch.setattr(citation, "_TRAINED", {"diffpool": trained, "mincut": trained})
    monkeypatch.setattr(citation, "save_figure", lambda fig, path: drawn.append(fig) or path)
    citation.curves(tmp_path, runs=2, max_iter=3)
    assert [row["iteration"] for row in read(tmp_path / "curves_cora.json")["mincut"]] == [1, 2, 3]
    drawn.clear()
    path = citation.curves(tmp_path, runs=2, max_iter=83)
    curves = read(tmp_path / "curves_cora.json")
    assert [row["iteration"] for row in curves["mincut"]] == [*range(2, 83, 2), 83]
    last = {"iteration": 83, "first": [83.0, 85.0], "second": [0.5, 0.7], "nmi": [1.0, 1.0]}
    assert curves["diffpool"][-1] == last and path == tmp_path / "curves_cora.png"
    axes = drawn[0].axes
    lines = [[(line.get_label(), *line.get_xydata()[-1]) for line in axis.get_lines()] for axis in axes]
    expected = [("link loss", 83, 84), ("L_c", 83, 84), ("L_o", 83, pytest.approx(0.6)), ("NMI", 83, 1)]
    assert lines == [expected[:1], expected[1:3], expected[3:], expected[3:]]
    bands = [axis.collections[0].get_datalim(axis.transData).extents for axis in drawn[0].axes[:2]]
    np.testing.assert_allclose(bands, [[2, 2, 83, 85]] * 2)
    assert [axis.get_ylim() for axis in drawn[0].axes[2:]] == [(0, 0.6)] * 2


@pytest.mark.parametrize(
    ("words", "drawn"),
    [("", 1), ("--dataset pubmed cora", 1), ("--dataset pubmed", 0), ("--no-curves", 0), ("--max-iter 3", 0)],
)
def test_curves_are_drawn_of_whole_trainings_on_cora(words, drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(citation, "run", lambda *given: [])
    monkeypatch.setattr(citation, "cell_table", lambda made, title: title)
    monkeypatch.setattr(citation, "curves", lambda out, device: f"{out}/curves")
    citation.main([*words.split(), "--device", "cpu", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count(f"Curves: {tmp_path}/curves") == drawn


def test_recorded_curves_are_those_of_the_default_settings():
    defaults = {name: p.default for name, p in inspect.signature(curves_of).parameters.items()}
    recorded = read(RESULTS / f"curves_{defaults['dataset']}.json")
    for method in ("diffpool", "mincut"):
        last = recorded[method][-1]
        assert (last["iteration"], len(last["nmi"])) == (defaults["max_iter"], defaults["runs"])


def test_quality_and_synthetic(small, tmp_path):
    made = quality.run(tmp_path, ["cora"], ["default", "no fusion", "kmeans_raw"], runs=1)
    assert {c["method"] for c in made} == {"default", "no fusion", "kmeans_raw"}
    rows = synthetic.run(tmp_path, runs=10, max_iter=20)
    assert len(rows) == 6
    # Spectral clustering has no iterations: its rows are the recorded ones.
    for row, known in zip(rows, read(RESULTS / "synthetic.json"), strict=True):
        same = row.items() <= {**known, "seconds": row["seconds"]}.items()
        assert same == (row["method"] == "sc") and row["n"] == known["n"]
    row = read(tmp_path / "synthetic_20_iterations.json")[0]
    assert {key: row[key] for key in origin()} == origin()
    assert (tmp_path / "synthetic_20_iterations.png").exists()
    assert not (tmp_path / "synthetic.json").exists(), "a trial is not the figure"
    assert {"nmi", "balance_std"} <= set(rows[0])


def test_the_picture_shows_the_seed_with_the_lowest_loss_at_the_end(tmp_path, monkeypatch):
    """Of two seeds the first is better one step before."""
    shown, losses = [], SimpleNamespace(cut=np.array([[0, 1], [2, 1]]), ortho=np.array([[0, 1], [1, 1]]))

    def trained(graph, k, seeds, **options):
        assert (options["max_iter"], options["learning_rate"], len(seeds)) == (5000, 5e-3, 2)
        assert (options["x"].min(0) == 0).all() and options["x"].max() == 1
        s = one_hot(torch.arange(150) % k)
        return torch.stack([s, s.roll(1, 0)], 1), None, losses

    monkeypatch.setattr(synthetic, "paper_replicas", trained)
    monkeypatch.setattr(synthetic, "diffpool_replicas", trained)
    monkeypatch.setattr(synthetic, "draw_partition", lambda ax, graph, labels, *rest: shown.append(labels[0]))
    synthetic.run(tmp_path, runs=2)
    assert [shown[i] for i in (1, 2, 4, 5)] == [5, 5, 4, 4]
    assert (tmp_path / "synthetic.png").exists() and (tmp_path / "synthetic.json").exists()
    rows = read(tmp_path / "synthetic.json")
    made = synthetic.table(rows)
    assert (made.columns[:3], made.heads) == (["graph", "method", "nmi"], 2)
    assert made.rows[2][:2] == ["community", "MinCutPool"] and len(made.rows[2]) == len(made.columns) == 8
    assert (
        made.rows[3][2].text == made.rows[3][3].text == "-" != made.rows[3][4].text
    )  # a grid has no classes
    assert all(row["seconds"] == round(row["seconds"], 2) for row in rows)


def test_without_features_only_nodes_with_edges_are_scored(tmp_path, monkeypatch, graph):
    dense = graph.adjacency.toarray()
    dense[:20] = dense[:, :20] = 0
    scored, plain = dense.any(1), Graph.from_dense(dense, y=graph.y)
    monkeypatch.setattr(quality, "load", lambda name, **kwargs: plain)
    made = quality.run(tmp_path, ["polblogs"], ["leiden", "kmeans_raw"], runs=1)
    assert {cell["method"] for cell in made} == {"leiden"}, "k-means needs features"
    labels = BASELINES["leiden"](plain, 3, random_state=0)
    (run,) = read(tmp_path / "quality_runs.json")
    assert run["nmi"] == pytest.approx(nmi(graph.y[scored], labels[scored]), abs=1e-9)


@pytest.mark.parametrize("method", ["mincut", "diffpool", "dmon"])
def test_an_interrupted_training_is_not_recorded(small, tmp_path, monkeypatch, method):
    from softcut.training.loop import Loop

    real = Loop._step

    def interrupted(self):
        real(self)
        if self.done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        citation.run(tmp_path, ["cora"], [method], runs=1, max_iter=5)
    assert not list(tmp_path.iterdir())


def test_every_ablation_is_known_by_the_recipe_that_it_changes():
    digests = {name: quality.settings_of(name)["recipe"] for name in quality.ABLATIONS}
    recipes = {name: Recipe(**changed) for name, changed in quality.ABLATIONS.items()}
    assert digests == {name: recipe.digest_of(several=False) for name, recipe in recipes.items()}
    assert len(set(digests.values())) == len(digests)
    paper = {"estimator": "MinCutClustering", "recipe": PAPER.digest_of(several=False), "chosen": False}
    assert quality.settings_of("the paper's model") == paper
    assert "recipe" not in quality.settings_of("leiden")


@pytest.mark.parametrize(("edges", "signal", "seed"), [(0.45, 0.25, 0), (0.3, 0.3, 3)])
@pytest.mark.parametrize("refined", [False, True])
def test_k_means_reads_and_refines_as_the_default(edges, signal, seed, refined, tmp_path, monkeypatch):
    graph = attributed_communities(300, 3, edge_signal=edges, feature_signal=signal, seed=seed)
    monkeypatch.setattr(quality, "load", lambda name, root=None: graph)
    quality.run(tmp_path, ["cora"], [f"{KMEANS}, refined" if refined else KMEANS], runs=1)
    (run,) = Records(tmp_path / "quality_runs.json").runs
    # By hand.
    encoded = prepare(graph, Recipe(), torch.device("cpu"), [].append).encoded
    z = encoded.rows.flatten(1)
    distance = squared_distances(z, kmeans(z, 3, random_state=0).centres)
    soft = torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)
    labels = soft.argmax(1)
    if refined:
        corrected = Refiner.fit(encoded.x, labels, 3).apply(encoded.x, soft, encoded.op).argmax(1)
        assert (corrected != labels).any()
        labels = corrected
    assert run["nmi"] == pytest.approx(nmi(graph.y, labels.numpy()), abs=1e-9)


def test_dmon_has_the_restarts_and_features_of_softcut_and_chooses_by_its_own_loss(
    small, graph, tmp_path, monkeypatch
):
    name = "dmon on softcut's features, restarted"
    monkeypatch.setattr(quality, "dmon_replicas", partial(dmon_replicas, max_iter=20))
    quality.run(tmp_path, ["cora"], [name], runs=1)
    (run,) = Records(tmp_path / "quality_runs.json").runs
    assert (run["settings"]["networks"], run["settings"]["max_iter"]) == (Recipe().networks, 20)
    assert name in shlex.split(read(tmp_path / "quality.json")[0]["command"])
    # By hand: modularity and the term against collapse, from the matrices.
    z = prepare(graph, Recipe(), torch.device("cpu"), [].append).encoded.rows.flatten(1)
    s = dmon_replicas(graph, 3, replica_seeds(0, Recipe().networks), x=z, max_iter=20).double().numpy()
    a = graph.adjacency.toarray()
    d = a.sum(1)
    b = a - np.outer(d, d) / d.sum()
    losses = [
        -np.trace(own.T @ b @ own) / d.sum() + np.sqrt(3) / len(own) * np.linalg.norm(own.sum(0)) - 1
        for own in s.transpose(1, 0, 2)
    ]
    assert run["nmi"] == pytest.approx(nmi(graph.y, s[:, np.argmin(losses)].argmax(1)), abs=1e-9)


def test_leiden_beside_it_has_its_own_number_of_clusters(tmp_path, monkeypatch):
    cliques = Graph.from_scipy(
        sp.block_diag([np.ones((6, 6)) - np.eye(6)] * 8, format="csr"), y=np.arange(48) % 3
    )
    monkeypatch.setattr(quality, "load", lambda name, **kwargs: cliques)
    quality.run(tmp_path, ["cora"], ["leiden", "leiden, its own number of clusters"], runs=1)
    forced, own = Records(tmp_path / "quality_runs.json").runs
    assert (forced["clusters_used"], own["clusters_used"]) == (3, 8)
    assert own["nmi"] == pytest.approx(nmi(cliques.y, np.arange(48) // 6))


@pytest.mark.parametrize(
    ("table", "settings_of", "least"),
    [("table1", citation.settings_of, 990), ("quality", quality.settings_of, 200)],
)
def test_recorded_runs_are_those_of_the_default_settings(table, settings_of, least):
    """Whoever changes a default must record its results anew (or say that the meaning is the same)."""
    records = Records(RESULTS / f"{table}_runs.json")
    assert len(records.runs) >= least
    for run in records.runs:
        assert not records.missing(run["dataset"], run["method"], [run["seed"]], settings_of(run["method"]))


@pytest.mark.parametrize("table", ["table1", "quality", "autoencoder", "autoencoder_decay"])
def test_recorded_cells_are_those_of_the_recorded_runs(table):
    records = Records(RESULTS / f"{table}_runs.json")
    for cell in read_cells(RESULTS / f"{table}.json"):
        own = [r for r in records.runs if (r["dataset"], r["method"]) == (cell["dataset"], cell["method"])]
        (again,) = cells(own[: cell["n"]], [cell["metric"]], {}, "", digits=None)
        assert again["mean"] == pytest.approx(cell["mean"], abs=6e-5)
        assert again["std"] == pytest.approx(cell["std"], abs=6e-5)
        assert (again["n"], again["commit"], again["device"]) == (cell["n"], cell["commit"], cell["device"])


# ------------------------------------------------------------------------ evidence beside NMI


def test_the_pool_and_its_scores_are_those_of_the_metrics(tmp_path, monkeypatch):
    graph = attributed_communities(80, 3, n_features=30, edge_signal=0.8, feature_signal=0.5, seed=0)
    monkeypatch.setattr(evidence, "load", lambda name, **options: graph)
    trained, train = [], evidence.train
    with monkeypatch.context() as patch:
        patch.setattr(
            evidence, "train", lambda *given, **more: trained.append((*given, more)) or train(*given, **more)
        )
        (row,) = evidence.run(tmp_path, ["cora"])
    _, labels = evidence.pool(graph, 3, 0, torch.device("cpu"))
    assert list(row["pool"]) == list(labels)
    # K-means of every distance, by hand; networks start there, or at random, and keep most of the sizes.
    recipe = Recipe(objective="mincut", iterations=200, learning_rate=0.01, start_iterations=40)
    encoded = prepare(graph, recipe, torch.device("cpu"), [].append).encoded
    starts = [kmeans_restarts(z, 3, 1, max_iter=30, random_state=0)[0][0] for z in encoded.z]
    for hops, start in zip((0, 1, 2, 4, 8, 16), starts, strict=True):
        assert torch.equal(labels[f"k-means, {hops} hops"], start)
        soft = one_hot(start, 3).float()
        refined = Refiner.fit(encoded.x, start, 3).apply(encoded.x, soft, encoded.op).argmax(1)
        assert torch.equal(labels[f"k-means, {hops} hops, refined"], refined)
    assert torch.equal(
        labels["k-means, all distances"], kmeans(encoded.rows.flatten(1), 3, random_state=0).labels
    )
    assert [settings == recipe.training(torch.device("cpu")) for *_, settings, _ in trained] == [True, True]
    (*_, begun), (*_, free) = trained
    assert torch.equal(begun["start"], torch.stack(starts)) and free == {"start": None, "sizes": None}
    sizes = torch.stack([start.bincount(minlength=3) for start in starts]).clamp(min=recipe.least * 80 / 3)
    torch.testing.assert_close(begun["sizes"], sizes.float())
    for name, c in labels.items():
        assert row["pool"][name]["nmi"] == pytest.approx(nmi(graph.y, c.numpy()), abs=6e-5)
        if len(c.unique()) == 3:  # with fewer the metric counts fewer clusters
            assert row["pool"][name]["evidence"] == pytest.approx(evidence_of(graph, c.numpy()), abs=1e-3)
    best = max(row["pool"].values(), key=lambda entry: entry["evidence"])
    assert row["nmi_of_most_evidence"] == best["nmi"]
    scores = [entry["nmi"] for entry in row["pool"].values()]
    assert (row["best_nmi"], row["mean_nmi"]) == (max(scores), pytest.approx(np.mean(scores), abs=6e-5))
    for name, score, sign in (("modularity", modularity, 1), ("normalised cut", normalised_cut, -1)):
        expected = spearmanr([sign * score(graph, c.numpy()) for c in labels.values()], scores).statistic
        assert row["rank_correlation"][name] == pytest.approx(expected, abs=0.01)
    assert {key: row[key] for key in origin()} == origin()
    assert set(row["rank_correlation"]) == set(evidence.SCORES)
    numbers = [value for entry in row["pool"].values() for value in entry.values()]
    numbers += [row[name] for name in ("nmi_of_most_evidence", "best_nmi", "mean_nmi")]
    assert numbers == [round(value, 4) for value in numbers]
    ranks = list(row["rank_correlation"].values())
    assert ranks == [round(value, 3) for value in ranks] and row["seconds"] == round(row["seconds"], 2)
    shown = evidence.table([row, {**row, "best_nmi": row["best_nmi"] - 0.1}])
    means = [f"{value:.2f}" for value in ranks]
    (line,) = shown.rows
    assert (shown.columns[0], line[0], [cell.text for cell in line[1:7]]) == ("data", "cora", means)
    assert [cell.text for cell in line[7:]] == [f"{best['nmi']:.3f}", f"{row['best_nmi'] - 0.05:.3f}"]
    assert row["rank_correlation"]["evidence"] > 0.5  # both edges and words show the classes


def test_rows_of_other_data_sets_and_seeds_stay(small, tmp_path, monkeypatch):
    made = iter(range(10))
    monkeypatch.setattr(evidence, "_row", lambda graph, seed, device: {"seed": seed, "made": next(made)})
    evidence.run(tmp_path, ["citeseer"])
    evidence.run(tmp_path, ["cora"], runs=2)
    (again,) = evidence.run(tmp_path, ["cora"])
    rows = read(tmp_path / "evidence.json")
    wanted = [("cora", 0, 3), ("cora", 1, 2), ("citeseer", 0, 0)]
    assert [(row["dataset"], row["seed"], row["made"]) for row in rows] == wanted
    assert again == rows[0]


def test_nodes_that_say_nothing_are_not_scored(monkeypatch, tmp_path):
    blocks = np.kron(np.eye(2), np.ones((12, 12))) - np.eye(24)
    blocks[0, 12] = blocks[12, 0] = 1
    whole = np.zeros((44, 44), dtype=np.float32)
    whole[:24, :24] = blocks
    y = np.repeat([0, 1, 0, 1], [12, 12, 10, 10])
    monkeypatch.setattr(evidence, "load", lambda name, **options: Graph.from_dense(whole, y=y))
    (row,) = evidence.run(tmp_path, ["polblogs"])
    assert row["nmi_of_most_evidence"] == 1.0  # out of reach with 20 isolated nodes among the scored
    assert row["rank_correlation"]["features"] is None


def test_a_run_that_was_killed_goes_on_where_it_was(small, tmp_path, monkeypatch):
    real = citation._labels

    def dies(method, *given):
        if method == "diffpool":
            raise RuntimeError("kill -9")
        return real(method, *given)

    order = {"datasets": ["cora"], "methods": ["mincut", "diffpool"], "runs": 3, "max_iter": 3}
    with monkeypatch.context() as patch:
        patch.setattr(citation, "_labels", dies)
        with pytest.raises(RuntimeError):
            citation.run(tmp_path, **order)
    saved = read(tmp_path / "table1_3_iterations_runs.json")
    assert [r["method"] for r in saved] == ["mincut"] * 3
    made = citation.run(tmp_path, **order)
    again = read(tmp_path / "table1_3_iterations_runs.json")
    assert [r for r in again if r["method"] == "mincut"] == saved, "finished runs are not repeated"
    assert len(again) == 6
    assert {(c["dataset"], c["method"], c["metric"]) for c in made} == {
        ("cora", m, metric) for m in ("mincut", "diffpool") for metric in ("nmi", "cs", "acc")
    }
    assert not list(tmp_path.glob(".*.part")), "no temporary files"
