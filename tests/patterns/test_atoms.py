"""Windows, gaps, strides and blocks: their counts on paper, and what they refuse."""

import pytest
import torch

from tinyattn.patterns import BlockLocal, Causal, Dilated, Strided, Window, radius_from_window
from tinyattn.patterns.pieces import After, LastOfBlock, Summaries


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 40])
@pytest.mark.parametrize("w", [0, 1, 4, 5, 6])
def test_a_window_counts_what_the_papers_formula_says(n, w):
    inside = min(w, n - 1)  # a radius beyond the sequence reads no further
    assert Window(w).edges(n) == n * (2 * inside + 1) - inside * (inside + 1)
    causal = (Window(w) & Causal()).edges(n)
    assert 2 * causal == n * (2 * inside + 2) - inside * (inside + 1)


@pytest.mark.parametrize("n", [7, 20, 41])
@pytest.mark.parametrize(("w", "dilation"), [(1, 2), (2, 3), (0, 5), (3, 2)])
def test_a_dilated_window_counts_what_the_papers_formula_says(n, w, dilation):
    assert n > w * dilation
    assert Dilated(w, dilation).edges(n) == n * (2 * w + 1) - dilation * w * (w + 1)


@pytest.mark.parametrize("w", [0, 2, 50])
@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_dilation_of_one_is_a_plain_window(w, n):
    assert torch.equal(Dilated(w).mask(n), Window(w).mask(n))
    assert torch.equal(Dilated(w, 1).mask(n), Window(w).mask(n))
    assert Dilated(w).edges(n) == Window(w).edges(n)


@pytest.mark.parametrize("stride", [1, 2, 4, 12, 13, 100])
def test_a_stride_that_divides_n_leaves_one_pair_in_stride(stride):
    if 12 % stride == 0:
        assert Strided(stride).edges(12) == 12 * 12 // stride
    if stride >= 12:
        assert torch.equal(Strided(stride).mask(12), torch.eye(12, dtype=torch.bool))


@pytest.mark.parametrize(("size", "n"), [(4, 16), (4, 17), (4, 3), (1, 5), (100, 5), (4, 0)])
def test_blocks_cut_short_count_as_many_pairs_as_they_have(size, n):
    whole, rest = divmod(n, size)
    assert BlockLocal(size).edges(n) == whole * size**2 + rest**2


def test_neighbours_are_counted_block_by_block_to_the_short_last_one():
    # blocks of 4, 4, 2: rows times the keys of their own and the two blocks before, one behind
    assert BlockLocal(4, before=2, after=1).edges(10) == 4 * 8 + 4 * 10 + 2 * 10
    assert BlockLocal(4, before=9, after=9).edges(10) == 100


def test_a_block_of_everything_is_dense_and_a_block_of_one_is_a_diagonal():
    assert BlockLocal(9).mask(9).all()
    assert torch.equal(BlockLocal(1).mask(9), torch.eye(9, dtype=torch.bool))
    assert torch.equal(BlockLocal(1, before=2, after=2).mask(9), Window(2).mask(9))


def test_blocks_are_counted_from_the_first_key_wherever_the_queries_start():
    assert BlockLocal(4).mask(3, 10).int().tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 0, 0],  # position 7
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
    ]


@pytest.mark.parametrize(("window", "w"), [(0, 0), (2, 1), (512, 256)])
def test_a_window_that_counts_both_sides_is_twice_the_radius(window, w):
    assert radius_from_window(window) == w
    assert int(Window(w).mask(600)[300].sum()) == window + 1


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_away_from_the_ends_holds_as_many_keys_as_the_docstring_says(causal):
    for rule, each_side in ((Window(3), 3), (Dilated(3, 4), 3)):
        row = (rule & Causal() if causal else rule).mask(50)[25]
        assert int(row.sum()) == each_side + 1 + (0 if causal else each_side)


@pytest.mark.parametrize(("n", "pairs"), [(0, 0), (1, 0), (2, 0), (3, 1), (7, 25)])
def test_tokens_after_a_start_have_their_square_of_pairs_and_a_short_sequence_none(n, pairs):
    assert After(2).edges(n) == int(After(2).mask(n).sum()) == pairs


@pytest.mark.parametrize(("n", "pairs"), [(0, 0), (3, 0), (4, 1), (5, 2), (6, 3), (9, 6), (20, 6)])
def test_summaries_read_as_many_tokens_as_their_sentences_have_here(n, pairs):
    rule = Summaries((2, 0, 4))
    assert rule.edges(n) == int(rule.mask(n).sum()) == pairs


REFUSED = {
    "a negative window": (lambda: Window(-1), ValueError, "w must be 0 or more keys per side, got -1"),
    "half a key": (lambda: Window(1.5), TypeError, r"w must be a whole number, got 1\.5"),
    "a yes": (lambda: Window(True), TypeError, "w must be a whole number, got True"),
    "a negative dilated window": (
        lambda: Dilated(-2), ValueError, "w must be 0 or more keys per side, got -2",
    ),
    "no dilation": (lambda: Dilated(1, 0), ValueError, "dilation must be 1 or more, got 0"),
    "half a dilation": (
        lambda: Dilated(1, 2.5), TypeError, r"dilation must be a whole number, got 2\.5",
    ),
    "no stride": (lambda: Strided(0), ValueError, "stride must be 1 or more, got 0"),
    "a stride that is none": (lambda: Strided(None), TypeError, "stride must be a whole number, got None"),
    "empty blocks": (lambda: BlockLocal(0), ValueError, "block_size must be 1 or more, got 0"),
    "broken blocks": (
        lambda: BlockLocal(2.0), TypeError, r"block_size must be a whole number, got 2\.0",
    ),
    "less than no blocks before": (
        lambda: BlockLocal(2, before=-1), ValueError, "before must be 0 or more blocks, got -1",
    ),
    "less than no blocks behind": (
        lambda: BlockLocal(2, after=-1), ValueError, "after must be 0 or more blocks, got -1",
    ),
    "an odd window": (lambda: radius_from_window(5), ValueError, "must be even and 0 or more, got 5"),
    "a window below none": (lambda: radius_from_window(-2), ValueError, "even and 0 or more, got -2"),
    "a window of a float": (
        lambda: radius_from_window(4.0), TypeError, r"window must be a whole number, got 4\.0",
    ),
    "a start before the first token": (
        lambda: After(-1), ValueError, "start must be 0 or more tokens, got -1",
    ),
    "a start between two tokens": (
        lambda: After(2.5), TypeError, r"start must be a whole number, got 2\.5",
    ),
    "more summaries than tokens": (
        lambda: LastOfBlock(4, 5), ValueError, "c in 1 … block_size, got block_size=4, c=5",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("build", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_cannot_be_are_refused(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()


def test_the_reach_of_a_dilated_band_is_a_number_of_int64():
    assert Dilated(2**31, 2**31).edges(3) == 3
    with pytest.raises(
        ValueError, match=r"w \* dilation must be below 2\^63, .* got 18446744073709551616"
    ):
        Dilated(2**32, 2**32)
