"""``softcut demo``, ``partition``, ``report`` and ``serve``."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softcut.io.part_files import open_part, read_manifest, read_names
from softcut.report import demo
from softcut.report.html_page import Section

HAVE_METIS = importlib.util.find_spec("pymetis") is not None


def test_the_demo_runs_twice(done, refused, tmp_path, monkeypatch):
    graphs = demo.demo_graphs()
    assert [graph.name for graph, _ in graphs] == ["communities", "grid", "attributed"]
    methods = ("k-means, propagated", "softcut (default)")
    monkeypatch.setattr(demo, "demo_graphs", lambda: graphs[:1])
    monkeypatch.setattr(demo, "METHODS", {name: demo.METHODS[name] for name in methods})
    out, _ = done("demo", "--out", "shown")
    files = ["communities.png", "report.html", "results.json"]
    assert out.splitlines()[-1] == "Report: shown/report.html"
    assert sorted(p.name for p in Path("shown").iterdir()) == files
    rows = json.loads(Path("shown/results.json").read_text())
    assert [row["method"] for row in rows] == list(methods)
    for row in rows:
        assert f"{row['nmi']:.3f}" in out and f"{row['modularity']:.3f}" in out
        assert f"{row['clusters_used']} of 6" in out and f"{row['seconds']:.1f}" in out
    assert rows[1]["nmi"] > 0.9
    assert "--overwrite" in refused("demo", "--out", "shown")
    monkeypatch.setattr(demo, "demo_graphs", lambda: graphs[1:2])
    done("demo", "--out", "shown", "--overwrite")
    assert sorted(p.name for p in Path("shown").iterdir()) == ["grid.png", *files[1:]]
    assert all("nmi" not in row for row in json.loads(Path("shown/results.json").read_text()))
    Path("shown/holiday.png").write_bytes(b"mine")
    assert "holiday.png" in refused("demo", "--out", "shown", "--overwrite")


def test_parts_are_written_and_described(done, refused, people, monkeypatch):
    _, names = people
    words = ("partition", "people.csv", "-f", "words.csv")
    out, _ = done(*words, "--parts", 3, "--out", "parts", "--seed", 1)
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
    assert "torchrun --nproc-per-node 3 -m softcut.clustering.distributed parts -k K" in out
    assert "add --overwrite" in refused(*words, "--parts", 2, "--out", "parts")
    monkeypatch.setitem(sys.modules, "pymetis", None)
    _, err = done(*words, "--parts", 2, "--out", "parts", "--overwrite")
    assert "METIS is not installed (pip install 'softcut[parts]')" in err


def test_options_have_an_effect(done, people):
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
    out, _ = done("report", "--out", "here/a.html")
    assert out == f"Report: here/a.html ({Path('here/a.html').stat().st_size / 1e6:.1f} MB)\n"
    assert [p.name for p in Path("here").iterdir()] == ["a.html"]
    assert "--overwrite" in refused("report", "--out", "here/a.html")
    done("report", "--out", "here/a.html", "--overwrite")


def test_serve_listens_here_only_and_ends_cleanly(done, monkeypatch, tmp_path):
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = {}

    def serve(server, sockets):
        (listener,) = sockets
        seen["address"] = listener.getsockname()
        seen["hosts"] = server.config.app.hosts
        seen["folders"] = [p.name for p in tmp_path.iterdir()]
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    out, _ = done("serve", "--port", 0)
    host, port = seen["address"]
    assert host == "127.0.0.1"
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
