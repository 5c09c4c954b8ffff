"""The records of what takes too long for `make test`: complete, and how old they are.

A record may be older than the code, because some take hours: then the book says so, and the tests
marked `records` are left out of `make test`. In a release it may not, and not in `make nightly`,
which brings the others up to date: these and `make fresh` run what is marked.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import chapters
import mutants
import stamps
from benchmarks.bars import BARS
from benchmarks.results import Results

from .conftest import pytest_collection_modifyitems

RESULTS = Path(__file__).parents[1] / "results"


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", stamps.RECORDS)
def test_a_record_says_when_it_was_made_of_which_code(name):
    for one in stamps.stamps_of(read(name)).values():
        assert re.fullmatch(r"[0-9a-f]{12}", one["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one["date"])
        assert one["files"]
        assert all(re.fullmatch(r"[0-9a-f]{16}", digest) for digest in one["files"].values())


@pytest.mark.records
@pytest.mark.parametrize("name", stamps.RECORDS)
def test_a_record_is_not_older_than_the_code(name):
    old = stamps.stale(name)
    if old:
        pytest.fail("\n".join([*old, f"`{stamps.RECORDS[name]}` renews it"]), pytrace=False)


@pytest.mark.records
def test_every_chapter_was_timed_as_it_is():
    old = chapters.untimed()
    if old:
        renew = f"`make chapters RECORD=--record NOTEBOOKS='{' '.join(old)}'` does"
        pytest.fail(f"no time is known of {', '.join(old)}; {renew}", pytrace=False)


@pytest.mark.records
def test_bars_of_chapters_are_of_the_times_that_are_recorded():
    stored = {bar["of"]: bar["value"] for bar in read("bench")["bars"] if "chapter" in bar["of"]}
    now = {bar.of: bar.value(Results({})) for bar in BARS if bar.of in stored}
    assert len(now) == 3
    renew = "`python -m benchmarks --only star --kinds schedule` stores what is recorded"
    assert now == pytest.approx(stored, rel=1e-4), renew


@pytest.mark.parametrize(("asked", "left"), [("", 1), ("records", 2)])
def test_what_may_be_old_is_left_out_unless_it_is_asked_for(asked, left):
    items = [SimpleNamespace(keywords=words) for words in ({"records"}, {"other"})]
    told = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    config = SimpleNamespace(option=SimpleNamespace(markexpr=asked), hook=hook)
    pytest_collection_modifyitems(config, items)
    assert (len(items), len(told)) == (left, 2 - left)


def test_commands_that_publish_ask_for_it():
    makefile = (RESULTS.parent / "Makefile").read_text(encoding="utf-8")
    assert "pytest -m records tests/test_records.py" in makefile
    assert re.search(r"^release: .*\bfresh\b", makefile, re.MULTILINE)
    assert re.search(r"^nightly:(?:.*\n\t)+.* fresh\b", makefile, re.MULTILINE)


def test_a_change_that_survives_is_listed_and_counted():
    for name, module in read("mutants")["modules"].items():
        assert module["killed"] + len(module["survived"]) == module["sample"], name
        assert module["tests"] == mutants.tests_of(name)


def test_of_the_changes_that_are_not_explained_one_in_ten_survives_at_most():
    for name, module in read("mutants")["modules"].items():
        unexplained = [one for one in module["survived"] if not one["why"]]
        assert len(unexplained) <= 0.1 * module["sample"], name


def test_no_test_said_two_things():
    assert [suite["differences"] for suite in read("flaky")["suites"].values()] == [[], []]


def test_the_suite_was_run_in_another_order():
    suites = read("flaky")["suites"]
    assert len({run["order"] for run in suites["package"]["runs"]}) >= 2
    for suite in suites.values():
        assert all(run.get("failed", 0) == 0 for run in suite["runs"])


def test_chapters_ran_within_the_memory_of_binder():
    record = read("binder")
    assert record["memory_limit_mib"] == 2048
    assert record["disk_mib"] <= 2048
    assert len(record["chapters"]) >= 2
    assert all(chapter["peak_mib"] <= 1024 for chapter in record["chapters"].values())
