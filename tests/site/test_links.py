"""The files of the pages, read without a browser: valid HTML, and links that lead somewhere."""

from collections import Counter
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from .pages import CHAPTERS, NOTEBOOKS, PAGES


@cache
def parsed(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(page: Path) -> set[str]:
    return {tag["id"] for tag in parsed(page).find_all(id=True)} | {"", "top"}


@pytest.mark.parametrize("path", [*PAGES, pytest.param("index.html", id="index")])
def test_links_resolve(site, path):
    page = site / path
    for tag in parsed(page).find_all(["a", "link", "img", "script"]):
        address = urlsplit(tag.get("href") or tag.get("src") or "")
        if address.scheme or address.netloc:
            continue
        target = (page.parent / unquote(address.path)).resolve() if address.path else page
        assert target.is_file(), f"{tag} leads to no file"
        if target.suffix == ".html":
            assert unquote(address.fragment) in anchors(target), f"{tag} leads to no anchor"


@pytest.mark.parametrize("path", [*PAGES, pytest.param("index.html", id="index")])
def test_the_html_is_valid(site, path):
    html5lib = pytest.importorskip("html5lib", reason="html5lib is in requirements-test.txt")
    parser = html5lib.HTMLParser()
    parser.parse((site / path).read_text(encoding="utf-8"))
    assert [(place, html5lib.constants.E[code] % data) for place, code, data in parser.errors] == []


@pytest.mark.parametrize("path", PAGES)
def test_an_anchor_stands_for_one_place(site, path):
    ids = Counter(tag["id"] for tag in parsed(site / path).find_all(id=True))
    assert [name for name, n_times in ids.items() if n_times > 1] == []


@pytest.mark.parametrize("path", CHAPTERS)
def test_headings_skip_no_level_and_one_is_the_title(site, path):
    levels = [
        int(tag.name[1]) for tag in parsed(site / path).select("article :is(h1,h2,h3,h4,h5,h6)")
    ]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("path", CHAPTERS)
def test_a_link_from_elsewhere_shows_a_picture_and_a_sentence(site, path):
    page = parsed(site / path)
    tags = {tag["property"]: tag["content"] for tag in page.find_all("meta", property=True)}
    assert tags["og:image"].endswith("/_static/social.png")
    assert (site / "_static" / "social.png").is_file()
    assert len(page.find("meta", attrs={"name": "description"})["content"]) > 20
    assert tags["og:url"].endswith(path)
    assert tags["og:title"]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_says_what_it_takes_and_can_be_taken_away(site, path):
    facts = parsed(site / path).select_one(".chapter-facts")
    assert facts.select_one("a[download]")["href"].endswith(f"{Path(path).stem}.ipynb")


def test_every_public_name_has_a_place_in_the_pages_about_the_package(site):
    pages = sorted((site / "book" / "appendices" / "api").glob("*.html"))
    places = set().union(*(anchors(page) for page in pages))
    for package in ("patterns", "content", "transformer", "families", "analysis", "show"):
        module = import_module(f"tinyattn.{package}")
        assert {f"tinyattn-{package}-{name}" for name in module.__all__} <= places
