"""The directive {checks}: how many tests there are, counted in their sources when the book is built.

    ```{checks} folders
    patterns: every rule against its definition, written as loops
    ```

takes a line for each folder of tests and adds the numbers; {checks} oracles, {checks} faults and
{checks} chapters make their tables alone.
"""

import ast
import json
import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

NUMBER = re.compile(r"\d+( %)?")
FRONT = "files beside them"  # the tests that lie in no folder


def test_functions(file: Path) -> int:
    """Functions whose name starts with test_; one may run on many cases."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for node in ast.walk(tree)
    )


def by_folder(tests: Path) -> Counter[str]:
    """Test functions of every folder below `tests`."""
    found: Counter[str] = Counter()
    for file in tests.rglob("test_*.py"):
        parts = file.relative_to(tests).parts
        found[parts[0] if len(parts) > 1 else FRONT] += test_functions(file)
    return found


def faults(root: Path) -> Counter[str]:
    """Planted faults of every part of the package."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    planted = import_module("tests.faults").FAULTS
    return Counter(
        fault.file.split("/")[0] if "/" in fault.file else "tinyattn" for fault in planted
    )


def oracles(folder: Path) -> list[tuple[str, str, int]]:
    """File, what it compares with, and how many test functions it has."""
    rows = []
    for file in sorted(folder.glob("test_*.py")):
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        rows.append((file.name, about.split("\n\n")[0].replace("\n", " "), test_functions(file)))
    return rows


def chapter_counts(notebook: Path) -> tuple[int, int, int]:
    """Code cells, lines that assert something, and outputs that are compared with what is stored."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in code]
    n_asserts = sum(len(re.findall(r"^\s*assert\b", source, re.MULTILINE)) for source in sources)
    compared = [
        cell
        for cell in code
        if cell["outputs"] and "nbval-ignore-output" not in cell["metadata"].get("tags", [])
    ]
    return len(code), n_asserts, len(compared)


class Checks(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.app.srcdir)
        makers = {
            "folders": self.folders,
            "oracles": self.oracles,
            "faults": self.faults,
            "chapters": self.chapters,
        }
        return [makers[self.arguments[0]](root)]

    def folders(self, root: Path) -> nodes.table:
        found = by_folder(root / "tests")
        about = dict(line.split(": ", 1) for line in self.content)
        about |= {name: "" for name in sorted(set(found) - set(about))}
        rows = [(name, words, str(found[name])) for name, words in about.items()]
        return table(["tests", "what they compare", "functions"], [*rows, total(rows)])

    def oracles(self, root: Path) -> nodes.table:
        rows = [(name, about, str(n)) for name, about, n in oracles(root / "tests" / "oracles")]
        return table(["file", "what is compared with what", "functions"], [*rows, total(rows)])

    def faults(self, root: Path) -> nodes.table:
        found = faults(root)
        rows = [(part, "", str(n)) for part, n in sorted(found.items())]
        rows = [(part, n) for part, _, n in [*rows, total(rows)]]
        return table(["part of the package", "faults planted"], rows)

    def chapters(self, root: Path) -> nodes.table:
        names = [n for n in self.env.found_docs if (root / f"{n}.ipynb").is_file()]
        rows = []
        for name in sorted(names, key=lambda name: (name.count("/"), name)):
            counts = chapter_counts(root / f"{name}.ipynb")
            rows.append((page(name), *map(str, counts)))
        sums = [str(sum(int(row[column]) for row in rows)) for column in (1, 2, 3)]
        head = ["notebook", "code cells", "asserts", "cells with a compared output"]
        return table(head, [*rows, ("all", *sums)])


def total(rows: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    return ("all", "", str(sum(int(row[-1]) for row in rows)))


def table(head: list[str], rows: list[tuple[str | nodes.Node, ...]]) -> nodes.table:
    """A table whose columns of numbers stand at the right, with what stands over them."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    first, body = row(head), [*map(row, rows)]
    for title, *below in zip(first, *body, strict=True):
        if any("number" in entry["classes"] for entry in below):
            title["classes"].append("number")
    group += nodes.thead("", first)
    group += nodes.tbody("", *body)
    return nodes.table("", group, classes=["checks"])


def page(name: str) -> nodes.Node:
    """A link to a page of the book, which is called by its title."""
    return addnodes.pending_xref(
        "", nodes.inline("", ""), refdomain="std", reftype="doc", reftarget=f"/{name}",
        refexplicit=False, refwarn=True,
    )  # fmt: skip


def row(cells) -> nodes.row:
    entries = []
    for cell in cells:
        if isinstance(cell, nodes.Node):
            entries.append(nodes.entry("", nodes.paragraph("", "", cell)))
        else:
            kind = ["number"] if NUMBER.fullmatch(cell) else []
            entries.append(nodes.entry("", nodes.paragraph("", cell), classes=kind))
    return nodes.row("", *entries)


def setup(app) -> None:
    app.add_directive("checks", Checks)
