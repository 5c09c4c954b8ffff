"""Every defect of the museum is one, can be killed, and is killed by the page's own tests."""

import re
import sys
from dataclasses import FrozenInstanceError

import nbformat
import pytest
import torch

from exercise_pages import PAGES
from tinyattn.exercises.museum import EXHIBITS, base, exhibit, score

PAGE = PAGES.parent / "appendices" / "bug_museum.ipynb"
CELLS = nbformat.read(PAGE, as_version=4).cells
SOLUTIONS = [cell for cell in CELLS if "solution" in cell.metadata.get("tags", [])]
STUBS = [cell for cell in CELLS if "stub" in cell.metadata.get("tags", [])]
NAMES = [one.name for one in EXHIBITS]


def written_for(number):
    """The page's test for the exhibit with this number."""
    names = {"torch": torch, "score": lambda name, test: None}
    exec(SOLUTIONS[number].source, names)  # noqa: S102 - the book's own cells
    return names[f"test_{EXHIBITS[number].good.__name__}"]


def test_there_are_twelve_exhibits_with_names_of_their_own():
    assert len(EXHIBITS) == len(set(NAMES)) == len(SOLUTIONS) == len(STUBS) == 12
    assert len({one.link for one in EXHIBITS}) == 12


@pytest.mark.parametrize("number", range(12), ids=NAMES)
def test_the_pages_test_kills_every_defect_and_accepts_the_good_function(number):
    assert base.score(EXHIBITS[number], written_for(number)).startswith("Right: ")
    written_for(number)(EXHIBITS[number].good)
    for bug in EXHIBITS[number].bugs:
        with pytest.raises((AssertionError, RuntimeError, IndexError)):
            written_for(number)(bug.function)


@pytest.mark.parametrize("one", EXHIBITS, ids=NAMES)
def test_a_test_without_assertions_kills_nothing(one):
    said = base.score(one, lambda function: None)
    assert said == (
        f"Not yet: your test kills 0 of {len(one.bugs)} defects. One is alive: {one.bugs[0].says}."
    )


@pytest.mark.parametrize("one", EXHIBITS, ids=NAMES)
def test_a_test_that_rejects_everything_scores_nothing(one):
    def always(function):
        raise AssertionError("never right\nat all")

    assert base.score(one, always) == (
        "Not yet: your test rejects the function without a defect (AssertionError: never right)."
    )


def test_a_test_that_sees_some_defects_is_told_of_one_that_is_alive(capsys):
    def sees_the_future(window_mask):
        assert not window_mask(4, 1)[0, 1]

    score("window", sees_the_future)
    assert "kills 2 of 4 defects. One is alive: it allows w keys with" in capsys.readouterr().out


@pytest.mark.parametrize("failure", [lambda: pytest.fail("the future is read"), sys.exit])
def test_a_test_may_fail_by_what_is_no_exception(failure):
    def fails(function):
        if function is not one.good:
            failure()

    one = exhibit("window")
    assert base.score(one, fails).startswith("Right: window.")
    assert "rejects the function without a defect" in base.score(one, lambda function: failure())


def test_a_reader_may_interrupt_a_test():
    def interrupted(function):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        base.score(exhibit("window"), interrupted)


@pytest.mark.parametrize("returned", [True, False])
def test_a_test_that_only_returns_is_told_to_assert(returned):
    said = base.score(exhibit("window"), lambda function: returned)
    assert f"your test returns {returned} and raises nothing, so it kills 0 of 4" in said
    assert said.endswith("`assert` it.")


@pytest.mark.parametrize("missing", [None, ..., lambda function: ...])
def test_a_missing_test_was_not_attempted(missing, capsys):
    score("merge", missing)
    assert capsys.readouterr().out == "Not attempted yet: merge\n"


def test_every_function_meets_the_same_random_draws():
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        base.score(exhibit("merge"), lambda function: seen.append(torch.rand(1).item()))
    assert len(seen) == 10
    assert len(set(seen)) == 1


@pytest.mark.parametrize("number", range(12), ids=NAMES)
def test_the_page_shows_the_defect_its_rule_and_a_report_of_its_kind(number):
    one = EXHIBITS[number]
    (text,) = [c.source for c in CELLS if c.source.startswith(f"## {number + 1}. ")]
    assert text.startswith(f"## {number + 1}. {one.title}\n")
    assert f"```python\n{one.shown.strip()}\n```" in text
    assert " ".join(one.good.__doc__.split()) in " ".join(text.split())
    links = [c.source for c in CELLS if one.link in c.source]
    assert len(links) == 1
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", one.link)


def test_an_unknown_exhibit_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"the museum has window, padding, .*, got 'windows'"):
        score("windows", None)


def test_an_exhibit_prints_what_a_reader_may_know_and_does_not_change():
    one = next(iter(EXHIBITS))
    assert repr(one) == f"Exhibit(name={one.name!r}, title={one.title!r})"
    assert repr(one.bugs[0]) == f"Bug(says={one.bugs[0].says!r})"
    with pytest.raises(FrozenInstanceError):
        one.bugs = ()
    with pytest.raises(FrozenInstanceError):
        one.bugs[0].says = "nothing"
