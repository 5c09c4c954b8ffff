"""What the autograder does before and after nbgrader runs: no kernel starts here."""

import csv
import sys
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

import autograde
from autograde import Marks, write_marks
from grade_alone import Limits
from shielded_execute import CUT, LARGEST_OUTPUT, ShieldedExecute

NAMES = ["setup", "a-answer", "a-check", "b-answer", "b-check"]


def cell(name=None, **more):
    marks = {} if name is None else {"nbgrader": {"grade_id": name, **more}}
    return new_code_cell("1", metadata=marks)


@pytest.fixture
def course(tmp_path):
    (tmp_path / "submitted" / "ada" / "attention").mkdir(parents=True)
    (tmp_path / "release" / "attention").mkdir(parents=True)
    ours = new_notebook(cells=[cell(name) for name in NAMES])
    released = tmp_path / "release" / "attention" / "attention.ipynb"
    released.write_text(nbformat.writes(ours), encoding="utf-8")
    return tmp_path


def hand_in(course, text):
    given = course / "submitted" / "ada" / "attention" / "attention.ipynb"
    given.write_text(text, encoding="utf-8")
    return autograde._hand_in(course, course / "alone", "attention", "ada")


def test_only_the_notebook_is_taken_along(course):
    (course / "submitted" / "ada" / "attention" / "sitecustomize.py").write_text("import os")
    hand_in(course, nbformat.writes(new_notebook(cells=[cell("setup")])))
    taken = [path.name for path in (course / "alone").rglob("*") if path.is_file()]
    assert taken == ["attention.ipynb"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_link_to_a_file_of_the_teacher_is_refused(course):
    (course / "secret.ipynb").write_text(nbformat.writes(new_notebook()), encoding="utf-8")
    (course / "submitted" / "ada" / "attention" / "attention.ipynb").symlink_to(
        course / "secret.ipynb"
    )
    with pytest.raises(ValueError, match="the notebook is not a file"):
        autograde._hand_in(course, course / "alone", "attention", "ada")


def test_notebooks_that_are_broken_or_huge_are_refused_with_the_reason(course, monkeypatch):
    with pytest.raises(ValueError, match="the notebook cannot be read: NotJSONError"):
        hand_in(course, "{")
    with pytest.raises(ValueError, match="the notebook cannot be read: "):
        hand_in(course, '{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    monkeypatch.setattr(autograde, "LARGEST_NOTEBOOK", 10)
    with pytest.raises(ValueError, match="the notebook is too large"):
        hand_in(course, nbformat.writes(new_notebook()))


@pytest.mark.parametrize("minor", [4, 5])
@pytest.mark.parametrize("kept", [["b-answer"], NAMES[1:], NAMES[::2], NAMES])
def test_missing_cells_of_the_assignment_are_put_back_at_their_places(course, kept, minor):
    given = new_notebook(cells=[cell(name) for name in kept])
    if minor == 4:
        given.nbformat_minor = 4
        for one in given.cells:
            del one["id"]
    hand_in(course, nbformat.writes(given))
    there = course / "alone" / "submitted" / "ada" / "attention" / "attention.ipynb"
    taken = nbformat.read(there, as_version=4)
    nbformat.validate(taken)
    cells = taken.cells
    assert [one.metadata.nbgrader.grade_id for one in cells] == NAMES


@pytest.mark.parametrize("cells", [[], [cell()], [cell("of another assignment")]])
def test_a_notebook_without_the_assignments_cells_is_told_so(course, cells):
    with pytest.raises(ValueError, match="does not hold the assignment's cells"):
        hand_in(course, nbformat.writes(new_notebook(cells=cells)))


def test_a_byte_order_mark_in_front_of_a_notebook_is_read_over(course):
    hand_in(course, "\ufeff" + nbformat.writes(new_notebook(cells=[cell("setup")])))


def test_a_notebook_of_another_name_is_listed_and_told_with_what_was_found(course):
    folder = course / "submitted" / "ada" / "attention"
    (folder / "attention(1).ipynb").write_text("{}", encoding="utf-8")
    assert autograde._submissions(course, "attention") == [folder]
    with pytest.raises(ValueError, match=r"no attention\.ipynb in the folder, but attention\(1\)"):
        autograde._hand_in(course, course / "alone", "attention", "ada")


def test_only_the_first_cell_of_a_name_belongs_to_the_assignment():
    notebook = new_notebook(cells=[cell("a"), cell("b"), cell("a"), cell(), cell(["c"])])
    autograde._without_copies(notebook)
    names = [one.metadata.get("nbgrader", {}).get("grade_id") for one in notebook.cells]
    assert names == ["a", "b", None, None, None]


def test_text_of_students_holds_no_html_and_ours_does():
    fold = "<details><summary>Hint</summary></details>"
    ours = new_notebook(cells=[new_markdown_cell(fold)])
    script = "<script>steal()</script> & **bold**"
    given = new_notebook(
        cells=[new_markdown_cell(fold), new_markdown_cell(script), new_raw_cell(script)]
    )
    autograde.without_html(given, ours)
    assert [one.source for one in given.cells] == [
        fold,
        *["&lt;script&gt;steal()&lt;/script&gt; &amp; **bold**"] * 2,
    ]


def test_marks_of_those_who_were_not_graded_this_time_stay(course, monkeypatch):
    cells = [
        SimpleNamespace(name=f"attention-row-{kind}", max_score=points)
        for kind, points in (("check", 1), ("hidden", 3))
    ]
    monkeypatch.setattr(autograde, "gradebook", lambda course: FakeBook(cells))
    points = {"attention-row-check": 1.0, "attention-row-hidden": 3.0}
    write_marks(course, "attention", [Marks("bob", points=points), Marks("ada", "stopped")])
    path = write_marks(course, "attention", [Marks("ada", points={"attention-row-check": 1.0})])
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["student"], row["score"], row["attention-row"]) for row in rows] == [
        ("ada", "1.0", "1.0"),
        ("bob", "4.0", "4.0"),
    ]
    assert {row["status"] for row in rows} == {"graded"}


class FakeBook:
    def __init__(self, cells):
        self.grade_cells = cells

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def find_notebook(self, name, assignment):
        return self


def test_the_reason_for_a_failure_is_the_first_error_in_the_log():
    log = (
        "a warning\nTraceback (most recent call last):\n  File x\n    y\nKeyError: 'z'\n\nDuring\n"
        "Traceback (most recent call last):\n  File x\nNbGraderException: see above\n"
    )
    assert autograde._error(log) == "KeyError: 'z'"
    assert autograde._error("") == "no reason was given"


# What is kept of the output of a cell


def keep(messages):
    step = ShieldedExecute()
    step.kept = {}
    step.output_hook_stack = {"id": []}
    step.clear_before_next_output = False
    outputs = []
    for kind, content in messages:
        message = {"msg_type": kind, "content": content, "parent_header": {"msg_id": "id"}}
        message["header"] = {"msg_type": kind}
        out = step.output(outputs, message, None, 0)
        if out is not None and out not in outputs:
            outputs.append(out)
    return outputs


def test_text_is_cut_off_and_what_follows_is_dropped():
    stream = {"name": "stdout", "text": "x" * 60_000}
    printed = keep([("stream", dict(stream)) for _ in range(9)])
    text = "".join(output.text for output in printed)
    assert text.count("x") == LARGEST_OUTPUT
    assert text.endswith(CUT)


def test_an_error_after_much_output_is_kept_shortened():
    error = {"ename": "E", "evalue": "y" * 10**6, "traceback": ["z" * 10**6]}
    stream = {"name": "stdout", "text": "x" * 10**6}
    printed = keep([("stream", stream), ("error", error)])
    assert [output.output_type for output in printed] == ["stream", "error"]
    assert len(str(printed[-1])) < 10_000


def test_warnings_take_no_points_and_html_is_not_kept():
    data = {"text/html": "<script>", "text/plain": "fine", "application/javascript": "steal()"}
    printed = keep(
        [
            ("stream", {"name": "stderr", "text": "UserWarning"}),
            ("display_data", {"data": data, "metadata": {}}),
            ("display_data", {"data": {"text/html": "<script>"}, "metadata": {}}),
        ]
    )
    assert [dict(output.data) for output in printed] == [{"text/plain": "fine"}]


def test_the_time_limit_is_for_the_cells_of_students():
    step = ShieldedExecute(timeout=7)
    setup, check, answer = cell("s", locked=True), cell("c", locked=True, grade=True), cell("a")
    assert [step._get_timeout(one) for one in (setup, check, answer, cell())] == [None, 7, 7, 7]


def test_limits_leave_time_for_several_cells():
    assert Limits().cell_seconds * 5 < Limits().seconds
