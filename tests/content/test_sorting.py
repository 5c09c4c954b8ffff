"""The sorting network, and the router: what they look at, and what they must not see."""

import copy

import pytest
import torch

from tinyattn import MultiHeadAttention
from tinyattn.content import (
    SinkhornRouter,
    SortingNetwork,
    block_sums,
    gumbel,
    matched_pattern,
    sinkhorn_attention,
    update_routers,
)
from tinyattn.patterns import Causal
from tinyattn.transformer import Decoder, Encoder

from ..close import assert_same
from ..transformer.tiny import randn, scrambled, seeded, small, some_tokens


def a_router(**changes):
    options = {"block_size": 3, "n_blocks": 4, "noise": False, **changes}
    return scrambled(SinkhornRouter(2, 4, **options))


def some_padding(n):
    return torch.arange(n)[None] < torch.tensor([[n], [n - 4]])


# -------------------------------------------------------------------------------------- sums


@pytest.mark.parametrize("n", [0, 1, 6, 7, 9])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_summary_adds_the_tokens_that_it_may_know(n, causal, padded):
    x, size = randn(2, 3, n, 5), 3
    real = torch.rand(2, n, generator=seeded(1)) < 0.6 if padded else None
    sums = block_sums(x, size, causal=causal, key_padding=real)
    starts = range(0, n, size)
    assert sums.shape == (2, 3, len(starts), 5)
    for b, (block, start) in ((b, s) for b in range(2) for s in enumerate(starts)):
        known = range(start + 1) if causal else range(start, min(start + size, n))
        kept = [t for t in known if real is None or real[b, t]]
        assert_same(sums[b, :, block], x[b][:, kept].sum(dim=1))


def test_padding_that_is_no_number_is_left_out_of_sums():
    x, real = randn(1, 1, 6, 2), torch.arange(6)[None] < 4
    x[:, :, 4:] = torch.nan
    assert block_sums(x, 3, key_padding=real).isfinite().all()


# ----------------------------------------------------------------------------------- network


def test_each_head_has_two_layers_of_its_own():
    network = scrambled(SortingNetwork(2, 5, n_blocks=6, d_hidden=7))
    x = randn(3, 2, 4, 5)
    for head in range(2):
        inner = x[:, head] @ network.expand[head] + network.expand_bias[head]
        scores = inner.clamp(min=0) @ network.contract[head] + network.contract_bias[head]
        assert_same(network(x)[:, head], scores[:, :, :4])
    assert SortingNetwork(2, 5, n_blocks=6).expand.shape == (2, 5, 24)


def test_networks_of_one_seed_are_equal_and_spread_like_a_linear_layer():
    torch.manual_seed(0)
    one = SortingNetwork(2, 100, 30)
    torch.manual_seed(0)
    other = SortingNetwork(2, 100, 30)
    assert torch.equal(one.expand, other.expand)
    assert 0.09 < float(one.expand.detach().abs().max()) <= 0.1
    assert 0.08 < float(one.contract.detach().abs().max()) <= 120**-0.5


def test_what_a_network_cannot_be_or_take_is_refused():
    with pytest.raises(ValueError, match="n_blocks must be 1 or more, got 0"):
        SortingNetwork(1, 2, 0)
    with pytest.raises(ValueError, match="d_hidden must be 1 or more, got 0"):
        SortingNetwork(1, 2, 3, 0)
    with pytest.raises(ValueError, match="knows 3 blocks, got 4"):
        SortingNetwork(1, 2, 3)(torch.zeros(1, 1, 4, 2))
    with pytest.raises(ValueError, match="block_size must be 1 or more, got 0"):
        SinkhornRouter(1, 2, block_size=0, n_blocks=3)


# ------------------------------------------------------------------------------------ router


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n", [12, 10, 3, 1])
@pytest.mark.parametrize("padded", [False, True])
def test_the_weights_are_what_values_are_multiplied_by(n, causal, hard, padded):
    router, (q, k, v) = a_router(causal=causal, hard=hard), randn(3, 2, 2, n, 4).unbind()
    real = some_padding(n) if padded else None
    weights = router.weights(q, k, key_padding=real, scale=0.7)
    assert_same(weights @ v, router.attend(q, k, v, key_padding=real, scale=0.7))
    if padded:
        assert (weights[1, :, :, max(n - 4, 0) :] == 0).all()
    else:
        assert_same(weights.sum(dim=-1), torch.ones(2, 2, n, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_a_router_sums_scores_sorts_and_attends(causal):
    router, (q, k, v) = a_router(causal=causal, n_iters=3), randn(3, 2, 2, 12, 4).unbind()
    scores = router.network(block_sums(torch.cat([q, k], dim=-1), 3, causal=causal))
    expected = sinkhorn_attention(q, k, v, scores, n_iters=3, causal=causal)
    assert_same(router.attend(q, k, v), expected)


def test_hard_routers_read_what_their_pattern_says():
    router, (q, k, _) = a_router(hard=True, causal=True), randn(3, 1, 2, 12, 4).unbind()
    weights, sort = router.weights(q, k), router.sort(q, k)
    for head in range(2):
        mask = matched_pattern(sort[0, head], 3, causal=True).mask(12)
        assert torch.equal(weights[0, head] > 0, mask)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n", [12, 11])
def test_no_output_depends_on_a_later_token_not_even_through_the_sort(n, hard):
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router(causal=True, hard=hard)))
    x = randn(1, n, 8)
    jacobian = torch.autograd.functional.jacobian(layer, x).abs().sum(dim=(0, 2, 3, 5))
    assert (jacobian.triu(1) == 0).all()
    assert (jacobian.diagonal() > 0).all()
    for token in range(n):
        changed = x.clone()
        changed[:, token] += 100 * randn(8, seed=token)
        assert torch.equal(layer(changed)[:, :token], layer(x)[:, :token])


def test_without_the_causal_rule_the_sort_does_look_ahead():
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router()))
    jacobian = torch.autograd.functional.jacobian(layer, randn(1, 12, 8))
    assert (jacobian.abs().sum(dim=(0, 2, 3, 5)) > 0).all()


@pytest.mark.parametrize("causal", [False, True])
def test_padding_behind_a_sequence_changes_nothing(causal):
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router(causal=causal)))
    x = randn(2, 7, 8)
    long = torch.cat([x, 50 * randn(2, 5, 8, seed=1)], dim=1)
    out = layer(long, key_padding=(torch.arange(12) < 7).expand(2, 12))
    assert_same(out[:, :7], layer(x))


def test_sequences_of_a_batch_do_not_see_each_other():
    layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router()))
    x = randn(3, 12, 8)
    assert_same(layer(x), torch.cat([layer(row[None]) for row in x]))


def test_noise_is_for_training_and_moves_with_updates_only():
    router, (q, k, _) = a_router(noise=True, seed=3), randn(3, 1, 2, 12, 4).unbind()
    before = torch.get_rng_state()
    plain = router.eval().sort_scores(q, k)
    noisy = router.train().sort_scores(q, k)
    assert torch.equal(noisy, router.sort_scores(q, k))
    assert_same(noisy, gumbel(plain, seeded(3 * 1_000_003)))
    update_routers(router)
    assert not torch.equal(router.sort_scores(q, k), noisy)
    assert torch.equal(router.eval().sort_scores(q, k), plain)
    assert torch.equal(torch.get_rng_state(), before)
    twin = a_router(noise=True, seed=3)
    twin.load_state_dict(copy.deepcopy(router.state_dict()))
    assert torch.equal(twin.train().sort_scores(q, k), router.train().sort_scores(q, k))
    assert not torch.equal(a_router(noise=True, seed=4).sort_scores(q, k), noisy)
    assert torch.equal(a_router(noise=False).train().sort_scores(q, k), plain)


def test_the_network_learns_through_the_sort():
    for hard in (False, True):
        layer = scrambled(MultiHeadAttention(8, 2, pattern=a_router(hard=hard)))
        layer(randn(2, 12, 8)).square().sum().backward()
        assert all((p.grad != 0).any() for p in layer.pattern.parameters())


def test_routers_fit_into_models_and_are_made_for_their_heads():
    encoder = Encoder(small(), pattern=SinkhornRouter(2, 4, block_size=2, n_blocks=4))
    assert encoder(some_tokens(2, 7)).shape == (2, 7, 8)
    causal = SinkhornRouter(2, 4, block_size=2, n_blocks=4, causal=True)
    decoder = scrambled(Decoder(small(), pattern=causal)).eval()
    tokens = some_tokens(1, 7)
    changed = tokens.clone()
    changed[:, 4:] = (tokens[:, 4:] + 1) % 11
    assert torch.equal(decoder(tokens)[:, :4], decoder(changed)[:, :4])
    with pytest.raises(ValueError, match="made for 2 heads of 4, got 4 of 2"):
        MultiHeadAttention(8, 4, pattern=a_router())
    with pytest.raises(ValueError, match="a decoder needs a causal router"):
        Decoder(small(), pattern=a_router())
    half = MultiHeadAttention(8, 2, pattern=(scrambled(one_head()), Causal()))
    assert half.double()(randn(1, 6, 8)).shape == (1, 6, 8)


def one_head():
    return SinkhornRouter(1, 4, block_size=3, n_blocks=4)


def test_a_block_of_padding_is_sorted_next_to_nobody_in_any_number_of_heads():
    real = torch.ones(1, 12, dtype=torch.bool)
    real[:, 9:] = False
    for n_heads in (1, 2, 3):
        router = SinkhornRouter(n_heads, 4, block_size=3, n_blocks=4)
        q, k = randn(1, n_heads, 12, 4).float(), randn(1, n_heads, 12, 4, seed=1).float()
        sort = router.sort(q, k, key_padding=real)
        assert sort.shape == (1, n_heads, 4, 4)
        assert (sort[..., 3] == 0).all()
        assert (sort[..., :3, :3].sum(dim=-1) > 0.9).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_runs_under_autocast(dtype, causal):
    router = SinkhornRouter(2, 4, block_size=7, n_blocks=20, causal=causal)
    layer = MultiHeadAttention(8, 2, pattern=router).eval()
    x = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype):
        out = layer(x)
    torch.testing.assert_close(out.float(), layer(x), atol=0.05, rtol=0.05)


@pytest.mark.parametrize("size", [0, -3])
def test_blocks_of_no_size_have_no_sums(size):
    with pytest.raises(ValueError, match=f"block_size must be 1 or more, got {size}"):
        block_sums(torch.ones(1, 1, 4, 2), size)


def test_a_router_divides_eight_times_if_nothing_else_is_said():
    q, k, v = randn(3, 2, 2, 12, 4).unbind()
    first, same, other = (
        SinkhornRouter(2, 4, block_size=3, n_blocks=4, **options).eval().double()
        for options in ({}, {"n_iters": 8}, {"n_iters": 9})
    )
    for one in (same, other):
        one.load_state_dict(first.state_dict())
    expected = first.attend(q, k, v)
    assert torch.equal(same.attend(q, k, v), expected)
    assert not torch.equal(other.attend(q, k, v), expected)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"n_iters": 0}, ValueError, "n_iters must be 1 or more"),
        ({"temperature": -1.0}, ValueError, "temperature positive"),
        ({"seed": "a"}, TypeError, "seed must be a whole number"),
    ],
)
def test_a_router_that_cannot_sort_is_refused_at_once(options, error, reason, refusals):
    with pytest.raises(error, match=reason):
        SinkhornRouter(2, 4, block_size=3, n_blocks=2, **options)


def test_heads_that_it_was_not_made_for_are_refused(refusals):
    router = SinkhornRouter(1, 4, block_size=3, n_blocks=2)
    q = torch.ones(1, 2, 6, 4)
    with pytest.raises(ValueError, match="made for 1 heads of 4, got 2 of 4"):
        router.attend(q, q, q)


def test_padding_of_blocks_is_that_of_every_sequence(refusals):
    with pytest.raises(ValueError, match="key_padding must have one entry for each token"):
        block_sums(randn(2, 1, 6, 2), 3, key_padding=torch.ones(1, 6, dtype=torch.bool))
