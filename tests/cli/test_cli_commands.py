"""The commands other than ``cluster`` and ``predict``."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.molecule_samples import made_molecules
from PIL import Image
from rich.console import Console

from softcut.cli.console import TrainingBar, reading_bar
from softcut.datasets import qm9
from softcut.errors import ParameterError
from softcut.io.part_files import open_part, read_manifest, read_names
from softcut.metrics import ari
from softcut.paper import regression, segmentation, segmentation_figure
from softcut.report import demo
from softcut.report.html_page import Section
from softcut.segment.segmentation import MAX_PIXELS
from softcut.training import LoopProgress

SHOWN = "[b]" + "x" * 130  # no markup, and longer than a line
HAVE_METIS = importlib.util.find_spec("pymetis") is not None


def test_the_demo_runs_twice(done, refused, tmp_path, monkeypatch):
    graphs = demo.demo_graphs()
    assert [graph.name for graph, _ in graphs] == ["communities", "grid", "attributed"]
    methods = ("k-means, propagated", "softcut (default)")
    monkeypatch.setattr(demo, "demo_graphs", lambda: graphs[:1])
    monkeypatch.setattr(demo, "METHODS", {name: demo.METHODS[name] for name in methods})
    out, _ = done("demo", "--out", SHOWN)
    assert "NMI: agreement with the known communities" in out and "cut: " in out
    assert f"Pictures and results.json are in {SHOWN}/" in out.splitlines()
    files = ["communities.png", "report.html", "results.json"]
    assert out.splitlines()[-1] == f"Report: {SHOWN}/report.html"
    assert sorted(p.name for p in Path(SHOWN).iterdir()) == files
    rows = json.loads(Path(SHOWN, "results.json").read_text())
    assert [row["method"] for row in rows] == list(methods)
    for row in rows:
        assert f"{row['nmi']:.3f}" in out and f"{row['modularity']:.3f}" in out
        assert f"{row['clusters_used']} of 6" in out and f"{row['seconds']:.1f}" in out
    assert rows[1]["nmi"] > 0.9
    assert "--overwrite" in refused("demo", "--out", SHOWN)
    monkeypatch.setattr(demo, "demo_graphs", lambda: graphs[1:2])
    Path("results").mkdir()  # of other experiments: no part of the demo
    Path("results/other.json").write_text("[]")
    done("demo", "--out", SHOWN, "--overwrite")
    page = Path(SHOWN, "report.html").read_text()
    assert re.findall('<section id="([^"]+)"', page) == ["grid"]
    assert "NMI: agreement with the known communities" in page
    assert sorted(p.name for p in Path(SHOWN).iterdir()) == ["grid.png", *files[1:]]
    assert all("nmi" not in row for row in json.loads(Path(SHOWN, "results.json").read_text()))
    Path(SHOWN, "holiday.png").write_bytes(b"mine")
    assert "holiday.png" in refused("demo", "--out", SHOWN, "--overwrite")


def test_parts_are_written_and_described(done, refused, people, monkeypatch):
    _, names = people
    words = ("partition", "people.csv", "-f", "words.csv")
    out, _ = done(*words, "--parts", 3, "--out", "parts", "--seed", 1, "--method", "auto")
    manifest = read_manifest("parts")
    assert (manifest.parts, manifest.nodes, manifest.columns) == (3, 120, 30)
    assert manifest.about["method"] == ("metis" if HAVE_METIS else "contiguous")
    assert sorted(read_names("parts")) == sorted(names)
    assert sorted(np.concatenate([open_part("parts", p).nodes for p in range(3)])) == list(range(120))
    files = sorted({p.name.split(".")[0] for p in Path("parts").iterdir()})
    assert files == ["manifest", "names", "part-0", "part-1", "part-2"]
    assert f"120 nodes in 3 parts of {min(manifest.rows)} to {max(manifest.rows)} " in out
    assert f"{manifest.about['crossing_share']:.1%} of the edges cross" in out
    assert "30 features projected to 30 columns" in out
    assert f"; {sum(manifest.halo) / 120:.2f} halo rows per node\n" in out
    assert "torchrun --nproc-per-node 3 -m softcut.clustering.distributed parts -k K" in out
    assert "add --overwrite" in refused(*words, "--parts", 2, "--out", "parts")
    monkeypatch.setitem(sys.modules, "pymetis", None)
    _, err = done(*words, "--parts", 2, "--out", "parts", "--overwrite")
    assert "which is not installed (pip install 'softcut[parts]')" in err
    for parts, more in ((1, ()), (2, ("--method", "contiguous"))):  # no choice was made
        out, err = done(*words, "--parts", parts, "--out", SHOWN, "--overwrite", *more)
        assert "METIS" not in err
    assert f"-m softcut.clustering.distributed {SHOWN} -k K" in out
    seconds = re.search(rf"Written in ([\d.]+) s: {re.escape(SHOWN)}\n", out)
    assert float(seconds[1]) < 1000


def test_options_of_partition_have_an_effect(done, people):
    words = ("partition", "people.csv", "-f", "words.csv", "--parts", 2)
    done(*words, "-o", "a", "--method", "random", "--paper")
    done(*words, "-o", "b", "--method", "random", "--seed", 1)
    first, second = (open_part(folder, 0) for folder in ("a", "b"))
    assert not np.array_equal(first.nodes, second.nodes)
    np.testing.assert_allclose(first.x.sum(1)[first.x.any(1)], 1, rtol=1e-5)
    assert read_manifest("a").about["paper"] is True
    done(*words, "-o", "a", "--method", "contiguous", "--overwrite")
    assert read_manifest("a").about["method"] == "contiguous"


def test_report_writes_one_file(done, refused, tmp_path, monkeypatch):
    monkeypatch.setattr("softcut.paper.report_sections.report_sections", lambda folder: [Section("All", [])])
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "table1.json").write_text("{}")
    out, _ = done("report", "--out", f"{SHOWN}/a.html")
    assert out == f"Report: {SHOWN}/a.html ({Path(SHOWN, 'a.html').stat().st_size / 1e6:.1f} MB)\n"
    assert [p.name for p in Path(SHOWN).iterdir()] == ["a.html"]
    assert "--overwrite" in refused("report", "--out", f"{SHOWN}/a.html")
    done("report", "--out", f"{SHOWN}/a.html", "--overwrite")


def test_serve_listens_here_only_and_ends_cleanly(done, monkeypatch, tmp_path):
    uvicorn = pytest.importorskip("uvicorn")
    create_app = pytest.importorskip("softcut.serve.app").create_app
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = {}

    def serve(server, sockets):
        (listener,) = sockets
        seen["address"] = listener.getsockname()
        seen["hosts"] = server.config.app.hosts
        seen["settings"] = server.config.log_level, server.config.access_log
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        seen["folders"] = [p.name for p in tmp_path.iterdir()]
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    made = Mock(side_effect=create_app)
    monkeypatch.setattr("softcut.serve.app.create_app", made)
    out, _ = done("serve", "--port", 0)
    host, port = seen["address"]
    assert host == "127.0.0.1"
    assert (made.call_args.args[2:], made.call_args.args[0].most_running) == ((50_000_000, None), 4)
    assert seen["settings"] == ("warning", False)
    assert seen["hosts"] == {f"127.0.0.1:{port}", f"localhost:{port}"}
    assert f"http://127.0.0.1:{port} " in out and "Ended." in out
    assert seen["folders"] and not list(tmp_path.iterdir())  # removed with what was uploaded


@pytest.mark.slow
def test_a_server_of_its_own(tmp_path):
    httpx = pytest.importorskip("httpx")
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "softcut", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        assert httpx.get(address, timeout=60).status_code == 200
        assert httpx.get(address, headers={"host": "evil.example"}, timeout=60).status_code == 403
        assert list(tmp_path.glob("softcut-serve-*"))
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == "Ended.\n"
    assert not list(tmp_path.glob("softcut-serve-*"))


def test_labels_overlay_and_sizes_are_written(done, refused, photo):
    out, _ = done("segment", "photo.png", "-k", 3)
    assert "3 segments" in out and "photo-segments/overlay.png" in out
    labels = np.asarray(Image.open("photo-segments/labels.png"))
    assert ari(photo.ravel(), labels.ravel()) > 0.9
    about = json.loads(Path("photo-segments/segments.json").read_text())
    assert (about["width"], about["height"], about["method"]) == (90, 40, "mincut")
    pixels = np.asarray(Image.open("photo.png"), dtype=float)
    for number, described in enumerate(about["segments"]):
        inside = labels == number
        assert described["share"] == pytest.approx(inside.mean())
        colour = [int(described["colour"][i : i + 2], 16) for i in (1, 3, 5)]
        np.testing.assert_allclose(colour, pixels[inside].mean(0), atol=1)
        assert f"{100 * inside.mean():.1f} %" in out and described["colour"] in out
    assert Image.open("photo-segments/overlay.png").size == (90, 40)
    assert "--overwrite" in refused("segment", "photo.png", "-k", 3)
    assert 0 < about["seconds"] < 1000 and f"{about['regions']} regions" in out


def test_segment_asks_for_what_it_was_told(refused, photo, monkeypatch):
    divide = Mock(side_effect=ParameterError("enough."))
    monkeypatch.setattr("softcut.segment.segment_image", divide)
    asked = {"method": "mincut", "regions": "felzenszwalb", "texture": True, "position": False}
    for words, more in (((), {"max_pixels": MAX_PIXELS}), (("--max-pixels", 9), {"max_pixels": 9})):
        refused("segment", "photo.png", *words)
        divide.assert_called_with(Path("photo.png"), "auto", **asked, random_state=0, device="auto", **more)


def test_options_of_segment_have_an_effect(done, photo):
    words = ("--method", "ncut", "--regions", "slic", "--max-pixels", 1000, "--no-texture", "--position")
    _, err = done("segment", "photo.png", "-k", "auto", "-o", "other", *words)
    assert (
        "segments; --segments sets another number." in err
        and "1/2 of the image's size" in err
        and "--max-pixels" in err
    )
    assert json.loads(Path("other/segments.json").read_text())["method"] == "ncut"
    assert np.asarray(Image.open("other/labels.png")).shape == (40, 90)


WORDS = ("reproduce", "regression", "--quick", "--property", "mu", "--method", "mincut", "--folds", 2)


@pytest.fixture
def molecules(monkeypatch):
    monkeypatch.setattr(regression, "load_molecules", lambda data: made_molecules())


def runs(folder):
    recorded = json.loads(Path(folder, "table3_trials_runs.json").read_text())
    told = ("seconds", "command")  # the folder is part of the command
    return [{name: value for name, value in run.items() if name not in told} for run in recorded]


def test_a_quick_regression_ends_with_a_table_and_says_what_it_is(done, molecules):
    words = (*WORDS, "--property", "cv", "--epochs", 2, "--device", "cpu")
    out, err = done(*words)
    assert "not the table of the paper" in err
    assert "mincut: 4 networks, 2 epochs" in err
    assert "Table 3" in out and "mse_last" in out
    cells = json.loads(Path("results/table3_trials.json").read_text())
    assert {(c["dataset"], c["n"]) for c in cells} == {("mu", 2), ("cv", 2)}
    for cell in cells:
        assert f"{cell['mean']:.3f} ± {cell['std']:.3f}" in out
    assert not Path("results/table3.json").exists()
    _, err = done(*words)
    assert "networks" not in err  # nothing is left to train
    out, err = done(*words, "--minutes", 0, "-o", "none")
    assert out == "" and "The same command continues" in err


@pytest.mark.parametrize("press_at", [1, 4])
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(run, done, molecules, monkeypatch, press_at):
    words = (*WORDS, "--epochs", 6, "--device", "cpu")
    seen = []

    def press(bar, job, folds, state):
        seen.append(state)
        if len(seen) == press_at:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "update", press)
        code, out, err = run(*words, "-o", "stopped")
    assert (code, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err
    assert list(Path("stopped/checkpoints").glob("*.pt"))
    done(*words, "-o", "stopped")
    done(*words, "-o", "straight")
    assert runs("stopped") == runs("straight")
    assert not list(Path("stopped/checkpoints").glob("*.pt"))


def test_missing_data_and_missing_rdkit_are_one_sentence(run, tmp_path, monkeypatch):
    for said in (
        "'QM9' is not in",
        "reading molecules from SMILES needs the package 'rdkit': run pip install 'softcut[molecules]' "
        "(in a clone of the source: pip install -e '.[molecules]').",
    ):
        code, out, err = run(*WORDS, "--data", tmp_path)
        assert (code, out) == (2, "")
        assert said in " ".join(err.split()).partition("softcut: ")[2]
        (tmp_path / "qm9").mkdir(exist_ok=True)
        (tmp_path / "qm9/qm9.csv.gz").write_bytes(b"")
        monkeypatch.setattr(qm9.fetching, "check_sha256", lambda *given: None)
        monkeypatch.setitem(sys.modules, "rdkit", None)
        monkeypatch.setitem(sys.modules, "rdkit.Chem", None)


def test_a_classification_ends_with_a_table_and_resumes(done, data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["reproduce", "classification", "--dataset", "bench_easy_small", "--epochs", 2, "--device", "cpu"]
    out, err = done(*words, "--method", "nopool", "--method", "wl", "--folds", 1)
    assert "Table 2" in out and "nopool, folds 0" in err
    cells = json.loads(Path("results/table2.json").read_text())
    assert {(c["method"], c["n"]) for c in cells} == {("nopool", 1), ("wl", 1)}
    assert all(f"{cell['mean']:.1f}" in out for cell in cells)
    _, err = done(*words, "--method", "nopool", "--folds", 2)
    assert "nopool, folds 1" in err  # the other fold is not repeated
    _, err = done(*words, "--method", "mincut", "--folds", 2, "--minutes", 0)
    assert "not finished: Bench-easy-small: mincut. The same command continues" in " ".join(err.split())


def test_segmentation_passes_its_options_on(done, monkeypatch):
    asked = Mock(return_value=[])
    monkeypatch.setattr(segmentation, "run", asked)
    monkeypatch.setattr(segmentation_figure, "draw", lambda out, **options: [f"{out}/picture.png"])
    words = ("--method", "mincut", "--images", 3, "--minutes", 1, "--split", "test", "-o", "there")
    out, _ = done("reproduce", "segmentation", *words)
    (folder, methods), options = asked.call_args
    assert (folder, methods) == ("there", ["mincut"])
    assert (options["images"], options["minutes"], options["split"]) == (3, 1.0, "test")
    assert "there/picture.png" in out and "gPb-owt-ucm" in out
    assert "Picture" not in done("reproduce", "segmentation", "--no-figure")[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_bars(terminal):
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, width=160)
    errors, hits = {"mse": np.array([0.2, 0.4])}, {"accuracy": np.array([0.5, 0.75])}
    with TrainingBar(console, jobs=4) as bar:
        bar.update("topk", range(2), LoopProgress(20, 50, {}, errors, (0, 1)))
        bar.update("topk", range(2, 4), LoopProgress(50, 50, {}, errors, (0, 1)))
        bar.update("mincut", range(2), LoopProgress(50, 50, {}, errors, (0, 1)))
        bar.update("PROTEINS mincut", range(3), LoopProgress(50, 50, {}, hits, (0, 1)))
        bar.update("molecules", range(1), LoopProgress(50, 50, {}, {"task": np.array([0.7])}, (0,)))
        bar.tell(SHOWN)
    shown = screen.getvalue()
    screen.truncate(0)
    with TrainingBar(console) as bar:
        bar.comparing(5, range(2, 13))
    with TrainingBar(console) as bar:
        losses = {"cut": np.array([-0.5, -1]), "ortho": np.array([0.25])}
        bar(SimpleNamespace(iteration=30, iterations=30, seconds_left=0.4, **losses))
        assert "at most" not in screen.getvalue()
        bar(SimpleNamespace(iteration=10, iterations=30, seconds_left=12.4, **losses))
    shown += screen.getvalue()
    for text in (
        *("topk (1 of 4)", "at most", "mincut (2 of 4)", "PROTEINS mincut (3 of 4)", "30/30"),
        *("1 networks, validation MSE 0.700", "2 networks, validation MSE 0.300"),
        *("molecules (4 of 4)", "2 of 3 folds training, validation accuracy 62.5 %"),
        *("training  loss -0.750  ortho 0.250", "comparing", "5 clusters", "10/30, at most 12 s left"),
    ):
        assert (text in shown) is terminal
    assert terminal or shown == f"{SHOWN}\n"
    with reading_bar(console) as told:
        assert callable(told) is terminal
        if terminal:
            told(5, 10)
    assert ("reading" in screen.getvalue()) is terminal


def test_report_names_the_results_of_another_command(done, refused, ring):
    done(*ring, "--out", "mine")
    said = refused("report", "--results", "mine")
    assert (
        "mine holds the output of softcut cluster; its own page is written by softcut cluster --report"
        in said
    )
    assert "This report is about the paper's experiments" in said


def test_a_model_of_the_other_kind_is_named(done, refused, ring, shapes):
    shapes("shapes", 12)
    done("classify", "shapes", "--epochs", 1, "--model-out", "judge")
    done(*ring, "--model-out", "places")
    said = refused("predict", "judge", "ring.csv", "--out", "out")
    assert "judge is a classifier of graphs: use it with softcut classify" in said
    said = refused("classify", "shapes", "--model", "places", "--out", "out")
    assert "places is a clustering of nodes (GraphClustering)" in said and "softcut predict" in said
