"""Tables of the pages: they are those of results/, and nothing that differs goes unnoticed."""

import json
import re
import shutil
from pathlib import Path

import pytest

from softcut.errors import DataError
from tools import tables

ROOT = Path(__file__).parents[2]


def test_every_page_shows_what_is_in_the_results() -> None:
    assert tables.problems(ROOT) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one page that shows one table, rendered."""
    (tmp_path / "results").mkdir()
    shutil.copy(ROOT / "results/generated.json", tmp_path / "results")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("# Page\n\n<!-- table: generated -->\n<!-- end -->\n\nafter\n")
    (tmp_path / "README.md").write_text("| file | what |\n|---|---|\n| a | b |\n")
    assert tables.main(["--root", str(tmp_path)]) == 0
    return tmp_path


def test_the_command_writes_the_numbers_and_nothing_else(checkout: Path, capsys) -> None:
    text = (checkout / "docs/page.md").read_text()
    rows = json.loads((checkout / "results/generated.json").read_text())["rows"]
    assert text.startswith("# Page\n\n<!-- table: generated -->\n\n| baseline")
    assert text.endswith("|\n\n<!-- end -->\n\nafter\n")
    for row in rows:
        score = f"{row['nmi']:.2f}"[1:]  # without its zero
        assert f"| `{row['baseline']}` | {row['sees']} | {score} |" in text
    capsys.readouterr()
    assert tables.main(["--root", str(checkout)]) == 0  # nothing is left to write
    assert capsys.readouterr().out == ""


def test_another_number_in_the_results_or_on_the_page_is_noticed(checkout: Path, capsys) -> None:
    path, page = checkout / "results/generated.json", checkout / "docs/page.md"
    before = page.read_text()
    page.write_text(before.replace("| both | .88 |", "| both | .89 |"))
    assert tables.problems(checkout) == ["docs/page.md differs from results/: run make tables."]
    page.write_text(before)
    results = json.loads(path.read_text())
    results["rows"][0]["nmi"] = 0.99
    path.write_text(json.dumps(results))
    assert tables.main(["--root", str(checkout), "--check"]) == 1
    assert "docs/page.md differs from results/" in capsys.readouterr().err
    assert page.read_text() == before
    assert tables.main(["--root", str(checkout)]) == 0
    assert "| `sc` | edges | .99 |" in page.read_text()


def test_a_table_without_marks_is_noticed(checkout: Path) -> None:
    readme = checkout / "README.md"
    table = "| NMI | Cora |\n|:---|---:|\n| ours | .9 |\n"
    readme.write_text(readme.read_text() + f"\n```\n{table}```\n\n{table}")
    (problem,) = tables.problems(checkout)  # the one in the code block is no table
    assert problem.startswith("README.md, line 11: the table '| NMI | Cora |' is not marked")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- table: generated -->\n", "not closed"),
        ("<!-- table: generated -->\n<!-- table: generated -->\n<!-- end -->\n", "not closed"),
        ("<!-- table: no such -->\n<!-- end -->\n", "there is no table 'no such'"),
    ],
)
def test_marks_that_are_wrong_are_named(checkout: Path, capsys, text: str, said: str) -> None:
    (checkout / "docs/page.md").write_text(text)
    assert tables.main(["--root", str(checkout)]) == 2
    assert re.search(rf"page\.md: .*{said}", capsys.readouterr().err)
    with pytest.raises(DataError, match=said):
        tables.problems(checkout)


def test_results_that_are_missing_are_said_to_be(checkout: Path) -> None:
    (checkout / "results/generated.json").unlink()
    assert tables.problems(checkout) == ["docs/page.md differs from results/: run make tables."]
    assert tables.main(["--root", str(checkout)]) == 0
    text = (checkout / "docs/page.md").read_text()
    assert "Not measured yet: there is no results/generated.json." in text
    assert ".88" not in text


def test_pictures_are_drawn_from_the_curves(checkout: Path) -> None:
    curve = {"dataset": "DD", "method": "mincut", "settings": "z", "folds": [0, 1], "training": [2, 2, 1]}
    curve |= {"loss": [1.0, 0.9, 0.8], "accuracy": [50.0, 60.0, 70.0]}
    (checkout / "results/table2_curves.json").write_text(json.dumps([curve]))
    curve |= {"dataset": "mu", "validation": [0.9, 0.8]}
    (checkout / "results/table3_curves.json").write_text(json.dumps([curve]))
    pictures = [checkout / f"docs/images/table{number}_curves.png" for number in (2, 3)]
    assert tables.write_all(checkout) == pictures
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_the_largest_graph_has_a_row_per_run_or_the_command_that_measures_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"results/ holds no .*: python benchmarks/billion\.py"):
        tables.TABLES["billion"](tmp_path)
    run = {"mode": "full", "seconds": 25.04, "phases": {"training": 9.96}, "peak_reserved_gib": 88.0}
    run |= {"nmi_of_start": 0.5, "nmi": 0.9876}
    (tmp_path / "billion.json").write_text(json.dumps({"runs": [run]}))
    *_, row = tables.TABLES["billion"](tmp_path).splitlines()
    assert row == "| all nodes at every step | 25.0 | 10.0 | 88.0 | 0.500 | 0.988 |"
