"""Pictures of the report and of the local page for the documentation.

``python docs/images/screenshots.py`` (from the root of the checkout) needs playwright and a Chromium.
"""

from __future__ import annotations

import io
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from softcut.datasets import attributed_communities
from softcut.paper.report_sections import write_report
from softcut.serve.app import create_app
from softcut.serve.jobs import Jobs

HERE = Path(__file__).resolve().parent
DESKTOP, PHONE = {"width": 1080, "height": 760}, {"width": 390, "height": 760}


def save(page: Page, name: str) -> None:
    """A picture of what the window shows, with few colours."""
    page.wait_for_timeout(400)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        HERE / name, optimize=True
    )
    print(HERE / name)


def report(browser: Any, folder: Path) -> None:
    """Top of the report, the graph of Cora in the dark, table 2 on a phone."""
    page = write_report("results", folder / "report.html").as_uri()
    light = browser.new_page(viewport=DESKTOP, color_scheme="light")
    light.goto(page + "#table-1-clustering-the-citation-networks")
    save(light, "report-light.png")
    dark = browser.new_page(viewport=DESKTOP, color_scheme="dark")
    dark.goto(page + "#clustering-to-explore-cora-papers-that-cite-each-other")
    view = dark.locator("section#clustering-to-explore-cora-papers-that-cite-each-other [data-view=graph]")
    canvas = view.locator("canvas")
    canvas.wait_for()
    dark.wait_for_timeout(300)
    box, (x, y) = canvas.bounding_box(), view.evaluate("element => element.graphView.place(3)")
    dark.mouse.move(box["x"] + x, box["y"] + y)
    save(dark, "report-dark.png")
    phone = browser.new_page(viewport=PHONE, color_scheme="light")
    phone.goto(page + "#table-2-graph-classification")
    save(phone, "report-phone.png")


def local_page(browser: Any) -> None:
    """The local page with the clusters of a generated graph."""
    graph = attributed_communities(300, 5, edge_signal=0.85, seed=0)
    rows, columns = graph.edge_index()[0]
    lines = "\n".join(f"node {a},node {b}" for a, b in zip(rows, columns, strict=True) if a < b)
    with socket.socket() as listener, Jobs() as jobs:
        listener.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(create_app(jobs, [host]), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        page = browser.new_page(viewport={"width": 1080, "height": 1180}, color_scheme="light")
        page.goto(f"http://{host}")
        upload = {"name": "friends.csv", "mimeType": "text/csv", "buffer": f"source,target\n{lines}".encode()}
        page.set_input_files("input[name=file]", upload)
        page.fill("input[name=k]", "5")
        page.click("#start")
        page.locator("#views canvas").first.wait_for(timeout=300_000)
        save(page, "serve.png")
        page.close()
        server.should_exit = True
        thread.join()


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        report(browser, Path(folder))
        local_page(browser)
        browser.close()


if __name__ == "__main__":
    main()
