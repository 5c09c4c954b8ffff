"""tools/chapters.py: what a chapter may cost, and when stored outputs are compared."""

import os
from types import SimpleNamespace

import pytest

import chapters


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
