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


STATES = {
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled, True, False),
    "dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float32, torch.float64),
    "device": (
        torch.get_default_device,
        torch.set_default_device,
        torch.device("cpu"),
        torch.device("meta"),
    ),
}


@pytest.fixture(params=STATES)
def state(request):
    """A state of torch that outlives an answer: its getter, setter, usual and other value."""
    get, put, usual, other = STATES[request.param]
    yield get, put, usual, other
    put(None if request.param == "device" else usual)


def test_a_check_starts_with_torchs_own_state_and_gives_back_the_readers(state, monkeypatch):
    get, put, usual, other = state
    found = []

    def examine(answer, generator):
        found.append(get())
        put(usual)
        return Verdict("right")

    put(other)
    run.grade(planted(monkeypatch, examine), 3, seed=1)
    assert found == [usual]
    assert get() == other


@pytest.mark.parametrize("error", [None, ValueError])
def test_an_answer_that_changes_torchs_state_changes_it_for_nobody_else(error, state, monkeypatch):
    get, put, usual, other = state

    def examine(answer, generator):
        put(other)
        if error:
            raise error("late")
        return Verdict("right")

    run.check(planted(monkeypatch, examine), 3)
    assert get() == usual


def rounded(sort):
    return torch.zeros_like(sort).scatter(1, sort.argmax(1, keepdim=True), 1.0)


def policy_gradient(theta, rewards):
    theta = theta.clone().requires_grad_()
    (theta.softmax(0) @ rewards).backward()
    return theta.grad


def test_no_setting_of_one_answer_turns_the_mark_of_another():
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(AssertionError, match="no gradient comes back"):
            run.grade("learned/straight", rounded, 1)
        run.grade("learned/gradient", policy_gradient, 1)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def test_no_setting_within_an_answer_turns_its_own_mark():
    def without_gradients(sort):
        torch.set_grad_enabled(False)
        return rounded(sort)

    def in_double(theta, rewards):
        torch.set_default_dtype(torch.float64)
        return policy_gradient(theta, rewards)

    with pytest.raises(AssertionError, match="no gradient comes back"):
        run.grade("learned/straight", without_gradients, 1)
    run.grade("learned/gradient", in_double, 1)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
