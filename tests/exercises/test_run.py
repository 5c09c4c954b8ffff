"""From a name to its exercise, and from an answer to what is printed."""

import pytest
import torch

from tinyattn.exercises import run
from tinyattn.exercises.base import Exercise, Verdict


def planted(monkeypatch, examine, after=""):
    one = Exercise("attention/planted", "Planted", "prove", 1, 5, 2, "Plant", examine, after)
    monkeypatch.setattr(run, "exercises", lambda chapter: (one,))
    return one.name


def test_a_name_is_looked_up_in_its_chapter():
    for chapter in ("attention", "lsh"):
        for one in run.exercises(chapter):
            assert run.exercise(one.name) is one


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("attention/nothing", "attention has the exercises attention/row, .*got 'attention/nothing'"),
        ("nothing/row", "chapter must be one of attention, .*, learned, got 'nothing'"),
        ("row", "chapter must be one of .* got 'row'"),
        (7, "chapter must be one of .* got ''"),
    ],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        run.exercise(name)
    with pytest.raises(ValueError, match=sentence):
        run.check(name, 3)
    with pytest.raises(ValueError, match=sentence):
        run.grade(name, 3, 1)


def test_progress_lists_all_chapters_with_buttons_or_some_without():
    everything, some = run.progress(), run.progress("lsh", "usage")
    assert [group["name"] for group in everything.groups] == list(run.CHAPTERS.values())
    assert everything.overview
    assert [group["name"] for group in some.groups] == [
        "Attention by hashing",
        "Three ways to use it",
    ]
    assert not some.overview
    items = some.groups[0]["items"]
    assert [item["name"] for item in items] == [one.name for one in run.exercises("lsh")]
    assert items[0]["title"] == f"1. {run.exercises('lsh')[0].title}"
    assert items[1]["link"] == "exercises/lsh.html#exercise-10-2"
    with pytest.raises(ValueError, match="chapter must be one of"):
        run.progress("lsh", "nothing")


@pytest.mark.parametrize(
    ("verdict", "after", "printed"),
    [
        (Verdict("right"), "It shows.", "Right: attention/planted. It shows."),
        (Verdict("right", "In half the time."), "It shows.", "Right: attention/planted. In half the time."),
        (Verdict("right"), "", "Right: attention/planted."),
        (Verdict("open"), "", "Not attempted yet: attention/planted"),
        (Verdict("wrong", "the rows are swapped"), "", "Not yet: the rows are swapped."),
    ],
)  # fmt: skip
def test_a_verdict_is_said_in_one_line(verdict, after, printed, monkeypatch, capsys):
    name = planted(monkeypatch, lambda answer, generator: verdict, after)
    run.check(name, 3)
    assert capsys.readouterr().out == f"{printed}\n"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_check_that_fails_names_the_answer_as_unexpected(error, monkeypatch, capsys):
    def examine(answer, generator):
        raise error("too deep")

    name = planted(monkeypatch, examine)
    run.check(name, [3])
    assert capsys.readouterr().out == (
        "Not yet: this is an unexpected answer, [3] (list); reading it failed with "
        f"{error.__name__}: too deep.\n"
    )
    with pytest.raises(AssertionError, match="unexpected answer"):
        run.grade(name, [3], seed=1)


def test_a_list_within_itself_is_unexpected_and_not_right(capsys):
    endless: list = []
    endless.append(endless)
    run.check("attention/row", endless)
    assert "unexpected answer, [[...]] (list)" in capsys.readouterr().out


def test_a_picture_is_drawn_when_there_is_one(monkeypatch):
    drawn = []
    monkeypatch.setattr(run, "draw", drawn.append)
    with_picture = Verdict("wrong", "no", wanted=torch.ones(2, 2, dtype=torch.bool))
    run.check(planted(monkeypatch, lambda answer, generator: with_picture), 3)
    assert drawn == [with_picture]
    run.check(planted(monkeypatch, lambda answer, generator: Verdict("right")), 3)
    assert len(drawn) == 1


def test_a_grade_is_silent_for_what_is_right_and_says_what_a_check_prints_otherwise(
    monkeypatch, capsys
):
    run.grade(planted(monkeypatch, lambda answer, generator: Verdict("right")), 3, seed=1)
    assert capsys.readouterr().out == ""
    wrong = planted(monkeypatch, lambda answer, generator: Verdict("wrong", "too small"))
    with pytest.raises(AssertionError, match=r"^Not yet: too small\.$"):
        run.grade(wrong, 3, seed=1)
    gap = planted(monkeypatch, lambda answer, generator: Verdict("open"))
    with pytest.raises(AssertionError, match=r"^Not attempted yet: attention/planted$"):
        run.grade(gap, ..., seed=1)


def test_inputs_and_an_answers_own_draws_follow_the_seed_and_leave_the_readers_state(monkeypatch):
    drawn = []

    def examine(answer, generator):
        drawn.append((torch.rand(1, generator=generator).item(), torch.rand(1).item()))
        return Verdict("right")

    name = planted(monkeypatch, examine)
    before = torch.get_rng_state()
    run.check(name, 3)
    run.grade(name, 3, seed=run.SEEN_SEED)
    run.grade(name, 3, seed=5)
    assert drawn[0] == drawn[1] != drawn[2]
    expected = torch.rand(1, generator=torch.Generator().manual_seed(5)).item()
    assert drawn[2] == (expected, expected)
    assert torch.equal(torch.get_rng_state(), before)
