"""What marks are given for: an assignment's exercises, their points, and the mistakes they name."""

import ast
import csv
import io
import sys
from pathlib import Path

from tinyattn.exercises import Exercise, exercises

COLUMNS = (
    "assignment",
    "exercise",
    "title",
    "goal",
    "kind",
    "difficulty",
    "minutes",
    "points",
    "seen_points",
    "hidden_points",
    "mistakes",
)
SEEN_POINTS = 1  # for the inputs of the check that students can run; the rest is for hidden inputs


def mistakes(one: Exercise) -> list[str]:
    """The sentences with which the exercise's check names a mistake, as its source has them.

    They are read, not run: every text given to `Mistake` or `wrong` in the check, and in the
    functions and lists of the same file that it uses. Computed parts of a text stand as "…".

    Example:
        >>> from tinyattn.exercises import exercise
        >>> mistakes(exercise("attention/masked"))[2]
        'the scores are not divided by √d_head'
    """
    chapter = one.name.split("/")[0]
    source = Path(sys.modules[f"tinyattn.exercises.{chapter}"].__file__)
    tree = ast.parse(source.read_text(encoding="utf-8"))
    named = {name: node for node in tree.body for name in _names(node)}
    call = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes(node, one.name)
    )
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting: list[ast.AST] = [_examine(call)]
    while waiting:
        for node in _in_order(waiting.pop(0)):
            if isinstance(node, ast.Call) and _says(node):
                found.update(dict.fromkeys(_texts(node.args[0])))
            if isinstance(node, ast.Name) and node.id in named and node.id not in seen:
                seen.add(node.id)
                waiting.append(named[node.id])
    return list(found)


def _in_order(node: ast.AST) -> list[ast.AST]:
    inside = [node for node in ast.walk(node) if hasattr(node, "lineno")]
    return sorted(inside, key=lambda node: (node.lineno, node.col_offset))


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _makes(call: ast.Call, name: str) -> bool:
    is_exercise = isinstance(call.func, ast.Name) and call.func.id == "Exercise"
    return is_exercise and any(
        isinstance(value, ast.Constant) and value.value == name for value in _arguments(call)
    )


def _examine(call: ast.Call) -> ast.expr:
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    return by_name["examine"] if "examine" in by_name else call.args[7]


def _says(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return bool(call.args) and name in ("Mistake", "wrong", "is_wrong")


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        return ["".join(parts)]
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    return []


def rows(assignment: str) -> list[dict[str, object]]:
    """The rubric of one assignment as a table, a row for each exercise."""
    return [
        {
            "assignment": assignment,
            "exercise": one.name,
            "title": one.title,
            "goal": one.goal,
            "kind": one.kind,
            "difficulty": one.difficulty,
            "minutes": one.minutes,
            "points": one.points,
            "seen_points": SEEN_POINTS,
            "hidden_points": one.points - SEEN_POINTS,
            "mistakes": " | ".join(mistakes(one)),
        }
        for one in exercises(assignment)
    ]


def as_csv(table: list[dict[str, object]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def as_markdown(assignment: str) -> str:
    """The rubric to read: who earns what, and how a wrong answer is told what is wrong."""
    ones = exercises(assignment)
    points, minutes = (sum(getattr(one, what) for one in ones) for what in ("points", "minutes"))
    lines = [f"# Rubric: {assignment}", "", f"{points} points, about {minutes} minutes.", ""]
    for one in ones:
        other = "on hidden inputs" if one.drawn else "to the same check after handing in"
        lines += [
            f"## {one.title} ({one.name})",
            "",
            f"{one.goal}. {one.line.strip('*')}.",
            "",
            "| points | for |",
            "|---:|---|",
            f"| {SEEN_POINTS} | a right answer to the check in the notebook |",
            f"| {one.points - SEEN_POINTS} | a right answer {other} |",
            "",
            "Mistakes that the check names:",
            "",
            *(f"- {says}" for says in mistakes(one)),
            "",
        ]
    return "\n".join(lines)
