"""tools/notebooks.py: normal form, and what it refuses. Each refusal is tried on a bad notebook."""

import ast
import json
import sys
from importlib.metadata import packages_distributions, requires

import nbformat
import pytest
import yaml
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import notebooks

HTML_TWIN = "<div data-tinyattn-widget='frames'></div>"


def executed(source="1 + 1", count=1, outputs=(), **metadata):
    cell = new_code_cell(source, execution_count=count, outputs=list(outputs))
    cell.metadata.update(metadata)
    return cell


def result(count=1, **data):
    data = {mime.replace("_", "/", 1): value for mime, value in data.items()}
    return new_output("execute_result", data=data, execution_count=count)


def printed(text, name="stdout"):
    return new_output("stream", name=name, text=text)


@pytest.fixture
def write(tmp_path):
    """Write cells as book/NAME.ipynb, in normal form unless told not to."""

    def write(*cells, normal=True, name="chapter"):
        path = tmp_path / f"{name}.ipynb"
        notebook = new_notebook()
        notebook.cells = list(cells)
        text = notebooks.normalise(notebook, name) if normal else nbformat.writes(notebook)
        path.write_text(text, encoding="utf-8")
        return path

    return write


# ------------------------------------------------------------------------------- normal form


def test_a_normalised_notebook_has_no_problem(write):
    path = write(new_markdown_cell("# One"), executed(outputs=[result(text_plain="2")]))
    assert notebooks.problems(path) == []


def test_normalising_twice_changes_nothing(write):
    path = write(new_markdown_cell("# One"), executed(count=7), executed(count=9))
    before = path.read_text()
    assert notebooks.main(["normalise", str(path)]) == 0
    assert path.read_text() == before


def test_counts_run_from_one_and_outputs_follow_them(write):
    cells = [executed(count=7), executed(count=9, outputs=[result(9, text_plain="2")])]
    stored = json.loads(write(*cells).read_text())["cells"]
    assert [cell["execution_count"] for cell in stored] == [1, 2]
    assert stored[1]["outputs"][0]["execution_count"] == 2


def test_random_and_copied_ids_are_replaced_and_chosen_ids_kept(write):
    cells = [executed(count=n) for n in (1, 2, 3, 4)]
    for cell, id in zip(cells, ["0123abcd", "my-figure", "my-figure", "chapter-02"], strict=True):
        cell["id"] = id
    stored = json.loads(write(*cells).read_text())["cells"]
    assert [cell["id"] for cell in stored] == [
        "chapter-00",
        "my-figure",
        "chapter-02",
        "chapter-03",
    ]


def test_metadata_of_editors_and_machines_is_dropped_and_that_of_the_book_kept(write):
    cell = executed(scrolled=True, ExecuteTime={"x": 1}, tags=["trained"], mystnb={"figure": {}})
    path = write(cell)
    notebook = json.loads(path.read_text())
    assert notebook["cells"][0]["metadata"] == {"tags": ["trained"], "mystnb": {"figure": {}}}
    assert notebook["metadata"] == notebooks.NOTEBOOK_METADATA


def test_a_widget_is_stored_as_its_html_twin(write):
    data = {notebooks.WIDGET_VIEW: {"model_id": "17"}, "text/html": HTML_TWIN}
    path = write(executed(outputs=[new_output("display_data", data=data)]))
    assert notebooks.problems(path) == []
    assert json.loads(path.read_text())["cells"][0]["outputs"][0]["data"].keys() == {"text/html"}


# ---------------------------------------------------------------------------------- refusals


def png(**metadata):
    data = {"image/png": "iVBORw0K", "text/plain": "a figure"}
    return new_output("display_data", data=data, metadata={"image/png": metadata})


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=[])
WIDGET = new_output("display_data", data={notebooks.WIDGET_VIEW: {"model_id": "17"}})

REFUSED = {
    "an empty cell": (executed(source=" \n"), "is empty"),
    "an error": (executed(outputs=[ERROR]), "stores the error ValueError"),
    "stderr": (executed(outputs=[printed("Warning: x", "stderr")]), "writes to stderr"),
    "a widget alone": (executed(outputs=[WIDGET]), "shows a widget without text/html"),
    "an undescribed image": (executed(outputs=[png(width=3)]), "shows an image without alt text"),
    "a home folder": (executed(outputs=[printed("saved /home/me/x")]), "an absolute path"),
    "a windows path": (executed(outputs=[printed(r"saved C:\Users")]), "an absolute path"),
    "a package's path": (executed(outputs=[printed("lib/site-packages/a.py")]), "absolute path"),
    "an address": (executed(outputs=[result(text_plain="<A at 0x7f12ab34>")]), "a memory address"),
    "a progress bar": (executed(outputs=[printed("loss 1\rloss 2")]), "a progress bar"),
    "a tqdm bar": (executed(outputs=[printed(" 50%|#####     | 5/10")]), "a progress bar"),
    "a duration": (executed(outputs=[printed("took 3.2 ms")]), "stores a time ('3.2 ms')"),
    "a short duration": (executed(outputs=[printed("took 3s")]), "stores a time ('3s')"),
}


@pytest.mark.parametrize(("cell", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_it_refuses(write, cell, problem):
    (found,) = notebooks.problems(write(cell))
    assert found.startswith("chapter-00: ")
    assert problem in found


ACCEPTED = {
    "an error that is meant": executed(outputs=[ERROR], tags=["raises-exception"]),
    "a duration that is not compared": executed(
        outputs=[printed("took 3.2 ms")], tags=["nbval-ignore-output"]
    ),
    "an image with alt text": executed(outputs=[png(alt="A line")]),
    "numbers that are no durations": executed(outputs=[printed("8 heads, 3.5, 12 steps\n")]),
    "fractions and percentages": executed(outputs=[printed("98.3 % of 1/2, key/value\r\n")]),
}


@pytest.mark.parametrize("cell", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_it_accepts(write, cell):
    assert notebooks.problems(write(cell)) == []


def test_it_refuses_another_form_than_the_normal_one(write):
    (problem,) = notebooks.problems(write(executed(), normal=False))
    assert "not in normal form" in problem


def test_it_refuses_a_notebook_that_is_too_large(write, monkeypatch):
    monkeypatch.setattr(notebooks, "MAX_BYTES", 500)
    (problem,) = notebooks.problems(write(executed(outputs=[printed("x" * 500)])))
    assert "the limit is 500" in problem


def test_it_refuses_cells_that_did_not_run(write):
    (problem,) = notebooks.problems(write(executed(), executed(count=None), executed(count=None)))
    assert problem.startswith("2 cells were not executed")


def test_check_prints_each_problem_and_fails(write, capsys):
    path = write(executed(count=None), executed(" "))
    assert notebooks.main(["check", str(path)]) == 1
    assert [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()] == [str(path)] * 2


# --------------------------------------------------------------------------------- executing


def test_executing_runs_every_cell_in_the_folder_of_the_notebook_on_one_thread(write):
    source = "import os\nos.path.basename(os.getcwd()), os.environ['OMP_NUM_THREADS']"
    path = write(new_code_cell(source), new_code_cell("print('a')\nprint('b')"), name="01_x")
    assert notebooks.main(["execute", str(path)]) == 0
    assert notebooks.problems(path) == []
    first, second = json.loads(path.read_text())["cells"]
    assert "".join(first["outputs"][0]["data"]["text/plain"]) == str((path.parent.name, "1"))
    assert "".join(second["outputs"][0]["text"]) == "a\nb\n"


def test_executing_twice_gives_the_same_bytes(write):
    path = write(new_code_cell("sum(range(5))"))
    notebooks.main(["execute", str(path)])
    before = path.read_bytes()
    notebooks.main(["execute", str(path)])
    assert path.read_bytes() == before


# ------------------------------------------------------------------------------------- Colab


class Shell:
    """Notes what a cell asks IPython to do, in place of doing it."""

    def __init__(self):
        self.asked = []

    def system(self, command):
        self.asked.append(command)

    def run_line_magic(self, name, line, *more):
        self.asked.append(f"{name} {line}")


def run_colab_cell(modules, monkeypatch, name="book/01_attention.ipynb"):
    shell = Shell()
    monkeypatch.setattr(sys, "modules", {**sys.modules, **dict.fromkeys(modules)})
    source = TransformerManager().transform_cell(notebooks.colab_source(notebooks.ROOT / name))
    exec(source, {"get_ipython": lambda: shell})  # noqa: S102
    return shell.asked


def test_the_cell_for_colab_does_nothing_elsewhere(monkeypatch):
    assert run_colab_cell([], monkeypatch) == []


def test_the_cell_for_colab_fetches_installs_and_goes_to_the_chapters(monkeypatch):
    url = yaml.safe_load((notebooks.ROOT / "_config.yml").read_text())["repository"]["url"]
    fetch, install, go = run_colab_cell(["google.colab"], monkeypatch)
    assert f" {url} " in fetch
    assert install.split()[0] == "pip"
    assert install.split()[-2] == fetch.split()[-1]
    assert go == f"cd -q {fetch.split()[-1]}/book"


def test_the_cell_for_colab_goes_to_the_folder_of_its_notebook(monkeypatch):
    name = "book/appendices/instructors.ipynb"
    *_, go = run_colab_cell(["google.colab"], monkeypatch, name)
    assert go.endswith("/book/book/appendices")


def brought_by(name, found):
    """A package and all that it requires, by the names they are installed under."""
    name = canonicalize_name(name)
    if name not in found:
        found.add(name)
        for line in requires(name) or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                brought_by(wanted.name, found)
    return found


def test_what_a_notebook_imports_is_installed_by_its_cell_for_colab(monkeypatch):
    _, install, _ = run_colab_cell(["google.colab"], monkeypatch)
    installed = brought_by("tinyattn", set())
    for name in install.split()[-1:]:
        brought_by(name, installed)
    packages = packages_distributions()
    for path in sorted((notebooks.ROOT / "book").rglob("[!.]*.ipynb")):
        code = [cell.source for cell in notebooks.read(path).cells if cell.cell_type == "code"]
        for node in ast.walk(ast.parse("\n".join(map(TransformerManager().transform_cell, code)))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for module in {name.split(".")[0] for name in names} - sys.stdlib_module_names:
                by = {canonicalize_name(one) for one in packages.get(module, ())}
                assert module == "google" or by & installed, (path.name, module)


def test_a_notebook_of_the_book_gets_the_cell_for_colab_once(write, monkeypatch, tmp_path):
    path = write(new_markdown_cell("# One"), executed(outputs=[result(text_plain="2")]))
    monkeypatch.setattr(notebooks, "is_of_the_book", lambda path: True)
    assert any("does not start on Colab" in problem for problem in notebooks.problems(path))
    for _ in range(2):
        notebooks.main(["normalise", str(path)])
        assert notebooks.problems(path) == []
        cells = json.loads(path.read_text())["cells"]
        assert [cell.get("execution_count", "text") for cell in cells] == ["text", None, 1]
        assert cells[1]["metadata"]["tags"] == ["colab", "remove-cell"]


def test_the_cell_for_colab_is_not_numbered_when_a_chapter_is_executed(write, monkeypatch):
    path = write(new_markdown_cell("# One"), executed("1 + 1", None))
    monkeypatch.setattr(notebooks, "is_of_the_book", lambda path: True)
    notebooks.main(["normalise", str(path)])
    notebooks.main(["execute", str(path)])
    assert notebooks.problems(path) == []
    cells = json.loads(path.read_text())["cells"]
    assert [cell.get("execution_count", "text") for cell in cells] == ["text", None, 1]


def test_a_notebook_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        notebooks.main(["check", "book/NAME.ipynb"])
    assert "there is no book/NAME.ipynb" in capsys.readouterr().err
