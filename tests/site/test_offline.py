"""The archive of the book, unpacked in a folder whose name is not easy."""

from zipfile import ZipFile

import pytest

import offline

from .visit import Visit


@pytest.fixture(scope="module")
def unpacked(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ein Buch, 书")
    with ZipFile(offline.pack(site, folder)) as packed:
        packed.extractall(folder)
    (book,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return book


@pytest.fixture
def opened(browser, unpacked):
    context = browser.new_context()
    yield lambda path: Visit(context.new_page(), unpacked.as_uri() + "/", path)
    context.close()


def test_its_first_page_is_the_front_of_the_book(opened):
    seen = opened("index.html")
    seen.page.wait_for_url("**/book/intro.html")
    assert seen.page.locator("h1").first.inner_text().startswith("Transformers and")
    assert (seen.errors, seen.outside, seen.missing) == ([], [], [])


def test_a_chapter_in_it_shows_formulas_and_gives_its_notebook(opened):
    seen = opened("book/01_attention.html").settle()
    assert seen.page.locator("article mjx-container").count() > 0
    assert (seen.errors, seen.outside, seen.missing) == ([], [], [])


def test_it_is_small_enough_to_mail(site, tmp_path):
    assert offline.pack(site, tmp_path).stat().st_size < 25e6
