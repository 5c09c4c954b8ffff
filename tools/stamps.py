"""Say which stored measurements are older than the code they speak of.

    python tools/stamps.py

What takes too long for `make test` leaves a file in results/ when it has run, and in it a stamp:
the commit, the date, and a digest of every source file that the numbers depend on. A digest is of
the code alone, so that a docstring, a comment or a line break makes nothing old. This prints one
line for each record, and exits with 1 when one is missing or older than its code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS = {  # results/NAME.json: what writes it
    "mutants": "make mutants",
    "flaky": "make flaky",
    "binder": "make binder",
    "lighthouse": "make lighthouse",
}
OF_PAGES = ("src/tinyattn/show", "tools/tinybook", "book/_static", "book/_templates")
PAGES_DEPEND_ON = ("_config.yml", "requirements.txt")


def digest(path: Path) -> str:
    """16 hex digits of what a file does: of Python its syntax tree without the docstrings, of a
    notebook its cells of code."""
    content = path.read_bytes().replace(b"\r\n", b"\n")
    if path.suffix == ".py":
        content = _code(content.decode("utf-8")).encode()
    if path.suffix == ".ipynb":
        cells = json.loads(content)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        content = json.dumps(code).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:]
    return "\n".join(_written(node) for node in tree.body)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _written(node: object) -> str:
    """A tree in words that do not change between the versions of Python, as `ast.dump`'s do."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(f'{n}={_written(v)}' for n, v in fields)})"
    return f"[{', '.join(map(_written, node))}]" if isinstance(node, list) else repr(node)


def stamp(files: list[Path]) -> dict:
    """Where and when something was measured, and on which code."""
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": head.stdout.strip() or None,
        "date": datetime.now(UTC).date().isoformat(),
        "files": {path.relative_to(ROOT).as_posix(): digest(path) for path in sorted(files)},
    }


def changed(one: dict) -> list[str]:
    """The files of a stamp that have another digest now, or are no more."""
    return [
        name
        for name, before in one["files"].items()
        if not (ROOT / name).is_file() or digest(ROOT / name) != before
    ]


def sources() -> list[Path]:
    """Every file of the package: what a run of the whole suite depends on."""
    found = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".js", ".css")]
    return sorted(found)


def of_pages() -> list[Path]:
    """What every page is made with: figures and widgets, styles and scripts, theme and settings."""
    found = [path for folder in OF_PAGES for path in (ROOT / folder).rglob("*") if path.is_file()]
    found = [path for path in found if "__pycache__" not in path.parts]
    return sorted([*found, *(ROOT / name for name in PAGES_DEPEND_ON)])


def stamps_of(record: dict) -> dict[str, dict]:
    """The stamps of a record by name: one for all of it, or one for each of its modules."""
    if "modules" in record:
        return {name: module["stamp"] for name, module in record["modules"].items()}
    return {"": record["stamp"]}


def stale(name: str, folder: Path = ROOT / "results") -> list[str]:
    """Sentences: what of results/NAME.json no longer speaks of the code that is here."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return [f"results/{name}.json is missing: {RECORDS[name]} writes it"]
    record = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for part, one in stamps_of(record).items():
        files = changed(one)
        if files:
            what = f"{name} of {part}: the record" if part else f"{name}: the record"
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            since = f"of {one['date']}, at {one['commit']}"
            found.append(f"{what} ({since}) is older than {', '.join(files[:3])}{more}")
    return found


def main() -> int:
    old = {name: stale(name) for name in RECORDS}
    for name, sentences in old.items():
        print(f"{name:10} {'current' if not sentences else 'OLD'}, {RECORDS[name]}")
        for sentence in sentences:
            print(f"{'':10} {sentence}")
    return int(any(old.values()))


if __name__ == "__main__":
    sys.exit(main())
