"""Five views of every rule agree: answers, counts, reach, footprints, and what autograd sees."""

from collections import defaultdict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import attention, patterns
from tinyattn.engine import sparse_attention
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    Pattern,
    Random,
    Strided,
    Window,
    bigbird,
    grid,
    sparse_fixed,
    tree,
)
from tinyattn.patterns.base import merged

from . import by_hand

PUBLIC = by_hand.public(41)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


def test_every_public_pattern_is_among_those_that_are_tested():
    no_rules = {"Pattern", "PerHead", "mask_mod", "radius_from_window", "generation_order"}
    assert {name.split(",")[0] for name in PUBLIC} == set(patterns.__all__) - no_rules


# ------------------------------------------------------------------------ answers and counts


@EVERY
@pytest.mark.parametrize(("n", "n_k"), [(0, 0), (1, 1), (2, 2), (41, 41), (0, 41), (17, 41)])
def test_a_mask_is_the_definition(rule, n, n_k):
    assert torch.equal(rule.pattern.mask(n, n_k), rule.mask(n, n_k))


@EVERY
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 12, 23, 40, 41])
def test_edges_count_the_pairs_of_the_definition(rule, n):
    assert rule.pattern.edges(n) == int(rule.mask(n).sum())


@settings(max_examples=150)
@given(case=by_hand.cases())
def test_expressions_answer_and_count_like_their_definitions(case):
    rule, n, n_k = case
    assert torch.equal(rule.pattern.mask(n, n_k), rule.mask(n, n_k))
    assert rule.pattern.edges(n_k) == int(rule.mask(n_k).sum())


@settings(max_examples=60)
@given(n=st.integers(0, 30), data=st.data())
def test_every_atom_counts_in_closed_form_what_it_would_find_pair_by_pair(n, data):
    rule = data.draw(by_hand.atoms(n)).pattern
    assert rule._count(n) == Pattern._count(rule, n) == int(rule.mask(n).sum())


@EVERY
def test_an_answer_has_the_shape_that_positions_broadcast_to(rule):
    i, j = torch.tensor([[3], [40]]), torch.tensor([0, 3, 7])
    for one, other in ((i, j), (i[0], j), (i, j[:1]), (i[0, 0], j[0]), (i[:, :, None], j[:0])):
        answer = rule.pattern.allowed(one, other)
        shape = torch.broadcast_shapes(one.shape, other.shape)
        assert answer.dtype == torch.bool
        assert answer.expand(shape).shape == shape
        assert answer.numel() == shape.numel()


@EVERY
def test_positions_may_be_32_bit_integers(rule):
    i, j = torch.arange(41)[:, None].int(), torch.arange(41).int()
    assert torch.equal(rule.pattern.allowed(i, j).expand(41, 41), rule.pattern.mask(41))


# -------------------------------------------------------------------------------- combining


@settings(max_examples=60)
@given(case=by_hand.cases(20))
def test_the_parts_of_an_expression_are_the_expression(case):
    rule, n, n_k = case
    together = torch.zeros(n, n_k, dtype=torch.bool)
    for part in rule.pattern.parts():
        together |= part.mask(n, n_k)
        assert part.parts() == [part]
    assert torch.equal(together, rule.mask(n, n_k))


def test_a_union_inside_an_intersection_comes_apart_by_step():
    rule = (Window(2) | Strided(7)) & Causal()
    assert [part.step for part in rule.parts()] == [1, 7]
    assert [part.step for part in (Causal() & rule).parts()] == [1, 7]
    assert Dilated(2, 3).step == (Causal() & Dilated(2, 3)).step == 3


@EVERY
def test_a_rule_prints_as_an_expression_compares_by_value_and_hashes(rule):
    again = by_hand.public(41)[next(name for name in PUBLIC if PUBLIC[name] is rule)].pattern
    assert again is not rule.pattern
    assert again == rule.pattern
    assert hash(again) == hash(rule.pattern)
    assert repr(again) == repr(rule.pattern)
    assert (again | Full()) != rule.pattern
    if "Painted" not in repr(again):
        names = {**vars(patterns), **vars(patterns.pieces), **vars(grid), **vars(tree)}
        assert eval(repr(again), names) == rule.pattern


@EVERY
def test_no_rule_has_a_truth_value(rule):
    with pytest.raises(TypeError, match="is a rule and has no truth value; combine patterns with"):
        bool(rule.pattern)


def test_different_rules_are_different():
    rules = [rule.pattern for rule in PUBLIC.values()]
    assert len(set(rules)) == len(rules)
    assert Window(2) != Dilated(2, 1)
    assert Global(2) != Global((0, 1))
    assert Global((2, 1)) == Global((1, 2))
    assert Global(2) != Global(2, reads=False)
    assert Random(9, 2, 0) != Random(9, 2, 1)


@pytest.mark.usefixtures("refusals")
@EVERY
def test_every_rule_refuses_lengths_that_no_mask_has(rule):
    with pytest.raises(ValueError, match=r"0 <= n <= n_k .* got n=3, n_k=2"):
        rule.pattern.mask(3, 2)
    with pytest.raises(ValueError, match=r"0 <= n <= n_k .* got n=-1"):
        rule.pattern.edges(-1)
    with pytest.raises(TypeError, match=r"n must be a whole number, got 2\.0"):
        rule.pattern.mask(2.0)


# ------------------------------------------------------------------------------------- reach


def assert_covers(rule, queries, n_k):
    reach = rule.pattern.reach(queries, n_k)
    keys = [key for run in reach for key in run]
    assert all(len(run) for run in reach)
    assert all(run[-1] < after.start for run, after in pairwise(reach))
    assert len(keys) == len(set(keys))
    assert all(0 <= key < n_k for key in keys)
    read = {j for i in queries for j in range(n_k) if rule.reads(i, j)}
    assert read <= set(keys), f"{rule} misses {read - set(keys)} of {queries}"


@st.composite
def stretches(draw, n: int, steps) -> range:
    step = draw(steps)
    start = draw(st.integers(0, n - 1))
    return range(start, min(n, start + step * draw(st.integers(1, 9))), step)


@settings(max_examples=150)
@given(case=by_hand.cases(), data=st.data())
def test_reach_never_misses_a_key_that_may_be_read(case, data):
    rule, _, n_k = case
    if n_k:
        own_step = st.sampled_from([part.step for part in rule.pattern.parts()])
        for steps in (st.just(1), own_step, st.integers(1, 7)):
            assert_covers(rule, data.draw(stretches(n_k, steps)), n_k)


@EVERY
def test_reach_never_misses_a_key_of_a_public_pattern(rule):
    for n_k in (1, 2, 40, 41):
        for start in range(0, n_k, 3):
            for stop in range(start + 1, n_k + 1, 5):
                assert_covers(rule, range(start, stop), n_k)
                for part in rule.pattern.parts():
                    assert_covers(by_hand.Rule(part, lambda i, j: False), range(start, stop), n_k)


@pytest.mark.parametrize(
    ("rule", "queries", "expected"),
    [
        (Window(3), range(10, 20), [range(7, 23)]),
        (Window(3), range(98, 100), [range(95, 100)]),
        (Causal(), range(10, 20), [range(20)]),
        (Dilated(2, 3), range(10, 22, 3), [range(4, 26, 3)]),
        (Dilated(2, 3), range(1, 10, 3), [range(1, 14, 3)]),
        (Strided(7), range(3, 24, 7), [range(3, 100, 7)]),
        (BlockLocal(8, before=1), range(16, 24), [range(8, 24)]),
        (Global(2), range(2, 50), [range(2)]),
        (Global(2), range(1, 50), [range(100)]),
        (Global((3, 50)), range(4, 50), [range(3, 4), range(50, 51)]),
        (Global((3, 50), reads=False), range(100), [range(3, 4), range(50, 51)]),
        (Window(2) & Causal(), range(10, 20), [range(8, 20)]),
        (Window(2) | Global(1), range(10, 20), [range(1), range(8, 22)]),
        (Strided(7) & Causal(), range(3, 24, 7), [range(3, 18, 7)]),
        (Strided(7) & Window(8), range(38, 39), [range(31, 46, 7)]),
    ],
)  # fmt: skip
def test_reach_covers_no_more_than_it_has_to(rule, queries, expected):
    assert [list(run) for run in rule.reach(queries, 100)] == [list(run) for run in expected]


def test_a_rule_that_says_nothing_of_its_reach_looks_everywhere():
    class Odd(Pattern):
        def allowed(self, i, j):
            return (i + j) % 2 == 1

    assert Odd().reach(range(3), 9) == [range(9)]
    assert Odd().edges(9) == 40
    assert (Odd() & Window(1)).reach(range(4, 6), 9) == [range(3, 7)]


@st.composite
def some_runs(draw) -> list[range]:
    """Ranges of one step, which may differ in their residues, or of different ones."""
    steps = draw(st.sampled_from([[1], [2], [3], [1, 2, 3, 4]]))
    run = st.builds(range, st.integers(0, 20), st.integers(0, 30), st.sampled_from(steps))
    return draw(st.lists(run, max_size=5))


@settings(max_examples=200)
@given(runs=some_runs())
def test_merged_ranges_are_sorted_disjoint_and_hold_what_they_held(runs):
    out = merged(runs)
    keys = [key for run in out for key in run]
    assert keys == sorted(set(keys))
    assert {key for run in runs for key in run} <= set(keys)
    if all(run.step == 1 for run in runs):
        assert set(keys) == {key for run in runs for key in run}
        assert all(run.stop < after.start for run, after in pairwise(out))


def test_runs_of_one_step_and_one_residue_stay_apart_from_the_positions_between():
    assert merged([range(1, 8, 3), range(10, 20, 3)]) == [range(1, 8, 3), range(10, 20, 3)]
    assert merged([range(1, 10, 3), range(10, 20, 3)]) == [range(1, 20, 3)]
    assert merged([range(1, 10, 3), range(2, 9, 3)]) == [range(1, 9)]


@settings(max_examples=150)
@given(case=by_hand.cases(24))
def test_no_query_reads_farther_back_than_its_rule_says(case):
    rule, _, n = case
    back = rule.pattern.lookback
    if back is not None:
        assert all(i - j <= back for i in range(n) for j in range(n) if rule.reads(i, j))


@pytest.mark.parametrize(
    ("rule", "back"),
    [
        (Window(4), 4), (Dilated(2, 3), 6), (BlockLocal(4), 3), (BlockLocal(4, before=2), 11),
        (Window(4) & Causal(), 4), (Causal() & Window(4), 4), (Window(4) | Dilated(2, 3), 6),
        (Window(4) & Window(2), 2), (Causal(), None), (Window(4) | Strided(2), None),
        (Global(1), None), (sparse_fixed(4, 1), None), (bigbird(16, 4, 1, 0), None),
    ],
)  # fmt: skip
def test_a_window_bounds_how_far_back_a_query_reads(rule, back):
    assert rule.lookback == back


# -------------------------------------------------------------------------------- footprints


def assert_footprints_keep_their_promise(rule, n, query_ranges, key_ranges):
    """Group all pairs of ranges by footprint; within a group masks are equal."""
    mask, groups = rule.pattern.mask(n), defaultdict(list)
    for queries in query_ranges:
        for keys in key_ranges:
            footprint = rule.pattern.footprint(queries, keys)
            if footprint is not None:
                groups[footprint].append((queries, keys))
    for same in groups.values():
        first = mask[same[0][0], :][:, same[0][1]]
        for queries, keys in same[1:]:
            equal = torch.equal(mask[queries, :][:, keys], first)
            assert equal, f"{rule}: {same[0]} and {(queries, keys)}"
    return groups


def shifts(length: int, step: int, n: int) -> list[range]:
    span = (length - 1) * step + 1
    return [range(start, start + span, step) for start in range(n - span + 1)]


@EVERY
@pytest.mark.parametrize(
    ("lengths", "steps"),
    [((4, 5), (1, 1)), ((3, 4), (5, 1)), ((3, 3), (5, 5)), ((1, 4), (1, 1)), ((2, 6), (1, 3))],
)
def test_equal_footprints_of_public_patterns_promise_equal_masks(rule, lengths, steps):
    n = 24 if max(steps) == 1 else 30
    query_ranges, key_ranges = (
        shifts(length, step, n) for length, step in zip(lengths, steps, strict=True)
    )
    assert_footprints_keep_their_promise(rule, n, query_ranges, key_ranges)


@settings(max_examples=120)
@given(
    data=st.data(),
    n=st.integers(1, 20),
    lengths=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    steps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_equal_footprints_of_expressions_promise_equal_masks(data, n, lengths, steps):
    query_ranges, key_ranges = (
        shifts(length, step, n) for length, step in zip(lengths, steps, strict=True)
    )
    assert_footprints_keep_their_promise(
        data.draw(by_hand.expressions(n)), n, query_ranges, key_ranges
    )


@pytest.mark.parametrize(
    "rule",
    [
        by_hand.full(), by_hand.causal(), by_hand.window(2), by_hand.dilated(2, 2),
        by_hand.strided(3), by_hand.block_local(4, 1, 1), by_hand.global_tokens(2),
        by_hand.global_tokens((0, 9)), by_hand.random(32, 2, 0, 4), by_hand.last_of_block(4, 1),
        by_hand.after(3), by_hand.longformer(2, 1), by_hand.bigbird(32, 4, 1, 0),
        by_hand.sparse_fixed(4, 1), by_hand.sparse_strided(4),
    ],
    ids=repr,
)  # fmt: skip
def test_footprints_recognise_masks_that_come_again(rule):
    blocks = [range(start, start + 4) for start in range(0, 32, 4)]
    groups = assert_footprints_keep_their_promise(rule, 32, blocks, blocks)
    assert sum(len(same) for same in groups.values()) == 64
    assert len(groups) < 64


# ------------------------------------------------------------------------------ what is read


@EVERY
@pytest.mark.parametrize("n", [1, 14])
def test_a_query_reads_exactly_the_allowed_values(rule, n):
    q, k, v = torch.randn(3, 1, 1, n, 2, generator=torch.Generator().manual_seed(0))
    for attend in (
        lambda v: attention(q, k, v, rule.pattern.mask(n)),
        lambda v: sparse_attention(q, k, v, rule.pattern),
    ):
        jacobian = torch.autograd.functional.jacobian(
            lambda v, attend=attend: attend(v).sum(dim=(0, 1, 3)), v
        )  # (n_q, b, h, n_k, d_v)
        assert torch.equal(jacobian.abs().sum(dim=(1, 2, 4)) > 0, rule.mask(n))
