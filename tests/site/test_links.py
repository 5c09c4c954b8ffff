"""Every link inside the book leads somewhere: page and anchor. Read from the files, no browser."""

from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from .pages import PAGES


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
