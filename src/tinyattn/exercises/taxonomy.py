"""Exercises to chapter 6: linear attention, shared heads, costs, and what matrices give away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.analysis import CountBytes
from tinyattn.dense import attention, attention_weights
from tinyattn.exercises.base import (
    RIGHT,
    Exercise,
    Mistake,
    Verdict,
    as_numbers,
    kind,
    of_function,
    of_parts,
)
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import made, returned
from tinyattn.families import (
    compressed_attention,
    elu_features,
    gaussian_prior,
    linear_attention,
    linear_attention_weights,
    nystrom_attention,
    prior_attention,
)

LONG = 512  # tokens: a matrix of pairs is a thousand times as large as their state


def _linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return linear_attention(q[None, None], k[None, None], v[None, None], causal=True)[0, 0]


def _with_features(
    of_q: Callable = elu_features,
    of_k: Callable = elu_features,
    cut: Callable = torch.tril,
    total: Callable = lambda raw: raw.sum(-1, keepdim=True),
) -> Callable:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raw = cut(of_q(q) @ of_k(k).T)
        return raw @ v / total(raw)

    return answer


def _recurrent(answer: Any, generator: Generator) -> Verdict:
    def same(x: Tensor) -> Tensor:
        return x

    def everything(raw: Tensor) -> Tensor:
        return raw

    def total_of_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raw = elu_features(q) @ elu_features(k).T
        return raw.tril() @ v / raw.sum(-1, keepdim=True)

    elu = torch.nn.functional.elu
    mistakes = [
        Mistake("phi is not applied: use elu(x) + 1", _with_features(same, same)),
        Mistake("phi is elu(x) + 1, positive everywhere; the + 1 is missing",
                _with_features(elu, elu)),
        Mistake("phi is applied to the keys only; queries need it too", _with_features(of_q=same)),
        Mistake("phi is applied to the queries only; keys need it too", _with_features(of_k=same)),
        Mistake("the result is not divided by the sum of its weights",
                _with_features(total=lambda raw: 1.0)),
        Mistake("a token should read itself: add its key before you answer its query",
                _with_features(cut=lambda raw: raw.tril(-1))),
        Mistake("your tokens read their future: the sums should run", _with_features(cut=everything)),
        Mistake("the divisor sums over all keys; it should run along with the sum above it",
                total_of_all),
        Mistake(
            "that is softmax attention; here phi(q) · phi(k) stands in place of the exponential",
            lambda q, k, v: attention(q, k, v, torch.ones(len(q), len(q), dtype=torch.bool).tril()),
        ),
    ]  # fmt: skip
    cases = [
        tuple(torch.randn(n, size, generator=generator) for size in (d, d, d_v))
        for n, d, d_v in ((5, 4, 3), (1, 3, 2), (9, 2, 5))
    ]
    verdict = of_function(answer, _linear, cases, mistakes)
    return _without_pairs(answer, generator) if verdict.state == "right" else verdict


def _without_pairs(answer: Callable, generator: Generator) -> Verdict:
    """Whether a right answer makes less than a byte for each pair of many tokens."""
    q, k, v = torch.randn(3, LONG, 2, generator=generator)
    with CountBytes() as counted:
        out = returned(answer, q, k, v)
    if isinstance(out, Verdict):
        return out
    if counted.peak < LONG**2:
        return RIGHT
    return is_wrong(
        f"the numbers are right, but for {LONG} tokens your function holds {counted.peak:,} bytes: "
        "that is a matrix of all pairs, and a state of d (d_v + 1) numbers is enough"
    )


def _shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    n_shared = len(q) // len(k)
    return attention(q, k.repeat_interleave(n_shared, 0), v.repeat_interleave(n_shared, 0))


def _grouped(answer: Any, generator: Generator) -> Verdict:
    def heads(of_k: Callable, of_v: Callable | None = None) -> Callable:
        def answer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            n_shared = len(q) // len(k)
            return attention(q, of_k(k, n_shared), (of_v or of_k)(v, n_shared))

        return answer

    def spread(x: Tensor, times: int) -> Tensor:
        return x.repeat_interleave(times, 0)

    def tiled(x: Tensor, times: int) -> Tensor:
        return x.repeat(times, 1, 1)

    mistakes = [
        Mistake(
            "the shared heads take turns; head 0 and its neighbours read the first one: "
            "repeat_interleave, not repeat",
            heads(tiled),
        ),
        Mistake("keys and values are spread in different orders: keys take turns", heads(tiled, spread)),
        Mistake("keys and values are spread in different orders: values take turns", heads(spread, tiled)),
        Mistake("every head reads the first shared head",
                heads(lambda x, times: x[:1].expand(len(x) * times, -1, -1))),
        Mistake("every head reads the mean of all shared heads",
                heads(lambda x, times: x.mean(0, keepdim=True).expand(len(x) * times, -1, -1))),
        Mistake(
            "the scores are not divided by √d_head",
            lambda q, k, v: _shared(q * q.shape[-1] ** 0.5, k, v),
        ),
        Mistake("the groups of queries are averaged: every query head keeps its own output",
                lambda q, k, v: _shared(q, k, v).unflatten(0, (len(k), -1)).mean(1)),
    ]  # fmt: skip
    cases = []
    for n_heads, n_shared, n, d in ((6, 2, 4, 3), (4, 4, 3, 2), (4, 1, 5, 3), (12, 3, 2, 5)):
        sizes = (n_heads, n, d), (n_shared, n + 1, d), (n_shared, n + 1, 2)
        cases.append([torch.randn(size, generator=generator) for size in sizes])
    return of_function(answer, _shared, cases, mistakes)


def _exact(answer: Any, generator: Generator) -> Verdict:
    """Which condition makes which family equal to softmax attention."""
    wanted = {"window": "f", "linear": "a", "linformer": "b", "nystrom": "c", "prior": "d",
              "grouped": "e"}  # fmt: skip
    mistakes = {
        "window": [
            Mistake("a slot or a landmark for every token does not widen a window", "b"),
            Mistake("with w = n / 2 the first query does not reach the last key", "g"),
        ],
        "linear": [
            Mistake("a product of features is not an exponential, whatever the queries are", "h"),
            Mistake("linear attention has no landmarks", "c"),
        ],
        "linformer": [
            Mistake(
                "slots are mixtures of keys, landmarks are means of tokens: that is Nyström's", "c"
            ),
            Mistake("n slots are needed: half as many keep at most half the rank", "g"),
        ],
        "nystrom": [
            Mistake("it has no mixtures E and F; its landmarks must be all tokens", "b"),
            Mistake(
                "with a pseudoinverse that is exact too, but linear attention has no other case",
                "a",
            ),
        ],
        "prior": [
            Mistake("equal keys leave nothing but the prior, which is not flat", "a"),
        ],
        "grouped": [
            Mistake("equal keys within a head do not make two heads equal", "a"),
        ],
    }
    if isinstance(answer, dict):
        lower = {
            key: value.strip().lower() for key, value in answer.items() if isinstance(value, str)
        }
        answer = {**answer, **lower}
    return of_parts(answer, wanted, mistakes)


def _first(cheaper: Callable[[int], bool]) -> int:
    n = 1
    while not cheaper(n):
        n += 1
    return n


def _lengths(m: int, d: int) -> list[int]:
    return [
        _first(lambda n: 4 * m * n * d < 2 * n * n * d),
        _first(lambda n: 2 * n * d * (d + 1) < 2 * n * n * d),
        _first(lambda n: 2 * m * d + n * m < n * n),
    ]


def _costs(answer: Any, generator: Generator) -> Verdict:
    def other(place: int, length: Callable[[int, int], int]) -> Callable:
        """The right lengths but for one."""

        def lengths(m: int, d: int) -> list[int]:
            found = _lengths(m, d)
            found[place] = length(m, d)
            return found

        return lengths

    mistakes = [
        Mistake("the first forgets what it costs to mix n keys and n values into m slots",
                other(0, lambda m, d: m + 1)),
        Mistake("at your first length both cost the same; fewer products are wanted",
                other(0, lambda m, d: 2 * m)),
        Mistake("the second forgets the divisor phi(q) · u: d + 1 columns, not d",
                other(1, lambda m, d: d + 1)),
        Mistake("the second treats d_head² as d_head: the state is a matrix",
                other(1, lambda m, d: 3)),
        Mistake("the third forgets the compressed keys and values, 2 m d numbers",
                other(2, lambda m, d: m + 1)),
        Mistake("the third counts the compressed keys only, not the values",
                other(2, lambda m, d: _first(lambda n: m * d + n * m < n * n))),
        Mistake("the third is rounded; the first whole length above the root is wanted",
                other(2, lambda m, d: round((m + math.sqrt(m * m + 8 * m * d)) / 2))),
        Mistake("the third must be the first whole length strictly above the root",
                other(2, lambda m, d: math.ceil((m + math.sqrt(m * m + 8 * m * d)) / 2))),
    ]  # fmt: skip
    random = torch.randint(2, 40, (6, 2), generator=generator).tolist()
    cases = [(4, 4), (1, 1), (1, 3), (2, 6), *((m, d) for m, d in random)]
    return of_function(answer, _lengths, cases, mistakes, tolerance=0.0)


def _traits(attend: Callable, n: int) -> list:
    """Rows sum to 1, some entry is negative, no entry above the diagonal, rank."""
    a = attend(torch.eye(n, dtype=torch.float64))
    one = torch.ones(n, dtype=torch.float64)
    return [
        bool(torch.allclose(a.sum(1), one)),
        bool((a < -1e-9).any()),
        bool((a.triu(1).abs() < 1e-9).all()),
        int(torch.linalg.matrix_rank(a, rtol=1e-9)),
    ]


def _boxes(generator: Generator) -> list[tuple[Callable, int]]:
    """Attentions as functions of the values alone, each with its number of tokens."""
    n = 8
    q, k = 1.2 * torch.randn(2, 1, 1, n, 4, generator=generator, dtype=torch.float64)

    def box(name: str, attend: Callable) -> tuple[Callable, int]:
        a = attend(torch.eye(n, dtype=q.dtype)[None, None])[0, 0]

        def attention_box(v: Tensor) -> Tensor:
            return a @ v

        attention_box.__name__ = name
        return attention_box, n

    segments = torch.eye(2, dtype=q.dtype).repeat_interleave(4, dim=1) / 4
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    bell = gaussian_prior(n, spread=1.5).to(q)
    half = linear_attention_weights(q, k, causal=True) / 2
    ahead = attention_weights(q, k, causal.T & torch.ones_like(causal).tril(1))
    return [
        box("causal softmax", lambda v: attention(q, k, v, causal)),
        box("two slots", lambda v: compressed_attention(q, k, v, segments, segments)),
        box("four landmarks", lambda v: nystrom_attention(q, k, v, n_landmarks=4)),
        box("half of linear attention", lambda v: half @ v),
        box("one step ahead", lambda v: ahead @ v),
        box("a bell curve", lambda v: prior_attention(v, bell)),
        box("two features", lambda v: linear_attention(q[..., :2], k[..., :2], v)),
    ]


def _look(answer: Any, generator: Generator) -> Verdict:
    def other(place: int, trait: Callable[[Tensor, int], Any]) -> Callable:
        def traits(attend: Callable, n: int) -> list:
            found = _traits(attend, n)
            found[place] = trait(attend(torch.eye(n, dtype=torch.float64)), n)
            return found

        return traits

    one = torch.ones((), dtype=torch.float64)
    mistakes = [
        Mistake("you sum over the queries; the weights of one query, a row, sum to 1",
                other(0, lambda a, n: bool(torch.allclose(a.sum(0), one.expand(n))))),
        Mistake("a zero is not negative", other(1, lambda a, n: bool((a <= 0).any()))),
        Mistake("a causal token may read itself: look above the diagonal only",
                other(2, lambda a, n: bool((a.triu() == 0).all()))),
        Mistake("you look below the diagonal, at the past; the future stands above it",
                other(2, lambda a, n: bool((a.tril(-1).abs() < 1e-9).all()))),
        Mistake("your rank is the number of tokens: count singular values that are not 0",
                other(3, lambda a, n: n)),
        Mistake("your rank counts every singular value above 0; rounding leaves some at 1e-17",
                other(3, lambda a, n: int((torch.linalg.svdvals(a) > 0).sum()))),
    ]  # fmt: skip
    return of_function(answer, _traits, _boxes(generator), mistakes)


SHARP, SOFT = 0.99, 0.3  # of the first key's weight: at least, and at most


def _needle(answer: Any, generator: Generator) -> Verdict:
    answer = made(answer)
    if isinstance(answer, Verdict):
        return answer
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return is_wrong("return two tensors: one query (d,) and the keys (n, d)")
    parts = [as_numbers(part) for part in answer]
    for part, given in zip(parts, answer, strict=True):
        if part is None:
            return is_wrong(f"the query and the keys must hold real numbers, got {kind(given)}")
    q, k = (part.double() for part in parts)
    if q.dim() != 1 or k.dim() != 2 or k.shape[1:] != q.shape:
        return is_wrong(f"the query must be (d,) and the keys (n, d), got {_sizes(q)}, {_sizes(k)}")
    if not k.numel():
        return is_wrong("give one key or more, of one number or more: key 0 is to be found")
    if not (q.isfinite().all() and k.isfinite().all()):
        return is_wrong("the query and the keys must be finite: no NaN, no inf")
    scores = k @ q / math.sqrt(len(q))
    features = elu_features(k) @ elu_features(q)
    sharp, soft = float(scores.softmax(0)[0]), float(features[0] / features.sum())
    if not sharp >= SHARP:
        return is_wrong(f"softmax gives key 0 the weight {sharp:.2f}, {SHARP} is wanted")
    if not soft <= SOFT:
        return is_wrong(f"linear attention gives key 0 {soft:.2f}, at most {SOFT} is wanted")
    return RIGHT


def _sizes(x: Tensor) -> str:
    return str(tuple(x.shape))


EXERCISES = (
    Exercise(
        name="taxonomy/recurrent",
        title="Attention with a state",
        kind="implement",
        difficulty=2,
        minutes=20,
        points=5,
        goal="Compute causal linear attention without a matrix of pairs",
        examine=_recurrent,
        after="Parallel as a matrix, recurrent as a state: one function, two costs.",
    ),
    Exercise(
        name="taxonomy/grouped",
        title="Heads that share",
        kind="implement",
        difficulty=1,
        minutes=12,
        points=3,
        goal="Let groups of query heads read one head of keys and values",
        examine=_grouped,
        after="With one group it is multi-query attention, with as many as heads the usual one.",
    ),
    Exercise(
        name="taxonomy/exact",
        title="When is it the same?",
        kind="predict",
        difficulty=1,
        minutes=8,
        points=3,
        goal="Name the case in which each family equals softmax attention",
        examine=_exact,
        after="Such a case is the first test to write for any approximation.",
        drawn=False,
    ),
    Exercise(
        name="taxonomy/costs",
        title="From which length on does it pay?",
        kind="prove",
        difficulty=2,
        minutes=20,
        points=5,
        goal="Derive from which length two families need less than exact attention",
        examine=_costs,
        after="Below those lengths the cheap method saves nothing.",
    ),
    Exercise(
        name="taxonomy/look",
        title="What a matrix gives away",
        kind="measure",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Recover the matrix of a black box and read four properties off it",
        examine=_look,
        after="Seven boxes gave five different lists, and nobody had to open one.",
    ),
    Exercise(
        name="taxonomy/needle",
        title="Sharp for one, blurred for the other",
        kind="break",
        difficulty=3,
        minutes=15,
        points=5,
        goal="Find keys that softmax tells apart and linear attention does not",
        examine=_needle,
        after="Longer queries sharpen a softmax ever further; linear attention soon reaches a limit.",
        drawn=False,
    ),
)
