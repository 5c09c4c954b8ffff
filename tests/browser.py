"""The browser that is on this machine, for tests of what readers see.

Without one such tests are skipped, unless TINYATTN_REQUIRE_BROWSER is set (as CI does).
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

EXECUTABLES = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
]
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


@contextmanager
def open_browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        skip_or_fail("no Chromium or Chrome found: install one to check the pages in a browser")
    run_by_root = hasattr(os, "geteuid") and os.geteuid() == 0
    flags = [*FLAGS, "--no-sandbox"] if run_by_root else FLAGS
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()
