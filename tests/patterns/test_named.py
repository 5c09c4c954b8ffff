"""Published models: their counts on paper, their two hops, what they refuse."""

import pytest
import torch

from tinyattn.patterns import (
    Causal,
    Global,
    Random,
    Window,
    bigbird,
    etc,
    longformer,
    sparse_fixed,
    sparse_fixed_factors,
    sparse_strided,
    sparse_strided_factors,
    star_transformer,
)
from tinyattn.patterns.base import Union


def two_hops(first, second):
    """Pairs joined by reading once with each of two masks, or with both at once."""
    return (first.float() @ second.float()) > 0


def band(n, w):
    return n * (2 * w + 1) - w * (w + 1)


# ----------------------------------------------------------------------------------- counts


@pytest.mark.parametrize(
    ("rule", "n", "pairs"),
    [
        (star_transformer(), 13, 59), (longformer(w=2, g=2), 40, 340),
        (bigbird(32, block_size=2, r=3, seed=0), 32, 568),
        (sparse_strided(8), 64, 708), (sparse_strided(10), 100, 1405),
        (sparse_fixed(8, c=1), 64, 512), (sparse_fixed(8, c=2), 64, 736),
        (sparse_fixed(8, c=4), 64, 1184), (sparse_fixed(8, c=8), 64, 2080),
    ],
)  # fmt: skip
def test_counts_are_those_worked_out_on_paper(rule, n, pairs):
    assert rule.edges(n) == int(rule.mask(n).sum()) == pairs


@pytest.mark.parametrize("n_tokens", [1, 2, 12, 30])
def test_a_star_has_five_pairs_for_each_token_but_one(n_tokens):
    assert star_transformer().edges(1 + n_tokens) == 5 * n_tokens - 1


@pytest.mark.parametrize("g", [0, 1, 3, (0, 20, 39)])
def test_longformer_counts_a_window_and_globals_without_what_both_have(g):
    n, w = 40, 2
    common = int((Window(w).mask(n) & Global(g).mask(n)).sum())
    assert longformer(w, g).edges(n) == band(n, w) + Global(g).edges(n) - common


@pytest.mark.parametrize(("n_global", "n_text", "w"), [(0, 9, 2), (1, 9, 2), (3, 20, 4), (4, 0, 1)])
def test_etc_counts_its_four_pieces(n_global, n_text, w):
    pieces = n_global * (n_global + 2 * n_text) + (
        band(n_text, min(w, n_text - 1)) if n_text else 0
    )
    assert etc(n_global, w).edges(n_global + n_text) == pieces


def test_etc_with_sentences_counts_each_token_of_the_text_in_one_summary():
    n_text, sentences = 9, (4, 0, 5)
    expected = 3 * 3 + n_text + 3 * n_text + band(n_text, 1)
    assert etc(3, 1, sentences).edges(3 + n_text) == expected


@pytest.mark.usefixtures("refusals")
def test_sentences_may_be_a_list():
    assert etc(3, 1, [4, 0, 5]) == etc(3, 1, (4, 0, 5))
    assert hash(etc(3, 1, [4, 0, 5])) == hash(etc(3, 1, (4, 0, 5)))


@pytest.mark.parametrize(("n", "size", "r"), [(32, 2, 3), (64, 4, 2), (60, 5, 1), (48, 4, 0)])
def test_bigbird_counts_what_the_degrees_of_its_blocks_add_up_to(n, size, r):
    n_blocks = n // size
    pairs = 2 * size * n + 2 * size * (4 + r) * size + (n_blocks - 4) * size * (5 + r) * size
    rule = bigbird(n, size, r, seed=9)
    assert rule.edges(n) == pairs
    degrees = rule.mask(n)[::size].sum(dim=1).tolist()
    middle = [(5 + r) * size] * (n_blocks - 4)
    assert degrees == [n, (4 + r) * size, *middle, (4 + r) * size, n]


# --------------------------------------------------------------------------------- structure


def test_bigbirds_last_block_is_global_even_if_it_is_short():
    rule = bigbird(9, block_size=2, r=0, seed=0)
    assert rule.left.left == Global((0, 1, 8))
    assert rule.mask(9).sum(dim=1).tolist() == [9, 9, 7, 7, 9, 9, 7, 7, 9]  # not 8


@pytest.mark.parametrize("n_global", [None, 4, 8])
def test_bigbirds_random_blocks_lie_outside_its_other_rules(n_global):
    n = 48
    rule = bigbird(n, 4, 2, seed=1, n_global=n_global)
    assert isinstance(rule, Union)
    assert isinstance(rule.right, Random)
    assert not (rule.left.mask(n) & rule.right.mask(n)).any()
    assert torch.equal(rule.mask(n), bigbird(n, 4, 2, seed=1, n_global=n_global).mask(n))
    assert not torch.equal(rule.mask(n), bigbird(n, 4, 2, seed=2, n_global=n_global).mask(n))


def test_bigbirds_external_globals_come_first_and_the_last_block_is_ordinary():
    mask = bigbird(48, 4, 1, seed=0, n_global=8).mask(48)
    assert mask[:8].all()
    assert mask[:, :8].all()
    assert not mask[-1].all()
    assert not mask[:, -1].all()


def test_bigbird_without_random_blocks_and_globals_would_be_a_band_of_blocks():
    mask = bigbird(40, 4, 0, seed=0, n_global=0).mask(40)
    assert mask.view(10, 4, 10, 4).any(dim=3).any(dim=1).sum(dim=1).tolist() == [2, *[3] * 8, 2]


@pytest.mark.parametrize(
    "rule",
    [star_transformer(), longformer(1, 1), etc(2, 1), bigbird(24, 2, 1, 0), longformer(0, (23,))],
)
def test_a_global_token_joins_any_two_tokens_in_two_hops(rule):
    mask = rule.mask(24)
    assert two_hops(mask, mask).all()


@pytest.mark.parametrize(("n", "stride"), [(16, 4), (64, 8), (30, 5), (17, 4)])
def test_both_orders_of_the_strided_factors_cover_the_past(n, stride):
    near, far = (rule.mask(n) for rule in sparse_strided_factors(stride))
    past = Causal().mask(n)
    assert torch.equal(two_hops(near, far), past)
    assert torch.equal(two_hops(far, near), past)
    assert torch.equal(two_hops((near | far), (near | far)), past)


@pytest.mark.parametrize(("n", "stride", "c"), [(16, 4, 1), (64, 8, 2), (30, 5, 5), (17, 4, 2)])
def test_two_steps_of_fixed_attention_cover_the_past(n, stride, c):
    mask, past = sparse_fixed(stride, c).mask(n), Causal().mask(n)
    assert torch.equal(two_hops(mask, mask), past)


@pytest.mark.parametrize("stride", [1, 3, 8, 70])
def test_both_readings_of_the_strided_paper_have_one_union(stride):
    n = 64
    code = Window(stride - 1) & Causal()  # i - j < stride
    far = sparse_strided_factors(stride)[1]
    assert torch.equal((code | far).mask(n), sparse_strided(stride).mask(n))


def test_all_columns_as_summaries_make_fixed_attention_dense():
    assert torch.equal(sparse_fixed(8, 8).mask(30), Causal().mask(30))


def test_early_rows_of_the_second_fixed_factor_read_nothing():
    far = sparse_fixed_factors(8, 1)[1].mask(64)
    assert (~far.any(dim=1)).nonzero()[:, 0].tolist() == list(range(7))


def test_factors_are_the_halves_of_the_merged_rules():
    for rule, halves in (
        (sparse_strided(6), sparse_strided_factors(6)),
        (sparse_fixed(6, 2), sparse_fixed_factors(6, 2)),
    ):
        assert rule == halves[0] | halves[1]


def test_a_sentence_is_read_by_its_own_summary_alone():
    mask = etc(2, 1, (3, 2)).mask(7)
    assert mask[0].tolist() == [True, True, True, True, True, False, False]
    assert mask[1].tolist() == [True, True, False, False, False, True, True]
    assert mask[2:, :2].all()


def test_text_behind_the_last_sentence_is_in_no_summary():
    assert etc(1, 0, (2,)).mask(6)[0].tolist() == [True, True, True, False, False, False]


def test_expressions_print_as_what_they_are_made_of():
    assert repr(star_transformer()) == "(Window(w=1) | Global(g=1, reads=True))"
    assert repr(sparse_strided(2)) == (
        "((Window(w=2) & Causal()) | (Strided(stride=2) & Causal()))"
    )


# ---------------------------------------------------------------------------------- refusals


REFUSED = {
    "one block": (lambda: bigbird(3, 2, 1, 0), ValueError, "two whole blocks or more, got n=3, block_size=2"),
    "globals that cut a block": (
        lambda: bigbird(32, 4, 1, 0, n_global=6), ValueError,
        "n_global must be a multiple of block_size=4 and at most n=32, got 6",
    ),
    "more globals than tokens": (
        lambda: bigbird(32, 4, 1, 0, n_global=36), ValueError, "at most n=32, got 36",
    ),
    "fewer globals than none": (
        lambda: bigbird(32, 4, 1, 0, n_global=-4), ValueError, "n_global must be 0 or more tokens, got -4",
    ),
    "empty blocks": (
        lambda: bigbird(32, 0, 1, 0, n_global=0), ValueError, "block_size must be 1 or more, got 0",
    ),
    "broken blocks": (lambda: bigbird(32, 2.0, 1, 0), TypeError, r"block_size must be a whole number, got 2\.0"),
    "external tokens in words": (
        lambda: bigbird(32, 4, 1, 0, n_global="4"), TypeError, "n_global must be a whole number, got '4'",
    ),
    "half a token": (lambda: bigbird(32.5, 2, 1, 0), TypeError, r"n must be a whole number, got 32\.5"),
    "too many random blocks": (lambda: bigbird(32, 4, 9, 0), ValueError, r"r must be in 0 … 8, .* got 9"),
    "a negative radius": (lambda: longformer(-1, 1), ValueError, "w must be 0 or more keys per side"),
    "a sentence too few": (
        lambda: etc(2, 1, (3,)), ValueError, "one sentence length for each of the 2 global tokens, got 1",
    ),
    "a negative sentence": (lambda: etc(1, 1, (-3,)), ValueError, r"0 tokens or more, got \(-3,\)"),
    "half a sentence": (lambda: etc(1, 1, (1.5,)), TypeError, r"sentences must be a whole number, got 1\.5"),
    "fewer externals than none": (lambda: etc(-1, 1), ValueError, "n_global must be 0 or more tokens, got -1"),
    "no stride": (lambda: sparse_strided(0), ValueError, "stride must be 1 or more, got 0"),
    "no summary": (lambda: sparse_fixed(4, 0), ValueError, r"c in 1 … block_size, got block_size=4, c=0"),
    "half a summary": (lambda: sparse_fixed(4, 1.5), TypeError, r"c must be a whole number, got 1\.5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("build", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_models_that_cannot_be_are_refused(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()


@pytest.mark.parametrize("sentences", [(3,), (3, 4, 5)])
def test_a_sentence_for_each_global_token_no_more_and_no_less(sentences, refusals):
    with pytest.raises(ValueError, match=f"2 global tokens, got {len(sentences)}"):
        etc(2, 1, sentences)
