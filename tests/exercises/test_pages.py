"""The pages of exercises have one form, say what the package knows, and hold right solutions."""

import re

import nbformat
import pytest

from exercise_pages import PAGES, read_page
from tinyattn.exercises import CHAPTERS, check, exercise, exercises, grade

PARTS = [part for chapter in CHAPTERS for part in read_page(PAGES / f"{chapter}.ipynb")[1]]
HIDDEN_SEEDS = range(77, 89)
UNFELT = (101, 1120, 1130, 2002, 2018, 2032, 2056, 2159)  # no centroid leaks in the first draws
SLOW = {
    "attention/spread",
    "taxonomy/recurrent",
    "atomic/live",
    "compound/random_blocks",
    "compound/place",
}


def number_of(chapter):
    """7 for atomic: a page of exercises opens with a link to its chapter."""
    opening, _ = read_page(PAGES / f"{chapter}.ipynb")
    return int(re.search(r"\{doc\}`\.\./(\d\d)_\w+`", opening[0].source)[1])


def run(opening, *cells):
    """The names that the opening cells and these cells define."""
    names: dict = {}
    for cell in (*opening, *cells):
        if cell.cell_type == "code":
            exec(cell.source, names)  # noqa: S102 - the book's own cells
    return names


def answer_of(part):
    """What the page hands to `check`, as an expression."""
    call = re.search(r'^check\("[\w/]+", (.*)\)$', part.check.source, re.DOTALL | re.MULTILINE)
    return call[1]


def test_every_page_belongs_to_a_chapter_and_every_chapter_has_its_page():
    assert sorted(path.stem for path in PAGES.glob("*.ipynb")) == sorted(CHAPTERS)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_opens_a_page_is_python_without_the_cell_for_colab(chapter):
    opening, _ = read_page(PAGES / f"{chapter}.ipynb")
    assert run(opening)["check"] is check
    assert all("colab" not in cell.source for cell in opening)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_has_the_exercises_of_its_chapter_in_their_order(chapter):
    _, parts = read_page(PAGES / f"{chapter}.ipynb")
    assert [part.name for part in parts] == [one.name for one in exercises(chapter)]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_headings_and_the_lines_below_them_are_those_of_the_package(chapter):
    _, parts = read_page(PAGES / f"{chapter}.ipynb")
    for place, part in enumerate(parts, start=1):
        one = exercise(part.name)
        heading, empty, line, *_ = part.exercise.source.splitlines()
        assert heading == f"## Exercise {number_of(chapter)}.{place}. {one.title}"
        assert (empty, line) == ("", one.line)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_leads_to_each_of_its_exercises_by_number(chapter):
    number = number_of(chapter)
    [file] = PAGES.parent.glob(f"{number:02}_*.ipynb")
    cells = nbformat.read(file, as_version=4).cells
    [text] = [c.source for c in cells if "exercises" in c.metadata.get("tags", [])]
    found = re.findall(r"\{ref\}`([\d.]+) <exercise-(\d+)-(\d+)>`", text)
    places = range(1, len(exercises(chapter)) + 1)
    assert found == [(f"{number}.{place}", str(number), str(place)) for place in places]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_page_runs_and_the_empty_answer_is_not_attempted(part):
    assert part.check.outputs[0].text.startswith("Not attempted yet: ")
    assert "Not attempted" not in str(part.solution.outputs)
    assert str(part.solution.outputs[0].text).startswith(f"Right: {part.name}.")


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_hints_are_folded_and_so_is_the_solution_in_the_page_and_in_jupyterlab(part):
    assert part.hints.source.startswith("```{dropdown} Hint")
    assert not re.sub(r"```\{dropdown\} .*?\n```", "", part.hints.source, flags=re.DOTALL).strip()
    assert "hide-cell" in part.solution.metadata.tags
    assert part.solution.metadata.jupyter == {"outputs_hidden": True, "source_hidden": True}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_solutions_are_right_on_inputs_that_the_page_does_not_show(chapter, capsys):
    opening, parts = read_page(PAGES / f"{chapter}.ipynb")
    for part in parts:
        names = run(opening, part.solution)
        answer = eval(answer_of(part), names)
        for seed in HIDDEN_SEEDS[:2] if part.name in SLOW else HIDDEN_SEEDS:
            grade(part.name, answer, seed)


@pytest.mark.parametrize("seed", UNFELT)
def test_a_latecomer_at_a_centroid_is_felt_on_every_seed(seed):
    opening, parts = read_page(PAGES / "clustering.ipynb")
    [part] = [part for part in parts if part.name == "clustering/leak"]
    grade(part.name, run(opening, part.solution)["latecomer"], seed)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_stub_tells_nothing_of_the_solution(part):
    solution = set(part.solution.source.splitlines())
    given = set(part.stub.source.splitlines()) | set(part.check.source.splitlines())
    own = {line.strip() for line in solution - given if len(line.strip()) > 12}
    told = part.stub.source + part.check.source
    assert [line for line in own if line in told] == []
