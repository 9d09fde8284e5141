"""Output, all or nothing, also after Ctrl-C: the first keeps what was learnt, the second leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.refusals import refuses

from softcut.cli.cluster import bytes_of_results, cluster_counts, limit_of
from softcut.cli.console import TrainingBar, show_summary
from softcut.cli.interrupts import Interrupts, Stopped
from softcut.cli.output import Output
from softcut.errors import ModelFileError, ParameterError
from softcut.graph import Graph
from softcut.io import write_model
from softcut.metrics.summary import summarise

FILES = ("labels.csv", "*.png")


def everything(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def fill(path, name, overwrite=False):
    output = Output(overwrite)
    folder = output.folder(Path(path), FILES)
    with output:
        (folder.staged / name).write_text(name)
        assert not Path(path, name).exists()
    assert output.written == [Path(path, name).resolve()]


def not_taken(path, said, overwrite=True, files=FILES):
    refuses(ParameterError, said, Output(overwrite).folder, Path(path), files)


def test_a_folder_appears_whole(here):
    fill("deep/in/result", "labels.csv")
    assert everything(here) == ["deep", "deep/in", "deep/in/result", "deep/in/result/labels.csv"]
    umask = os.umask(0)
    os.umask(umask)
    assert (here / "deep/in/result").stat().st_mode & 0o777 == 0o777 & ~umask
    (here / "real").mkdir()  # an empty folder is filled, a link to it is followed
    (here / "link").symlink_to("real")
    fill("link", "a.png")
    assert (here / "link").is_symlink()
    assert everything(here / "real") == ["a.png"]


def test_a_failure_leaves_nothing(here):
    fill("old", "a.png")
    output = Output(overwrite=True)
    folder, models = output.folder(Path("old"), FILES), output.model(Path("m"))

    def fail():
        with output:
            (folder.staged / "labels.csv").write_text("half")
            (models.staged / "m.safetensors").write_text("half")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        fail()
    assert everything(here) == ["old", "old/a.png"]
    assert output.written == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot exchange two folders")
def test_a_folder_is_replaced_in_one_step(here, monkeypatch):
    fill("result", "a.png")
    monkeypatch.setattr(Path, "rename", Mock(side_effect=AssertionError("killed between two steps")))
    fill("result", "b.png", overwrite=True)
    assert everything(here) == ["result", "result/b.png"]


def test_old_results_need_a_word_and_do_not_mix(here, monkeypatch):
    monkeypatch.setattr("softcut.cli.output.exchange", lambda one, other: False)  # as on other systems
    fill("result", "a.png")
    not_taken("result", "--overwrite", overwrite=False)
    fill("result", "b.png", overwrite=True)
    assert everything(here) == ["result", "result/b.png"]
    rename = Path.rename

    def stuck(old, new):
        return rename(old if old.name in ("result", "old") else here / "none", new)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stuck)
        with pytest.raises(FileNotFoundError):
            fill("result", "c.png", overwrite=True)
    assert everything(here) == ["result", "result/b.png"]  # the old ones come back
    (here / "result" / "thesis.tex").write_text("years of work")  # other files are never replaced
    for overwrite in (False, True):
        not_taken("result", r"thesis\.tex", overwrite)


def test_bad_places_are_refused_at_once(here, monkeypatch):
    (here / "file").write_text("")
    not_taken("file", "is a file")
    not_taken("file/inside", "is a file")
    (here / "inside").mkdir()
    os.chdir(here / "inside")
    for name in (".", "..", "../.."):
        not_taken(name, "the folder you are in", files=("*",))
    locked = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("softcut.files.tempfile.mkdtemp", locked)
    not_taken("locked", "Permission denied")
    refuses(
        ParameterError,
        r"--model-out locked/m.safetensors .*Permission denied",
        Output().model,
        Path("locked/m"),
    )


def test_files_go_beside_others(here):
    (here / "other.json").write_text("1")
    output = Output()
    models = output.model(Path("m"))
    with output:
        write_model(models.staged / "m", {}, {})
    assert everything(here) == ["m.safetensors", "other.json"]
    refuses(ParameterError, r"m\.safetensors exists", Output().model, Path("m"))
    assert Output(overwrite=True).model(Path("m")) is not None
    (here / "m.safetensors").write_text("of another program")
    refuses(ModelFileError, "is not replaced", Output(overwrite=True).model, Path("m"))
    (here / "n.safetensors").mkdir()
    refuses(ParameterError, r"n\.safetensors is a folder", Output(overwrite=True).model, Path("n"))
    refuses(ModelFileError, "is one .safetensors file", Output().model, Path("other.json"))
    assert Output().model(None) is None


def test_a_run_that_fails_while_writing_leaves_nothing(refused, ring, monkeypatch):
    monkeypatch.setattr("numpy.save", Mock(side_effect=OSError(28, "No space left on device")))
    sentence = refused(*ring, "--model-out", "m")
    assert sentence.endswith("ring-clusters cannot be written: No space left on device.")


def test_a_disk_without_room_is_refused_before_the_fit(refused, ring, monkeypatch):
    monkeypatch.setattr("softcut.files.shutil.disk_usage", Mock(return_value=Mock(free=1_000_000)))
    monkeypatch.setattr("softcut.GraphClustering.fit", Mock(side_effect=AssertionError("after the fit")))
    assert "the results take about 1.0 MB, and " in refused(*ring)


def test_read_only_results_are_refused_before_the_fit(here, refused, done, ring, monkeypatch):
    done(*ring)
    monkeypatch.setattr("softcut.GraphClustering.fit", Mock(side_effect=AssertionError("after the fit")))
    make = tempfile.mkdtemp

    def locked(dir, prefix):
        if dir.name == "ring-clusters":
            raise PermissionError(13, "Permission denied")
        return make(dir=dir, prefix=prefix)

    with monkeypatch.context() as patch:
        patch.setattr("softcut.files.tempfile.mkdtemp", locked)
        assert "ring-clusters: Permission denied" in refused(*ring, "--overwrite")
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "ring-clusters")
    assert "is a mounted disk and cannot be replaced" in refused(*ring, "--overwrite")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "r", "--export", "r/metrics.json"), "--export r/metrics.json would replace metrics.json"),
        (
            ("--out", "m.safetensors", "--model-out", "m"),
            "--model-out m.safetensors would replace m.safetensors of --out",
        ),
    ],
)
def test_two_results_of_one_name_are_refused_before_the_fit(refused, ring, monkeypatch, words, said):
    monkeypatch.setattr("softcut.GraphClustering.fit", Mock(side_effect=AssertionError("after the fit")))
    assert said in refused(*ring, *words)


def test_the_model_may_lie_with_the_results(done, ring, tmp_path):
    words = (*ring, "--out", "all", "--model-out", "all/m", "--no-plot")
    done(*words)
    assert {"all/m.safetensors", "all/labels.csv"} <= set(everything(tmp_path))
    done(*words, "--overwrite")
    done("predict", "all/m", "ring.csv", "--out", "again", "--no-plot")


def test_a_bad_place_is_refused_before_the_fit(refused, ring, monkeypatch):
    fit = Mock()
    monkeypatch.setattr("softcut.clustering.GraphClustering.fit", fit)
    for option in ("--out", "--model-out"):
        assert option in refused(*ring, option, "ring.csv/inside")
    assert "is one .safetensors file" in refused(*ring, "--model-out", "ring-clusters/metrics.json")
    fit.assert_not_called()


LONG = ("--model-out", "m", "--paper", "--max-iter", 1000)


@pytest.fixture
def pressed_while_training(monkeypatch):
    monkeypatch.setattr(TrainingBar, "__call__", lambda bar, state: signal.raise_signal(signal.SIGINT))


def press(*args, **kwargs):
    signal.raise_signal(signal.SIGINT)


def test_what_was_learnt_is_written(run, ring, tmp_path, pressed_while_training):
    code, out, err = run(*ring, *LONG)
    assert code == 130
    metrics = json.loads((tmp_path / "ring-clusters" / "metrics.json").read_text())
    assert metrics["interrupted"] is True
    assert 0 < metrics["iterations"] < 1000
    assert "interrupted" in out
    assert (tmp_path / "m.safetensors").exists()
    assert "Traceback" not in err


def test_a_second_press_leaves_nothing(run, ring, tmp_path, pressed_while_training, monkeypatch):
    monkeypatch.setattr("numpy.save", press)
    code, out, err = run(*ring, *LONG)
    assert (code, out) == (130, "")
    assert err.endswith("softcut: interrupted.\n")
    assert everything(tmp_path) == ["ring.csv"]


def test_a_press_before_the_training_leaves_nothing(run, ring, tmp_path, monkeypatch):
    monkeypatch.setattr("softcut.io.read_graph", press)
    assert run(*ring, *LONG) == (130, "", "softcut: interrupted.\n")
    assert everything(tmp_path) == ["ring.csv"]


# Does something when a module is looked for.
WATCH = """
import ctypes, importlib.abc, runpy, signal, sys
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            {do}
sys.meta_path.insert(0, Watch())
"""
PRESS = "signal.raise_signal(signal.SIGINT)"
MAIN = "from softcut.cli import main\nmain()\n"


def ended(folder, program):
    """Exit code, standard output and standard error of a program of its own."""
    (folder / "program.py").write_text(program)
    words = [sys.executable, "-m", "program"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    return done.returncode, done.stdout, done.stderr


# Python would end itself with a signal after this, as it does when torch is interrupted while it is loaded.
INSIDE_A_LIBRARY = WATCH.format(module="typer", do='run(b"raise KeyboardInterrupt", 257, {}, {})')
INSIDE_A_LIBRARY += """
run = ctypes.pythonapi.PyRun_String
run.restype = ctypes.py_object
run.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object]
"""
WHILE_IT_ENDS = """
import atexit, signal, softcut.cli.app
def pressed():
    raise KeyboardInterrupt
softcut.cli.app.run = pressed
atexit.register(signal.raise_signal, signal.SIGINT)
"""
IMPORTED = ("softcut.cli.interrupts", "typer", "rich.console", "softcut.cli.app")
WHILE_IMPORTING = [WATCH.format(module=module, do=PRESS) for module in IMPORTED]


@pytest.mark.parametrize("program", [*WHILE_IMPORTING, INSIDE_A_LIBRARY, WHILE_IT_ENDS])
def test_a_press_at_any_time_is_one_word_and_exit_code_130(tmp_path, program):
    assert ended(tmp_path, program + MAIN) == (130, "", "softcut: interrupted.\n")


def test_a_reader_that_has_enough_is_no_mistake(tmp_path):
    program = "import softcut.cli.app as a\ndef app(**given):\n    raise BrokenPipeError\na.app = app\n"
    assert ended(tmp_path, program + MAIN) == (1, "", "")


def test_python_m_softcut_is_quiet_from_its_first_line(tmp_path):
    program = WATCH.format(module="softcut.cli", do=PRESS)
    program += 'runpy.run_module("softcut", run_name="__main__", alter_sys=True)\n'
    assert ended(tmp_path, program) == (130, "", "")


def test_presses_are_counted_and_the_old_answer_comes_back():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            press()
        with interrupts.shielded():
            press()
        with pytest.raises(Stopped):
            press()
        assert interrupts.count == 3
    assert signal.getsignal(signal.SIGINT) is before
    with interrupts:
        assert interrupts.count == 0


# ------------------------------------------------------------------------------------------- what was asked for


def test_numbers_of_clusters_and_the_room_that_they_take():
    asked = {"auto": "auto", "3": 3, "2:5": range(2, 6), "7:2": range(7, 3)}
    assert {text: cluster_counts(text) for text in asked} == asked
    refuses(ParameterError, "--clusters must be a whole number, .* got '2:x'", cluster_counts, "2:x")
    ring = Graph.from_edges([range(10), [*range(1, 10), 0]])
    # 64 bytes of a node and 8 for each of its clusters; "auto" begins with 2, and there are 10 at most.
    for clusters, k in ((3, 3), (range(2, 6), 5), (range(7, 3), 0), ("auto", 2), (50, 10)):
        assert bytes_of_results(ring, clusters) == 10 * (64 + 8 * k) + 10**6


def test_a_limit_is_a_name_and_a_number():
    assert limit_of("n-init=50000") == limit_of("n_init=50000") == ("n_init", 50_000)
    for text in ("n_init", "n_init=", "other=3"):
        refuses(ParameterError, f"--limit {text} must be NAME=NUMBER, with one of ", limit_of, text)
    refuses(ParameterError, "--limit must be NAME=NUMBER, got 'n_init=x'", limit_of, "n_init=x")


@pytest.mark.parametrize(("clusters", "said"), [(12, ""), (15, "and 3 more clusters: clusters.csv has all")])
def test_twelve_clusters_are_printed(capsys, clusters, said):
    ring = Graph.from_edges([range(60), [*range(1, 60), 0]])
    show_summary(summarise(ring, [i % clusters for i in range(60)]))
    printed = capsys.readouterr().out
    assert printed.startswith(f"60 nodes in {clusters} clusters.\n\ncluster 0: ")
    assert printed.count("typical:") == 12 and "cluster 11: " in printed and "cluster 12: " not in printed
    assert said in printed and ("more clusters" in printed) == bool(said)
