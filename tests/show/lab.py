"""Starts a JupyterLab for tests, with nothing of the reader's in it, and runs its cells."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Browser, Locator, Page, Route, expect

from ..browser import skip_or_fail

SECONDS = 60  # until it has started, or a cell has run
VIEW = {"width": 1280, "height": 1000}
OPTIONS = [
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port=0",  # whichever is free
    "--ServerApp.open_browser=False",
    "--ServerApp.allow_root=True",
    "--ServerApp.terminals_enabled=False",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
]
# Every folder that Jupyter and IPython read or write outside their installation.
FOLDERS = [
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
]
NOTIFICATIONS = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"


@contextmanager
def jupyterlab(folder: Path, cells: list[str]) -> Iterator[str]:
    """The address of a notebook with these cells in a JupyterLab that stops at the end."""
    if find_spec("jupyterlab") is None:
        skip_or_fail("jupyterlab is not installed: it is in requirements-test.txt")
    own = {name: str(folder / name) for name in FOLDERS}
    settings = folder / "JUPYTERLAB_SETTINGS_DIR" / NOTIFICATIONS
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    root = folder / "notebooks"
    root.mkdir()
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(book, root / "studio.ipynb")
    token = secrets.token_hex()
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={root}"]
    with open(folder / "log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, **own, "JUPYTER_TOKEN": token},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"{_address(server, folder)}lab/tree/studio.ipynb?token={token}"
    finally:
        server.terminate()  # its kernels with it
        server.wait(SECONDS)


def _address(server: subprocess.Popen, folder: Path) -> str:
    """What the server writes down once it listens."""
    written = folder / "JUPYTER_RUNTIME_DIR" / f"jpserver-{server.pid}.json"
    until = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < until:
        if written.exists() and (said := written.read_text(encoding="utf-8")).endswith("}"):
            return json.loads(said)["url"]
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.05)
    raise AssertionError(f"JupyterLab did not start:\n{(folder / 'log').read_text('utf-8')}")


class Notebook:
    """A notebook that is open in JupyterLab, as a reader operates and sees it."""

    def __init__(self, page: Page):
        self.page = page
        self.cells = page.locator(".jp-Notebook .jp-Cell")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=1000 * SECONDS)

    def run(self, number: int) -> Locator:
        """Click into a cell that has not run, press Shift and Enter, and wait for its number."""
        cell = self.cells.nth(number)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=1000 * SECONDS)
        return cell

    def printed(self, number: int) -> str:
        """Run a cell, and read what it printed, or its error."""
        output = self.run(number).locator(".jp-OutputArea-output pre")
        return "".join(output.all_text_contents()).strip()


@contextmanager
def open_notebook(browser: Browser, folder: Path, cells: list[str]) -> Iterator[Notebook]:
    """A notebook with these cells, on a page that is refused every address but its server's."""
    with jupyterlab(folder, cells) as address:
        context = browser.new_context(viewport=VIEW)
        refused = []

        def refuse(route: Route) -> None:
            refused.append(route.request.url)
            route.abort()

        own = re.escape("{0.scheme}://{0.netloc}/".format(urlsplit(address)))
        context.route(re.compile(rf"^(?!{own})https?:"), refuse)
        page = context.new_page()
        page.goto(address)
        yield Notebook(page)
        context.close()
        assert refused == []
