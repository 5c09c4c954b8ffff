"""Links to terms and references show what they mean: to the mouse, and to the keyboard."""

import pytest

PAGE = "book/appendices/glossary.html"


@pytest.fixture(params=["http", "file"])
def page(visit, request):
    return visit(PAGE, scheme=request.param).page


def test_a_term_shows_its_meaning_at_the_mouse_and_hides_it_behind_it(page):
    link, box = page.locator("dd a[data-preview]").first, page.locator("#preview")
    assert not box.is_visible()
    link.hover()
    assert box.inner_text() == link.get_attribute("data-preview")
    box.hover()
    page.wait_for_timeout(400)
    assert box.is_visible()  # words can be read to the end
    page.locator("article h1").hover()
    page.wait_for_timeout(400)
    assert not box.is_visible()


def test_the_keyboard_shows_it_too_and_escape_hides_it(page):
    link, box = page.locator("dd a[data-preview]").first, page.locator("#preview")
    link.focus()
    assert box.is_visible()
    assert link.get_attribute("aria-describedby") == box.get_attribute("id")
    page.keyboard.press("Escape")
    assert not box.is_visible()
    assert link.get_attribute("aria-describedby") is None


def test_a_citation_shows_its_reference(page):
    link = page.locator("article a[data-preview*='Lin']").first
    link.focus()
    assert "survey of transformers" in page.locator("#preview").inner_text().lower()


def test_no_preview_leaves_the_screen_of_a_phone(visit):
    page = visit(PAGE, width=360).page
    for link in page.locator("dd a[data-preview]").all()[:12]:
        link.focus()
        box = page.locator("#preview").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
