"""A mask in words: every number and every claim is true."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyattn.patterns import Causal, Full
from tinyattn.show import describe_mask


def band(n, before, after):
    offset = np.arange(n) - np.arange(n)[:, None]
    return (offset >= -before) & (offset <= after)


def shape_of(mask):
    """The sentences after the counts."""
    return describe_mask(mask).split(". ", 2)[-1]


def test_the_whole_text_of_a_pattern():
    assert describe_mask(Causal(), 4) == (
        "Causal() for 4 queries and 4 keys: 10 of 16 pairs allowed, density 62.5 %. "
        "Keys per query: 1 to 4, mean 2.5. "
        "A query reads its own position and every earlier one."
    )


def test_the_whole_text_of_a_matrix():
    assert describe_mask(torch.tensor([[True, False, True]])) == (
        "A mask for 1 query and 3 keys: 2 of 3 pairs allowed, density 66.7 %. "
        "Keys per query: 2 each. The query reads keys 0, 2."
    )


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (Full().mask(5), "Every query reads every key."),
        (np.zeros((3, 4), dtype=bool), "No query reads anything."),
        (np.eye(6, dtype=bool), "A query reads its own position only."),
        (Causal().mask(3, 7), "A query reads its own position and every earlier one."),
        (band(9, 2, 2), "A query reads itself and 2 keys on each side."),
        (band(9, 1, 1), "A query reads itself and 1 key on each side."),
        (band(9, 3, 0), "A query reads itself and 3 keys before it."),
        (
            band(9, 2, 2) & ~band(9, 1, 1) | np.eye(9, dtype=bool),
            "A query reads the keys at distance -2, 0, 2 from it (negative is before).",
        ),
    ],
)
def test_shapes_are_named(mask, sentence):
    assert shape_of(mask) == sentence


def test_global_tokens_are_listed_and_the_band_beside_them_is_named():
    mask = band(12, 1, 1)
    mask[[0, 5], :] = True
    mask[:, [0, 5]] = True
    assert shape_of(mask) == (
        "Queries 0, 5 read every key. Every query reads keys 0, 5. "
        "Apart from these, a query reads itself and 1 key on each side."
    )


def test_a_broken_diagonal_is_no_band():
    mask = band(9, 1, 1)
    mask[4, 5] = False
    assert "side" not in describe_mask(mask)


def test_queries_that_read_nothing_are_listed():
    mask = band(6, 1, 1)
    mask[[1, 2, 3, 5], :] = False
    assert "Queries 1 to 3, 5 read nothing." in describe_mask(mask)


def test_a_mask_without_a_future_is_called_so():
    mask = Causal().mask(6).numpy()
    mask[3, [1, 3]] = False
    assert shape_of(mask) == (
        "Query 5 reads every key. Every query reads key 0. No query reads a later position."
    )
    mask[1, 4] = True
    assert "later" not in describe_mask(mask)


@given(hnp.arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_counts_are_those_of_the_mask(mask):
    n_q, n_k, count, pairs = map(
        int,
        re.match(
            r"A mask for (\d+) \w+ and (\d+) keys?: (\d+) of (\d+) ", describe_mask(mask)
        ).groups(),
    )
    assert ((n_q, n_k), pairs, count) == (mask.shape, mask.size, mask.sum())
    rows = [sum(row) for row in mask.tolist()]
    each = re.search(r"query: (\d+)(?: each| to (\d+), mean ([\d.]*\d))", describe_mask(mask))
    least, most, mean = each.groups(default=each[1])
    assert (int(least), int(most)) == (min(rows), max(rows))
    assert float(mean) == pytest.approx(sum(rows) / len(rows), rel=0.005)


@given(
    st.integers(1, 8), st.integers(0, 5), st.sets(st.integers(-7, 12)), st.sets(st.integers(0, 12))
)
def test_the_named_distances_rebuild_the_mask(n, more, distances, columns):
    n_k = n + more
    i, j = np.arange(n)[:, None] + more, np.arange(n_k)
    mask = np.isin(j - i, sorted(distances)) | np.isin(j, sorted(columns))
    text = describe_mask(mask)
    rebuilt = np.zeros_like(mask)
    if "Every query reads every key" in text:
        rebuilt[:] = True
    if found := re.search(r"(?:Every|The) query reads keys? ([\d, to]+)\.", text):
        rebuilt |= np.isin(j, places(found[1]))
    if found := re.search(r"Quer(?:y|ies) ([\d, to]+) reads? every key", text):
        rebuilt |= np.isin(i - more, places(found[1]))
    if found := re.search(r"at distance ([-\d, to]+) from", text):
        rebuilt |= np.isin(j - i, places(found[1]))
    if "its own position only" in text:
        rebuilt |= i == j
    if "its own position and every earlier" in text:
        rebuilt |= j <= i
    if found := re.search(r"itself and (\d+) keys? on each side", text):
        rebuilt |= abs(j - i) <= int(found[1])
    if found := re.search(r"itself and (\d+) keys? before it", text):
        rebuilt |= (j <= i) & (j >= i - int(found[1]))
    assert np.array_equal(rebuilt, mask), text


def places(text):
    numbers = []
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def test_a_pattern_without_a_size_is_refused():
    with pytest.raises(ValueError, match=r"give n with Causal\(\)"):
        describe_mask(Causal())


def test_a_mask_with_a_second_size_is_refused():
    with pytest.raises(ValueError, match="n and n_k go with a pattern"):
        describe_mask(torch.ones(2, 2, dtype=torch.bool), 2)


@pytest.mark.parametrize("mask", [torch.ones(3, 3), [[0, 1], [1, 1]]])
def test_numbers_are_no_mask(mask):
    with pytest.raises(TypeError, match=r"a mask is bool \(True = may read\), got (float32|int64)"):
        describe_mask(mask)


@pytest.mark.parametrize("shape", [(4,), (1, 1, 3, 3), (0, 3)])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(ValueError, match=r"a mask is \(n_q, n_k\) with both above 0, got shape"):
        describe_mask(torch.ones(shape, dtype=torch.bool))
