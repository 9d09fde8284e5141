"""The segmentation experiment: what is run, kept and counted, on three small images."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from scipy.io import savemat

from softcut.clustering import Recipe
from softcut.errors import DataError, ParameterError
from softcut.paper import segmentation, segmentation_figure
from softcut.paper.segmentation import OverSegmented, labels_of, paper_mincut, settings_of
from softcut.segment import segmentation_scores

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
        table.append([segmentation_scores(each, people).variation for each in labels])
    table = np.array(table)
    ods, ois = by_name["kmeans", "variation_ods"], by_name["kmeans", "variation_ois"]
    assert ods["mean"] == pytest.approx(table.mean(0).min(), abs=1e-4)
    assert ods["scale"] == (2, 4)[table.mean(0).argmin()]
    assert ois["mean"] == pytest.approx(table.min(1).mean(), abs=1e-4)
    assert by_name["mincut", "covering_ods"]["p"] is None
    gain = by_name["mincut", "variation_ods"]["mean"] - ods["mean"]
    assert ods["gain"] == pytest.approx(gain, abs=2e-4)
    assert by_name["felzenszwalb", "covering_ods"]["paper_mean"] == 0.52
    assert by_name["mincut", "rand_index_ois"]["mean"] > 0.8
    assert json.loads((tmp_path / "segmentation_test.json").read_text()) == cells


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
    assert divided == [
        *[(name, ("kmeans",)) for name in "01"],
        *[(name, ("spectral",)) for name in "01"],
        ("2", ("kmeans", "spectral")),
    ]
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
    assert segmentation._against(ours, ours, "kmeans")["p"] == 1.0


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


def test_the_papers_network_lowers_its_loss():
    graph = OverSegmented(noisy(0)).similarity
    assert graph.x.shape[1] == 6
    losses = [paper_mincut(graph, 4, [0, 1], max_iter=n, learning_rate=1e-2)[1] for n in (1, 60)]
    assert (losses[1] < losses[0]).all()


def test_settings_tell_runs_apart():
    assert settings_of("mincut")["n_init"] == 8
    assert settings_of("estimator")["recipe"] == Recipe().digest
    assert len({json.dumps(settings_of(method)) for method in segmentation.METHODS}) == 7


def test_the_figure(tmp_path, monkeypatch):
    def images(name, data=None):
        if name == "horse":
            raise DataError("The paper's picture is not here.")
        return noisy(0)

    told = []
    monkeypatch.setattr(segmentation_figure, "picture", images)
    written = segmentation_figure.draw(tmp_path, ("horse", "coffee"), tell=told.append, max_iter=3)
    assert [path.name for path in written] == ["segmentation_coffee.png"]
    assert Image.open(written[0]).width > 800
    assert "The paper's picture is not here." in told
    rows = json.loads((tmp_path / "segmentation_figure.json").read_text())
    assert [row["method"] for row in rows][-1] == "segment_image"
    assert rows[-1]["segments"] == 4


def test_pictures_that_cannot_be_drawn(tmp_path):
    with pytest.raises(ParameterError, match="more than 4"):
        segmentation_figure.panels(np.zeros((20, 20, 3), dtype=np.uint8))
    with pytest.raises(ParameterError, match="pictures must be among horse"):
        segmentation_figure.picture("monalisa")
    with pytest.raises(DataError, match=r"images/horse2\.jpeg"):
        segmentation_figure.picture("horse", tmp_path)


def test_recorded_runs_are_those_of_the_default_settings():
    runs = json.loads((Path(__file__).parents[2] / "results/segmentation_runs.json").read_text())
    assert {run["method"] for run in runs} >= {
        "mincut",
        "spectral",
        "kmeans",
        "cut_normalized",
        "felzenszwalb",
    }
    for run in runs:
        assert run["settings"] == json.loads(json.dumps(settings_of(run["method"]))), run["method"]
