"""No planted fault survives. tests/faults lists them."""

from pathlib import Path

import pytest

from .planted import ALL, FAULTS, ONE_OF, PACKAGE, Fault, chosen, groups, replay

CAUSAL = "test_causal_matches_the_definition_at_the_bottom_right"


# Parts that take long have a file of their own, so that two processes share the work.
ELSEWHERE = {file.parent.name for file in Path(__file__).parent.glob("*/test_planted.py")}


@pytest.mark.parametrize("part", [part for part in groups() if part not in ELSEWHERE])
def test_every_fault_is_found_by_the_test_that_should(part):
    verdicts = replay(groups(chosen())[part])
    assert {fault.what: verdict for fault, verdict in verdicts.items() if verdict != "killed"} == {}


def test_every_line_that_a_fault_changes_stands_where_it_should():
    """Of all faults, those too that only `make nightly` replays."""
    texts = {fault.file: (PACKAGE / fault.file).read_text(encoding="utf-8") for fault in FAULTS}
    stale = {f.what: texts[f.file].count(f.old) for f in FAULTS if texts[f.file].count(f.old) != 1}
    assert stale == {}


def test_some_faults_of_every_file_are_replayed_each_time(monkeypatch):
    monkeypatch.delenv(ALL, raising=False)
    assert {fault.file for fault in chosen()} == {fault.file for fault in FAULTS}
    assert len(FAULTS) / ONE_OF <= len(chosen()) < len(FAULTS) / 4
    monkeypatch.setenv(ALL, "1")
    assert chosen() == FAULTS


def test_no_fault_is_listed_twice_and_each_changes_something():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
    assert all(fault.old != fault.new for fault in FAULTS)


def test_no_file_of_the_core_is_without_a_fault():
    core = [
        *PACKAGE.glob("*.py"),
        *PACKAGE.glob("analysis/*.py"),
        *PACKAGE.glob("families/*.py"),
        *PACKAGE.glob("content/*.py"),
        *PACKAGE.glob("patterns/*.py"),
        *PACKAGE.glob("transformer/*.py"),
    ]
    names = {path.relative_to(PACKAGE).as_posix() for path in core if path.name != "__init__.py"}
    assert names - {fault.file for fault in FAULTS} == set()


def test_a_harmless_change_is_told_from_a_fault_and_a_stale_line_from_both():
    healthy, stale, broken = (
        Fault("", "patterns/positional.py", old, new, "patterns/test_positional.py::" + CAUSAL)
        for old, new in (
            ("return j <= i", "return i >= j"),
            ("return j <= i + 1", "return j < i"),
            ("import torch\n", "import torches\n"),
        )
    )
    verdicts = replay([healthy, stale, broken])
    assert verdicts[healthy] == "survived"
    assert verdicts[stale] == "its line stands 0 times in patterns/positional.py"
    assert verdicts[broken].startswith(("broken", "tests imported another"))
