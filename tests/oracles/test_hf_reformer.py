"""Chunks of a sorted sequence against transformers' Reformer, which reads other buckets too."""

import pytest
import torch

from tinyattn.content import lsh_attention

from ..close import assert_same

reformer = pytest.importorskip(
    "transformers.models.reformer.modeling_reformer",
    reason="transformers is in requirements-oracles.txt",
)

N, SIZE, HEADS, WIDTH = 48, 8, 2, 6


def test_a_chunk_and_the_one_before_are_one_bucket_of_the_sorted_sequence():
    """Sorted as there, with one bucket for all, ours reads the same; but there the first chunk
    looks back at the last one, and its keys' scores are not scaled."""
    from transformers import ReformerConfig

    config = ReformerConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, attention_head_size=WIDTH,
        lsh_attn_chunk_length=SIZE, num_hashes=1, num_buckets=6, lsh_num_chunks_before=1,
        lsh_num_chunks_after=0, is_decoder=False, hash_seed=0,
        lsh_attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = reformer.LSHSelfAttention(config).double().eval()
    rng = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=rng))
    x = torch.randn(2, N, HEADS * WIDTH, generator=rng, dtype=torch.float64)
    with torch.random.fork_rng():  # it seeds the global generator
        out = layer(x, output_attentions=True)
    theirs = out.hidden_states.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
    order = out.buckets.view(2, HEADS, N).argsort(dim=-1, stable=True)

    def in_order(x):
        return x.gather(2, order[..., None].expand(x.shape))

    qk, v = (
        in_order(to(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2))
        for to in (layer.query_key, layer.value)
    )
    ours = lsh_attention(
        qk, v, n_buckets=1, chunk_size=SIZE, scale=1.0,
        buckets=torch.zeros(2, HEADS, 1, N, dtype=torch.long),
    )  # fmt: skip
    # there a length is the root of a mean plus 1e-6
    assert_same(ours[:, :, SIZE:], in_order(theirs)[:, :, SIZE:], rtol=1e-5, atol=1e-5)
