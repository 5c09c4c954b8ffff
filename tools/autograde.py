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
import csv
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import psutil
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback

from course import SETTINGS, configuration, convert, gradebook

LARGEST_NOTEBOOK = 5_000_000  # bytes of a submission
LARGEST_FILE = 50_000_000  # bytes that a submission may write
TOKEN = "TINYATTN_GRADING"  # in the environment of every process that a submission starts
KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "SYSTEMROOT")


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds for a cell and for all, memory of a process."""

    cell_seconds: int = 30
    seconds: int = 300
    memory_gib: float = 6.0


@dataclass
class Marks:
    """How the grading of one submission ended; `points` by the id of the graded cell."""

    student: str
    status: str = "graded"
    seconds: float = 0.0
    points: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(self.points.values())


def grade_all(
    course: Path, assignment: str, limits: Limits, jobs: int = 1, students: list[str] | None = None
) -> list[Marks]:
    """Grade the submissions of an assignment and write marks and feedback into the course."""
    handed_in = sorted(path.parent.parent.name for path in _submissions(course, assignment))
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
    return list((course / "submitted").glob(f"*/{assignment}/{assignment}.ipynb"))


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
        _keep(course, alone, assignment, marks, given)
    return marks


def _hand_in(course: Path, alone: Path, assignment: str, student: str) -> NotebookNode:
    """Copy the notebook, and nothing that lies beside it or that it is a link to."""
    given = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    if given.is_symlink() or not given.is_file():
        raise ValueError("the notebook is not a file")
    if given.stat().st_size > LARGEST_NOTEBOOK:
        raise ValueError("the notebook is too large")
    try:
        notebook = nbformat.read(given, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # whatever a broken file leads to
        raise ValueError(f"the notebook cannot be read: {type(error).__name__}") from error
    there = alone / "submitted" / student / assignment
    there.mkdir(parents=True)
    nbformat.write(notebook, there / given.name)
    return notebook


def _run(alone: Path, assignment: str, student: str, limits: Limits) -> str:
    """Run nbgrader's autograder on the course that holds one submission; how it ended."""
    token = secrets.token_hex(16)
    home = alone.parent / "home"
    home.mkdir()
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    environment |= {"HOME": str(home), "TMPDIR": str(home), "IPYTHONDIR": str(home), TOKEN: token}
    command = [sys.executable, __file__, "--alone", str(alone), assignment, "--students", student]
    command += ["--cell-seconds", str(limits.cell_seconds), "--seconds", str(limits.seconds)]
    command += ["--memory-gib", str(limits.memory_gib)]
    with (alone.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            code = process.wait(timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill_all(process, token)
    if code is None:
        return f"stopped after {limits.seconds} s"
    if code == 0:
        return "graded"
    said = (alone.parent / "log").read_text(encoding="utf-8", errors="replace")
    if "DeadKernelError" in said or "Kernel died" in said:
        return "the kernel died"
    return "grading failed: " + ([line for line in said.splitlines() if line.strip()] or ["?"])[-1]


def _kill_all(process: subprocess.Popen, token: str) -> None:
    """End the grading process, its kernel, and what the kernel started."""
    for one in psutil.process_iter():
        try:
            if one.pid != os.getpid() and one.environ().get(TOKEN) == token:
                one.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue
    process.wait()


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
    if marks.status == "graded":
        shutil.copy(graded, there)
    else:
        nbformat.write(_ungraded(course, assignment, marks.status, given), there / graded.name)


def _ungraded(
    course: Path, assignment: str, status: str, given: NotebookNode | None
) -> NotebookNode:
    """For feedback without marks: the assignment, with the answers handed in, and the reason."""
    path = course / "release" / assignment / f"{assignment}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    answers = {
        cell.metadata.nbgrader.get("grade_id"): cell.source
        for cell in reversed(given.cells if given else [])
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers.get(name, cell.source)
    reason = f"**No points: {status}.** Run the notebook from top to bottom before handing it in."
    notebook.cells.insert(0, new_markdown_cell(reason, id="no-points"))
    return notebook


def write_marks(course: Path, assignment: str, marks: list[Marks]) -> Path:
    """A row for each submission: how grading ended, the score, and the points of every exercise."""
    with gradebook(course) as book:
        worth = {
            cell.name: cell.max_score
            for cell in book.find_notebook(assignment, assignment).grade_cells
        }
    ones = list(dict.fromkeys(name.rsplit("-", 1)[0] for name in worth))
    path = course / "marks" / f"{assignment}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "score", "max_score", "status", "seconds", *ones])
        for one in marks:
            by_exercise = [
                sum(
                    points
                    for name, points in one.points.items()
                    if name.rsplit("-", 1)[0] == exercise
                )
                for exercise in ones
            ]
            row = [one.student, one.score, sum(worth.values()), one.status, f"{one.seconds:.1f}"]
            writer.writerow([*row, *by_exercise])
    return path


def give_feedback(course: Path, assignment: str) -> None:
    """Write feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html for every graded submission."""
    convert(GenerateFeedback, course, assignment, force=True)


def grade_alone(alone: Path, assignment: str, student: str, limits: Limits) -> None:
    """In the process of one submission: limit it, then let nbgrader grade."""
    import resource

    from nbgrader.preprocessors import Execute

    from shielded_execute import ShieldedExecute

    memory = int(limits.memory_gib * 2**30)
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    steps = [
        ShieldedExecute if step is Execute else step
        for step in Autograde.autograde_preprocessors.default_args[0]
    ]
    config = configuration(alone)
    config.Execute.timeout = limits.cell_seconds
    convert(
        Autograde, alone, assignment, student, config, autograde_preprocessors=steps, force=True
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", type=Path, help="the course directory, assignments")
    parser.add_argument("assignment", help="attention, for example")
    parser.add_argument("--students", nargs="*", help="only these; all if not given")
    parser.add_argument("--jobs", type=int, default=1, help="submissions at the same time")
    parser.add_argument("--cell-seconds", type=int, default=Limits.cell_seconds)
    parser.add_argument("--seconds", type=int, default=Limits.seconds)
    parser.add_argument("--memory-gib", type=float, default=Limits.memory_gib)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    limits = Limits(given.cell_seconds, given.seconds, given.memory_gib)
    if given.alone:
        grade_alone(given.course, given.assignment, given.students[0], limits)
        return 0
    if sys.platform == "win32":
        parser.error("limits need Linux or macOS; on Windows, WSL has them")
    marks = grade_all(given.course, given.assignment, limits, given.jobs, given.students)
    give_feedback(given.course, given.assignment)
    for one in marks:
        print(f"{one.score:5.1f}  {one.seconds:5.1f} s  {one.student}: {one.status}")
    print(f"{len(marks)} submissions; marks in {given.course / 'marks' / given.assignment}.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
