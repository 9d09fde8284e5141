"""``softcut report`` and ``softcut cluster --report``."""

from __future__ import annotations

import re

from softcut.report.html_page import Section, render_page


def test_report_writes_one_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr("softcut.paper.report_sections.report_sections", lambda folder: [Section("All", [])])
    (tmp_path / "results").mkdir()
    code, out, err = run("report", "--out", "here/a.html")
    assert code == 0, err
    assert out.startswith("Report: here/a.html (")
    assert [p.name for p in (tmp_path / "here").iterdir()] == ["a.html"]
    code, _, err = run("report", "--out", "here/a.html")
    assert code == 2
    assert "--overwrite" in err
    assert run("report", "--out", "here/a.html", "--overwrite")[0] == 0


def test_no_results_is_one_sentence(run, tmp_path):
    code, _, err = run("report", "--results", "nothing")
    assert code == 2
    assert err.count("\n") == 1
    assert "nothing" in err and "softcut reproduce" in err
    assert not (tmp_path / "report.html").exists()


def test_cluster_writes_a_report_of_the_graph(run, people, tmp_path):
    code, out, err = run(
        *("cluster", "people.csv", "-f", "words.csv", "-k", 3, "--n-init", 4, "--max-iter", 30),
        *("--no-plot", "--report"),
    )
    assert code == 0, err
    assert "people-clusters/report.html" in out
    page = (tmp_path / "people-clusters" / "report.html").read_text(encoding="utf-8")
    for view in ("graph", "groups", "heat", "curves", "dots"):
        assert f'data-view="{view}"' in page
    assert "node 000" in page
    assert re.search(r"<td>w\d+</td>", page)
    assert page.startswith(render_page("x", [])[:15])
