"""The local page in a browser: upload, run, look, download; bad files; cancel."""

import socket
import threading

import pytest

from softcut.datasets import attributed_communities
from softcut.serve.app import create_app
from softcut.serve.jobs import Jobs


@pytest.fixture(scope="module")
def address(browser):  # no browser: no server either
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    pytest.importorskip("python_multipart")
    with socket.socket() as listener, Jobs() as jobs:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # a page that is asked for before the server has started waits for it
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        app = create_app(jobs, [host], 200_000, n_init=4)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://{host}"
        server.should_exit = True
        thread.join()


def choose(page, name: str, content: bytes) -> None:
    page.set_input_files("input[name=file]", {"name": name, "mimeType": "text/csv", "buffer": content})


def test_upload_run_look_and_download(open_page, address):
    graph = attributed_communities(70, 3, n_features=4, edge_signal=0.9, seed=0)
    rows, columns = graph.edge_index()[0]
    lines = [f"person {a},person {b}" for a, b in zip(rows, columns, strict=True) if a < b]
    nodes = {name for line in lines for name in line.split(",")}
    page = open_page(address)
    choose(page, "people.csv", ("source,target\n" + "\n".join(lines)).encode())
    rows = [f"person {i}," + ",".join(map(str, row)) for i, row in enumerate(graph.x.toarray().tolist())]
    table = "\n".join(["id,a,b,c,d", *(row for row in rows if row.split(",")[0] in nodes)])
    upload = {"name": "x.csv", "mimeType": "text/csv", "buffer": table.encode()}
    page.set_input_files("input[name=features]", upload)
    page.fill("input[name=k]", "3")
    page.click("#start")
    page.locator("#views canvas").first.wait_for(timeout=120_000)
    assert f"{len(nodes)} nodes in 3 clusters" in page.text_content("#summary")
    assert page.locator("#losses path[stroke]").count() >= 2  # the losses were drawn while it ran
    # The table of clusters comes first, in the colours of the graph.
    first = page.locator("#views figure").first.locator("tbody tr")
    assert first.count() == 3 and "of its edges (most from person" in first.first.text_content()
    swatch = first.first.locator(".swatch").evaluate("dot => getComputedStyle(dot).backgroundColor")
    assert swatch == "rgb(0, 114, 178)"
    canvas = page.locator("#views canvas").first
    canvas.scroll_into_view_if_needed()
    x, y = page.evaluate("document.querySelector('#views .view').graphView.place(0)")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert "person" in page.locator("#views .status").first.text_content()
    with page.expect_download() as waiting:
        page.click("text=Labels (CSV)")
    text = waiting.value.path().read_text()
    assert waiting.value.suggested_filename == "labels.csv"
    assert {line.split(",")[0] for line in text.splitlines()[1:]} == nodes
    with page.context.expect_page() as opened:
        page.click("text=Whole report")
    opened.value.get_by_role("heading").first.wait_for()  # a new tab has no title until it has loaded
    assert "people.csv" in opened.value.title()


def test_a_bad_file_shows_the_sentence(open_page, address):
    page = open_page(address)
    choose(page, "bad.csv", b"a,b\n1,2,3\n")
    page.click("#start")
    page.locator("#problem").wait_for(timeout=60_000)
    assert "bad.csv, line 2" in page.text_content("#problem")
    assert page.is_hidden("#result")
    choose(page, "large.csv", b"1,2\n" * 60_000)
    page.click("#start")
    page.locator("#problem", has_text="larger than").wait_for()
    open_page.complaints.clear()  # the browser itself notes the refused request


def test_a_job_can_be_cancelled(open_page, address):
    page = open_page(address)
    lines = "".join(f"{a},{(a * b) % 997}\n" for a in range(997) for b in (3, 5, 7, 11, 13))
    choose(page, "many.csv", lines.encode())
    page.fill("input[name=k]", "40")
    page.click("#start")
    page.locator("#cancel").wait_for()
    page.locator("#state", has_text="Reading").or_(page.locator("#state", has_text="Preparing")).wait_for()
    page.click("#cancel")
    page.locator("#state", has_text="Cancelled.").wait_for()
    assert page.is_enabled("#start")
    open_page.complaints.clear()  # a question that was on its way finds the job gone


def test_an_example_runs_at_a_click_and_a_reload_or_a_new_tab_finds_it_again(open_page, address):
    page = open_page(address)
    page.get_by_role("button", name="Friends", exact=True).click()
    page.locator("#views canvas").first.wait_for(timeout=120_000)
    assert "friends.csv" in page.text_content("#understood")  # what was read stays
    said = page.text_content("#summary")
    page.reload()
    page.locator("#views canvas").first.wait_for()
    assert page.text_content("#summary") == said and "friends.csv" in page.text_content("#understood")
    page.goto("about:blank")
    page.goto(address)  # as a new tab: no job in the address
    page.locator("#views canvas").first.wait_for()
    assert page.text_content("#summary") == said
    assert page.locator("#jobs li").count() == 1
    page.click("#jobs button")
    page.locator("#earlier").wait_for(state="hidden")
    assert page.is_hidden("#result") and "#" not in page.url


def test_a_range_shows_which_number_it_is_at(open_page, address):
    page = open_page(address)
    page.evaluate(
        """() => { window.said = [];
        new MutationObserver(() => window.said.push(document.querySelector("#state").textContent))
            .observe(document.querySelector("#state"), { childList: true, characterData: true, subtree: true }); }"""
    )
    lines = "".join(f"{a},{(a * b) % 997}\n" for a in range(997) for b in (3, 5, 7))
    choose(page, "many.csv", lines.encode())
    page.fill("input[name=k]", "2-9")
    page.click("#start")
    page.locator("#views canvas").first.wait_for(timeout=120_000)
    said = page.evaluate("window.said")
    assert any(text.startswith("Comparing 2 to 9 clusters: at ") for text in said)


def test_a_failed_reading_opens_the_field_that_helps(open_page, address):
    page = open_page(address, viewport={"width": 390, "height": 900})
    choose(page, "g.csv", b"source,target\n0,1\n1,2\n0,2\n")
    table = {
        "name": "<b>x.csv",
        "mimeType": "text/csv",
        "buffer": b"id,age,<img src=x>\n0,3,1\n1,,1\n2,5,1\n",
    }
    page.set_input_files("input[name=features]", table)
    page.fill("input[name=k]", "2")
    page.click("#start")
    page.locator("#problem").wait_for(timeout=60_000)
    assert "'missing: zero'" in page.text_content("#problem")
    assert page.evaluate("document.activeElement.name") == "missing"
    box = page.locator("#problem").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= 900  # what is wrong is in sight
    page.select_option("select[name=missing]", "zero")
    page.click("#start")
    page.locator("#views canvas").first.wait_for(timeout=120_000)
    assert page.locator("#read img").count() == page.locator("#jobs b").count() == 0  # names are text


def test_no_name_of_a_node_column_value_or_file_is_run(open_page, address):
    evil = "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
    named = [f"{evil}{i}" for i in range(40)]
    edges = "".join(f"{a},{b}\n" for i in (0, 20) for a in named[i : i + 20] for b in named[i : i + 20 : 3])
    rows = [f"{name},{evil}{i // 20},{i // 20 * 50 + i % 7}\n" for i, name in enumerate(named)]
    page = open_page(address)
    choose(page, f"{evil}.csv", f"source {evil},target {evil}\n{edges}".encode())
    table = f"id {evil},city {evil},age {evil}\n{''.join(rows)}".encode()
    upload = {"name": f"{evil}x.csv", "mimeType": "text/csv", "buffer": table}
    page.set_input_files("input[name=features]", upload)
    page.fill("input[name=k]", "2")
    page.click("#start")
    page.locator("#views canvas").first.wait_for(timeout=120_000)
    assert evil[:20] in page.text_content("#understood") and evil[:20] in page.text_content("#views")
    with page.context.expect_page() as opened:
        page.click("text=Whole report")
    report = opened.value
    report.locator("#summary td", has_text="<img src=x").first.wait_for()
    page.reload()
    page.locator("#jobs li").first.wait_for()
    for shown in (page, report):
        assert not shown.evaluate("window.pwned") and shown.locator("[onerror]").count() == 0
    # A weight that does not exist: the names come back in a sentence.
    page.locator("#reading summary").click()
    page.fill("input[name=weight]", evil)
    choose(page, "g.csv", f"source,target\n{edges}".encode())
    page.click("#start")
    page.locator("#problem", has_text="<img").wait_for(timeout=60_000)
    assert not page.evaluate("window.pwned") and page.locator("[onerror]").count() == 0
