"""What every pattern shares: combining, aligning, counting, refusing."""

import pickle
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.patterns import BlockLocal, Causal, Full, Pattern, Random, Strided
from tinyattn.patterns.base import whole_blocks


@dataclass(frozen=True)
class Near(Pattern):
    """A rule of the tests: keys at most `w` away."""

    w: int

    def allowed(self, i, j):
        return (i - j).abs() <= self.w


@dataclass(frozen=True)
class Even(Pattern):
    """A rule of the tests that looks at the key alone."""

    def allowed(self, i, j):
        return j % 2 == 0


RULES = st.sampled_from([Full(), Causal(), Near(0), Near(2), Even()])
LENGTHS = {"n": st.integers(0, 6), "more": st.integers(0, 4)}


@given(a=RULES, b=RULES, **LENGTHS)
def test_or_and_and_act_pair_by_pair(a, b, n, more):
    left, right = a.mask(n, n + more), b.mask(n, n + more)
    assert torch.equal((a | b).mask(n, n + more), left | right)
    assert torch.equal((a & b).mask(n, n + more), left & right)


@given(a=RULES, b=RULES, c=RULES, n=st.integers(0, 6))
def test_and_distributes_over_or(a, b, c, n):
    assert torch.equal((a & (b | c)).mask(n), ((a & b) | (a & c)).mask(n))


@given(rule=RULES, **LENGTHS)
def test_fewer_queries_are_the_last_rows_of_the_square(rule, n, more):
    n_k = n + more
    assert torch.equal(rule.mask(n, n_k), rule.mask(n_k)[more:])


@given(a=RULES, b=RULES, n=st.integers(0, 9))
def test_edges_count_the_true_entries_each_once(a, b, n):
    for rule in (a, b, a | b, a & b):
        assert rule.edges(n) == int(rule.mask(n).sum())


@given(rule=RULES, n=st.integers(1, 6))
def test_a_mask_is_bool_owns_its_numbers_and_asks_only_for_whole_positions(rule, n):
    mask = rule.mask(n)
    assert mask.dtype == torch.bool
    assert mask.is_contiguous()
    mask[:] = False  # an expanded view would refuse, or change a neighbour
    assert rule.mask(n).any()


def test_positions_may_have_any_shapes_that_broadcast():
    i, j = torch.arange(4)[:, None, None], torch.arange(3)
    for rule in (Full(), Causal(), Full() & Causal()):
        assert rule.allowed(i, j).expand(4, 1, 3).shape == (4, 1, 3)


def test_patterns_print_compare_and_hash_as_what_they_are():
    rule = Near(2) & (Causal() | Full())
    assert repr(rule) == "(Near(w=2) & (Causal() | Full()))"
    assert rule == Near(2) & (Causal() | Full())
    assert rule != Near(3) & (Causal() | Full())
    assert (Causal() | Full()) != (Causal() & Full())
    assert len({Causal(), Causal(), Full()}) == 2
    assert pickle.loads(pickle.dumps(Causal() | Full())) == Causal() | Full()
    with pytest.raises(FrozenInstanceError):
        Near(2).w = 3


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("rule", [Full(), Causal(), Full() & Causal()])
@pytest.mark.parametrize(("n", "n_k"), [(-1, None), (3, 2), (-2, -1)])
def test_impossible_lengths_are_refused(rule, n, n_k):
    with pytest.raises(ValueError, match=f"0 <= n <= n_k .*, got n={n}, n_k={n_k or n}"):
        rule.mask(n, n_k)


@pytest.mark.parametrize("rule", [Full(), Causal(), Full() & Causal()])
def test_edges_of_a_negative_length_are_refused(rule):
    with pytest.raises(ValueError, match=r"0 <= n <= n_k .*, got n=-3"):
        rule.edges(-3)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("n", [2.0, True, "3"])
def test_a_length_that_is_no_whole_number_is_refused(n):
    with pytest.raises(TypeError, match=f"n must be a whole number, got {n!r}"):
        Causal().mask(n)
    with pytest.raises(TypeError, match=f"n must be a whole number, got {n!r}"):
        Causal().edges(n)


@pytest.mark.usefixtures("refusals")
def test_numpy_integers_are_lengths():
    assert torch.equal(Causal().mask(np.int64(3)), Causal().mask(3))


def test_a_pattern_has_no_truth_value():
    with pytest.raises(
        TypeError,
        match=r"Causal\(\) is a rule and has no truth value; combine patterns with \| and &",
    ):
        Causal() and Full()


def test_a_rule_without_an_answer_is_refused():
    with pytest.raises(TypeError, match=r"Pattern must define allowed\(i, j\)"):
        Pattern().mask(2)


@pytest.mark.parametrize("other", [3, torch.ones(2, 2, dtype=torch.bool), None])
def test_patterns_combine_with_patterns_only(other):
    for combine in (lambda: Causal() | other, lambda: Causal() & other):
        with pytest.raises(TypeError, match="unsupported operand"):
            combine()


@pytest.mark.parametrize(
    ("block_size", "n", "borders"),
    [
        (1, 130, [0, 64, 128]),
        (8, 200, [0, 64, 128, 192]),
        (13, 120, [0, 52, 104]),  # four blocks; five would be 65 queries
        (48, 100, [0, 48, 96]),
        (64, 65, [0, 64]),
        (100, 250, [0, 100, 200]),
        (4, 0, []),
    ],
)
def test_small_blocks_are_joined_up_to_sixty_four_queries(block_size, n, borders):
    assert whole_blocks(block_size, n) == borders


@pytest.mark.parametrize(("of_queries", "of_keys"), [("int16", "int64"), ("int64", "int16")])
def test_queries_and_keys_may_come_in_different_integers(of_queries, of_keys):
    i, j = torch.arange(300)[:, None], torch.arange(300)
    for rule in (Random(300, 2, seed=0), BlockLocal(250, before=130), Strided(7)):
        found = rule.allowed(i.to(getattr(torch, of_queries)), j.to(getattr(torch, of_keys)))
        assert torch.equal(found, rule.allowed(i, j))
