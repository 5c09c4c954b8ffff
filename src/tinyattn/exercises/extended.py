"""Exercises to chapter 9: a tree over the words, and pictures in rows, columns and tiles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from tinyattn.exercises.base import Exercise, Mistake, Verdict, attempt, kind, of_function, of_value
from tinyattn.exercises.base import wrong as is_wrong
from tinyattn.exercises.certificates import returned, whole_list
from tinyattn.patterns import generation_order, image_2d


def _sizes(generator: Generator, low: int, high: int, count: int) -> list[int]:
    return torch.randint(low, high + 1, (count,), generator=generator).tolist()


def _walk(answer: Any, generator: Generator) -> Verdict:
    right = {"left": [1, 2, 2], "right": [1, 1, 4, 4]}
    return of_value(
        answer,
        right,
        [
            Mistake(
                "whole spans are taken where they overlap what has been read: on the right 6, then "
                "(6, 7)",
                {"left": [1, 2, 4], "right": [1, 2, 4, 8]},
            ),
            Mistake(
                "the spans lie where the tree has them: (7, 8) is no pair, so the half (7) stands in",
                {"left": [1, 2, 2], "right": [1, 2, 4, 3]},
            ),
            Mistake(
                "left and right have changed places", {"left": [1, 1, 4, 4], "right": [1, 2, 2]}
            ),
            Mistake(
                "each list goes outwards from the word: the nearest node first",
                {"left": [2, 2, 1], "right": [4, 4, 1, 1]},
            ),
        ],
    )


def _parent(answer: Any, generator: Generator) -> Verdict:
    """Compared with the tree numbered level by level."""

    def wanted(node: int, n: int) -> int:
        first, count = 0, n
        while node >= first + count:
            first, count = first + count, count // 2
        return first + count + (node - first) // 2

    mistakes = [
        Mistake("that is a heap: its root has number 0, here the words come first", _heap),
        Mistake("that is a heap whose root has number 1; here the words come first", _half),
        Mistake(
            "right for the words; a span's place counts from the start of its level",
            lambda node, n: n + node // 2 if node < n else n + (node - n) // 2,
        ),
        Mistake(
            "node 2p and node 2p + 1 have one parent: round down", lambda x, n: n + (x + 1) // 2
        ),
        Mistake("that is the sibling; the parent is one level higher", lambda x, n: x ^ 1),
        Mistake(
            "half of both is too little: only the node's number halves", lambda x, n: (n + x) // 2
        ),
    ]
    cases = [(node, n) for n in (2, 4, 8) for node in range(2 * n - 2)]
    cases += [(int(at), 64) for at in torch.randperm(126, generator=generator)[:20]]
    return of_function(answer, wanted, cases, mistakes)


def _heap(node: int, n: int) -> int:
    return (node - 1) // 2


def _half(node: int, n: int) -> int:
    return node // 2


def _corner(answer: Any, generator: Generator) -> Verdict:
    def corner(i: int, j: int, height: int, width: int) -> int:
        return j // width * width + i % width

    mistakes = [
        Mistake(
            "that is the other corner: there the columns would have to come first",
            lambda i, j, height, width: i // width * width + j % width,
        ),
        Mistake(
            "a row is as long as the picture is wide: divide by the width, not by the height",
            lambda i, j, height, width: j // height * height + i % height,
        ),
        Mistake(
            "the row number is not yet a position: each row before it has width pixels",
            lambda i, j, height, width: j // width + i % width,
        ),
        Mistake(
            "rows are height apart in your picture; in raster order they are width apart",
            lambda i, j, height, width: j // width * height + i % width,
        ),
        Mistake("the query itself is not in the key's row", lambda i, j, height, width: i),
        Mistake("the query does not read the key: columns are all it reads", lambda i, j, h, w: j),
    ]
    cases = []
    for height, width in ((3, 5), (5, 2), (1, 4), (4, 1), tuple(_sizes(generator, 4, 9, 2))):
        at = torch.randint(height * width, (6, 2), generator=generator).tolist()
        cases += [(i, j, height, width) for i, j in at]
    cases.insert(0, (13, 6, 3, 5))
    return of_function(answer, corner, cases, mistakes)


Pair = tuple[int, int]


def _tile_rule(height: int, width: int, rule: Any) -> Tensor:
    """The mask of a rule for (row, col) of the query and (row, col) of the key."""
    at = torch.arange(height * width)
    row, col = at // width, at % width
    return rule(row[:, None], col[:, None], row, col)


def _near(corner: Tensor, at: Tensor, size: int, border: int) -> Tensor:
    return (at >= corner - border) & (at < corner + size + border)


def _right_tiles(height: int, width: int, block: Pair, flange: Pair) -> Tensor:
    return image_2d(height, width, block, flange, causal=False).mask(height * width)


def _no_tiles(height: int, width: int, block: Pair, flange: Pair) -> Tensor:
    def rule(row: Tensor, col: Tensor, down: Tensor, right: Tensor) -> Tensor:
        return ((row - down).abs() <= flange[0]) & ((col - right).abs() <= flange[1])

    return _tile_rule(height, width, rule)


def _one_sided(height: int, width: int, block: Pair, flange: Pair) -> Tensor:
    def rule(row: Tensor, col: Tensor, down: Tensor, right: Tensor) -> Tensor:
        top, left = row // block[0] * block[0], col // block[1] * block[1]
        return _right_tiles(height, width, block, flange) & (
            (down < top + block[0]) & (right < left + block[1])
        )

    return _tile_rule(height, width, rule)


def _either_side(height: int, width: int, block: Pair, flange: Pair) -> Tensor:
    def rule(row: Tensor, col: Tensor, down: Tensor, right: Tensor) -> Tensor:
        top, left = row // block[0] * block[0], col // block[1] * block[1]
        return _near(top, down, block[0], flange[0]) | _near(left, right, block[1], flange[1])

    return _tile_rule(height, width, rule)


def _runs(height: int, width: int, block: Pair, flange: Pair) -> Tensor:
    at = torch.arange(height * width) // (block[0] * block[1])
    return at[:, None] == at


def _tiles(answer: Any, generator: Generator) -> Verdict:
    mistakes = [
        Mistake(
            "height and width of the tile have changed places",
            lambda h, w, block, flange: _right_tiles(h, w, block[::-1], flange),
        ),
        Mistake(
            "height and width of the flange have changed places",
            lambda h, w, block, flange: _right_tiles(h, w, block, flange[::-1]),
        ),
        Mistake(
            "rows and columns come from dividing by the height; in raster order a row is width long",
            lambda h, w, block, flange: _right_tiles(w, h, block, flange),
        ),
        Mistake(
            "the flange surrounds the pixel; it should surround the pixel's tile",
            _no_tiles,
        ),
        Mistake(
            "the flange is only above and to the left; here it is on all four sides", _one_sided
        ),
        Mistake(
            "the flange is missing: only the tile itself is read",
            lambda h, w, block, flange: _right_tiles(h, w, block, (0, 0)),
        ),
        Mistake("near in one direction is not enough: rows *and* columns", _either_side),
        Mistake("a tile is no run of pixels in raster order: it has rows", _runs),
        Mistake(
            "rows and columns of the mask have changed places: the query's tile counts",
            lambda h, w, block, flange: _right_tiles(h, w, block, flange).T,
        ),
    ]
    cases: list[Any] = [(4, 6, (2, 3), (1, 2)), (5, 4, (3, 1), (0, 1)), (1, 7, (2, 3), (1, 1))]
    height, width = _sizes(generator, 4, 6, 2)
    cases.append((height, width + 1, (2, 3), (2, 1)))
    return of_function(answer, _right_tiles, cases, mistakes)


def _order(answer: Any, generator: Generator) -> Verdict:
    def order(height: int, width: int, block: Pair) -> Tensor:
        return generation_order(height, width, block)

    def by_columns(height: int, width: int, block: Pair) -> Tensor:
        turned = order(width, height, block[::-1])
        return turned % height * width + turned // height

    def inside_by_columns(height: int, width: int, block: Pair) -> Tensor:
        at = torch.arange(height * width).view(height, width)
        tiles = [
            tile.T.flatten() for rows in at.split(block[0]) for tile in rows.split(block[1], dim=1)
        ]
        return torch.cat(tiles)

    mistakes = [
        Mistake(
            "that is the number of each pixel, the wanted list is the inverse: which pixel comes next",
            lambda h, w, block: order(h, w, block).argsort(),
        ),
        Mistake("that is raster order", lambda h, w, block: torch.arange(h * w)),
        Mistake(
            "height and width of the tile have changed places",
            lambda h, w, block: order(h, w, block[::-1]),
        ),
        Mistake("the tiles come column by column: they come in rows, as pixels do", by_columns),
        Mistake("inside a tile the pixels come in rows too", inside_by_columns),
    ]
    cases: list[Any] = [(4, 6, (2, 3)), (5, 4, (2, 3)), (3, 7, (2, 2)), (1, 5, (2, 2))]
    height, width = _sizes(generator, 4, 8, 2)
    cases.append((height, width + 1, (3, 2)))
    return of_function(answer, order, cases, mistakes)


def _seams(answer: Any, generator: Generator) -> Verdict:
    height, width = _sizes(generator, 4, 8, 2)
    for rows, columns, block in ((4, 6, (2, 3)), (2, 8, (2, 4)), (height, width, (2, 3))):
        pairs = returned(answer, rows, columns, block)
        if isinstance(pairs, Verdict):
            return pairs
        problem = _agrees_with_raster(pairs, rows, columns, block)
        if problem:
            return problem
    return Verdict("right")


def _agrees_with_raster(pairs: Any, height: int, width: int, block: Pair) -> Verdict | None:
    """Why the two pairs do not show what they should, or nothing."""
    both = None if isinstance(pairs, (dict, str)) else attempt(list, pairs)[0]
    numbers = [whole_list(pair) for pair in both or []]
    if len(numbers) != 2 or any(pair is None or len(pair) != 2 for pair in numbers):
        return is_wrong(
            "return two pairs, (query, key) that is hidden and (query, key) that leaks, got "
            f"{kind(pairs)}"
        )
    here = f"for {height} by {width} pixels in tiles of {block}"
    when = generation_order(height, width, block).argsort().tolist()
    hidden, leaking = ((i, j) for i, j in (pair or (0, 0) for pair in numbers))
    for i, j in (hidden, leaking):
        if not (0 <= i < len(when) and 0 <= j < len(when)):
            return is_wrong(f"{here}: the pair ({i}, {j}) is outside the picture")
        if i == j:
            return is_wrong(f"{here}: the pair ({i}, {j}) is one pixel, both orders agree on it")
    i, j = hidden
    if when[j] > when[i]:
        return is_wrong(f"{here}: key {j} is generated after query {i}, so it is rightly hidden")
    if j < i:
        return is_wrong(
            f"{here}: key {j} stands before query {i} in raster order, so it is not hidden"
        )
    i, j = leaking
    if when[j] < when[i]:
        return is_wrong(
            f"{here}: key {j} is generated before query {i}, so reading it leaks nothing"
        )
    if j > i:
        return is_wrong(
            f"{here}: key {j} stands behind query {i} in raster order, so the mask forbids it"
        )
    return None


EXERCISES = (
    Exercise(
        name="extended/walk",
        title="What the sixth word reads",
        kind="predict",
        difficulty=1,
        minutes=10,
        points=2,
        goal="Walk outwards through a binary tree, halving where a span would overlap",
        examine=_walk,
        after="The sizes sum to 5 on the left and to 10 on the right: every word once.",
        drawn=False,
    ),
    Exercise(
        name="extended/parent",
        title="One line for every parent",
        kind="prove",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Find the closed form of a tree's numbering, words first",
        examine=_parent,
        after="One formula holds on every level, because each level is half as long as the last.",
    ),
    Exercise(
        name="extended/corner",
        title="Around the corner",
        kind="prove",
        difficulty=1,
        minutes=10,
        points=3,
        goal="Give the path by which a row layer and a column layer join any two pixels",
        examine=_corner,
        after="There is exactly one such pixel, and it has to carry all that is said.",
    ),
    Exercise(
        name="extended/tiles",
        title="A tile and its surroundings",
        kind="implement",
        difficulty=3,
        minutes=25,
        points=5,
        goal="Write a two-dimensional local mask for pictures that are not square",
        examine=_tiles,
        after="It agrees with `image_2d`, also where tiles are cut short.",
    ),
    Exercise(
        name="extended/order",
        title="Tile by tile",
        kind="implement",
        difficulty=2,
        minutes=15,
        points=4,
        goal="List the pixels of a picture in the order in which tiles are generated",
        examine=_order,
        after="It agrees with `generation_order`, also where tiles are cut short.",
    ),
    Exercise(
        name="extended/seams",
        title="Where two orders quarrel",
        kind="break",
        difficulty=2,
        minutes=15,
        points=4,
        goal="Show what a raster causal mask does to a picture that is generated in tiles",
        examine=_seams,
        after="One pair is lost, the other is a leak: order and mask have to agree.",
    ),
)
