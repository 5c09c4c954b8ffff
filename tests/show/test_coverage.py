"""The table of what the book treats: each name, file and figure in it has to exist."""

import json
from dataclasses import FrozenInstanceError
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from tinyattn.exercises import exercise
from tinyattn.show.coverage import ENTRIES, HOLE, Entry, coverage_table
from tinyattn.show.taxonomy import ATTENTION

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = {entry["file"] for part in TOC["parts"] for entry in part["chapters"]}
NAMES = [entry.what for entry in ENTRIES]


def drawn_under(chapter: str) -> set[str]:
    """Headings of a chapter, and those around them, under which something is drawn."""
    above, found = {}, set()
    for cell in json.loads((ROOT / f"book/{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                level = len(line) - len(line.lstrip("#"))
                if 0 < level < 4 and line[level] == " ":
                    above = {k: v for k, v in above.items() if k < level} | {
                        level: line[level + 1 :]
                    }
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            if "image/png" in data or "data-tinyattn-widget" in html or "tinyattn-tree" in html:
                found |= set(above.values())
    return found


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_what_an_entry_names_exists(entry):
    assert entry.chapter is None or f"book/{entry.chapter}" in CHAPTERS
    for name in entry.code:
        package, _, last = f"tinyattn.{name}".rpartition(".")
        assert hasattr(import_module(package), last), name
    for file in entry.tests:
        assert (ROOT / "tests" / file).is_file(), file
    if entry.figure:
        assert entry.figure in drawn_under(entry.chapter)
    for name in entry.exercises:
        assert exercise(name).name == name
        assert entry.chapter.endswith(name.split("/")[0]) or name == "usage/causal"


def said_of_figures(chapter: str) -> str:
    """The alt texts of a chapter's figures, one after the other."""
    cells = json.loads((ROOT / f"book/{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    said = [output.get("metadata", {}).get("image/png", {}).get("alt", "") for output in outputs]
    return " ".join(said)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_what_a_figure_of_the_chapter_names_is_not_a_hole(entry):
    if entry.chapter and not entry.figure:
        assert entry.what.lower() not in said_of_figures(entry.chapter).lower()


def test_what_figures_say_is_read_from_the_chapter():
    assert "Left, Star-Transformer: first row" in said_of_figures("08_compound")


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_tests_of_an_entry_speak_of_its_code(entry):
    texts = "".join((ROOT / "tests" / file).read_text(encoding="utf-8") for file in entry.tests)
    for name in entry.code:
        assert name.rpartition(".")[2] in texts, name


def test_no_model_of_the_tree_with_code_is_missing():
    covered = {name for entry in ENTRIES for name in entry.code}
    named = {node.code for node in ATTENTION.walk() if node.code}
    assert named - covered == set()


def test_a_hole_is_shown_as_a_hole():
    assert Entry("9", "nothing").holes == 5
    row = next(line for line in coverage_table().splitlines() if "| Synthesizer |" in line)
    assert row.count(HOLE) == 5
    assert coverage_table().count(HOLE) == sum(entry.holes for entry in ENTRIES)


def test_a_section_holds_what_is_below_it_and_nothing_else():
    rows = [len(coverage_table(section).splitlines()) - 2 for section in ("2", "3", "4")]
    assert sum(rows) == len(ENTRIES)
    assert len(coverage_table("4.1").splitlines()) - 2 == 17


def test_an_entry_does_not_change_and_compares_by_value():
    assert hash(Entry("4", "Window")) == hash(Entry("4", "Window"))
    with pytest.raises(FrozenInstanceError):
        ENTRIES[0].what = "Another"


def test_chapters_are_named_by_their_numbers():
    for entry in ENTRIES:
        if entry.chapter:
            number = entry.chapter.split("_")[0].lstrip("0")
            assert f"| [{number}](up/{entry.chapter}.ipynb) |" in coverage_table(up="up/")


def test_an_entry_of_two_sections_is_found_under_both():
    for section in ("4.2.1", "4.2.2", "4.2", "4", ""):
        assert "Delta Net" in coverage_table(section)
    assert "Delta Net" not in coverage_table("4.1")
    assert "Delta Net" not in coverage_table("4.2.3")
