"""The page of predictions: its tables and views hold the right numbers, and nothing of a user is markup."""

import json
import re

import numpy as np
import pytest

from softcut.metrics.predictions import class_scores, number_scores, reliability
from softcut.report.html_learning import classification_page, curve_view, regression_page

EVIL = "<img src=x onerror=alert(1)>"


def classified(classes=3, count=60, known=True):
    """Metrics, graphs, truth and probabilities of a made classifier."""
    rng = np.random.default_rng(0)
    truth = rng.integers(classes, size=count)
    chances = rng.dirichlet(np.ones(classes), count) + np.eye(classes)[truth] * rng.random((count, 1))
    chances /= chances.sum(1, keepdims=True)
    graphs = {"graph": [f"{EVIL}{i}" for i in range(count)], "nodes": [9] * count, "edges": [8] * count}
    metrics = {
        **{
            "name": EVIL,
            "softcut": "1.2.3",
            "graphs": 600,
            "nodes": 12_345,
            "edges": 2,
            "network": "default",
        },
        **{
            "classes": [f"{EVIL}{c}" for c in range(classes)],
            "scored_on": "On <b>some</b>.",
            "seconds": 2.25,
        },
        **{"trained_on": 540, "tested_on": 60, "networks": 1, "epochs": 7, "notes": [EVIL]},
        **(class_scores(truth, chances, 0) if known else {}),
    }
    return metrics, graphs, truth if known else None, chances


def views(page):
    return [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def rows_of(page, title):
    """Texts of the cells of the tables of a section, row by row."""
    section = page.partition(f">{title}</h2>")[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", section)
    return [
        [re.sub("<.*?>", " ", cell).split() for cell in re.findall(r"<t[hd].*?</t[hd]>", r)] for r in rows
    ]


def test_everything_that_was_measured_is_on_the_page():
    metrics, graphs, truth, chances = classified()
    curve = {"panels": {"loss": {"training": [3.0, 2.0], "validation": [3.0, 2.5]}}, "best": [2]}
    page = classification_page(metrics, graphs, truth, chances, curve=curve, command="softcut <x>")
    assert "<img" not in page and "<x>" not in page and "<b>some" not in page
    assert f"{100 * metrics['accuracy']:.1f} % of 60 graphs are classified correctly" in page
    assert f"training graphs is right for {100 * metrics['baseline_accuracy']:.1f} %" in page
    confusion = rows_of(page, "Confusion matrix")[1:-1]
    assert [[int(cell[0]) for cell in row[1:-1]] for row in confusion] == metrics["confusion"]
    recall = [f"{round(100 * row[c] / sum(row))}" for c, row in enumerate(metrics["confusion"])]
    assert [row[-1][0] for row in confusion] == recall
    (calibration,), curves = views(page)[0]["panels"], views(page)[1]
    table = reliability(chances.max(1), chances.argmax(1) == truth)
    assert calibration["counts"] == table.count.tolist() and sum(calibration["counts"]) == 60
    np.testing.assert_allclose(calibration["ys"], table.accuracy, atol=1e-4)
    assert [int(row[1][0]) for row in rows_of(page, "Calibration")[1:]] == table.count.tolist()
    assert [series["y"] for series in curves["panels"][0]["series"]] == [[3, 2], [3, 2.5]]
    number = [
        int(re.search(r"\)&gt;(\d+)", "".join(row[0]))[1])
        for row in rows_of(page, "Wrongly classified graphs")[1:]
    ]
    wrong = sorted(np.flatnonzero(chances.argmax(1) != truth), key=lambda i: -chances[i].max())
    assert number == wrong[:20]
    (first, *_) = rows_of(page, "Least certain graphs")[1:]
    two = -np.sort(-chances, axis=1)[:, :2]
    least = int(np.argmin(two[:, 0] - two[:, 1]))
    assert f"&gt;{least}" in "".join(first[0]) and f"{two[least, 0]:.2f}" in first[3]


def test_a_perfect_model_and_one_without_known_classes():
    metrics, graphs, truth, _ = classified(classes=2)
    sure = np.eye(2)[truth]
    page = classification_page({**metrics, **class_scores(truth, sure, None)}, graphs, truth, sure)
    assert "<p>None.</p>" in page and "most frequent class of the training" not in page
    assert "Learning curve" not in page and "next class" not in page
    metrics, graphs, _, chances = classified(known=False)
    page = classification_page(metrics, graphs, None, chances)
    assert "Confusion" not in page and "no scores" in page and not views(page)
    counts = [int(row[1][0]) for row in rows_of(page, "Summary")[1:]]
    assert counts == np.bincount(chances.argmax(1)).tolist()


def test_a_long_curve_is_thinned_and_several_networks_have_no_single_best_epoch():
    view = curve_view({"panels": {"loss": {"validation": np.arange(1000.0)}}, "best": [30, 10]})
    (panel,) = view.data["panels"]
    assert len(panel["series"][0]["y"]) == 200 and panel["series"][0]["x"][-1] == 1000
    assert panel["mark"] is None and view.caption.endswith("between 10 and 30.")
    one = curve_view({"panels": {"loss": {"validation": [1.0]}}, "best": [1]})
    assert one.data["panels"][0]["mark"] == pytest.approx(1)


def numbered(targets=2, count=50):
    """Metrics, graphs, true and predicted numbers of a made model."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((count, targets)) * 10.0 ** np.arange(targets)
    predicted = truth + 0.3 * rng.standard_normal((count, targets)) * 10.0 ** np.arange(targets)
    graphs = {"graph": list(range(count)), "nodes": [9] * count, "smiles": [EVIL] * count}
    metrics, *_ = classified(known=False)
    names = [f"{EVIL}{t}" for t in range(targets)]
    scores = {n: number_scores(truth[:, t], predicted[:, t], 0.0) for t, n in enumerate(names)}
    return {**metrics, "targets": names, "scores": scores}, graphs, truth, predicted


@pytest.mark.parametrize("targets", [1, 2])
def test_numbers_and_their_errors_are_on_the_page(targets):
    metrics, graphs, truth, predicted = numbered(targets)
    page = regression_page(metrics, graphs, truth, predicted)
    assert "<img" not in page
    shown = views(page)
    assert len(shown) == targets
    for target, view in enumerate(shown):
        against, residuals = view["panels"]
        np.testing.assert_allclose(against["xs"], truth[:, target], rtol=1e-4)
        np.testing.assert_allclose(against["ys"], predicted[:, target], rtol=1e-4)
        np.testing.assert_allclose(residuals["ys"], (predicted - truth)[:, target], rtol=1e-4)
    for row, score in zip(rows_of(page, "Summary")[1:], metrics["scores"].values(), strict=True):
        assert [float(cell[0]) for cell in row[1:]] == pytest.approx(
            [score[k] for k in ("mae", "rmse", "r2")], rel=0.01
        )
        assert float(row[1][-1]) == pytest.approx(score["baseline_mae"], rel=0.01)
    error = np.abs(predicted - truth) / truth.std(axis=0)
    rows = rows_of(page, "Worst graphs")[1:]
    worst = np.argsort(-error.max(1))[:20]
    assert [int(row[0][0]) for row in rows] == worst.tolist()
    signed = (predicted - truth)[worst, error[worst].argmax(1)]
    np.testing.assert_allclose([float(row[-3][0]) for row in rows], signed, rtol=1e-3)


def test_many_graphs_are_sampled_and_unknown_numbers_have_no_scores(monkeypatch):
    metrics, graphs, truth, predicted = numbered()
    monkeypatch.setattr("softcut.report.html_learning._DOTS", 9)
    page = regression_page(metrics, graphs, truth, predicted)
    (first, _) = views(page)
    assert len(first["names"]) == 9 and "9 of 50 graphs are shown." in page
    number = int(first["names"][0].removeprefix("graph "))
    assert first["panels"][0]["xs"][0] == pytest.approx(truth[number, 0], rel=1e-4)
    del metrics["scores"]
    page = regression_page(metrics, graphs, None, predicted)
    assert not views(page) and "no scores" in page
    lowest = [float(row[1][0]) for row in rows_of(page, "Summary")[1:]]
    np.testing.assert_allclose(lowest, predicted.min(axis=0), rtol=1e-3)
