"""tools/pdf.py: the order of the pages, and where links and the outline lead."""

import io
from pathlib import Path

import pytest
import yaml

pypdf = pytest.importorskip("pypdf")

from pypdf.annotations import Link

import pdf

BASE = "http://127.0.0.1:1/"


def printed(n_sheets, *links):
    """A print of so many sheets, with these links on the first."""
    writer = pypdf.PdfWriter()
    for _ in range(n_sheets):
        writer.add_blank_page(width=100, height=100)
    for link in links:
        writer.add_annotation(page_number=0, annotation=Link(rect=(1, 2, 3, 4), url=link))
    file = io.BytesIO()
    writer.write(file)
    return pypdf.PdfReader(file)


def bound(*pages):
    file = io.BytesIO()
    pdf.bind(list(pages), printed(1)).write(file)
    return pypdf.PdfReader(file)


def test_the_order_is_that_of_the_table_of_contents():
    toc = yaml.safe_load((pdf.ROOT / "_toc.yml").read_text(encoding="utf-8"))
    names = [name for _, name in pdf.contents(toc)]
    assert names[:3] == ["book/intro", "book/studio", "book/01_attention"]
    assert names.index("book/appendices/api") + 1 == names.index("book/appendices/api/attention")
    found = [f for kind in ("ipynb", "md") for f in pdf.ROOT.glob(f"book/**/*.{kind}")]
    assert sorted(names) == sorted(str(f.relative_to(pdf.ROOT).with_suffix("")) for f in found)


def test_the_outline_has_the_pages_of_a_part_below_its_name():
    book = bound(
        (None, f"{BASE}book/intro.html", "Intro", printed(2)),
        ("Part I", f"{BASE}book/a.html", "1. A", printed(3)),
        ("Part I", f"{BASE}book/b.html", "2. B", printed(1)),
    )
    intro, part, inside = book.outline
    assert [item.title for item in (intro, part, *inside)] == ["Intro", "Part I", "1. A", "2. B"]
    places = [book.get_destination_page_number(item) for item in (intro, part, *inside)]
    assert places == [1, 3, 3, 6]
    assert len(book.pages) == 1 + 2 + 3 + 1


def test_links_to_pages_lead_inside_and_links_to_other_sites_stay():
    links = [f"{BASE}book/b.html#part", "https://arxiv.org/abs/1", f"{BASE}_sources/book/a.ipynb"]
    book = bound(
        ("Part I", f"{BASE}book/a.html", "A", printed(2, *links)),
        ("Part I", f"{BASE}book/b.html", "B", printed(1)),
    )
    inside, outside = [one.get_object() for one in book.pages[1]["/Annots"]]
    assert outside["/A"]["/URI"] == links[1]
    target = inside["/Dest"][0]
    assert book.pages[3].indirect_reference.idnum in (target, getattr(target, "idnum", None))
    assert [float(x) for x in inside["/Rect"]] == [1, 2, 3, 4]


def test_without_pages_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "SITE", Path(tmp_path))
    with pytest.raises(SystemExit, match="make book"):
        pdf.main()


def test_without_a_browser_it_says_so(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("")
    monkeypatch.setattr(pdf, "SITE", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SystemExit, match="no Chromium or Chrome found"):
        pdf.main()
