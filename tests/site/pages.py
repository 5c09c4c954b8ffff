"""The pages that are checked: every chapter of the table of contents."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def chapters() -> list[str]:
    """Paths of the chapters without suffix, in reading order: book/intro, ..."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    entries = [entry for part in toc["parts"] for entry in part["chapters"]]
    files = [file for entry in entries for file in [entry, *entry.get("sections", [])]]
    return [toc["root"], *(entry["file"] for entry in files)]


CHAPTERS = [pytest.param(f"{chapter}.html", id=Path(chapter).name) for chapter in chapters()]
PAGES = [*CHAPTERS, pytest.param("search.html", id="search")]
