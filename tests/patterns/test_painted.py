"""A matrix as a rule."""

import pickle

import numpy as np
import pytest
import torch

from tinyattn.patterns import Causal, Painted, Window

from .by_hand import scattered


@pytest.mark.parametrize("n", [0, 1, 5, 70])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_rule_is_the_matrix(n, share):
    mask = scattered(n, share=share)
    assert torch.equal(Painted(mask).mask(n), mask)
    assert Painted(mask).edges(n) == int(mask.sum())


def test_nothing_outside_the_matrix_is_allowed():
    mask = torch.ones(3, 3, dtype=torch.bool)
    assert Painted(mask).edges(5) == 9
    assert Painted(mask).mask(2, 5).sum() == 0  # positions 3 and 4
    assert torch.equal(Painted(mask).mask(2, 3), mask[1:])


def test_an_empty_matrix_allows_nothing_anywhere():
    rule = Painted(torch.ones(0, 0, dtype=torch.bool))
    assert rule.edges(0) == 0
    assert torch.equal(rule.mask(2, 4), torch.zeros(2, 4, dtype=torch.bool))


def test_what_was_painted_is_a_copy():
    mask = torch.eye(4, dtype=torch.bool)
    rule = Painted(mask)
    mask[0, 3] = True
    assert torch.equal(rule.mask(4), torch.eye(4, dtype=torch.bool))
    rule.mask(4)[0, 3] = True
    assert rule.edges(4) == 4


def test_a_transposed_view_is_painted_as_it_looks():
    mask = scattered(6)
    assert torch.equal(Painted(mask.T).mask(6), mask.T)


def test_equal_matrices_are_equal_rules():
    mask = scattered(6)
    assert Painted(mask) == Painted(mask.clone())
    assert hash(Painted(mask)) == hash(Painted(mask.clone()))
    assert Painted(mask) != Painted(~mask)
    # as many bytes, another shape would be another matrix
    assert Painted(torch.zeros(1, 1, dtype=torch.bool)) != Painted(
        torch.zeros(2, 2, dtype=torch.bool)
    )


def test_it_says_its_size_and_not_its_numbers():
    assert repr(Painted(torch.eye(3, dtype=torch.bool))) == "Painted(n=3, edges=3)"
    assert (
        repr(Painted(torch.eye(3, dtype=torch.bool)) & Causal())
        == "(Painted(n=3, edges=3) & Causal())"
    )


def test_it_combines_like_any_rule():
    mask = scattered(9)
    rule = (Painted(mask) | Window(1)) & Causal()
    assert torch.equal(rule.mask(9), (mask | Window(1).mask(9)) & Causal().mask(9))


REFUSED = {
    "floats": (torch.ones(2, 2), TypeError, "a bool tensor, True = may read, got torch.float32"),
    "a list": ([[True]], TypeError, "a bool tensor, True = may read, got list"),
    "an array": (np.ones((2, 2), dtype=bool), TypeError, "a bool tensor, .* got ndarray"),
    "a strip": (torch.ones(2, 3, dtype=torch.bool), ValueError, r"must be \(n, n\), got \(2, 3\)"),
    "a row": (torch.ones(3, dtype=torch.bool), ValueError, r"must be \(n, n\), got \(3,\)"),
    "a batch": (torch.ones(3, 3, 3, dtype=torch.bool), ValueError, r"\(n, n\), got \(3, 3, 3\)"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("mask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_square_bool_matrix_is_refused(mask, error, sentence):
    with pytest.raises(error, match=sentence):
        Painted(mask)


def test_a_painted_matrix_is_copied_once_and_travels_once():
    rule = Painted(torch.eye(300, dtype=torch.bool))
    size, fresh = len(pickle.dumps(rule)), Painted(torch.eye(300, dtype=torch.bool))
    rule.mask(300)
    assert rule._matrix is rule._matrix
    assert len(pickle.dumps(rule)) == size < 300**2 + 1000
    assert rule == fresh
    assert hash(rule) == hash(fresh)
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert torch.equal(again.mask(300), rule.mask(300))
