"""A real browser without a window, where there is one."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if root else [])
        yield made
        made.close()


@pytest.fixture
def open_page(browser):
    """Open an address; whatever the page complains about is an error at the end of the test."""
    pages, complaints = [], []

    def show(address, **options):
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **options})
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        pages.append(page)
        page.goto(address)
        return page

    show.complaints = complaints
    yield show
    for page in pages:
        page.close()
    assert not complaints
