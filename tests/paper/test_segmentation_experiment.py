"""The segmentation experiment: what is run, kept and counted, on three small images."""

import json
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.refusals import refuses
from matplotlib.colors import to_rgb
from PIL import Image
from scipy import stats
from scipy.io import savemat
from scipy.sparse.linalg import ArpackError
from skimage.segmentation import find_boundaries

from softcut.clustering import GraphClustering, Recipe
from softcut.colours import cluster_colours
from softcut.datasets import attributed_communities
from softcut.errors import DataError, ParameterError
from softcut.paper import segmentation, segmentation_figure
from softcut.paper.runs import keyword_settings
from softcut.paper.segmentation import OverSegmented, labels_of, paper_mincut, recursive_cut, settings_of
from softcut.segment import segmentation_scores
from softcut.segment.methods import weighted_kmeans
from softcut.training import DenseInput, TrainSettings, replica_seeds

TRUTH = np.kron(np.array([[0, 1], [2, 3]]), np.ones((40, 40), dtype=int))
COLOURS = np.array([[200, 50, 50], [50, 180, 80], [60, 70, 200], [210, 200, 90]])


def noisy(seed):
    noise = 50 * np.random.default_rng(seed).standard_normal((80, 80, 3))
    return np.clip(COLOURS[TRUTH] + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder in the layout of BSDS500 with three test images; two people each, one sees halves only."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "bsds500/test"
    for part in ("images", "groundTruth"):
        (folder / part).mkdir(parents=True)
    for seed in range(3):
        Image.fromarray(noisy(seed)).save(folder / f"images/{seed}.jpg", quality=95)
        cells = np.empty((1, 2), dtype=object)
        cells[0, 0] = {"Segmentation": (TRUTH + 1).astype(np.uint16)}
        cells[0, 1] = {"Segmentation": (TRUTH // 2 + 1).astype(np.uint16)}
        savemat(folder / f"groundTruth/{seed}.mat", {"groundTruth": cells})
    return root


@pytest.fixture
def quick(monkeypatch):
    scales = {"mincut": (2, 4), "spectral": (2, 4), "kmeans": (2, 4), "felzenszwalb": (100, 3000)}
    monkeypatch.setattr(segmentation, "SCALES", scales)
    monkeypatch.setattr(segmentation, "METHODS", tuple(scales))


def test_cells_are_those_of_the_plain_scores(data, quick, tmp_path):
    cells = segmentation.run(tmp_path, split="test", data=data)
    by_name = {(c["method"], c["metric"]): c for c in cells}
    assert len(by_name) == 4 * 6
    people, table = [TRUTH, TRUTH // 2], []
    for image in segmentation.load_bsds500("test", data):
        parts = OverSegmented(image.image())
        labels = (labels_of("kmeans", parts, k)[parts.regions] for k in (2, 4))
        table.append([astuple(segmentation_scores(each, people)) for each in labels])
    for name, scores in zip(segmentation.METRICS, np.moveaxis(table, 2, 0), strict=True):
        sign = -1 if name == "variation" else 1  # the lowest is best
        ods, ois = by_name["kmeans", f"{name}_ods"], by_name["kmeans", f"{name}_ois"]
        assert ods["mean"] == pytest.approx(sign * (sign * scores.mean(0)).max(), abs=6e-5)
        assert ods["scale"] == (2, 4)[(sign * scores.mean(0)).argmax()]
        assert ois["mean"] == pytest.approx(sign * (sign * scores).max(1).mean(), abs=6e-5)
        gain = by_name["mincut", f"{name}_ods"]["mean"] - ods["mean"]
        assert ods["gain"] == pytest.approx(gain, abs=2e-4)
    assert by_name["mincut", "covering_ods"]["p"] is None
    assert by_name["felzenszwalb", "covering_ois"]["paper_mean"] == 0.57
    assert ods["command"] == "softcut reproduce segmentation --split test --device cpu"
    assert by_name["felzenszwalb", "covering_ods"]["paper_mean"] == 0.52
    assert by_name["mincut", "rand_index_ois"]["mean"] > 0.8
    assert json.loads((tmp_path / "segmentation_test.json").read_text()) == cells
    for run in json.loads((tmp_path / "segmentation_test_runs.json").read_text()):
        values = [value for name in segmentation.METRICS for value in run[name]]
        assert values == [round(value, 5) for value in values] and run["seed"] == 0
        assert run["seconds"] == round(run["seconds"], 3)
    shown = segmentation.table(cells)
    names = [row[0] for row in shown.rows]
    assert names[:4] == list(segmentation.METHODS) and names[4] == "people (published, test images)"
    covering = by_name["kmeans", "covering_ods"]["mean"], by_name["kmeans", "covering_ois"]["mean"]
    line = [cell.text for cell in shown.rows[2][1:]]
    assert line[:2] == ["3", " / ".join(f"{value:.3f}".removeprefix("0") for value in covering)]
    assert [cell.text for cell in shown.rows[4][1:]] == ["200", ".72 / -", ".88 / -", "1.17 / -"]


def test_finished_images_are_not_divided_again(data, quick, tmp_path, monkeypatch):
    divided = []
    divide = segmentation._divide

    def counted(split, image, methods):
        divided.append((image.name, tuple(methods)))
        return divide(split, image, methods)

    monkeypatch.setattr(segmentation, "_divide", counted)
    first = segmentation.run(tmp_path, ["kmeans"], 2, split="test", data=data)
    assert {c["n"] for c in first} == {2}
    assert (tmp_path / "segmentation_test_first_2.json").exists()
    segmentation.run(tmp_path, ["kmeans", "spectral"], split="test", data=data)
    alone = [(name, (method,)) for method in ("kmeans", "spectral") for name in "01"]
    assert divided == [*alone, ("2", ("kmeans", "spectral"))]
    assert {c["n"] for c in segmentation.run(tmp_path, split="test", data=data, minutes=0)} == {3}
    monkeypatch.setitem(segmentation.SCALES, "kmeans", (3,))  # other settings: other runs
    divided.clear()
    segmentation.run(tmp_path, ["kmeans"], 1, split="test", data=data)
    assert divided == [("0", ("kmeans",))]


def test_the_paired_test_is_wilcoxons():
    rng = np.random.default_rng(0)
    ours, other = (dict(enumerate(rng.random(20))) for _ in range(2))
    against = segmentation._against(ours, {**other, 99: 1.0}, "kmeans")
    gain = np.array([ours[i] - other[i] for i in range(20)])
    assert against["gain"] == pytest.approx(gain.mean(), abs=1e-4)
    assert against["p"] == pytest.approx(stats.wilcoxon(gain).pvalue, rel=0.05)
    assert against["gain"] == round(against["gain"], 4) and against["p"] == float(f"{against['p']:.2g}")
    assert segmentation._against(ours, ours, "kmeans")["p"] == 1.0
    assert segmentation._against(ours, other, "mincut") == {"gain": None, "p": None}
    two, one = ({i: ours[i] for i in range(n)} for n in (2, 1))
    assert segmentation._against(two, other, "kmeans")["p"] in (0.5, 1.0)
    assert segmentation._against(one, other, "kmeans") == {"gain": None, "p": None}


def test_a_star_stands_where_p_is_below_5_percent():
    cell = {"method": "kmeans", "metric": "covering_ods", "mean": 0.5, "n": 9, "gain": 0.0}
    for p, shown in ((0.049, ".500* / -"), (0.05, ".500 / -"), (None, ".500 / -")):
        assert segmentation.table([{**cell, "p": p}]).rows[0][2].text == shown


def test_every_method_divides_the_same_regions():
    parts = OverSegmented(noisy(0))
    for method in ("mincut", "spectral", "kmeans"):
        labels = labels_of(method, parts, 4)
        assert labels.shape == (parts.count,)
        assert len(np.unique(labels)) == 4
    assert labels_of("mincut", parts, 10_000).tolist() == list(range(parts.count))
    few, many = (len(np.unique(labels_of("cut_normalized", parts, t))) for t in (1e-12, 0.9))
    assert few < many <= parts.count
    fine, coarse = (labels_of("felzenszwalb", parts, scale).max() for scale in (100, 8000))
    assert fine > coarse
    labels, loss = paper_mincut(parts.similarity, 4, replica_seeds(0, 2), max_iter=200, learning_rate=2e-2)
    np.testing.assert_array_equal(labels_of("MinCutPool", parts, 4), labels[loss.argmin()])
    default = GraphClustering(4, random_state=0, device="cpu").fit_predict(parts.graph)
    np.testing.assert_array_equal(labels_of("estimator", parts, 4), default)
    by_colour = weighted_kmeans(parts.described.lab, 4, parts.described.area, n_init=10)
    np.testing.assert_array_equal(labels_of("kmeans", parts, 4), by_colour)
    for scale in (parts.count, parts.count + 1):  # each region a segment of its own
        assert labels_of("kmeans", parts, scale).tolist() == list(range(parts.count))


def test_the_paper_has_one_softmax_layer_on_the_features(monkeypatch):
    trained, train = [], segmentation_figure.train

    def noted(net, inputs, op, settings, **more):
        trained.append((net, settings, result := train(net, inputs, op, settings, **more)))
        return result

    monkeypatch.setattr(segmentation_figure, "train", noted)
    graph = attributed_communities(30, 3, n_features=4, seed=0)
    labels, loss = paper_mincut(graph.with_features(graph.x.toarray()), 3, [0, 1], max_iter=3)
    ((net, settings, result),) = trained
    assert settings == TrainSettings(iterations=3, lr=1e-3, tolerance=1e-6, patience=1000)
    assert keyword_settings(paper_mincut)["max_iter"] == 40_000
    np.testing.assert_array_equal(loss, result.cut[-1] + result.ortho[-1])
    assert len(result.cut) == 3 and loss.shape == (2,) and (result.ortho[1] != result.ortho[2]).all()
    x = torch.rand(9, 4)
    middle = torch.cat([x, (x[:-1] + x[1:]) / 2])
    scores = net.assign(DenseInput(middle)).log()
    scores = scores - scores[..., :1]  # affine in the features, where there is no layer before
    torch.testing.assert_close(scores[9:], (scores[:8] + scores[1:9]) / 2, atol=1e-5, rtol=0)
    assert labels.shape == (2, 30)


def test_panels_have_the_settings_of_the_recorded_figure(monkeypatch):
    parts = OverSegmented(noisy(0))
    told = SimpleNamespace(
        cut=np.array([[0, 0, 0, 9], [2, 2, 0, 2]]), ortho=np.array([[0, 0, 0, 9], [1, 1, 2, 1]])
    )
    told.cut[-1, 1] = 1  # the second of four has the lowest loss at the end
    asked = {}

    def paper(graph, k, seeds, **options):
        asked["paper"] = (k, list(seeds), options)
        return np.arange(4)[:, None], np.array([3.0, 2.0, 1.0, 4.0])

    def diffpool(graph, k, seeds, x, **options):
        asked["diffpool"] = (k, list(seeds), options)
        np.testing.assert_array_equal(x, parts.similarity.x)
        return torch.eye(4).unsqueeze(0), None, told

    monkeypatch.setattr(segmentation_figure, "paper_mincut", paper)
    monkeypatch.setattr(segmentation_figure, "diffpool_replicas", diffpool)
    monkeypatch.setattr(segmentation_figure, "recursive_cut", lambda parts, threshold: threshold)
    default = lambda k, **options: SimpleNamespace(fit_predict=lambda graph: (k, options))  # noqa: E731
    monkeypatch.setattr(segmentation_figure, "GraphClustering", default)
    monkeypatch.setattr(segmentation_figure, "mincut_regions", lambda graph, k, area: (k, area.tolist()))
    _, made = segmentation_figure.panels(noisy(0))
    seeds = replica_seeds(0, 4)
    assert asked == {
        "paper": (4, list(seeds), {"max_iter": 4000, "learning_rate": 1e-2}),
        "diffpool": (4, list(seeds), {"max_iter": 4000, "learning_rate": 1e-3}),
    }
    assert made["MinCutPool, as in the paper"].tolist() == [2] and made["DiffPool"].tolist() == [1]
    assert made["Recursive normalised cut"] == 2e-4
    assert made["Default estimator"] == (4, {"random_state": 0, "device": "cpu"})
    assert made["segment_image"] == (4, parts.described.area.tolist())
    monkeypatch.setattr(OverSegmented, "count", 4)
    refuses(ParameterError, "only 4 regions", segmentation_figure.panels, noisy(0))


def test_a_cut_whose_eigenvectors_are_not_found_is_tried_from_five_seeds(monkeypatch):
    parts, asked = OverSegmented(noisy(0)), []

    def cut(order, graph, thresh, rng, num_cuts, in_place):
        asked.append((rng, thresh, num_cuts, in_place))
        if rng < fails:
            raise ArpackError(-9999)
        return order

    monkeypatch.setattr("skimage.graph.cut_normalized", cut)
    fails = 4
    assert recursive_cut(parts, 0.5).tolist() == list(range(parts.count))
    assert asked == [(seed, 0.5, 20, False) for seed in range(5)]
    asked.clear()
    fails = 99
    with pytest.raises(ArpackError):
        recursive_cut(parts, 0.5)
    assert len(asked) == 5


def test_the_figure(tmp_path, monkeypatch):
    def images(name, data=None):
        if name == "horse":
            raise DataError("The paper's picture is not here.")
        return noisy(0)

    told = []
    monkeypatch.setattr(segmentation_figure, "picture", images)
    save, drawn = segmentation_figure.save_figure, []
    monkeypatch.setattr(
        segmentation_figure, "save_figure", lambda fig, path: drawn.append(fig) or save(fig, path)
    )
    written = segmentation_figure.draw(tmp_path, ("horse", "coffee"), tell=told.append, max_iter=3)
    assert [path.name for path in written] == ["segmentation_coffee.png"]
    with Image.open(written[0]) as picture:
        assert picture.width > 800 and 100 < len(picture.getcolors()) <= 160
    assert "The paper's picture is not here." in told
    rows = json.loads((tmp_path / "segmentation_figure.json").read_text())
    parts, image = OverSegmented(noisy(0)), noisy(0)
    labels = segmentation_figure.panels(image, 3)[1]
    assert [(row["method"], row["segments"], row["regions"]) for row in rows] == [
        (method, len(np.unique(own)), parts.count) for method, own in labels.items()
    ]
    axes, edges = drawn[0].axes, parts.graph.num_edges
    assert [axis.get_title() for axis in axes[:3]] == [
        "Original", f"Over-segmentation: {parts.count} regions", f"Region graph: {edges} edges",
    ]  # fmt: skip
    pictures = [axis.images[0].get_array() for axis in axes]
    np.testing.assert_array_equal(pictures[0], image)
    lines = find_boundaries(parts.regions, mode="inner")
    np.testing.assert_array_equal(pictures[1], np.where(lines[..., None], 255, image))
    np.testing.assert_array_equal(pictures[2], 255 - (255 - image) // 4)
    strokes, points = axes[2].collections
    np.testing.assert_allclose(points.get_offsets(), 80 * parts.described.position)
    np.testing.assert_allclose(points.get_facecolors()[:, :3], parts.described.rgb.clip(0, 1))
    assert (points.get_sizes(), points.get_linewidths()) == ([14], [0.4])
    ends = np.argwhere(np.triu(parts.graph.adjacency.toarray()))
    np.testing.assert_allclose(strokes.get_segments(), 80 * parts.described.position[ends])
    strength = np.log(1 + parts.graph.adjacency.toarray()[tuple(ends.T)])
    np.testing.assert_allclose(strokes.get_linewidths(), 0.2 + 1.8 * strength / strength.max())
    for axis, picture, (method, own) in zip(axes[3:], pictures[3:], labels.items(), strict=True):
        _, numbers = np.unique(own, return_inverse=True)
        numbers, count = numbers[parts.regions], numbers.max() + 1
        assert axis.get_title() == f"{method}: {count} segment{'' if count == 1 else 's'}"
        colours = 255 * np.array([to_rgb(colour) for colour in cluster_colours(count)])
        painted = (0.35 * image + 0.65 * colours[numbers]).astype(np.uint8)
        lines = find_boundaries(numbers, mode="inner")
        np.testing.assert_array_equal(picture, np.where(lines[..., None], 255, painted))


def test_pictures_that_cannot_be_drawn(tmp_path):
    refuses(ParameterError, "more than 4", segmentation_figure.panels, np.zeros((20, 20, 3), dtype=np.uint8))
    refuses(ParameterError, "pictures must be among horse", segmentation_figure.picture, "monalisa")
    refuses(DataError, r"images/horse2\.jpeg", segmentation_figure.picture, "horse", tmp_path)


def test_recorded_runs_are_those_of_the_default_settings():
    runs = json.loads((Path(__file__).parents[2] / "results/segmentation_runs.json").read_text())
    assert {run["method"] for run in runs} >= set(segmentation.METHODS) - {"estimator"}
    for run in runs:
        assert run["settings"] == json.loads(json.dumps(settings_of(run["method"]))), run["method"]
    assert settings_of("estimator")["recipe"] == Recipe().digest_of(several=False)


def test_settings_tell_runs_apart():
    assert settings_of("mincut")["n_init"] == 8
    assert len({json.dumps(settings_of(method)) for method in segmentation.METHODS}) == 7
