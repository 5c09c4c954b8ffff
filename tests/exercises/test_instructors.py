"""What the appendix for instructors says of tags, folders, limits and links is so."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest

from assignments import ROOT
from exercise_pages import ORDER
from grade_alone import LARGEST_FILE, Limits
from tinyattn.exercises import CHAPTERS, exercises

APPENDIX = nbformat.read(ROOT / "book" / "appendices" / "instructors.ipynb", as_version=4)
TEXT = "\n".join(cell.source for cell in APPENDIX.cells if cell.cell_type == "markdown")
SHOWN = "\n".join(
    output.data["text/markdown"]
    for cell in APPENDIX.cells
    for output in cell.get("outputs", [])
    if "text/markdown" in output.get("data", {})
)
GLUED = {
    output.metadata["scrapbook"]["name"]: next(iter(output.data.values()))
    for cell in APPENDIX.cells
    for output in cell.get("outputs", [])
    if "scrapbook" in output.get("metadata", {})
}
LINKS = [
    line
    for cell in APPENDIX.cells
    for output in cell.get("outputs", [])
    for line in output.get("text", "").splitlines()
    if "git-pull" in line
]


def test_every_tag_of_the_pages_is_documented():
    for tag in ORDER:
        assert re.search(rf"^\| `{tag}` \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize("path", ["release/", "source/", "solutions/", "rubrics/", "seed.txt"])
def test_every_folder_of_a_course_is_documented(path):
    assert re.search(rf"^\| `{path}` \|", TEXT, re.MULTILINE)
    assert path.strip("/") in (ROOT / "tools" / "assignments.py").read_text(encoding="utf-8")


def test_the_limits_are_those_of_the_autograder():
    limits = Limits()
    assert f"stopped after {limits.cell_seconds} s" in TEXT
    assert f"ended after {limits.seconds} s" in TEXT
    assert f"{limits.memory_gib:.0f} GiB of address space, {LARGEST_FILE // 10**6} MB" in TEXT


def test_the_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    for tool in re.findall(r"tools/\w+\.py", TEXT):
        assert (ROOT / tool).is_file()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_tables_hold_every_assignment_with_its_points_and_minutes(chapter):
    ones = exercises(chapter)
    points, minutes = (sum(getattr(one, what) for one in ones) for what in ("points", "minutes"))
    assert re.search(rf"{chapter}\b.*\|{len(ones)}\|{points}\|{minutes}\|", SHOWN)
    assert all(one.title in SHOWN for one in ones)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_six_weeks_leave_no_assignment_out(chapter):
    weeks = SHOWN[SHOWN.index("| week|") : SHOWN.index("| session|")]
    assert f"<../exercises/{chapter}>" in weeks


def test_the_sentence_on_six_weeks_says_what_its_table_holds():
    rows = SHOWN[SHOWN.index("| week|") : SHOWN.index("| session|")].splitlines()
    weeks = [row.strip("|").split("|") for row in rows if re.match(r"\| ?\d+\|", row)]
    everything, short = ([int(week[place]) for week in weeks] for place in (-2, -1))
    assert len(weeks) == 6
    assert GLUED["instructors-week-least"] == f"'{min(everything)}'"
    assert GLUED["instructors-week-most"] == f"'{max(everything)}'"
    assert GLUED["instructors-week-short"] == f"'{max(short)}'"
    assert all(f"{{glue:text}}`{name}`" in TEXT for name in GLUED if "-week-" in name)
    assert max(short) <= 190  # three hours, as the sentence says


@pytest.mark.parametrize("link", LINKS)
def test_links_of_nbgitpuller_name_a_repository_a_branch_and_a_notebook_in_it(link):
    parts = urlsplit(link)
    assert (parts.scheme, parts.path) == ("https", "/hub/user-redirect/git-pull")
    query = {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}
    assert set(query) == {"repo", "branch", "urlpath"}
    folder = urlsplit(query["repo"]).path.rsplit("/", 1)[-1]
    opened = Path(query["urlpath"])
    assert opened.parts[:3] == ("lab", "tree", folder)
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    if f"url: {query['repo']} " in config:
        assert (ROOT / Path(*opened.parts[3:])).is_file()
    else:
        assert opened.parts[3] in CHAPTERS  # a folder of release/
        assert opened.name == f"{opened.parts[3]}.ipynb"


def test_both_kinds_of_links_are_shown():
    assert len(LINKS) == 2


def test_what_is_said_of_predictions_and_of_checks_that_draw_nothing_is_so():
    every = [one for chapter in CHAPTERS for one in exercises(chapter)]
    points = {one.points for one in every if one.kind == "predict"}
    least, most = (GLUED[f"instructors-predict-{word}"] for word in ("least", "most"))
    assert {least, most} == {str(one) for one in points}
    assert GLUED["instructors-not-drawn"] == str(sum(not one.drawn for one in every))


@pytest.mark.parametrize(
    "name",
    [
        "atomic/pairs",
        "learned/gradient",
        "attention/heads",
        "taxonomy/recurrent",
        "comparison/messages",
    ],
)
def test_demands_that_no_check_enforces_are_listed(name):
    assert name in {one.name for one in exercises(name.split("/")[0])}
    assert f"`{name}` (" in TEXT
