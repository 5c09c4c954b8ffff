"""Exercises to chapter 8: windows by any name, unions that count once, random blocks, two hops."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.analysis import path_lengths
from tinyattn.exercises.base import Exercise, Mistake, Verdict, of_function, of_value
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned, whole_list
from tinyattn.patterns import Causal, Global, Window, sparse_fixed

SIDES = {"longformer": 256, "etc": 84, "survey": 1, "sparse": 128, "decoder": 4095}


def _windows(answer: Any, generator: Generator) -> Verdict:
    return of_value(
        answer,
        SIDES,
        [
            Mistake(
                "Longformer's window counts both sides together: half of it is w",
                SIDES | {"longformer": 512},
            ),
            Mistake("a radius is w already: it is not halved", SIDES | {"etc": 42}),
            Mistake(
                "a band three wide holds the token itself and one key on each side",
                SIDES | {"survey": 3},
            ),
            Mistake(
                "from i - 128 to i there are 129 keys, 128 of them before the query",
                SIDES | {"sparse": 127},
            ),
            Mistake(
                "i - j < 4096 leaves 4,096 keys, and one of them is the query's own",
                SIDES | {"decoder": 4096},
            ),
            Mistake(
                "halving every number is not enough: look at what each of them counts",
                {"longformer": 256, "etc": 42, "survey": 1, "sparse": 64, "decoder": 2048},
            ),
        ],
    )


def _right_once(scores: Tensor, lists: list[list[int]]) -> Tensor:
    kept = torch.zeros_like(scores, dtype=torch.bool)
    for keys in lists:
        kept[keys] = True
    return torch.where(kept, scores, -math.inf).softmax(-1).nan_to_num()


def _counts(scores: Tensor, lists: list[list[int]]) -> Tensor:
    """In how many lists each key stands."""
    return sum((torch.eye(len(scores))[keys].sum(0) for keys in lists), torch.zeros_like(scores))


def _once(answer: Any, generator: Generator) -> Verdict:
    def twice(scores: Tensor, lists: list[list[int]]) -> Tensor:
        raised = scores.exp() * _counts(scores, lists)
        return raised / raised.sum().clamp(min=1e-9)

    def only_common(scores: Tensor, lists: list[list[int]]) -> Tensor:
        common = [i for i in range(len(scores)) if all(i in keys for keys in lists)]
        return _right_once(scores, [common] if lists else [])

    mistakes = [
        Mistake(
            "a key that stands in two lists counts twice: its score is larger by log 2 in effect",
            twice,
        ),
        Mistake(
            "dividing by the number of lists comes too late: the sum below the line is still wrong",
            lambda s, lists: twice(s, lists) / _counts(s, lists).clamp(min=1),
        ),
        Mistake(
            "each list has a softmax of its own; a query takes one over all its keys",
            lambda s, lists: (
                sum((_right_once(s, [keys]) for keys in lists), torch.zeros_like(s))
                / max(len(lists), 1)
            ),
        ),
        Mistake("a union keeps what any list holds, yours what all hold", only_common),
        Mistake("keys that stand in no list have weight 0", lambda s, lists: s.softmax(-1)),
        Mistake(
            "the softmax runs over all keys, so that the weights that are kept do not sum to 1",
            lambda s, lists: s.softmax(-1) * (_counts(s, lists) > 0),
        ),
        Mistake(
            "without any key the weights are 0, not NaN",
            lambda s, lists: _right_once(s, lists) if any(lists) else torch.full_like(s, math.nan),
        ),
    ]
    cases: list[Any] = []
    for n in (6, 9):
        keys = torch.randperm(n, generator=generator).tolist()
        lists = [keys[:3], keys[1:4], keys[2 : n // 2 + 1]]
        cases.append((torch.randn(n, generator=generator), lists))
    cases += [(torch.randn(4, generator=generator), lists) for lists in ([], [[2]], [[], [3, 1]])]
    return of_function(answer, _right_once, cases, mistakes)


def _random_blocks(answer: Any, generator: Generator) -> Verdict:
    """Not one right table but rules that a table must keep, for several sizes and seeds."""
    seeds = torch.randint(9999, (30,), generator=generator).unique().tolist()
    for n_blocks, r in ((9, 2), (6, 3), (12, 3)):
        tables = []
        for seed in (*seeds, seeds[0]):
            table = returned(answer, n_blocks, r, seed)
            if isinstance(table, Verdict):
                return table
            problem = _unlike_bigbird(table, n_blocks, r)
            if problem:
                return problem
            tables.append([sorted(whole_list(row) or []) for row in table])
        problem = _unlike_a_draw(tables, n_blocks)
        if problem:
            return problem
    return Verdict("right")


def _unlike_a_draw(tables: list[list[list[int]]], n_blocks: int) -> Verdict | None:
    """What is not random about the tables of many seeds, of which the last is the first."""
    if tables[-1] != tables[0]:
        return is_wrong(
            "the same seed gives another table the second time: draw from a generator of your "
            "own, made from the seed"
        )
    if n_blocks == 6:
        return None  # all that is free is drawn
    if all(table == tables[0] for table in tables):
        return is_wrong("the draw does not depend on the seed")
    free = sorted({*range(1, n_blocks - 1)} - {3, 4, 5})
    missed = [block for block in free if all(block not in table[4] for table in tables)]
    if missed:
        return is_wrong(f"block 4 never draws block {missed[0]}, with {len(tables) - 1} seeds")
    return None


def _unlike_bigbird(table: Any, n_blocks: int, r: int) -> Verdict | None:
    """Which rule of BigBird's random blocks a table breaks, or nothing."""
    here = f"for {n_blocks} blocks and r = {r}"
    try:
        rows = [whole_list(row) for row in table]
    except TypeError:
        return is_wrong(f"{here}: a list of lists is wanted, got {table!r}")
    if len(rows) != n_blocks or any(row is None for row in rows):
        return is_wrong(f"{here}: give one list of block numbers for each of the {n_blocks} blocks")
    if rows[0] or rows[-1]:
        return is_wrong(f"{here}: the first and the last block read everything and draw nothing")
    for block, row in list(enumerate(rows))[1:-1]:
        free = {*range(1, n_blocks - 1)} - {block - 1, block, block + 1}
        row = row or []
        if {0, n_blocks - 1} & {*row}:
            return is_wrong(
                f"{here}: block {block} draws {row}, but the first and the last block are global "
                "and read anyway"
            )
        if {*row} & {block - 1, block, block + 1}:
            return is_wrong(f"{here}: block {block} draws {row}, some of it in its own window")
        if {*row} - free:
            return is_wrong(f"{here}: block {block} draws {row}, and not all of these exist")
        if len({*row}) < len(row):
            return is_wrong(f"{here}: block {block} draws a block twice: {row}")
        if len(row) != min(r, len(free)):
            return is_wrong(
                f"{here}: block {block} draws {len(row)} blocks; {len(free)} are free, so it "
                f"should draw {min(r, len(free))}"
            )
    return None


def _two_hops(answer: Any, generator: Generator) -> Verdict:
    stride = int(torch.randint(4, 8, (), generator=generator))
    for step, n in ((5, 17), (stride, 3 * stride + 2), (1, 4)):
        reads = sparse_fixed(step, c=1).mask(n).tolist()
        for i in range(n):
            for j in range(i + 1):
                middle = returned(answer, i, j, step)
                if isinstance(middle, Verdict):
                    return middle
                here = f"with stride {step}, from key {j} to query {i}"
                problem = _no_path(here, reads, i, j, middle)
                if problem:
                    return problem
    return Verdict("right")


def _no_path(here: str, reads: list[list[bool]], i: int, j: int, middle: Any) -> Verdict | None:
    """Why no signal gets from j over `middle` to i, or nothing."""
    numbers = whole_list([middle])
    if numbers is None:
        return is_wrong(f"{here}: a position is wanted, got {middle!r}")
    m = numbers[0]
    if not 0 <= m < len(reads):
        return is_wrong(f"{here}: there is no token {m}")
    if m > i:
        return is_wrong(f"{here}: token {m} comes after the query, so a decoder does not read it")
    if m < j:
        return is_wrong(f"{here}: token {m} comes before the key and can know nothing of it")
    if not reads[i][m]:
        return is_wrong(
            f"{here}: the query does not read token {m}, which is in an earlier block and not its "
            "last"
        )
    if not reads[m][j]:
        return is_wrong(f"{here}: token {m} does not read the key")
    return None


@cache
def _furthest(n: int, w: int, place: int) -> float:
    """Longest path backwards in a decoder with a window and one global token."""
    lengths = path_lengths((Window(w) | Global((place,))) & Causal(), n)
    return float(lengths[Causal().mask(n)].max())


def _place(answer: Any, generator: Generator) -> Verdict:
    cases = [(16, 1), (23, 2), (int(torch.randint(12, 28, (), generator=generator)), 1), (9, 3)]
    for n, w in cases:
        place = returned(answer, n, w)
        if isinstance(place, Verdict):
            return place
        numbers = whole_list([place])
        if numbers is None or not 0 <= numbers[0] < n:
            return is_wrong(f"a position from 0 to {n - 1} is wanted, got {place!r}")
        got = _furthest(n, w, numbers[0])
        if got == min(_furthest(n, w, p) for p in range(n)):
            continue
        here = f"for n = {n} and w = {w}, token {numbers[0]} leaves a path of {got:.0f} layers"
        if numbers[0] == 0:
            return is_wrong(
                f"{here}: everyone reads token 0, but in a decoder it has read nothing but itself"
            )
        if numbers[0] == n - 1:
            return is_wrong(
                f"{here}: the last token reads everything, but nobody comes after it to hear of it"
            )
        return is_wrong(f"{here}; another place does better")
    return Verdict("right")


EXERCISES = (
    Exercise(
        name="compound/windows",
        title="Five windows, one w",
        kind="predict",
        difficulty=1,
        minutes=10,
        points=2,
        goal="Translate each paper's window into keys on each side",
        examine=_windows,
        after="Five conventions, one of which is yours: write down which.",
        drawn=False,
    ),
    Exercise(
        name="compound/once",
        title="A key in two lists",
        kind="implement",
        difficulty=1,
        minutes=15,
        points=3,
        goal="Take a softmax over a union of key lists in which every key counts once",
        examine=_once,
        after="However many lists a key stands in, it enters the sum once.",
    ),
    Exercise(
        name="compound/random_blocks",
        title="Random blocks that are new",
        kind="implement",
        difficulty=3,
        minutes=30,
        points=5,
        goal="Draw BigBird's random blocks outside its window and its global blocks",
        examine=_random_blocks,
        after="Every draw adds pairs, and the same seed gives the same table.",
    ),
    Exercise(
        name="compound/two_hops",
        title="The token in the middle",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Show by a path that two layers of the fixed pattern join any two tokens",
        examine=_two_hops,
        after="A path for every pair of tokens: the two-hop claim holds.",
    ),
    Exercise(
        name="compound/place",
        title="One global token for a decoder",
        kind="measure",
        difficulty=2,
        minutes=20,
        points=4,
        goal="Find where a global token shortens a decoder's longest path most",
        examine=_place,
        after="In a decoder a global token must have something before it and somebody after it.",
    ),
)
