"""A call that is refused leaves what a layer or a model remembers as it was."""

import numpy as np
import pytest
import torch

from tinyattn import attention, attention_weights
from tinyattn.families import (
    GroupedQueryAttention,
    grouped_attention,
    prior_attention,
    talking_heads_attention,
)
from tinyattn.patterns import Causal, Random, Window
from tinyattn.transformer import (
    AxialTransformer,
    Decoder,
    KVCache,
    LongformerAttention,
    MultiHeadAttention,
    T5Bias,
    generate,
    next_token,
)

from ..close import assert_same
from .tiny import randn, scrambled, small, some_tokens

pytestmark = pytest.mark.usefixtures("refusals")

B, N = 2, 5
REAL = torch.ones(B, N + 1, dtype=torch.bool)


def layer(**choices: object) -> MultiHeadAttention:
    return scrambled(MultiHeadAttention(8, 2, **choices))


@pytest.mark.parametrize(
    ("choices", "refused"),
    [
        ({}, {"key_padding": REAL[:, :3]}),
        ({}, {"key_padding": REAL.double()}),
        ({}, {"mask": torch.ones(4, 4, dtype=torch.bool)}),
        ({}, {"mask": torch.ones(1, N + 1)}),
        ({}, {"mask": torch.ones(3, 1, N + 1, dtype=torch.bool)}),
        ({"pattern": Window(1) & Causal()}, {"key_padding": REAL[:, :3]}),
        ({"pattern": Random(N, 2, seed=0) & Causal()}, {}),
        ({"positions": T5Bias(n_heads=3)}, {}),
    ],
)
def test_a_refused_piece_of_a_sequence_is_not_remembered(choices, refused):
    it, x = layer(**choices), randn(B, N + 1, 8)
    cache = KVCache()
    if "positions" not in choices:
        it(x[:, :N], cache=cache)
    before = len(cache), cache.n_stored, cache.k, cache.v
    with pytest.raises((ValueError, TypeError)):
        it(x[:, N:], cache=cache, **refused)
    assert (len(cache), cache.n_stored, cache.k, cache.v) == before  # the same tensors


def test_the_next_call_after_a_refused_one_is_as_if_there_had_been_none():
    it, x = layer(pattern=Causal()), randn(B, N + 1, 8)
    cache = KVCache()
    it(x[:, :N], cache=cache)
    with pytest.raises(ValueError, match="key_padding must have one entry for each key"):
        it(x[:, N:], cache=cache, key_padding=REAL[:, :N])
    assert_same(it(x[:, N:], cache=cache), it(x)[:, N:])


def test_a_context_whose_padding_is_refused_is_not_remembered():
    it, x, cache = layer(), randn(B, 3, 8), KVCache()
    with pytest.raises(ValueError, match="one entry for each key"):
        it(x, randn(B, 4, 8, seed=1), key_padding=REAL[:, :3], cache=cache)
    assert cache.k is None
    other = randn(B, 6, 8, seed=2)
    assert_same(it(x, other, cache=cache), it(x, other))


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize(
    ("keys", "values"),
    [((1, 2, 3, 4), (1, 2, 2, 4)), ((1, 2, 1, 4), (1, 1, 1, 4)), ((1, 2, 1, 4), (2, 2, 1, 4)), ((2, 3, 4), (2, 3, 4))],
)  # fmt: skip
def test_a_cache_takes_one_value_for_each_key_from_the_first_on(keys, values, filled):
    cache = KVCache()
    if filled:
        cache.append(randn(1, 2, 3, 4), randn(1, 2, 3, 4))
    before = cache.k, cache.v
    with pytest.raises(ValueError, match=r"one value for each key, .*, got k \("):
        cache.append(randn(*keys), randn(*values))
    assert (cache.k, cache.v) == before  # the same tensors


def test_values_of_another_width_are_refused_before_the_keys_are_stored():
    cache = KVCache()
    k, v = cache.append(randn(1, 2, 3, 4), randn(1, 2, 3, 4))
    with pytest.raises(ValueError, match="holds values of d_v = 4, got 5"):
        cache.append(randn(1, 2, 1, 4), randn(1, 2, 1, 5))
    assert cache.k is k
    assert cache.v is v


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize(
    "wrong",
    [torch.ones(B, 3, dtype=torch.bool), torch.ones(B, 4), torch.ones(4, dtype=torch.bool)],
)
def test_a_decoder_that_refuses_a_padding_forgets_the_piece_in_every_layer(n_layers, wrong):
    it, tokens = (
        scrambled(Decoder(small(n_layers=n_layers), cross_attention=True)),
        some_tokens(B, 6),
    )
    memory, real = randn(B, 4, 8), torch.tensor([[True, True, True, False], [True] * 4])
    cache = it.new_cache()
    it(tokens[:, :5], memory, memory_padding=real, cache=cache)
    with pytest.raises((ValueError, TypeError)):
        it(tokens[:, 5:], memory, memory_padding=wrong, cache=cache)
    assert [len(kept.own) for kept in cache.layers] == [5] * n_layers
    retried = it(tokens[:, 5:], memory, memory_padding=real, cache=cache)
    assert_same(retried, it(tokens, memory, memory_padding=real)[:, 5:])


def test_a_decoder_forgets_a_piece_that_its_last_layer_refuses():
    rules = [Causal(), Random(5, 2, seed=0)]
    it, tokens = scrambled(Decoder(small(), pattern=rules)), some_tokens(B, 6)
    cache = it.new_cache()
    it(tokens[:, :5], cache=cache)
    with pytest.raises(ValueError, match="5"):
        it(tokens[:, 5:], cache=cache)
    assert [len(kept.own) for kept in cache.layers] == [5, 5]


def test_a_decoder_interrupted_between_two_layers_remembers_nothing_of_the_piece():
    it, tokens, cache = scrambled(Decoder(small())), some_tokens(B, 6), None

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    cache = it.new_cache()
    it(tokens[:, :5], cache=cache)
    handle = it.layers[1].feed_forward.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        it(tokens[:, 5:], cache=cache)
    handle.remove()
    assert_same(it(tokens[:, 5:], cache=cache), it(tokens)[:, 5:])


def test_a_prompt_that_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match=r"prompt must be a tensor \(b, n\), got a list"):
        generate(Decoder(small()), [[1, 2]], 3)


INF = float("inf")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("row", [[-INF] * 3, [0.0, INF, 1.0], [0.0, float("nan"), 1.0]])
def test_logits_without_a_largest_number_choose_no_token(row, temperature):
    logits, generator = torch.tensor([[0.0, 1.0, 2.0], row]), torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="largest logit of each row must be a finite number, got"):
        next_token(logits, temperature, generator=generator)


def test_some_logits_of_minus_infinity_exclude_their_tokens():
    logits, generator = torch.tensor([[-INF, 1.0, -INF]]), torch.Generator().manual_seed(0)
    assert next_token(logits).tolist() == [1]
    assert next_token(logits, 1.0, generator=generator).tolist() == [1]


@pytest.mark.parametrize(
    ("pixels", "error", "sentence"),
    [
        (torch.zeros(6, dtype=torch.long), ValueError, r"pixels must be \(b, n\), got \(6,\)"),
        (torch.zeros(1, 6), TypeError, "pixels must be integers, got torch.float32"),
    ],
)
def test_pixels_that_are_no_pictures_are_refused(pixels, error, sentence):
    with pytest.raises(error, match=sentence):
        AxialTransformer(small(), 2, 3, n_inner=1)(pixels)


@pytest.mark.parametrize("positions", [0, "01", None])
def test_global_positions_are_a_tuple(positions):
    with pytest.raises(TypeError, match=r"global_positions must be a tuple such as \(0,\), got"):
        LongformerAttention(8, 2, w=1)(torch.zeros(1, 4, 8), global_positions=positions)


HEADS, ONES = torch.zeros(B, 2, N, 4), torch.ones(2, 2)
TAKES_A_MASK = {
    "attention": lambda x, mask: attention(x, x, x, mask),
    "its weights": lambda x, mask: attention_weights(x, x, mask),
    "a layer": lambda x, mask: MultiHeadAttention(8, 2)(x, mask=mask),
    "a layer with a pattern": lambda x, mask: MultiHeadAttention(8, 2, pattern=Causal())(x, mask=mask),
    "a layer that reads another sequence": lambda x, mask: MultiHeadAttention(8, 2)(x, x, mask=mask),
    "a layer of groups": lambda x, mask: GroupedQueryAttention(8, 2, 1)(x, mask=mask),
    "a padded layer of groups": lambda x, mask: GroupedQueryAttention(8, 2, 1)(x, mask=mask, key_padding=REAL[:, :N]),
    "groups": lambda x, mask: grouped_attention(HEADS, HEADS, HEADS, mask),
    "talking heads": lambda x, mask: talking_heads_attention(HEADS, HEADS, HEADS, ONES, ONES, mask),
    "a prior": lambda x, mask: prior_attention(HEADS, torch.zeros(N, N), mask),
}  # fmt: skip


@pytest.mark.parametrize("mask", [Causal(), np.ones((N, N), bool), [[True] * N] * N, True])
@pytest.mark.parametrize("ask", TAKES_A_MASK.values(), ids=TAKES_A_MASK)
def test_a_mask_that_is_no_tensor_is_refused_with_the_way_out(ask, mask):
    sentence = r"bool tensor, got {}; .* pattern\.mask\(n\), and torch\.as_tensor makes one"
    with pytest.raises(TypeError, match=sentence.format(type(mask).__name__)):
        ask(torch.zeros(B, N, 8), mask)
