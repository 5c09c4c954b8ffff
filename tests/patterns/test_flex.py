"""The way out to FlexAttention."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from tinyattn import attention
from tinyattn.patterns import Causal, Random, Window, mask_mod

from ..close import assert_same
from . import by_hand

PUBLIC = by_hand.public(41)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


@EVERY
@pytest.mark.parametrize(("n", "n_k"), [(41, 41), (17, 41), (1, 1)])
def test_flexattentions_mask_is_the_definition(rule, n, n_k):
    mask = create_mask(mask_mod(rule.pattern, n, n_k), 2, 3, n, n_k, device="cpu")
    assert torch.equal(mask, rule.mask(n, n_k).expand(2, 3, n, n_k))


@EVERY
def test_flexattentions_blocks_are_those_in_which_something_is_allowed(rule):
    blocks = create_block_mask(mask_mod(rule.pattern, 41), 1, 1, 41, 41, device="cpu", BLOCK_SIZE=8)
    padded = torch.zeros(48, 48, dtype=torch.bool)
    padded[:41, :41] = rule.mask(41)
    live = padded.view(6, 8, 6, 8).any(dim=3).any(dim=1)
    assert torch.equal(blocks.to_dense()[0, 0].bool(), live)


def test_n_keys_are_n_queries_if_not_given():
    i, j = torch.arange(5)[:, None], torch.arange(5)
    assert torch.equal(mask_mod(Causal(), 5)(0, 0, i, j), Causal().mask(5))


def test_random_keys_are_drawn_before_flexattention_traces():
    rule = Random(9, 2, seed=0)
    assert "drawn" not in vars(rule)
    mask_mod(rule, 9)
    assert "drawn" in vars(rule)


@pytest.mark.usefixtures("refusals")  # the tracer cannot look through shape checks
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flexattention_computes_what_dense_attention_does():
    from torch.nn.attention.flex_attention import flex_attention

    rule = Window(3) | Random(40, 2, seed=0)
    q = torch.randn(1, 2, 24, 16, generator=torch.Generator().manual_seed(0))
    k, v = torch.randn(2, 1, 2, 40, 16, generator=torch.Generator().manual_seed(1))
    blocks = create_block_mask(mask_mod(rule, 24, 40), 1, 1, 24, 40, device="cpu")
    theirs = flex_attention(q, k, v, block_mask=blocks)
    assert_same(theirs, attention(q, k, v, rule.mask(24, 40)), rtol=1e-5, atol=1e-6)


REFUSED = {
    "a matrix": ((torch.eye(3), 3), TypeError, r"must be a rule such as Causal\(\), got Tensor"),
    "a class": ((Causal, 3), TypeError, r"must be a rule such as Causal\(\), got type"),
    "fewer keys than queries": ((Causal(), 3, 2), ValueError, r"0 <= n <= n_k .*, got n=3, n_k=2"),
    "half a token": ((Causal(), 2.5), TypeError, r"n must be a whole number, got 2\.5"),
    "more than was drawn": ((Random(4, 1, 0), 5), ValueError, "drawn for n=4 tokens, got 5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_does_not_fit_is_refused(args, error, sentence):
    with pytest.raises(error, match=sentence):
        mask_mod(*args)
