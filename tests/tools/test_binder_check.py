"""tools/binder_check.py: what it takes from the repository before it installs anything."""

import json
import re
import sys

import pytest
from packaging.requirements import Requirement

import binder_check

SILENT = "--extra-index-url http://127.0.0.1:9/cpu\n"


@pytest.fixture
def folder(tmp_path):
    """A repository whose index of CPU builds is on no machine."""
    (tmp_path / "binder").mkdir()
    (tmp_path / "tools").mkdir()
    tool = binder_check.ROOT / "tools" / "cpu_wheels.py"
    (tmp_path / "tools" / "cpu_wheels.py").write_bytes(tool.read_bytes())
    (tmp_path / "binder" / "requirements.txt").write_text(
        f"# why\n{SILENT}-r ../requirements.txt\n"
    )
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no index is asked")
def test_an_index_that_is_silent_is_left_out_and_nothing_else(folder):
    assert binder_check.without_an_index_that_is_silent(folder) is False
    assert (folder / "binder" / "requirements.txt").read_text() == "# why\n-r ../requirements.txt\n"


def test_an_index_that_answers_stays(folder, monkeypatch):
    monkeypatch.setattr(binder_check, "run", lambda *command, cwd: "--extra-index-url x\n")
    assert binder_check.without_an_index_that_is_silent(folder) is True
    assert SILENT in (folder / "binder" / "requirements.txt").read_text()


def test_binder_gets_a_python_that_the_package_accepts_and_the_outputs_were_stored_with():
    assert binder_check.wanted_python(binder_check.ROOT) == "3.11"


def test_what_an_image_has_before_is_within_what_the_book_asks_for():
    lines = (binder_check.ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = {one.name: one for line in lines if (one := requirement(line))}
    for pin in binder_check.BASE:
        name, version = pin.split("==")
        assert name not in wanted or version in wanted[name].specifier, pin


def requirement(line):
    text = line.split("#")[0].strip()
    return Requirement(text) if re.match(r"\w", text) else None


def test_every_file_of_the_record_and_of_the_step_is_there():
    for name in [*binder_check.INSTALLED, *binder_check.heaviest(), binder_check.STEP[-1]]:
        assert (binder_check.ROOT / name).is_file(), name


def test_the_heaviest_chapters_are_those_that_held_most_memory(tmp_path, monkeypatch):
    took = {"a": {"mebibytes": 5}, "b": {"mebibytes": 9}, "c": {"mebibytes": 7}}
    monkeypatch.setattr(binder_check.chapters, "RECORD", tmp_path / "chapters.json")
    binder_check.chapters.RECORD.write_text(json.dumps(took), encoding="utf-8")
    assert sorted(binder_check.heaviest()) == ["b", "c"]


def test_a_chapter_whose_output_differs_fails_and_a_slow_one_does_not(monkeypatch, folder):
    def says(text):
        monkeypatch.setattr(binder_check, "run", lambda *command, **more: text)
        return binder_check.run_chapter("python", folder, "book/a.ipynb")

    slow = "200.5 s    835 MiB  book/a.ipynb\nOVER BUDGET: took 200 s\n47 passed in 1 s"
    assert says(slow) == {"seconds": 200.5, "peak_mib": 835}
    with pytest.raises(SystemExit):
        says(slow.replace("47 passed", "1 failed, 46 passed"))
    with pytest.raises(SystemExit):
        says("no kernel")
