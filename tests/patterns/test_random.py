"""Random keys: how many, where from, how evenly, and that nothing else is random."""

import math
import pickle
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch

from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    MatchedBlocks,
    Pattern,
    Random,
    Strided,
    Window,
    bp_transformer,
    image_2d,
)


def drawn_sets(rule):
    return [[key for key in row if key >= 0] for row in rule.drawn.tolist()]


@pytest.mark.parametrize("n", [1, 2, 7, 33])
@pytest.mark.parametrize("wanted", [0, 1, 3, 7])
@pytest.mark.parametrize("size", [1, 3])
def test_every_row_holds_exactly_r_keys_or_blocks(n, wanted, size):
    n_blocks = math.ceil(n / size)
    r = min(wanted, n_blocks)
    rule = Random(n, r, seed=0, block_size=size)
    assert [len(set(row)) for row in drawn_sets(rule)] == [r] * n_blocks
    if size == 1:
        assert rule.mask(n).sum(dim=1).tolist() == [r] * n
        assert rule.edges(n) == r * n


def test_blocks_are_read_whole_by_whole_blocks():
    rule = Random(14, 2, seed=3, block_size=4)
    mask = rule.mask(14)
    for block, keys in enumerate(drawn_sets(rule)):
        for row in mask[4 * block : 4 * block + 4]:
            assert row.nonzero()[:, 0].tolist() == [
                j for key in keys for j in range(4 * key, min(4 * key + 4, 14))
            ]


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    "exclude",
    [
        Window(3), Window(2) | Global(2), Causal(), Window(1) & Causal(), Full(), None,
        Strided(7), Dilated(2, 5), Strided(7) | Window(1),  # their reach covers more than they allow
    ],
)  # fmt: skip
def test_nothing_is_drawn_where_the_excluded_rule_allows_a_pair(exclude, size):
    n = 41
    rule = Random(n, 3, seed=5, block_size=size, exclude=exclude)
    taken = torch.zeros(n, n, dtype=torch.bool) if exclude is None else exclude.mask(n)
    assert not (rule.mask(n) & taken).any()
    for block, keys in enumerate(drawn_sets(rule)):
        rows = range(size * block, min(n, size * block + size))
        free = [
            key
            for key in range(math.ceil(n / size))
            if not taken[rows, size * key : size * key + size].any()
        ]
        assert set(keys) <= set(free)
        assert len(set(keys)) == len(keys) == min(3, len(free))


class FiveTokens(Window):
    """A band that is asked about five tokens and no others."""

    def allowed(self, i, j):
        assert i.numel() == 0 or int(i.max()) < 5
        assert j.numel() == 0 or int(j.max()) < 5
        return super().allowed(i, j)


@pytest.mark.parametrize(
    ("n", "exclude"),
    [
        (5, FiveTokens(1)),
        (5, Random(5, 1, seed=1)),
        (5, Random(5, 1, seed=1) | Window(1)),
        (5, MatchedBlocks(5, (0,))),
        (5, MatchedBlocks(1, (4, 3, 2, 1, 0))),
        (5, BlockLocal(2)),
        (7, bp_transformer(4, 1)),
        (6, image_2d(2, 3, (1, 2), 0)),
    ],
)
@pytest.mark.parametrize("size", [2, 3, 4, 2**40])
def test_an_excluded_rule_is_not_asked_behind_its_last_token(n, exclude, size):
    n_blocks = math.ceil(n / size)
    taken = exclude.mask(n)
    rule = Random(n, 1, seed=0, block_size=size, exclude=exclude)
    blocks = [slice(size * block, size * block + size) for block in range(n_blocks)]
    free = [[key for key in range(n_blocks) if not taken[own, blocks[key]].any()] for own in blocks]
    drawn = drawn_sets(rule)
    assert [len(keys) for keys in drawn] == [min(1, len(keys)) for keys in free]
    assert all(set(keys) <= set(allowed) for keys, allowed in zip(drawn, free, strict=True))
    assert rule.edges(n) == int(rule.mask(n).sum())


@pytest.mark.parametrize("size", [1, 2, 5])
def test_drawing_every_block_reads_everything(size):
    assert Random(15, math.ceil(15 / size), seed=0, block_size=size).mask(15).all()


def test_the_same_seed_draws_the_same_keys_and_another_seed_does_not():
    one, again, other = (Random(50, 4, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(one.mask(50), again.mask(50))
    assert not torch.equal(one.mask(50), other.mask(50))
    assert pickle.loads(pickle.dumps(one)) == one
    assert torch.equal(pickle.loads(pickle.dumps(one)).drawn, one.drawn)


def test_global_random_state_neither_matters_nor_moves():
    masks = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        masks.append(Random(50, 4, seed=7, exclude=Window(20)).mask(50))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*masks)


@pytest.mark.parametrize("exclude", [None, Window(2)])
def test_keys_are_drawn_evenly(exclude):
    # Each of 400 seeds draws 3 of the free keys for each of 20 queries.
    n, r, n_seeds = 20, 3, 400
    counts = sum(
        Random(n, r, seed=seed, exclude=exclude).mask(n).double() for seed in range(n_seeds)
    )
    free = torch.ones(n, n, dtype=torch.bool) if exclude is None else ~exclude.mask(n)
    share = n_seeds * r / free.sum(dim=1, keepdim=True)
    variance = share * (1 - r / free.sum(dim=1, keepdim=True))
    chi_squared = float(((counts - share) ** 2 / variance)[free].sum())
    # r keys without replacement: a row of m counts has m - 1 degrees of freedom, and is scaled
    # by m / (m - 1) of them; with all rows together the sum is nearly normal
    degrees = int(free.sum())
    assert abs(chi_squared - degrees) < 4 * math.sqrt(2 * degrees)
    assert not counts[~free].any()


@dataclass(frozen=True)
class AllBut(Pattern):
    """Every key but the last few."""

    n_left: int
    n: int

    def allowed(self, i, j):
        return (j < self.n - self.n_left).expand(torch.broadcast_shapes(i.shape, j.shape))


def test_rows_that_run_out_of_draws_are_drawn_evenly_too():
    # 4 of 60 keys are left; a few independent draws of 60 seldom find 3 of them
    n, r, left, n_seeds = 60, 3, 4, 40
    drawn = sum(
        Random(n, r, seed=seed, exclude=AllBut(left, n)).mask(n).sum(dim=0)
        for seed in range(n_seeds)
    )
    assert not drawn[:-left].any()
    expected = n_seeds * n * r / left
    assert (drawn[-left:] - expected).abs().max() < 4 * math.sqrt(expected * (1 - r / left))


def test_a_key_is_read_by_r_queries_on_average_and_seldom_by_many_more():
    readers = Random(2000, 8, seed=0).mask(2000).sum(dim=0).double()
    assert float(readers.mean()) == 8
    assert 6 < float(readers.var()) < 10  # binomial: 8 * (1 - 8 / 2000)
    assert readers.max() < 30


def test_rows_are_drawn_independently_of_each_other():
    drawn = Random(400, 2, seed=0).drawn
    repeats = sum(torch.equal(a, b) for a, b in pairwise(drawn))
    assert repeats <= 2


def test_a_draw_serves_shorter_sequences():
    rule = Random(20, 3, seed=0)
    assert torch.equal(rule.mask(12), rule.mask(20)[:12, :12])
    assert rule.edges(12) == int(rule.mask(12).sum())
    assert torch.equal(rule.mask(5, 12), rule.mask(20)[7:12, :12])


def test_drawing_many_keys_of_many_takes_memory_for_the_draws_alone(monkeypatch):
    # comparing every draw of a row with every other one would take 1,000 * 1,000 * 1,000 booleans
    sizes = []
    scatter = torch.Tensor.scatter
    monkeypatch.setattr(
        torch.Tensor, "scatter", lambda x, *args: sizes.append(x.numel()) or scatter(x, *args)
    )
    assert Random(1000, 496, seed=0).edges(1000) == 496_000
    assert sizes == [1000 * 1000]


REFUSED = {
    "no tokens": ((0, 0, 0), {}, ValueError, "n and block_size must be 1 or more, got n=0, block_size=1"),
    "empty blocks": ((5, 1, 0, 0), {}, ValueError, "must be 1 or more, got n=5, block_size=0"),
    "more keys than there are": ((5, 6, 0), {}, ValueError, r"r must be in 0 … 5, .*, got 6"),
    "more blocks than there are": ((5, 4, 0, 2), {}, ValueError, r"r must be in 0 … 3, .*, got 4"),
    "fewer keys than none": ((5, -1, 0), {}, ValueError, r"r must be in 0 … 5, .*, got -1"),
    "half a token": ((5.5, 1, 0), {}, TypeError, r"n must be a whole number, got 5\.5"),
    "half a key": ((5, 1.5, 0), {}, TypeError, r"r must be a whole number, got 1\.5"),
    "no seed": ((5, 1, None), {}, TypeError, "seed must be a whole number, got None"),
    "a broken block": ((5, 1, 0, 2.0), {}, TypeError, r"block_size must be a whole number, got 2\.0"),
    "a matrix to exclude": (
        (5, 1, 0), {"exclude": torch.eye(5)}, TypeError, r"must be a rule such as Causal\(\), got Tensor; Painted",
    ),
    "a rule for fewer tokens to exclude": (
        (8, 1, 0), {"exclude": Window(1) | Random(4, 1, 0)}, ValueError,
        "the keys were drawn for n=4 tokens, got 8; draw for 8",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_draw_that_cannot_be_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        Random(*args, **options)


@pytest.mark.parametrize(
    "ask",
    [
        lambda rule: rule.mask(9),
        lambda rule: rule.mask(2, 9),
        lambda rule: rule.edges(9),
        lambda rule: (rule & Causal()).mask(9),
        lambda rule: (Window(1) | rule).edges(9),
    ],
)
def test_more_tokens_than_were_drawn_for_are_refused(ask):
    with pytest.raises(ValueError, match="the keys were drawn for n=8 tokens, got 9; draw for 9"):
        ask(Random(8, 2, seed=0))
