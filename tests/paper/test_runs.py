"""Records of runs, what survives, the cells made of them; the tests behind the bold numbers."""

import hashlib
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from softcut.errors import FileFormatError
from softcut.paper import runs
from softcut.paper.comparison import (
    differs_from_published,
    not_worse_than_the_best,
    worse_by_folds,
    worse_by_runs,
)
from softcut.paper.runs import Records, RunSession, cells, merge_cells, read_cells, run_id, settings_hash

RUN = {"dataset": "d", "method": "m", "seed": 0, "settings": {"lr": 0.1, "steps": 5}}
ORIGIN = {"seconds": 1.0, "device": "x", "commit": "c"}


ENDLESS = """
import sys
from softcut.paper.runs import Records
path, count, name = sys.argv[1:]
records = Records(path)
for seed in range(int(count)):
    records.add([{"dataset": name, "method": "m", "seed": seed, "settings": {}, "noise": "x" * 1000}])
    print(seed, flush=True)
"""


@pytest.mark.parametrize(
    "other",
    [{"dataset": "e"}, {"method": "n"}, {"seed": 1}, {"settings": {"lr": 0.1, "steps": 3}}, {"settings": {}}],
)
def test_a_run_is_known_by_everything_that_decides_it(tmp_path, other):
    records = Records(tmp_path / "runs.json")
    records.add([{**RUN, "nmi": 0.5}])
    dataset, method, seed, settings = (asked := {**RUN, **other}).values()
    again = Records(tmp_path / "runs.json")
    assert again.missing("d", "m", [0], RUN["settings"]) == []
    assert again.missing(dataset, method, [seed], settings) == [seed]
    assert again.of(dataset, method, [seed], settings) == []
    assert run_id(**RUN) != run_id(**asked)


def test_runs_of_an_older_file_without_settings_stay_but_do_not_count(tmp_path):
    old = {"dataset": "d", "method": "m", "seed": 0, "nmi": 0.5}
    (tmp_path / "runs.json").write_text(json.dumps([old]))
    records = Records(tmp_path / "runs.json")
    assert records.missing("d", "m", [0], {}) == [0]
    records.add([{**RUN, "nmi": 0.7}])
    assert old in Records(tmp_path / "runs.json").runs


@pytest.mark.parametrize("content", ["{oops", "{}", "[1]", "[null]", "[[]]", "[" * 100_000])
def test_a_broken_file_is_refused(tmp_path, content):
    (tmp_path / "runs.json").write_text(content)
    for reader in (Records, read_cells):
        with pytest.raises(FileFormatError, match="move it away"):
            reader(tmp_path / "runs.json")


@pytest.mark.parametrize("what", ["cells", "runs", "curves", "rows"])
def test_entries_of_another_shape_are_refused(tmp_path, what):
    (tmp_path / "t.json").write_text('[{"dataset": 3}]')
    with pytest.raises(FileFormatError, match=f"t.json is not a list of {what}: entry 0 has no 'dataset'"):
        read_cells(tmp_path / "t.json", what)


def test_cells_are_mean_and_deviation_and_name_every_commit_and_device(tmp_path):
    runs = [
        {**RUN, **ORIGIN, "seed": 0, "nmi": 0.1, "commit": "a"},
        {**RUN, **ORIGIN, "seed": 1, "nmi": 0.2, "commit": "b", "device": "y"},
        {**RUN, **ORIGIN, "seed": 2, "nmi": 0.6, "commit": "a", "seconds": 1.016},
    ]
    (cell,) = cells(runs, ["nmi"], {("d", "m", "nmi"): (0.5, 0.1)}, "cmd")
    std = np.std([0.1, 0.2, 0.6])
    assert (cell["mean"], cell["std"]) == (pytest.approx(0.3), round(std, 4))
    assert (cell["n"], cell["seconds"], cell["commit"], cell["device"]) == (3, 3.02, "a, b", "x, y")
    assert cells(runs, ["nmi"], {}, "cmd", digits=None)[0]["std"] == std
    assert (cell["paper_mean"], cell["paper_std"]) == (0.5, 0.1)
    assert cells([], ["nmi"], {}, "cmd") == []


def test_merging_replaces_cells_of_the_same_name(tmp_path):
    run = {**RUN, **ORIGIN, "nmi": 0.5, "acc": 0.4}
    merge_cells(tmp_path / "t.json", cells([run], ["nmi", "acc"], {}, "cmd"))
    merged = merge_cells(tmp_path / "t.json", cells([{**run, "nmi": 0.7}], ["nmi"], {}, "cmd"))
    assert {c["metric"]: c["mean"] for c in merged} == {"acc": 0.4, "nmi": 0.7}
    assert read_cells(tmp_path / "t.json") == merged


def test_run_ids_are_digests_that_do_not_change():
    """Neither with the order of the settings nor with what JSON does to numbers."""
    text = json.dumps({"a": 1, "b": [2, 3]}, sort_keys=True)
    assert settings_hash({"b": (2, 3), "a": 1}) == hashlib.sha256(text.encode()).hexdigest()[:12]
    whole = {"dataset": "cora", "method": "sc", "seed": 3, "settings": {"k": 2}}
    assert run_id("cora", "sc", 3, {"k": 2}) == settings_hash(whole)


def test_records_and_cells_are_sorted_and_come_back_in_the_order_of_the_seeds(tmp_path):
    def entry(dataset, method, **rest):
        return {"dataset": dataset, "method": method, "settings": {}, **rest}

    records = Records(tmp_path / "runs.json")
    for seed in (2, 0, 7, 1):
        records.add([entry("b", "x", seed=seed)])
    records.add([entry("a", "y", seed=0)])
    again = Records(records.path)
    assert "".join(f"{r['dataset']}{r['seed']} " for r in again.runs) == "a0 b0 b1 b2 b7 "
    assert [run["seed"] for run in again.of("b", "x", [1, 0, 3], {})] == [1, 0]
    names = [("b", "x", "nmi"), ("a", "y", "nmi"), ("a", "x", "nmi"), ("a", "x", "acc")]
    merged = merge_cells(tmp_path / "table.json", [entry(d, m, metric=metric) for d, m, metric in names])
    assert [(c["dataset"], c["method"], c["metric"]) for c in merged] == sorted(names)


def test_how_far_a_training_is_is_told_every_ten_seconds(tmp_path, monkeypatch):
    said, seen, now = [], [], [0.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    session = RunSession(tmp_path, minutes=1, tell=said.append)
    look = session.watch("mincut", 40, lambda state: "fine", seen.append)
    for iteration, now[0] in ((40, 3.0), (50, 9.0), (60, 10.0), (70, 19.0), (80, 20.0), (90, 59.0)):
        look(SimpleNamespace(iteration=iteration, iterations=400))
    assert (len(seen), session.left, session.out_of_time) == (6, 1.0, False)
    told = [("6", "3.33"), ("8", "4.00"), ("9", "9.83")]  # the first three were trained before
    assert said == [f"mincut, epoch {e} of at most 40, {each} s per epoch, fine" for e, each in told]
    now[0] = 60.0
    assert session.out_of_time and RunSession(tmp_path).left is None


def test_without_overlap_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(70, 3, 10), rng.normal(71, 3, 10)
    expected = stats.ttest_rel(a, b, alternative="less")
    folds = dict(enumerate(a)), dict(enumerate(b))
    assert worse_by_folds(*folds, overlap=0.0) == pytest.approx(expected.pvalue, rel=1e-12)
    # The correction divides t by sqrt(1 + n test / train).
    t = -expected.statistic / math.sqrt(1 + 10 / 9)
    assert worse_by_folds(*folds) == pytest.approx(stats.t.sf(t, 9), rel=1e-12)


def test_folds_are_compared_with_themselves() -> None:
    one, other = {0: 60.0, 1: 80.0, 2: 71.0}, {2: 72.0, 0: 61.0, 1: 81.5, 3: 10.0}
    assert worse_by_folds(one, other) < 0.05  # fold by fold always better, in whatever order
    assert math.isnan(worse_by_folds({0: 1.0, 1: 2.0}, {1: 3.0, 2: 4.0}))
    assert worse_by_folds({0: 60.0, 1: 80.0}, {0: 60.0, 1: 80.0}) == 1.0
    assert worse_by_folds({0: 60.0, 1: 80.0}, {0: 61.0, 1: 81.0}) == 0.0
    p = worse_by_folds({0: 70.0, 1: 72.0, 2: 71.0}, {0: 75.0, 1: 76.0, 2: 77.0})
    assert p == pytest.approx(0.0087, abs=5e-5)


def test_runs_are_compared_by_welchs_test_and_deterministic_ones_count_as_they_are() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(70, 3, 10), rng.normal(71, 2, 9)
    expected = stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue
    assert worse_by_runs(a, b) == pytest.approx(expected, rel=1e-12)
    noisy = [70.0, 72.0, 71.0]
    one_sample = stats.ttest_1samp(noisy, 71.4, alternative="greater").pvalue
    assert worse_by_runs([71.4] * 10, noisy) == pytest.approx(one_sample, rel=1e-9)
    assert worse_by_runs([71.351351] * 10, [71.351351] * 10) == 1.0


def test_the_best_and_those_not_worse() -> None:
    scores = {"close": (78.0, 80.0, 81.0, 79.0), "best": (79.0, 80.0, 81.5, 79.0)}
    scores |= {"far": (60.0, 61.0, 59.0, 60.5), "once": (79.0,)}
    runs = {name: dict(enumerate(each)) for name, each in scores.items()}
    for folds in (True, False):
        p_values = not_worse_than_the_best(runs, folds=folds)
        assert set(p_values) == {"best", "close"}
        assert p_values["best"] == 1.0
        assert 0.05 <= p_values["close"] < 1.0


def test_differences_are_tested_as_welch_does():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.5, 0.1, 30), rng.normal(0.55, 0.05, 10)
    described = (ours.mean(), ours.std(), 30, theirs.mean(), theirs.std(ddof=1))
    p = differs_from_published(*described, digits=9)
    assert p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue, rel=1e-9)
    # The overlap makes the variance of a mean larger by as much as a larger deviation would.
    wider = ours.std(ddof=1) * math.sqrt(1 + 30 / 9), described[4] * math.sqrt(1 + 10 / 9)
    told = ours.mean(), wider[0], 30, theirs.mean(), wider[1], 10
    expected = stats.ttest_ind_from_stats(*told, equal_var=False).pvalue
    assert differs_from_published(*described, digits=9, overlap=1 / 9) == pytest.approx(expected, rel=1e-9)
    # A published deviation of .000 is a rounded one.
    assert differs_from_published(0.1832, 0.0, 10, 0.183, 0.0, digits=3) > 0.05
    assert differs_from_published(0.1900, 0.0, 10, 0.183, 0.0, digits=3) < 0.001
    assert math.isnan(differs_from_published(0.5, 0.1, 1, 0.4, 0.1, digits=3))


def runners(path, count, names):
    """Processes that each record so many runs of a data set of their own in one file."""
    words = [sys.executable, "-c", ENDLESS, str(path), str(count)]
    return [subprocess.Popen([*words, name], stdout=subprocess.PIPE, text=True) for name in names]


def test_two_runners_of_one_file_lose_nothing(tmp_path):
    path = tmp_path / "runs.json"
    early = Records(path)
    for process in runners(path, 50, "ab"):
        process.communicate(timeout=120)
    assert [early.missing(name, "m", range(50), {}) for name in "ab"] == [[], []]
    # Seen by a third one that opened the file before them, and kept when it adds its own.
    early.add([RUN])
    assert len(Records(path).runs) == 101


# Two runners at a time, forked so that PyTorch is loaded once, each killed when it has said so many runs are kept.
KILLED = """
import json, os, random, signal, sys
from softcut.paper.runs import Records
path, rounds = sys.argv[1], int(sys.argv[2])
draw, promised = random.Random(0), {}
for name in (f"{number}{side}" for number in range(rounds) for side in "ab"):
    if name.endswith("a"):
        started = {}
        for side in "ab":
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                records = Records(path)
                for seed in range(10_000):
                    records.add([{"dataset": name[:-1] + side, "method": "m", "seed": seed, "settings": {}}])
                    os.write(writing, b".")
            os.close(writing)
            started[side] = child, reading
    child, reading = started[name[-1]]
    said = 0
    for _ in range(1 + draw.randrange(7)):
        said += len(os.read(reading, 1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    promised[name] = said + len(os.read(reading, 10_000))
print(json.dumps(promised))
"""


def kill_runners(folder, rounds):
    """What two runners at a time said was kept before they were killed, is."""
    path = folder / "runs.json"
    words = [sys.executable, "-c", KILLED, str(path), str(rounds)]
    promised = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=250).stdout)
    records = Records(path)
    assert len(promised) == 2 * rounds and min(promised.values()) > 0
    assert {name: records.missing(name, "m", range(count), {}) for name, count in promised.items()} == {
        name: [] for name in promised
    }
    records.add([RUN])
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "runs.json"]  # nothing half-written is left


def test_finished_runs_survive_kill_9(tmp_path):
    (tmp_path / ".runs.json.abc.part").write_text("of a process that was killed")
    kill_runners(tmp_path, 3)


@pytest.mark.slow
def test_finished_runs_survive_fifty_kills(tmp_path):
    kill_runners(tmp_path, 25)
