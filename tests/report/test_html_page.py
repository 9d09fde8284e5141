"""Pages: everything inside one file, everything from outside escaped."""

import base64
import hashlib
import io
import json
import re

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from softcut.report.html_page import (
    Details,
    Drawings,
    Key,
    Missing,
    Section,
    Text,
    View,
    picture_of,
    plain,
    render_page,
)
from softcut.report.tables import Cell, Table, cell_table, number_table, pivot, to_markdown, to_terminal

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"


def test_text_from_outside_is_never_markup():
    parts = [
        Table([EVIL], [[EVIL], [Cell(EVIL, below=EVIL, title=EVIL)]], EVIL, heads=0),
        Text(EVIL),
        View("graph", {"names": [EVIL]}, EVIL),
        Missing(EVIL, EVIL),
        Details(EVIL, [Text(EVIL)]),
        Key([("better", EVIL, EVIL)]),
        Drawings([(EVIL, EVIL)]),
    ]
    page = render_page(EVIL, [Section(EVIL, parts)], EVIL)
    assert "<img" not in page
    assert page.count("<script") == 2  # the data of the view, and the page's own script
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == {"names": [EVIL]}


def test_a_page_is_complete_and_only_its_own_script_may_run():
    page = render_page("One", [Section("Two", [View("heat", {"k": 1})])])
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page


def test_sections_are_listed_and_can_be_reached():
    page = render_page("One", [Section("First thing", []), Section("Second thing", [])])
    for anchor in ("first-thing", "second-thing"):
        assert page.count(f'href="#{anchor}"') == 1
        assert page.count(f'id="{anchor}"') == 1
    html = Text("| a | b |\n|---|---|\n| 1 | **2** |").html  # a table of Markdown scrolls in its box
    assert html.startswith('<div class="box plain" tabindex="0"')
    assert "<b>2</b>" in html


def test_one_table_in_three_forms():
    best = Cell("0.390", kind="worse", strong=True, paper="0.450", test="p < 0.001", note="3 folds")
    table = Table(["data", "NMI"], [["cora", best], ["[red]", Cell("-")]], "A [caption]", notes=["A note."])
    rows = "| cora | **0.390** (0.450), 3 folds |\n| [red] | - |"
    assert to_markdown(table) == f"| data | NMI |\n|---|---|\n{rows}\n\nA note."
    page = render_page("One", [Section("Two", [table])])
    assert '<th scope="row">cora</th>' in page
    assert '<td class="number worse"><b>0.390 ▼</b><small>paper 0.450, p &lt; 0.001</small></td>' in page
    assert '<th scope="col">data</th><th scope="col" class="number">NMI</th>' in page
    assert (
        'tabindex="0" role="region" aria-label="A [caption]"' in page
    )  # scrolls in its box, also by keyboard
    console = Console(file=io.StringIO(), width=100)
    console.print(to_terminal(table))
    title, _, columns, _, first, second, _ = console.file.getvalue().splitlines()
    assert title.strip() == "A [caption]"  # no markup of rich
    assert columns.split() == ["┃", "data", "┃", "NMI", "┃"]
    assert first == "│ cora  │ 0.390 (0.450), 3 folds │"
    assert second == "│ [red] │                      - │"


def test_recorded_cells_one_below_the_other_and_by_data_set():
    shared = {"metric": "nmi", "std": 0.01, "n": 10, "paper_mean": None, "paper_std": None, "seconds": 2.0}
    means = {("cora", "sc"): 0.2, ("cora", "mincut"): 0.4, ("pubmed", "sc"): 0.3}
    cells = [{"dataset": d, "method": m, "mean": mean, **shared} for (d, m), mean in means.items()]
    assert to_markdown(pivot(cells)).splitlines() == [
        *("| method | cora | pubmed |", "|---|---|---|"),
        "| sc | 0.200 ± 0.010 | **0.300 ± 0.010** |",
        "| mincut | **0.400 ± 0.010** | - |",
    ]
    told = {**cells[0], "note": "a fresh draw", "paper_mean": 0.25, "paper_std": 0.04}
    assert to_markdown(cell_table([told, told], digits=1)).splitlines()[2:] == [
        *["| cora | sc | nmi | 0.2 ± 0.0 | 10 | 0.2 ± 0.0 | 2.0 |"] * 2,
        *("", "cora is a fresh draw."),
    ]
    row = number_table(["a"] * 6, [["x", 1234567, 0.123456, None, True, False]]).rows[0]
    shown = [cell if isinstance(cell, str) else cell.text for cell in row]
    assert shown == ["x", "1,234,567", "0.1235", "-", "yes", "no"]


def test_plain_has_only_what_json_has():
    value = {"a": np.array([[1.5, np.inf]]), 2: [np.float32(0.5), (np.nan, True, None)]}
    assert plain(value) == {"a": [[1.5, None]], "2": [0.5, [None, True, None]]}
    json.dumps(plain(value), allow_nan=False)


@pytest.mark.parametrize("width", [300, 900])
def test_pictures_are_made_small(tmp_path, width):
    noise = np.random.default_rng(0).integers(0, 255, (width // 6, width, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    source = picture_of(tmp_path / "a.png", "noise", most_bytes=50_000).source
    data = base64.b64decode(source.partition(",")[2])
    assert len(data) <= 50_000
    assert source.startswith("data:image/png" if width == 300 else "data:image/jpeg")
    with Image.open(io.BytesIO(data)) as image:
        assert image.width <= min(width, 1500)
        assert image.width / image.height == pytest.approx(6, rel=0.02)
