"""What must hold on every page of the book, widgets included, which have no kernel here."""

import gzip
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator

from .pages import CHAPTERS_SEEN, PAGES, PAGES_SEEN, PAGES_SEEN_BOTH_WAYS

MAX_BYTES = 900_000  # compressed, as a web host sends it
MAX_BYTES_WITHOUT_PICTURES = 500_000  # without the chapter's own figures and widgets' frames

# Elements of the text that stick out of the screen and cannot be scrolled to.
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter((element) => {
  const box = element.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let parent = element; parent.tagName != "ARTICLE"; parent = parent.parentElement)
    if (getComputedStyle(parent).overflowX != "visible") return false;
  return true;
}).map((element) => element.outerHTML.slice(0, 200))"""

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


def text_in_the_colour_of_its_background(found: dict) -> list[str]:
    """Invisible text, which axe only doubts: it might be hidden on purpose."""
    return [
        node["html"]
        for rule in found["incomplete"]
        for node in rule["nodes"]
        for check in node["any"]
        if (check["data"] or {}).get("messageKey") == "equalRatio"
    ]


def barriers(page) -> None:
    """Fails with what axe finds.

    Left to itself axe loads style sheets once more, and those that others import from where they
    are not: the page's console would have an error of its tests.
    """
    found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
    assert found.violations_count == 0, found.generate_report()
    assert text_in_the_colour_of_its_background(found.response) == []


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


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_barrier_in_the_dark(visit, path):
    page = visit(path, color_scheme="dark").page
    assert page.locator("html").get_attribute("data-theme") == "dark"
    barriers(page)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_sticks_out_of_a_phone(visit, path):
    page = visit(path, width=360).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(STICKING_OUT) == []
