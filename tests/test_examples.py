"""Every example runs, on a small size where it takes one, and prints what it promises."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in an empty folder; what it prints, and the folder."""

    def run_example(name: str, *arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def number(pattern: str, text: str) -> float:
    match = re.search(pattern + r" ([0-9.]+\d)", text)
    assert match, text
    return float(match[1])


def test_own_csv(run, tmp_path):
    said = run("own_csv")
    assert "joined by column 'name'" in said
    assert re.search(r"verdict: (none|weak|clear), \d", said)
    assert len(re.findall(r"cluster \d: 20 people", said)) == 3  # the three clubs
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert lines[0] == "node,cluster,probability" and len(lines) == 61
    assert (tmp_path / "friends.png").read_bytes().startswith(b"\x89PNG")


def test_pyg_classifier(run):
    said = run("pyg_classifier", "150")
    assert len(re.findall(r"epoch \d+: loss", said)) == 3
    assert number("test accuracy", said.splitlines()[-1]) > 0.5  # of three classes


def test_photo(run, tmp_path):
    image = np.zeros((60, 80, 3), dtype=np.uint8)
    image[:, 40:] = (240, 200, 40)
    Image.fromarray(image).save(tmp_path / "halves.png")
    said = run("photo", "halves.png", "2")
    assert "80 x 60 pixels" in said and said.count("50% of the photo") == 2
    with Image.open(tmp_path / "photo-segments.png") as picture:
        assert picture.size == (80, 60)


def test_millions_of_edges(run):
    said = run("millions_of_edges", "10000")
    assert number("NMI with the communities", said) > 0.9


@pytest.mark.slow  # starts three processes, a quarter of a minute
def test_several_machines(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    said = run("several_machines", "300")
    assert "2 processes" in said
    assert number("NMI with the communities:", said) > 0.9
    assert len((tmp_path / "labels/labels.csv").read_text().splitlines()) == 301


def test_every_example_is_run_here_and_listed():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r"run\(\"(\w+)\"", Path(__file__).read_text()))
    listed = set(re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text()))
    assert scripts == tested == listed
