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


FILES = [f"{chapter}.html" for chapter in chapters()]
CHAPTERS = [pytest.param(path, id=Path(path).stem) for path in FILES]
PAGES = [*CHAPTERS, pytest.param("search.html", id="search")]
NOTEBOOKS = [
    pytest.param(path, id=Path(path).stem)
    for path in FILES
    if (ROOT / path).with_suffix(".ipynb").is_file()
]


def opened_by(scheme: str, paths: list[str]) -> list:
    return [pytest.param((path, scheme), id=f"{Path(path).stem}-{scheme}") for path in paths]


# Parameters of `seen`. A page keeps its place in all of them: pytest then groups the tests by page.
CHAPTERS_SEEN = opened_by("http", FILES)
PAGES_SEEN = opened_by("http", [*FILES, "search.html"])
PAGES_SEEN_BOTH_WAYS = PAGES_SEEN + opened_by("file", [*FILES, "search.html"])
