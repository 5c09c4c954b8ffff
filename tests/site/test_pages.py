"""What must hold on every page of the book, widgets included, which have no kernel here."""

import gzip
import re

import pytest
from playwright.sync_api import Locator

from .barriers import barriers
from .pages import CHAPTERS_SEEN, PAGES_SEEN, PAGES_SEEN_BOTH_WAYS

MAX_BYTES = 900_000  # compressed, as a web host sends it
MAX_BYTES_WITHOUT_PICTURES = 500_000  # without the chapter's own figures and widgets' frames

# What a reader sees of a widget, without the state of its controls.
PICTURE = """widget => [
  widget.innerText,
  ...[...widget.querySelectorAll("img")].map(image => image.src),
  ...[...widget.querySelectorAll("canvas")].map(canvas => canvas.toDataURL()),
  ...[...widget.querySelectorAll("svg")].map(drawing => drawing.outerHTML),
].join(" ")"""


def operate(control: Locator) -> None:
    """Move a control as the keyboard does."""
    control.focus()
    at_end = control.evaluate("it => it.type == 'range' && it.value == it.max")
    control.press("ArrowLeft" if at_end else "ArrowRight")


chapter = pytest.mark.parametrize("seen", CHAPTERS_SEEN, indirect=True)
page = pytest.mark.parametrize("seen", PAGES_SEEN, indirect=True)
page_both_ways = pytest.mark.parametrize("seen", PAGES_SEEN_BOTH_WAYS, indirect=True)


# Tests of what was `seen` share one visit of a page, in any order.


@page_both_ways
def test_it_loads_without_errors_and_asks_no_other_site(seen):
    assert seen.errors == []
    assert seen.outside == []
    assert seen.missing == []


@chapter
def test_it_is_light(seen, site):
    assert sum(seen.sent.values()) < MAX_BYTES, seen.sent
    bare = {file: size for file, size in seen.sent.items() if not file.startswith("/_images/")}
    assert f"/{seen.path}" in bare
    html = (site / seen.path).read_bytes()
    html = re.sub(rb'data-state="[^"]*"|base64,[^"]*', b"", html)
    bare[f"/{seen.path}"] = len(gzip.compress(html))
    assert sum(bare.values()) < MAX_BYTES_WITHOUT_PICTURES, bare


@page
def test_images_are_described_in_words(seen):
    images = seen.page.locator("article img").all()
    for alt in [image.get_attribute("alt") for image in images]:
        assert alt, "an image without alt text"
        assert not re.fullmatch(r"\S*\.(png|svg|jpe?g|gif|webp)", alt), alt


@page_both_ways
def test_math_is_typeset(seen):
    n_formulas = seen.page.locator("article .math").count()
    assert seen.page.locator("article mjx-container").count() == n_formulas
    assert seen.page.locator("mjx-merror, mjx-container [data-mjx-error]").count() == 0


@chapter
def test_errors_are_shown_only_where_a_cell_asks_for_them(seen):
    text = seen.page.locator("article").evaluate("""article => {
      const copy = article.cloneNode(true);
      // By a cell that asks for it, by an example of a docstring.
      for (const asked of copy.querySelectorAll(".traceback, .api .highlight")) asked.remove();
      return copy.textContent;
    }""")
    assert "Traceback (most recent call last)" not in text


@page_both_ways
def test_sliders_change_the_picture(seen):
    assert seen.page.locator(".tinyattn-widget-error").count() == 0
    for widget in seen.page.locator("[data-tinyattn-widget]").all():
        if widget.get_attribute("data-tinyattn-widget") == "study":
            continue  # quizzes and lists have no slider; tests/show asks them
        before = widget.evaluate(PICTURE)
        operate(widget.locator("input[type=range]").first)
        assert widget.evaluate(PICTURE) != before, "the slider moved and nothing changed"
    assert seen.errors == []


@page
def test_axe_finds_no_barrier_in_light(seen):
    assert seen.page.locator("html").get_attribute("data-theme") == "light"
    barriers(seen.page)
