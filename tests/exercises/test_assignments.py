"""Assignments are built from the book's pages, and what students get tells no solution."""

import csv
import doctest
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import assignments
import plain_markdown
import rubrics
from assignments import answer_expression, source, without_check
from exercise_pages import PAGES, read_page
from plain_markdown import plain, site
from rubrics import as_csv, as_markdown, mistakes, rows
from tinyattn.exercises import CHAPTERS, exercise, exercises

TOOLS = Path(assignments.__file__).parent
SEED = 987_654_321
PARTS = [part for chapter in CHAPTERS for part in read_page(PAGES / f"{chapter}.ipynb")[1]]
METADATA_OF_CELLS = {"nbgrader", "deletable", "editable"}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course directory, as `make assignments` writes it."""
    out = tmp_path_factory.mktemp("course")
    command = [sys.executable, TOOLS / "assignments.py", "--out", out, "--seed", str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return out


def released(course, chapter):
    return nbformat.read(course / "release" / chapter / f"{chapter}.ipynb", as_version=4)


def all_words(path):
    """Every word of a notebook file, wherever it stands in it, without spaces and line ends."""

    def words(node):
        if isinstance(node, dict):
            return "".join(key + words(value) for key, value in node.items())
        return "".join(map(words, node)) if isinstance(node, list) else str(node)

    return re.sub(r"\s", "", words(json.loads(path.read_text(encoding="utf-8"))))


def own_lines(part):
    """The lines of a solution that nothing else on the page says, without spaces."""
    said = part.stub.source + part.check.source + part.exercise.source + part.hints.source
    said = re.sub(r"\s", "", said)
    lines = [re.sub(r"\s", "", line) for line in without_check(part.solution.source).splitlines()]
    return [line for line in lines if len(line) > 8 and line not in said]


def test_one_assignment_for_each_chapter_and_nothing_else_is_released(course):
    found = [
        path.relative_to(course / "release").as_posix() for path in course.rglob("release/**/*")
    ]
    files = {f"{chapter}/{chapter}.ipynb" for chapter in CHAPTERS}
    assert set(found) == files | set(CHAPTERS)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_no_line_of_a_solution_is_in_the_released_file(part, course):
    text = all_words(_notebook(course, "release", part))
    lines = own_lines(part)
    assert lines, "a solution without a line of its own would test nothing"
    assert [line for line in lines if line in text] == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_search_for_leaks_finds_the_same_lines_in_the_teachers_file(part, course):
    text = all_words(_notebook(course, "source", part))
    assert [line for line in own_lines(part) if line not in text] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_released_files_hold_no_hidden_test_no_seed_no_output_and_no_attachment(chapter, course):
    text = _text(course, chapter)
    for word in (str(SEED), "grade(", "HIDDEN TESTS", "SOLUTION", "importlib", "solution-cell"):
        assert word not in text
    for cell in released(course, chapter).cells:
        assert "attachments" not in cell
        assert set(cell.metadata) <= METADATA_OF_CELLS
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_released_notebooks_run_from_top_to_bottom_and_say_what_is_missing(chapter, course, capsys):
    names: dict = {}
    for cell in released(course, chapter).cells:
        if cell.cell_type == "code":
            exec(cell.source, names)  # noqa: S102 - the book's own cells
    verdict = r"^(?:Not attempted|Not yet|Right).*$"  # pictures of what is wanted print as well
    said = re.findall(verdict, capsys.readouterr().out, re.MULTILINE)
    assert said == [f"Not attempted yet: {one.name}" for one in exercises(chapter)]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_title_states_points_minutes_and_goals(chapter, course):
    title = released(course, chapter).cells[0].source
    ones = exercises(chapter)
    assert title.startswith("# Exercises: ")
    assert f"{sum(one.points for one in ones)} points" in title
    assert f"about {sum(one.minutes for one in ones)} minutes" in title
    for one in ones:
        assert f"| {one.title} | {one.goal} | {one.minutes} | {one.points} |" in title


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_points_of_an_exercise_are_one_for_the_seen_inputs_and_the_rest_hidden(chapter):
    marked = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in source(chapter, SEED).cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    for one in exercises(chapter):
        name = one.name.replace("/", "-")
        assert (marked.pop(f"{name}-check"), marked.pop(f"{name}-hidden")) == (1, one.points - 1)
    assert marked == {}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_other_inputs_are_promised_where_a_check_draws_them_and_only_there(part, course):
    name, drawn = part.name.replace("/", "-"), exercise(part.name).drawn
    chapter = part.name.split("/")[0]
    hidden = next(c for c in released(course, chapter).cells if c.id == f"{name}-hidden")
    assert ("on other inputs" in hidden.source) == drawn
    rubric = as_markdown(chapter).split(f"({part.name})")[1].split("## ")[0]
    assert ("on hidden inputs" in rubric) == drawn


def hidden_test(name, before):
    """Run an exercise's hidden test in a Python of its own, after other code."""
    test = assignments.HIDDEN_TEST.format(name=name, answer="answer", seed=SEED)
    command = [sys.executable, "-c", f"import torch\n{before}\n{test}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_a_reference_that_the_answer_replaces_is_not_what_the_hidden_test_compares_with():
    patch = "import tinyattn.content as c\nc.soft_permutation = lambda s, **k: torch.zeros_like(s)"
    done = hidden_test(
        "learned/sinkhorn", f"{patch}\nanswer = lambda s, *more: torch.zeros_like(s)"
    )
    assert "AssertionError: Not yet: " in done.stderr


def test_answers_that_use_the_packages_classes_pass_the_hidden_test():
    part = next(part for part in PARTS if "Window(" in part.solution.source)
    imports = "from tinyattn.analysis import path_lengths\nfrom tinyattn.patterns import *"
    solution = without_check(part.solution.source)
    done = hidden_test(part.name, f"{imports}\n{solution}\nanswer = {answer_expression(part)}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_students_see_plain_markdown_only(chapter, course):
    for cell in released(course, chapter).cells:
        if cell.cell_type == "markdown":
            assert re.search(r"^(```|:::)\{|\{[\w:]+\}`", cell.source, re.MULTILINE) is None
            assert cell.source.count("<details>") == cell.source.count("</details>")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_solutions_to_hand_out_hold_solutions_and_what_they_print_but_no_seed(chapter, course):
    path = course / "solutions" / f"{chapter}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert str(SEED) not in path.read_text(encoding="utf-8")
    printed = [cell.outputs[0].text for cell in notebook.cells if cell.id.endswith("-solution")]
    names = [one.name for one in exercises(chapter)]
    assert [text.split(".")[0] for text in printed] == [f"Right: {name}" for name in names]


def test_the_seed_is_outside_the_release_readable_by_its_owner_only_and_new_each_time(course):
    kept = course / "seed.txt"
    assert kept.read_text(encoding="utf-8") == f"{SEED}\n"
    if sys.platform != "win32":
        assert kept.stat().st_mode & 0o077 == 0
    seeds = {1 + assignments.secrets.randbelow(assignments.LARGEST_SEED) for _ in range(9)}
    assert len(seeds) == 9


def test_the_seed_of_the_seen_checks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the seed must not be 0"):
        assignments.build(tmp_path, ["attention"], 0)


def test_unknown_chapters_are_refused_with_those_that_exist(capsys):
    with pytest.raises(SystemExit):
        assignments.main(["atention"])
    assert f"chapters are {', '.join(CHAPTERS)}; got atention" in capsys.readouterr().err


def test_building_again_leaves_submissions_and_their_marks(course, tmp_path):
    again = tmp_path / "again"  # other tests read the course as it was built first
    shutil.copytree(course, again)
    handed_in = again / "submitted" / "ada" / "attention" / "attention.ipynb"
    handed_in.parent.mkdir(parents=True)
    handed_in.write_text("{}", encoding="utf-8")
    command = [sys.executable, TOOLS / "assignments.py", "--out", again, "--seed", str(SEED)]
    subprocess.run([*command, "attention"], check=True, capture_output=True, timeout=300)
    assert handed_in.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_solution_loses_its_check_and_nothing_else(part):
    rest = without_check(part.solution.source)
    assert "check(" not in rest
    assert rest in part.solution.source
    assert answer_expression(part) in part.check.source


# Rubrics


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_rubrics_list_points_goals_and_named_mistakes(chapter, course):
    table = list(csv.DictReader(io.StringIO(as_csv(rows(chapter)))))
    assert [row["exercise"] for row in table] == [one.name for one in exercises(chapter)]
    text = as_markdown(chapter)
    assert text == (course / "rubrics" / f"{chapter}.md").read_text(encoding="utf-8")
    for row, one in zip(table, exercises(chapter), strict=True):
        assert int(row["seen_points"]) + int(row["hidden_points"]) == one.points
        assert row["mistakes"].split(" | ") == mistakes(one) != []
        assert f"## {one.title} ({one.name})\n\n{one.goal}. " in text
        assert all(f"\n- {says}\n" in text for says in mistakes(one))


# Plain Markdown


def test_folded_boxes_notes_and_formulas_become_plain():
    text = ":::{note}\nShort.\n:::\n\n```{math}\n:label: x\na = b\n```\n\n```python\n{doc}`kept`\n```\n"
    assert plain(text, "book/a.ipynb") == (
        "> **Note.** Short.\n\n$$\na = b\n$$\n\n```python\n{doc}`kept`\n```"
    )


def test_a_link_to_a_chapter_leads_to_its_published_page_under_its_title():
    found = plain(
        "See {doc}`../01_attention` and {doc}`it </book/01_attention>`.", "book/exercises/x.md"
    )
    page = f"{site()}/book/01_attention.html"
    assert re.fullmatch(r"See \[[^\]]*[Aa]ttention[^\]]*\]\((.*)\) and \[it\]\(\1\)\.", found)
    assert found.count(page) == 2


def test_citations_become_names_and_years():
    assert plain("By {cite:t}`vaswani2017attention`.", "book/x.md") == "By Vaswani et al. (2017)."
    assert (
        plain("Known {cite:p}`vaswani2017attention`.", "book/x.md")
        == "Known (Vaswani et al., 2017)."
    )


@pytest.mark.parametrize("text", ["```{tab-set}\na\n```\n", "as {eq}`x` says"])
def test_what_has_no_plain_form_is_refused(text):
    with pytest.raises(
        ValueError, match=r"book/x\.md: the (directive tab-set|role eq) has no plain"
    ):
        plain(text, "book/x.md")


def _text(course, chapter):
    return (course / "release" / chapter / f"{chapter}.ipynb").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [plain_markdown, rubrics], ids=lambda module: module.__name__)
def test_the_examples_in_the_tools_hold(module):
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def _notebook(course, folder, part):
    chapter = part.name.split("/")[0]
    return course / folder / chapter / f"{chapter}.ipynb"
