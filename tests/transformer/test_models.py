"""Whole models against loops, and who can know of whom."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian
from torch.nn import functional as F

from tinyattn.patterns import Causal, Full, Window
from tinyattn.transformer import (
    Decoder,
    Encoder,
    KVCache,
    Learned,
    Positions,
    RoPE,
    Seq2Seq,
    Shaw,
    Sinusoidal,
    T5Bias,
)

from .. import reference
from ..close import assert_same
from .tiny import RELATIVE, SCHEMES, randn, scrambled, small, some_tokens

EVERY_SCHEME = pytest.mark.parametrize("positions", SCHEMES)
BOTH = pytest.mark.parametrize("norm_first", [False, True])
BY_LOOPS = [(Positions, "none"), (Sinusoidal, "sinusoidal"), (Learned, "learned"), (RoPE, "rope")]


# --------------------------------------------------------------------------- the definition


@BOTH
@pytest.mark.parametrize(("positions", "scheme"), BY_LOOPS)
def test_an_encoder_equals_the_loops(positions, scheme, norm_first):
    it = scrambled(Encoder(small(positions=positions, norm_first=norm_first)))
    weights, tokens = reference.as_numpy(it.state_dict()), [3, 1, 4, 1, 5]
    real = np.array([1, 1, 0, 1, 1], dtype=bool)
    expected = reference.stack(
        reference.embedded(tokens, weights, "embedding", scheme), weights, "", n_layers=2,
        n_heads=2, norm_first=norm_first, allowed=np.tile(real, (5, 1)), rotary=scheme == "rope",
    )  # fmt: skip
    ours = it(torch.tensor([tokens]), key_padding=torch.from_numpy(real)[None])[0]
    np.testing.assert_allclose(ours.detach(), expected, atol=1e-10)


@BOTH
@pytest.mark.parametrize("tie_embeddings", [False, True])
@pytest.mark.parametrize(("positions", "scheme"), BY_LOOPS)
def test_a_decoder_with_memory_equals_the_loops(positions, scheme, tie_embeddings, norm_first):
    config = small(positions=positions, norm_first=norm_first, tie_embeddings=tie_embeddings)
    it = scrambled(Decoder(config, cross_attention=True))
    weights, tokens, memory = reference.as_numpy(it.state_dict()), [2, 7, 1, 8], randn(1, 3, 8)
    x = reference.stack(
        reference.embedded(tokens, weights, "embedding", scheme), weights, "", n_layers=2,
        n_heads=2, norm_first=norm_first, allowed=reference.causal(4, 4),
        memory=memory[0].numpy(), rotary=scheme == "rope",
    )  # fmt: skip
    table = weights["embedding.table.weight" if tie_embeddings else "to_logits.weight"]
    ours = it(torch.tensor([tokens]), memory)[0].detach()
    np.testing.assert_allclose(ours, x @ table.T, atol=1e-9)


def test_seq2seq_is_an_encoder_whose_output_a_decoder_reads():
    it = scrambled(Seq2Seq(small(target_vocab_size=7)))
    source, target = some_tokens(2, 5), some_tokens(2, 4, vocab_size=7)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    memory = it.encoder(source, key_padding=real)
    expected = it.decoder(target, memory, memory_padding=real)
    assert torch.equal(it(source, target, source_padding=real), expected)
    assert expected.shape == (2, 4, 7)


# ------------------------------------------------------------------------------- embedding


def test_token_vectors_are_scaled_and_ready_vectors_are_not():
    it = scrambled(Encoder(small(positions=Positions)))
    tokens = some_tokens(2, 4)
    scaled = it.embedding.table.weight[tokens] * 8**0.5
    assert_same(it.embedding(tokens), scaled)
    assert_same(it(tokens), it(scaled))
    assert torch.equal(it.embedding(scaled), scaled)


def test_integers_of_any_width_are_tokens():
    it, tokens = Encoder(small()), some_tokens(2, 4)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(it(tokens.to(dtype)), it(tokens))


def test_embeddings_start_at_the_size_that_scaling_wants():
    torch.manual_seed(0)
    it = Encoder(small(vocab_size=2000, d_model=64))
    assert float(it.embedding.table.weight.detach().std()) == pytest.approx(1 / 8, rel=0.02)


def test_tied_maps_share_storage_and_untied_ones_do_not():
    tied, untied = Decoder(small()), Decoder(small(tie_embeddings=False))
    assert tied.to_logits.weight is tied.embedding.table.weight
    assert untied.to_logits.weight is not untied.embedding.table.weight
    count = [sum(p.numel() for p in it.parameters()) for it in (tied, untied)]
    assert count[1] - count[0] == 11 * 8
    tied.double()
    assert tied.to_logits.weight is tied.embedding.table.weight
    assert tied.to_logits.bias is None


def test_a_shared_scheme_is_one_and_shaws_tables_are_one_a_layer():
    for positions, n_tables in ((T5Bias, 1), (Shaw, 2), (Learned, 1)):
        it = Encoder(small(positions=positions))
        assert len({id(layer.attention.positions) for layer in it.layers}) == n_tables
    absolute = Encoder(small(positions=Learned))
    assert absolute.embedding.positions is absolute.layers[0].attention.positions


def test_decoders_use_one_sided_buckets_and_encoders_two_sided_ones():
    it = Seq2Seq(small(positions=T5Bias))
    assert it.encoder.layers[0].attention.positions.bidirectional
    assert not it.decoder.layers[0].attention.positions.bidirectional


@BOTH
def test_pre_norm_stacks_end_with_one_norm_and_post_norm_stacks_with_none(norm_first):
    it = Seq2Seq(small(norm_first=norm_first))
    for stack in (it.encoder, it.decoder):
        assert isinstance(stack.norm, torch.nn.LayerNorm if norm_first else torch.nn.Identity)


# ----------------------------------------------------------------------- who can know of whom


@settings(max_examples=8)
@given(order=st.permutations(range(6)))
@BOTH
def test_an_encoder_without_positions_follows_any_reordering(norm_first, order):
    it = scrambled(Encoder(small(positions=Positions, norm_first=norm_first)))
    tokens = some_tokens(2, 6)
    assert_same(it(tokens[:, order]), it(tokens)[:, order])


@pytest.mark.parametrize("positions", SCHEMES[1:])
def test_an_encoder_with_positions_does_not(positions):
    it, tokens = scrambled(Encoder(small(positions=positions))), torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(it(tokens.flip(1)), it(tokens).flip(1), atol=1e-3)


def test_a_causal_decoder_knows_order_without_positions():
    it, tokens = scrambled(Decoder(small(positions=Positions))), torch.tensor([[1, 2, 3, 4]])
    swapped = torch.tensor([[2, 1, 3, 4]])
    assert not torch.allclose(it(swapped)[:, 1], it(tokens)[:, 0], atol=1e-3)
    # deeper than one layer even the last token tells the order of those before it
    assert not torch.allclose(it(swapped)[:, 3], it(tokens)[:, 3], atol=1e-3)


@BOTH
@EVERY_SCHEME
@pytest.mark.parametrize("cross_attention", [False, True])
def test_later_tokens_change_no_earlier_logit_by_a_single_bit(
    positions, norm_first, cross_attention
):
    config = small(positions=positions, norm_first=norm_first)
    it, tokens = scrambled(Decoder(config, cross_attention)), some_tokens(2, 7)
    memory = (randn(2, 3, 8),) if cross_attention else ()
    before = it(tokens, *memory)
    for t in range(1, 7):
        other = torch.cat([tokens[:, :t], (tokens[:, t:] + 1 + t) % 11], dim=1)
        after = it(other, *memory)
        assert torch.equal(after[:, :t], before[:, :t])
        assert not torch.equal(after[:, t], before[:, t])


@BOTH
@EVERY_SCHEME
def test_the_jacobian_of_a_decoder_is_lower_triangular(positions, norm_first):
    it = scrambled(Decoder(small(positions=positions, norm_first=norm_first)))
    blocks = jacobian(it, randn(1, 5, 8))[0, :, :, 0].abs().sum((1, 3))
    assert torch.equal(blocks > 0, Causal().mask(5))


@pytest.mark.parametrize("positions", RELATIVE)
def test_relative_schemes_do_not_see_where_a_text_starts(positions):
    it, tokens = scrambled(Encoder(small(positions=positions))), some_tokens(1, 4)
    later = torch.cat([some_tokens(1, 3, seed=1), tokens], dim=1)
    real = torch.tensor([[False] * 3 + [True] * 4])
    assert_same(it(later, key_padding=real)[:, 3:], it(tokens))


@BOTH
@EVERY_SCHEME
def test_padding_changes_nothing_for_real_tokens(positions, norm_first):
    it = scrambled(Encoder(small(positions=positions, norm_first=norm_first)))
    tokens, n = some_tokens(2, 8), 5
    real = torch.arange(8).expand(2, 8) < n
    padded = it(tokens, key_padding=real)[:, :n]
    assert_same(padded, it(tokens[:, :n]))
    assert_same(padded, it(tokens[:, :n], key_padding=real[:, :n]))
    garbage = torch.where(real, tokens, 10)
    assert torch.equal(it(garbage, key_padding=real)[:, :n], padded)


@BOTH
@EVERY_SCHEME
def test_padded_vectors_get_no_gradient_from_real_tokens(positions, norm_first):
    it = scrambled(Encoder(small(positions=positions, norm_first=norm_first)))
    real = torch.tensor([[True, True, False, True, False]])
    blocks = jacobian(lambda x: it(x, key_padding=real), randn(1, 5, 8))[0, :, :, 0]
    support = blocks.abs().sum((1, 3)) > 0
    # a padded token still hears of itself along the residual path; nobody else does
    assert torch.equal(support, real | torch.eye(5, dtype=torch.bool))


def test_padded_source_changes_no_logit_and_gets_no_gradient():
    it = scrambled(Seq2Seq(small()))
    source, target = randn(2, 5, 8).requires_grad_(), some_tokens(2, 4)
    real = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    out = it(source, target, source_padding=real)
    assert_same(out[:1], it(source[:1, :3], target[:1]))
    out.pow(2).sum().backward()
    assert torch.equal(source.grad.abs().sum(-1) > 0, real)


def test_a_sequence_of_padding_alone_leaves_its_neighbours_finite():
    it = scrambled(Seq2Seq(small()))
    source, target = randn(2, 4, 8), some_tokens(2, 3)
    real = torch.tensor([[False] * 4, [True] * 4])
    out = it(source, target, source_padding=real)
    assert_same(out[1:], it(source[1:], target[1:]))
    out.pow(2).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in it.parameters())


@EVERY_SCHEME
def test_sequences_of_a_batch_do_not_see_each_other(positions):
    it = scrambled(Seq2Seq(small(positions=positions)))
    source, target = some_tokens(3, 5), some_tokens(3, 4, seed=1)
    real = torch.arange(5) < torch.tensor([[5], [2], [4]])
    out = it(source, target, source_padding=real)
    for b in range(3):
        one = slice(b, b + 1)
        assert_same(it(source[one], target[one], source_padding=real[one]), out[one])


def test_the_loss_of_a_repeated_sequence_is_that_of_one():
    it, tokens = scrambled(Decoder(small())), some_tokens(1, 6)

    def loss(tokens):
        logits = it(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    assert_same(loss(tokens.expand(3, 6)), loss(tokens))


def test_the_memory_does_not_depend_on_the_target():
    it, source = scrambled(Seq2Seq(small())), some_tokens(1, 4)
    seen = []
    it.encoder.register_forward_hook(lambda module, args, out: seen.append(out))
    it(source, some_tokens(1, 3))
    it(source, some_tokens(1, 3, seed=5))
    assert torch.equal(*seen)


def test_a_pattern_decides_who_reads_whom_and_a_decoder_never_reads_ahead():
    decoder = scrambled(Decoder(small(), pattern=Full()))
    encoder = scrambled(Encoder(small(), pattern=Causal()))
    narrow = scrambled(Decoder(small(n_layers=1), pattern=Window(1)))
    for it, mask in (
        (decoder, Causal().mask(4)),
        (encoder, Causal().mask(4)),
        (narrow, (Window(1) & Causal()).mask(4)),
    ):
        blocks = jacobian(it, randn(1, 4, 8))[0, :, :, 0].abs().sum((1, 3))
        assert torch.equal(blocks > 0, mask)


# ------------------------------------------------------------------- sizes, chunks, and state


@EVERY_SCHEME
@pytest.mark.parametrize(("b", "n"), [(0, 3), (2, 0), (1, 1)])
def test_empty_and_single_inputs_pass_both_ways(positions, b, n):
    it = Seq2Seq(small(positions=positions, vocab_size=5))
    tokens = torch.zeros(b, n, dtype=torch.long)
    logits = it(tokens, tokens)
    assert logits.shape == (b, n, 5)
    logits.sum().backward()
    assert it(tokens[:, :0], tokens).isfinite().all()


@BOTH
def test_chunks_change_no_model(norm_first):
    whole = scrambled(Seq2Seq(small(norm_first=norm_first)))
    cut = scrambled(Seq2Seq(small(norm_first=norm_first, n_chunks=3)))
    source, target = some_tokens(2, 7), some_tokens(2, 5)
    assert_same(cut(source, target), whole(source, target))


@EVERY_SCHEME
@pytest.mark.parametrize("tie_embeddings", [False, True])
def test_a_model_comes_back_from_its_state_dict(positions, tie_embeddings):
    config = small(positions=positions, tie_embeddings=tie_embeddings)
    it, other = scrambled(Seq2Seq(config)), scrambled(Seq2Seq(config), seed=1)
    source, target = some_tokens(2, 4), some_tokens(2, 3)
    assert not torch.equal(it(source, target), other(source, target))
    other.load_state_dict(it.state_dict())
    assert torch.equal(it(source, target), other(source, target))


@EVERY_SCHEME
def test_a_forward_pass_leaves_the_random_state_alone(positions):
    it = Seq2Seq(small(positions=positions))
    before = torch.get_rng_state()
    it(some_tokens(1, 3), some_tokens(1, 2))
    assert torch.equal(torch.get_rng_state(), before)


@EVERY_SCHEME
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_are_close_to_wide_ones(positions, dtype):
    torch.manual_seed(0)
    it = Seq2Seq(small(positions=positions))
    source, target = some_tokens(2, 5), some_tokens(2, 4)
    wide = it(source, target)
    half = it.to(dtype)(source, target)
    assert half.dtype == dtype
    assert_same(half.float(), wide, rtol=0, atol=0.1)


@EVERY_SCHEME
def test_every_parameter_of_a_model_learns(positions):
    it = scrambled(Seq2Seq(small(positions=positions)))
    it(some_tokens(3, 10), some_tokens(3, 9)).pow(2).sum().backward()
    silent = [name for name, p in it.named_parameters() if p.grad is None or not p.grad.any()]
    # a bias of keys adds the same to every score of a row
    assert [name for name in silent if not name.endswith("key.bias")] == []


def test_dropout_acts_in_training_and_only_there():
    torch.manual_seed(0)
    it, tokens = Encoder(small(dropout=0.5)), some_tokens(1, 4)
    assert not torch.equal(it(tokens), it(tokens))
    it.eval()
    assert torch.equal(it(tokens), it(tokens))


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("tokens", "error", "sentence"),
    [
        (torch.tensor([[1, 11]]), ValueError, r"0 … 10 \(vocab_size=11\), got 1 … 11"),
        (torch.tensor([[1, 99]]), ValueError, r"0 … 10 \(vocab_size=11\), got 1 … 99"),
        (torch.tensor([[-1, 3]]), ValueError, r"0 … 10 \(vocab_size=11\), got -1 … 3"),
        (torch.tensor([1, 2]), ValueError, r"tokens must be \(b, n\), got \(2,\)"),
        (torch.zeros(1, 2, 8).long(), ValueError, r"tokens must be \(b, n\), got \(1, 2, 8\)"),
        (torch.zeros(1, 2, 6), ValueError, r"\(b, n, d_model=8\), got \(1, 2, 6\)"),
        (torch.zeros(1, 2), ValueError, r"\(b, n, d_model=8\), got \(1, 2\)"),
        (torch.zeros(1, 2).bool(), TypeError, "integers or float vectors, got torch.bool"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens, error, sentence):
    for it in (Encoder(small()), Decoder(small())):
        with pytest.raises(error, match=sentence):
            it(tokens)


@pytest.mark.usefixtures("refusals")
def test_rope_with_an_odd_head_is_refused_when_the_model_is_built():
    with pytest.raises(ValueError, match=r"d_head must be even .*, got d_head=3"):
        Encoder(small(d_model=12, n_heads=4, positions=RoPE))


@pytest.mark.usefixtures("refusals")
def test_a_source_of_another_batch_is_refused():
    with pytest.raises(ValueError, match="each of the 2 target sequences, got 1"):
        Seq2Seq(small())(some_tokens(1, 3), some_tokens(2, 3))


@pytest.mark.usefixtures("refusals")
def test_a_memory_is_taken_exactly_by_decoders_that_read_one():
    with pytest.raises(ValueError, match="needs memory, the encoder's output"):
        Decoder(small(), cross_attention=True)(some_tokens(1, 3))
    with pytest.raises(ValueError, match="takes no memory"):
        Decoder(small())(some_tokens(1, 3), torch.zeros(1, 2, 8))


@pytest.mark.usefixtures("refusals")
def test_a_cache_comes_from_the_decoder_that_it_serves():
    it, tokens = Decoder(small()), some_tokens(2, 3)
    with pytest.raises(TypeError, match=r"cache must come from new_cache\(\), got KVCache"):
        it(tokens, cache=KVCache())
    with pytest.raises(ValueError, match=r"the decoder's 2 layers, got 3; .* new_cache"):
        it(tokens, cache=Decoder(small(n_layers=3)).new_cache())
    cache = it.new_cache()
    it(tokens, cache=cache)
    with pytest.raises(ValueError, match="holds a batch of 2 sequences, got 1"):
        it(tokens[:1], cache=cache)


@pytest.mark.usefixtures("refusals")
def test_learned_positions_end_for_whole_models_and_for_caches():
    it = Decoder(small(positions=Learned, max_len=4))
    with pytest.raises(ValueError, match="end at max_len=4, got tokens up to position 4"):
        it(some_tokens(1, 5))
    cache = it.new_cache()
    it(some_tokens(1, 4), cache=cache)
    with pytest.raises(ValueError, match="end at max_len=4, got tokens up to position 4"):
        it(some_tokens(1, 1), cache=cache)
    assert len(cache) == 4
