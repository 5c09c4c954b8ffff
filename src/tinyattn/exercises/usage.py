"""Exercises to chapter 3: the cache and its mask, bits per token, sampling, and greedy choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.dense import attention
from tinyattn.exercises.base import (
    OPEN,
    RIGHT,
    Exercise,
    Mistake,
    Verdict,
    as_numbers,
    has_gap,
    of_function,
    of_parts,
)
from tinyattn.exercises.base import wrong as is_wrong


def _passes(answer: Any, generator: Generator) -> Verdict:
    """A prompt of 10 tokens, 5 new ones, 2 layers of width 64."""
    wanted = {"with_cache": 14, "without": 60, "numbers": 3584}
    last = "nothing reads on after the last new token, so it never passes through the layers"
    mistakes = {
        "with_cache": [
            Mistake(last, 15),
            Mistake("the prompt has to pass as well, once", 4),
            Mistake("the prompt has to pass as well, once", 5),
        ],
        "without": [
            Mistake(last, 75),
            Mistake("the first step passes the whole prompt: begin the sum at 10", 105),
            Mistake("a step without a cache passes all tokens so far, not only the prompt", 50),
            Mistake("each step is one token longer than the one before", 70),
        ],
        "numbers": [
            Mistake("each of the two layers keeps a key and a value for every token", 1792),
            Mistake("both layers keep both keys and values: four vectors a token", 896),
            Mistake("the last new token was never read, so it is not in the cache", 3840),
            Mistake("that is the prompt alone; new tokens that are read join the cache", 2560),
        ],
    }
    return of_parts(answer, wanted, mistakes)


def _last_queries(n_q: int, n_k: int) -> Tensor:
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)


def _causal(answer: Any, generator: Generator) -> Verdict:
    def tril(shift: int) -> Callable:
        return lambda n_q, n_k: torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q + shift)

    mistakes = [
        Mistake(
            "the mask is aligned at the top left, as if the queries were the first tokens; they are "
            "the last n_q of n_k",
            lambda n_q, n_k: torch.ones(n_q, n_k, dtype=torch.bool).tril(),
        ),
        Mistake("a query may read itself, yours stops one key short", tril(-1)),
        Mistake("your queries see one key of the future", tril(1)),
        Mistake("True means may read; your mask says what is forbidden",
                lambda n_q, n_k: ~_last_queries(n_q, n_k)),
        Mistake("your mask reads the future: it is turned over",
                lambda n_q, n_k: torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q)),
        Mistake("the new tokens read each other freely; the later ones are their future",
                lambda n_q, n_k: torch.ones(n_q, n_k, dtype=torch.bool)),
    ]  # fmt: skip
    n_k = int(torch.randint(8, 14, (), generator=generator))
    return of_function(answer, _last_queries, [(3, 7), (1, 5), (4, 4), (5, n_k)], mistakes)


def _bits_of(logits: Tensor, tokens: Tensor, real: Tensor, shift: int = 1) -> Tensor:
    """Bits for each question that may be asked, flat: the logits at t answer token t + shift."""
    n = tokens.shape[1]
    asked = slice(max(0, -shift), n - max(0, shift))
    said = slice(max(0, shift), n + min(0, shift))
    log_p = logits.log_softmax(-1)[:, asked]
    bits = -log_p.gather(-1, tokens[:, said, None])[..., 0] / math.log(2)
    return bits[real[:, said]]


def _bits_per_token(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
    return _bits_of(logits, tokens, real).mean()


def _bits(answer: Any, generator: Generator) -> Verdict:
    def over_positions(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)[:, :-1]
        return -log_p.gather(-1, tokens[:, 1:, None])[..., 0][real[:, 1:]].mean() / math.log(2)

    def of_texts(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        texts = zip(logits, tokens, real, strict=True)
        return torch.stack([_bits_per_token(*(x[None] for x in text)) for text in texts]).mean()

    def padded(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        return _bits_per_token(logits, tokens, torch.ones_like(real))

    def padded_zeros(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        return _bits_of(logits, tokens, real).sum() / real[:, 1:].numel()

    def count_first(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        return _bits_of(logits, tokens, real).sum() / real.sum()

    def mean_of_p(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        return -torch.log2((2 ** -_bits_of(logits, tokens, real)).mean())

    mistakes = [
        Mistake(
            "no shift: the model is asked for the token that it is just reading",
            lambda *inputs: _bits_of(*inputs, shift=0).mean(),
        ),
        Mistake(
            "the shift goes the wrong way: position t must say token t + 1",
            lambda *inputs: _bits_of(*inputs, shift=-1).mean(),
        ),
        Mistake(
            "these are nats; a bit is log 2 nats",
            lambda *inputs: _bits_per_token(*inputs) * math.log(2),
        ),
        Mistake("padding is asked for, too; only real tokens are questions", padded),
        Mistake("padding counts as questions answered for nothing: divide by real ones",
                padded_zeros),
        Mistake("the first token of a text is never asked for: n tokens have n - 1 questions", count_first),
        Mistake("a mean over texts of their means weighs short texts too much", of_texts),
        Mistake("the softmax runs over the positions; it should run over the vocabulary",
                over_positions),
        Mistake("that is the sum; divide it by the number of questions",
                lambda *inputs: _bits_of(*inputs).sum()),
        Mistake("take logarithms first, then the mean", mean_of_p),
        Mistake("surprise is minus the logarithm", lambda *inputs: -_bits_per_token(*inputs)),
    ]  # fmt: skip
    return of_function(
        answer,
        _bits_per_token,
        [_draw_texts(generator, *sizes) for sizes in ((3, 6, 5), (2, 4, 7), (4, 9, 4))],
        mistakes,
    )


def _draw_texts(generator: Generator, b: int, n: int, vocab_size: int) -> list[Tensor]:
    logits = 2 * torch.randn(b, n, vocab_size, generator=generator)
    tokens = torch.randint(vocab_size, (b, n), generator=generator)
    lengths = torch.randint(2, n, (b,), generator=generator)
    lengths[0] = n
    lengths[1] = 2
    return [logits, tokens, torch.arange(n) < lengths[:, None]]


def _with_cache(
    new: Tensor,
    k_old: Tensor,
    v_old: Tensor,
    table: Tensor,
    maps: tuple[Tensor, ...],
    *,
    start: Callable = len,
    mask: Callable = _last_queries,
    join: Callable = lambda old, new: torch.cat([old, new]),
    keep: Callable = lambda old, joined: joined,
) -> tuple[Tensor, Tensor, Tensor]:
    first = start(k_old)
    x = new + table[first : first + len(new)]
    q, k_new, v_new = (x @ one for one in maps)
    k, v = join(k_old, k_new), join(v_old, v_new)
    out = attention(q, k, v, mask(len(q), len(k)))
    return out, keep(k_old, k), keep(v_old, v)


def _cached(answer: Any, generator: Generator) -> Verdict:
    def variant(**changes: Callable) -> Callable:
        return lambda *inputs: _with_cache(*inputs, **changes)

    def unscaled(
        new: Tensor, k_old: Tensor, v_old: Tensor, table: Tensor, maps: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, k, v = _with_cache(new, k_old, v_old, table, maps)
        q = (new + table[len(k_old) : len(k)]) @ maps[0]
        return attention(q, k, v, _last_queries(len(q), len(k)), scale=1.0), k, v

    def top_left(n_q: int, n_k: int) -> Tensor:
        return torch.ones(n_q, n_k, dtype=torch.bool).tril()

    def everything(n_q: int, n_k: int) -> Tensor:
        return torch.ones(n_q, n_k, dtype=torch.bool)

    mistakes = [
        Mistake(
            "the positions start at 0 again; the first new token stands at len(k_old)",
            variant(start=lambda old: 0),
        ),
        Mistake(
            "the positions are one too small: the first new token stands at len(k_old)",
            variant(start=lambda old: max(0, len(old) - 1)),
        ),
        Mistake(
            "the causal mask is aligned at the top left: new tokens do not read the cache to its "
            "end",
            variant(mask=top_left),
        ),
        Mistake("new tokens read their future: they need a mask too", variant(mask=everything)),
        Mistake("the new keys stand before the old ones", variant(join=lambda a, b: torch.cat([b, a]))),
        Mistake("the cache is not read: new tokens see each other only",
                variant(join=lambda old, new: new)),
        Mistake("the cache has not grown: return old and new keys and values",
                variant(keep=lambda old, joined: old)),
        Mistake("only the new keys and values are returned; the old ones are lost",
                variant(keep=lambda old, joined: joined[len(old) :])),
        Mistake("the scores are not divided by √d_head", unscaled),
    ]  # fmt: skip
    cases = []
    for n_old, n_new, d in ((4, 3, 5), (6, 1, 3), (0, 4, 4), (2, 5, 6)):
        new, *maps = (
            torch.randn(rows, d, generator=generator) / (1 if rows == n_new else d**0.5)
            for rows in (n_new, d, d, d)
        )
        k_old, v_old, table = (
            torch.randn(rows, d, generator=generator) for rows in (n_old, n_old, 12)
        )
        cases.append((new, k_old, v_old, table, tuple(maps)))
    return of_function(answer, _with_cache, cases, mistakes)


def _pick(p: Tensor, u: Tensor) -> Tensor:
    """The first index at which the running sum of a row of p exceeds its u."""
    return (p.cumsum(-1) <= u[:, None]).sum(-1)


def _sampled(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
    return _pick((logits / temperature).softmax(-1), u)


def _sample(answer: Any, generator: Generator) -> Verdict:
    def after(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
        return _pick(logits.softmax(-1) / temperature, u).clamp(max=logits.shape[1] - 1)

    def descending(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
        p, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
        return order.gather(-1, _pick(p, u)[:, None])[:, 0]

    mistakes = [
        Mistake("you multiply by the temperature; a low one should sharpen",
                lambda logits, t, u: _sampled(logits, 1 / t, u)),
        Mistake("the temperature is not used", lambda logits, t, u: _sampled(logits, 1.0, u)),
        Mistake("that is the likeliest token each time; u should decide",
                lambda logits, t, u: logits.argmax(-1)),
        Mistake("the temperature divides the logits, before the softmax", after),
        Mistake("the index is one too large: the first sum above u, counted from 0",
                lambda *inputs: _sampled(*inputs) + 1),
        Mistake("the index is one too small: the first sum above u, not the last below it",
                lambda *inputs: _sampled(*inputs) - 1),
        Mistake("the running sum follows the vocabulary's order, not that of the probabilities",
                descending),
    ]  # fmt: skip
    cases = []
    for n, vocab_size, temperature in ((60, 7, 0.5), (80, 5, 1.0), (70, 9, 2.5)):
        logits = 2 * torch.randn(n, vocab_size, generator=generator)
        cases.append((logits, temperature, _far_from_edges(logits / temperature, generator)))
    return of_function(answer, _sampled, cases, mistakes)


def _far_from_edges(logits: Tensor, generator: Generator) -> Tensor:
    """A u for each row such that rounding cannot change what is chosen."""
    u = torch.rand(len(logits), generator=generator)
    edges = logits.softmax(-1).cumsum(-1)
    near = ((edges - u[:, None]).abs() < 1e-4).any(-1)
    return torch.where(near, edges[:, 0] / 2, u)


FACTOR = 2.5  # by which the greedy pair must be less probable than the best


def _greedy(answer: Any, generator: Generator) -> Verdict:
    model = _two_steps(answer)
    if isinstance(model, Verdict):
        return model
    first, then = model
    pairs = first[:, None] * then
    if (first == first.max()).sum() > 1:
        return is_wrong("two first characters are equally likely; greedy needs a single best one")
    start = int(first.argmax())
    if int(pairs.max(1).values.argmax()) == start:
        return is_wrong("the likeliest pair starts with the likeliest character: greedy finds it")
    factor = float(pairs.max() / pairs[start].max())
    if factor < FACTOR:
        return is_wrong(
            f"the likeliest pair is {factor:.2f} times as probable as the greedy one; "
            f"{FACTOR} times is wanted"
        )
    return RIGHT


def _two_steps(answer: Any) -> tuple[Tensor, Tensor] | Verdict:
    """The two tables of probabilities, or what is wrong with them."""
    if has_gap(answer, blank=True):
        return OPEN
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return is_wrong("give two tables: first and then")
    tables = [as_numbers(part) for part in answer]
    if any(table is None or table.dtype == torch.bool for table in tables):
        return is_wrong("the tables must hold numbers, three in each row")
    first, then = (table.double() for table in tables)
    if first.shape != (3,) or then.shape != (3, 3):
        return is_wrong("there are three characters: first has 3 entries, then has 3 rows of 3")
    if not (first.isfinite().all() and then.isfinite().all()):
        return is_wrong(
            "a probability is not a finite number; a row of zeros has no sum to divide by"
        )
    if min(first.min(), then.min()) < 0:
        return is_wrong("a probability is negative")
    if (first.sum() - 1).abs() > 1e-6 or (then.sum(1) - 1).abs().max() > 1e-6:
        return is_wrong("first, and each row of then, must sum to 1")
    return first, then


EXERCISES = (
    Exercise(
        name="usage/passes",
        title="What the cache saves, and what it holds",
        kind="predict",
        difficulty=1,
        minutes=8,
        points=3,
        goal="Count token passes with and without a cache, and the numbers that it keeps",
        examine=_passes,
        after="With a cache, token passes grow as the text's length does; without one, as its square.",
        drawn=False,
    ),
    Exercise(
        name="usage/causal",
        title="Causal, for the last few",
        kind="implement",
        difficulty=1,
        minutes=8,
        points=3,
        goal="Align a causal mask when there are more keys than queries",
        examine=_causal,
        after="The lower right corner is the last token reading itself, whatever the sizes.",
    ),
    Exercise(
        name="usage/cached",
        title="A step with a memory",
        kind="implement",
        difficulty=3,
        minutes=30,
        points=5,
        goal="Attend from new tokens to a cache and to each other, at the right positions",
        examine=_cached,
        after="One token or a whole prompt, an empty cache or a full one: the same function.",
    ),
    Exercise(
        name="usage/bits",
        title="Bits per token",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Score a batch of padded texts with the labels shifted by one",
        examine=_bits,
        after="Every question counts once, whichever text it stands in.",
    ),
    Exercise(
        name="usage/sample",
        title="Hot and cold dice",
        kind="implement",
        difficulty=1,
        minutes=12,
        points=3,
        goal="Sample from logits at a temperature, given the dice",
        examine=_sample,
        after="The temperature changes how much room a token has, and never the order of the logits.",
    ),
    Exercise(
        name="usage/greedy",
        title="The likeliest first step is a trap",
        kind="break",
        difficulty=2,
        minutes=12,
        points=4,
        goal="Build a model on which greedy decoding loses by a wanted factor",
        examine=_greedy,
        after="With three characters the factor stays below 3; with more it grows without bound.",
        drawn=False,
    ),
)
