"""The runner of table 2: records, resuming after kill -9, the time limit, the table; trials beside it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from softcut import Graph
from softcut.datasets import collections, load_graphs
from softcut.errors import ParameterError
from softcut.graph import from_graphs
from softcut.learning import ClassifierSettings, train_folds, with_structure
from softcut.nn.pool import pool_options
from softcut.paper import classification, regression, table2
from softcut.paper.poolers import POOLERS, stated
from softcut.paper.runs import Records, run_id
from softcut.paper.table2 import read_trial, with_degree

QUICK = ClassifierSettings(batch=32, epochs=2, patience=2)
SMALL = "Bench-easy-small"
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(path: Path) -> list[dict]:
    return json.loads(path.read_text())


def without_seconds(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_paper_tables_are_complete() -> None:
    assert (len(table2.PAPER), len(regression.PAPER)) == (63, 36)
    assert table2.PAPER["PROTEINS", "mincut", "accuracy"] == (76.5, 2.6)
    assert table2.PAPER["Bench-easy", "wl", "accuracy"] == (92.6, None)
    assert set(table2.DATASETS) <= set(collections.COLLECTIONS)
    assert regression.PAPER["cv", "flat", "mse"] == (0.127, 0.002)


def test_out_of_time_is_clean(data: str, tmp_path: Path) -> None:
    long = ClassifierSettings(epochs=10_000, patience=10_000)
    options = {"settings": long, "data": data}
    assert classification.run(tmp_path, [SMALL], ["nopool", "mincut"], 1, minutes=0.02, **options) == []
    assert len(list((tmp_path / "checkpoints").glob("*.pt"))) == 1
    assert not (tmp_path / "table2.json").exists()


KILLED = f"softcut.paper.classification --dataset {SMALL} --method mincut --folds 2 --epochs 30 --patience 30"
# The same command with a checkpoint at every epoch, and no more than 0.05 s between looks at the clock.
_STARTED = (
    "import softcut.training as c; c.Checkpoint.__init__.__defaults__ = "
    "(*c.Checkpoint.__init__.__defaults__[:-1], 0.05); "
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kill_9_at_20_random_moments_gives_the_undisturbed_result(data: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _STARTED, *KILLED.split(), "--device", "cpu", "--data", data, "--out"]

    def begin(folder: str) -> subprocess.Popen[str]:
        """The command, when it says that training begins."""
        process = subprocess.Popen([*words, str(tmp_path / folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert any("folds 0, 1" in line for line in iter(process.stdout.readline, ""))
        return process

    process = begin("straight")
    began = time.monotonic()
    process.communicate()
    assert process.returncode == 0
    training = time.monotonic() - began
    random = np.random.default_rng(0)
    checkpoints = tmp_path / "killed/checkpoints"
    for kill in range(20):  # never long enough to finish
        written = _newest(checkpoints)
        process = begin("killed")
        if kill % 2:  # half of the moments are counted from the first progress, however slow the machine is
            while _newest(checkpoints) == written:
                assert process.poll() is None
                time.sleep(0.005)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=float(random.uniform(0, training / 40)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert _newest(checkpoints) > 0
    done = subprocess.run([*words, str(tmp_path / "killed")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "|---|" in done.stdout
    for name in ("table2_runs.json", "table2.json", "table2_curves.json"):
        killed, straight = (without_seconds(read(tmp_path / f / name)) for f in ("killed", "straight"))
        assert killed == straight, name
    assert not list((tmp_path / "killed").glob("*.tmp*"))


def _newest(folder: Path) -> int:
    """When a checkpoint was last written there; 0 for never."""
    return max((path.stat().st_mtime_ns for path in folder.glob("*.pt")), default=0)


def test_committed_runs_are_those_that_the_runner_would_make(data: str) -> None:
    """A change of the settings' form would orphan every run on disk."""
    records = Records(RESULTS / "table2_runs.json")
    graphs = load_graphs("PROTEINS", data)
    for method in ("mincut", "topk", "wl"):
        known = classification.settings_of(method, graphs, ClassifierSettings())
        assert records.missing("PROTEINS", method, range(10), known) == []


@pytest.mark.parametrize("table", ["table2", "table2_ablation", "table2_trials"])
def test_every_recorded_run_has_the_name_that_the_runner_gives_it(table: str) -> None:
    """Whatever the defaults of layers and classifiers are: the paper's settings are stated in softcut.paper."""
    runs = Records(RESULTS / f"{table}_runs.json").runs
    assert len(runs) >= 90
    for run in runs:
        known = run["settings"]
        size = max([2 * known["k"][0], 4 * known["k"][1]]) if "k" in known else 2
        sizes, note = np.array([size]), known.get("data", "")
        graphs = SimpleNamespace(
            sizes=sizes, num_features=known.get("features"), note="" if note == "published" else note
        )
        method, seed = run["method"], run["seed"]
        made = classification.settings_of(method, graphs, table2.SETTINGS)  # type: ignore[arg-type]
        assert run["id"] == run_id(run["dataset"], method, seed, made), (run["dataset"], method)


@pytest.mark.parametrize("pool", sorted(POOLERS))
def test_every_option_of_the_papers_poolers_is_stated(pool: str) -> None:
    """A default of a layer decides nothing."""
    decided = {"in_channels", "k", "ratio", "levels"} | (
        {"out_channels", "act"} if pool == "diffpool" else set()
    )
    assert set(POOLERS[pool]) == set(pool_options(pool)) - decided
    assert stated(pool, {"seed": 3}) == {**POOLERS[pool], "seed": 3}
    assert POOLERS["mincut"]["ortho_weight"] == POOLERS["mincut"]["cut_weight"] == 1.0


def test_variants_have_settings_and_files_of_their_own(data: str, tmp_path: Path) -> None:
    names = ["mincut", "mincut-nolosses", "mincut-diagonal"]
    classification.run(tmp_path, [SMALL], names, 1, settings=QUICK, data=data)
    (plain,) = read(tmp_path / "table2_runs.json")
    assert plain["settings"]["k"] == [29, 14] and {"clusters1", "clusters2"} <= set(plain)
    diagonal, bare = read(tmp_path / "table2_ablation_runs.json")
    assert (diagonal["method"], bare["method"]) == ("mincut-diagonal", "mincut-nolosses")
    assert bare["settings"]["pool_args"] == {"cut_weight": 0.0, "ortho_weight": 0.0}
    assert bare["loss"] == bare["task"]  # the losses are off, and recorded all the same
    assert bare["ortho1"] > 0
    terms = sum(plain[name] for name in ("task", "cut1", "ortho1", "cut2", "ortho2"))
    assert plain["loss"] == pytest.approx(terms, abs=1e-4)
    assert diagonal["cut2"] != plain["cut2"]
    curve = read(tmp_path / "table2_curves.json")[0]  # of this fold alone
    at = plain["best_epoch"] - 1
    assert plain["validation_accuracy"] == pytest.approx(curve["accuracy"][at], abs=0.01)
    assert curve["loss"] == [round(value, 4) for value in curve["loss"]]
    assert curve["accuracy"] == [round(value, 2) for value in curve["accuracy"]]
    numbers = [value for run in (plain, diagonal, bare) for value in run.values() if type(value) is float]
    assert numbers == [round(value, 6) for value in numbers]
    cells = read(tmp_path / "table2_ablation.json")
    assert {cell["method"] for cell in cells} == {"mincut-nolosses", "mincut-diagonal"}
    assert len(read(tmp_path / "table2.json")) == 1


def test_one_seed_gives_identical_runs_and_curves_are_means_over_folds(data: str, tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    contents = []

    def watch(job: str, folds: object, state: object) -> None:
        values = state.validation  # type: ignore[attr-defined]
        seen.append((values["loss"].mean(), 100 * values["accuracy"].mean()))

    for folder in (tmp_path / "one", tmp_path / "two"):
        seen.clear()
        classification.run(folder, [SMALL], ["mincut", "topk"], 2, settings=QUICK, data=data, progress=watch)
        runs, curves = read(folder / "table2_runs.json"), read(folder / "table2_curves.json")
        contents.append([*without_seconds(runs), *curves])
    assert contents[0] == contents[1]
    assert [curve["training"] for curve in curves] == [[2, 2], [2, 2]]
    for name, place in (("loss", 0), ("accuracy", 1)):
        values = [value for curve in curves for value in curve[name]]
        assert values == pytest.approx([means[place] for means in seen], abs=1e-2)


@pytest.mark.parametrize("methods", ["wl dense nopool", "wl dense nopool topk"])  # five others, or more
def test_what_is_not_finished_is_named(methods: str, monkeypatch, tmp_path: Path, capsys) -> None:
    done = {"dataset": "dd", "method": "wl", "metric": "acc", "mean": 1.0, "std": 0.0, "n": 10}
    short = {**done, "method": "dense", "n": 9}
    monkeypatch.setattr(classification, "run", lambda *given, **options: [done, short])
    words = f"--dataset DD PROTEINS --method {methods} --device cpu --out {tmp_path}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "cell_table", lambda made, title, digits: f"{title}, {digits} digits")
        classification.main(words.split())
    names = [f"{d}: {m}" for d in ("DD", "PROTEINS") for m in methods.split()][1:]
    shown = ", ".join(names[:5]) + ("" if len(names) == 5 else f" and {len(names) - 5} more")
    out = capsys.readouterr().out
    assert f"not finished: {shown}. The same" in out and "in percent, 1 digits" in out


def test_large_graphs_train_in_groups_on_a_cpu(data: str, tmp_path: Path, monkeypatch) -> None:
    """Each group is recorded when it is done, and the accuracies are those of all folds together."""
    classification.run(tmp_path / "together", [SMALL], ["mincut"], 3, settings=QUICK, data=data)
    monkeypatch.setattr(classification, "folds_at_once", lambda *given: 2)
    said: list[str] = []
    checkpoints = set()

    def noted(*given, checkpoint, **options):
        checkpoints.add(checkpoint)
        return train_folds(*given, checkpoint=checkpoint, **options)

    monkeypatch.setattr(classification, "train_folds", noted)
    options = {"settings": QUICK, "data": data, "tell": said.append}
    classification.run(tmp_path / "groups", [SMALL], ["mincut"], 3, **options)
    assert [line.rpartition("folds ")[2] for line in said if "folds " in line] == ["0, 1", "2"]
    assert len(checkpoints) == 2  # one cannot be taken for the other's
    together, groups = (read(tmp_path / folder / "table2_runs.json") for folder in ("together", "groups"))
    for one, other in zip(together, groups, strict=True):
        assert one["validation_loss"] == pytest.approx(other["validation_loss"], abs=1e-4)


def test_every_change_reaches_the_settings() -> None:
    name = "topk+batch=8+lr=0.01+epochs=3+patience=4+l2=0+hidden=7+k=5,2"
    name += "+stop_on=task+connect=two_hop+degree=log"
    method, settings = table2.network_of(name, ClassifierSettings())
    assert method == "topk"
    assert settings == ClassifierSettings(
        batch=8, lr=0.01, epochs=3, patience=4, l2=0.0, hidden=7, k=(5, 2), stop_on="task",
        pool_args={"connect": "two_hop"},
    )  # fmt: skip
    assert read_trial(name)[1]["degree"] == "log"
    settings = table2.network_of("mincut+temperature=0.1+keep_diagonal=True", ClassifierSettings())[1]
    assert settings.pool_args == {"temperature": 0.1, "keep_diagonal": True}
    assert table2.network_of("mincut+table", ClassifierSettings()) == ("mincut", ClassifierSettings())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wl+lr=1", "must begin with a network"),
        ("mincut+", "must change one of batch, lr"),
        ("mincut+connect=two_hop", "temperature, cut_weight, ortho_weight, .* not connect"),
        ("mincut+lr", "must give lr one value, as in lr=VALUE"),
        ("mincut+lr=1+lr=2", "must give lr one value"),
        ("mincut+lr=fast", "lr must be a number, not 'fast'"),
        ("mincut+batch=0", "batch must be positive, got 0"),
        ("mincut+k=a", "k must be a number, not 'a'"),
        ("mincut+stop_on=luck", "stop_on must be one of loss, task, error, not 'luck'"),
    ],
)
def test_bad_names_are_one_sentence(name: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        table2.check_methods([name])


def test_forms_of_the_degree() -> None:
    """Everything but the degree stays; the degree is what the plain formula says."""
    star = Graph.from_edges([[0, 0, 0, 0], [1, 2, 3, 4]], x=[[9.0], [8.0], [7.0], [6.0], [5.0]])
    path = Graph.from_edges([[0, 1], [1, 2]], x=[[4.0], [3.0], [2.0]])
    plain = with_structure(from_graphs([star, path]))
    degree = np.array([4, 1, 1, 1, 1, 1, 2, 1])
    seen, log, capped = (with_degree(plain, how) for how in ("seen", "log", "2"))
    rest = plain.dense_features()[:, 5:]
    for graphs, width in ((seen, 3), (log, 1), (capped, 3)):
        assert graphs.num_features == width + 2
        assert np.array_equal(graphs.dense_features()[:, -2:], rest)
        assert np.array_equal(graphs.col, plain.col)
    assert np.array_equal(seen.dense_features()[:, :3], degree[:, None] == [1, 2, 4])
    assert np.array_equal(capped.dense_features()[:, :3], np.minimum(degree, 2)[:, None] == [0, 1, 2])
    plainly = np.log(1 + degree)
    assert np.allclose(log.dense_features()[:, 0], (plainly - plainly.mean()) / plainly.std(), atol=1e-6)
    assert seen.index.shape == plain.index.shape
    with pytest.raises(ParameterError, match="degree must be seen, log or at least 1, not 0"):
        with_degree(plain, "0")
    with pytest.raises(ParameterError, match="its first feature is not the degree"):
        with_degree(from_graphs([star, path]), "log")


def test_what_training_stops_on() -> None:
    """Each rule's best epoch is that with the lowest watched number."""
    rng = np.random.default_rng(0)
    ring = [[0, 1, 2, 3], [1, 2, 3, 0]]
    made = [Graph.from_edges(ring, x=rng.normal(size=(4, 3)) + 0.4 * (i % 2)) for i in range(60)]
    graphs, epochs = from_graphs(made, y=[i % 2 for i in range(60)]), {}
    short = {"batch": 8, "epochs": 20, "patience": 20, "lr": 3e-3, "hidden": 8, "k": (3, 2)}
    for rule in ("loss", "task", "error"):
        settings = ClassifierSettings(**short, stop_on=rule)
        (result,), loop = train_folds(graphs, "mincut", [0], settings=settings, count=4)
        values = {name: each[:, 0] for name, each in loop.validation.items()}
        best = epochs[rule] = result.best_epoch - 1
        assert best == values[rule].argmin()
        assert result.validation_loss == pytest.approx(values[rule][best], abs=1e-6)
        assert result.validation_task == values["task"][best]
        assert result.validation_accuracy == values["accuracy"][best]
        assert np.allclose(values["error"], 1 - values["accuracy"])
    assert len(set(epochs.values())) > 1


def test_finished_folds_are_not_repeated_and_more_can_be_asked_for(data: str, tmp_path: Path) -> None:
    said: list[str] = []
    options = {"settings": QUICK, "data": data, "tell": said.append}
    for count in (1, 2):
        (cell,) = classification.run(tmp_path, [SMALL], ["nopool"], count, **options)
        assert cell["n"] == count
    trained = [line for line in said if "folds" in line and "epoch" not in line]
    assert [line.rpartition("folds ")[2] for line in trained] == ["0", "1"]
    runs = read(tmp_path / "table2_runs.json")
    assert {run["seed"] for run in runs} == {0, 1}
    for run in runs:
        assert {"accuracy", "best_epoch", "epochs", "seconds", "commit", "device"} <= set(run)
        assert 0 <= run["accuracy"] <= 100
    other = ClassifierSettings(batch=32, epochs=1, patience=2)
    (cell,) = classification.run(tmp_path, [SMALL], ["nopool"], 1, **{**options, "settings": other})
    assert cell["n"] == 1  # other settings are other runs
    assert not list((tmp_path / "checkpoints").glob("*"))
