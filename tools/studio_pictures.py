"""The pictures of the studio that its page and the README show, taken from the built book.

    make pictures     writes book/_static/studio-light.png, -dark and -phone

Each ends below the numbers, so that no line of text is cut. A test takes them again and fails when
they show something else than the studio does.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
PAGE = "book/studio.html"
MARGIN = 10  # pixels of the page around the studio


@dataclass(frozen=True)
class Picture:
    """What is chosen in the studio, and how wide and in which colours the page is."""

    width: int
    colours: str
    n: int
    compared: str = ""


PICTURES = {
    "light": Picture(1280, "light", 32),
    "dark": Picture(1280, "dark", 16, "BigBird"),
    "phone": Picture(360, "light", 32),
}


def file_of(name: str) -> Path:
    return ROOT / "book" / "_static" / f"studio-{name}.png"


def take(browser: Browser, base: str, picture: Picture) -> bytes:
    """The studio of the built book at `base`, as a PNG."""
    page = browser.new_page(
        viewport={"width": picture.width, "height": 900},
        color_scheme=picture.colours,
        has_touch=picture.width < 600,
    )
    page.goto(base + PAGE)
    page.wait_for_load_state("networkidle")
    studio = page.locator(".tinyattn-studio").first
    start, compared = studio.locator("select").all()[:2]
    start.select_option(label="Longformer")
    size = studio.locator("input[type=range]").first
    size.focus()
    page.keyboard.press("Home")
    while n_shown(studio) < picture.n:
        page.keyboard.press("ArrowRight")
    if picture.compared:
        compared.select_option(label=picture.compared)
    page.evaluate("document.activeElement.blur()")
    box, views = studio.bounding_box(), studio.locator(".tinyattn-studio-views").bounding_box()
    left, top = (page.evaluate(f"scroll{axis}") for axis in "XY")
    clip = {
        "x": box["x"] + left - MARGIN,
        "y": box["y"] + top - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": views["y"] + views["height"] - box["y"] + 2 * MARGIN,
    }
    taken = page.screenshot(clip=clip, full_page=True, animations="disabled")
    page.close()
    packed = io.BytesIO()  # a third of the bytes, and no eye sees it
    with Image.open(io.BytesIO(taken)) as whole:
        whole.convert("RGB").quantize(64).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def n_shown(studio: Locator) -> int:
    pairs = studio.locator("[data-number=pairs]").text_content()
    return round(int(pairs.split(" of ")[1].replace(",", "")) ** 0.5)


def main() -> None:
    if not (SITE / PAGE).is_file():
        sys.exit(f"no page of the studio in {SITE}: run `make book` first")
    sys.path.append(str(ROOT))
    from tests.browser import open_browser
    from tests.site.server import Server

    with Server(SITE) as server, open_browser() as browser:
        for name, picture in PICTURES.items():
            file_of(name).write_bytes(take(browser, server.address, picture))
            print(f"{file_of(name)}: {file_of(name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
