"""Routers fit wherever patterns do, each head follows its own rule, and layers share nothing."""

import copy

import pytest
import torch

from tinyattn import MultiHeadAttention, attention
from tinyattn.content import Router, routed_attention, routed_weights, update_routers
from tinyattn.patterns import Causal, Window
from tinyattn.transformer import Decoder, Encoder, KVCache, RoPE, Shaw, T5Bias, generate

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, small, some_tokens

N = 7


class Alike(Router):
    """Reads the keys whose first feature has the sign of the query's; learns how often it ran."""

    def __init__(self, causal: bool = False, n_heads: int | None = None) -> None:
        super().__init__()
        self.causal, self.n_heads = causal, n_heads
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.long))

    def weights(self, q, k, *, key_padding=None, scale=None):
        same = (q[..., :1] > 0) == (k[..., 0] > 0)[..., None, :]
        if self.causal:
            same = same & Causal().mask(q.shape[2])
        if key_padding is not None:
            same = same & key_padding[:, None, None, :]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        scores = (scale * q @ k.transpose(-1, -2)).masked_fill(~same, -torch.inf)
        return scores.softmax(dim=-1).nan_to_num(0.0)

    def update(self):
        self.n_updates += 1

    def check(self, n_heads, d_head):
        if self.n_heads not in (None, n_heads):
            raise ValueError(f"this router is for {self.n_heads} heads, got {n_heads}")


def some_padding():
    return torch.arange(N)[None] < torch.tensor([[N], [4]])


# ---------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("real", [None, some_padding()], ids=["whole", "padded"])
def test_heads_with_one_rule_run_together_and_come_back_in_their_places(real):
    q, k, v = randn(3, 2, 4, N, 5).unbind()
    router, window = Alike(), Window(1)
    rules = (router, window, router, Causal())
    out = routed_attention(q, k, v, rules, key_padding=real, scale=0.7)
    weights = routed_weights(q, k, rules, key_padding=real, scale=0.7)
    assert_same(weights @ v, out)
    for head, rule in enumerate(rules):
        one = [x[:, [head]] for x in (q, k, v)]
        if rule is router:
            expected = router.attend(*one, key_padding=real, scale=0.7)
        else:
            mask = rule.mask(N) if real is None else rule.mask(N) & real[:, None, None]
            expected = attention(*one, mask, scale=0.7)
        assert_same(out[:, [head]], expected)


def test_one_router_gets_all_its_heads_in_one_call():
    calls = []

    class Counting(Alike):
        def attend(self, q, k, v, **options):
            calls.append(q.shape[1])
            return super().attend(q, k, v, **options)

    q, k, v = randn(3, 2, 4, N, 5).unbind()
    one, other = Counting(), Counting()
    routed_attention(q, k, v, one)
    routed_attention(q, k, v, (one, other, one, one))
    assert calls == [4, 3, 1]


def test_a_number_of_rules_that_is_not_that_of_heads_is_refused():
    q, k, v = randn(3, 2, 4, N, 5).unbind()
    for n_rules in (2, 5):
        with pytest.raises(ValueError, match=f"one rule for each of the 4 heads, got {n_rules}"):
            routed_attention(q, k, v, (Alike(),) * n_rules)


def test_a_router_that_says_nothing_is_not_taken_for_causal():
    class Silent(Router):
        pass

    assert Silent().causal is False


def test_a_router_without_weights_says_what_is_missing():
    q, k, v = randn(3, 1, 1, N, 5).unbind()
    with pytest.raises(TypeError, match=r"Router must define weights\(q, k\)"):
        Router().attend(q, k, v)


# ------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize("pattern", [Alike(), (Alike(), Window(2))], ids=["router", "half"])
def test_a_layer_with_a_router_multiplies_its_values_by_the_weights(pattern):
    layer = scrambled(MultiHeadAttention(8, 2, pattern=pattern, positions=RoPE(4), scale=0.6))
    x, real = randn(2, N, 8), some_padding()
    out, weights = layer(x, key_padding=real, return_weights=True)
    assert weights.shape == (2, 2, N, N)
    assert (weights[1, :, :, 4:] == 0).all()
    assert_same(layer(x, key_padding=real), out)
    assert_same(out, layer.join_heads(weights @ layer.split_heads(layer.value(x))))
    q, k = (
        layer.positions.rotate(layer.split_heads(to(x)), torch.arange(N))
        for to in (layer.query, layer.key)
    )
    assert_same(weights, routed_weights(q, k, pattern, key_padding=real, scale=0.6))


def test_what_a_router_learns_is_stored_with_the_layer():
    for n_routers, pattern in ((1, Alike()), (2, (Alike(), Alike())), (1, (Window(1), Alike()))):
        layer = MultiHeadAttention(8, 2, pattern=pattern)
        update_routers(layer)
        kept = {name: x for name, x in layer.state_dict().items() if "n_updates" in name}
        assert len(kept) == n_routers
        assert all(x == 1 for x in kept.values())
        twin = copy.deepcopy(layer)
        update_routers(twin)
        assert all(x == 1 for name, x in layer.state_dict().items() if "n_updates" in name)
    assert not any("router" in name for name in MultiHeadAttention(8, 2).state_dict())


def test_what_has_no_meaning_with_a_router_is_refused():
    x = randn(1, N, 8, dtype=torch.float32)
    for pattern in (Alike(causal=True), (Causal(), Alike(causal=True))):
        layer = MultiHeadAttention(8, 2, pattern=pattern)
        with pytest.raises(ValueError, match="takes no cache; generate with use_cache=False"):
            layer(x, cache=KVCache())
        with pytest.raises(ValueError, match="takes no mask, only key_padding"):
            layer(x, mask=Causal().mask(N))
        with pytest.raises(ValueError, match="cross-attention takes a mask instead"):
            layer(x, x)
        for positions in (Shaw(4, 2), T5Bias(2)):
            with pytest.raises(ValueError, match="adds to the scores of all pairs"):
                MultiHeadAttention(8, 2, pattern=pattern, positions=positions)


def test_a_router_is_asked_whether_it_fits_the_heads_it_gets():
    router = Alike(n_heads=2)
    MultiHeadAttention(8, 2, pattern=router)
    MultiHeadAttention(8, 4, pattern=(router, Window(1), router, Window(1)))
    MultiHeadAttention(12, 3, pattern=(router, Window(1), router))
    with pytest.raises(ValueError, match="for 2 heads, got 4"):
        MultiHeadAttention(8, 4, pattern=router)
    with pytest.raises(ValueError, match="for 2 heads, got 1"):
        MultiHeadAttention(8, 2, pattern=(Window(1), router))


# ------------------------------------------------------------------------------------- models


def test_every_layer_of_a_model_gets_a_router_of_its_own():
    given = Alike()
    for pattern in (given, (given, given)):
        encoder = Encoder(small(n_layers=3), pattern=pattern)
        routers = [part for part in encoder.modules() if isinstance(part, Router)]
        assert len(routers) == 3
        assert given not in routers
    listed = [Alike(), None, (Window(1), Alike())]
    encoder = Encoder(small(n_layers=3), pattern=listed)
    assert listed[0] in set(encoder.modules())
    assert listed[2][1] in set(encoder.modules())


def test_a_decoder_with_a_causal_router_does_not_see_ahead_and_generates_without_cache():
    decoder = scrambled(Decoder(small(), pattern=(Alike(causal=True), Window(2))))
    tokens = some_tokens(2, N)
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    assert torch.equal(decoder(tokens)[:, :4], decoder(changed)[:, :4])
    assert generate(decoder, tokens, 2, use_cache=False).shape == (2, N + 2)
    with pytest.raises(ValueError, match="use_cache=False"):
        generate(decoder, tokens, 2)


def test_a_decoder_refuses_a_router_that_is_not_causal():
    for pattern in (Alike(), (Causal(), Alike())):
        with pytest.raises(ValueError, match="a decoder needs a causal router"):
            Decoder(small(), pattern=pattern)


def test_heads_that_do_not_fit_are_refused_and_no_heads_are_none(refusals):
    q, k, v = randn(3, 1, 2, N, 5).unbind()
    rules = (Window(1), Causal())
    with pytest.raises(ValueError, match="q, k and v must share b and h"):
        routed_attention(q, k[:, :1], v, rules)
    with pytest.raises(ValueError, match="key_padding must have one entry for each key"):
        routed_weights(q, k, rules, key_padding=torch.ones(2, N, dtype=torch.bool))
    assert torch.equal(routed_attention(q, k, v, list(rules)), routed_attention(q, k, v, rules))
    none = (x[:, :0] for x in (q, k, v))
    assert routed_attention(*none, ()).shape == (1, 0, N, 5)
    assert routed_weights(q[:, :0], k[:, :0], ()).shape == (1, 0, N, N)
