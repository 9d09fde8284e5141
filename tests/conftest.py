"""Settings of every test: hypothesis draws the same examples in every run, on machines of any speed."""

import importlib
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

# Without a GPU the kernels run in Triton's interpreter, which must be known before anything imports Triton.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the tests in tests/gpu run without it
    pass
else:
    settings.register_profile(
        "softcut",
        derandomize=True,
        deadline=None,
        max_examples=20,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("softcut")

# A shell that starts the tests in the background makes them ignore Ctrl-C; the tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def data() -> str:
    """The folder of the data sets, where it holds the Bench graphs."""
    root = os.environ.get("SOFTCUT_DATA", "")
    if not root or not (Path(root) / "bench/easy_small.npz").is_file():
        pytest.skip("Bench is not in SOFTCUT_DATA")
    return root


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the test works in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what has been multiplied by a sparse matrix, in order."""
    module = importlib.import_module("softcut.ops.spmm")  # the name in softcut.ops is the function
    original, shapes = module.sparse_product, []

    def counted(pattern, val, s, *scale):
        shapes.append(tuple(s.shape))
        return original(pattern, val, s, *scale)

    monkeypatch.setattr(module, "sparse_product", counted)
    return shapes


# A real browser without a window, where there is one.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")  # while it is open, an event loop runs, and asyncio.run is refused
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
