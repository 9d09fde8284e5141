"""The whole report: every table and figure of a folder of results, and what is missing."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from softcut.errors import DataError, SoftcutError
from softcut.paper import report_files, report_sections
from softcut.paper.report_files import any_table, origin_of_file
from softcut.paper.report_sections import view_sections
from softcut.report.html_page import Details, Section, View
from softcut.report.tables import Cell, Table
from tools.views import run as run_views

RESULTS = Path(__file__).resolve().parents[2] / "results"
SAMPLE = Path(__file__).with_name("sample")


def parts_of(sections, kind):
    parts = []
    for part in [part for section in sections for part in section.parts]:
        inner = part.parts if isinstance(part, Details) else [part]
        parts += [one for one in inner if isinstance(one, kind)]
    return parts


@pytest.fixture(scope="module")
def sections():
    return report_sections.report_sections(RESULTS)


@pytest.fixture(scope="module")
def page(tmp_path_factory, sections):
    out = tmp_path_factory.mktemp("report") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_sections, "report_sections", lambda folder: sections)
        return report_sections.write_report(RESULTS, out)


def test_the_report_is_one_file_below_5_mb(page):
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 5e6
    assert 'src="data:' in text
    assert 'src="http' not in text and 'href="http' not in text


def told(part):
    """What a part of the report says, as lines of text."""
    if isinstance(part, Details):
        return [part.summary, *(line for inner in part.parts for line in told(inner))]
    if isinstance(part, Cell):
        words = (part.text, part.below, part.kind, part.title, part.note, "bold" * part.strong)
        return [", ".join(word for word in words if word)]
    if not isinstance(part, Table):
        return [str(part)]
    rows = [[c if isinstance(c, str) else told(c)[0] for c in row] for row in part.rows]
    return [f"{part.caption} ({part.heads} heads)", *map(" | ".join, [part.columns, *rows]), *part.notes]


def test_the_report_of_a_small_folder_is_known_to_the_last_number(tmp_path, monkeypatch):
    """After a change that is meant, look at the difference and copy the new text to sample/report.txt."""
    folder = shutil.copytree(SAMPLE / "results", tmp_path / "results")
    for path in folder.iterdir():
        os.utime(path, (1.6e9, 1.6e9))  # the day that is told where commits are not known
    monkeypatch.setattr(report_sections, "schemata_section", lambda: Section("Schemata", []))
    monkeypatch.setattr(report_sections, "picture_of", lambda path, *said: (path.name, *said))
    (tmp_path / "empty").mkdir()
    sections = [s for each in (folder, tmp_path / "empty") for s in report_sections.report_sections(each)]
    lines = [line for section in sections for part in (section.title, *section.parts) for line in told(part)]
    (tmp_path / "report.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert lines == (SAMPLE / "report.txt").read_text(encoding="utf-8").splitlines()


def test_long_files_are_cut_off():
    for count, caption in ((400, ""), (401, "The first 400 of 401 rows.")):
        (table,) = any_table([{"a": i, "b": 0} for i in range(count)])
        assert (len(table.rows), table.caption) == (400, caption)


def test_no_folder_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"no folder .*: this report shows"):
        report_sections.write_report(tmp_path / "none", tmp_path / "a.html")
    with pytest.raises(DataError, match="holds no results of the paper's experiments"):
        report_sections.write_report(tmp_path, tmp_path / "a.html")
    (tmp_path / "objectives.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        report_sections.report_sections(tmp_path)


def test_views_are_kept_and_shown(tmp_path):
    run_views(tmp_path, ["communities"], n_init=4)
    (section,) = view_sections(tmp_path)
    views = {part.view: part for part in section.parts if isinstance(part, View)}
    assert list(views) == ["graph", "groups", "heat", "curves", "dots"]
    assert len(views["dots"].data["groups"]) > 1  # evidence of each distance
    assert [section.title for section in view_sections(RESULTS)] == [
        "Clustering to explore: Communities, a generated graph",
        "Clustering to explore: Cora, papers that cite each other",
    ]


def test_nothing_that_was_measured_is_left_out_and_every_section_says_something(sections):
    said = " ".join(part.summary for s in sections for part in s.parts if isinstance(part, Details))
    for path in RESULTS.glob("*.json"):
        assert path.name.endswith("_runs.json") or "curves" in path.name or path.name in said, path.name
    titles = [section.title for section in sections]
    assert len({section.anchor for section in sections}) == len(titles)
    assert not any("_" in title or ".json" in title for title in titles)
    for section in sections:
        assert section.parts, section.title
    for table in parts_of(sections, Table):
        assert table.rows and len(table.columns) > 1


def test_files_that_do_not_say_where_they_come_from_are_asked_of_git(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (table,) = origin_of_file({"environment": {"torch": "2"}, "rows": [{"x": 1}]}, tmp_path, "a.json").parts
    assert list(table.rows[0][:3]) == ["-", "-", "torch 2"]
    value = [{"commit": "abc", "device": "d", "command": "c", "date": "2020-01-01"}] * 2
    (table,) = origin_of_file(value, tmp_path, "a.json").parts
    assert list(table.rows) == [("c", "abc", "d", "2020-01-01")]


@pytest.mark.parametrize(
    ("commits", "date"),
    [
        ("1234567", "2020-03-01"),
        ("89abcde+, 1234567", "2020-01-02 to 2020-03-01"),
        ("123456", ""),  # too short to name one
        ("7654321", ""),
        ("", ""),
    ],
)
def test_dates_of_commits(commits, date, tmp_path, monkeypatch):
    history = [f"{name:0<40} {day}" for name, day in (("1234567", "2020-03-01"), ("89abcde", "2020-01-02"))]
    monkeypatch.setattr(report_files, "_git_log", lambda folder, *options: tuple(history))
    assert report_files.commit_date(commits, tmp_path) == date


@pytest.mark.parametrize("file", sorted(path.name for path in (SAMPLE / "results").glob("*.json")))
def test_json_of_another_shape_is_one_sentence_or_shown_as_it_is(tmp_path, file):
    whole = json.loads((SAMPLE / "results" / file).read_text())
    entry = whole[0] if isinstance(whole, list) else whole
    shapes = [5, "word", None, {}, [1], [{}], [{"dataset": 3}], {"rows": 1}]
    if isinstance(entry, dict):
        shapes += [[{**entry, name: wrong}] for name in entry for wrong in (None, "word", [[]])]
    for shape in shapes:
        (tmp_path / file).write_text(json.dumps(shape))
        with contextlib.suppress(SoftcutError):
            report_sections.write_report(tmp_path, tmp_path / "out.html")
