"""One page opened in the browser, with everything that went wrong on the way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from playwright.sync_api import Browser, Page, Route

from .server import Server

MATH_IS_SET = (
    "() => !window.MathJax || !MathJax.startup || MathJax.startup.promise.then(() => true)"
)


class Visit:
    """Opens `base + path`. Requests to anywhere but `base` are refused and recorded."""

    def __init__(self, page: Page, base: str, path: str) -> None:
        self.page = page
        self.base = base
        self.path = path
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.missing: list[str] = []
        self.sent: dict[str, int] = {}
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", lambda r: r.status >= 400 and self.missing.append(r.url))
        page.on("requestfailed", lambda request: self.missing.append(request.url))
        page.route("**/*", self._only_from_base)
        page.goto(base + path)
        page.wait_for_function(MATH_IS_SET)

    def settle(self) -> Self:
        """Wait until the page asks for nothing more."""
        self.page.wait_for_load_state("networkidle")
        return self

    def _on_console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location['url']})")

    def _only_from_base(self, route: Route) -> None:
        url = route.request.url
        if url.startswith((self.base, "data:", "blob:")):
            route.continue_()
        else:
            self.outside.append(url)
            route.abort()


@contextmanager
def visits(browser: Browser, server: Server, site: Path) -> Iterator[Callable[..., Visit]]:
    """visit("book/intro.html", scheme="file", color_scheme="dark", width=360) -> Visit"""
    contexts = []

    def visit(path: str, *, scheme: str = "http", width: int = 1280, **options) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        base = server.address if scheme == "http" else site.as_uri() + "/"
        server.sent.clear()
        return Visit(context.new_page(), base, path)

    yield visit
    for context in contexts:
        context.close()
