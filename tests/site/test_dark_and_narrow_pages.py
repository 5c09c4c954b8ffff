"""What must hold on every page of the book in the dark, and on a phone."""

import pytest

from .barriers import barriers
from .pages import PAGES
from .visit import visits

# Elements of the text that stick out of the screen and cannot be scrolled to.
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter((element) => {
  const box = element.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1) return false;
  for (let parent = element; parent.tagName != "ARTICLE"; parent = parent.parentElement)
    if (getComputedStyle(parent).overflowX != "visible") return false;
  return true;
}).map((element) => element.outerHTML.slice(0, 200))"""


PHONE = {"width": 360, "height": 900}
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module", params=PAGES)
def seen(request, browser, server, site):
    """The page of the parameter, opened once for both tests, on a phone that is dark."""
    with visits(browser, server, site) as visit:
        yield visit(request.param, width=PHONE["width"], color_scheme="dark")


def test_axe_finds_no_barrier_in_the_dark(seen):
    seen.page.set_viewport_size(DESK)
    assert seen.page.locator("html").get_attribute("data-theme") == "dark"
    barriers(seen.page)


def test_nothing_sticks_out_of_a_phone(seen):
    seen.page.set_viewport_size(PHONE)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert seen.page.evaluate(STICKING_OUT) == []
