"""Exercises to chapter 1: one row by hand, masks, heads, and inputs that tell mistakes apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.dense import attention
from tinyattn.exercises.base import Exercise, Mistake, Verdict, attempt, of_function, of_value
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned

SMALLEST_DIFFERENCE = 0.01  # that counts as telling two functions apart


def _row(answer: Any, generator: Generator) -> Verdict:
    given = answer.get("words") if isinstance(answer, dict) else None
    if isinstance(given, (list, tuple, set)) and all(isinstance(word, str) for word in given):
        answer = {**answer, "words": sorted(given)}
    words = ["are", "for"]
    return of_value(
        answer,
        {"words": words, "ratio": math.exp(math.sqrt(2))},
        [
            Mistake(
                "the ratio forgets to divide the products by √2 before the exponential",
                {"words": words, "ratio": math.exp(2)},
            ),
            Mistake(
                "the ratio is the difference of two scores; weights are exponentials of scores",
                {"words": words, "ratio": math.sqrt(2)},
            ),
            Mistake(
                "the ratio is upside down: the larger weight goes on top",
                {"words": words, "ratio": math.exp(-math.sqrt(2))},
            ),
            Mistake(
                "those are the words that win for the query (1, 0); this one is (0, 1)",
                {"words": ["Objects", "abstraction"], "ratio": math.exp(math.sqrt(2))},
            ),
        ],
        tolerance=0.01,
    )


def _no_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attention(q, k, v)


def _turned(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attention(q, k, v, ~mask)


def _unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attention(q, k, v, mask, scale=1.0)


def _by_d_head(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attention(q, k, v, mask, scale=1 / q.shape[-1])


def _by_n_keys(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attention(q, k, v, mask, scale=k.shape[-2] ** -0.5)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def _masked_late(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k).softmax(-1) * mask) @ v


def _masked_with_zero(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (_scores(q, k) * mask).softmax(-1) @ v


def _over_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return _scores(q, k).masked_fill(~mask, -math.inf).softmax(-2) @ v


def _blind_rows_nan(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return _scores(q, k).masked_fill(~mask, -math.inf).softmax(-1) @ v


def _blind_rows_mean(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return _scores(q, k).masked_fill(~mask, -1e9).softmax(-1) @ v


def _hard(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    best = _scores(q, k).masked_fill(~mask, -math.inf).argmax(-1, keepdim=True)
    return v.gather(-2, best.expand(*best.shape[:-1], v.shape[-1]))


ATTENTION_MISTAKES = [
    Mistake("the mask is not used: every query still reads every key", _no_mask),
    Mistake("the mask is read upside down: True means may read", _turned),
    Mistake("the scores are not divided by √d_head", _unscaled),
    Mistake("the scores are divided by d_head instead of its square root", _by_d_head),
    Mistake("the scores are divided by the root of the number of keys, not of d_head", _by_n_keys),
    Mistake("the mask comes after the softmax, so rows no longer sum to 1", _masked_late),
    Mistake("forbidden scores become 0, and exp(0) is 1: they must become -inf", _masked_with_zero),
    Mistake("the softmax runs over the queries; each query's weights must sum to 1", _over_queries),
    Mistake(
        "a query that may read nothing gets NaN, because every score of its row is -inf; "
        "it should get zeros",
        _blind_rows_nan,
    ),
    Mistake(
        "a query that may read nothing gets the mean of all values, forbidden ones included; "
        "it should get zeros",
        _blind_rows_mean,
    ),
    Mistake("only the best key is read; a softmax reads all in proportion", _hard),
]


def _draw_attention(generator: Generator, n_q: int, n_k: int) -> list[Tensor]:
    q = torch.randn(2, n_q, 5, generator=generator)
    k = torch.randn(2, n_k, 5, generator=generator)
    v = torch.randn(2, n_k, 3, generator=generator)
    mask = torch.rand(n_q, n_k, generator=generator) < 0.6
    mask[0, 0] = True
    mask[-1] = False  # a query that may read nothing
    mask[0, -1] = False
    return [q, k, v, mask]


def _masked(answer: Any, generator: Generator) -> Verdict:
    cases = [_draw_attention(generator, n_q, n_k) for n_q, n_k in ((3, 4), (6, 2), (2, 9))]
    return of_function(answer, attention, cases, ATTENTION_MISTAKES)


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _heads(answer: Any, generator: Generator) -> Verdict:
    def view(x: Tensor, n_heads: int) -> Tensor:
        b, n, d_model = x.shape
        return x.reshape(b, n_heads, n, d_model // n_heads)

    def interleaved(x: Tensor, n_heads: int) -> Tensor:
        return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)

    def not_moved(x: Tensor, n_heads: int) -> Tensor:
        return x.unflatten(-1, (n_heads, -1))

    def heads_first(x: Tensor, n_heads: int) -> Tensor:
        return _split(x, n_heads).transpose(0, 1)

    cases = [
        (torch.randn(b, n, d, generator=generator), h)
        for b, n, d, h in ((2, 3, 8, 4), (1, 5, 6, 2), (3, 4, 5, 1))
    ]
    mistakes = [
        Mistake(
            "one reshape puts pieces of different tokens into a head: split the last axis first, "
            "then move the head axis in front of the tokens",
            view,
        ),
        Mistake(
            "head 0 should hold the first d_head numbers of a token, yours takes every n_heads-th",
            interleaved,
        ),
        Mistake("the head axis still stands behind the tokens: swap axes 1 and 2", not_moved),
        Mistake("the head axis has changed places with the batch", heads_first),
    ]
    return of_function(answer, _split, cases, mistakes)


def _tell_apart(answer: Any, generator: Generator) -> Verdict:
    inputs = _inputs(answer)
    if isinstance(inputs, Verdict):
        return inputs
    right = attention(*inputs)
    missed = [m for m in ATTENTION_MISTAKES if _alike(m.answer, inputs, right)]
    if not missed:
        return Verdict("right", f"Your inputs expose all {len(ATTENTION_MISTAKES)} functions.")
    caught = len(ATTENTION_MISTAKES) - len(missed)
    return is_wrong(
        f"your inputs expose {caught} of {len(ATTENTION_MISTAKES)} wrong functions. One that they "
        f"let pass: {missed[0].says}"
    )


def _inputs(answer: Any) -> tuple[Tensor, ...] | Verdict:
    """q, k, v and mask that the answer returns, if attention can be computed with them."""
    inputs = returned(answer)
    if isinstance(inputs, Verdict):
        return inputs
    if not isinstance(inputs, (tuple, list)) or len(inputs) != 4:
        return is_wrong("return four tensors: q, k, v and mask")
    if not all(isinstance(one, Tensor) for one in inputs):
        return is_wrong("each of q, k, v and mask must be a tensor")
    inputs = tuple(one.detach() for one in inputs)
    right, error = attempt(attention, *inputs)
    if error is not None:
        return is_wrong(f"attention refuses your inputs: {error}")
    if inputs[3].shape != (inputs[0].shape[-2], inputs[1].shape[-2]):
        return is_wrong("give the mask one row for each query and one column for each key")
    if not all(one.isfinite().all() for one in (*inputs, right)):
        return is_wrong("q, k, v and what attention makes of them must be finite: no NaN, no inf")
    return inputs


def _alike(function: Callable, inputs: tuple[Tensor, ...], right: Tensor) -> bool:
    """Whether a wrong function passes for the right one; one that fails does not."""
    alike, error = attempt(
        lambda: bool(((function(*inputs) - right).abs() < SMALLEST_DIFFERENCE).all())
    )
    return error is None and alike


def _spread(answer: Any, generator: Generator) -> Verdict:
    """Measured by the answer, so compared with what theory says, within ten per cent."""
    mistakes = [
        Mistake("that is the variance; the spread is its square root", lambda d: float(d)),
        Mistake(
            "your spread is 1 for every d_head: products were not summed over the last axis, or were "
            "divided by √d_head",
            lambda d: 1.0,
        ),
        Mistake(
            "your numbers lie between -1 and 1, evenly; their variance is 1/3, that of torch.randn 1",
            lambda d: math.sqrt(d) / 3,
        ),
        Mistake(
            "torch.rand draws from 0 to 1, which is not centred: use torch.randn",
            lambda d: math.sqrt(d * 7 / 144),
        ),
    ]
    sizes = [(d,) for d in (4, 64)]
    sizes.append((int(torch.randint(90, 200, (), generator=generator)),))
    return of_function(answer, lambda d: math.sqrt(d), sizes, mistakes, tolerance=0.1)


EXERCISES = (
    Exercise(
        name="attention/row",
        title="Another question to the same keys",
        kind="predict",
        difficulty=1,
        minutes=5,
        points=2,
        goal="Work out a row of weights from keys and a query",
        examine=_row,
        after="Only differences of scores matter: the ratio of two weights is exp of theirs.",
        drawn=False,
    ),
    Exercise(
        name="attention/masked",
        title="Attention that can be told where not to look",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=5,
        goal="Apply a mask before the softmax, and survive a row without any key",
        examine=_masked,
        after="It agrees with `attention` for batches, masks and a query that may read nothing.",
    ),
    Exercise(
        name="attention/heads",
        title="Cut a token into heads",
        kind="implement",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Split the model's width into heads without mixing tokens",
        examine=_heads,
        after="Each head holds a slice of every token, and no number has changed its token.",
    ),
    Exercise(
        name="attention/tell_apart",
        title="Inputs that nothing wrong survives",
        kind="break",
        difficulty=3,
        minutes=20,
        points=5,
        goal="Choose test inputs that separate right attention from plausible mistakes",
        examine=_tell_apart,
        drawn=False,
    ),
    Exercise(
        name="attention/spread",
        title="How far products spread",
        kind="measure",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Measure why scores are divided by √d_head",
        examine=_spread,
        after="The spread grows like √d_head: dividing by it keeps the softmax out of saturation.",
    ),
)
