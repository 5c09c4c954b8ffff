"""Gradients of the families that take a padding, with NaN where no token is."""

import math

import pytest
import torch

from tinyattn.families import linear_attention, linear_attention_weights, nystrom_attention

from .heads_of import gradients, heads

REAL = torch.tensor([[True] * 6 + [False] * 3, [True] * 2 + [False] * 7])
ABSENT = ~REAL[:, None, :, None]


def weighed(q, k, v, *, key_padding):
    return linear_attention_weights(q, k, key_padding=key_padding) @ v.masked_fill(ABSENT, 0.0)


def causal(q, k, v, *, key_padding):
    return linear_attention(q, k, v, causal=True, key_padding=key_padding, chunk_size=4)


def landmarks(q, k, v, *, key_padding):
    return nystrom_attention(q, k, v, n_landmarks=3, key_padding=key_padding)


@pytest.mark.parametrize("filling", [math.nan, math.inf])
@pytest.mark.parametrize("family", [linear_attention, causal, weighed, landmarks])
def test_gradients_of_real_tokens_do_not_depend_on_what_stands_in_padded_ones(family, filling):
    q, k, v = heads()
    filled = [x.detach().masked_fill(ABSENT, filling).requires_grad_() for x in (k, v)]
    asks = q
    if family is landmarks:  # each token asks and is read: q is padded as well
        asks = q.detach().masked_fill(ABSENT, filling).requires_grad_()

    def slopes(*tensors):
        return gradients(family(*tensors, key_padding=REAL).transpose(1, 2)[REAL], tensors)

    for ours, theirs in zip(slopes(asks, *filled), slopes(q, k, v), strict=True):
        assert torch.equal(ours, theirs)
