"""The built book as one PDF: its cover, then each page as a browser prints it.

    python tools/pdf.py     prints _build/html as _build/tinyattn-book-VERSION.pdf

Chapters, exercises and appendices follow in the order of the table of contents, which is the outline
of the file. Links from page to page lead inside it, to the first sheet of the page they name; a
widget shows the state it starts in. Fonts are this machine's: without a Chinese one, the glossary's
Chinese words are boxes.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from playwright.sync_api import Browser
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.generic import Fit

from release import version
from tinybook import social

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
MATH_IS_SET = "() => !window.MathJax || MathJax.startup.promise.then(() => true)"
FOOTER = """<div style="width: 100%; font-size: 8px; text-align: center">
<span class="title"></span> · <span class="pageNumber"></span></div>"""
SHEET = {
    "format": "A4",
    "margin": {"top": "16mm", "bottom": "18mm", "left": "18mm", "right": "18mm"},
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": FOOTER,
    "print_background": True,
    "outline": True,
    "tagged": True,  # headings and alt texts, for whoever hears the file
}


def contents(toc: dict) -> Iterator[tuple[str | None, str]]:
    """Caption of its part, and name, of each page in order."""
    yield None, toc["root"]
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            for entry in (chapter, *chapter.get("sections", [])):
                yield part.get("caption"), entry["file"]


def sheets(browser: Browser, address: str) -> tuple[str, PdfReader]:
    """Title and print of one page."""
    page = browser.new_page(color_scheme="light")
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_function(MATH_IS_SET)
    title = page.title().split(" — ")[0]
    printed = page.pdf(**SHEET)
    page.close()
    return title, PdfReader(io.BytesIO(printed))


def cover(title: str, author: str) -> PdfReader:
    file = io.BytesIO()
    social.draw_cover(title, social.BELOW, f"by {author}").savefig(file, format="pdf")
    return PdfReader(file)


def bind(pages: list[tuple[str | None, str, str, PdfReader]], first: PdfReader) -> PdfWriter:
    """One file of a cover and of pages: (caption of its part, address, title, sheets)."""
    writer = PdfWriter()
    writer.append(first, import_outline=False)
    starts, parts = {}, {None: None}
    for caption, address, title, printed in pages:
        starts[address] = at = len(writer.pages)
        writer.append(printed, import_outline=False)
        if caption not in parts:
            parts[caption] = writer.add_outline_item(title=caption, page_number=at)
        writer.add_outline_item(title=title, page_number=at, parent=parts[caption])
    lead_inside(writer, starts)
    return writer


def lead_inside(writer: PdfWriter, starts: dict[str, int]) -> None:
    """Let links to a page of the book lead to its first sheet; links to its other files lead nowhere."""
    base = next(iter(starts)).split("book/")[0]
    for at, page in enumerate(writer.pages):
        kept = []
        for reference in list(page.get("/Annots", [])):
            link = reference.get_object()
            target = str(link.get("/A", {}).get("/URI", ""))
            if not target.startswith(base):
                kept.append(reference)
            elif target.split("#")[0] in starts:
                box = tuple(float(x) for x in link["/Rect"])
                start = starts[target.split("#")[0]]
                inside = Link(rect=box, target_page_index=start, fit=Fit.fit())
                writer.add_annotation(page_number=at, annotation=inside)
                kept.append(page["/Annots"][-1])
        if "/Annots" in page:
            page["/Annots"].clear()
            page["/Annots"].extend(kept)


def problem() -> str | None:
    """Why nothing can be printed here, or None."""
    sys.path.append(str(ROOT))
    from tests.browser import EXECUTABLES

    found = any(map(shutil.which, EXECUTABLES))
    return None if found else "no Chromium or Chrome found: the book is printed by one"


def make(site: Path, folder: Path) -> Path:
    """Print the built pages of `site` as one file in `folder`; returns its path."""
    sys.path.append(str(ROOT))
    from tests.browser import open_browser
    from tests.site.server import Server

    toc, config = (
        yaml.safe_load((ROOT / f"_{name}.yml").read_text("utf-8")) for name in ("toc", "config")
    )
    pages = []
    with Server(site) as server, open_browser() as browser:
        for caption, name in contents(toc):
            address = f"{server.address}{name}.html"
            pages.append((caption, address, *sheets(browser, address)))
            print(f"{name}: {len(pages[-1][-1].pages)} sheets", flush=True)
    writer = bind(pages, cover(config["title"], config["author"]))
    writer.add_metadata({"/Title": config["title"], "/Author": config["author"]})
    file = folder / f"tinyattn-book-{version()}.pdf"
    writer.write(file)
    print(f"{file}: {len(writer.pages)} sheets, {file.stat().st_size / 1e6:.1f} MB")
    return file


def main() -> None:
    if not (SITE / "index.html").is_file():
        sys.exit(f"no pages in {SITE}: run `make book` first")
    if reason := problem():
        sys.exit(reason)
    make(SITE, ROOT / "_build")


if __name__ == "__main__":
    main()
