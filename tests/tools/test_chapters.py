"""tools/chapters.py: what a chapter may cost, and when stored outputs are compared."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import chapters
import notebooks


@pytest.fixture(autouse=True)
def no_measurement(monkeypatch):
    for name in ("seconds", "peaks"):
        monkeypatch.setattr(chapters, name, type(getattr(chapters, name))(float))


def report(chapter, duration, **more):
    return SimpleNamespace(nodeid=f"book/{chapter}.ipynb::Cell 1", duration=duration, **more)


def test_seconds_add_up_and_the_highest_peak_counts():
    for one in [report("a", 30, peak_bytes=5), report("a", 40, peak_bytes=9), report("a", 1)]:
        chapters.pytest_runtest_logreport(one)
    assert chapters.seconds == {"book/a.ipynb": 71}
    assert chapters.peaks == {"book/a.ipynb": 9}
    assert chapters.over_budget() == []


def test_what_a_chapter_takes_is_stored_with_its_code_and_beside_other_chapters(
    tmp_path, monkeypatch
):
    (tmp_path / "book").mkdir()
    notebook = new_notebook(cells=[new_code_cell("1 + 1", id="a")])
    nbformat.write(notebook, tmp_path / "book" / "a.ipynb")
    record = tmp_path / "chapters.json"
    record.write_text('{"book/b.ipynb": {}}', encoding="utf-8")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(chapters, "RECORD", record)
    chapters.record({"book/a.ipynb": 12.34}, {"book/a.ipynb": 300 * 2**20})
    found = json.loads(record.read_text(encoding="utf-8"))
    assert list(found) == ["book/a.ipynb", "book/b.ipynb"]
    one = found["book/a.ipynb"]
    assert (one["seconds"], one["mebibytes"]) == (12.3, 300)
    assert one["code"] == notebooks.code_digest(notebook)
    assert set(one["versions"]) == {"Python", "PyTorch"}


def test_a_chapter_over_one_gibibyte_fails_the_run():
    chapters.pytest_runtest_logreport(report("a", 1, peak_bytes=int(1.5 * 2**30)))
    assert chapters.over_budget() == ["book/a.ipynb held 1.50 GiB of 1"]
    session = SimpleNamespace(exitstatus=0)
    chapters.pytest_sessionfinish(session, 0)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_a_chapter_that_takes_minutes_fails_the_run():
    chapters.pytest_runtest_logreport(report("a", 200, peak_bytes=1))
    assert chapters.over_budget() == ["book/a.ipynb took 200 s of 180"]


def test_a_process_knows_its_peak():
    assert 10 * 2**20 < chapters.peak_bytes(os.getpid()) < 100 * 2**30


@pytest.mark.parametrize(
    ("python", "torch", "same"),
    [
        ((3, 11, 7), "2.13.0+cpu", True),
        ((3, 11, 7), "2.13.0", True),
        ((3, 12, 1), "2.13.0", False),
        ((3, 11, 7), "2.5.1", False),
    ],
)
def test_outputs_are_compared_only_where_they_were_stored(
    monkeypatch, tmp_path, python, torch, same
):
    (tmp_path / "requirements.txt").write_text("torch==2.13.0  # pinned\n")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(chapters.sys, "version_info", python)
    monkeypatch.setattr(chapters, "version", lambda name: torch)
    assert chapters.stores_the_same_outputs() is same


# ------------------------------------------------------------------------ a run from end to end


@pytest.fixture
def run(tmp_path):
    """Store a chapter of these cells, edit the file, and run it as `make chapters` does."""

    def run(*sources, edit=("", "")):
        path = tmp_path / "chapter.ipynb"
        cells = [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), path)
        notebooks.main(["execute", str(path)])
        path.write_text(path.read_text().replace(*edit))
        command = [sys.executable, chapters.__file__, str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_a_chapter_that_repeats_itself_passes_and_is_measured(run):
    found = run("x = 2\nx;", "print(x + 1)")
    assert found.returncode == 0, found.stdout
    assert "2 passed" in found.stdout
    assert re.search(r"s +\d+ MiB  \S*chapter\.ipynb", found.stdout)


@pytest.mark.skipif(not chapters.stores_the_same_outputs(), reason="outputs are not compared here")
def test_a_chapter_that_prints_something_else_fails(run):
    found = run("print(1 + 1)", edit=(r'"2\n"', r'"3\n"'))
    assert found.returncode == 1, found.stdout
    assert "1 failed" in found.stdout


def test_a_chapter_whose_assert_fails_fails_everywhere(run):
    found = run("assert True", edit=("True", "False"))
    assert found.returncode == 1, found.stdout
    assert "1 failed" in found.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is not limited")
def test_a_chapter_gets_no_more_memory_than_binder_has(run):
    found = run("import numpy as np", "print(np.ones(3 * 2**27).sum())")  # 3 GiB
    assert found.returncode == 1, found.stdout
    assert "Unable to allocate 3.00 GiB" in found.stdout
