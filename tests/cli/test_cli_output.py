"""Output, all or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from softcut.cli import cluster as results
from softcut.cli.output import Output
from softcut.errors import ParameterError

FILES = ("labels.csv", "*.png")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def fill(path, name, overwrite=False, files=FILES):
    output = Output(overwrite)
    folder = output.folder(Path(path), files)
    with output:
        (folder.staged / name).write_text(name)


def test_a_folder_appears_whole(here):
    output = Output()
    folder = output.folder(Path("deep/in/result"), FILES)
    with output:
        (folder.staged / "labels.csv").write_text("1")
        assert not (here / "deep").exists()
    assert everything(here) == ["deep", "deep/in", "deep/in/result", "deep/in/result/labels.csv"]
    umask = os.umask(0)
    os.umask(umask)
    assert (here / "deep/in/result").stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_failure_leaves_nothing(here):
    fill("old", "a.png")
    output = Output(overwrite=True)
    folder = output.folder(Path("old"), FILES)
    models = output.files("--model-out", Path("m"), ["m.json"])

    def fail():
        with output:
            (folder.staged / "labels.csv").write_text("half")
            (models.staged / "m.json").write_text("half")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        fail()
    assert everything(here) == ["old", "old/a.png"]


def test_old_results_need_a_word_and_do_not_mix(here):
    fill("result", "a.png")
    with pytest.raises(ParameterError, match="--overwrite"):
        Output().folder(Path("result"), FILES)
    fill("result", "b.png", overwrite=True)
    assert everything(here) == ["result", "result/b.png"]


def test_other_files_are_never_replaced(here):
    fill("result", "a.png")
    (here / "result" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ParameterError, match=r"thesis\.tex"):
            Output(overwrite).folder(Path("result"), FILES)


def test_an_empty_folder_is_filled(here):
    (here / "result").mkdir()
    fill("result", "a.png")
    assert everything(here) == ["result", "result/a.png"]


def test_a_link_is_followed(here):
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    fill("link", "a.png")
    assert (here / "link").is_symlink()
    assert (here / "real" / "a.png").exists()


def test_the_folder_we_are_in_is_refused(here):
    (here / "inside").mkdir()
    os.chdir(here / "inside")
    for name in (".", "..", "../.."):
        with pytest.raises(ParameterError, match="the folder you are in"):
            Output(overwrite=True).folder(Path(name), ("*",))


def test_files_go_beside_others(here):
    (here / "other.json").write_text("1")
    output = Output()
    models = output.files("--model-out", Path("m"), ["m.json"])
    with output:
        (models.staged / "m.json").write_text("2")
    assert everything(here) == ["m.json", "other.json"]
    with pytest.raises(ParameterError, match=r"m\.json exists"):
        Output().files("--model-out", Path("m"), ["m.json"])
    Output(overwrite=True).files("--model-out", Path("m"), ["m.json"])


def test_a_place_that_cannot_be_written_is_refused_at_once(here, monkeypatch):
    (here / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        Output().folder(Path("file"), FILES)
    with pytest.raises(ParameterError, match="is a file"):
        Output().folder(Path("file/inside"), FILES)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("softcut.cli.output.tempfile.mkdtemp", refuse)
    with pytest.raises(ParameterError, match="Permission denied"):
        Output().folder(Path("locked"), FILES)
    with pytest.raises(ParameterError, match="Permission denied"):
        Output().files("--model-out", Path("locked/m"), ["m.json"])


def test_a_run_that_fails_while_writing_leaves_nothing(run, ring, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results.np, "save", full)
    code, _, err = run(*ring, "--model-out", "m")
    assert code == 2
    assert "softcut: No space left on device." in err
    assert everything(tmp_path) == ["ring.csv"]


def test_the_model_may_lie_with_the_results(run, ring, tmp_path):
    words = (*ring, "--out", "all", "--model-out", "all/m", "--no-plot")
    assert run(*words)[0] == 0
    assert {"all/m.json", "all/m.safetensors", "all/labels.csv"} <= set(everything(tmp_path))
    assert run(*words, "--overwrite")[0] == 0
    assert run("predict", "all/m", "ring.csv", "--out", "again", "--no-plot")[0] == 0


def test_a_bad_place_is_refused_before_the_fit(run, ring, monkeypatch):
    def fit(*args):
        raise AssertionError("the work began")

    monkeypatch.setattr("softcut.clustering.GraphClustering.fit", fit)
    for option in ("--out", "--model-out"):
        code, _, err = run(*ring, option, "ring.csv/inside")
        assert code == 2
        assert option in err
