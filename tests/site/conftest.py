"""The built book in a real browser: `make site` builds it first."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ..browser import skip_or_fail
from .server import Server
from .visit import Visit, visits

SITE = Path(__file__).parents[2] / "_build" / "html"


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").exists():
        skip_or_fail("the book is not built: run `make book` to check its pages")
    return SITE


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[Server]:
    with Server(site) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, server: Server, site: Path) -> Iterator[Callable[..., Visit]]:
    with visits(browser, server, site) as visit:
        yield visit


@pytest.fixture(scope="module")
def seen(request, browser: Browser, server: Server, site: Path) -> Iterator[Visit]:
    """The page of the parameter (path, scheme), opened once for all tests that look at it."""
    path, scheme = request.param
    with visits(browser, server, site) as visit:
        page = visit(path, scheme=scheme).settle()
        page.sent = dict(server.sent)  # the next visit clears it
        yield page
