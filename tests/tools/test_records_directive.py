"""tools/tinybook/records.py: what the book says of the longer checks."""

import json
from types import SimpleNamespace

import pytest

from tinybook import records

STAMP = {"date": "2030-01-31", "commit": "0123456789ab", "files": {}}
SAME = {"old": "a < b", "new": "b > a", "why": "it is the same"}
MISSED = {"old": "a + b", "new": "a - b", "why": None}
MUTANTS = {
    "modules": {
        "one.py": {
            "changes": 90,
            "sample": 40,
            "killed": 38,
            "survived": [SAME, MISSED],
            "stamp": STAMP,
        },
        "two.py": {"changes": 9, "sample": 9, "killed": 9, "survived": [], "stamp": STAMP},
    }
}


def test_the_share_is_told_without_and_with_what_is_explained():
    when = "2030-01-31, 0123456789ab"
    assert records.mutants(MUTANTS) == [
        ("one.py", "90", "40", "38", "1", "95 %", "97 %", when),
        ("two.py", "9", "9", "9", "0", "100 %", "100 %", when),
        ("all", "99", "49", "47", "1", "95 %", "97 %", ""),
    ]


def test_every_survivor_is_shown_with_its_reason_or_without():
    assert records.survivors(MUTANTS) == [
        ("one.py", "a < b", "b > a", "it is the same"),
        ("one.py", "a + b", "a - b", "not explained yet"),
    ]


def test_modules_that_were_not_tried_are_listed_under_their_reason(monkeypatch):
    why = {"a.py": "Takes an hour", "b.py": "Not tried yet", "c.py": "Takes an hour"}
    monkeypatch.setattr(records.trial, "untried", lambda record: why)
    found = records.untried(MUTANTS)
    assert found == {"Takes an hour": ["a.py", "c.py"], "Not tried yet": ["b.py"]}
    items = [item.astext() for item in records.left_out(found).children]
    assert items == ["Takes an hour: a.py, c.py.", "Not tried yet: b.py."]
    assert records.left_out({}).astext() == "None is left out."


@pytest.mark.parametrize(
    ("part", "whole", "said"), [(999, 1000, "99 %"), (7, 7, "100 %"), (0, 3, "0 %")]
)
def test_a_hundred_percent_is_said_of_all_only(part, whole, said):
    assert records.percent(part, whole) == said


def test_a_run_without_failures_says_that_there_were_none():
    run = {"order": "reversed", "threads": 2, "instructions": "avx2", "passed": 12, "seconds": 3}
    record = {"suites": {"package": {"runs": []}, "programs": {"runs": [run]}}}
    assert records.flaky(record) == [("programs", "reversed", "2", "avx2", "12", "0", "0")]


def directive(kind, root):
    app = SimpleNamespace(srcdir=str(root))
    env = SimpleNamespace(app=app, note_dependency=lambda name: None)
    one = records.Records.__new__(records.Records)
    one.arguments = [kind]
    one.state = SimpleNamespace(document=SimpleNamespace(settings=SimpleNamespace(env=env)))
    return one


@pytest.mark.parametrize("kind", ["mutants", "survivors", "untried", *records.stamps.RECORDS])
def test_a_book_without_records_says_how_to_make_them(tmp_path, kind):
    [paragraph] = directive(kind, tmp_path).run()
    assert paragraph.astext().startswith("Not done yet: make ")


@pytest.mark.parametrize("kind", ["mutants", "survivors"])
def test_what_is_stored_here_is_shown(kind):
    path = records.stamps.ROOT / "results" / "mutants.json"
    modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
    text = "".join(node.astext() for node in directive(kind, records.stamps.ROOT).run())
    for name, module in modules.items():
        if kind == "mutants" or module["survived"]:
            assert name in text


def test_what_survived_is_folded_under_how_many_there_are():
    start, found, end = directive("survivors", records.stamps.ROOT).run()
    assert f"<summary>The {len(found)} changes that survived</summary>" in start.astext()
    assert start.astext().startswith("<details")
    assert end.astext() == "</details>"


@pytest.mark.parametrize("name", records.stamps.RECORDS)
def test_the_page_says_of_every_record_that_it_is_current_or_what_it_is_older_than(name):
    *_, sentence = directive(name, records.stamps.ROOT).run()
    current = records.stamps.stale(name) == []
    if current:
        assert sentence.astext() == "The code is the same now."
    else:
        assert sentence.astext().startswith(name.capitalize())
        assert sentence.astext().count("older than") == 1


def test_a_page_has_four_scores_and_a_weight():
    row = {"page": "book/intro", "screen": "mobile", "performance": 74, "accessibility": 100}
    record = {"rows": [row | {"best-practices": 96, "seo": 100, "kB": 433}]}
    assert records.lighthouse(record) == [("book/intro", "mobile", "74", "100", "96", "100", "433")]
