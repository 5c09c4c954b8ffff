"""Search works without any server, so also from a folder on disk."""

import pytest


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_chapter(visit, scheme):
    seen = visit("search.html?q=attention", scheme=scheme)
    seen.page.wait_for_selector("#search-results .search li a", timeout=10_000)
    links = seen.page.locator("#search-results .search li a")
    assert "01_attention.html" in " ".join(link.get_attribute("href") for link in links.all())
    assert seen.errors == []
    assert seen.outside == []
