"""``softcut demo``."""

from __future__ import annotations

import json

from softcut.report import demo


def test_the_demo_runs_twice(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "demo_graphs", lambda: GRAPHS[:1])
    monkeypatch.setattr(demo, "METHODS", {name: demo.METHODS[name] for name in METHODS})
    code, out, err = run("demo", "--out", "shown")
    assert code == 0, err
    assert "communities" in out
    assert out.splitlines()[-1] == "Report: shown/report.html"
    assert sorted(p.name for p in (tmp_path / "shown").iterdir()) == FILES
    assert len(json.loads((tmp_path / "shown" / "results.json").read_text())) == 2
    assert run("demo", "--out", "shown")[0] == 2
    monkeypatch.setattr(demo, "demo_graphs", lambda: GRAPHS[1:2])
    assert run("demo", "--out", "shown", "--overwrite")[0] == 0
    assert sorted(p.name for p in (tmp_path / "shown").iterdir()) == [
        "grid.png",
        "report.html",
        "results.json",
    ]
    (tmp_path / "shown" / "holiday.png").write_bytes(b"mine")
    code, _, err = run("demo", "--out", "shown", "--overwrite")
    assert code == 2
    assert "holiday.png" in err
    assert {f"{graph.name}.png" for graph, _ in GRAPHS} == {"communities.png", "grid.png", "attributed.png"}


FILES = ["communities.png", "report.html", "results.json"]
GRAPHS = demo.demo_graphs()
METHODS = ("k-means, propagated", "softcut (default)")
