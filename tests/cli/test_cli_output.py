"""Output, all or nothing."""

import os
from pathlib import Path

import pytest

from softcut.cli.output import Output
from softcut.errors import ParameterError

FILES = ("labels.csv", "*.png")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    with pytest.raises(ParameterError, match=said):
        Output(overwrite).folder(Path(path), files)


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
            (models.staged / "m.json").write_text("half")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        fail()
    assert everything(here) == ["old", "old/a.png"]
    assert output.written == []


def test_old_results_need_a_word_and_do_not_mix(here):
    fill("result", "a.png")
    not_taken("result", "--overwrite", overwrite=False)
    fill("result", "b.png", overwrite=True)
    assert everything(here) == ["result", "result/b.png"]
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

    def locked(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("softcut.cli.output.tempfile.mkdtemp", locked)
    not_taken("locked", "Permission denied")
    with pytest.raises(ParameterError, match=r"--model-out locked/m .*Permission denied"):
        Output().model(Path("locked/m"))


def test_files_go_beside_others(here):
    (here / "other.json").write_text("1")
    output = Output()
    models = output.model(Path("m.json"))
    with output:
        (models.staged / "m.json").write_text("2")
    assert everything(here) == ["m.json", "other.json"]
    with pytest.raises(ParameterError, match=r"m\.json exists"):
        Output().model(Path("m"))
    (here / "m.safetensors").mkdir()
    with pytest.raises(ParameterError, match=r"m\.safetensors is a folder"):
        Output(overwrite=True).model(Path("m"))
    assert Output().model(None) is None


def test_a_run_that_fails_while_writing_leaves_nothing(refused, ring, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", full)
    assert "No space left on device" in refused(*ring, "--model-out", "m")


def test_the_model_may_lie_with_the_results(done, ring, tmp_path):
    words = (*ring, "--out", "all", "--model-out", "all/m", "--no-plot")
    done(*words)
    assert {"all/m.json", "all/m.safetensors", "all/labels.csv"} <= set(everything(tmp_path))
    done(*words, "--overwrite")
    done("predict", "all/m", "ring.csv", "--out", "again", "--no-plot")


def test_a_bad_place_is_refused_before_the_fit(refused, ring, monkeypatch):
    def fit(*args):
        raise AssertionError("the work began")

    monkeypatch.setattr("softcut.clustering.GraphClustering.fit", fit)
    for option in ("--out", "--model-out"):
        assert option in refused(*ring, option, "ring.csv/inside")
