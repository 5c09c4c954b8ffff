"""The counting baseline against its definition written as loops."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.ngram import WittenBell


def witten_bell_by_hand(pieces, order, vocab_size, history, w):
    """The docstring's formula, counting anew for every history."""
    history = list(history)[max(0, len(history) - order + 1) :]
    p = 1 / vocab_size
    for length in range(len(history) + 1):
        h = history[len(history) - length :]
        followers = [
            piece[at + length]
            for piece in pieces
            for at in range(len(piece) - length)
            if list(piece[at : at + length]) == h
        ]
        if followers:
            kinds = len(set(followers))
            p = (followers.count(w) + kinds * p) / (len(followers) + kinds)
    return p


texts = st.lists(st.integers(0, 3), min_size=1, max_size=25)


@given(pieces=st.lists(texts, min_size=1, max_size=3), text=texts, order=st.integers(1, 6))
def test_probabilities_follow_the_definition(pieces, text, order):
    model = WittenBell(order, 4).fit(*[torch.tensor(piece) for piece in pieces])
    expected = [
        witten_bell_by_hand(pieces, order, 4, text[:at], text[at]) for at in range(len(text))
    ]
    np.testing.assert_allclose(model.probabilities(torch.tensor(text)), expected, rtol=1e-12)


@given(pieces=st.lists(texts, min_size=1, max_size=3), history=st.lists(st.integers(0, 3)))
def test_what_can_follow_any_history_sums_to_one(pieces, history):
    model = WittenBell(4, 4).fit(*[torch.tensor(piece) for piece in pieces])
    following = model.next_probabilities(torch.tensor(history, dtype=torch.long))
    assert following.sum().item() == pytest.approx(1, abs=1e-12)
    assert following.min() > 0


def test_the_next_character_has_the_probability_it_gets_in_a_text():
    ids = torch.randint(5, (300,), generator=torch.Generator().manual_seed(0))
    model = WittenBell(3, 5).fit(ids[:200])
    for at in (200, 250, 299):
        following = model.next_probabilities(ids[:at])
        assert following[ids[at]].item() == pytest.approx(model.probabilities(ids)[at])


def test_no_history_crosses_from_one_piece_to_the_next():
    apart = WittenBell(2, 3).fit(torch.tensor([0, 1]), torch.tensor([2, 0]))
    joined = WittenBell(2, 3).fit(torch.tensor([0, 1, 2, 0]))
    after_1 = torch.tensor([1])
    assert torch.equal(apart.next_probabilities(after_1), apart.next_probabilities(after_1[:0]))
    assert joined.next_probabilities(after_1)[2] > apart.next_probabilities(after_1)[2]


def test_bits_are_the_mean_surprise_of_the_scored_part():
    ids = torch.tensor([0, 1, 0, 1, 1, 0, 1])
    model = WittenBell(3, 2).fit(ids)
    surprise = [-math.log2(p) for p in model.probabilities(ids)]
    assert model.bits_per_character(ids) == pytest.approx(sum(surprise) / 7)
    assert model.bits_per_character(ids, start=4) == pytest.approx(sum(surprise[4:]) / 3)


def test_fitting_again_starts_afresh():
    model = WittenBell(2, 2).fit(torch.tensor([0, 0, 0, 0]))
    refitted = model.fit(torch.tensor([1, 0, 1, 0]))
    fresh = WittenBell(2, 2).fit(torch.tensor([1, 0, 1, 0]))
    text = torch.tensor([0, 1, 1])
    np.testing.assert_array_equal(refitted.probabilities(text), fresh.probabilities(text))


def test_half_a_million_characters_take_seconds():
    ids = torch.randint(97, (500_000,), generator=torch.Generator().manual_seed(0))
    began = time.process_time()
    model = WittenBell(5, 97).fit(ids[:450_000])
    model.bits_per_character(ids[450_000:])
    assert time.process_time() - began < 10  # far above what it takes, far below what loops take


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="got order=0, vocab_size=5"):
        WittenBell(0, 5)
    with pytest.raises(ValueError, match="fit needs at least one character"):
        WittenBell(2, 5).fit()
    with pytest.raises(ValueError, match="fit needs at least one character"):
        WittenBell(2, 5).fit(torch.tensor([], dtype=torch.long))
    with pytest.raises(ValueError, match=r"tokens must lie in 0 \.\. 4, got 0 \.\. 5"):
        WittenBell(2, 5).fit(torch.tensor([0, 5]))
    with pytest.raises(ValueError, match=r"tokens must lie in 0 \.\. 5, got -1 \.\. 2$"):
        WittenBell(2, 6).fit(torch.tensor([2, -1]))
    for ask in (WittenBell(2, 5).probabilities, WittenBell(2, 5).next_probabilities):
        with pytest.raises(ValueError, match="fit the model before"):
            ask(torch.tensor([1]))
    model = WittenBell(2, 5).fit(torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match=r"start must lie in 0 \.\. 2, got 3"):
        model.bits_per_character(torch.tensor([0, 1, 2]), start=3)


def test_a_text_must_be_one_row_of_whole_numbers():
    model = WittenBell(2, 5)
    with pytest.raises(TypeError, match=r"token numbers, got 1-D of dtype float32"):
        model.fit(torch.tensor([0.5, 1.0]))
    with pytest.raises(TypeError, match=r"token numbers, got 2-D of dtype int64"):
        model.fit(np.zeros((2, 2), dtype=np.int64))
