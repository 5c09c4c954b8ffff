"""Chapters are committed executed, in one normal form: small diffs, strict checks.

    python tools/notebooks.py execute book/*.ipynb     run every cell, then normalise
    python tools/notebooks.py normalise book/*.ipynb   rewrite in normal form
    python tools/notebooks.py check book/*.ipynb       say what is wrong; exit code 1 if anything is

Normal form: fixed cell ids, execution counts 1, 2, 3, ..., no widget state, only the metadata
that the book needs, sorted keys. Executing twice gives the same bytes.

The first code cell of every notebook of the book installs the package where the notebook is opened
on Colab, and does nothing anywhere else. Pages leave it out. It is written here, with the address
of the repository that _config.yml has, and is neither counted nor compared.
"""

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 400_000
SECONDS_PER_CELL = 300
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
EDITOR_METADATA = {"collapsed", "editable", "ExecuteTime", "execution", "lines_to_next_cell"}
EDITOR_METADATA |= {"scrolled", "slideshow"}
NOTEBOOK_METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}

# What an output must not hold, because the next run or another machine prints it differently.
ABSOLUTE_PATH = re.compile(
    r"(?<![\w./])/(home|root|Users|tmp|usr|opt|var|work)/|[A-Z]:\\\w|site-packages"
)
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
PROGRESS = re.compile(r"\r(?!\n)|\d+%\||\bit/s\b|\bs/it\b")
TIMING = re.compile(r"(?<![\w.])\d+(\.\d+)? ?(ns|µs|us|ms|s|sec|seconds|min|minutes)\b")


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def execute(path: Path) -> NotebookNode:
    """Run every cell in a new kernel that works in the notebook's folder, on one thread."""
    notebook = read(path)
    os.environ["OMP_NUM_THREADS"] = "1"
    NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        coalesce_streams=True,
    ).execute()
    return notebook


COLAB = """# On Colab: fetch the book and install its package. Anywhere else this does nothing.
import sys

if "google.colab" in sys.modules:
    ![ -d /content/book ] || git clone --quiet --depth 1 --branch {branch} {url} /content/book
    %pip install --quiet /content/book myst-nb
    %cd -q /content/book/{folder}"""


def colab_source(path: Path) -> str:
    """The cell that makes a notebook run on Colab, for the repository that _config.yml names.

    myst-nb is what chapters glue their numbers with; the package itself does without it.
    """
    repository = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    inside = is_of_the_book(path) and path.resolve().is_relative_to(ROOT)
    folder = path.resolve().parent.relative_to(ROOT).as_posix() if inside else "book"
    return COLAB.format(url=repository["url"], branch=repository["branch"], folder=folder)


def is_for_colab(cell: NotebookNode) -> bool:
    return "colab" in cell.metadata.get("tags", [])


def is_of_the_book(path: Path) -> bool:
    return (ROOT / "book") in path.resolve().parents


def add_colab(notebook: NotebookNode, path: Path) -> None:
    """Put the cell for Colab after the title, in place of the one that is there."""
    notebook.cells = [cell for cell in notebook.cells if not is_for_colab(cell)]
    cell = new_code_cell(colab_source(path), id=f"{path.stem}-colab".replace("_", "-"))
    cell.metadata["tags"] = ["colab", "remove-cell"]
    notebook.cells.insert(1, cell)


def code_digest(notebook: NotebookNode) -> str:
    """What changes when a cell of code does, and when nothing else does.

    The cell for Colab does not count: it does nothing where a chapter is timed.
    """
    cells = [cell for cell in notebook.cells if not is_for_colab(cell)]
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:12]


def normalise(notebook: NotebookNode, name: str) -> str:
    """The notebook as text in normal form; `name` starts the ids of new cells."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    _fix_ids(notebook, name)
    n_executed = 0
    for cell in notebook.cells:
        for key in EDITOR_METADATA & set(cell.metadata):
            del cell.metadata[key]
        if cell.cell_type != "code":
            continue
        if is_for_colab(cell):
            cell.execution_count, cell.outputs = None, []
        if cell.execution_count is not None:
            n_executed += 1
            cell.execution_count = n_executed
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
            data = output.get("data", {})
            if WIDGET_VIEW in data and "text/html" in data:
                del data[WIDGET_VIEW]  # the book shows the html twin, which needs no kernel
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def _fix_ids(notebook: NotebookNode, name: str) -> None:
    """Give cells without an id, with a random id or with a copied id one made of name and place."""
    taken: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        if re.fullmatch(r"|[0-9a-f]{8}(-[0-9a-f-]+)?", cell.get("id", "")) or cell.id in taken:
            cell.id = wanted = f"{name}-{place:02d}".replace("_", "-")
            n_copies = 0
            while cell.id in taken:
                n_copies += 1
                cell.id = f"{wanted}-{n_copies}"
        taken.add(cell.id)


def problems(path: Path) -> list[str]:
    """Everything that keeps the committed notebook from being published, one line each."""
    text = path.read_text(encoding="utf-8")
    found = []
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    for cell in code:
        found += [f"{cell.get('id', '?')}: {problem}" for problem in _cell_problems(cell)]
    if is_of_the_book(path) and (not code or code[0].source != colab_source(path)):
        found.append(f"does not start on Colab: run python tools/notebooks.py normalise {path}")
    if n_missing := sum(cell.execution_count is None for cell in code if not is_for_colab(cell)):
        found.append(
            f"{n_missing} cells were not executed, so nothing is compared with their output"
        )
    if normalise(read(path), path.stem) != text:
        found.append(f"not in normal form: run python tools/notebooks.py normalise {path.name}")
    if len(text.encode()) > MAX_BYTES:
        found.append(f"{len(text.encode()):,} bytes, the limit is {MAX_BYTES:,}")
    return found


def _cell_problems(cell: NotebookNode) -> Iterator[str]:
    tags = cell.metadata.get("tags", [])
    if not cell.source.strip():
        yield "is empty"
    for output in cell.outputs:
        if output.output_type == "error" and "raises-exception" not in tags:
            yield f"stores the error {output.ename}, and is not tagged raises-exception"
        if output.output_type == "stream" and output.name == "stderr":
            yield "writes to stderr (a warning?)"
        data = output.get("data", {})
        if WIDGET_VIEW in data and "text/html" not in data:
            yield "shows a widget without text/html: nothing to see without a kernel"
        if "image/png" in data and not output.metadata.get("image/png", {}).get("alt"):
            yield "shows an image without alt text: use tinyattn.show.show(figure, alt)"
        text = output.get("text", "") + data.get("text/plain", "")
        for name, pattern in [
            ("an absolute path", ABSOLUTE_PATH),
            ("a memory address", ADDRESS),
            ("a progress bar", PROGRESS),
        ]:
            if match := pattern.search(text):
                yield f"stores {name} ({match.group()!r})"
        if "nbval-ignore-output" not in tags and (match := TIMING.search(text)):
            yield f"stores a time ({match.group()!r}), and is not tagged nbval-ignore-output"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute, normalise or check notebooks.")
    parser.add_argument("action", choices=["execute", "normalise", "check"])
    parser.add_argument("notebooks", nargs="+", type=Path)
    args = parser.parse_args(arguments)
    if missing := [str(path) for path in args.notebooks if not path.is_file()]:
        parser.error(f"there is no {', '.join(missing)}; a chapter is book/01_attention.ipynb")
    failed = False
    for path in args.notebooks:
        if args.action == "check":
            for problem in problems(path):
                failed = True
                print(f"{path}: {problem}")
        else:
            notebook = execute(path) if args.action == "execute" else read(path)
            if is_of_the_book(path):
                add_colab(notebook, path)
            path.write_text(normalise(notebook, path.stem), encoding="utf-8", newline="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
