"""Matched blocks: what they refuse, what they count, and how little of them is looked at."""

import pytest
import torch

from tinyattn.groups import schedule
from tinyattn.patterns import BlockLocal, Causal, MatchedBlocks

from . import by_hand


def test_a_permutation_without_fixed_blocks_reads_two_blocks_a_query():
    n, size = 96, 8
    order = tuple((block + 5) % 12 for block in range(12))
    assert MatchedBlocks(size, order).edges(n) == 2 * n * size
    assert MatchedBlocks(size, tuple(range(12))).edges(n) == BlockLocal(size).edges(n) == n * size


@pytest.mark.parametrize("size", [8, 64, 100])
def test_only_the_own_and_the_partners_blocks_are_computed(size):
    n_blocks = 40
    order = by_hand.shuffled(n_blocks)
    groups = schedule(MatchedBlocks(size, order), n_blocks * size)
    per_group = max(1, 64 // size)
    assert groups.n_pairs <= 2 * per_group * n_blocks * size**2


def test_a_later_partner_is_lost_where_the_rule_is_causal():
    pattern = MatchedBlocks(2, (2, 1, 0)) & Causal()
    assert pattern.mask(6).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 0, 0, 1, 1],
    ]


def test_a_list_of_partners_is_kept_as_a_tuple(refusals):
    assert MatchedBlocks(2, [1, 0]) == MatchedBlocks(2, (1, 0))
    assert hash(MatchedBlocks(2, [1, 0])) == hash(MatchedBlocks(2, (1, 0)))


def test_what_has_no_meaning_is_refused(refusals):
    with pytest.raises(ValueError, match="block_size must be 1 or more, got 0"):
        MatchedBlocks(0, (0,))
    with pytest.raises(ValueError, match=r"one of the blocks 0 … 1, got 2"):
        MatchedBlocks(4, (0, 2))
    with pytest.raises(ValueError, match="got -1"):
        MatchedBlocks(4, (0, -1))
    with pytest.raises(TypeError, match=r"partners must be a whole number, got 1\.0"):
        MatchedBlocks(4, (0, 1.0))
    with pytest.raises(ValueError, match="2 blocks of 4 hold 8 tokens, got n=9"):
        MatchedBlocks(4, (1, 0)).mask(9)
    assert torch.equal(MatchedBlocks(4, ()).mask(0), torch.zeros(0, 0, dtype=torch.bool))
