"""From the release to marks with real nbgrader: honest, careless and hostile submissions.

The submissions are graded once, by the commands that a teacher runs; the tests read what came out.
"""

import copy
import csv
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_markdown_cell

import assignments
from exercise_pages import PAGES, read_page
from tinyattn.exercises import exercise, exercises

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits need Linux or macOS")

TOOLS = Path(assignments.__file__).parent
SEED = 987_654_321
NAME = "attention"
SOLUTIONS = {
    part.name.replace("/", "-"): assignments.without_check(part.solution.source)
    for part in read_page(PAGES / f"{NAME}.ipynb")[1]
}
WORTH = {one.name.replace("/", "-"): one.points for one in exercises(NAME)}
TOTAL = sum(WORTH.values())

UNSCALED = """
def masked_attention(q, k, v, mask):
    scores = torch.where(mask, q @ k.transpose(-1, -2), -math.inf)
    return torch.where(mask, torch.softmax(scores, dim=-1), 0.0) @ v
"""
WARNS = """
import warnings
def split_heads(x, n_heads):
    warnings.warn("nobody should lose a point over a warning")
    return x.reshape(*x.shape[:2], n_heads, -1).transpose(1, 2)
"""
PATCHES = """
import types, sys
import tinyattn.exercises, tinyattn.exercises.run, tinyattn.exercises.base
def grade(*arguments, **more):
    print("Right")
check = grade
for module in (tinyattn.exercises, tinyattn.exercises.run):
    module.check = module.grade = grade
tinyattn.exercises.base.of_value = tinyattn.exercises.base.of_function = lambda *a, **k: (
    tinyattn.exercises.base.RIGHT)
fake = types.ModuleType("tinyattn.exercises")
fake.check = fake.grade = grade
sys.modules["tinyattn.exercises"] = fake
words, ratio = ["Objects", "are"], 7
"""
ENDLESS = """
def masked_attention(q, k, v, mask):
    while True:
        pass
"""
STUBBORN = """
import time
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
EXITS = """
def masked_attention(q, k, v, mask):
    import os
    os._exit(0)
"""
SEARCHES = """
import pathlib, sqlite3
here = pathlib.Path.cwd()
found = [path for path in here.parent.rglob("*") if path.is_file()
         and path.suffix in (".db", ".ipynb", ".txt", ".py", ".md")]
print("FOUND", [path.name for path in found])
for path in here.parent.rglob("*.db"):
    sqlite3.connect(path).execute("update grade set auto_score = 5").connection.commit()
for folder in (here, here.parent / "course"):
    folder.mkdir(exist_ok=True)
    sqlite3.connect(folder / "gradebook.db").execute("create table grade (auto_score)")
words, ratio = ["no", "idea"], 1
"""
SCRIPT = 'a <b>bold</b> <img src="x" onerror="steal()"> <script>steal()</script> claim'
PRINTS = """
def split_heads(x, n_heads):
    for _ in range(200):
        print("x" * 100_000)
    return x.reshape(*x.shape[:2], n_heads, -1).transpose(1, 2)
for _ in range(100):
    print("y" * 100_000)
"""


def memorised():
    """Right for the inputs of the seen check, and for no others."""
    seen = []

    def watched(x, n_heads):
        seen.append(round(float(x.sum()), 3))
        return x.reshape(*x.shape[:2], n_heads, -1).transpose(1, 2)

    exercise("attention/heads").examine(watched, torch.Generator().manual_seed(0))
    return f"""
def split_heads(x, n_heads):
    out = x.reshape(*x.shape[:2], n_heads, -1).transpose(1, 2)
    return out if round(float(x.sum()), 3) in {sorted(set(seen))} else -out
"""


SUBMISSIONS = {
    "right": {**SOLUTIONS, "attention-heads": WARNS},
    "partly": {
        "attention-row": SOLUTIONS["attention-row"],
        "attention-masked": UNSCALED,
        "attention-heads": memorised(),
    },
    "tampers": {"attention-row": PATCHES, "attention-masked": UNSCALED},
    "endless": {**SOLUTIONS, "attention-masked": ENDLESS, "attention-heads": PRINTS},
    "exits": {**SOLUTIONS, "attention-masked": EXITS},
    "searches": {"attention-row": SEARCHES},
}
SCORES = {
    "right": TOTAL,
    "partly": WORTH["attention-row"] + 1,  # the memorised answer earns the point of the seen check
    "tampers": 0,
    "endless": TOTAL - WORTH["attention-masked"],
    "exits": 0,
    "searches": 0,
    "only one": WORTH["attention-masked"],
    "renamed": 0,
    "empty": 0,
    "broken": 0,
    "stubborn": 0,
}


def run(tool, *arguments):
    command = [sys.executable, TOOLS / tool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def filled_in(released, answers):
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "").removesuffix("-answer")
        cell.source = answers.get(name, cell.source)
    return notebook


def tampered(notebook):
    """Tests that say nothing, are worth more, are missing, and are there twice."""
    graded = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    for cell in graded:
        cell.source, cell.metadata.nbgrader.points = "True", 100
        cell.metadata.nbgrader.locked = False
    notebook.cells.remove(graded[1])
    notebook.cells.append(nbformat.from_dict({**copy.deepcopy(graded[2]), "id": "twice"}))
    return notebook


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = tmp_path_factory.mktemp("course")
    run("assignments.py", NAME, "--out", course, "--seed", SEED)
    released = nbformat.read(course / "release" / NAME / f"{NAME}.ipynb", as_version=4)
    notebooks = {name: filled_in(released, answers) for name, answers in SUBMISSIONS.items()}
    notebooks["tampers"] = tampered(notebooks["tampers"])
    notebooks["searches"].cells.append(new_markdown_cell(SCRIPT))
    notebooks["stubborn"] = filled_in(released, {**SOLUTIONS, "attention-row": STUBBORN})
    notebooks["only one"] = filled_in(released, SOLUTIONS)
    notebooks["only one"].cells = [
        cell
        for cell in notebooks["only one"].cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "attention-masked-answer"
    ]
    notebooks["renamed"] = notebooks["right"]
    notebooks["empty"] = nbformat.v4.new_notebook()
    for name in SCORES:
        there = course / "submitted" / name / NAME
        there.mkdir(parents=True)
        text = nbformat.writes(notebooks[name]) if name in notebooks else '{"cells": ['
        file = f"{NAME}(1).ipynb" if name == "renamed" else f"{NAME}.ipynb"
        (there / file).write_text(text, encoding="utf-8")
    others = [name for name in SCORES if name != "stubborn"]
    run("autograde.py", course, NAME, "--cell-seconds", 8, "--jobs", 2, "--students", *others)
    run("autograde.py", course, NAME, "--seconds", 12, "--students", "stubborn")
    return course


@pytest.fixture(scope="module")
def marks(course):
    with (course / "marks" / f"{NAME}.csv").open(encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def feedback(course, student):
    path = course / "feedback" / student / NAME / f"{NAME}.html"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("student", SCORES)
def test_each_submission_gets_the_marks_that_it_deserves(student, marks):
    assert float(marks[student]["score"]) == SCORES[student]
    assert float(marks[student]["max_score"]) == TOTAL
    assert sum(float(marks[student][name]) for name in WORTH) == SCORES[student]


def test_the_marks_say_how_grading_ended(marks):
    how = {student: row["status"] for student, row in marks.items()}
    assert how.pop("exits") == "the kernel died"
    assert how.pop("stubborn") == "stopped after 12 s"
    assert how.pop("broken").startswith("the notebook cannot be read")
    assert how.pop("renamed") == "there is no attention.ipynb in the folder, but attention(1).ipynb"
    assert how.pop("empty").startswith("this notebook does not hold the assignment's cells")
    assert set(how.values()) == {"graded"}


def test_an_endless_answer_costs_its_own_exercise_only(marks):
    points = {name: float(marks["endless"][name]) for name in WORTH}
    assert points == {**WORTH, "attention-masked": 0.0}


def test_an_answer_that_knows_the_seen_inputs_earns_one_point(marks):
    assert float(marks["partly"]["attention-heads"]) == 1


def test_the_gradebook_holds_the_same_marks(course):
    with sqlite3.connect(course / "gradebook.db") as book:
        found = book.execute(
            "select submitted_assignment.student_id, sum(grade.auto_score) from grade"
            " join submitted_notebook on grade.notebook_id = submitted_notebook.id"
            " join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id"
            " group by submitted_assignment.student_id"
        )
        assert dict(found) == SCORES


def test_a_search_beside_the_kernel_finds_neither_tests_nor_gradebook(course):
    graded = course / "autograded" / "searches" / NAME / f"{NAME}.ipynb"
    text = graded.read_text(encoding="utf-8")
    assert "FOUND []" in text


@pytest.mark.parametrize("student", SCORES)
def test_feedback_shows_marks_but_no_hidden_test_and_no_seed(student, course):
    page = feedback(course, student)
    assert f"{SCORES[student]:.1f}" in page or f"Score: {SCORES[student]}" in page
    plain = re.sub(r"<[^>]+>", "", page)
    for word in (str(SEED), "HIDDEN TESTS", "importlib", "sys.modules if"):
        assert word not in plain
    assert len(page) < 1_500_000


def test_feedback_names_the_mistake_and_says_why_there_are_no_points(course):
    assert "the scores are not divided by √d_head" in feedback(course, "partly")
    assert "No points: the kernel died." in feedback(course, "exits")


def test_no_script_of_a_student_runs_in_the_teachers_browser(course):
    page = feedback(course, "searches")
    assert "claim" in page
    assert re.search(r"<script>steal|<img[^>]*onerror", page) is None


def test_what_is_printed_without_end_is_cut_off(course):
    page = feedback(course, "endless")
    assert "cut off: the cell prints more than is kept" in page


def test_nothing_of_a_submission_is_left_running():
    import psutil

    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TINYATTN_GRADING"):
                left.append(process.pid)
        except psutil.Error:
            continue
    assert left == []
