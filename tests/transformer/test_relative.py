"""Relative positions against loops: only distances count, in the right direction."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import MultiHeadAttention, attention
from tinyattn.patterns import Causal, Full, Window, bp_transformer
from tinyattn.transformer import EdgeTypes, EtcPositions, RoPE, Shaw, T5Bias

from .. import reference
from ..close import assert_same
from .tiny import (
    assert_begins_with,
    assert_read_by_a_sparse_layer,
    randn,
    scrambled,
    small,
)


def with_scheme(scheme, pattern=None, n_heads=2) -> MultiHeadAttention:
    return scrambled(MultiHeadAttention(8, n_heads, positions=scheme, pattern=pattern))


# -------------------------------------------------------------------------------------- Shaw


@pytest.mark.parametrize("max_distance", [0, 1, 3, 50])
@pytest.mark.parametrize("pattern", [Full(), Causal()])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_shaw_equals_the_loop_over_pairs(max_distance, pattern, n):
    it, x = with_scheme(Shaw(4, max_distance), pattern), randn(1, n, 8)
    q, k, v = (
        getattr(it, name)(x).view(n, 2, 4).transpose(0, 1).detach().numpy()
        for name in ("query", "key", "value")
    )
    tables = (it.positions.a_key.detach().numpy(), it.positions.a_value.detach().numpy())
    heads = [
        reference.shaw(q[h], k[h], v[h], pattern.mask(n).numpy(), *tables, 4**-0.5)
        for h in range(2)
    ]
    expected = it.out(torch.from_numpy(np.concatenate(heads, axis=1)))
    assert_same(it(x)[0], expected, rtol=1e-11, atol=1e-13)


def test_shaw_adds_nothing_to_a_query_that_reads_nothing():
    it, x = with_scheme(Shaw(4, 2)), randn(1, 3, 8)
    out = it(x, key_padding=torch.zeros(1, 3, dtype=torch.bool))
    assert torch.equal(out[0], it.out.bias.expand(3, 8))


def test_shaw_rows_are_shared_by_heads_and_used_up_to_the_longest_distance():
    it = with_scheme(Shaw(4, 5))
    it(randn(1, 3, 8)).pow(2).sum().backward()
    used = torch.zeros(11, dtype=torch.bool)
    used[3:8] = True  # distances -2 … 2 of three tokens
    for table in (it.positions.a_key, it.positions.a_value):
        assert table.shape == (11, 4)
        assert torch.equal(table.grad.abs().sum(-1) > 0, used)


# ---------------------------------------------------------------------------------------- T5


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("sizes", [(32, 128), (4, 3), (8, 20), (16, 64), (6, 1000)])
def test_buckets_equal_their_borders_as_numbers(sizes, bidirectional):
    ours = T5Bias(1, *sizes, bidirectional=bidirectional).bucket(torch.arange(-400, 401))
    expected = [reference.t5_bucket(d, *sizes, bidirectional) for d in range(-400, 401)]
    assert ours.tolist() == expected


@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_grow_with_distance_and_use_every_number(bidirectional):
    it = T5Bias(1, bidirectional=bidirectional)
    past = it.bucket(-torch.arange(0, 300))
    assert (past.diff() >= 0).all()
    future = it.bucket(torch.arange(1, 300))
    assert (future.diff() >= 0).all()
    seen = set(past.tolist()) | set(future.tolist())
    # the query itself owns bucket 0, so 16 + 0 names a future at distance 0: nobody
    assert seen == (set(range(32)) - {16} if bidirectional else set(range(32)))


def test_the_bias_of_a_pair_is_its_heads_number_for_its_bucket():
    it, x = with_scheme(T5Bias(2, 8, 20)), randn(1, 5, 8)
    scheme = it.positions
    bias = torch.zeros(2, 5, 5, dtype=torch.float64)
    for h in range(2):
        for i in range(5):
            for j in range(5):
                bias[h, i, j] = scheme.table[reference.t5_bucket(j - i, 8, 20, True), h]
    q, k, v = (
        getattr(it, name)(x).view(1, 5, 2, 4).transpose(1, 2) for name in ("query", "key", "value")
    )
    expected = it.out(attention(q, k, v, bias=bias).transpose(1, 2).flatten(2))
    assert_same(it(x), expected, rtol=1e-12)


def test_a_direction_matters_to_a_bidirectional_bias():
    it = T5Bias(1)
    assert it.bucket(torch.tensor(3)) != it.bucket(torch.tensor(-3))


# -------------------------------------------------------------------------------------- RoPE


@pytest.mark.parametrize("d_head", [2, 4, 6])
def test_rope_turns_pairs_like_complex_numbers(d_head):
    x = randn(1, 1, 5, d_head)
    ours = RoPE(d_head).rotate(x, torch.arange(3, 8))[0, 0]
    expected = [reference.turned(x[0, 0, t].numpy(), 3 + t) for t in range(5)]
    np.testing.assert_allclose(ours, np.stack(expected), atol=1e-12)


def test_rope_attention_equals_the_loops():
    it, x = with_scheme(RoPE(4), Causal()), randn(1, 5, 8)
    weights = {f"it.{n}": value for n, value in reference.as_numpy(it.state_dict()).items()}
    expected = reference.multi_head(
        x[0].numpy(), x[0].numpy(), weights, "it", 2, reference.causal(5, 5), rotary=True
    )
    np.testing.assert_allclose(it(x)[0].detach(), expected, atol=1e-12)


def test_rope_keeps_norms_and_leaves_position_zero_alone():
    x = randn(2, 3, 5, 4)
    turned = RoPE(4).rotate(x, torch.arange(5) * 1000)
    assert_same(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])


@settings(max_examples=15)
@given(i=st.integers(0, 50), j=st.integers(0, 50), shift=st.integers(0, 2000))
def test_a_turned_product_depends_on_the_distance_alone(i, j, shift):
    it, (q, k) = RoPE(6), randn(2, 1, 1, 1, 6)

    def product(i, j):
        return it.rotate(q, torch.tensor([i])).flatten() @ it.rotate(k, torch.tensor([j])).flatten()

    assert_same(product(i, j), product(i + shift, j + shift), atol=1e-10)


def test_rope_angles_stay_exact_far_out_in_float32():
    x = randn(1, 1, 2, 4).float()
    far = torch.tensor([1_000_000, 1_000_001])
    wide = RoPE(4).rotate(x.double(), far)
    assert_same(RoPE(4).rotate(x, far).double(), wide, atol=1e-6)


def test_the_base_sets_the_slow_frequencies():
    x = randn(1, 1, 3, 4)
    ours = RoPE(4, base=100.0).rotate(x, torch.arange(3))
    expected = [reference.turned(x[0, 0, t].numpy(), t, base=100.0) for t in range(3)]
    np.testing.assert_allclose(ours[0, 0], np.stack(expected), atol=1e-13)


# ------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("scheme", [Shaw(4, 2), T5Bias(2, 8, 20), RoPE(4)])
@pytest.mark.parametrize("shift", [1, 17])
def test_only_distances_count(scheme, shift):
    it = with_scheme(scheme)
    x = randn(1, 2, 5, 8)
    q, k, i = x[:, :, :, :4], x[:, :, :, 4:], torch.arange(5)
    weights = attention(q, k, k)
    weights = torch.softmax(q @ k.mT, dim=-1)

    def all_hooks(start):
        at = i + start
        turned = it.positions.rotate(q, at) @ it.positions.rotate(k, at).mT
        score, value = (
            it.positions.score_bias(q, at, at, 0.5),
            it.positions.value_bias(weights, at, at),
        )
        return [turned, *(part for part in (score, value) if part is not None)]

    for here, there in zip(all_hooks(0), all_hooks(shift), strict=True):
        assert_same(here, there, atol=1e-11)


@pytest.mark.parametrize("scheme", [Shaw(4, 2), T5Bias(2, 8, 20), RoPE(4)])
def test_padding_in_front_moves_every_token_and_changes_nothing(scheme):
    it, x = with_scheme(scheme), randn(1, 4, 8)
    longer = torch.cat([randn(1, 3, 8, seed=1), x], dim=1)
    real = torch.tensor([[False] * 3 + [True] * 4])
    assert_same(it(longer, key_padding=real)[:, 3:], it(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", [Shaw(4, 2), T5Bias(2, 8, 20), RoPE(4)])
def test_tokens_in_another_order_give_another_answer(scheme):
    it, x, order = with_scheme(scheme), randn(1, 5, 8), [4, 2, 0, 1, 3]
    assert not torch.allclose(it(x[:, order]), it(x)[:, order], atol=1e-3)


def test_schemes_take_their_sizes_from_a_config():
    config = small(n_heads=2, d_model=8, max_distance=3)
    assert Shaw.from_config(config).a_key.shape == (7, 4)
    assert RoPE.from_config(config).d_head == 4
    assert T5Bias.from_config(config).table.shape == (32, 2)
    assert T5Bias.from_config(config).bidirectional
    assert not T5Bias.from_config(config, bidirectional=False).bidirectional


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (lambda: Shaw(0, 2), ValueError, "got d_head=0 and max_distance=2"),
        (lambda: Shaw(4, -1), ValueError, "max_distance 0 or more, got d_head=4 and max_distance=-1"),
        (lambda: Shaw(4, 1.5), TypeError, r"max_distance must be a whole number, got 1\.5"),
        (lambda: T5Bias(0), ValueError, "n_heads must be 1 or more, .* got n_heads=0, n_buckets=32"),
        (lambda: T5Bias(2, 2), ValueError, "each direction needs 2 buckets or more .* n_buckets=2"),
        (lambda: T5Bias(2, 7), ValueError, "even n_buckets if bidirectional.*, n_buckets=7, bidirectional=True"),
        (lambda: T5Bias(2, 1, bidirectional=False), ValueError, "n_buckets=1, bidirectional=False"),
        (lambda: T5Bias(2, 32, 8), ValueError, "max_distance must be above the 8 distances .*, got 8"),
        (lambda: T5Bias(2, 32, 16, False), ValueError, "above the 16 distances .*, got 16"),
        (lambda: T5Bias(2, 32.0), TypeError, r"n_buckets must be a whole number, got 32\.0"),
        (lambda: RoPE(5), ValueError, "d_head must be even and 2 or more, .* got d_head=5"),
        (lambda: RoPE(0), ValueError, "d_head must be even and 2 or more, .* got d_head=0"),
        (lambda: RoPE(4.0), TypeError, r"d_head must be a whole number, got 4\.0"),
        (lambda: RoPE(4, base=-1.0), ValueError, r"base must be above 0, got -1\.0"),
        (lambda: RoPE(4, base=float("nan")), ValueError, "base must be above 0, got nan"),
    ],
)  # fmt: skip
def test_schemes_that_cannot_be_are_refused(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("width", [2, 6])
def test_heads_of_another_width_or_number_are_refused_with_what_came(width):
    q, at = torch.zeros(1, width, 5, width), torch.arange(5)
    with pytest.raises(ValueError, match=f"Shaw's vectors of d_head=4 must .* width, got {width}$"):
        Shaw(4, 2).score_bias(q, at, at, 1.0)
    with pytest.raises(ValueError, match=f"RoPE for d_head=4 must .* width, got {width}$"):
        RoPE(4).rotate(q, at)
    with pytest.raises(ValueError, match=f"T5's bias for n_heads=4 must .* heads, got {width}$"):
        T5Bias(4).score_bias(q, at, at, 1.0)


@pytest.mark.parametrize("scheme", [Shaw(4, 2), T5Bias(2)])
def test_a_long_sequence_hears_of_its_distances_too(scheme):
    """Where a sparse pattern would pay, scores with a bias are computed all the same."""
    it, x = with_scheme(scheme, Window(2)), randn(1, 300, 8)
    out, _ = it(x, return_weights=True)
    assert_same(it(x), out)


@pytest.mark.parametrize(
    "positions",
    [
        Shaw(64, 1),
        EtcPositions(64, n_global=1, max_distance=1),
        EdgeTypes(bp_transformer(2, 1), 64),
    ],
    ids=lambda positions: type(positions).__name__,
)
def test_vectors_of_pairs_do_not_overflow_in_half_precision(positions):
    q, at = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16), torch.arange(2)
    with torch.no_grad():
        for vectors in positions.half().parameters():
            vectors.fill_(40.0)
    bias = positions.score_bias(q, at, at, 0.125)  # 64 * 40 * 40 is 102,400, float16 ends at 65,504
    assert bool((bias == 12_800).all())


def test_tables_begin_with_the_deviation_of_their_scheme():
    shaw = Shaw(d_head=16, max_distance=100)
    assert_begins_with(0.25, shaw.a_key, shaw.a_value)
    assert_begins_with(1.0, T5Bias(n_heads=64, n_buckets=64).table)


@pytest.mark.parametrize("positions", [Shaw(4, 3), T5Bias(2)])
def test_distances_count_where_the_pattern_saves_work(positions):
    layer = MultiHeadAttention(8, 2, pattern=Window(2), positions=positions)
    assert_read_by_a_sparse_layer(scrambled(layer), randn(1, 400, 8))
