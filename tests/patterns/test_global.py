"""Tokens that everyone reads."""

import pytest
import torch

from tinyattn.groups import lowering, schedule
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


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    "chosen", [range(0, 200, 7), (*range(40, 60, 2), 3, 4, 61), range(1, 19, 2)]
)
def test_many_scattered_positions_follow_the_definition_and_are_lowered_to_it(chosen, reads):
    rule, n = Global(tuple(chosen), reads), 210
    by_hand = torch.tensor(
        [[j in chosen or (reads and i in chosen) for j in range(n)] for i in range(n)]
    )
    assert torch.equal(rule.mask(n), by_hand)
    assert rule.edges(n) == int(by_hand.sum())
    assert rule.edges(50) == int(by_hand[:50, :50].sum())
    groups = schedule(Window(2) | rule, n).groups
    assert sum(group.n_allowed for group in groups) == (Window(2) | rule).edges(n)


def test_scattered_positions_are_not_compared_with_each_other_group_by_group():
    asked = []

    class Watched(Global):
        def footprint(self, queries, keys):
            asked.append(keys)
            return super().footprint(queries, keys)

    lowering.__wrapped__(Watched(tuple(range(0, 4000, 20))), 4000, 4000)
    assert len(asked) <= 4000  # 200 groups of 200 runs each were 40,000


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("g", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_tokens_that_cannot_be_global_are_refused(g, error, sentence):
    with pytest.raises(error, match=sentence):
        Global(g)


def test_the_last_global_position_is_the_one_before_the_end_of_int64():
    assert Global((2**63 - 2,)).edges(5) == 0
    with pytest.raises(ValueError, match=r"g, counted from 1, must be below 2\^63"):
        Global((2**63 - 1,))


def test_global_tokens_far_beyond_the_sequence_cost_nothing():
    near = tuple(range(0, 18, 2))
    far = Global((*near, 2**62))
    assert torch.equal(far.mask(4), Global(near).mask(4))
    assert far.edges(4) == 12


def test_groups_of_queries_end_where_a_token_that_reads_everything_stands():
    assert Global((3, 4, 7)).borders(16) == [3, 5, 7, 8]
    assert Global(2).borders(16) == [0, 2]
    assert Global(2, reads=False).borders(16) == []
