"""Exercises to chapter 7: the atoms as masks, their counts, and how far a signal travels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.analysis import receptive_field
from tinyattn.exercises.base import Exercise, Mistake, Verdict, of_function
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned, whole_list
from tinyattn.patterns import Causal, Dilated, Full, Global


def _draw(generator: Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(torch.randint(low, high + 1, (), generator=generator))


def _offsets(n: int) -> tuple[Tensor, Tensor, Tensor]:
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return i, j, j - i


def _band(n: int, far: int, step: int, causal: bool) -> Tensor:
    """Keys at most `far` positions away, a multiple of `step` from the query."""
    i, j, offset = _offsets(n)
    mask = (offset.abs() <= far) & (offset % step == 0)
    return mask & (j <= i) if causal else mask


def _right_dilated(n: int, w: int, dilation: int, causal: bool) -> Tensor:
    return (Dilated(w, dilation) & (Causal() if causal else Full())).mask(n)


def _wrapped(n: int, w: int, dilation: int, causal: bool) -> Tensor:
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i, m in product(range(n), range(-w, 1 if causal else w + 1)):
        if i + m * dilation < n:
            mask[i, i + m * dilation if i + m * dilation >= -n else 0] = True
    return mask


DILATED_MISTAKES = [
    Mistake(
        "your window counts both sides: w keys in all, the rule allows 2 * w + 1",
        lambda n, w, d, causal: _band(n, w // 2 * d, d, causal),
    ),
    Mistake(
        "the farthest key on each side is missing: |m| <= w includes w itself",
        lambda n, w, d, causal: _band(n, w * d - 1, d, causal),
    ),
    Mistake(
        "the farthest key on the right is missing: range(-w, w) ends before w",
        lambda n, w, d, causal: _band(n, w * d, d, causal) & (_offsets(n)[2] < w * d),
    ),
    Mistake(
        "a query does not read its own key: m = 0 belongs to the rule",
        lambda n, w, d, causal: _band(n, w * d, d, causal) & ~_band(n, 0, 1, False),
    ),
    Mistake(
        "causal is ignored: some queries read keys that come after them",
        lambda n, w, d, causal: _band(n, w * d, d, False),
    ),
    Mistake(
        "causal is upside down: it allows the keys from the query on, not those up to it",
        lambda n, w, d, causal: _band(n, w * d, d, causal).T,
    ),
    Mistake(
        "causal takes away the query's own key: j = i is allowed",
        lambda n, w, d, causal: (
            _band(n, w * d, d, causal) & ~(_band(n, 0, 1, False) & torch.tensor(causal))
        ),
    ),
    Mistake(
        "w counts keys and not positions: with gaps the farthest one is w * dilation away",
        lambda n, w, d, causal: _band(n, w, d, causal),
    ),
    Mistake(
        "dilation is the step from key to key, yours skips that many keys between two",
        lambda n, w, d, causal: _band(n, w * (d + 1), d + 1, causal),
    ),
    Mistake(
        "dilation is ignored: this is a plain window",
        lambda n, w, d, causal: _band(n, w, 1, causal),
    ),
    Mistake(
        "the gaps are filled: within reach only every dilation-th key is read",
        lambda n, w, d, causal: _band(n, w * d, 1, causal),
    ),
    Mistake(
        "every dilation-th key is read up to the ends: w limits how many on each side",
        lambda n, w, d, causal: _band(n, n, d, causal),
    ),
    Mistake(
        "a negative position counts from the end in Python, so early queries read late keys",
        _wrapped,
    ),
]


def _dilated(answer: Any, generator: Generator) -> Verdict:
    cases = [
        (9, 2, 2, False),
        (13, 3, 2, True),
        (5, 7, 1, True),
        (1, 0, 1, True),
        (6, 0, 3, False),
    ]
    for causal in (False, True):
        n, w, dilation = (_draw(generator, *span) for span in ((8, 15), (1, 3), (2, 4)))
        cases.append((n, w, dilation, causal))
    return of_function(answer, _right_dilated, cases, DILATED_MISTAKES)


def _right_global(n: int, positions: tuple[int, ...], causal: bool) -> Tensor:
    return (Global(positions) & (Causal() if causal else Full())).mask(n)


def _global(answer: Any, generator: Generator) -> Verdict:
    def cross(n: int, positions: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns of the global tokens, and what a decoder allows."""
        i, j, _ = _offsets(n)
        chosen = torch.tensor([token in positions for token in range(n)])
        return chosen[:, None].expand(n, n), chosen.expand(n, n), j <= i

    def crossed(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
        """A wrong rule for the encoder, from rows and columns, with causality done right."""

        def mask(n: int, positions: tuple[int, ...], causal: bool) -> Tensor:
            rows, columns, past = cross(n, positions)
            return rule(rows, columns) & (past | torch.tensor(not causal))

        return mask

    def rows_see_all(n: int, positions: tuple[int, ...], causal: bool) -> Tensor:
        rows, columns, past = cross(n, positions)
        return rows | (columns & past) if causal else rows | columns

    def first_tokens(n: int, positions: tuple[int, ...], causal: bool) -> Tensor:
        return _right_global(n, tuple(range(min(len(positions), n))), causal)

    mistakes = [
        Mistake("only the rows are there: nobody reads the global tokens", crossed(lambda r, c: r)),
        Mistake(
            "only the columns are there: the global tokens read nothing more",
            crossed(lambda r, c: c),
        ),
        Mistake(
            "global tokens read each other only: one of i and j is enough",
            crossed(lambda r, c: r & c),
        ),
        Mistake(
            "pairs of two global tokens are missing: *or* includes both",
            crossed(lambda r, c: r ^ c),
        ),
        Mistake(
            "ordinary tokens read themselves; this rule alone does not say so",
            crossed(lambda r, c: r | c | torch.eye(len(r), dtype=torch.bool)),
        ),
        Mistake("the first tokens became global; take the positions given", first_tokens),
        Mistake(
            "causal is ignored: some queries read keys that come after them",
            lambda n, positions, causal: _right_global(n, positions, False),
        ),
        Mistake("a global token may not read what comes after it either", rows_see_all),
    ]
    cases: list[Any] = [(8, (2, 5), False), (7, (3,), True), (4, (), False), (1, (0,), True)]
    for causal in (False, True):
        n = _draw(generator, 6, 12)
        positions = tuple(torch.randperm(n, generator=generator)[:3].tolist())
        cases.append((n, positions, causal))
    return of_function(answer, _right_global, cases, mistakes)


def _pairs(answer: Any, generator: Generator) -> Verdict:
    def triangles(n: int, w: int, dilation: int) -> int:
        return n * (2 * w + 1) - dilation * w * (w + 1)

    mistakes = [
        Mistake(
            "the ends are forgotten: near them a window sticks out of the sequence",
            lambda n, w, d: n * (2 * w + 1),
        ),
        Mistake(
            "only one of the two missing triangles is taken away",
            lambda n, w, d: n * (2 * w + 1) - d * w * (w + 1) // 2,
        ),
        Mistake(
            "that counts a plain window: with dilation the triangles at the ends are larger",
            lambda n, w, d: triangles(n, min(w, n - 1), 1),
        ),
        Mistake(
            "right while n > w * dilation; a wider window finds no key beyond the ends",
            triangles,
        ),
        Mistake(
            "w is cut at n - 1 keys, but with dilation fewer than that fit on a side",
            lambda n, w, d: triangles(n, min(w, n - 1), d),
        ),
        Mistake(
            "that counts the pairs of a decoder: keys on one side only",
            lambda n, w, d: (triangles(n, min(w, (n - 1) // d), d) + n) // 2,
        ),
        Mistake(
            "each query's own key is missing from the count",
            lambda n, w, d: triangles(n, min(w, (n - 1) // d), d) - n,
        ),
    ]
    cases = [(10, 2, 1), (11, 2, 3), (5, 9, 1), (9, 6, 2), (1, 3, 2), (7, 0, 4)]
    spans = ((1, 40), (0, 12), (1, 6))
    cases += [tuple(_draw(generator, *span) for span in spans) for _ in range(20)]
    return of_function(
        answer, lambda n, w, d: int(Dilated(w, d).mask(n).sum()), cases, mistakes, tolerance=1e-9
    )


def _receptive(answer: Any, generator: Generator) -> Verdict:
    def power(matrix: Tensor, n_layers: int) -> Tensor:
        out = torch.eye(len(matrix))
        for _ in range(n_layers):
            out = ((matrix.float() @ out) > 0).float()
        return out > 0

    def eye(mask: Tensor) -> Tensor:
        return torch.eye(len(mask), dtype=torch.bool)

    mistakes = [
        Mistake(
            "a token forgets itself: the residual connection lets it stay where it is",
            power,
        ),
        Mistake(
            "a token stays where it is in all layers or in none; it may stay in some and move "
            "in others",
            lambda mask, n_layers: power(mask, n_layers) | eye(mask),
        ),
        Mistake("that is one layer too many", lambda m, n_layers: power(m | eye(m), n_layers + 1)),
        Mistake(
            "that is one layer too few", lambda m, n_layers: power(m | eye(m), max(n_layers - 1, 0))
        ),
        Mistake(
            "rows and columns have changed places: row i holds what output i depends on",
            lambda m, n_layers: power(m | eye(m), n_layers).T,
        ),
        Mistake("that is one layer, however many there are", lambda m, n_layers: m | eye(m)),
    ]
    cases = []
    for n, n_layers in ((7, 2), (12, 3), (9, 5), (5, 0), (1, 2), (8, 1)):
        cases.append((torch.rand(n, n, generator=generator) < 1.2 / n, n_layers))
    return of_function(
        answer, lambda mask, n_layers: receptive_field(mask, n_layers), cases, mistakes
    )


def _widest(answer: Any, generator: Generator) -> Verdict:
    cases = [(3, 1), (1, 2), (_draw(generator, 2, 3), _draw(generator, 2, 3)), (4, 1)]
    for n_layers, w in cases:
        dilations = returned(answer, n_layers, w)
        if isinstance(dilations, Verdict):
            return dilations
        problem = _too_narrow(dilations, n_layers, w)
        if problem:
            return problem
    return Verdict("right")


def _too_narrow(dilations: Any, n_layers: int, w: int) -> Verdict | None:
    """What is wrong with a list of dilations, or nothing."""
    here = f"for {n_layers} layers with w = {w}"
    steps = whole_list(dilations)
    if steps is None or len(steps) != n_layers or min(steps) < 1:
        return is_wrong(
            f"{here}: a list of {n_layers} whole numbers of 1 or more is wanted, got {dilations!r}"
        )
    seen = {0}
    for step in steps:
        seen = {at + m * step for at in seen for m in range(-w, w + 1)}
    possible = (2 * w + 1) ** n_layers
    gap = next(offset for offset in range(max(seen) + 2) if offset not in seen)
    if gap < max(seen):
        return is_wrong(
            f"{here}: the dilations {steps} leave a gap: the input {gap} positions away is never "
            "seen"
        )
    if len(seen) < possible:
        return is_wrong(
            f"{here}: the dilations {steps} leave no gap and see {len(seen)} inputs, but {possible} "
            "can be seen: some inputs are reached in more than one way"
        )
    return None


def _live(answer: Any, generator: Generator) -> Verdict:
    """Measured by the answer, so compared with what theory says, a few hundredths apart at most."""

    def expected(n: int, r: int, block_size: int) -> float:
        return 1 - (1 - block_size / n) ** (r * block_size)

    mistakes = [
        Mistake("that is the share of pairs, not of blocks", lambda n, r, b: r / n),
        Mistake(
            "those are blocks of one query; a block has block_size queries, and any may keep it "
            "alive",
            lambda n, r, b: 1 - (1 - b / n) ** r,
        ),
        Mistake("that is the share of dead blocks", lambda n, r, b: 1 - expected(n, r, b)),
        Mistake(
            "that is the number of live blocks; divide by the number of all blocks",
            lambda n, r, b: expected(n, r, b) * (n // b) ** 2,
        ),
    ]
    cases = [(1024, 1, 16), (768, 2, 12), (960, _draw(generator, 1, 3), 15)]
    return of_function(answer, expected, cases, mistakes, tolerance=0.025)


EXERCISES = (
    Exercise(
        name="atomic/dilated",
        title="A window with gaps",
        kind="implement",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Turn a rule about distances into a mask, for encoder and decoder",
        examine=_dilated,
        after="It agrees with `Dilated` at all lengths tried, also where the window is the wider one.",
    ),
    Exercise(
        name="atomic/global",
        title="Tokens that everybody reads",
        kind="implement",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Give chosen tokens their full row and their full column",
        examine=_global,
        after="Each global token has its row and its column; a decoder keeps of them what is not above the diagonal.",
    ),
    Exercise(
        name="atomic/pairs",
        title="Pairs of any window",
        kind="prove",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Count the pairs of a dilated window that may be wider than the sequence",
        examine=_pairs,
        after="The formula equals the sum over the mask for 26 triples of n, w and dilation.",
    ),
    Exercise(
        name="atomic/receptive",
        title="What a token has seen",
        kind="implement",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Compute which inputs an output can depend on after several layers",
        examine=_receptive,
        after="It agrees with `receptive_field`, also on graphs that are not symmetric.",
    ),
    Exercise(
        name="atomic/widest",
        title="As far as possible without a gap",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Choose dilations for which every input is reached in exactly one way",
        examine=_widest,
        after="Every input in reach is seen, each by one path only: no choice can see more.",
    ),
    Exercise(
        name="atomic/live",
        title="Few pairs, many blocks",
        kind="measure",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Measure how many blocks a few random keys keep alive",
        examine=_live,
        after="A tenth of a per cent of the pairs can keep a fifth of the blocks alive.",
    ),
)
