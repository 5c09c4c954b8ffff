"""Build assignments from the book's pages of exercises: for students, for teachers, for nbgrader.

    python tools/assignments.py                 everything, into assignments/
    python tools/assignments.py --seed 7 --out elsewhere attention transformer

assignments/ is then a course directory of nbgrader, and holds:

    release/NAME/NAME.ipynb    what students get: task, empty answer, check, hints
    source/NAME/NAME.ipynb     what teachers keep: with solutions and hidden tests
    solutions/NAME.ipynb       to hand out afterwards: with solutions, without hidden tests
    rubrics/                   points, minutes, goals and named mistakes: NAME.md, rubrics.csv
    seed.txt                   draws the inputs of the hidden tests; drawn anew unless given
    nbgrader_config.py, gradebook.db

Only release/ and, later, solutions/ are for students' eyes.
"""

import argparse
import ast
import copy
import secrets
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.converters import GenerateAssignment

from course import SETTINGS, convert
from exercise_pages import PAGES, Part, read_page
from plain_markdown import plain
from rubrics import SEEN_POINTS, as_csv, as_markdown, rows
from tinyattn.exercises import CHAPTERS, exercise, exercises
from tinyattn.exercises.run import SEEN_SEED

ROOT = Path(__file__).parents[1]
CONFIG = Path(__file__).parent / SETTINGS
LARGEST_SEED = 2**31
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
HIDDEN_TEST = """\
### BEGIN HIDDEN TESTS
import importlib as _importlib
import sys as _sys

for _module in [name for name in _sys.modules if name.split(".")[0] == "tinyattn"]:
    del _sys.modules[_module]
_importlib.import_module("tinyattn.exercises").grade("{name}", {answer}, {seed})
### END HIDDEN TESTS"""


def source(chapter: str, seed: int) -> NotebookNode:
    """The teacher's notebook of an assignment: solutions and hidden tests in nbgrader's regions."""
    page = PAGES / f"{chapter}.ipynb"
    opening, parts = read_page(page)
    cells = [_markdown(chapter, "title", _title(chapter, opening))]
    cells += [
        _code(f"{chapter}-setup-{number}", cell.source, locked=True)
        for number, cell in enumerate(_imports(opening), start=1)
    ]
    for part in parts:
        cells += _cells(chapter, part, seed)
    return new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))


def solutions(chapter: str) -> NotebookNode:
    """The notebook to hand out afterwards: tasks, hints, and solutions with what they print."""
    page = PAGES / f"{chapter}.ipynb"
    opening, parts = read_page(page)
    cells = [_markdown(chapter, "title", _title(chapter, opening, suffix=": solutions"))]
    cells += [
        new_code_cell(cell.source, id=f"{chapter}-setup-{number}")
        for number, cell in enumerate(_imports(opening), start=1)
    ]
    for part in parts:
        name = _cell_name(part.name)
        cells.append(_markdown(name, "task", plain(part.exercise.source, _where(chapter))))
        cells.append(_markdown(name, "hints", plain(part.hints.source, _where(chapter))))
        solution = new_code_cell(part.solution.source, id=f"{name}-solution")
        solution.outputs = [
            copy.deepcopy(o) for o in part.solution.outputs if o.output_type == "stream"
        ]
        cells.append(solution)
    return new_notebook(cells=cells, metadata=copy.deepcopy(METADATA))


def _imports(opening: list[NotebookNode]) -> list[NotebookNode]:
    """The code above the first exercise, without what only the book's own page needs."""
    return [
        cell
        for cell in opening
        if cell.cell_type == "code" and "remove-cell" not in cell.metadata.get("tags", [])
    ]


def _cells(chapter: str, part: Part, seed: int) -> list[NotebookNode]:
    name, answer = _cell_name(part.name), answer_expression(part)
    seen = HIDDEN_TEST.format(name=part.name, answer=answer, seed=SEEN_SEED)
    hidden = HIDDEN_TEST.format(name=part.name, answer=answer, seed=seed)
    one = exercise(part.name)
    rest = one.points - SEEN_POINTS
    where = ", for the same answer on other inputs" if one.drawn else ""
    return [
        _markdown(name, "task", plain(part.exercise.source, _where(chapter))),
        _code(
            f"{name}-answer",
            f"{part.stub.source}\n### BEGIN SOLUTION\n{without_check(part.solution.source)}\n"
            "### END SOLUTION",
            solution=True,
        ),
        _code(
            f"{name}-check",
            f"{part.check.source}\n{seen}",
            grade=True,
            locked=True,
            points=SEEN_POINTS,
        ),
        _code(
            f"{name}-hidden",
            f"# {_points(rest)} after you have handed in{where}.\n{hidden}",
            grade=True,
            locked=True,
            points=rest,
        ),
        _markdown(name, "hints", plain(part.hints.source, _where(chapter))),
    ]


def answer_expression(part: Part) -> str:
    """What the page's check is called with, as source text."""
    return ast.get_source_segment(part.check.source, _check_call(part.check.source).value.args[1])


def without_check(solution: str) -> str:
    """A solution cell without its call of `check`."""
    call = _check_call(solution)
    lines = solution.splitlines()
    return "\n".join(lines[: call.lineno - 1] + lines[call.end_lineno :]).rstrip()


def _check_call(code: str) -> ast.Expr:
    return next(
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "check"
    )


def _title(chapter: str, opening: list[NotebookNode], suffix: str = "") -> str:
    ones = exercises(chapter)
    heading = next(cell.source for cell in opening if cell.cell_type == "markdown").splitlines()[0]
    points, minutes = (sum(getattr(one, what) for one in ones) for what in ("points", "minutes"))
    table = [f"| {one.title} | {one.goal} | {one.minutes} | {one.points} |" for one in ones]
    how = (
        "Fill in the answers, run the checks below them, and hand in the notebook under its own "
        "name. A check tells you which mistake an answer looks like, and you may run it as often "
        f"as you like. {_points(SEEN_POINTS)} of each exercise is for an answer that passes it; "
        "the others are given after you have handed in, for the same answer on inputs that you do "
        "not see where a check draws inputs. Write into the answer "
        "cells only: the cells of the checks are put back as they were before marks are given."
    )
    return "\n".join(
        [
            heading + suffix,
            "",
            f"{len(ones)} exercises, {points} points, about {minutes} minutes.",
            "",
            "| exercise | afterwards you can | minutes | points |",
            "|---|---|---:|---:|",
            *table,
            "",
            how,
        ]
    )


def _points(n: int) -> str:
    return "1 point" if n == 1 else f"{n} points"


def _where(chapter: str) -> str:
    return f"book/exercises/{chapter}.ipynb"


def _cell_name(name: str) -> str:
    return name.replace("/", "-")


def _markdown(name: str, role: str, text: str) -> NotebookNode:
    return new_markdown_cell(text, id=f"{name}-{role}")


def _code(name: str, text: str, **roles: object) -> NotebookNode:
    marks = {"schema_version": 3, "grade": False, "locked": False, "solution": False, "task": False}
    return new_code_cell(text, id=name, metadata={"nbgrader": marks | {"grade_id": name} | roles})


def build(out: Path, chapters: list[str], seed: int) -> None:
    """Write the course directory; what stood in it is replaced, submissions and marks are not."""
    if seed == SEEN_SEED:
        raise ValueError(f"the seed must not be {SEEN_SEED}: that is the one of the seen checks")
    for folder in ("source", "release", "solutions", "rubrics"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    shutil.copy(CONFIG, out)
    seed_file = out / "seed.txt"
    seed_file.touch(mode=0o600)
    seed_file.write_text(f"{seed}\n", encoding="utf-8")
    for chapter in chapters:
        (out / "source" / chapter).mkdir()
        nbformat.write(source(chapter, seed), out / "source" / chapter / f"{chapter}.ipynb")
        nbformat.write(solutions(chapter), out / "solutions" / f"{chapter}.ipynb")
        rubric = as_markdown(chapter)
        (out / "rubrics" / f"{chapter}.md").write_text(rubric, encoding="utf-8")
    table = [row for chapter in chapters for row in rows(chapter)]
    (out / "rubrics" / "rubrics.csv").write_text(as_csv(table), encoding="utf-8")
    release(out, chapters)


def release(out: Path, chapters: list[str]) -> None:
    """Let nbgrader take solutions and hidden tests out, and note the tests in its gradebook."""
    for chapter in chapters:
        convert(GenerateAssignment, out, chapter, student=".", force=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="all if none is named")
    parser.add_argument("--out", type=Path, default=ROOT / "assignments")
    parser.add_argument("--seed", type=int, help="of the hidden inputs; drawn anew if not given")
    given = parser.parse_args(arguments)
    unknown = set(given.chapters) - set(CHAPTERS)
    if unknown:
        parser.error(f"chapters are {', '.join(CHAPTERS)}; got {', '.join(sorted(unknown))}")
    seed = given.seed if given.seed is not None else 1 + secrets.randbelow(LARGEST_SEED)
    chapters = given.chapters or list(CHAPTERS)
    build(given.out, chapters, seed)
    print(f"{len(chapters)} assignments in {given.out}; for students: {given.out / 'release'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
