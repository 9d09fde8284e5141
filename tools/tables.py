"""Every table of results in README.md and docs/, rendered from ``results/*.json`` between two marks.

``python -m tools.tables`` (``make tables``) writes them, and the pictures that are drawn from the same files;
``--check`` writes nothing and names what differs. A page holds

    <!-- table: NAME -->

    | ... |

    <!-- end -->

with a name of :data:`TABLES`. Tables without marks must be on the list of tables that are no results. A table whose
results are not there says so.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from softcut.errors import DataError, SoftcutError
from softcut.files import atomic_write
from softcut.paper.runs import read_cells
from tools import table2_page, table3_page
from tools.clustering_tables import CLUSTERING_TABLES
from tools.community_tables import COMMUNITY_TABLES
from tools.cost_tables import COST_TABLES
from tools.figures import SENTENCES
from tools.results import NotMeasuredError

TABLES: dict[str, Callable[[Path], str]] = {
    **CLUSTERING_TABLES,
    **COMMUNITY_TABLES,
    **COST_TABLES,
    **SENTENCES,
    "table2-claims": table2_page.claims_text,
    "table2-default": table2_page.default_text,
    "table2": table2_page.page_text,
    "table3": table3_page.page_text,
}
# Pictures of the pages that show what is in results/, with the file of the curves and what draws it.
PICTURES: dict[str, tuple[str, Callable[..., Path]]] = {
    "docs/images/table2_curves.png": ("table2_curves.json", table2_page.draw_curves),
    "docs/images/table3_curves.png": ("table3_curves.json", table3_page.draw_curves),
}
# First lines of tables that hold no results: what there is, what it is called, what a test is for.
NO_RESULTS = (
    "| | deviations | surplus |",
    "| attribute | what |",
    "| command | what |",
    "| experiment | command | results |",
    "| extension (also with `.gz`) | content |",
    "| kind | which columns | what they become |",
    "| extension | content |",
    "| file | what |",
    "| function | what |",
    "| input | result |",
    "| key | function | range | better | what |",
    "| key | function | range | what |",
    "| kind | file | what it is |",
    "| name | graphs | nodes | edges | features | classes |",
    "| name | keeps | pooled graph | learned | auxiliary losses | lift |",
    "| name | nodes | edges | self-loops in the file | features | classes |",
    "| `objective=` | minimised | second term | graph | losses of a pooling layer |",
    "| peer | version | what is measured |",
    "| script | what |",
    "| step | on parts |",
    "| table | size | what it counts |",
    "| use | graphs | may |",
    "| what you have | what you pass |",
    "| you have | call |",
)
_END = "<!-- end -->"
_MARK = re.compile(r"<!-- table: (?P<name>[^>]*?) -->")
_RULE = re.compile(r"^\s*\|?(\s*:?-{3,}:?\s*\|)+(\s*:?-{3,}:?\s*)?$")  # the line below the titles of a table


def pages(root: str | Path = ".") -> list[Path]:
    """README.md, CONTRIBUTING.md, CHANGELOG.md, and every page below docs/ and examples/."""
    root = Path(root)
    entries = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    entries += [*(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")]
    return sorted(page for page in entries if page.exists())


def rendered(text: str, tables: Callable[[str], str]) -> str:
    """A page with everything between its marks replaced by the tables of those names."""
    done, rest = "", text
    while (mark := _MARK.search(rest)) is not None:
        name = mark["name"]
        _, closed, after = rest[mark.end() :].partition(_END)
        if not closed or _MARK.search(rest[mark.end() : len(rest) - len(after)]):
            raise DataError(f"the table {name} is not closed: add {_END} after it.")
        done += rest[: mark.end()] + f"\n\n{tables(name)}\n\n{_END}"
        rest = after
    return done + rest


def unmarked_tables(text: str) -> Iterator[tuple[int, str]]:
    """Line number and titles of every table that is neither marked nor known to hold no results."""
    inside = fenced = False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        inside = _MARK.search(line) is not None or (inside and _END not in line)
        if not inside and not fenced and number and _RULE.match(line) and "|" in lines[number - 1]:
            titles = lines[number - 1].strip()
            if titles not in NO_RESULTS:
                yield number, titles


def _page(page: Path, out: Path) -> str:
    def table(name: str) -> str:
        if name not in TABLES:
            raise DataError(f"there is no table {name!r}: it must be one of {', '.join(TABLES)}.")
        try:
            return TABLES[name](out)
        except FileNotFoundError as error:
            return f"Not measured yet: there is no results/{Path(error.filename).name}."
        except NotMeasuredError as error:
            return f"Not measured yet: {error}"

    try:
        return rendered(page.read_text(encoding="utf-8"), table)
    except DataError as error:
        raise DataError(f"{page}: {error}") from error


def problems(root: str | Path = ".") -> list[str]:
    """One sentence for every page that differs from ``results/`` and every table without marks."""
    root = Path(root)
    entries = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root).as_posix()
        if text != _page(page, root / "results"):
            entries.append(f"{name} differs from results/: run make tables.")
        entries += [
            f"{name}, line {line}: the table '{titles}' is not marked: render it from results/ "
            "(tools.tables.TABLES), or add it to NO_RESULTS there if it holds no results."
            for line, titles in unmarked_tables(text)
        ]
    return entries


def write_all(root: str | Path = ".") -> list[Path]:
    """Write every page whose tables have changed, and every picture; the files that were written."""
    root = Path(root)
    written = []
    for page in pages(root):
        made = _page(page, root / "results")
        if made != page.read_text(encoding="utf-8"):
            written.append(atomic_write(page, made.encode()))
    for picture, (file, draw) in PICTURES.items():
        curves = read_cells(root / "results" / file, "curves")
        if curves:
            written.append(draw(curves, root / picture))
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m tools.tables [--check]``; the exit code is 1 where something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.tables", description="Write the tables of the pages from results/."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; name what differs")
    parser.add_argument("--root", default=".", help="the checkout (default: the folder you are in)")
    given = parser.parse_args(arguments)
    try:
        if not given.check:
            for path in write_all(given.root):
                print(path)
        entries = problems(given.root)
    except (SoftcutError, OSError) as error:
        print(f"softcut: {error}", file=sys.stderr)
        return 2
    for sentence in entries:
        print(sentence, file=sys.stderr)
    return 1 if entries else 0


if __name__ == "__main__":
    raise SystemExit(main())
