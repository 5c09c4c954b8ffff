"""Layers and models with a pattern: the sparse path is the dense one, in every way to give rules."""

import pytest
import torch
from torch.autograd.functional import jacobian

from tinyattn import MultiHeadAttention, attention
from tinyattn.groups import schedule
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Full,
    Painted,
    Random,
    Strided,
    Window,
    bigbird,
    longformer,
    sparse_fixed,
    sparse_strided,
)
from tinyattn.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    Positions,
    RoPE,
    Shaw,
    Sinusoidal,
    T5Bias,
)
from tinyattn.transformer import (
    attention as attention_module,
)

from ..close import assert_same
from ..patterns import by_hand
from .tiny import randn, scrambled, small, some_tokens

N = 131
PUBLIC = by_hand.public(N)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


@pytest.fixture
def sparse_calls(monkeypatch):
    """Notes every call of the engine, and lets it through."""
    calls = []
    engine = attention_module.sparse_attention

    def noted(*args, **options):
        calls.append(args[3])
        return engine(*args, **options)

    monkeypatch.setattr(attention_module, "sparse_attention", noted)
    return calls


def twins(pattern, **options):
    """The same layer with a pattern and without one."""
    one = scrambled(MultiHeadAttention(8, 2, pattern=pattern, **options))
    other = MultiHeadAttention(8, 2, **options).double()
    other.load_state_dict(one.state_dict())
    return one, other


def assert_same_layer(one, other, x, mask, real=None):
    """Outputs, and gradients of the input and all parameters."""
    found = []
    for layer, options in ((one, {}), (other, {"mask": mask})):
        own = x.clone().requires_grad_()
        out = layer(own, key_padding=real, **options)
        layer.zero_grad()
        (out * randn(*out.shape, seed=9)).sum().backward()
        found.append([out, own.grad, *(p.grad for p in layer.parameters())])
    for ours, theirs in zip(*found, strict=True):
        assert_same(ours, theirs)


# ------------------------------------------------------------------------------------- layers


@EVERY
def test_a_layer_with_a_pattern_is_one_with_its_mask(rule):
    one, other = twins(rule.pattern)
    assert_same_layer(one, other, randn(2, N, 8), rule.mask(N))


@pytest.mark.parametrize(
    "pattern", [Window(3), longformer(3, 2), sparse_strided(12), BlockLocal(8)]
)
@pytest.mark.parametrize(
    "options", [{}, {"scale": 0.7}, {"d_head": 3}, {"bias": False}, {"positions": RoPE(4)}]
)
def test_the_sparse_path_is_taken_and_equals_the_dense_one(sparse_calls, pattern, options):
    one, other = twins(pattern, **options)
    real = torch.arange(200) < torch.tensor([[200], [90]])
    assert_same_layer(one, other, randn(2, 200, 8), pattern.mask(200), real)
    assert sparse_calls == [pattern]


@pytest.mark.parametrize(("r", "sparse"), [(6, True), (20, False)])
def test_random_keys_are_priced_as_edges_and_not_as_the_blocks_that_they_touch(
    sparse_calls, r, sparse
):
    pattern = Random(400, r, seed=0)
    lowered = schedule(pattern, 400)
    assert 2 * lowered.n_pairs > 400**2  # 64 lists of different keys: the groups save nothing
    assert (2 * lowered.price < 400**2) == sparse
    one, other = twins(pattern)
    assert_same_layer(one, other, randn(1, 400, 8), pattern.mask(400))
    assert sparse_calls == [pattern] * sparse


@pytest.mark.parametrize(
    ("patterns", "sparse"),
    [
        ((Window(3), Random(200, 2, seed=0)), True), ((Window(3), BlockLocal(9)), True),
        ((Window(3), Window(3)), True), ((Full(), Window(3)), False),
        ((Strided(40), Strided(30) | Window(2)), True),
    ],
)  # fmt: skip
def test_each_head_may_have_its_own_rule(sparse_calls, patterns, sparse):
    one, other = twins(patterns)
    mask = torch.stack([rule.mask(200) for rule in patterns])[None]
    assert_same_layer(one, other, randn(2, 200, 8), mask)
    assert bool(sparse_calls) is sparse


def test_the_sparse_path_is_taken_where_it_leaves_less_than_half_of_the_pairs(sparse_calls):
    for pattern, n, pays in (
        (Window(3), 64, False), (Window(3), 1000, True), (Causal(), 1000, False), (Full(), 1000, False),
        (sparse_fixed(8, 1), 1000, True), (Painted(Window(2).mask(500)), 500, False),
    ):  # fmt: skip
        layer = MultiHeadAttention(8, 2, pattern=pattern)
        layer(torch.zeros(1, n, 8))
        assert bool(sparse_calls) is pays, pattern
        assert pays == (2 * schedule(pattern, n, n).n_pairs < n * n)
        sparse_calls.clear()


@pytest.mark.parametrize("positions", [Shaw(4, 2), T5Bias(2)])
def test_schemes_that_add_to_scores_see_every_weight(sparse_calls, positions):
    pattern = longformer(3, 2)
    one, other = twins(pattern, positions=positions)
    assert_same_layer(one, other, randn(2, 200, 8), pattern.mask(200))
    assert not sparse_calls


def test_a_mask_and_returned_weights_go_the_dense_way_under_the_pattern(sparse_calls):
    pattern = longformer(3, 2)
    it, x = scrambled(MultiHeadAttention(8, 2, pattern=pattern)), randn(2, 200, 8)
    out, weights = it(x, return_weights=True)
    assert torch.equal(weights > 0, pattern.mask(200).expand(2, 2, 200, 200))
    everything = torch.ones(200, 200, dtype=torch.bool)
    assert_same(it(x, mask=everything), out)
    assert not sparse_calls
    assert_same(it(x), out)
    assert sparse_calls


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pattern", [longformer(3, 2), Random(3000, 1, seed=0), sparse_strided(12)])
def test_half_precision_and_autocast_stay_close(sparse_calls, pattern, dtype):
    n = 3000 if isinstance(pattern, Random) else 200
    it, x = scrambled(MultiHeadAttention(8, 2, pattern=pattern)).float(), randn(1, n, 8).float()
    expected = it(x)
    with torch.autocast("cpu", dtype=dtype):
        mixed = it(x)
        mixed.float().sum().backward()  # a backward pass inside is common, if not advised
    assert_same(mixed.float(), expected, rtol=0.05, atol=0.05)
    half = it.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    assert_same(half.float(), expected, rtol=0.05, atol=0.05)
    assert len(sparse_calls) == 3


def test_a_long_sequence_does_not_meet_a_dense_mask(monkeypatch):
    monkeypatch.setattr(attention_module, "attention_weights", lambda *args, **options: 1 / 0)
    it = MultiHeadAttention(8, 2, pattern=longformer(8, 1))
    assert it(torch.randn(1, 20_000, 8)).shape == (1, 20_000, 8)


def test_padding_alone_gives_the_output_bias_and_no_nan(sparse_calls):
    it, x = (
        scrambled(MultiHeadAttention(8, 2, pattern=Window(3))),
        randn(2, 200, 8).requires_grad_(),
    )
    real = torch.zeros(2, 200, dtype=torch.bool)
    real[0, :50] = True
    out = it(x, key_padding=real)
    out.sum().backward()
    assert sparse_calls
    assert torch.equal(out[1], it.out.bias.expand(200, 8))
    assert torch.equal(out[0, 60:], it.out.bias.expand(140, 8))
    assert x.grad.isfinite().all()


# ------------------------------------------------------------------------------------- models


BY_LAYER = [Window(1), (Window(2), Causal())]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("pattern", [Window(2), (Window(1), Full()), BY_LAYER, [None, Window(1)]])
def test_encoders_give_every_layer_its_rules(pattern, norm_first):
    config = small(norm_first=norm_first, max_len=99)
    it = scrambled(Encoder(config, pattern=pattern))
    plain, tokens = Encoder(config).double(), some_tokens(2, 90)
    plain.load_state_dict(it.state_dict())
    x = plain.embedding(tokens)
    for at, layer in enumerate(plain.layers):
        rule = pattern[at] if isinstance(pattern, list) else pattern
        rules = rule if isinstance(rule, tuple) else (Full() if rule is None else rule,)
        mask = torch.stack([rule.mask(90) for rule in rules])[None]
        x = layer.around_attention(x, lambda x: layer.attention(x, mask=mask))  # noqa: B023
        x = layer.around_feed_forward(x, layer.feed_forward)
    assert_same(it(tokens), plain.norm(x))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, [Causal(), Causal()]),
        (Window(2), [Window(2) & Causal()] * 2),
        ((Window(1), Full()), [(Window(1) & Causal(), Full() & Causal())] * 2),
        ([None, (Window(1), Full())], [Causal(), (Window(1) & Causal(), Full() & Causal())]),
    ],
)
def test_decoders_join_every_rule_with_causality(pattern, expected):
    it = Decoder(small(), pattern=pattern)
    assert [layer.attention.pattern for layer in it.layers] == expected


@pytest.mark.parametrize(
    "pattern", [Window(2), (Window(1), Full()), BY_LAYER, longformer(1, 2), bigbird(7, 2, 1, 0)]
)
def test_no_token_of_a_decoder_knows_its_future(pattern):
    it = scrambled(Decoder(small(positions=Positions), pattern=pattern))
    support = jacobian(it, randn(1, 7, 8))[0, :, :, 0].abs().sum((1, 3)) > 0
    assert not (support & ~Causal().mask(7)).any()
    assert support.diagonal().all()


def test_a_windows_receptive_field_grows_by_w_a_layer():
    it = scrambled(Encoder(small(positions=Positions, n_layers=3), pattern=Window(2)))
    support = jacobian(it, randn(1, 15, 8))[0, :, :, 0].abs().sum((1, 3)) > 0
    assert torch.equal(support, Window(6).mask(15))


@pytest.mark.parametrize(
    "pattern", [longformer(3, 2), BlockLocal(8), (Window(3), sparse_strided(12))]
)
def test_padding_behind_a_sequence_changes_no_encoding(pattern):
    it, tokens = (
        scrambled(Encoder(small(positions=Sinusoidal), pattern=pattern)),
        some_tokens(1, 150),
    )
    real = (torch.arange(150) < 110)[None]
    padded = it(torch.where(real, tokens, 3), key_padding=real)[:, :110]
    assert_same(padded, it(torch.where(real, tokens, 7), key_padding=real)[:, :110])
    assert_same(padded, it(tokens[:, :110]))


def test_a_model_with_patterns_comes_back_from_its_state_dict():
    it = scrambled(Encoder(small(), pattern=longformer(2, 1)))
    other = Encoder(small(), pattern=longformer(2, 1)).double()
    other.load_state_dict(it.state_dict())
    assert torch.equal(it(some_tokens(1, 90)), other(some_tokens(1, 90)))
    assert set(it.state_dict()) == set(Encoder(small()).state_dict())


# ---------------------------------------------------------------------------------- refusals


C = small()
WRONG = r"pattern must be a rule such as Causal\(\), got "
REFUSED = {
    "a list of heads": (lambda: MultiHeadAttention(8, 2, pattern=[Full(), Full()]), TypeError, WRONG + "list"),
    "a head without a rule": (lambda: MultiHeadAttention(8, 2, pattern=(Full(), None)), TypeError, WRONG + "NoneType"),
    "a class": (lambda: MultiHeadAttention(8, 2, pattern=Causal), TypeError, WRONG + "type"),
    "a rule too few": (
        lambda: MultiHeadAttention(8, 2, pattern=(Full(),)), ValueError, "one pattern for each of the 2 heads, got 1",
    ),
    "no rules": (lambda: MultiHeadAttention(8, 2, pattern=()), ValueError, "each of the 2 heads, got 0"),
    "a word": (lambda: Encoder(C, pattern="window"), TypeError, WRONG + "str"),
    "a layer too few": (
        lambda: Encoder(C, pattern=[Full()]), ValueError, "a list of patterns has one for each of the 2 layers, got 1",
    ),
    "a layer too many": (lambda: Decoder(C, pattern=[Full()] * 3), ValueError, "each of the 2 layers, got 3"),
    "a number": (lambda: Decoder(C, pattern=3), TypeError, WRONG + "int"),
    "a decoder's head without a rule": (lambda: Decoder(C, pattern=(Full(), None)), TypeError, WRONG + "NoneType"),
    "a decoder's rule too few": (
        lambda: Decoder(C, pattern=(Full(),)), ValueError, "each of the 2 heads, got 1",
    ),
    "a layer's word": (lambda: EncoderLayer(C, pattern="window"), TypeError, WRONG + "str"),
    "a decoder layer's word": (lambda: DecoderLayer(C, pattern="window"), TypeError, WRONG + "str"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("build", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_patterns_that_do_not_fit_are_refused(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("n", [5, 200])
def test_more_tokens_than_were_drawn_for_are_refused_on_both_paths(n):
    layer = MultiHeadAttention(8, 2, pattern=Random(n - 1, 1, seed=0) & Window(2))
    with pytest.raises(ValueError, match=f"drawn for n={n - 1} tokens, got {n}; draw for {n}"):
        layer(torch.zeros(1, n, 8))
    layer = MultiHeadAttention(8, 2, pattern=Random(n - 1, 1, seed=0), positions=T5Bias(2))
    with pytest.raises(ValueError, match=f"drawn for n={n - 1} tokens, got {n}; draw for {n}"):
        layer(torch.zeros(1, n, 8))


def test_the_reference_of_these_tests_is_dense_attention():
    # a layer with a mask is dense.attention on its heads; test_attention.py holds it to loops
    it, x = scrambled(MultiHeadAttention(8, 2)), randn(1, 9, 8)
    q, k, v = (it.split_heads(f(x)) for f in (it.query, it.key, it.value))
    mask = Window(2).mask(9)
    assert_same(it(x, mask=mask), it.join_heads(attention(q, k, v, mask)))
