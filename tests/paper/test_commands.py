"""Every experiment as ``python -m softcut.paper.NAME``, where extra packages are not installed."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from softcut.datasets import pack
from softcut.errors import ParameterError
from softcut.learning import ClassifierSettings
from softcut.paper import (
    autoencoder,
    citation,
    classification,
    evidence,
    quality,
    regression,
    segmentation,
    synthetic,
)
from softcut.paper.commands import Screen
from softcut.paper.regression import RegressionSettings

# Runs a module with some packages blocked, on generated data.
BLOCKED = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[2])
import softcut.datasets
import softcut.datasets.qm9
from helpers.molecule_samples import made_molecules
from softcut.datasets import attributed_communities
softcut.datasets.load = lambda name, **options: attributed_communities(60, 3, n_features=30, seed=0)
softcut.datasets.qm9.load_molecules = lambda data: made_molecules()
del sys.argv[:3]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
SMALL = "Bench-easy-small"
LIGHT = "typer,rich"
PACKED = "typer,rich,numba,matplotlib,safetensors,rdkit,grakel,torch_geometric"
COMMANDS = {
    "citation": (
        LIGHT,
        "--dataset cora --method mincut kmeans --max-iter 3 --runs 2",
        "| cora | mincut | nmi |",
    ),
    "quality": (LIGHT, "--dataset cora --method kmeans_raw no_fusion --runs 1", "| kmeans_raw |"),
    "evidence": (LIGHT, "--dataset cora --runs 1", "| cora |"),
    "synthetic": (LIGHT, "--max-iter 3 --runs 2", "| grid | MinCutPool |"),
    "autoencoder": (LIGHT, "--dataset ring --method topk --max-iter 3 --runs 2", "| ring | Top-K |"),
    "regression": (PACKED, "--quick --epochs 1 --molecules 100 --folds 1 --property mu", "| mu | flat ("),
    "classification": (
        PACKED,
        f"--dataset {SMALL} --folds 1 --method graclus ndp --epochs 1",
        "| bench-easy-small | ndp | acc |",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_runs_without_extra_packages(name, tmp_path, request):
    blocked, words, shown = COMMANDS[name]
    options = [word.replace("_fusion", " fusion") for word in words.split()]
    environment = dict(os.environ)
    if name == "classification":  # packed data need no sources either
        packed = str(tmp_path / "packed")
        pack.main([SMALL, "--out", packed, "--data", request.getfixturevalue("data"), "--coarse"])
        options += ["--data", packed]
        environment["SOFTCUT_DATA"] = str(tmp_path / "nowhere")
    started = [sys.executable, "-c", BLOCKED, blocked, str(Path(__file__).parents[1])]
    started += [f"softcut.paper.{name}", *options, "--out", str(tmp_path / "out"), "--device", "cpu"]
    done = subprocess.run(started, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "|---|" in done.stdout and shown in done.stdout
    assert list((tmp_path / "out").glob("*.json"))


def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    mistakes = ("--runs 0", "--device abacus", "--max-iter few", "--max-iter 0", "--max-it 3", "surplus")
    for mistake in map(str.split, mistakes):
        with pytest.raises(SystemExit) as exit:
            synthetic.main(["--out", str(tmp_path), *mistake])
        assert exit.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("softcut: ") and len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
    for screen, program in (
        (None, "python -m softcut.paper.synthetic"),
        (Screen(), "softcut reproduce synthetic"),
    ):
        with pytest.raises(SystemExit):
            synthetic.main(["--help"], screen)
        assert capsys.readouterr().out.startswith(f"usage: {program} [-h]")


TRAINING = citation, quality, regression, autoencoder, segmentation


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        *((m, {"datasets": ["corra"]}, "datasets must be among") for m in (citation, quality, evidence)),
        *((m, {"methods": ["maxcut"]}, "methods must be among") for m in TRAINING),
        (regression, {"properties": ["mass"]}, "properties must be among mu"),
        (regression, {"folds": 11}, "folds must be between 1 and 10, got 11"),
        (segmentation, {"images": 0}, "images must be at least 1"),
    ],
)
def test_unknown_names_are_refused(module, given, said, tmp_path):
    place = {"out_dir" if module is autoencoder else "out": tmp_path}
    with pytest.raises(ParameterError, match=said):
        module.run(**place, **given)


def arguments_of(module, words, monkeypatch):
    """What a command gives to the function that runs it."""
    given, parameters = {}, inspect.signature(module.run)

    def noted(*arguments, **options):
        bound = parameters.bind(*arguments, **options)
        bound.apply_defaults()
        given.update(bound.arguments)
        raise InterruptedError

    monkeypatch.setattr(module, "run", noted)
    with pytest.raises(InterruptedError):
        module.main([*words.split(), "--device", "cpu"])
    return {name: value for name, value in given.items() if name not in ("tell", "progress", "device")}


@pytest.mark.parametrize("module", [*TRAINING, classification, evidence, synthetic])
def test_a_command_without_options_makes_the_whole_table(module, monkeypatch):
    declared = {name: p.default for name, p in inspect.signature(module.run).parameters.items()}
    expected = {**declared, **({"out_dir": "results"} if module is autoencoder else {"out": "results"})}
    settings = {autoencoder: autoencoder.Settings(), classification: ClassifierSettings()}
    settings[regression] = RegressionSettings()
    expected |= {"settings": settings[module]} if module in settings else {}
    for name, value in arguments_of(module, "", monkeypatch).items():
        assert (tuple(value) if isinstance(value, list) else value) == expected[name]


SETTINGS = {"batch": 7, "epochs": 3, "lr": 0.5, "k": 5, "molecules": 100}


@pytest.mark.parametrize(
    ("module", "words", "expected"),
    [
        (
            regression,
            " ".join(f"--{n} {v}" for n, v in SETTINGS.items()),
            {"settings": RegressionSettings(**SETTINGS)},
        ),
        (regression, "--quick", {"settings": RegressionSettings(molecules=2000, epochs=10)}),
        (
            regression,
            "--quick --unmasked --k 3",
            {"settings": RegressionSettings(epochs=10, k=3, unmasked=True, molecules=2000)},
        ),
        (
            regression,
            "--folds 1 --minutes 0 --seed 0 --compile",
            {"folds": 1, "minutes": 0, "seed": 0, "compiled": True},
        ),
        (regression, "--folds 10 --minutes 0.5 --seed 7", {"folds": 10, "minutes": 0.5, "seed": 7}),
        (regression, "--property mu --property cv gap", {"properties": ["mu", "cv", "gap"]}),
        (evidence, "--runs 1 --dataset cora", {"runs": 1, "datasets": ["cora"]}),
        (synthetic, "--runs 2 --max-iter 1", {"runs": 2, "max_iter": 1}),
        (segmentation, "--images 1 --split test", {"images": 1, "split": "test"}),
    ],
)
def test_what_an_option_says(module, words, expected, monkeypatch):
    given = arguments_of(module, words, monkeypatch)
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (regression, "--folds 0", "--folds must be a whole number from 1 to 10, got '0'."),
        (regression, "--folds 11", "--folds must be a whole number from 1 to 10, got '11'."),
        (regression, "--k -1", "--k must be a whole number of at least 0, got '-1'."),
        (regression, "--k 0", "k must be positive, got 0."),
        (regression, "--lr -0.1", "--lr must be a number of at least 0, got '-0.1'."),
        (regression, "--minutes -1", "--minutes must be a number of at least 0, got '-1'."),
        (regression, "--seed -1", "--seed must be a whole number of at least 0, got '-1'."),
        (regression, "--seed 0.5", "--seed must be a whole number of at least 0, got '0.5'."),
        (segmentation, "--images 0", "--images must be a whole number of at least 1, got '0'."),
        (segmentation, "--split all", "--split must be one of train, val, test, got 'all'."),
        (synthetic, "surplus", "unrecognized arguments: surplus."),
    ],
)
def test_an_option_beyond_its_limits_is_refused(module, words, said, tmp_path):
    with pytest.raises(ParameterError) as refused:
        module.main([*words.split(), "--device", "cpu", "--out", str(tmp_path)], Screen())
    assert str(refused.value) == said


def test_a_folder_that_cannot_be_written_is_refused_first(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").touch()
    locked = Mock(side_effect=PermissionError(13, "Permission denied"))
    for module in (synthetic, citation, classification):
        monkeypatch.setattr(module, "run", Mock(side_effect=AssertionError("after the work")))
        with pytest.raises(ParameterError, match=r"--out .* cannot be written: .*file is a file"):
            module.main(["--out", str(tmp_path / "file" / "inside"), "--device", "cpu"], Screen())
        with monkeypatch.context() as patch:
            patch.setattr("softcut.files.tempfile.mkdtemp", locked)
            with pytest.raises(SystemExit):
                module.main(["--out", str(tmp_path), "--device", "cpu"])
        assert capsys.readouterr().err.endswith(": Permission denied.\n")


def test_ctrl_c_is_one_sentence_and_exit_code_130(monkeypatch, tmp_path, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic, "figure", interrupted)
    with pytest.raises(SystemExit) as exit:
        synthetic.main(["--out", str(tmp_path)])
    assert exit.value.code == 130
    assert "the same command continues" in capsys.readouterr().err
