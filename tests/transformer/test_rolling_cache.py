"""A decoder with a window keeps w + 1 keys and still says what it says without a cache."""

import pytest
import torch

from tinyattn import MultiHeadAttention
from tinyattn.patterns import BlockLocal, Causal, Dilated, Full, Global, Strided, Window
from tinyattn.transformer import (
    Decoder,
    KVCache,
    Positions,
    RoPE,
    Shaw,
    Sinusoidal,
    T5Bias,
    generate,
)

from ..close import assert_same
from .tiny import compositions, randn, scrambled, small, some_tokens

N = 5
EVERY_SCHEME = pytest.mark.parametrize("positions", [Positions, Sinusoidal, RoPE, Shaw, T5Bias])


def assert_any_split_is_the_whole(it, tokens, sizes, memory=None):
    cache = it.new_cache()
    pieces = [it(piece, memory, cache=cache) for piece in tokens.split(sizes, dim=1)]
    assert_same(torch.cat(pieces, dim=1), it(tokens, memory))
    assert len(cache) == tokens.shape[1]
    return cache


@pytest.mark.parametrize(
    "pattern",
    [
        Window(0), Window(2), Window(99), Dilated(2, 2), BlockLocal(4), BlockLocal(2, before=1),
        (Window(1), Window(3)), (Window(1), Full()), [Window(1), None], Window(1) | Global(1), Strided(2),
    ],
    ids=repr,
)  # fmt: skip
def test_every_way_to_cut_a_text_gives_the_logits_of_one_pass(pattern):
    it, tokens = scrambled(Decoder(small(positions=RoPE), pattern=pattern)), some_tokens(2, N)
    for sizes in compositions(N):
        assert_any_split_is_the_whole(it, tokens, sizes)


@EVERY_SCHEME
def test_positions_go_on_where_dropped_keys_stood(positions):
    it, tokens = (
        scrambled(Decoder(small(positions=positions), pattern=Window(1))),
        some_tokens(1, 9),
    )
    for sizes in ([1] * 9, [4, 5], [5, 1, 3], [2, 3, 4], [8, 1]):
        assert_any_split_is_the_whole(it, tokens, sizes)


@pytest.mark.parametrize("positions", [Sinusoidal, RoPE, Shaw])
@pytest.mark.parametrize("sizes", [[70, 1, 1, 30, 28], [1] * 9 + [121], [130], [3, 127]])
def test_long_pieces_go_the_sparse_way_and_give_the_same_logits(positions, sizes):
    config = small(positions=positions, max_len=200)
    it = scrambled(Decoder(config, pattern=[Window(5), (Window(2), BlockLocal(7))]))
    cache = assert_any_split_is_the_whole(it, some_tokens(1, 130), sizes)
    assert [layer.own.n_stored for layer in cache.layers] == [6, 7]


def test_cross_attention_keeps_all_of_the_memory():
    it = scrambled(Decoder(small(), cross_attention=True, pattern=Window(1)))
    memory = randn(2, 9, 8)
    for sizes in compositions(4):
        cache = assert_any_split_is_the_whole(it, some_tokens(2, 4), sizes, memory)
        assert all(layer.memory.n_stored == 9 for layer in cache.layers)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        (Window(0), 1), (Window(2), 3), (Window(5), 6), (Dilated(2, 2), 5), (BlockLocal(3), 3),
        (BlockLocal(3, before=1), 6), ((Window(1), Window(3)), 4),
        ((Window(1), Full()), None), (Window(1) | Global(1), None), (Strided(2), None), (None, None),
    ],
)  # fmt: skip
def test_no_more_keys_are_stored_than_a_later_query_can_read(pattern, most):
    it, tokens = scrambled(Decoder(small(), pattern=pattern)), some_tokens(1, 12)
    for sizes in ([1] * 12, [5, 7], [12], [2, 2, 8]):
        cache, seen = it.new_cache(), 0
        for piece in tokens.split(sizes, dim=1):
            it(piece, cache=cache)
            seen += piece.shape[1]
            stored = seen if most is None else min(seen, most)
            for layer in cache.layers:
                assert layer.own.n_stored == layer.own.k.shape[2] == layer.own.v.shape[2] == stored
                assert len(layer.own) == len(cache) == seen


def test_what_is_dropped_is_freed():
    it, tokens = scrambled(Decoder(small(), pattern=Window(2))), some_tokens(1, 12)
    cache = it.new_cache()
    with torch.no_grad():
        it(tokens, cache=cache)
    for layer in cache.layers:
        numbers = layer.own.k.untyped_storage().nbytes() // layer.own.k.element_size()
        assert numbers == layer.own.k.numel() == 2 * 3 * 4


def test_a_window_larger_than_the_prompt_drops_nothing_until_it_is_full():
    it, tokens = scrambled(Decoder(small(), pattern=Window(8))), some_tokens(1, 12)
    cache, whole = it.new_cache(), it(tokens)
    sizes, start = [3, 2, 4, 1, 2], 0
    stored = []
    for size in sizes:
        out = it(tokens[:, start : start + size], cache=cache)
        assert_same(out, whole[:, start : start + size])
        stored.append(cache.layers[0].own.n_stored)
        start += size
    assert stored == [3, 5, 9, 9, 9]


@EVERY_SCHEME
def test_generation_says_the_same_with_and_without_the_cache(positions):
    it = scrambled(Decoder(small(positions=positions, max_len=99), pattern=Window(3)))
    prompt = some_tokens(2, 5)
    cached = generate(it, prompt, 12)
    assert torch.equal(cached, generate(it, prompt, 12, use_cache=False))


@pytest.mark.parametrize("sizes", [[1] * 9, [4, 5], [9], [2, 1, 6]])
@pytest.mark.parametrize("pattern", [Window(2) & Causal(), BlockLocal(3) & Causal()])
def test_padding_names_every_key_so_far_and_falls_on_those_that_are_left(pattern, sizes):
    it, x = scrambled(MultiHeadAttention(8, 2, pattern=pattern)), randn(2, 9, 8)
    real = torch.tensor([[1, 0, 1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 1, 0, 1]]).bool()
    whole, cache, stop = it(x, key_padding=real), KVCache(), 0
    for piece in x.split(sizes, dim=1):
        stop += piece.shape[1]
        out = it(piece, key_padding=real[:, :stop], cache=cache)
        assert_same(out, whole[:, stop - piece.shape[1] : stop])


def test_gradients_flow_through_what_is_left():
    it = scrambled(MultiHeadAttention(8, 2, pattern=Window(2) & Causal()))
    one, two = (randn(1, 7, 8).requires_grad_() for _ in range(2))
    it(one)[:, -2:].sum().backward()
    cache = KVCache()
    it(two[:, :3], cache=cache)
    it(two[:, 3:5], cache=cache)
    it(two[:, 5:], cache=cache).sum().backward()
    assert_same(one.grad, two.grad)


def test_keeping_more_than_there_is_drops_nothing():
    cache = KVCache()
    cache.keep_last(3)
    assert len(cache) == cache.n_stored == 0
    cache.append(randn(1, 2, 4, 3), randn(1, 2, 4, 3))
    for n, stored in ((9, 4), (4, 4), (3, 3), (3, 3), (1, 1)):
        cache.keep_last(n)
        assert (len(cache), cache.n_stored) == (4, stored)
    assert torch.equal(cache.k, randn(1, 2, 4, 3)[:, :, -1:])


@pytest.mark.parametrize("n", range(6))
def test_the_last_n_keys_are_kept_and_the_others_counted(n):
    k, v = randn(1, 2, 4, 3), randn(1, 2, 4, 3, seed=1)
    cache = KVCache()
    cache.append(k, v)
    cache.keep_last(n)
    kept = min(n, 4)
    assert (cache.n_stored, cache.n_dropped, len(cache)) == (kept, 4 - kept, 4)
    assert torch.equal(cache.k, k[:, :, 4 - kept :])
    assert torch.equal(cache.v, v[:, :, 4 - kept :])


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize(("n", "error"), [(-1, ValueError), (2.0, TypeError), (None, TypeError)])
def test_a_number_of_keys_that_cannot_be_kept_is_refused(filled, n, error):
    cache = KVCache()
    if filled:
        cache.append(randn(1, 2, 4, 3), randn(1, 2, 4, 3))
    with pytest.raises(error, match=f"got .*{n}"):
        cache.keep_last(n)
    assert len(cache) == cache.n_stored == 4 * filled
