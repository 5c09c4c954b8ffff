"""What a page shows on paper, on a phone, and where it is folded: measured, not looked at."""

import pytest

THEME = "document.documentElement.dataset.theme"
WIDE = "[...document.querySelectorAll('mjx-container[display]')].filter(it => it.tabIndex == 0)"


def test_a_dark_page_prints_on_white_paper_and_is_dark_again(visit):
    page = visit("book/02_transformer.html", color_scheme="dark").settle().page
    page.evaluate(f"addEventListener('beforeprint', () => (window.printed = {THEME}))")
    page.pdf()
    assert page.evaluate("printed") == "light"
    assert page.evaluate(THEME) == "dark"
    page.emulate_media(media="print")
    page.wait_for_function(f"{THEME} == 'light'")
    colour = "name => getComputedStyle(document.querySelector(name)).color"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(colour, "article h2") == "rgb(0, 0, 0)"
    page.emulate_media(media="screen")
    page.wait_for_function(f"{THEME} == 'dark'")


def test_a_printed_chapter_has_its_number_and_no_line_about_a_download(visit):
    page = visit("book/02_transformer.html").settle().page
    page.emulate_media(media="print")
    titles = [title for title in page.locator("h1").all() if title.is_visible()]
    assert [title.inner_text()[:3] for title in titles] == ["2. "]
    assert not page.get_by_text("as a notebook (.ipynb)").is_visible()


@pytest.mark.parametrize("chapter", ["06_taxonomy", "07_atomic"])
def test_formulas_on_a_phone_have_their_number_above_and_can_be_read(visit, chapter):
    page = visit(f"book/{chapter}.html", width=360).settle().page
    numbered = page.locator("div.math:has(> .eqno)").all()
    assert numbered
    for formula in numbered:
        number = formula.locator(".eqno").bounding_box()
        assert (
            number["y"] + number["height"] <= formula.locator("mjx-container").bounding_box()["y"]
        )
    sizes = "[...document.querySelectorAll('mjx-container[display]')].map(it => getComputedStyle(it).fontSize)"
    assert min(float(size.removesuffix("px")) for size in page.evaluate(sizes)) >= 14


def test_what_is_wider_than_a_screen_shows_that_it_goes_on(visit):
    page = visit("book/07_atomic.html", width=240).settle().page
    shown = page.evaluate(f"{WIDE}.map(it => getComputedStyle(it).backgroundImage)")
    assert shown, "no formula is too wide: choose another chapter"
    code = page.locator(".cell_input pre >> visible=true").first
    shown.append(code.evaluate("it => getComputedStyle(it).backgroundImage"))
    assert all(image.count("gradient") == 4 for image in shown)


def test_a_table_that_is_wider_than_a_phone_shows_that_it_goes_on(visit):
    page = visit("book/05_comparison.html", width=360).settle().page
    tables = page.locator(".pst-scrollable-table-container").all()
    cut = [it for it in tables if it.evaluate("it => it.scrollWidth > it.clientWidth + 1")]
    assert cut, "no table is too wide: choose another chapter"
    for table in cut:
        image = table.evaluate("it => getComputedStyle(it).backgroundImage")
        assert image.count("gradient") == 4
        grounds = """it => [...it.querySelectorAll("table, tr, th, td, thead, tbody")]
            .map(part => getComputedStyle(part).backgroundColor)"""
        assert set(table.evaluate(grounds)) == {"rgba(0, 0, 0, 0)"}  # nothing covers the shade


def test_a_picture_leads_to_its_file(visit, site):
    page = visit("book/02_transformer.html", width=360).settle().page
    link = page.locator("#fig-reach a.image-reference")
    assert link.locator("img").get_attribute("alt")
    assert (site / "book" / link.get_attribute("href")).is_file()


@pytest.mark.parametrize("path", ["exercises/lsh", "appendices/bug_museum"])
def test_solutions_fold_under_that_word(visit, path):
    page = visit(f"book/{path}.html").settle().page
    folds = page.locator(".tag_solution > details > summary").all()
    assert folds
    assert {fold.inner_text().strip() for fold in folds} == {"Solution"}
    assert not any(fold.get_attribute("aria-label") for fold in folds)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_name_in_the_coverage_is_not_broken_between_two_letters(visit, width):
    page = visit("book/appendices/coverage.html", width=width).settle().page
    boxes = "[...document.querySelectorAll('.pst-scrollable-table-container')]"
    if width > 1000:
        assert page.evaluate(f"{boxes}.every(it => it.scrollWidth <= it.clientWidth + 1)")
    name = page.locator("td code", has_text="MultiHeadAttention").first
    assert name.evaluate("it => it.getClientRects().length") == 1


def test_a_title_of_the_progress_page_leads_to_its_exercise(visit):
    page = visit("book/progress.html", scheme="file").settle().page
    page.get_by_role("link", name="2. How often two vectors meet").click()
    page.wait_for_url("**/exercises/lsh.html#exercise-10-2")
    heading = "document.querySelector(':target').closest('section').querySelector('h2').innerText"
    assert page.evaluate(heading).startswith("Exercise 10.2. How often")
