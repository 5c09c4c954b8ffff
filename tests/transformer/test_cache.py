"""Decoding piece by piece gives the logits of one pass, however the prompt is cut."""

import pytest
import torch

from tinyattn.transformer import Decoder, Positions, Sinusoidal

from ..close import assert_same
from .tiny import SCHEMES, compositions, randn, scrambled, small, some_tokens

N = 5


@pytest.mark.parametrize("cross_attention", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("positions", SCHEMES)
def test_every_way_to_cut_a_prompt_gives_the_logits_of_one_pass(
    positions, norm_first, cross_attention
):
    config = small(positions=positions, norm_first=norm_first)
    it, tokens = scrambled(Decoder(config, cross_attention)), some_tokens(2, N)
    memory, real = None, None
    if cross_attention:
        memory = randn(2, 4, 8)
        real = torch.tensor([[True, True, False, True], [True, False, False, False]])
    whole = it(tokens, memory, memory_padding=real)
    for sizes in compositions(N):
        cache = it.new_cache()
        pieces = [
            it(piece, memory, memory_padding=real, cache=cache)
            for piece in tokens.split(sizes, dim=1)
        ]
        assert_same(torch.cat(pieces, dim=1), whole)
        assert len(cache) == N


def test_there_are_sixteen_ways_to_cut_five_tokens():
    assert len(compositions(5)) == 16
    assert all(sum(sizes) == 5 for sizes in compositions(5))


@pytest.mark.parametrize("positions", SCHEMES)
def test_an_empty_piece_changes_nothing(positions):
    it, tokens = scrambled(Decoder(small(positions=positions))), some_tokens(2, 4)
    cache = it.new_cache()
    pieces = [
        it(tokens[:, start:stop], cache=cache) for start, stop in [(0, 0), (0, 2), (2, 2), (2, 4)]
    ]
    assert_same(torch.cat(pieces, dim=1), it(tokens))


@pytest.mark.parametrize("n_layers", [1, 3])
def test_a_cache_of_any_number_of_layers_says_how_many_tokens_it_has_seen(n_layers):
    it = scrambled(Decoder(small(n_layers=n_layers)))
    cache = it.new_cache()
    assert len(cache) == 0
    it(some_tokens(2, 3), cache=cache)
    assert len(cache) == 3


def test_two_caches_of_one_model_do_not_meet():
    it, a, b = scrambled(Decoder(small())), some_tokens(1, 4), some_tokens(1, 4, seed=1)
    one, two = it.new_cache(), it.new_cache()
    for t in range(4):
        ours = it(a[:, t : t + 1], cache=one)
        it(b[:, t : t + 1], cache=two)
    assert_same(ours[:, 0], it(a)[:, -1])


def test_vectors_are_cached_like_tokens():
    it, x = scrambled(Decoder(small(positions=Sinusoidal))), randn(1, 4, 8)
    cache = it.new_cache()
    pieces = [it(x[:, :3], cache=cache), it(x[:, 3:], cache=cache)]
    assert_same(torch.cat(pieces, dim=1), it(x))


def test_a_step_projects_new_tokens_only():
    it, seen = Decoder(small(positions=Positions)), []
    it.layers[1].attention.key.register_forward_hook(lambda m, args, out: seen.append(out.shape[1]))
    cache = it.new_cache()
    for piece in some_tokens(1, 6).split([3, 1, 2], dim=1):
        it(piece, cache=cache)
    assert seen == [3, 1, 2]
