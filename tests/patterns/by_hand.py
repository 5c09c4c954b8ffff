"""Every rule once more as a question about one query and one key, in plain Python.

Shares no code with the package; only what was drawn at random is taken from there, and that is
tested on its own. Meant to be checked by reading.
"""

from __future__ import annotations

import random as python_random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from torch import Tensor

from tinyattn import patterns
from tinyattn.patterns import Pattern, pieces


@dataclass(frozen=True)
class Rule:
    """A pattern of the package, and the answers that it owes."""

    pattern: Pattern
    reads: Callable[[int, int], bool] = field(repr=False, compare=False)

    def __or__(self, other: Rule) -> Rule:
        return Rule(
            self.pattern | other.pattern, lambda i, j: self.reads(i, j) or other.reads(i, j)
        )

    def __and__(self, other: Rule) -> Rule:
        return Rule(
            self.pattern & other.pattern, lambda i, j: self.reads(i, j) and other.reads(i, j)
        )

    def mask(self, n: int, n_k: int | None = None) -> Tensor:
        """The answers for n queries, which stand at the last n of n_k keys."""
        n_k = n if n_k is None else n_k
        rows = [[self.reads(i, j) for j in range(n_k)] for i in range(n_k - n, n_k)]
        return torch.tensor(rows, dtype=torch.bool).view(n, n_k)


# ------------------------------------------------------------------------------------- atoms


def full() -> Rule:
    return Rule(patterns.Full(), lambda i, j: True)


def causal() -> Rule:
    return Rule(patterns.Causal(), lambda i, j: j in range(i + 1))


def window(w: int) -> Rule:
    return Rule(patterns.Window(w), lambda i, j: j in range(i - w, i + w + 1))


def dilated(w: int, dilation: int) -> Rule:
    return Rule(
        patterns.Dilated(w, dilation),
        lambda i, j: any(j == i + m * dilation for m in range(-w, w + 1)),
    )


def strided(stride: int) -> Rule:
    return Rule(patterns.Strided(stride), lambda i, j: i % stride == j % stride)


def block_local(size: int, before: int = 0, after: int = 0) -> Rule:
    def reads(i: int, j: int) -> bool:
        start = (i // size - before) * size
        return start <= j < start + (before + 1 + after) * size

    return Rule(patterns.BlockLocal(size, before, after), reads)


def global_tokens(g: int | tuple[int, ...], both_ways: bool = True) -> Rule:
    chosen = set(g) if isinstance(g, tuple) else set(range(g))
    return Rule(
        patterns.Global(g, reads=both_ways), lambda i, j: j in chosen or (both_ways and i in chosen)
    )


def random(n: int, r: int, seed: int, size: int = 1, exclude: Rule | None = None) -> Rule:
    pattern = patterns.Random(n, r, seed, size, None if exclude is None else exclude.pattern)
    table = [set(row) for row in pattern.drawn.tolist()]
    return Rule(pattern, lambda i, j: j // size in table[i // size])


def painted(mask: Tensor) -> Rule:
    rows = mask.tolist()
    return Rule(patterns.Painted(mask), lambda i, j: i < len(rows) and j < len(rows) and rows[i][j])


def matched_blocks(size: int, order: tuple[int, ...]) -> Rule:
    def reads(i: int, j: int) -> bool:
        return j // size in (i // size, order[i // size])

    return Rule(patterns.MatchedBlocks(size, order), reads)


def shuffled(n_blocks: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(python_random.Random(seed).sample(range(n_blocks), n_blocks))


def last_of_block(size: int, c: int) -> Rule:
    return Rule(pieces.LastOfBlock(size, c), lambda i, j: size - j % size <= c)


def after(start: int) -> Rule:
    return Rule(pieces.After(start), lambda i, j: min(i, j) >= start)


def summaries(sentences: tuple[int, ...]) -> Rule:
    return Rule(pieces.Summaries(sentences), lambda i, j: j in _sentence(i, sentences))


def _sentence(s: int, sentences: tuple[int, ...]) -> range:
    """Where the text of sentence s stands: behind one summary for each sentence."""
    if s >= len(sentences):
        return range(0)
    start = len(sentences) + sum(sentences[:s])
    return range(start, start + sentences[s])


# -------------------------------------------------------------------------- published models


def star_transformer() -> Rule:
    return Rule(
        patterns.star_transformer(), lambda i, j: i == 0 or j == 0 or j in (i - 1, i, i + 1)
    )


def longformer(w: int, g: int | tuple[int, ...]) -> Rule:
    chosen = set(g) if isinstance(g, tuple) else set(range(g))
    return Rule(patterns.longformer(w, g), lambda i, j: -w <= i - j <= w or bool({i, j} & chosen))


def etc(n_global: int, w: int, sentences: tuple[int, ...] | None = None) -> Rule:
    def reads(i: int, j: int) -> bool:
        if j < n_global:  # global to global, and text to global
            return True
        if i < n_global:  # global to text
            return sentences is None or j in _sentence(i, sentences)
        return -w <= i - j <= w  # text to text

    return Rule(patterns.etc(n_global, w, sentences), reads)


def bigbird(n: int, size: int, r: int, seed: int, n_global: int | None = None) -> Rule:
    pattern = patterns.bigbird(n, size, r, seed, n_global=n_global)
    table = [set(row) for row in pattern.right.drawn.tolist()]
    if n_global is None:
        chosen = {at for at in range(n) if at // size in (0, (n - 1) // size)}
    else:
        chosen = set(range(n_global))

    def reads(i: int, j: int) -> bool:
        at, read = i // size, j // size
        return bool({i, j} & chosen) or read in (at - 1, at, at + 1) or read in table[at]

    return Rule(pattern, reads)


def sparse_strided(stride: int) -> Rule:
    return Rule(
        patterns.sparse_strided(stride),
        lambda i, j: j <= i and (i - j < stride or (i - j) % stride == 0),
    )


def sparse_fixed(stride: int, c: int) -> Rule:
    return Rule(
        patterns.sparse_fixed(stride, c),
        lambda i, j: j <= i and (i // stride == j // stride or j % stride >= stride - c),
    )


# ----------------------------------------------------------------------------------- pictures


def axial_rows(width: int) -> Rule:
    return Rule(patterns.axial_rows(width), lambda i, j: i // width == j // width)


def axial_columns(width: int) -> Rule:
    return Rule(patterns.axial_columns(width), lambda i, j: i % width == j % width)


def image_1d(size: int, memory: int) -> Rule:
    def reads(i: int, j: int) -> bool:
        block = [at for at in range(i + size) if at // size == i // size]
        return min(block) - memory <= j <= i

    return Rule(patterns.image_1d(size, memory), reads)


def image_2d(
    height: int, width: int, block: tuple[int, int], flange: tuple[int, int], causal: bool = True
) -> Rule:
    def reads(i: int, j: int) -> bool:
        (row, col), (key_row, key_col) = divmod(i, width), divmod(j, width)
        rows = [r for r in range(height) if r // block[0] == row // block[0]]
        cols = [c for c in range(width) if c // block[1] == col // block[1]]
        top, bottom = min(rows) - flange[0], max(rows) + flange[0]
        left, right = min(cols) - flange[1], max(cols) + flange[1]
        if not causal:
            return top <= key_row <= bottom and left <= key_col <= right
        if key_row < min(rows):  # the band above
            return top <= key_row and left <= key_col <= right
        if key_row > max(rows) or key_col > max(cols):
            return False
        if key_col < min(cols):  # the strip to the left
            return left <= key_col
        return (key_row, key_col) <= (row, col)

    return Rule(patterns.image_2d(height, width, block, flange, causal=causal), reads)


# --------------------------------------------------------------------------------------- trees


def bp_transformer(n: int, k: int, causal: bool = False) -> Rule:
    """Walk outwards from each token with nodes as (start, length) of what they cover."""
    size = 1
    while size < n:
        size *= 2
    nodes = [
        (start, length)
        for length in (2**level for level in range(size.bit_length()))
        for start in range(0, size, length)
    ]
    number = {node: at for at, node in enumerate(nodes)}
    read = [
        {number[start, 1], *(number[at, 1] for at in range(start, start + length))}
        for start, length in nodes
    ]
    for i in range(size):
        sides = [_outwards(i, size, k, -1)] + ([] if causal else [_outwards(i, size, k, 1)])
        read[i] |= {number[node] for side in sides for node in side}
    pattern = patterns.bp_transformer(n, k, causal=causal)
    return Rule(pattern, lambda i, j: j in read[i])


def _outwards(i: int, n: int, k: int, direction: int) -> list[tuple[int, int]]:
    """k tokens, k spans of two, … until the end; a half span first where a whole one overlaps."""
    taken: list[tuple[int, int]] = []
    edge = i + 1 if direction > 0 else i  # what lies between i and the edge is read
    length = 1
    while 0 < edge < n:
        for turn in range(k):
            if not 0 < edge < n:
                break
            step = length // 2 if turn == 0 and edge % length else length
            start = edge if direction > 0 else edge - step
            assert start % step == 0
            taken.append((start, step))
            edge += direction * step
        length *= 2
    return taken


def factors(stride: int, c: int) -> dict[str, Rule]:
    """The halves of both Sparse Transformers."""
    near, far = patterns.sparse_strided_factors(stride)
    own, ends = patterns.sparse_fixed_factors(stride, c)
    return {
        "sparse_strided_factors, near": Rule(near, lambda i, j: 0 <= i - j <= stride),
        "sparse_strided_factors, far": Rule(far, lambda i, j: j <= i and (i - j) % stride == 0),
        "sparse_fixed_factors, near": Rule(own, lambda i, j: i - i % stride <= j <= i),
        "sparse_fixed_factors, far": Rule(ends, lambda i, j: j <= i and j % stride >= stride - c),
    }


def scattered(n: int, seed: int = 0, share: float = 0.2) -> Tensor:
    return torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < share


def public(n: int) -> dict[str, Rule]:
    """Every public pattern at sizes that fit n tokens; a key starts with the public name."""
    third = n // 3
    return {
        "Full": full(),
        "Causal": causal(),
        "Window": window(3),
        "Window, of one": window(0),
        "Dilated": dilated(2, 3),
        "Strided": strided(5),
        "BlockLocal": block_local(6),
        "BlockLocal, neighbours": block_local(4, before=2, after=1),
        "Global": global_tokens(2),
        "Global, positions": global_tokens((1, 2, third, n - 1)),
        "Global, keys only": global_tokens((0, third), both_ways=False),
        "MatchedBlocks": matched_blocks(4, shuffled(-(-n // 4))),
        "MatchedBlocks, long": matched_blocks(70, shuffled(-(-n // 70), seed=1)),
        "Random": random(n, 3, seed=1),
        "Random, outside a window": random(n, 2, seed=2, exclude=window(2)),
        "Random, blocks": random(n, 2, seed=3, size=4),
        "Painted": painted(scattered(n)),
        "star_transformer": star_transformer(),
        "longformer": longformer(2, (0, third)),
        "etc": etc(3, 2),
        "etc, sentences": etc(3, 1, (third, 0, n - third - 3)),
        "bigbird": bigbird(n, 4, 1, seed=4),
        "bigbird, external": bigbird(n, 4, 1, seed=5, n_global=4),
        "sparse_strided": sparse_strided(6),
        "sparse_fixed": sparse_fixed(6, 2),
        **factors(5, 2),
        "axial_rows": axial_rows(9),
        "axial_columns": axial_columns(9),
        "image_1d": image_1d(6, 10),
        "image_2d": image_2d(n // 11 + 1, 11, (4, 5), (2, 3)),
        "image_2d, around": image_2d(n // 11 + 1, 11, (4, 5), (3, 1), causal=False),
        "bp_transformer": bp_transformer(n // 2 + 1, 2),
        "bp_transformer, causal": bp_transformer(n // 2 + 1, 3, causal=True),
    }


# ------------------------------------------------------------------------ random expressions


def atoms(n: int) -> st.SearchStrategy[Rule]:
    """Any rule with parameters that matter among n tokens, or just do not."""
    small, position = st.integers(0, 5), st.integers(0, n + 2)
    size = st.integers(1, 7)
    some = st.lists(position, max_size=4, unique=True).map(tuple)
    return st.one_of(
        _built(full),
        _built(causal),
        _built(window, small),
        _built(dilated, st.integers(0, 3), size),
        _built(strided, size),
        _built(block_local, size, st.integers(0, 2), st.integers(0, 2)),
        _built(global_tokens, st.one_of(small, some), st.booleans()),
        _built(
            lambda r, seed, size, w: random(
                max(n, 1), min(r, -(-max(n, 1) // size)), seed, size, None if w is None else window(w)
            ),
            small, st.integers(0, 9), size, st.none() | small,
        ),
        _built(lambda size, seed: matched_blocks(size, shuffled(n // size + 1, seed)), size, small),
        _built(lambda m, seed: painted(scattered(m, seed)), position, st.integers(0, 9)),
        _built(lambda size, c: last_of_block(size, min(c, size)), size, size),
        _built(after, position),
        _built(summaries, st.lists(small, max_size=4).map(tuple)),
        _built(image_1d, size, small),
        _built(
            lambda width, *sides: image_2d(n // width + 1, width, *sides),
            size, st.tuples(size, size), st.tuples(small, small), st.booleans(),
        ),
        _built(
            lambda k, causal: bp_transformer(max(n, 1), k, causal),
            st.integers(1, 4), st.booleans(),
        ),
    )  # fmt: skip


def expressions(n: int) -> st.SearchStrategy[Rule]:
    """Unions and intersections of atoms, up to six of them."""

    def combined(inner: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
        return _built(lambda a, b, union: a | b if union else a & b, inner, inner, st.booleans())

    return st.recursive(atoms(n), combined, max_leaves=6)


@st.composite
def cases(draw: st.DrawFn, longest: int = 40) -> tuple[Rule, int, int]:
    """A random expression, a number of queries, and one of keys, at least as many."""
    n_k = draw(st.integers(0, longest))
    n = draw(st.one_of(st.just(n_k), st.integers(0, n_k)))
    return draw(expressions(n_k)), n, n_k


def _built(make: Callable[..., Rule], *parts: st.SearchStrategy) -> st.SearchStrategy[Rule]:
    """`st.builds`, with Python's random state put back.

    The type checker looks at random items of a tuple, and hypothesis suspects the strategy.
    """

    def made(*values: object) -> Rule:
        state = python_random.getstate()
        try:
            return make(*values)
        finally:
            python_random.setstate(state)

    return st.builds(made, *parts)
