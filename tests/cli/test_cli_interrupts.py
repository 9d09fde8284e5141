"""Ctrl-C: the first keeps what was learnt, the second leaves nothing; no traceback."""

import json
import signal
import subprocess
import sys

import pytest

from softcut.cli.console import TrainingBar
from softcut.cli.interrupts import Interrupts, Stopped

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
    assert [p.name for p in tmp_path.iterdir()] == ["ring.csv"]


def test_a_press_before_the_training_leaves_nothing(run, ring, tmp_path, monkeypatch):
    monkeypatch.setattr("softcut.io.read_graph", press)
    assert run(*ring, *LONG) == (130, "", "softcut: interrupted.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["ring.csv"]


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


@pytest.mark.parametrize("module", ["softcut.cli.interrupts", "typer", "rich.console", "softcut.cli.app"])
def test_a_press_while_importing_is_quiet(tmp_path, module):
    program = WATCH.format(module=module, do=PRESS) + MAIN
    assert ended(tmp_path, program) == (130, "", "softcut: interrupted.\n")


def test_a_press_inside_a_library_ends_with_the_same_code(tmp_path):
    # Python would end itself with a signal after this, as it does when torch is interrupted while it is loaded.
    program = WATCH.format(module="typer", do='run(b"raise KeyboardInterrupt", 257, {}, {})')
    program += """
run = ctypes.pythonapi.PyRun_String
run.restype = ctypes.py_object
run.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object]
"""
    assert ended(tmp_path, program + MAIN) == (130, "", "softcut: interrupted.\n")


def test_a_press_while_the_program_ends_changes_nothing(tmp_path):
    program = """
import atexit, signal, softcut.cli.app
def pressed():
    raise KeyboardInterrupt
softcut.cli.app.run = pressed
atexit.register(signal.raise_signal, signal.SIGINT)
"""
    assert ended(tmp_path, program + MAIN) == (130, "", "softcut: interrupted.\n")


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
