"""Multi-head attention: one sum over heads, whoever may read, and a cache that changes nothing."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian

from tinyattn import MultiHeadAttention, attention
from tinyattn.content import SinkhornRouter
from tinyattn.patterns import Causal, Full
from tinyattn.transformer import KVCache, Positions, RoPE, Shaw, T5Bias

from .. import reference
from ..close import assert_same
from .tiny import compositions, randn, scrambled, seeded


def layer(d_model=8, n_heads=2, seed=0, **options) -> MultiHeadAttention:
    return scrambled(MultiHeadAttention(d_model, n_heads, **options), seed)


def by_loops(layer, x, context, mask=None, rotary=False):
    weights = {
        f"it.{name}": value for name, value in reference.as_numpy(layer.state_dict()).items()
    }
    mask = None if mask is None else mask.numpy()
    x, context = x.detach().numpy(), context.detach().numpy()
    return reference.multi_head(x, context, weights, "it", layer.n_heads, mask, rotary)


# --------------------------------------------------------------------------- the definition


@settings(max_examples=20)
@given(
    n_q=st.integers(0, 4), n_k=st.integers(0, 5), n_heads=st.sampled_from([1, 2, 3, 6]),
    share=st.sampled_from([0.0, 0.5, 1.0]), bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_it_is_the_sum_of_heads_times_their_blocks_of_the_output_map(
    n_q, n_k, n_heads, share, bias, seed
):
    it = layer(6, n_heads, seed, bias=bias)
    x, context = randn(1, n_q, 6, seed=seed), randn(1, n_k, 6, seed=seed + 1)
    mask = torch.rand(n_q, n_k, generator=seeded(seed)) < share
    expected = by_loops(it, x[0], context[0], mask)
    np.testing.assert_allclose(it(x, context, mask=mask)[0].detach(), expected, atol=1e-12)


def test_self_attention_reads_x_itself():
    it, x = layer(), randn(2, 5, 8)
    assert torch.equal(it(x), it(x, context=x))
    np.testing.assert_allclose(it(x)[1].detach(), by_loops(it, x[1], x[1]), atol=1e-12)


def test_one_head_is_attention_between_two_linear_maps():
    it, x = layer(8, 1), randn(2, 5, 8)
    single = it.out(attention(it.query(x), it.key(x), it.value(x)))
    assert_same(it(x), single, rtol=1e-12)


@pytest.mark.parametrize("order", [[1, 0, 3, 2], [3, 2, 1, 0], [1, 2, 3, 0]])
def test_heads_may_change_places_together_with_their_blocks(order):
    it, other = layer(8, 4), layer(8, 4, seed=1)
    rows = torch.arange(8).view(4, 2)[order].flatten()
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(other, name).weight.copy_(getattr(it, name).weight[rows])
            getattr(other, name).bias.copy_(getattr(it, name).bias[rows])
        other.out.weight.copy_(it.out.weight[:, rows])
        other.out.bias.copy_(it.out.bias)
    x = randn(2, 5, 8)
    assert_same(it(x), other(x), rtol=1e-12)


@pytest.mark.parametrize("n_heads", [1, 2, 4, 12])
@pytest.mark.parametrize("bias", [False, True])
def test_the_number_of_parameters_does_not_depend_on_the_number_of_heads(n_heads, bias):
    count = sum(p.numel() for p in MultiHeadAttention(12, n_heads, bias=bias).parameters())
    assert count == 4 * 12**2 + (4 * 12 if bias else 0)


def test_heads_may_be_wider_or_narrower_than_their_share():
    it = layer(8, 3, d_head=5)
    assert it.query.weight.shape == (15, 8)
    assert it.out.weight.shape == (8, 15)
    x = randn(1, 4, 8)
    np.testing.assert_allclose(it(x)[0].detach(), by_loops(it, x[0], x[0]), atol=1e-12)


def test_scores_are_scaled_by_the_width_of_a_head_or_by_what_is_given():
    plain, given_scale = layer(8, 2), layer(8, 2, scale=0.5)
    unscaled, x = layer(8, 2, scale=1.0), randn(1, 5, 8)
    assert_same(plain(x), given_scale(x), rtol=1e-13)  # 1 / √4
    assert not torch.allclose(plain(x), unscaled(x))


# ----------------------------------------------------------------------------- who reads whom


def reads(it, x, **options):
    """Support of the Jacobian: does output i change with token j?"""
    blocks = jacobian(lambda x: it(x, **options), x)[0, :, :, 0]  # (n, d_model, n, d_model)
    return blocks.abs().sum((1, 3)) > 0


@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_a_token_that_reads_itself_alone_depends_on_itself_alone(n_heads):
    # a reshape that mixes tokens and heads has the right shapes and fails here
    eye = torch.eye(6, dtype=torch.bool)
    assert torch.equal(reads(layer(8, n_heads), randn(1, 6, 8), mask=eye), eye)


def test_the_jacobian_of_causal_attention_is_lower_triangular():
    assert torch.equal(reads(layer(pattern=Causal()), randn(1, 6, 8)), Causal().mask(6))


def test_pattern_mask_and_padding_all_have_to_allow():
    it, x = layer(pattern=Causal()), randn(1, 6, 8)
    mask = torch.rand(6, 6, generator=seeded(3)) < 0.6
    real = torch.tensor([[True, False, True, True, True, False]])
    readable = Causal().mask(6) & mask & real
    both = readable | torch.eye(6, dtype=torch.bool)  # queries come from x as well
    support = reads(it, x, mask=mask, key_padding=real)
    assert (support <= both).all()
    np.testing.assert_allclose(
        it(x, mask=mask, key_padding=real)[0].detach(),
        by_loops(it, x[0], x[0], readable),
        atol=1e-12,
    )


def test_each_head_and_each_sequence_can_have_its_own_mask():
    it, x = layer(8, 2), randn(3, 4, 8)
    mask = torch.rand(3, 2, 4, 4, generator=seeded(5)) < 0.5
    _, weights = it(x, mask=mask, return_weights=True)
    assert torch.equal(weights > 0, mask)
    _, weights = it(x, mask=mask[:, :1], return_weights=True)
    assert torch.equal(weights > 0, mask[:, :1].expand(3, 2, 4, 4))


def test_returned_weights_are_those_that_were_used():
    it, x = layer(8, 2), randn(2, 5, 8)
    out, weights = it(x, return_weights=True)
    assert weights.shape == (2, 2, 5, 5)
    assert_same(weights.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64))
    values = it.value(x).view(2, 5, 2, 4)
    mixed = torch.einsum("bhij,bjhd->bihd", weights, values).flatten(2)
    assert_same(it.out(mixed), out, rtol=1e-12)
    assert torch.equal(out, it(x))


def test_padded_keys_get_no_gradient_and_change_no_output():
    it, x = layer(), randn(2, 3, 8)
    context = randn(2, 5, 8, seed=1).requires_grad_()
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0]], dtype=torch.bool)
    out = it(x, context, key_padding=real)
    out.pow(2).sum().backward()
    assert torch.equal(context.grad.abs().sum(-1) > 0, real)
    other = torch.where(real[..., None], context, 1e6)
    assert torch.equal(it(x, other, key_padding=real), out)


def test_a_sequence_of_padding_alone_gives_the_output_bias_and_poisons_nobody():
    it, x = layer(), randn(2, 4, 8).requires_grad_()
    real = torch.tensor([[False] * 4, [True] * 4])
    out = it(x, key_padding=real)
    out.pow(2).sum().backward()
    assert torch.equal(out[0], it.out.bias.expand(4, 8))
    assert_same(out[1], it(x[1:])[0], rtol=1e-12)
    assert not x.grad[0].any()
    assert all(p.grad.isfinite().all() for p in it.parameters())


def test_sequences_of_a_batch_do_not_see_each_other():
    it, x = layer(), randn(3, 4, 8)
    out = it(x)
    for b in range(3):
        assert_same(it(x[b : b + 1]), out[b : b + 1], rtol=1e-12)


@pytest.mark.parametrize(("b", "n", "n_context"), [(0, 3, 2), (1, 0, 2), (1, 3, 0), (1, 0, 0)])
def test_nothing_to_ask_and_nothing_to_read_are_no_errors(b, n, n_context):
    it = layer()
    out = it(randn(b, n, 8).requires_grad_(), randn(b, n_context, 8, seed=1))
    out.sum().backward()
    assert out.shape == (b, n, 8)
    if n_context == 0:
        assert torch.equal(out, it.out.bias.expand(b, n, 8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("positions", [Positions(), RoPE(4), T5Bias(2), Shaw(4, 2)])
def test_half_precision_and_autocast_stay_close(dtype, positions):
    it, x = layer(positions=positions, pattern=Causal()).float(), randn(2, 6, 8).float()
    expected = it(x)
    with torch.autocast("cpu", dtype=dtype):
        mixed = it(x)
    assert_same(mixed.float(), expected, atol=0.05)
    half = it.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    assert_same(half.float(), expected, atol=0.05)


def test_a_layer_comes_back_from_its_state_dict():
    it, other, x = layer(), layer(seed=7), randn(1, 4, 8)
    other.load_state_dict(it.state_dict())
    assert torch.equal(it(x), other(x))
    assert set(it.state_dict()) == {
        f"{name}.{part}" for name in ("query", "key", "value", "out") for part in ("weight", "bias")
    }


def test_gradients_of_a_whole_layer_pass_gradcheck():
    it, x = layer(4, 2, pattern=Causal(), positions=Shaw(2, 1)), randn(1, 3, 4).requires_grad_()
    real = torch.tensor([[True, False, True]])
    assert torch.autograd.gradcheck(lambda x: it(x, key_padding=real), x)
    names, parameters = zip(*it.named_parameters(), strict=True)

    def output(*values):
        return torch.func.functional_call(it, dict(zip(names, values, strict=True)), (x.detach(),))

    assert torch.autograd.gradcheck(output, parameters)


# --------------------------------------------------------------------------------- the cache


def test_a_cache_grows_by_the_tokens_it_is_shown_and_keeps_their_order():
    cache, it, x = KVCache(), layer(), randn(2, 5, 8)
    assert len(cache) == 0
    for length, piece in zip([2, 2, 3, 5], [x[:, :2], x[:, :0], x[:, 2:3], x[:, 3:]], strict=True):
        it(piece, cache=cache)
        assert len(cache) == length
    assert_same(cache.k, it.key(x).view(2, 5, 2, 4).transpose(1, 2), rtol=1e-12)
    assert_same(cache.v, it.value(x).view(2, 5, 2, 4).transpose(1, 2), rtol=1e-12)


@pytest.mark.parametrize("positions", [None, RoPE(4), T5Bias(2), Shaw(4, 2)])
def test_pieces_through_a_cache_are_the_whole_under_any_mask(positions):
    it, x = layer(pattern=Causal(), positions=positions), randn(2, 5, 8)
    real = torch.tensor([[True, True, False, True, True], [False, True, True, True, False]])
    mask = torch.rand(2, 2, 5, 5, generator=seeded(2)) < 0.7
    whole = it(x, mask=mask, key_padding=real)
    for sizes in compositions(5):
        cache, start = KVCache(), 0
        for size in sizes:
            stop = start + size
            out = it(
                x[:, start:stop],
                mask=mask[:, :, start:stop, :stop],
                key_padding=real[:, :stop],
                cache=cache,
            )
            assert_same(out, whole[:, start:stop], rtol=1e-11, atol=1e-13)
            start = stop


def test_a_context_is_projected_once_and_then_read_from_the_cache():
    it, x, context, cache = layer(), randn(2, 3, 8), randn(2, 4, 8, seed=1), KVCache()
    calls = []
    it.key.register_forward_hook(lambda *_: calls.append("key"))
    it.value.register_forward_hook(lambda *_: calls.append("value"))
    for t in range(3):
        out = it(x[:, t : t + 1], context, cache=cache)
        assert len(cache) == 4
        assert_same(out, it(x, context)[:, t : t + 1], rtol=1e-12)
    assert calls.count("key") == calls.count("value") == 1 + 3  # the cache's, and the comparisons'


def test_gradients_flow_through_a_cache():
    it, x = layer(pattern=Causal()), randn(1, 4, 8)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    it(one)[:, -1].sum().backward()
    cache = KVCache()
    it(two[:, :3], cache=cache)
    it(two[:, 3:], cache=cache).sum().backward()
    assert_same(one.grad, two.grad, rtol=1e-11)


# ---------------------------------------------------------------------------------- refusals


BUILT_WRONG = {
    "an indivisible width": (
        (100, 8), {}, ValueError,
        "d_model must be divisible by n_heads, got d_model=100 and n_heads=8; or give d_head",
    ),
    "no width": ((0, 1), {}, ValueError, "1 or more, got d_model=0, n_heads=1"),
    "no heads": ((8, 0), {}, ValueError, "1 or more, got d_model=8, n_heads=0"),
    "heads without width": ((8, 2), {"d_head": 0}, ValueError, "d_head must be 1 or more, got 0"),
    "a broken width": ((8.0, 2), {}, TypeError, r"d_model must be a whole number, got 8\.0"),
    "a yes for heads": ((8, True), {}, TypeError, "n_heads must be a whole number, got True"),
    "a broken head": ((8, 2), {"d_head": 4.5}, TypeError, r"d_head must be a whole number, got 4\.5"),
    "a matrix as pattern": (
        (8, 2), {"pattern": torch.ones(2, 2)}, TypeError, r"pattern must be a rule such as Causal\(\), got Tensor",
    ),
    "a class as positions": ((8, 2), {"positions": RoPE}, TypeError, r"scheme such as RoPE\(d_head\), got <class"),
    "no number as scale": ((8, 2), {"scale": float("nan")}, ValueError, "scale must be a finite number, got nan"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("args", "options", "error", "sentence"), BUILT_WRONG.values(), ids=BUILT_WRONG
)
def test_a_layer_that_cannot_be_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        MultiHeadAttention(*args, **options)


X = torch.zeros(2, 5, 8)
YES = torch.ones(5, 5, dtype=torch.bool)
CALLED_WRONG = {
    "x without a batch": ((X[0],), {}, ValueError, r"x must be \(b, n, d_model=8\), got \(5, 8\)"),
    "x of another width": ((X[..., :6],), {}, ValueError, r"d_model=8\), got \(2, 5, 6\)"),
    "a context of another width": (
        (X, X[..., :6]), {}, ValueError, r"context must be \(b, n_k, d_model=8\), got \(2, 5, 6\)",
    ),
    "a context without a batch": ((X, X[0]), {}, ValueError, r"d_model=8\), got \(5, 8\)"),
    "one context for two sequences": (
        (X, X[:1]), {}, ValueError, "batches of one size, got 2 and 1 sequences",
    ),
    "a mask with three axes": (
        (X,), {"mask": YES.expand(2, 5, 5)}, ValueError,
        r"mask must be \(n_q, n_k\) or \(b, 1 or h, n_q, n_k\), got \(2, 5, 5\); .* head axis of 1",
    ),
    "a mask with one axis": ((X,), {"mask": YES[0]}, ValueError, r"got \(5,\)"),
    "a mask of another length": (
        (X,), {"mask": YES[:, :4]}, ValueError, r"broadcast to .* = \(2, 2, 5, 5\), got \(5, 4\)",
    ),
    "a mask for three heads": (
        (X,), {"mask": YES.expand(2, 3, 5, 5)}, ValueError, r"= \(2, 2, 5, 5\), got \(2, 3, 5, 5\)",
    ),
    "a float mask": ((X,), {"mask": YES.float()}, TypeError, "mask must be bool .*, got torch.float32"),
    "padding of another length": (
        (X,), {"key_padding": YES[:2, :4]}, ValueError,
        r"one entry for each key, cached ones included: \(b, n\) = \(2, 5\), got \(2, 4\)",
    ),
    "padding of another batch": ((X,), {"key_padding": YES[:3]}, ValueError, r"= \(2, 5\), got \(3, 5\)"),
    "integer padding": (
        (X,), {"key_padding": YES[:2].long()}, TypeError,
        "key_padding must be bool with True for a real token, got torch.int64",
    ),
    "a mask elsewhere": (
        (X,), {"mask": YES.to("meta")}, ValueError, "mask must be on the device of q, cpu, got meta",
    ),
    "padding elsewhere": (
        (X,), {"key_padding": YES[:2].to("meta")}, ValueError,
        "key_padding must be on the device of the tokens, cpu, got meta",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("pattern", [None, Full()])
@pytest.mark.parametrize(
    ("args", "options", "error", "sentence"), CALLED_WRONG.values(), ids=CALLED_WRONG
)
def test_input_that_does_not_fit_is_refused(args, options, error, sentence, pattern):
    if len(args) == 2:
        pattern = None
    with pytest.raises(error, match=sentence):
        MultiHeadAttention(8, 2, pattern=pattern)(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    "rule", [{"pattern": Causal()}, {"positions": RoPE(4)}, {"positions": T5Bias(2)}]
)
def test_rules_of_one_sequence_are_refused_in_cross_attention(rule):
    (named,) = rule.values()
    sentence = re.escape(f"{named!r} relates positions of one sequence; cross-attention")
    with pytest.raises(ValueError, match=sentence):
        MultiHeadAttention(8, 2, **rule)(X, X)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("positions", "sentence"),
    [
        (RoPE(2), "RoPE for d_head=2 must meet heads of that width, got 4"),
        (RoPE(6), "RoPE for d_head=6 must meet heads of that width, got 4"),
        (Shaw(3, 2), "Shaw's vectors of d_head=3 must meet heads of that width, got 4"),
        (Shaw(1, 2), "Shaw's vectors of d_head=1 must meet heads of that width, got 4"),
        (T5Bias(1), "T5's bias for n_heads=1 must meet as many heads, got 2"),
        (T5Bias(3), "T5's bias for n_heads=3 must meet as many heads, got 2"),
    ],
)
def test_a_scheme_for_other_heads_is_refused(positions, sentence):
    with pytest.raises(ValueError, match=sentence):
        MultiHeadAttention(8, 2, positions=positions)(X)


@pytest.mark.usefixtures("refusals")
def test_a_cache_serves_one_batch_of_one_layer():
    cache, it = KVCache(), MultiHeadAttention(8, 2)
    it(X, cache=cache)
    with pytest.raises(ValueError, match=r"holds a batch of 2 sequences, got 1; .* new cache"):
        it(X[:1], cache=cache)
    with pytest.raises(ValueError, match=r"heads of \(h, d_head\) = \(2, 4\), got \(4, 2\)"):
        MultiHeadAttention(8, 4)(X, cache=cache)
    assert len(cache) == 5


@pytest.mark.usefixtures("refusals")
def test_a_cached_context_is_not_exchanged_for_another():
    cache, it = KVCache(), MultiHeadAttention(8, 2)
    it(X, X[:, :4], cache=cache)
    with pytest.raises(ValueError, match=r"\(b, n_k\) = \(2, 4\), got another one of \(2, 3\)"):
        it(X, X[:, :3], cache=cache)
    with pytest.raises(ValueError, match=r"\(b, n_k\) = \(2, 4\), got another one of \(1, 4\)"):
        it(X[:1], X[:1, :4], cache=cache)


@pytest.mark.parametrize("refused", ["mask", "cache"])
def test_a_layer_with_a_router_names_what_it_cannot_take(refused):
    ways = {"mask": torch.ones(3, 3, dtype=torch.bool), "cache": KVCache()}
    routed = MultiHeadAttention(8, 2, pattern=SinkhornRouter(2, 4, block_size=1, n_blocks=3))
    with pytest.raises(ValueError, match=f"takes no {refused}.* got a {refused} with Sinkhorn"):
        routed(randn(1, 3, 8), **{refused: ways[refused]})
