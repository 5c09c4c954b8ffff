"""What must hold on every page of the book in the dark, and on a phone."""

import pytest

from .barriers import barriers
from .pages import PAGES

# Elements of the text that stick out of the screen and cannot be scrolled to.
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter((element) => {
  const box = element.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let parent = element; parent.tagName != "ARTICLE"; parent = parent.parentElement)
    if (getComputedStyle(parent).overflowX != "visible") return false;
  return true;
}).map((element) => element.outerHTML.slice(0, 200))"""


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
