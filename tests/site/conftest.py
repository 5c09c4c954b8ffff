"""The built book in a real browser: `make test` builds it first.

Without a browser these tests are skipped, unless TINYATTN_REQUIRE_BROWSER is set (as CI does).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from .server import Server
from .visit import Visit

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
EXECUTABLES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
EXECUTABLES += ["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"]
EXECUTABLES += ["C:/Program Files/Google/Chrome/Application/chrome.exe"]
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def skip_or_fail(reason: str) -> None:
    if os.environ.get("TINYATTN_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").exists():
        skip_or_fail("the book is not built: run `make book` to check its pages")
    return SITE


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        skip_or_fail("no Chromium or Chrome found: install one to check the pages in a browser")
    run_by_root = hasattr(os, "geteuid") and os.geteuid() == 0
    flags = [*FLAGS, "--no-sandbox"] if run_by_root else FLAGS
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[Server]:
    with Server(site) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, server: Server, site: Path) -> Iterator[Callable[..., Visit]]:
    """visit("book/intro.html", scheme="file", color_scheme="dark", width=360) -> Visit"""
    contexts = []

    def visit(path: str, *, scheme: str = "http", width: int = 1280, **options) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        base = server.address if scheme == "http" else site.as_uri() + "/"
        return Visit(context.new_page(), base, path)

    yield visit
    for context in contexts:
        context.close()
