"""Read the notebooks of book/exercises: which cells make up which exercise.

A page opens with cells that have none of these tags: its title, and imports. (The cell that installs
the package on Colab is no Python, and is left out.) Then each exercise is five cells, told apart by
a tag, in this order:

    exercise   markdown: `## Exercise 7.1. Title`, the line of kind, difficulty, minutes and points, the task
    stub       code: the empty answer
    check      code: one call `check("chapter/name", answer)`
    hints      markdown: steps, each folded
    solution   code: a right answer and the same call; folded in the page (`hide-cell`) and in
               JupyterLab (`source_hidden`)
"""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from notebooks import is_for_colab

PAGES = Path(__file__).parents[1] / "book" / "exercises"
ORDER = ("exercise", "stub", "check", "hints", "solution")
CHECK = re.compile(r"""^check\("([\w/]+)", """, re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """The five cells of one exercise, and the name that its check is called with."""

    name: str
    exercise: NotebookNode
    stub: NotebookNode
    check: NotebookNode
    hints: NotebookNode
    solution: NotebookNode


def read_page(path: Path) -> tuple[list[NotebookNode], list[Part]]:
    """The opening cells of a page, and its exercises.

    Raises:
        ValueError: if cells are missing, out of order, or untagged after the first exercise.
    """
    cells = [c for c in nbformat.read(path, as_version=4).cells if not is_for_colab(c)]
    roles = [_role(cell, path) for cell in cells]
    n_opening = roles.index("exercise") if "exercise" in roles else len(cells)
    found, opening = roles[n_opening:], cells[:n_opening]
    wanted = list(ORDER) * (len(found) // len(ORDER))
    if found != wanted or any(roles[:n_opening]):
        raise ValueError(f"{path.name} needs the cells {', '.join(ORDER)} again and again")
    fives = [cells[at : at + len(ORDER)] for at in range(n_opening, len(cells), len(ORDER))]
    return opening, [Part(_name(five[2], path), *five) for five in fives]


def _role(cell: NotebookNode, path: Path) -> str | None:
    roles = [tag for tag in cell.metadata.get("tags", []) if tag in ORDER]
    if len(roles) > 1:
        raise ValueError(f"{path.name}, cell {cell.id}: one of the tags {', '.join(roles)} only")
    return roles[0] if roles else None


def _name(cell: NotebookNode, path: Path) -> str:
    names = CHECK.findall(cell.source)
    if len(names) != 1:
        raise ValueError(f'{path.name}, cell {cell.id}: one call check("chapter/name", …) only')
    return names[0]
