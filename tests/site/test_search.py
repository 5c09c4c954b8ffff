"""Search works without any server, so also from a folder on disk."""

import pytest


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_chapter(visit, scheme):
    seen = visit("search.html?q=attention", scheme=scheme)
    found = '#search-results .search li a[href*="01_attention.html"]'  # after terms of the glossary
    seen.page.wait_for_selector(found, timeout=10_000)
    assert seen.errors == []
    assert seen.outside == []
