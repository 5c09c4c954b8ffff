"""Grade thirty submissions of one assignment and say what one costs: part of `make nightly`.

    python tools/grade_many.py                       writes results/grading.json
    python tools/grade_many.py --submissions 6 --out elsewhere.json

The submissions are as honest as most: every third is right, every third has the first half of the
answers, every third is empty. Marks other than those are an error.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from sqlalchemy.exc import SAWarning

from assignments import ROOT, build, without_check
from autograde import grade_all, preload
from exercise_pages import PAGES, read_page
from grade_alone import Limits
from tinyattn.exercises import exercise

ASSIGNMENT = "attention"
SEED = 20261130


def hand_in(course: Path, n_submissions: int) -> dict[str, int]:
    """Write submissions into the course; the score that each deserves."""
    parts = read_page(PAGES / f"{ASSIGNMENT}.ipynb")[1]
    deserved = {}
    for number in range(n_submissions):
        answered = parts[: (len(parts), len(parts) // 2, 0)[number % 3]]
        student = f"student-{number:02d}"
        there = course / "submitted" / student / ASSIGNMENT
        there.mkdir(parents=True)
        path = course / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        for part in answered:
            _answer(notebook, part.name, without_check(part.solution.source))
        nbformat.write(notebook, there / path.name)
        deserved[student] = sum(exercise(part.name).points for part in answered)
    return deserved


def _answer(notebook: NotebookNode, name: str, solution: str) -> None:
    wanted = f"{name.replace('/', '-')}-answer"
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == wanted:
            cell.source = solution


def measure(n_submissions: int, jobs: int) -> dict[str, object]:
    """Grade that many submissions in a temporary course."""
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Path(folder)
        build(course, [ASSIGNMENT], SEED)
        deserved = hand_in(course, n_submissions)
        start = time.perf_counter()
        marks = grade_all(course, ASSIGNMENT, Limits(), jobs)
        total = time.perf_counter() - start
    wrong = {one.student: one.status for one in marks if one.score != deserved[one.student]}
    if wrong or len(marks) != n_submissions:
        raise RuntimeError(f"{len(marks)} of {n_submissions} graded, unexpected marks: {wrong}")
    seconds = [one.seconds for one in marks]
    return {
        "assignment": ASSIGNMENT,
        "submissions": n_submissions,
        "jobs": jobs,
        "seconds": round(total, 1),
        "seconds_per_submission": round(total / n_submissions, 2),
        "median_of_one": round(statistics.median(seconds), 2),
        "slowest": round(max(seconds), 2),
        "processor_seconds_per_submission": round(
            statistics.mean(one.cpu_seconds for one in marks), 2
        ),
        "python": platform.python_version(),
        "nbgrader": version("nbgrader"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "grading.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore", SAWarning)
    preload()
    found = measure(given.submissions, given.jobs)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{found['submissions']} submissions, {found['seconds_per_submission']} s each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
