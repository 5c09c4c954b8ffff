"""Every check refuses the listed wrong answers with a sentence of their own and accepts the right."""

import contextlib
import io
import math
import re
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch

from rubrics import mistakes
from tests.exercises.answers import answers
from tinyattn import attention
from tinyattn.exercises import CHAPTERS, check, exercise, exercises, grade
from tinyattn.exercises.base import Mistake, of_function
from tinyattn.families import nystrom_attention

NAMES = [one.name for chapter in CHAPTERS for one in exercises(chapter)]
ANSWERS = answers()
HIDDEN_SEEDS = (1, 20261129)
WRONG = [
    pytest.param(name, number, id=f"{name}-{words}")
    for name in ANSWERS
    for number, (words, _) in enumerate(ANSWERS[name].wrong)
]
RIGHT = [
    pytest.param(name, answer, id=f"{name}-{number}")
    for name in ANSWERS
    for number, answer in enumerate(ANSWERS[name].right)
]


class Unprintable:
    def __repr__(self):
        raise RuntimeError("not for your eyes")


def test_every_exercise_has_answers_and_every_answer_an_exercise():
    assert sorted(ANSWERS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_at_least_four_wrong_answers_and_two_right_ones_are_listed(name):
    assert len(ANSWERS[name].wrong) >= 4
    assert len(ANSWERS[name].right) >= 2


@cache
def said_of(name, number):
    """What a check prints of a wrong answer; two tests ask, and it takes a while."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        check(name, ANSWERS[name].wrong[number][1])
    return out.getvalue()


@pytest.mark.parametrize(("name", "number"), WRONG)
def test_a_wrong_answer_is_refused_in_its_own_words(name, number):
    assert said_of(name, number).startswith("Not yet: ")
    assert ANSWERS[name].wrong[number][0] in said_of(name, number)


@pytest.mark.parametrize("name", [name for name in NAMES if callable(ANSWERS[name].right[0])])
def test_an_answer_that_always_fails_is_told_its_own_error(name, capsys):
    def fails(*_):
        raise KeyError("of mine")

    check(name, fails)
    assert "KeyError: 'of mine'" in capsys.readouterr().out


def test_kernels_of_five_with_doubled_dilations_are_counted_as_somebody_would(capsys):
    (right,) = ANSWERS["comparison/paths"].right[:1]
    layers = next(n for n in range(20) if 1 + 4 * (2**n - 1) >= 1025)
    check("comparison/paths", {**right, "dilated": layers})
    assert "powers of the width, 5, not of 2" in capsys.readouterr().out


@pytest.mark.parametrize("n_landmarks", [3, 4])
def test_nystrom_is_exact_for_equal_queries_or_keys_and_not_where_a_query_equals_its_key(
    n_landmarks,
):
    q, k, v = (torch.randn(1, 1, 12, 4, generator=torch.manual_seed(s)) for s in (1, 2, 3))
    off = [
        (nystrom_attention(a, b, v, n_landmarks=n_landmarks) - attention(a, b, v)).abs().max()
        for a, b in ((q, q), (q[..., :1, :].expand_as(q), k), (q, k[..., :1, :].expand_as(k)))
    ]
    assert off[0] > 0.1  # its own key
    assert (
        max(off[1:]) < 1e-5
    )  # so equal queries are no case, and equal keys are one of linear attention


@pytest.mark.parametrize("name", NAMES)
def test_no_two_wrong_answers_are_told_the_same(name):
    said = [said_of(name, number) for number in range(len(ANSWERS[name].wrong))]
    assert len(set(said)) == len(said)


def test_what_a_check_says_of_a_wrong_answer_stands_in_its_rubric():
    told, listed = [], 0
    for name in NAMES:
        patterns = [
            re.compile(".*".join(map(re.escape, says.split("…"))), re.DOTALL)
            for says in mistakes(exercise(name))
        ]
        here = [
            said_of(name, number).removeprefix("Not yet: ")
            for number in range(len(ANSWERS[name].wrong))
        ]
        listed += sum(any(pattern.match(said) for pattern in patterns) for said in here)
        told += here
    # the others differ in shape, dtype or type: said for every exercise
    assert listed >= 0.7 * len(told)


@pytest.mark.parametrize("seed", HIDDEN_SEEDS)
@pytest.mark.parametrize(("name", "number"), WRONG)
def test_a_wrong_answer_earns_nothing_on_other_inputs(name, number, seed):
    with pytest.raises(AssertionError, match=r"^Not yet: "):
        grade(name, ANSWERS[name].wrong[number][1], seed)


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_a_right_answer_is_accepted_on_seen_and_hidden_inputs(name, answer, capsys):
    check(name, answer)
    assert capsys.readouterr().out.startswith(f"Right: {name}.")
    for seed in HIDDEN_SEEDS:
        grade(name, answer, seed)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_answer_is_no_mistake_and_no_point(name, capsys):
    check(name, ...)
    assert capsys.readouterr().out.startswith("Not attempted yet")
    with pytest.raises(AssertionError, match="Not attempted"):
        grade(name, ..., 1)


ODD = {
    "a text": "440",
    "a complex number": 440 + 3j,
    "a number beyond 64 bits": 10**30,
    "a number beyond all floats": 10**400,
    "NaN": math.nan,
    "a fraction": Fraction(1, 3),
    "a set": {1, 2},
    "a dict of None": {None: 1},
    "a ragged list": [[1.0], [2.0, 3.0]],
    "vectors": (torch.ones(3), torch.ones(3)),
    "a sparse matrix": torch.eye(3).to_sparse(),
    "numpy": np.ones((3, 3)),
    "numpy backwards": np.arange(6.0)[::-1],
    "objects": np.array([object(), "x"], dtype=object),
    "a scalar": np.float64(2.5),
    "a bool": np.True_,
    "a module": math,
    "a class": Unprintable,
    "what cannot be printed": Unprintable(),
    "nothing": (),
    "no numbers": torch.zeros(0, 4),
    "no values": torch.ones(2, 3, device="meta"),
}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_raised_and_nothing_odd_is_right(name, capsys):
    for what, odd in ODD.items():
        for answer in (odd, lambda *given, odd=odd: odd):
            check(name, answer)
            said = capsys.readouterr().out
            assert said.startswith("Not yet: "), what


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_ends_the_program_is_a_failure_like_others(name, capsys):
    def leaves(*given):
        sys.exit("done")

    check(name, leaves)
    assert capsys.readouterr().out.startswith("Not yet: ")


def test_the_reader_may_still_interrupt():
    def interrupted(*given):
        raise KeyboardInterrupt

    for name in ("attention/masked", "attention/tell_apart"):
        with pytest.raises(KeyboardInterrupt):
            check(name, interrupted)


GAPS = [
    ("attention/row", {"words": ["are", ...], "ratio": 4.11}),
    ("attention/row", {"words": ["are", None], "ratio": 4.11}),
    ("attention/row", {"words": {"are", ...}, "ratio": 4.11}),
    ("extended/walk", {"left": [1, ..., 2], "right": [1, 1, 4, 4]}),
    ("usage/greedy", ([0.5, ..., 0.1], [[1, 0, 0]] * 3)),
    ("usage/greedy", ([0.5, 0.4, 0.1], [[1, 0, 0], [None, 0, 0], [1, 0, 0]])),
    ("transformer/parameters", {"attention": np.array([1, 2]), "layer": ...}),
    ("taxonomy/exact", {"window": ["f", ...]}),
    ("attention/heads", lambda x, n_heads: [x, ...]),
    ("clustering/apart", lambda q, k, centroids: [0.0, ..., 1.0]),
]


@pytest.mark.parametrize(("name", "answer"), GAPS)
def test_an_answer_with_a_gap_anywhere_is_not_attempted(name, answer, capsys):
    check(name, answer)
    assert capsys.readouterr().out.startswith(f"Not attempted yet: {name}")


@pytest.mark.parametrize("name", NAMES)
def test_checks_leave_the_global_random_state_alone(name, capsys):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    check(name, ANSWERS[name].right[0])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_says_whether_its_inputs_are_drawn(name):
    """Of those that are not drawn, the hidden check sees the same again."""
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    with torch.random.fork_rng():  # some answers draw
        verdict = exercise(name).examine(ANSWERS[name].right[0], generator)
    assert verdict.state == "right"
    assert exercise(name).drawn != torch.equal(before, generator.get_state())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_to_its_exercise(name):
    assert exercise(name).name == name
    assert exercise(name).goal
    assert not exercise(name).goal.endswith(".")


def test_each_chapter_has_four_to_six_exercises():
    assert {chapter: 4 <= len(exercises(chapter)) <= 6 for chapter in CHAPTERS} == dict.fromkeys(
        CHAPTERS, True
    )


def test_unknown_names_are_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="attention has the exercises attention/row, "):
        check("attention/rwo", ...)
    with pytest.raises(ValueError, match="chapter must be one of attention"):
        check("atention/row", ...)


def test_a_mistake_is_named_only_when_it_explains_every_case():
    doubled = Mistake("doubled", lambda n: 2 * n)
    verdict = of_function(lambda n: 4 if n == 2 else 7, lambda n: n**3, [(2,), (3,)], [doubled])
    assert verdict.says == "for 2: yours is 4, wanted is 8"
    assert of_function(lambda n: n + n, lambda n: n**3, [(2,), (3,)], [doubled]).says == "doubled"


def test_marks_are_given_for_inputs_of_another_seed(capsys):
    """An answer that has learnt the seen inputs by heart is right there and nowhere else."""
    seen = []

    def by_heart(x, n_heads):
        if not seen_before(x):
            raise LookupError
        return torch.stack(x.chunk(n_heads, dim=-1), dim=1)

    def seen_before(x):
        return any(torch.equal(x, y) for y in seen if x.shape == y.shape)

    def learning(x, n_heads):
        seen.append(x.clone())
        return torch.stack(x.chunk(n_heads, dim=-1), dim=1)

    check("attention/heads", learning)
    check("attention/heads", by_heart)
    assert capsys.readouterr().out.count("Right: ") == 2
    with pytest.raises(AssertionError, match="raised LookupError"):
        grade("attention/heads", by_heart, 1)
