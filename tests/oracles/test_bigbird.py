"""BigBird against the block-sparse attention in transformers, with our random blocks in it."""

import math

import pytest
import torch

from tinyattn import attention
from tinyattn.engine import sparse_attention
from tinyattn.patterns import BlockLocal, Global, bigbird

from ..close import assert_same
from ..transformer.tiny import randn, scrambled

transformers = pytest.importorskip(
    "transformers", reason="transformers is in requirements-oracles.txt"
)

SIZE, D_MODEL, HEADS = 4, 8, 2


def their_layer(r):
    modeling = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    config = transformers.BigBirdConfig(
        vocab_size=11, hidden_size=D_MODEL, num_attention_heads=HEADS, num_hidden_layers=1,
        intermediate_size=8, block_size=SIZE, num_random_blocks=r, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return scrambled(modeling.BigBirdBlockSparseAttention(config)).eval(), modeling.BigBirdModel


def heads_of(layer, model, x):
    """Their heads side by side, without padding, called below the model's switch to dense."""
    ones = torch.ones(x.shape[:2], dtype=x.dtype)
    blocked, band, from_mask, to_mask = model.create_masks_for_block_sparse_attn(ones, SIZE)
    return layer(x, band, from_mask, to_mask, blocked, blocked)[0]


def heads_under(layer, x, attend):
    q, k, v = (
        getattr(layer, name)(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    return attend(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("n_blocks", "r"), [(10, 1), (12, 2), (16, 3)])
def test_the_pattern_equals_theirs_with_the_same_random_blocks(monkeypatch, n_blocks, r):
    n = n_blocks * SIZE
    layer, model = their_layer(r)
    patterns = [bigbird(n, SIZE, r, seed=seed) for seed in range(HEADS)]
    tables = [pattern.right.drawn[1:-1].numpy() for pattern in patterns]
    assert all((table >= 0).all() for table in tables)
    monkeypatch.setattr(layer, "_bigbird_block_rand_mask_with_head", lambda **_: tables)
    x, found = randn(2, n, D_MODEL), []
    for run in (
        lambda x: heads_under(layer, x, lambda *qkv: sparse_attention(*qkv, patterns)),
        lambda x: heads_of(layer, model, x),
    ):
        own = x.clone().requires_grad_()
        out = run(own)
        (out * randn(2, n, D_MODEL, seed=5)).sum().backward()
        found.append((out, own.grad))
    for ours, theirs in zip(*found, strict=True):
        assert_same(ours, theirs, rtol=1e-9, atol=1e-9)


def test_without_a_table_their_evaluation_counts_the_first_block_again():
    # Random blocks are left out by pointing all of them at block 0, which is global already: it is
    # appended r more times to every row of the middle, which adds log(1 + r) to its scores.
    n, r = 12 * SIZE, 3
    layer, model = their_layer(r)
    x = randn(2, n, D_MODEL)
    theirs = heads_of(layer, model, x)
    local = BlockLocal(SIZE, 1, 1) | Global((*range(SIZE), *range(n - SIZE, n)))
    bias = torch.zeros(n, n, dtype=torch.float64)
    bias[SIZE : n - SIZE, :SIZE] = math.log(1 + r)
    twin = heads_under(layer, x, lambda *qkv: attention(*qkv, local.mask(n), bias=bias))
    assert_same(twin, theirs, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(
        heads_under(layer, x, lambda *qkv: sparse_attention(*qkv, local)), theirs, atol=1e-3
    )
