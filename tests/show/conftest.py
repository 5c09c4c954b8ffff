"""Figures are drawn without a window, and every test closes its own. Widgets get a page."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from playwright.sync_api import Page

from tinyattn.show.widgets import STATIC
from tinybook.widgets import bundle

matplotlib.use("agg")

THEME = Path(find_spec("pydata_sphinx_theme").origin).parent.joinpath(
    "theme", "pydata_sphinx_theme", "static", "styles", "pydata-sphinx-theme.css"
)
# How the book wraps the html that a cell returns.
OUTPUT = '<div class="cell_output container"><div class="output text_html">{}</div></div>'


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    """Settings are as before when a test ends; figures it made itself are closed."""
    settings = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == settings


@pytest.fixture
def open_page(browser, tmp_path) -> Iterator[Callable[..., Page]]:
    """open_page(widget html, ..., theme="dark", has_touch=True): a page of the book, from disk."""
    contexts = []

    def open_page(*widgets: str, theme: str = "light", **options: object) -> Page:
        script = bundle(sorted(STATIC.glob("*.js")))
        look = THEME.read_text(encoding="utf-8") + (STATIC / "widgets.css").read_text("utf-8")
        body = "".join(OUTPUT.format(widget) for widget in widgets)
        (tmp_path / "page.html").write_text(
            f'<!doctype html><html lang="en" data-theme="{theme}"><title>Widgets</title>'
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<style>{look}</style><main class="bd-content"><h1>Widgets</h1>{body}</main>'
            f"<script>{script}</script></html>",
            encoding="utf-8",
        )
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
