"""Grade what students handed in, each submission alone, with limits, so that none harms the others.

    python tools/autograde.py assignments attention
    python tools/autograde.py assignments attention --jobs 2 --cell-seconds 30 --seconds 300

Submissions stand where nbgrader wants them: assignments/submitted/STUDENT/attention/attention.ipynb.
For each, nbgrader's autograder runs in a process and a temporary course of its own, which hold this
submission and the assignment's tests; while students' code runs, not even those are on disk. A
submission whose kernel dies, or that exceeds the limits, gets 0 points, and the next one is graded.
Marks are collected in the course's gradebook and in marks/attention.csv, feedback in feedback/.

This keeps submissions apart; it does not lock them up. Students' code runs as the user who calls
this, and can use the network: see the appendix for instructors. Linux and macOS only.
"""

from __future__ import annotations

import argparse
import copy
import csv
import html
import multiprocessing
import secrets
import shutil
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import nbformat
import psutil
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.converters import GenerateAssignment, GenerateFeedback
from sqlalchemy.exc import SAWarning

import grade_alone
from course import SETTINGS, convert, gradebook
from grade_alone import CPU_SECONDS, TOKEN, Limits

FORKS = multiprocessing.get_context(None if sys.platform == "win32" else "forkserver")
ONE_WRITES = threading.Lock()  # of the threads, into the course and its gradebook
LARGEST_NOTEBOOK = 5_000_000  # bytes of a submission


@dataclass
class Marks:
    """How the grading of one submission ended; `points` by the id of the graded cell."""

    student: str
    status: str = "graded"
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    points: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(self.points.values())


def preload() -> None:
    """Import nbgrader once, in the process from which those of the submissions are forked."""
    if sys.platform != "win32":
        FORKS.set_forkserver_preload(["grade_alone"])


def grade_all(
    course: Path, assignment: str, limits: Limits, jobs: int = 1, students: list[str] | None = None
) -> list[Marks]:
    """Grade the submissions of an assignment and write marks and feedback into the course."""
    handed_in = sorted(path.parent.name for path in _submissions(course, assignment))
    chosen = [name for name in handed_in if students is None or name in students]
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        tests = _course_of_tests(course, assignment, Path(folder))
        with ThreadPoolExecutor(jobs) as pool:
            marks = list(
                pool.map(lambda name: grade_one(course, assignment, name, tests, limits), chosen)
            )
    write_marks(course, assignment, marks)
    return marks


def _submissions(course: Path, assignment: str) -> list[Path]:
    """The folders of this assignment, also those in which the notebook has another name."""
    return [path for path in (course / "submitted").glob(f"*/{assignment}") if path.is_dir()]


def _course_of_tests(course: Path, assignment: str, folder: Path) -> Path:
    """A course with this assignment's tests in its gradebook: no students, marks or solutions."""
    shutil.copy(course / SETTINGS, folder)
    shutil.copytree(course / "source" / assignment, folder / "source" / assignment)
    convert(GenerateAssignment, folder, assignment, student=".", force=True)
    shutil.rmtree(folder / "source")
    shutil.rmtree(folder / "release")
    return folder


def grade_one(course: Path, assignment: str, student: str, tests: Path, limits: Limits) -> Marks:
    """Grade one submission in a course and a process of its own."""
    marks = Marks(student)
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        alone = Path(folder) / "course"
        shutil.copytree(tests, alone)
        start = time.perf_counter()
        given = None
        try:
            given = _hand_in(course, alone, assignment, student)
            marks.status = _run(alone, assignment, student, limits)
        except ValueError as error:
            marks.status = str(error)
        marks.seconds = time.perf_counter() - start
        if marks.status == "graded":
            marks.cpu_seconds = float((alone.parent / CPU_SECONDS).read_text())
        with ONE_WRITES:
            _keep(course, alone, assignment, marks, given)
    return marks


def _hand_in(course: Path, alone: Path, assignment: str, student: str) -> NotebookNode:
    """Copy the notebook, and nothing that lies beside it or that it is a link to."""
    given = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    if not given.is_symlink() and not given.exists():
        found = ", ".join(sorted(path.name for path in given.parent.iterdir())) or "nothing"
        raise ValueError(f"there is no {given.name} in the folder, but {found[:200]}")
    if given.is_symlink() or not given.is_file():
        raise ValueError("the notebook is not a file")
    if given.stat().st_size > LARGEST_NOTEBOOK:
        raise ValueError("the notebook is too large")
    try:
        notebook = nbformat.reads(given.read_text(encoding="utf-8-sig"), as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # whatever a broken file leads to
        raise ValueError(f"the notebook cannot be read: {type(error).__name__}") from error
    there = alone / "submitted" / student / assignment
    there.mkdir(parents=True)
    _without_copies(notebook)
    released = course / "release" / assignment / given.name
    _put_back(notebook, nbformat.read(released, as_version=4))
    nbformat.write(notebook, there / given.name)
    return notebook


def _without_copies(notebook: NotebookNode) -> None:
    """Only the first cell of an id stays a cell of the assignment; nbgrader stumbles over copies."""
    seen = set()
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader")
        name = marks.get("grade_id") if isinstance(marks, dict) else None
        if not isinstance(name, str) or name in seen:
            cell.metadata.pop("nbgrader", None)
        else:
            seen.add(name)


def _grade_id(cell: NotebookNode) -> str | None:
    marks = cell.metadata.get("nbgrader")
    return marks.get("grade_id") if isinstance(marks, dict) else None


def _put_back(notebook: NotebookNode, ours: NotebookNode) -> None:
    """Insert the assignment's missing cells, imports and empty answers too, at their places.

    nbgrader puts graded cells back itself, but only behind cells that are there.
    """
    wanted = [cell for cell in ours.cells if _grade_id(cell)]
    names = [_grade_id(cell) for cell in notebook.cells]
    if not {_grade_id(cell) for cell in wanted} & set(names):
        raise ValueError(
            "this notebook does not hold the assignment's cells: answers must stand in the notebook "
            "that was handed out"
        )
    place = 0
    for cell in wanted:
        if _grade_id(cell) in names:
            place = names.index(_grade_id(cell)) + 1
        else:
            missing = copy.deepcopy(cell)
            missing.pop("id", None)
            if notebook.nbformat_minor >= 5:  # older ones, as Colab writes them, have no ids
                # a new one: ours may stand in a cell stripped of its name
                missing["id"] = secrets.token_hex(8)
            notebook.cells.insert(place, missing)
            names.insert(place, _grade_id(cell))
            place += 1


def _run(alone: Path, assignment: str, student: str, limits: Limits) -> str:
    """Run nbgrader's autograder on the course that holds one submission; how it ended."""
    token = secrets.token_hex(16)
    process = FORKS.Process(
        target=grade_alone.grade_alone, args=(alone, assignment, student, limits, token)
    )
    process.start()
    process.join(limits.seconds)
    code = process.exitcode
    _kill_all(process, token)
    if code is None:
        return f"stopped after {limits.seconds} s"
    if code == 0:
        return "graded"
    log = alone.parent / "log"
    said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "DeadKernelError" in said or "Kernel died" in said:
        return "the kernel died"
    return f"grading failed: {_error(said)}"


def _error(said: str) -> str:
    """The last line of the first traceback; nbgrader follows it with one of its own."""
    lines = said.split("Traceback (most recent call last):", 1)[-1].splitlines()[1:]
    return next((line for line in lines if line[:1].strip()), "no reason was given")[:200]


def _kill_all(process: BaseProcess, token: str) -> None:
    """End the grading process, its kernel, and what the kernel started."""
    process.kill()
    process.join()
    for one in psutil.process_iter():
        try:
            if one.environ().get(TOKEN) == token:
                one.kill()
        except psutil.Error:
            continue


def _keep(
    course: Path, alone: Path, assignment: str, marks: Marks, given: NotebookNode | None
) -> None:
    """Carry points and the graded notebook over into the course; nothing else comes along."""
    student = marks.student
    if marks.status == "graded":
        with gradebook(alone) as book:
            found = book.find_submission_notebook(assignment, assignment, student)
            marks.points = {grade.name: grade.auto_score or 0.0 for grade in found.grades}
    else:
        with gradebook(course) as book:
            cells = book.find_notebook(assignment, assignment).grade_cells
            marks.points = {cell.name: 0.0 for cell in cells}
    with gradebook(course) as book:
        book.update_or_create_student(student)
        book.update_or_create_submission(assignment, student)
        for name, points in marks.points.items():
            grade = book.find_grade(name, assignment, assignment, student)
            grade.auto_score = points
            grade.needs_manual_grade = False
        book.db.commit()
    there = course / "autograded" / student / assignment
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir(parents=True)
    graded = alone / "autograded" / student / assignment / f"{assignment}.ipynb"
    ours = nbformat.read(course / "release" / assignment / graded.name, as_version=4)
    if marks.status == "graded":
        shown = nbformat.read(graded, as_version=4)
        without_html(shown, ours)
    else:
        shown = _ungraded(ours, marks.status, given)
    nbformat.write(shown, there / graded.name)


def without_html(notebook: NotebookNode, ours: NotebookNode) -> None:
    """Students' own text is shown to the teacher's browser, in which no script of theirs must run."""
    known = {cell.source for cell in ours.cells if cell.cell_type == "markdown"}
    for cell in notebook.cells:
        if cell.cell_type == "raw" or (cell.cell_type == "markdown" and cell.source not in known):
            cell.source = html.escape(cell.source, quote=False)
            cell.pop("attachments", None)


def _ungraded(notebook: NotebookNode, status: str, given: NotebookNode | None) -> NotebookNode:
    """For feedback without marks: the assignment, with the answers handed in, and the reason."""
    answers = {
        cell.metadata.nbgrader.get("grade_id"): cell.source
        for cell in reversed(given.cells if given else [])
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers.get(name, cell.source)
    reason = f"**No points: {html.escape(status, quote=False)}.**"
    if given is not None:
        reason += " Run the notebook from top to bottom before handing it in."
    notebook.cells.insert(0, new_markdown_cell(reason, id="no-points"))
    return notebook


def write_marks(course: Path, assignment: str, marks: list[Marks]) -> Path:
    """A row for each submission: how grading ended, the score, and the points of every exercise.

    Rows of submissions that were not graded this time stay.
    """
    with gradebook(course) as book:
        cells = book.find_notebook(assignment, assignment).grade_cells
        worth = {cell.name: cell.max_score for cell in cells}
    ones = list(dict.fromkeys(_exercise(name) for name in worth))
    path = course / "marks" / f"{assignment}.csv"
    path.parent.mkdir(exist_ok=True)
    rows = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            rows = {row["student"]: row for row in csv.DictReader(file)}
    for one in marks:
        points = dict.fromkeys(ones, 0.0)
        for name, earned in one.points.items():
            points[_exercise(name)] += earned
        rows[one.student] = {
            "student": one.student,
            "score": one.score,
            "max_score": sum(worth.values()),
            "status": one.status,
            "seconds": f"{one.seconds:.1f}",
            **points,
        }
    with path.open("w", encoding="utf-8", newline="") as file:
        columns = ["student", "score", "max_score", "status", "seconds", *ones]
        writer = csv.DictWriter(file, columns, restval=0.0, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows[student] for student in sorted(rows))
    return path


def _exercise(cell: str) -> str:
    """The exercise of a graded cell: "attention-row" of "attention-row-hidden"."""
    return cell.rsplit("-", 1)[0]


def give_feedback(course: Path, assignment: str) -> None:
    """Write feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html for every graded submission."""
    convert(GenerateFeedback, course, assignment, force=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", type=Path, help="the course directory, assignments")
    parser.add_argument("assignment", help="attention, for example")
    parser.add_argument("--students", nargs="*", help="only these; all if not given")
    parser.add_argument("--jobs", type=int, default=1, help="submissions at the same time")
    parser.add_argument("--cell-seconds", type=int, default=Limits.cell_seconds)
    parser.add_argument("--seconds", type=int, default=Limits.seconds)
    parser.add_argument("--memory-gib", type=float, default=Limits.memory_gib)
    given = parser.parse_args(arguments)
    limits = Limits(given.cell_seconds, given.seconds, given.memory_gib)
    if sys.platform == "win32":
        parser.error("limits need Linux or macOS; on Windows, WSL has them")
    warnings.simplefilter("ignore", SAWarning)  # nbgrader's own way with its database
    preload()
    marks = grade_all(given.course, given.assignment, limits, given.jobs, given.students)
    give_feedback(given.course, given.assignment)
    for one in marks:
        print(f"{one.score:5.1f}  {one.seconds:5.1f} s  {one.student}: {one.status}")
    print(f"{len(marks)} submissions; marks in {given.course / 'marks' / given.assignment}.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
