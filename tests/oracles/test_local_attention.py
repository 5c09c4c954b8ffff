"""Windows and blocks against local-attention, outputs and gradients."""

import pytest
import torch

from tinyattn.engine import sparse_attention
from tinyattn.patterns import BlockLocal, Causal, Window, image_1d

from ..close import assert_same

library = pytest.importorskip(
    "local_attention", reason="local-attention is in requirements-oracles.txt"
)

N = 96


def assert_equals(theirs, pattern, real=None):
    rng = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 3, N, 8, generator=rng, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    weights = torch.randn(2, 3, N, 8, generator=rng, dtype=torch.float64)
    ours = sparse_attention(q, k, v, pattern, key_padding=real)
    expected = theirs(q, k, v, mask=real)
    if real is not None:  # a row that reads nothing is uniform there and zero here
        readable = (pattern.mask(N) & real[:, None]).any(dim=-1)
        assert readable.any()
        weights = weights * readable[:, None, :, None]
        ours, expected = (x * readable[:, None, :, None] for x in (ours, expected))
    assert_same(ours, expected)
    grads = [torch.autograd.grad((x * weights).sum(), (q, k, v)) for x in (ours, expected)]
    for mine, other in zip(*grads, strict=True):
        assert_same(mine, other)


def some_padding():
    real = torch.ones(2, N, dtype=torch.bool)
    real[0, 50:] = False
    real[1, [0, 3, 40, 41, 95]] = False
    return real


PADDED = pytest.mark.parametrize("real", [None, some_padding()], ids=["whole", "padded"])


@PADDED
@pytest.mark.parametrize("w", [4, 16, 48])
def test_a_window_is_their_exact_window_on_both_sides(w, real):
    theirs = library.LocalAttention(
        window_size=w, causal=False, look_backward=1, look_forward=1, exact_windowsize=True,
        use_rotary_pos_emb=False,
    )  # fmt: skip
    assert_equals(theirs, Window(w), real)


@PADDED
@pytest.mark.parametrize("w", [4, 16, 48])
def test_a_causal_window_is_their_exact_causal_window(w, real):
    theirs = library.LocalAttention(
        window_size=w, causal=True, look_backward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )
    assert_equals(theirs, Window(w) & Causal(), real)


@PADDED
@pytest.mark.parametrize("size", [4, 16, 48])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (1, 1), (2, 1)])
def test_blocks_are_their_whole_buckets(size, before, after, real):
    theirs = library.LocalAttention(
        window_size=size, causal=False, look_backward=before, look_forward=after,
        exact_windowsize=False, use_rotary_pos_emb=False,
    )  # fmt: skip
    assert_equals(theirs, BlockLocal(size, before, after), real)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_causal_blocks_are_their_causal_buckets(before):
    theirs = library.LocalAttention(
        window_size=16, causal=True, look_backward=before, look_forward=0,
        exact_windowsize=False, use_rotary_pos_emb=False,
    )  # fmt: skip
    assert_equals(theirs, BlockLocal(16, before) & Causal())


@pytest.mark.parametrize("size", [4, 16, 48])
def test_blocks_along_a_picture_with_a_block_of_memory_are_their_causal_buckets(size):
    theirs = library.LocalAttention(
        window_size=size, causal=True, look_backward=1, look_forward=0,
        exact_windowsize=False, use_rotary_pos_emb=False,
    )  # fmt: skip
    assert_equals(theirs, image_1d(size, memory=size))
