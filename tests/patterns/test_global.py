"""Tokens that everyone reads."""

import pytest
import torch

from tinyattn.patterns import Causal, Full, Global, Window


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 20])
@pytest.mark.parametrize("g", [0, 1, 3, 20])
def test_global_tokens_cost_two_cross_arms_and_their_square_once(n, g):
    g_here = min(g, n)
    assert Global(g).edges(n) == 2 * g_here * n - g_here**2
    assert Global(g, reads=False).edges(n) == g_here * n


def test_positions_may_stand_anywhere_and_beyond_the_sequence():
    rule = Global((9, 2, 5))
    assert rule.edges(7) == 2 * 2 * 7 - 2**2  # 9 is not there
    assert torch.equal(rule.mask(7), Global((2, 5)).mask(7))
    assert torch.equal(Global((0, 1, 2)).mask(9), Global(3).mask(9))


def test_the_order_of_positions_does_not_matter():
    assert Global((5, 2)) == Global((2, 5))
    assert repr(Global((5, 2))) == "Global(g=(2, 5), reads=True)"
    assert hash(Global((5, 2))) == hash(Global((2, 5)))


def test_other_tokens_do_not_read_themselves_unless_another_rule_lets_them():
    alone, mask = Global(1).mask(6), (Global(1) | Window(0)).mask(6)
    assert not alone.diagonal()[1:].any()
    assert mask.diagonal().all()


def test_a_row_that_is_not_global_holds_g_keys():
    assert Global((1, 4)).mask(8)[[0, 2, 3, 5, 6, 7]].sum(dim=1).tolist() == [2] * 6
    assert Global((1, 4)).mask(8)[[1, 4]].all()


def test_without_reading_they_are_columns_only():
    mask = Global((1, 4), reads=False).mask(8)
    assert mask.any(dim=0).nonzero()[:, 0].tolist() == [1, 4]
    assert mask[:, [1, 4]].all()


def test_no_global_token_reads_nothing_and_all_of_them_read_all():
    assert not Global(0).mask(5).any()
    assert not Global(()).mask(5).any()
    assert torch.equal(Global(5).mask(5), Full().mask(5))


def test_a_late_global_token_sums_up_only_its_past_in_a_causal_model():
    mask = (Global((3,)) & Causal()).mask(6)
    assert mask[3].tolist() == [True] * 4 + [False] * 2
    assert mask[:3].any().item() is False
    assert mask[4:, 3].all()


REFUSED = {
    "fewer than none": (-1, ValueError, "g must be 0 or more tokens, got -1"),
    "half a token": (0.5, TypeError, r"g must be a whole number, got 0\.5"),
    "a position before the first": ((0, -1), ValueError, r"distinct positions of 0 or more, got \(0, -1\)"),
    "a position twice": ((3, 1, 3), ValueError, r"distinct positions of 0 or more, got \(3, 1, 3\)"),
    "half a position": ((0, 1.5), TypeError, r"g must be a whole number, got 1\.5"),
    "a word": ("01", TypeError, "g must be a whole number, got '01'"),
}  # fmt: skip


def test_positions_that_a_short_sequence_does_not_reach_have_no_pairs_there():
    assert not Global((9,)).mask(4).any()
    assert Global((9,)).edges(4) == 0
    assert torch.equal(Global((1, 9)).mask(4), Global((1,)).mask(4))
    assert torch.equal(Global(9).mask(4), Global(4).mask(4))


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("g", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_tokens_that_cannot_be_global_are_refused(g, error, sentence):
    with pytest.raises(error, match=sentence):
        Global(g)
