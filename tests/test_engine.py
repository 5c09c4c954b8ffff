"""The engine equals dense attention under the rule's definition: outputs and gradients."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tinyattn import attention, engine
from tinyattn.engine import attend, sparse_attention
from tinyattn.groups import lowering, schedule
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Full,
    Global,
    Painted,
    Random,
    Strided,
    Window,
    bigbird,
    longformer,
    sparse_fixed,
    sparse_fixed_factors,
    sparse_strided,
)

from .close import assert_same
from .patterns import by_hand

N = 131  # odd, and no multiple of a group
PUBLIC = by_hand.public(N)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)
MERGED = Window(2) | Strided(7)  # neighbours and a stride: rows stand in two groups


def inputs(n_q, n_k=None, *, b=2, h=3, d=4, d_v=5, seed=0, dtype=torch.float64):
    n_k = n_q if n_k is None else n_k
    rng = torch.Generator().manual_seed(seed)
    sizes = ((n_q, d), (n_k, d), (n_k, d_v))
    return tuple(
        torch.randn(b, h, n, width, generator=rng, dtype=torch.float64).to(dtype).requires_grad_()
        for n, width in sizes
    )


def gradients(out, *at, seed=1):
    weights = torch.randn(
        out.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return torch.autograd.grad((out * weights.to(out.dtype)).sum(), at)


def assert_equals_dense(out, q, k, v, mask, **tolerance):
    """Outputs, and the gradients of a random weighting of them for q, k and v."""
    expected = attention(q, k, v, mask)
    assert_same(out, expected, **tolerance)
    for ours, theirs in zip(gradients(out, q, k, v), gradients(expected, q, k, v), strict=True):
        assert_same(ours, theirs, **tolerance)


def some_padding(b, n_k, seed=2):
    real = torch.rand(b, n_k, generator=torch.Generator().manual_seed(seed)) < 0.7
    real[0] = torch.arange(n_k) < n_k // 3  # the usual kind, and so deep that windows fall into it
    return real


# --------------------------------------------------------------- every pattern, every situation


@EVERY
@pytest.mark.parametrize(
    "situation", ["odd n", "n_q < n_k", "padded", "per head", "bfloat16", "one token"]
)
def test_every_pattern_equals_dense_attention(rule, situation):
    n_q, n_k = {"n_q < n_k": (70, N), "one token": (1, 1)}.get(situation, (N, N))
    dtype = torch.bfloat16 if situation == "bfloat16" else torch.float64
    q, k, v = inputs(n_q, n_k, dtype=dtype)
    mask, options, pattern = rule.mask(n_q, n_k), {}, rule.pattern
    if situation == "padded":
        options["key_padding"] = some_padding(2, n_k)
        mask = mask & options["key_padding"][:, None, None, :]
    if situation == "per head":
        pattern = (rule.pattern, Causal(), rule.pattern)
        mask = torch.stack([mask, Causal().mask(n_q, n_k), mask])
    out = sparse_attention(q, k, v, pattern, **options)
    assert out.dtype == dtype
    assert out.shape == (2, 3, n_q, 5)
    if situation != "bfloat16":
        assert_equals_dense(out, q, k, v, mask)
        return
    ours = (out, *gradients(out, q, k, v))
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = attention(*exact, mask)
    for mine, theirs in zip(ours, (expected, *gradients(expected, *exact)), strict=True):
        assert mine.dtype == dtype
        # one rounding at the end, 2^-9 of each number, and one of each weight of the sum
        assert_same(mine.double(), theirs, rtol=0.01, atol=0.03)


@settings(max_examples=100)
@given(
    case=by_hand.cases(40),
    block_size=st.sampled_from([1, 3, 8, 64]),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_expression_equals_dense_attention(case, block_size, padded, seed):
    rule, n, n_k = case
    q, k, v = inputs(n, n_k, h=2, d=3, d_v=2, seed=seed)
    mask, real = rule.mask(n, n_k), None
    if padded:
        real = some_padding(2, n_k, seed)
        mask = mask & real[:, None, None, :]
    groups = lowering.__wrapped__(rule.pattern, n, n_k, block_size=block_size)
    assert_equals_dense(attend(q, k, v, groups, key_padding=real), q, k, v, mask)


# ------------------------------------------------------------------------------------ inputs


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0)])
def test_inputs_may_be_views_of_any_kind(pattern):
    q, k, v = (x.detach() for x in inputs(N, d_v=4))
    plain = sparse_attention(q, k, v, pattern)
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert not swapped[0].is_contiguous()
    assert_same(sparse_attention(*swapped, pattern), plain)
    wide = torch.cat([q, k, v], dim=-1)
    assert_same(sparse_attention(*wide.split(4, dim=-1), pattern), plain)
    backwards = [x.flip(2) for x in (q, k, v)]
    assert_same(sparse_attention(*(x.flip(2) for x in backwards), pattern), plain)


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED])
def test_shared_keys_and_gradients_that_are_expanded_add_up(pattern):
    x = torch.randn(1, 1, 50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for attend_ in (sparse_attention, lambda q, k, v, p: attention(q, k, v, p.mask(50))):
        same = x.clone().requires_grad_()
        one = same.expand(2, 3, 50, 4)
        attend_(one, one, one, pattern).sum().backward()  # the sum's gradient is one number
        if attend_ is sparse_attention:
            ours = same.grad
    assert_same(ours, same.grad)


@pytest.mark.parametrize("d_v", [1, 4, 9])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED])
def test_values_may_be_wider_or_narrower_than_keys(pattern, d_v):
    q, k, v = inputs(90, d=4, d_v=d_v)
    assert_equals_dense(sparse_attention(q, k, v, pattern), q, k, v, pattern.mask(90))


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED])
def test_gradients_may_be_wanted_for_some_inputs_only(pattern, wanted):
    q, k, v = (x.detach().requires_grad_(at in wanted) for at, x in enumerate(inputs(90, d_v=4)))
    some = [(q, k, v)[at] for at in wanted]
    out, expected = sparse_attention(q, k, v, pattern), attention(q, k, v, pattern.mask(90))
    for ours, theirs in zip(gradients(out, *some), gradients(expected, *some), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5), (2, 2, 0)])
def test_nothing_to_compute_is_no_error(shape):
    q, k, v = inputs(shape[2], b=shape[0], h=shape[1])
    out = sparse_attention(q, k, v, Window(1))
    assert out.shape == (*shape, 5)
    out.sum().backward()
    assert q.grad.shape == q.shape


def test_no_query_among_many_keys_is_no_error():
    q, k, v = inputs(0, 9)
    out = sparse_attention(q, k, v, MERGED)
    out.sum().backward()
    assert out.shape == (2, 3, 0, 5)
    assert not k.grad.any()


@pytest.mark.parametrize("scale", [0.0, 0.3, -1.0, 20.0])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED])
def test_the_scale_is_the_one_given(pattern, scale):
    q, k, v = inputs(90)
    out = sparse_attention(q, k, v, pattern, scale=scale)
    expected = attention(q, k, v, pattern.mask(90), scale=scale)
    assert_same(out, expected)
    for ours, theirs in zip(gradients(out, q, k, v), gradients(expected, q, k, v), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Full()])
def test_large_scores_do_not_overflow(pattern):
    q, k, v = (x.detach() * 300 for x in inputs(90))
    out = sparse_attention(q, k, v, pattern)
    assert out.isfinite().all()
    assert_same(out, attention(q, k, v, pattern.mask(90)))


# -------------------------------------------------------------------------- heads and pieces


@pytest.mark.parametrize("limit", [1, 500, 64 * 70, 2**19])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0), Window(1)])
def test_heads_are_computed_as_many_at_a_time_as_the_cache_holds(monkeypatch, pattern, limit):
    monkeypatch.setattr(engine, "CACHED_SCORES", limit)
    q, k, v = inputs(N)
    real = some_padding(2, N)
    out = sparse_attention(q, k, v, pattern, key_padding=real)
    assert_equals_dense(out, q, k, v, pattern.mask(N) & real[:, None, None])


def test_each_piece_is_a_slice_of_heads_and_all_heads_have_their_turn(monkeypatch):
    groups = schedule(Random(200, 3, seed=0), 200)  # no two of them are alike
    monkeypatch.setattr(engine, "CACHED_SCORES", 3 * 64 * 200 + 1)
    for n_heads in (1, 5, 64):
        turns = {}
        for group, heads in engine._pieces(groups, n_heads):
            count = len(range(n_heads)[heads])
            assert count == 1 or count * group.n_pairs <= engine.CACHED_SCORES
            turns.setdefault(id(group), []).extend(range(n_heads)[heads])
        assert list(turns.values()) == [list(range(n_heads))] * len(groups.groups)


def test_of_groups_that_are_alike_each_has_its_turn_with_each_head(monkeypatch):
    groups = schedule(BlockLocal(60), 60 * 23)
    monkeypatch.setattr(engine, "CACHED_SCORES", 6 * 60**2 + 1)
    for n_heads in (1, 5, 64):
        turns = []
        for group, heads in engine._pieces(groups, n_heads):
            firsts = group.queries.take(torch.arange(60 * 23)[None, :, None])[:, 0, 0].tolist()
            count = len(firsts) * len(range(n_heads)[heads])
            assert count * group.n_pairs <= engine.CACHED_SCORES
            turns += [(first, head) for first in firsts for head in range(n_heads)[heads]]
        expected = [(first, head) for first in range(0, 60 * 23, 60) for head in range(n_heads)]
        assert sorted(turns) == expected


def test_each_head_follows_its_own_rule_and_equal_ones_share_a_schedule():
    patterns = (Window(2), Random(90, 2, seed=0), Window(2), MERGED, Full())
    q, k, v = inputs(70, 90, h=5)
    mask = torch.stack([rule.mask(70, 90) for rule in patterns])
    before = lowering.cache_info().misses
    out = sparse_attention(q, k, v, patterns)
    assert lowering.cache_info().misses - before <= 4
    assert_equals_dense(out, q, k, v, mask)
    assert_same(sparse_attention(q, k, v, list(patterns)), out)


# ------------------------------------------------------------------------ rows without keys


EMPTY_ROWS = {
    "one grouping": sparse_fixed_factors(40, 2)[1],
    "two groupings": (Strided(7) | Window(1)) & Global((60, 61), reads=False),
    "none reads": Painted(torch.zeros(90, 90, dtype=torch.bool)),
    "by index": Random(90, 2, seed=0) & Causal(),
}


@pytest.mark.parametrize("pattern", EMPTY_ROWS.values(), ids=EMPTY_ROWS)
def test_a_query_that_may_read_nothing_gives_zeros_and_takes_no_gradient(pattern):
    q, k, v = inputs(90)
    out, empty = sparse_attention(q, k, v, pattern), ~pattern.mask(90).any(dim=1)
    assert empty.any()
    assert not out[:, :, empty].any()
    assert_equals_dense(out, q, k, v, pattern.mask(90))
    again = sparse_attention(q, k, v, pattern)
    assert not gradients(again, q)[0][:, :, empty].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pattern", [Window(3), MERGED, BlockLocal(10), Random(90, 2, seed=1)])
def test_padding_that_empties_rows_gives_zeros_there_and_no_nan_anywhere(pattern, dtype):
    q, k, v = inputs(90, dtype=dtype)
    real = torch.zeros(2, 90, dtype=torch.bool)
    real[0, :20] = True  # the second sequence is padding alone
    out = sparse_attention(q, k, v, pattern, key_padding=real)
    grads = gradients(out, q, k, v)
    assert all(x.isfinite().all() for x in (out, *grads))
    assert not out[1].any()
    assert not any(grad[1].any() for grad in grads)
    assert not grads[1][0, :, 20:].any()
    assert not grads[2][0, :, 20:].any()
    readable = (pattern.mask(90) & real[0]).any(dim=1)
    assert out[0][:, readable].any(dim=-1).all()
    assert not out[0][:, ~readable].any()


def test_groupings_merge_where_one_of_them_is_empty():
    # the window reads nothing before 50, the stride nothing from there on, some rows neither
    pattern = (Window(2) & Global(tuple(range(50, 70)), reads=False)) | (
        Strided(5) & Global((0, 10, 11), reads=False)
    )
    q, k, v = inputs(90)
    groups = schedule(pattern, 90)
    assert groups.split_rows
    assert any(group.has_empty_rows for group in groups.groups)
    mask = pattern.mask(90)
    assert not mask.any(dim=1).all()
    assert_equals_dense(sparse_attention(q, k, v, pattern), q, k, v, mask)


@pytest.mark.parametrize(
    "pattern", [MERGED, sparse_strided(9), Window(1) | Strided(4) | Strided(6)]
)
def test_the_order_in_which_partial_results_merge_does_not_matter(pattern):
    q, k, v = inputs(90)
    groups = schedule(pattern, 90)
    reversed_ = type(groups)(groups.groups[::-1], groups.n, groups.n_k, groups.split_rows)
    assert_same(attend(q, k, v, reversed_), attend(q, k, v, groups))
    assert_equals_dense(attend(q, k, v, reversed_), q, k, v, pattern.mask(90))


# --------------------------------------------------------------------------------- invariants


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0)])
def test_padding_behind_a_sequence_changes_nothing(pattern):
    q, k, v = (x.detach() for x in inputs(N))
    short = sparse_attention(q[:, :, :80], k[:, :, :80], v[:, :, :80], pattern)
    real = (torch.arange(N) < 80).expand(2, N)
    k, v = (torch.where(real[:, None, :, None], x, 1e6) for x in (k, v))
    assert_same(sparse_attention(q, k, v, pattern, key_padding=real)[:, :, :80], short)


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0)])
def test_sequences_and_heads_do_not_see_each_other(pattern):
    q, k, v = (x.detach() for x in inputs(N))
    real = some_padding(2, N)
    out = sparse_attention(q, k, v, pattern, key_padding=real)
    for b in range(2):
        for h in range(3):
            own = (x[b : b + 1, h : h + 1] for x in (q, k, v))
            alone = sparse_attention(*own, pattern, key_padding=real[b : b + 1])
            assert_same(alone, out[b : b + 1, h : h + 1])


@pytest.mark.parametrize("pattern", [sparse_strided(9), sparse_fixed(9, 2), Window(4) & Causal()])
def test_the_future_of_a_causal_rule_changes_no_bit_of_the_past(pattern):
    q, k, v = (x.detach().clone() for x in inputs(N))
    before = sparse_attention(q, k, v, pattern)[:, :, :100]
    for x in (q, k, v):
        x[:, :, 100:] *= -1e3
    assert torch.equal(sparse_attention(q, k, v, pattern)[:, :, :100], before)


def test_inputs_are_left_as_they_were():
    q, k, v = inputs(90)
    copies = [x.detach().clone() for x in (q, k, v)]
    for pattern in (longformer(3, 2), MERGED):
        gradients(sparse_attention(q, k, v, pattern, key_padding=some_padding(2, 90)), q, k, v)
    assert all(torch.equal(x, copy) for x, copy in zip((q, k, v), copies, strict=True))


def test_global_random_state_is_neither_read_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    q, k, v = inputs(64)
    outs = []
    for _ in range(2):
        lowering.cache_clear()
        outs.append(sparse_attention(q, k, v, bigbird(64, 4, 2, seed=3)))
        gradients(outs[-1], q)
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(3)
        before = torch.get_rng_state()
    assert torch.equal(*outs)


@pytest.mark.parametrize("default", [torch.float64, torch.float32, torch.bfloat16])
def test_torchs_default_dtype_does_not_matter(default):
    q, k, v = inputs(90)
    real = some_padding(2, 90)
    expected = sparse_attention(q, k, v, MERGED, key_padding=real)
    torch.set_default_dtype(default)
    try:
        lowering.cache_clear()
        ours = sparse_attention(q, k, v, MERGED, key_padding=real)
    finally:
        torch.set_default_dtype(torch.float32)
        lowering.cache_clear()
    assert torch.equal(ours, expected)


def test_a_schedule_made_for_inference_serves_training():
    q, k, v = inputs(90)
    pattern = Random(90, 3, seed=12) | Window(2)
    lowering.cache_clear()
    with torch.inference_mode():
        sparse_attention(q, k, v, pattern)
    assert_equals_dense(sparse_attention(q, k, v, pattern), q, k, v, pattern.mask(90))


# ---------------------------------------------------------------------------------- precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0), Full()])
def test_half_precision_is_computed_in_single_and_rounded_once(pattern, dtype):
    q, k, v = inputs(N, dtype=dtype)
    out = sparse_attention(q, k, v, pattern)
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    single = sparse_attention(*exact, pattern)
    assert out.dtype == dtype
    assert torch.equal(out, single.to(dtype))
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    ours = torch.autograd.grad(out, (q, k, v), weights)
    theirs = torch.autograd.grad(single, exact, weights.float())
    assert all(torch.equal(a, b.to(dtype)) for a, b in zip(ours, theirs, strict=True))


def test_scores_beyond_half_precisions_range_are_no_infinities():
    q, k, v = (x.detach() * 200 for x in inputs(90, dtype=torch.float16, d=4))
    assert ((q.float() @ k.float().transpose(2, 3)).abs() > 65_504).any()
    assert sparse_attention(q, k, v, MERGED, scale=0.01).isfinite().all()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(N, 3, seed=0)])
def test_autocast_neither_rounds_the_softmax_nor_breaks_the_gradient(pattern, dtype, inside):
    q, k, v = inputs(N, dtype=torch.float32)
    expected = sparse_attention(q, k, v, pattern)
    with torch.autocast("cpu", dtype=dtype):
        out = sparse_attention(q, k, v, pattern)
        ours = gradients(out, q, k, v) if inside else None
    ours = gradients(out, q, k, v) if ours is None else ours
    assert torch.equal(out, expected)
    assert all(torch.equal(a, b) for a, b in zip(ours, gradients(expected, q, k, v), strict=True))


@pytest.mark.parametrize("pattern", [longformer(3, 2), MERGED, Random(20, 3, seed=0)])
def test_gradients_pass_gradcheck(pattern):
    q, k, v = inputs(12, 15, b=1, h=2, d=2, d_v=2)
    real = torch.ones(1, 15, dtype=torch.bool)
    real[0, [0, 7, 8, 14]] = False
    assert torch.autograd.gradcheck(
        lambda q, k, v: sparse_attention(q, k, v, pattern, key_padding=real, scale=0.7), (q, k, v)
    )


# ------------------------------------------------------------------------------------- memory


class Largest(TorchDispatchMode):
    """The largest tensor that any operator inside returns."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.numel())
        return out


@pytest.mark.parametrize(
    "pattern", [Window(64), Window(64) | Global(2), Window(16) | Strided(64), BlockLocal(128)]
)
def test_no_tensor_is_larger_than_the_inputs_or_the_chunk(monkeypatch, pattern):
    monkeypatch.setattr(engine, "CACHED_SCORES", 2**14)
    n, h = 4096, 4
    q, k, v = (x.detach() for x in inputs(n, b=1, h=h, d=1, d_v=1))
    schedule(pattern, n, n)  # masks are the schedule's, not the engine's
    biggest = max(2**14, h * n, *(group.n_pairs for group in schedule(pattern, n, n).groups))
    with torch.no_grad(), Largest() as largest:
        sparse_attention(q, k, v, pattern)
    assert largest.size <= biggest
    assert biggest < pattern.edges(n) / 2  # all weights of one head would not fit, nor of four


@pytest.mark.parametrize("pattern", [Window(64) | Global(2), Window(16) | Strided(64)])
def test_what_waits_for_the_backward_pass_is_of_the_size_of_the_inputs(pattern):
    q, k, v = inputs(1024, b=1, h=2, d=4, d_v=4)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    ):
        sparse_attention(q, k, v, pattern, key_padding=torch.ones(1, 1024, dtype=torch.bool))
    assert sum(kept) <= q.numel() * 4 + 3 * q.shape[1] * q.shape[2]  # q, k, v, out; lse, padding


def test_gradients_may_be_asked_for_twice_if_the_graph_is_kept():
    q, k, v = inputs(90)
    out = sparse_attention(q, k, v, MERGED)
    first = torch.autograd.grad(out.sum(), (q, k, v), retain_graph=True)
    second = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("pattern", [Window(1), MERGED])
def test_second_derivatives_are_refused_and_not_silently_left_out(pattern):
    q, k, v = inputs(9)
    loss = sparse_attention(q, k, v, pattern).sum()  # its own gradient is a constant
    with pytest.raises(NotImplementedError, match=r"no second derivatives \(create_graph=True\)"):
        torch.autograd.grad(loss, q, create_graph=True)
    (first,) = torch.autograd.grad(attention(q, k, v, pattern.mask(9)).sum(), q, create_graph=True)
    assert first.requires_grad  # what the sentence recommends


Q = torch.zeros(2, 3, 5, 4)
YES = torch.ones(2, 5, dtype=torch.bool)
W = Window(1)
LONG = torch.zeros(1, 1, 400, 4)
REFUSED = {
    "no batch": ((Q[0], Q[0], Q[0], W), {}, ValueError, r"must be \(b, h, n, d_head\) .*, got q \(3, 5, 4\), k"),
    "a batch of values only": (
        (Q[0], Q[0], Q, W), {}, ValueError, r"must be \(b, h, n, d_head\) .*, got q \(3, 5, 4\), k",
    ),
    "no width": (
        (Q[..., :0], Q[..., :0], Q, W), {}, ValueError, r"d_head of 1 or more, got q \(2, 3, 5, 0\), k",
    ),
    "another batch": (
        (Q, Q[:1], Q[:1], W), {}, ValueError, r"must share b and h, .* got q \(2, 3, 5, 4\), k \(1, 3, 5, 4\)",
    ),
    "other heads": ((Q, Q, Q[:, :1], W), {}, ValueError, r"share b and h, .* v \(2, 1, 5, 4\)"),
    "other widths": ((Q, Q[..., :3], Q, W), {}, ValueError, r"q and k d_head, .* k \(2, 3, 5, 3\)"),
    "values for other keys": ((Q, Q, Q[:, :, :4], W), {}, ValueError, r"k and v n_k, .* v \(2, 3, 4, 4\)"),
    "fewer keys than queries": (
        (Q, Q[:, :, :4], Q[:, :, :4], W), {}, ValueError, r"0 <= n <= n_k .* got n=5, n_k=4",
    ),
    "another dtype": (
        (Q, Q.double(), Q, W), {}, TypeError, r"must share one float dtype, got torch.float32, torch.float64",
    ),
    "integers": ((Q.long(), Q.long(), Q.long(), W), {}, TypeError, "one float dtype, got torch.int64"),
    "complex numbers": (
        (Q.to(torch.complex64),) * 3 + (W,), {}, TypeError, "one float dtype, got torch.complex64",
    ),
    "another device": ((Q, Q.to("meta"), Q, W), {}, ValueError, "must be on one device, got cpu, meta, cpu"),
    "no number as scale": ((Q, Q, Q, W), {"scale": float("nan")}, ValueError, "finite number, got nan"),
    "an endless scale": ((Q, Q, Q, W), {"scale": float("inf")}, ValueError, "finite number, got inf"),
    "a scale in words": ((Q, Q, Q, W), {"scale": "1"}, TypeError, "scale must be a number, got '1'"),
    "a scale that is learned": (
        (Q, Q, Q, W), {"scale": torch.ones((), requires_grad=True)}, TypeError,
        r"scale gets no gradient here: multiply q by what is learned, and give scale=1\.0",
    ),
    "a learned scale of edges": (
        (LONG, LONG, LONG, Random(400, 2, seed=0)), {"scale": torch.ones((), requires_grad=True)},
        TypeError, "scale gets no gradient here",
    ),
    "lists": ((Q.tolist(), Q, Q, W), {}, TypeError, "q must be a tensor, got list; torch.as_tensor"),
    "NumPy's numbers": ((Q, Q, Q.numpy(), W), {}, TypeError, "v must be a tensor, got ndarray"),
    "NumPy's padding": (
        (Q, Q, Q, W), {"key_padding": YES.numpy()}, TypeError, "key_padding must be a tensor, got ndarray",
    ),
    "tensors without numbers": (
        (Q.to("meta"),) * 3 + (W,), {}, ValueError, "must hold numbers, got tensors on the device meta",
    ),
    "a head with a matrix": (
        (Q, Q, Q, (W, Q.bool()[0, 0], W)), {}, TypeError, r"a rule such as Causal\(\), got Tensor",
    ),
    "integer padding": (
        (Q, Q, Q, W), {"key_padding": YES.long()}, TypeError, "key_padding must be bool .* got torch.int64",
    ),
    "padding of another length": (
        (Q, Q, Q, W), {"key_padding": YES[:, :4]}, ValueError, r"each key: \(b, n\) = \(2, 5\), got \(2, 4\)",
    ),
    "padding of another batch": (
        (Q, Q, Q, W), {"key_padding": YES[:1]}, ValueError, r"each key: \(b, n\) = \(2, 5\), got \(1, 5\)",
    ),
    "padding elsewhere": (
        (Q, Q, Q, W), {"key_padding": YES.to("meta")}, ValueError, "on the device of the tokens, cpu, got meta",
    ),
    "a matrix": (
        (Q, Q, Q, YES), {}, TypeError,
        r"a pattern must be a rule such as Causal\(\), got Tensor; Painted\(mask\) makes one",
    ),
    "a class": ((Q, Q, Q, Causal), {}, TypeError, r"a rule such as Causal\(\), got type"),
    "nothing": ((Q, Q, Q, None), {}, TypeError, r"a rule such as Causal\(\), got NoneType"),
    "a head without a rule": ((Q, Q, Q, (W, None, W)), {}, TypeError, "got NoneType"),
    "a rule too few": (
        (Q, Q, Q, (W, W)), {}, ValueError, "one pattern for each of the 3 heads, got 2",
    ),
    "a rule too many": ((Q, Q, Q, [W] * 4), {}, ValueError, "each of the 3 heads, got 4"),
    "more tokens than were drawn for": (
        (Q, Q, Q, Random(4, 1, seed=0)), {}, ValueError, "drawn for n=4 tokens, got 5; draw for 5",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        sparse_attention(*args, **options)


@pytest.mark.usefixtures("refusals")
def test_attending_wants_a_schedule():
    with pytest.raises(TypeError, match=r"groups of schedule\(pattern, n\), got Window"):
        attend(Q, Q, Q, W)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("rule", [W, Random(5, 1, seed=0), (W, W, W)])
def test_a_scale_that_wants_no_gradient_is_its_number(rule):
    q, k, v = inputs(5)
    ours = sparse_attention(q, k, v, rule, scale=torch.tensor(0.5))
    assert_same(ours, sparse_attention(q, k, v, rule, scale=0.5))
    (d_q,) = torch.autograd.grad(ours.sum(), q)
    assert_same(d_q, torch.autograd.grad(sparse_attention(q, k, v, rule, scale=0.5).sum(), q)[0])


def test_no_heads_follow_no_rules():
    q, k, v = inputs(5, 7, h=0)
    out = sparse_attention(q, k, v, ())
    assert out.shape == (2, 0, 5, 5)
    out.sum().backward()


COMPILED = """
import torch
from tinyattn import attention, sparse_attention
from tinyattn.patterns import Causal, Global, Random, Window
from tinyattn.transformer import MultiHeadAttention
q, k, v = torch.randn(3, 1, 2, 50, 4, generator=torch.Generator().manual_seed(0))
for rule in (Window(3) | Global(1), Random(50, 3, seed=0) | Window(1)):
    def twice(q, k, v):
        return 2 * sparse_attention(q + 1, k, v, rule)
    compiled, dense = torch.compile(twice, backend="eager"), attention(q + 1, k, v, rule.mask(50))
    for _ in range(2):
        torch.testing.assert_close(compiled(q, k, v), 2 * dense, atol=1e-5, rtol=1e-5)
torch.manual_seed(0)
layer = MultiHeadAttention(8, 2, pattern=Window(3) & Causal())
x = torch.randn(2, 50, 8, requires_grad=True)
grads = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (layer, torch.compile(layer, backend="eager"))]
torch.testing.assert_close(*grads)
print("equal")
"""


def said_by(program: str) -> str:
    """What a process of its own prints that imports this package."""
    found = {**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[1])}
    run = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=found)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="no compiler for this Python yet")
def test_compiled_code_stops_before_sparse_attention_and_goes_on_behind():
    assert said_by(COMPILED) == "equal\n"


def test_the_package_does_not_load_the_compiler():
    ask = "import sys, tinyattn.transformer; print('torch._dynamo' in sys.modules)"
    assert said_by(ask) == "False\n"


@pytest.mark.usefixtures("refusals")
def test_a_schedule_for_other_lengths_is_refused():
    with pytest.raises(ValueError, match="for 4 queries and 6 keys, got 5 and 5"):
        attend(Q, Q, Q, schedule(W, 4, 6))
    with pytest.raises(ValueError, match=r"k and v n_k, .* v \(2, 3, 4, 4\)"):
        attend(Q, Q, Q[:, :, :4], schedule(W, 5))
