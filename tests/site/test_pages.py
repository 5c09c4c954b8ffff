"""What must hold on every page of the book."""

import gzip
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from .pages import CHAPTERS, PAGES

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


def text_in_the_colour_of_its_background(found: dict) -> list[str]:
    """Invisible text, which axe only doubts: it might be hidden on purpose."""
    return [
        node["html"]
        for rule in found["incomplete"]
        for node in rule["nodes"]
        for check in node["any"]
        if (check["data"] or {}).get("messageKey") == "equalRatio"
    ]


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("path", PAGES)
def test_it_loads_without_errors_and_asks_no_other_site(visit, path, scheme):
    seen = visit(path, scheme=scheme).settle()
    assert seen.errors == []
    assert seen.outside == []
    assert seen.missing == []


@pytest.mark.parametrize("path", CHAPTERS)
def test_it_is_light(visit, server, site, path):
    server.sent.clear()
    visit(path).settle()
    assert sum(server.sent.values()) < MAX_BYTES, server.sent
    bare = {file: size for file, size in server.sent.items() if not file.startswith("/_images/")}
    html = (site / path).read_bytes()
    bare[f"/{path}"] = len(gzip.compress(re.sub(rb'data-state="[^"]*"|base64,[^"]*', b"", html)))
    assert sum(bare.values()) < MAX_BYTES_WITHOUT_PICTURES, bare


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier(visit, path, theme):
    page = visit(path, color_scheme=theme).page
    assert page.locator("html").get_attribute("data-theme") == theme
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert text_in_the_colour_of_its_background(found.response) == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_sticks_out_of_a_phone(visit, path):
    page = visit(path, width=360).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(STICKING_OUT) == []


@pytest.mark.parametrize("path", CHAPTERS)
def test_images_are_described_in_words(visit, path):
    images = visit(path).page.locator("article img").all()
    for alt in [image.get_attribute("alt") for image in images]:
        assert alt, "an image without alt text"
        assert not re.fullmatch(r"\S*\.(png|svg|jpe?g|gif|webp)", alt), alt


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("path", CHAPTERS)
def test_math_is_typeset(visit, path, scheme):
    page = visit(path, scheme=scheme).page
    n_formulas = page.locator("article .math").count()
    assert page.locator("article mjx-container").count() == n_formulas
    assert page.locator("mjx-merror, mjx-container [data-mjx-error]").count() == 0


@pytest.mark.parametrize("path", CHAPTERS)
def test_errors_are_shown_only_where_a_cell_asks_for_them(visit, path):
    article = visit(path).page.locator("article")
    shown = (
        ".traceback, .api .highlight"  # by a cell that asks for it, by an example of a docstring
    )
    article.locator(shown).evaluate_all("found => found.forEach(one => one.remove())")
    assert "Traceback (most recent call last)" not in article.text_content()
