"""Pages: everything inside one file, everything from outside escaped."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from softcut.report.html_page import (
    Cell,
    Details,
    Drawings,
    Key,
    Missing,
    Section,
    Table,
    Text,
    View,
    number_table,
    picture_of,
    plain,
    render_page,
)

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"


def data_of(page: str) -> list:
    return [
        json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    ]


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
    assert data_of(page) == [{"names": [EVIL]}]


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


def test_cells_show_their_kind_and_rows_their_names():
    table = Table(["data", "NMI"], [["cora", Cell("0.39", "paper 0.40", "worse", strong=True)]], "Caption")
    page = render_page("One", [Section("Two", [table])])
    assert '<th scope="row">cora</th>' in page
    assert '<td class="number worse"><b>0.39 ▼</b><small>paper 0.40</small></td>' in page
    assert '<th scope="col" class="number">NMI</th>' in page
    assert 'tabindex="0" role="region" aria-label="Caption"' in page  # scrolls in its box, also by keyboard


def test_markdown_tables_scroll_in_their_box():
    html = Text("| a | b |\n|---|---|\n| 1 | **2** |").html
    assert html.startswith('<div class="box plain" tabindex="0"')
    assert "<b>2</b>" in html


def test_numbers_are_short_and_yes_or_no_are_words():
    row = number_table(["a"] * 5, [["x", 1234567, 0.123456, None, True]]).rows[0]
    assert [cell if isinstance(cell, str) else cell.text for cell in row] == [
        "x",
        "1,234,567",
        "0.1235",
        "-",
        "yes",
    ]


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
