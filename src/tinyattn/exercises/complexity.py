"""Exercises to chapter 4: counted work, a crossover, bytes, parts of a softmax, blocks, slopes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.analysis import attention_cost, fit_exponent
from tinyattn.exercises.base import (
    ONE_MAXIMUM,
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
from tinyattn.exercises.certificates import made


def _macs(n_q: int, n_k: int, d_model: int, n_heads: int) -> int:
    return attention_cost(n_q, d_model, n_heads=n_heads, n_k=n_k).macs


def _count(answer: Any, generator: Generator) -> Verdict:
    def parts(queries: int = 2, keys: int = 2, core: int = 2) -> Callable:
        """So many projections of queries, projections of keys, and products of the core."""

        def count(n_q: int, n_k: int, d: int, n_heads: int) -> int:
            return (queries * n_q + keys * n_k) * d**2 + core * n_q * n_k * d

        return count

    mistakes = [
        Mistake("you count multiplications and additions; one multiply-accumulate is both",
                lambda *sizes: 2 * _macs(*sizes)),
        Mistake("keys and values are projected for n_k tokens, not for n_q", parts(4, 0)),
        Mistake("queries and outputs are projected for n_q tokens, not for n_k", parts(0, 4)),
        Mistake("the output has a projection too, for each query", parts(queries=1)),
        Mistake("the core has two products: scores, and weights times values", parts(core=1)),
        Mistake("that is the core alone; four projections surround it", parts(0, 0)),
        Mistake("those are the projections alone; the core is missing", parts(core=0)),
        Mistake("keys and values are two projections", parts(keys=1)),
        Mistake(
            "the heads share the width: n_heads times as many scores, each n_heads times cheaper",
            lambda n_q, n_k, d, h: parts(core=2 * h)(n_q, n_k, d, h),
        ),
        Mistake(
            "the heads share the width: their number changes nothing",
            lambda n_q, n_k, d, h: h * _macs(n_q, n_k, d, h),
        ),
    ]  # fmt: skip
    m = int(torch.randint(10, 90, (), generator=generator))
    cases = [(5, 7, 6, 2), (12, 3, 8, 4), (1, m, 16, 2)]
    return of_function(answer, _macs, cases, mistakes, tolerance=1e-9)


def _overtakes(d_model: int, d_ff: int) -> int:
    n = 1
    while 4 * n * d_model**2 + 2 * n**2 * d_model < 2 * n * d_model * d_ff:
        n += 1
    return n


def _crossover(answer: Any, generator: Generator) -> Verdict:
    mistakes = [
        Mistake("that is where the core alone costs as much; the projections belong to attention",
                lambda d, d_ff: d_ff),
        Mistake("that is right for d_ff = 4 * d_model only", lambda d, d_ff: 2 * d),
        Mistake("at the crossover both cost the same, and that counts: you are one too far",
                lambda d, d_ff: _overtakes(d, d_ff) + 1),
        Mistake("a text has at least one token: your length is not positive for a small d_ff",
                lambda d, d_ff: d_ff - 2 * d),
        Mistake("a text has at least one token", lambda d, d_ff: max(0, d_ff - 2 * d)),
        Mistake("the feed-forward layer has two matrices",
                lambda d, d_ff: max(1, math.ceil(d_ff / 2 - 2 * d))),
        Mistake("attention has four projections: query, key, value and output",
                lambda d, d_ff: max(1, math.ceil(d_ff - 1.5 * d))),
        Mistake("the core has two products", lambda d, d_ff: max(1, 2 * (d_ff - 2 * d))),
    ]  # fmt: skip
    random = torch.randint(3, 40, (6, 2), generator=generator).tolist()
    cases = [(8, 32), (8, 16), (8, 8), (7, 15), *((d, d + d_ff * 3) for d, d_ff in random)]
    return of_function(answer, _overtakes, cases, mistakes, tolerance=0.0)


def _bytes(answer: Any, generator: Generator) -> Verdict:
    """8 heads, 4,096 tokens, two bytes a number, 12 layers, 48 GiB."""
    wanted = {"one_layer": 256, "all_layers": 3072, "longest": 16_384}
    mistakes = {
        "one_layer": [
            Mistake("every head has a matrix of its own", 32),
            Mistake("half precision takes two bytes a number", 512),
            Mistake("half precision takes two bytes a number", 128),
            Mistake("a MiB has 1,024 * 1,024 bytes, not a million", 268.435456),
            Mistake("the answer is wanted in MiB", 2**28),
            Mistake("the weights of a head have n rows and n columns, not n and d_head", 4),
        ],
        "all_layers": [
            Mistake("training keeps the weights of every layer until its backward pass", 256),
            Mistake("only the weights are asked for, not the scores beside them", 6144),
            Mistake("the answer is wanted in MiB", 3),
        ],
        "longest": [
            Mistake("twice the tokens take four times the memory", 65_536),
            Mistake("sixteen times the memory is two doublings, not one", 8192),
            Mistake("sixteen times the memory is two doublings, not three", 32_768),
        ],
    }
    return of_parts(answer, wanted, mistakes, tolerance=2e-4)


def _merged(out_1: Tensor, log_1: Tensor, out_2: Tensor, log_2: Tensor) -> tuple[Tensor, Tensor]:
    both = torch.logaddexp(log_1, log_2)
    shares = ((one - both).exp()[:, None] for one in (log_1, log_2))
    return sum(s * out for s, out in zip(shares, (out_1, out_2), strict=True)), both


def _merge(answer: Any, generator: Generator) -> Verdict:
    def halves(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        return (o_1 + o_2) / 2, torch.logaddexp(l_1, l_2)

    def swapped(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        return _merged(o_2, l_1, o_1, l_2)

    def added(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        return _merged(o_1, l_1, o_2, l_2)[0], l_1 + l_2

    def larger(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        return _merged(o_1, l_1, o_2, l_2)[0], torch.maximum(l_1, l_2)

    def overflowing(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        w_1, w_2 = l_1.exp()[:, None], l_2.exp()[:, None]
        return (w_1 * o_1 + w_2 * o_2) / (w_1 + w_2), (w_1 + w_2)[:, 0].log()

    def overflowing_shares(
        o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor
    ) -> tuple[Tensor, Tensor]:
        out, _ = _merged(o_1, l_1, o_2, l_2)
        return out, (l_1.exp() + l_2.exp()).log()

    def no_share(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        return o_1 + o_2, torch.logaddexp(l_1, l_2)

    def one_maximum(o_1: Tensor, l_1: Tensor, o_2: Tensor, l_2: Tensor) -> tuple[Tensor, Tensor]:
        top = torch.maximum(l_1, l_2).max()
        out, both = overflowing(o_1, l_1 - top, o_2, l_2 - top)
        return out, both + top

    mistakes = [
        Mistake("both parts weigh the same; the one with the larger sum should weigh more", halves),
        Mistake("the weights are exchanged: each part has its own logarithm", swapped),
        Mistake("logarithms are added; the sums are to be added, then the logarithm", added),
        Mistake("the larger logarithm is not the logarithm of the sum", larger),
        Mistake(
            "exp of a large logarithm overflows: subtract before you exponentiate", overflowing
        ),
        Mistake("the merged logarithm overflows: use torch.logaddexp", overflowing_shares),
        Mistake(ONE_MAXIMUM, one_maximum),
        Mistake("the outputs are added; they are averages and must be averaged", no_share),
    ]
    cases = [_draw_parts(generator, *sizes) for sizes in ((4, 3, 5, 2), (3, 6, 2, 5))]
    empty = [*cases[0][:2], torch.zeros(4, 2), torch.full((4,), -math.inf)]
    large = [*cases[0][:1], cases[0][1] + 200, cases[0][2], cases[0][3] + 199]
    levels = torch.tensor([0.0, 200.0, -300.0, 0.0])
    apart = [cases[0][0], cases[0][1] + levels, cases[0][2], cases[0][3] + levels]
    return of_function(answer, _merged, [*cases, empty, large, apart], mistakes)


def _draw_parts(generator: Generator, n_q: int, n_1: int, n_2: int, d: int) -> list[Tensor]:
    """Attention over two parts of the keys: outputs and logarithms of sums of exponentials."""
    parts: list[Tensor] = []
    for n_k in (n_1, n_2):
        scores = torch.randn(n_q, n_k, generator=generator)
        values = torch.randn(n_k, d, generator=generator)
        parts += [scores.softmax(-1) @ values, scores.logsumexp(-1)]
    return parts


N, BLOCK = 32, 4  # tokens of the mask below, and the side of a block


def _blocks(answer: Any, generator: Generator) -> Verdict:
    answer = made(answer)
    if isinstance(answer, Verdict):
        return answer
    mask = as_numbers(answer)
    if mask is None or mask.shape != (N, N):
        return is_wrong(f"return a tensor of shape ({N}, {N}), got {kind(answer)}")
    if mask.dtype != torch.bool:
        return is_wrong(f"a mask holds True and False, yours is {mask.dtype}")
    answer = mask
    rows = answer.sum(1)
    if (rows != 2).any():
        bad = int((rows != 2).nonzero()[0])
        return is_wrong(f"every query reads two keys, but query {bad} reads {int(rows[bad])}")
    touched = answer.reshape(N // BLOCK, BLOCK, N // BLOCK, BLOCK).any(3).any(1)
    if not touched.all():
        row, column = (~touched).nonzero()[0].tolist()
        return is_wrong(
            f"your mask makes the engine compute {int(touched.sum())} of {touched.numel()} blocks; "
            f"block row {row} skips block column {column}"
        )
    return RIGHT


def _slope(lengths: Sequence[int], costs: Sequence[float]) -> float:
    return fit_exponent(list(lengths), list(costs)).exponent


def _fit(x: Tensor, y: Tensor) -> float:
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))


def _exponent(answer: Any, generator: Generator) -> Verdict:
    def on(x: Callable, y: Callable, turned: bool = False) -> Callable:
        def fit(lengths: Sequence[int], costs: Sequence[float]) -> float:
            points = x(torch.tensor(lengths).double()), y(torch.tensor(costs).double())
            return _fit(*(reversed(points) if turned else points))

        return fit

    def ends(lengths: Sequence[int], costs: Sequence[float]) -> float:
        return math.log(costs[-1] / costs[0]) / math.log(lengths[-1] / lengths[0])

    def origin(lengths: Sequence[int], costs: Sequence[float]) -> float:
        x, y = (torch.tensor(values).double().log() for values in (lengths, costs))
        return float((x @ y) / (x @ x))

    def same(values: Tensor) -> Tensor:
        return values

    log = torch.log
    mistakes = [
        Mistake("take logarithms of lengths and costs; this fits a straight line to the costs",
                on(same, same)),
        Mistake("take the logarithm of the lengths as well", on(same, log)),
        Mistake("take the logarithm of the costs as well", on(log, same)),
        Mistake("upside down: how log cost grows with log length is wanted", on(log, log, True)),
        Mistake("only the first and the last point count in yours; fit all of them", ends),
        Mistake(
            "your line goes through the origin: a constant factor of the cost shifts it upwards",
            origin,
        ),
    ]  # fmt: skip
    cases = []
    for power, lengths in ((2.0, [64, 128, 256, 1024]), (1.3, [10, 20, 50, 70, 200])):
        shifts = torch.rand(len(lengths), generator=generator).tolist()
        pairs = zip(lengths, shifts, strict=True)
        cases.append((lengths, [3.0 * n**power * (0.5 + shift) for n, shift in pairs]))
    return of_function(answer, _slope, cases, mistakes)


EXERCISES = (
    Exercise(
        name="complexity/count",
        title="Work, from the shapes alone",
        kind="implement",
        difficulty=1,
        minutes=12,
        points=3,
        goal="Count the multiply-accumulates of cross-attention",
        examine=_count,
        after="Set n_q = n_k = n and it becomes the chapter's 4 n d² + 2 n² d.",
    ),
    Exercise(
        name="complexity/crossover",
        title="Where attention overtakes",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Derive the length at which attention costs as much as any feed-forward layer",
        examine=_crossover,
        after="A thin feed-forward layer, d_ff up to 2 d + 1, is overtaken by the first token.",
    ),
    Exercise(
        name="complexity/bytes",
        title="The matrix in bytes",
        kind="predict",
        difficulty=1,
        minutes=8,
        points=3,
        goal="Estimate the memory of the weights, and the text that fits into a given memory",
        examine=_bytes,
        after="Four times the tokens need sixteen times the memory.",
        drawn=False,
    ),
    Exercise(
        name="complexity/merge",
        title="Two halves of a softmax",
        kind="implement",
        difficulty=3,
        minutes=25,
        points=5,
        goal="Merge attention over two sets of keys without seeing their scores again",
        examine=_merge,
        after="Fused attention is this function in a loop over blocks of keys.",
    ),
    Exercise(
        name="complexity/blocks",
        title="A sparse mask that saves nothing",
        kind="break",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Build a mask with few pairs that touches every block",
        examine=_blocks,
        after="One pair in sixteen is kept, and every block is computed: density is not speed.",
        drawn=False,
    ),
    Exercise(
        name="complexity/exponent",
        title="An exponent from measurements",
        kind="measure",
        difficulty=1,
        minutes=12,
        points=3,
        goal="Fit the growth of a cost from a handful of lengths",
        examine=_exponent,
        after="A constant factor moves the line up and leaves its slope alone.",
    ),
)
