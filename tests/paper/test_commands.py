"""Every experiment as ``python -m softcut.paper.NAME``, where typer and rich are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from softcut.paper import autoencoder, citation, evidence, quality, synthetic

BLOCKED = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("typer", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import softcut.datasets
from softcut.datasets import attributed_communities
softcut.datasets.load = lambda name, **options: attributed_communities(60, 3, n_features=30, seed=0)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

COMMANDS = {
    "citation": ["--dataset", "cora", "--method", "mincut", "kmeans", "--max-iter", "3", "--runs", "2"],
    "quality": ["--dataset", "cora", "--method", "8 networks", "kmeans_raw", "--runs", "1"],
    "evidence": ["--dataset", "cora", "--runs", "1"],
    "synthetic": ["--max-iter", "3", "--runs", "2"],
    "autoencoder": ["--dataset", "ring", "--method", "topk", "--iterations", "3", "--runs", "2"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_runs_without_typer_and_rich(name, tmp_path):
    words = [sys.executable, "-c", BLOCKED, f"softcut.paper.{name}", *COMMANDS[name]]
    words += ["--out", str(tmp_path), "--device", "cpu"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "|---|" in done.stdout
    assert list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("module", [autoencoder, citation, evidence, quality, synthetic])
def test_a_mistake_is_one_sentence_and_exit_code_2(module, tmp_path, capsys):
    for mistake in (["--runs", "0"], ["--device", "abacus"]):
        with pytest.raises(SystemExit) as exit:
            module.main(["--out", str(tmp_path), *mistake])
        assert exit.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("softcut: ") and len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_ctrl_c_is_one_sentence_and_exit_code_130(monkeypatch, tmp_path, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic, "run", interrupted)
    with pytest.raises(SystemExit) as exit:
        synthetic.main(["--out", str(tmp_path)])
    assert exit.value.code == 130
    assert "the same command continues" in capsys.readouterr().err
