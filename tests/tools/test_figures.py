"""Every figure in the prose of the pages has a source: a mark, a command, a file of results, a test or a citation."""

from pathlib import Path

import pytest

from tools.figures import NO_RESULTS, unsourced
from tools.tables import pages

ROOT = Path(__file__).resolve().parents[2]


def test_every_figure_of_the_pages_has_a_source() -> None:
    used, problems = set(), []
    for page in pages(ROOT):
        name = page.relative_to(ROOT).as_posix()
        if name == "CHANGELOG.md":  # tells what was, not what is
            continue
        for line, figure, paragraph in unsourced(page.read_text(encoding="utf-8")):
            known = [words for words in NO_RESULTS.get(name, ()) if words in paragraph]
            used |= {(name, words) for words in known}
            if not known:
                problems.append(f"{name}, line {line}: nothing stands behind {figure}: {paragraph[:80]}")
    assert problems == []
    assert used == {(name, words) for name, listed in NO_RESULTS.items() for words in listed}


@pytest.mark.parametrize(
    "figure",
    [
        "25 s",
        "1.73 ms",
        "12 GiB",
        "64 MiB",
        "2 %",
        "3 times",
        "12x",
        "+2.6 points",
        "39 of 40",
        ".986",
        "0.05",
    ],
)
def test_a_figure_in_prose_needs_a_source(figure: str) -> None:
    plain = f"# Title\n\nFirst.\n\nIt takes {figure} there.\n\n## Next\n\nRun `softcut demo`.\n"
    ((line, told, paragraph),) = unsourced(plain)
    assert (line, paragraph) == (5, f"It takes {figure} there.") and told in figure
    for source in (
        "`python benchmarks/a.py`",
        "[results](../results/a.json)",
        "`test_limits`",
        "(Nadeau and Bengio, 2003)",
        "[LSEnet](https://arxiv.org/abs/2405.11801)",
    ):
        assert not list(unsourced(plain.replace("there", source)))
    # In the same section: a command, a file of results, a rendered table. In another one they do not count.
    for block in (
        "    softcut demo",
        "```sh\nsoftcut demo\n```",
        "<!-- table: a -->\n\n| 1 s |\n\n<!-- end -->",
    ):
        assert not list(unsourced(plain.replace("First.", block)))
        assert list(unsourced(plain.replace("Run `softcut demo`.", block)))


@pytest.mark.parametrize(
    "text",
    [
        "K = 4 clusters",
        "5 x 10^8 edges",
        "a 30 x 30 grid",
        "`0.05` s",
        "version 1.2.3",
        "2 x E",
        "of 2020 only",
        "page 7.",
    ],
)
def test_other_numbers_are_no_figures(text: str) -> None:
    assert not list(unsourced(f"# Title\n\nThere is {text}\n"))
