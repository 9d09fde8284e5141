"""The whole report: every table and figure of a folder of results, and what is missing."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from softcut.errors import DataError
from softcut.paper import citation, regression, report_sections, table2
from softcut.paper.comparison import compared
from softcut.paper.report_files import any_table, origin_of_file
from softcut.paper.report_sections import table1_section, table2_section, table3_section, view_sections
from softcut.report.html_page import Details, Missing, View, render_page
from softcut.report.tables import Cell, Table
from tools.views import run as run_views

RESULTS = Path(__file__).resolve().parents[2] / "results"


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


def test_the_report_is_one_file_below_5_mb_with_every_number_beside_the_papers(page):
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 5e6
    assert 'src="data:' in text
    assert 'src="http' not in text and 'href="http' not in text

    shown = (("table1", 3, ("nmi", "cs")), ("table2", 1, ("acc",)), ("table3", 3, ("mse",)))
    for file, digits, metrics in shown:
        for cell in json.loads((RESULTS / f"{file}.json").read_text()):
            if cell["metric"] in metrics:
                assert f"{cell['mean']:.{digits}f} ± {cell['std']:.{digits}f}" in text
                if cell["paper_mean"] is not None:
                    assert f"paper {cell['paper_mean']:.{digits}f}" in text
                assert cell["command"] in text and cell["device"] in text


def test_missing_results_name_their_command(tmp_path):
    commands = {part.command for part in parts_of(report_sections.report_sections(tmp_path), Missing)}
    assert {f"softcut reproduce {name}" for name in ("classification", "regression", "synthetic")} <= commands
    assert any(command.startswith("softcut reproduce citation") for command in commands)
    shutil.copy(RESULTS / "table1.json", tmp_path)
    cells = json.loads((tmp_path / "table1.json").read_text())
    kept = [c for c in cells if (c["dataset"], c["method"]) != ("cora", "mincut")]
    (tmp_path / "table1.json").write_text(json.dumps(kept))
    (missing,) = parts_of([table1_section(tmp_path)], Missing)
    assert missing.command == "softcut reproduce citation --dataset cora --method mincut"


def test_segmentations_are_shown_beside_published_ones(tmp_path):
    cell = {
        "dataset": "bsds500-val",
        "method": "mincut",
        "metric": "covering_ods",
        "mean": 0.5,
        "std": 0.1,
        "n": 9,
    }
    cell |= {"p": None, "gain": None, "seconds": 1.0, "device": "d", "commit": "c", "command": "run me"}
    (tmp_path / "segmentation.json").write_text(json.dumps([cell]))
    (tmp_path / "segmentation_speed.json").write_text(json.dumps({"ratio": 0.0213, "command": "time me"}))
    Image.new("RGB", (900, 300), "red").save(tmp_path / "segmentation_horse.png")
    sections = report_sections.report_sections(tmp_path)
    (section,) = (s for s in sections if s.title == "Figure: image segmentation")
    page = render_page("x", [section])
    assert ">mincut</th>" in page and "mean shift (published" in page and "run me" in page
    assert "0.0213" in page and "time me" in page
    assert page.count("data:image/png") == 1
    assert not [part for part in section.parts if isinstance(part, Missing)]


def test_no_folder_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"no folder .* with results"):
        report_sections.write_report(tmp_path / "none", tmp_path / "a.html")
    with pytest.raises(DataError, match="holds no results of the paper's experiments"):
        report_sections.write_report(tmp_path, tmp_path / "a.html")
    (tmp_path / "objectives.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        report_sections.report_sections(tmp_path)


@pytest.mark.parametrize(
    ("section", "rows", "columns"),
    [
        (table1_section, 3 * len(citation.METHODS), 6),
        (table2_section, len(table2.DATASETS), 1 + len(table2.METHODS)),
        (table3_section, len(regression.PROPERTIES), 1 + len(regression.METHODS)),
    ],
)
def test_the_tables_have_every_row(section, rows, columns):
    table = next(part for part in section(RESULTS).parts if isinstance(part, Table))
    assert len(table.rows) == rows
    assert {len(row) for row in table.rows} == {len(table.columns)} == {columns}
    kinds = [cell.kind for row in table.rows for cell in row if isinstance(cell, Cell)]
    # Every colour has its mark, so that nothing is said by colour alone.
    said = {"better": "▲", "worse": "▼", "same": "="}
    assert {kind: Cell("", kind=kind).mark for kind in kinds if kind} == {k: said[k] for k in kinds if k}


@pytest.mark.parametrize(
    ("mean", "higher", "kind"), [(0.6, True, "better"), (0.6, False, "worse"), (0.5, True, "same")]
)
def test_better_depends_on_what_is_measured(mean, higher, kind):
    cell = {"mean": mean, "std": 0.01, "n": 10, "paper_mean": 0.5, "paper_std": 0.01}
    assert compared(cell, digits=3, higher=higher).kind == kind
    assert compared({**cell, "paper_std": None}, digits=3).below.endswith("not tested")
    assert compared(None, digits=3).title == "not measured"
    few = compared({**cell, "n": 3}, digits=3, higher=higher, folds=10, strong=True)
    assert few.markdown == f"**{mean:.3f} ± 0.010** (0.500 ± 0.010), 3 folds"


def test_files_that_do_not_say_where_they_come_from_are_asked_of_git(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (table,) = origin_of_file({"environment": {"torch": "2"}, "rows": [{"x": 1}]}, tmp_path, "a.json").parts
    assert list(table.rows[0][:3]) == ["-", "-", "torch 2"]
    value = [{"commit": "abc", "device": "d", "command": "c", "date": "2020-01-01"}] * 2
    (table,) = origin_of_file(value, tmp_path, "a.json").parts
    assert list(table.rows) == [("c", "abc", "d", "2020-01-01")]


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


def test_any_file_can_be_shown():
    cells = [
        {"dataset": d, "method": m, "metric": "nmi", "mean": i + j, "std": 0.0}
        for i, d in enumerate("ab")
        for j, m in enumerate("xy")
    ]
    (pivot,) = any_table(cells)
    assert pivot.caption.startswith("NMI, ")
    by_metric = any_table([{**cell, "metric": metric} for metric in ("acc", "nmi") for cell in cells])
    assert [getattr(part, "caption", "")[:3] for part in by_metric] == ["NMI", ""]
    assert by_metric[1].summary == "accuracy"
    assert list(pivot.columns) == ["method", "a", "b"]
    assert [row[2].strong for row in pivot.rows] == [False, True]
    (single,) = any_table([{**cell, "p": 0.01} for cell in cells if cell["dataset"] == "a"])
    assert list(single.columns) == ["method", "nmi"]
    assert [row[1].text for row in single.rows] == ["0.000 ± 0.000", "1.000 ± 0.000"]
    assert single.rows[0][1].below == "p = 0.01"
    nested = any_table({"n": 3, "rows": [{"t": [1, 2, 3], "what": "w", "more": [{"q": 1}]}]})
    assert [table.columns for table in nested] == [["what", "value"], ["t (mean of 3)", "what"], ["q"]]
    assert [table.caption for table in nested] == ["", "", "w"]
    (row,) = any_table([{"data": "x", "methods": {"softcut": {"nmi": 0.5, "commit": "abc", "command": "c"}}}])
    assert list(row.columns) == ["data", "methods, softcut, nmi"]
    (inner,) = any_table([{"seed": 3, "rooms": [{"room": "ops"}]}])
    assert inner.caption == "rooms of seed 3"


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


def test_results_that_no_section_names_are_shown_as_they_are(tmp_path):
    (tmp_path / "new_thing.json").write_text(json.dumps({"rows": [{"speed": 3.25, "of": "x"}]}))
    section = report_sections.report_sections(tmp_path)[-1]
    assert section.title == "Other results: new thing"
    assert "3.25" in render_page("x", [section])
