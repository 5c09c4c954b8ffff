"""Sinkhorn's normalisation and the attention that is built on it, against loops."""

import itertools
import math
from functools import partial

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from tinyattn import attention, sparse_attention
from tinyattn.content import (
    block_pairs,
    gumbel,
    hardened,
    matched_pattern,
    sinkhorn_attention,
    soft_permutation,
    sortcut_attention,
)
from tinyattn.patterns import BlockLocal, Causal, MatchedBlocks

from ..close import assert_same
from ..transformer.tiny import randn, seeded


def normalised_by_hand(scores, n_iters, temperature, causal=False, real=None):
    """Exponentials divided by sums, entry by entry, without logarithms."""
    n = len(scores)

    def may(i, j):
        return (not causal or j < i) and (real is None or (real[i] and real[j]))

    s = [
        [math.exp(scores[i][j] / temperature) if may(i, j) else 0.0 for j in range(n)]
        for i in range(n)
    ]
    for _ in range(n_iters):
        old = [row[:] for row in s]
        for i, j in itertools.product(range(n), repeat=2):
            column = math.fsum(old[row][j] for row in range(i + 1 if causal else n))
            s[i][j] = old[i][j] / column if old[i][j] else 0.0
        s = [[x / (math.fsum(row) or 1.0) for x in row] for row in s]
    return torch.tensor(s, dtype=torch.float64)


def attended_by_hand(q, k, v, sort, size, *, causal=False, real=None, scale=None):
    """One head, (n, d) each: query by query, its keys one by one, sorted ones first."""
    n, n_blocks = len(q), len(sort)
    scale = q.shape[1] ** -0.5 if scale is None else scale
    out = []
    for i in range(n):
        own = i // size
        keys, values, masses = [], [], []
        for t in range(size):
            there = [
                (sort[own, block], block * size + t)
                for block in range(n_blocks)
                if block * size + t < n and (real is None or real[block * size + t])
            ]
            mass = sum((share for share, _ in there), torch.zeros((), dtype=q.dtype))
            if float(mass.detach()) > 0:
                keys.append(sum(share * k[j] for share, j in there) / mass)
                values.append(sum(share * v[j] for share, j in there) / mass)
                masses.append(mass)
        for j in range(own * size, min((own + 1) * size, n)):
            if (real is None or real[j]) and (not causal or j <= i):
                keys.append(k[j])
                values.append(v[j])
                masses.append(torch.ones((), dtype=q.dtype))
        if not keys:
            out.append(torch.zeros_like(v[0]))
            continue
        terms = [
            m * (scale * (q[i] * key).sum()).exp() for m, key in zip(masses, keys, strict=True)
        ]
        out.append(sum(t * x for t, x in zip(terms, values, strict=True)) / sum(terms))
    return torch.stack(out)


def inputs(n, n_blocks, *, b=2, h=3, d=4, d_v=5, dtype=torch.float64):
    q, k = (randn(b, h, n, d, seed=seed).to(dtype).requires_grad_() for seed in (0, 1))
    v = randn(b, h, n, d_v, seed=2).to(dtype).requires_grad_()
    scores = randn(b, h, n_blocks, n_blocks, seed=3).to(dtype).requires_grad_()
    return q, k, v, scores


def some_padding(b, n):
    real = torch.rand(b, n, generator=seeded(5)) < 0.7
    real[0] = torch.arange(n) < 2 * n // 3
    return real


def gradients(out, at):
    weights = randn(*out.shape, seed=9).to(out.dtype)
    return torch.autograd.grad((out * weights).sum(), at, allow_unused=True, materialize_grads=True)


# ----------------------------------------------------------------------------- normalisation


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("real", [None, [True, True, False, True, False, True]])
@pytest.mark.parametrize(("n_iters", "temperature"), [(1, 1.0), (3, 0.5), (8, 0.75)])
def test_normalising_with_logarithms_equals_dividing_by_sums(n_iters, temperature, causal, real):
    scores = randn(6, 6)
    options = {"n_iters": n_iters, "temperature": temperature, "causal": causal}
    s = soft_permutation(scores, real=None if real is None else torch.tensor(real), **options)
    assert_same(s, normalised_by_hand(scores.tolist(), real=real, **options))


def test_rows_sum_to_one_exactly_and_columns_better_with_every_iteration():
    scores = randn(20, 6, 6)
    errors = []
    for n_iters in (1, 2, 5, 8, 20, 100):
        s = soft_permutation(scores, n_iters=n_iters)
        assert_same(s.sum(dim=-1), torch.ones(20, 6, dtype=torch.float64))
        errors.append(float((s.sum(dim=-2) - 1).abs().max()))
    assert errors == sorted(errors, reverse=True)
    for error, tolerance in zip(errors, (1.1, 0.7, 0.3, 0.2, 0.05, 1e-5), strict=True):
        assert error < tolerance


def test_adding_a_constant_to_a_row_or_a_column_changes_nothing():
    scores, constants = randn(5, 5), randn(2, 5, seed=1)
    shifted = scores + constants[0][:, None] + constants[1][None, :]
    assert_same(soft_permutation(shifted, n_iters=400), soft_permutation(scores, n_iters=400))


def test_permuted_scores_give_the_permuted_matrix():
    scores, rows, columns = randn(6, 6), torch.randperm(6), torch.randperm(6)
    assert_same(
        soft_permutation(scores)[rows][:, columns], soft_permutation(scores[rows][:, columns])
    )


@pytest.mark.parametrize("seed", range(8))
def test_at_low_temperature_it_is_the_assignment_of_most_score(seed):
    scores = randn(5, 5, seed=seed)
    s = soft_permutation(scores, n_iters=1000, temperature=0.02)
    rows, columns = linear_sum_assignment(scores.numpy(), maximize=True)
    best = torch.zeros(5, 5, dtype=torch.float64)
    best[rows, columns] = 1
    assert_same(s, best, atol=0.01)
    assert torch.equal(hardened(s), best)
    pattern = matched_pattern(s, block_size=2)
    assert pattern == MatchedBlocks(2, tuple(columns.tolist()))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_nothing_is_nan_at_a_tiny_temperature_in_single_precision(causal, size):
    scores = (size * randn(9, 9)).float().requires_grad_()
    s = soft_permutation(scores, n_iters=20, temperature=1e-3, causal=causal)
    (gradient,) = gradients(s, (scores,))
    assert s.isfinite().all()
    assert gradient.isfinite().all()
    assert_same(s.sum(dim=-1)[1:], torch.ones(8), atol=1e-3)  # of numbers near a million


def test_causal_rows_are_mixed_of_earlier_blocks_and_know_no_later_row():
    scores = randn(6, 6)
    s = soft_permutation(scores, causal=True)
    assert (s[0] == 0).all()
    assert (s.triu() == 0).all()
    assert_same(s[1:].sum(dim=-1), torch.ones(5, dtype=torch.float64))
    jacobian = torch.autograd.functional.jacobian(
        lambda x: soft_permutation(x, causal=True), scores
    )
    reacts = jacobian.abs().sum(dim=(1, 3)) > 0  # (row of s, row of scores)
    assert (reacts.triu(1) == 0).all()
    assert reacts[2:, 2:].tril().any(dim=1).all()
    told = torch.autograd.functional.jacobian(soft_permutation, scores).abs().sum(dim=(1, 3)) > 0
    assert told.all()  # the plain columns would have told


def test_masked_blocks_leave_the_others_as_if_they_were_alone():
    scores, real = randn(6, 6), torch.tensor([True, True, True, True, False, False])
    s = soft_permutation(scores, real=real)
    assert_same(s[:4, :4], soft_permutation(scores[:4, :4]))
    assert (s[4:] == 0).all()
    assert (s[:, 4:] == 0).all()


def test_the_noise_is_gumbels_and_drawn_from_its_generator_alone():
    before = torch.get_rng_state()
    scores = torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64).expand(200_000, 2, 2)
    noisy = gumbel(scores, seeded(0))
    assert torch.equal(noisy, gumbel(scores, seeded(0)))
    assert not torch.equal(noisy, gumbel(scores, seeded(1)))
    assert torch.equal(torch.get_rng_state(), before)
    noise = noisy - scores
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)  # Euler's constant
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, abs=0.03)
    first = float((noisy[:, 0].argmax(dim=-1) == 0).double().mean())
    assert first == pytest.approx(math.exp(2) / (math.exp(2) + 1), abs=0.005)


def test_hardening_rounds_forward_and_not_backward():
    s = soft_permutation(randn(2, 5, 5), causal=True).requires_grad_()
    hard = hardened(s)
    assert torch.equal(hard[:, 0], torch.zeros(2, 5, dtype=torch.float64))
    assert torch.equal(hard.argmax(dim=-1)[:, 1:], s.argmax(dim=-1)[:, 1:])
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    assert_same(*gradients(hard, (s,)), randn(2, 5, 5, seed=9))


# --------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(
    ("n", "n_blocks"), [(12, 4), (12, 3), (11, 3), (10, 4), (5, 5), (7, 1), (2, 1), (1, 1)]
)
@pytest.mark.parametrize("padded", [False, True])
def test_it_equals_the_loops_in_outputs_and_gradients(n, n_blocks, causal, hard, padded):
    q, k, v, scores = inputs(n, n_blocks)
    real = some_padding(2, n) if padded else None
    options = {"hard": hard, "causal": causal, "key_padding": real, "scale": 0.7}
    out = sinkhorn_attention(q, k, v, scores, n_iters=3, temperature=0.6, **options)
    size = -(-n // n_blocks)
    blocks = None
    if padded:
        tokens = torch.zeros(2, n_blocks * size, dtype=torch.bool)
        tokens[:, :n] = real
        blocks = tokens.view(2, 1, n_blocks, size).any(dim=3)
    sort = soft_permutation(scores, n_iters=3, temperature=0.6, causal=causal, real=blocks)
    sort = hardened(sort) if hard else sort
    rows = []
    for b, h in itertools.product(range(2), range(3)):
        one = None if real is None else real[b].tolist()
        parts = (x[b, h] for x in (q, k, v, sort))
        rows.append(attended_by_hand(*parts, size, causal=causal, real=one, scale=0.7))
    expected = torch.stack(rows).view(2, 3, n, 5)
    assert_same(out, expected)
    at = (q, k, v, scores)
    for ours, theirs in zip(gradients(out, at), gradients(expected, at), strict=True):
        assert_same(ours, theirs, atol=1e-9)


def test_blocks_are_computed_as_many_at_a_time_as_the_cache_holds(monkeypatch):
    q, k, v, scores = inputs(21, 7)
    whole = sinkhorn_attention(q, k, v, scores, causal=True)
    expected = gradients(whole, (q, k, v, scores))
    monkeypatch.setattr(block_pairs, "CACHED_SCORES", 2 * 3 * 3 * 2)  # two blocks
    assert [s.start for s in block_pairs._stretches(q[0].unflatten(1, (7, 3)))] == [0, 2, 4, 6]
    again = sinkhorn_attention(q, k, v, scores, causal=True)
    assert_same(again, whole)
    for ours, theirs in zip(gradients(again, (q, k, v, scores)), expected, strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [12, 10])
def test_hard_attention_is_dense_attention_under_a_pattern(n, causal):
    q, k, v, scores = inputs(n, 4, b=1, h=2)
    out = sinkhorn_attention(q, k, v, scores, hard=True, causal=causal)
    sort = soft_permutation(scores, causal=causal)
    rules = tuple(matched_pattern(sort[0, head], 3, causal=causal) for head in range(2))
    masks = torch.stack([rule.mask(n) for rule in rules])
    assert_same(out, attention(q, k, v, masks))
    assert_same(out, sparse_attention(q, k, v, rules))
    at = (q, k, v)
    for ours, theirs in zip(
        gradients(out, at), gradients(attention(q, k, v, masks), at), strict=True
    ):
        assert_same(ours, theirs)


@pytest.mark.parametrize("causal", [False, True])
def test_one_block_is_dense_attention(causal):
    q, k, v, scores = inputs(9, 1)
    expected = attention(q, k, v, Causal().mask(9) if causal else None)
    assert_same(sinkhorn_attention(q, k, v, scores, causal=causal), expected)


def test_blocks_sorted_next_to_themselves_are_read_once():
    q, k, v, _ = inputs(12, 4)
    own = 50 * torch.eye(4, dtype=torch.float64).expand(2, 3, 4, 4)
    expected = attention(q, k, v, BlockLocal(3).mask(12))
    assert_same(sinkhorn_attention(q, k, v, own, hard=True), expected)


def test_a_token_behind_the_query_is_never_seen():
    q, k, v, scores = (x.detach() for x in inputs(12, 4, b=1, h=1))

    def attend(hard, v):
        return sinkhorn_attention(q, k, v, scores, causal=True, hard=hard).sum(dim=(0, 1, 3))

    for hard in (False, True):
        jacobian = torch.autograd.functional.jacobian(partial(attend, hard), v)
        reads = jacobian.abs().sum(dim=(1, 2, 4))
        assert (reads.triu(1) == 0).all()
        assert (reads.diagonal() > 0).all()


def test_padding_behind_a_sequence_changes_nothing():
    q, k, v, scores = (x.detach() for x in inputs(12, 4))
    long = [torch.cat([x, torch.full_like(x[:, :, :6], math.nan)], dim=2) for x in (k, v)]
    queries = torch.cat([q, q[:, :, :6]], dim=2)
    wide = torch.cat([scores, randn(2, 3, 4, 2)], dim=3)
    wide = torch.cat([wide, randn(2, 3, 2, 6, seed=1)], dim=2)
    real = (torch.arange(18) < 12).expand(2, 18)
    for causal in (False, True):
        out = sinkhorn_attention(queries, *long, wide, causal=causal, key_padding=real)
        assert out.isfinite().all()
        assert_same(out[:, :, :12], sinkhorn_attention(q, k, v, scores, causal=causal))


def test_a_row_of_padding_is_zero_and_poisons_nothing():
    q, k, v, scores = inputs(6, 3, b=1, h=1)
    real = torch.zeros(1, 6, dtype=torch.bool)
    out = sinkhorn_attention(q, k, v, scores, key_padding=real)
    assert (out == 0).all()
    assert all((g == 0).all() for g in gradients(out, (q, k, v, scores)))


@pytest.mark.parametrize("n", [12, 11])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_half_precision_is_close_and_comes_back_as_it_went(n, dtype):
    exact = inputs(n, 4)
    rough = [x.detach().to(dtype).requires_grad_() for x in exact]
    out = sinkhorn_attention(*rough, causal=True)
    assert out.dtype == dtype
    assert all(g.dtype == dtype and g.isfinite().all() for g in gradients(out, rough))
    tolerance = 1e-5 if dtype == torch.float32 else 0.06
    assert_same(out.double(), sinkhorn_attention(*exact, causal=True), rtol=0.02, atol=tolerance)


def test_inputs_may_be_views_of_any_kind():
    plain = [x.detach() for x in inputs(12, 4)]
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in plain]
    assert not any(x.is_contiguous() for x in views)
    assert_same(sinkhorn_attention(*views), sinkhorn_attention(*plain))
    one = plain[0][:1, :1].clone().requires_grad_()
    same = one.expand(2, 3, 12, 4)
    sinkhorn_attention(same, same, same, plain[3]).sum().backward()
    assert one.grad.isfinite().all()


def test_an_empty_sequence_and_an_empty_batch_come_back_empty():
    for b, n, n_blocks in ((2, 0, 0), (0, 6, 3)):
        q, k, v, scores = inputs(n, n_blocks, b=b)
        out = sinkhorn_attention(q, k, v, scores)
        assert out.shape == (b, 3, n, 5)
        out.sum().backward()


def test_second_derivatives_are_refused_and_not_silently_left_out():
    q, k, v, scores = inputs(6, 3)
    out = sinkhorn_attention(q, k, v, scores)
    with pytest.raises(
        NotImplementedError, match=r"no second derivatives .*; .*concatenated blocks has"
    ):
        torch.autograd.grad(out.sum(), q, create_graph=True)


# ----------------------------------------------------------------------------------- sortcut


@pytest.mark.parametrize("n_kept", [1, 2, 4])
def test_sortcut_reads_the_first_sorted_blocks(n_kept):
    q, k, v, scores = inputs(12, 4)
    out = sortcut_attention(q, k, v, scores, n_kept=n_kept, n_iters=3, temperature=0.6)
    sort = soft_permutation(scores, n_iters=3, temperature=0.6)
    mixed = []
    for x in (k, v):
        places = [
            sum(sort[:, :, place, block, None, None] * x[:, :, 3 * block : 3 * block + 3]
                for block in range(4))
            for place in range(n_kept)
        ]  # fmt: skip
        mixed.append(torch.cat(places, dim=2))
    expected = attention(q, *mixed)
    assert_same(out, expected)
    at = (q, k, v, scores)
    for ours, theirs in zip(gradients(out, at), gradients(expected, at), strict=True):
        assert_same(ours, theirs)


def test_hard_sortcut_is_dense_attention_to_the_kept_blocks():
    q, k, v, scores = inputs(12, 4, b=1, h=1)
    out = sortcut_attention(q, k, v, scores, n_kept=2, hard=True)
    kept = soft_permutation(scores)[0, 0].argmax(dim=-1)[:2].tolist()
    mask = torch.zeros(12, 12, dtype=torch.bool)
    for block in kept:
        mask[:, 3 * block : 3 * block + 3] = True
    assert len(set(kept)) == 2
    assert_same(out, attention(q, k, v, mask))


# ---------------------------------------------------------------------------------- refusals


def test_what_does_not_fit_is_refused(refusals):
    q, k, v, scores = inputs(12, 4)
    for bad, sentence in [
        ({"n_iters": 0}, "n_iters must be 1 or more and temperature positive, got n_iters=0"),
        ({"temperature": 0.0}, "got n_iters=8, temperature=0.0"),
        ({"temperature": math.nan}, "temperature=nan"),
        ({"scale": math.inf}, "scale must be a finite number"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            sinkhorn_attention(q, k, v, scores, **bad)
    with pytest.raises(TypeError, match=r"n_iters must be a whole number, got 2\.0"):
        soft_permutation(scores, n_iters=2.0)
    with pytest.raises(ValueError, match=r"\(b, h, n_blocks, n_blocks\) with b, h = \(2, 3\)"):
        sinkhorn_attention(q, k, v, scores[:1])
    with pytest.raises(ValueError, match="got \\(2, 3, 4, 3\\)"):
        sinkhorn_attention(q, k, v, scores[..., :3])
    with pytest.raises(ValueError, match="n=12 tokens cannot be shared by 5 blocks of equal size"):
        sinkhorn_attention(q, k, v, randn(2, 3, 5, 5))
    with pytest.raises(ValueError, match="shared by 0 blocks"):
        sinkhorn_attention(q, k, v, scores[:, :, :0, :0])
    with pytest.raises(ValueError, match="equally long to be sorted, got 11 and 12"):
        sinkhorn_attention(q[:, :, 1:], k, v, scores)
    with pytest.raises(TypeError, match=r"sort_scores must be torch\.float64 as q is"):
        sinkhorn_attention(q, k, v, scores.float())
    with pytest.raises(ValueError, match="finite, got infinite or NaN ones"):
        soft_permutation(torch.full((2, 2), -math.inf))
    with pytest.raises(ValueError, match=r"square, one row and column a block, got \(2, 3\)"):
        soft_permutation(torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"sort scores must be floats, got torch\.int64"):
        soft_permutation(torch.zeros(2, 2, dtype=torch.long))
    for n_kept in (0, 5):
        with pytest.raises(ValueError, match=f"from 1 to n_blocks=4, got {n_kept}"):
            sortcut_attention(q, k, v, scores, n_kept=n_kept)
    with pytest.raises(ValueError, match="n_blocks must divide n, got n_blocks=4 and n=11"):
        sortcut_attention(q[:, :, 1:], k[:, :, 1:], v[:, :, 1:], scores, n_kept=1)


def test_the_temperature_is_the_papers_if_none_is_given():
    q, k, v = (randn(1, 2, 12, 4, seed=seed) for seed in range(3))
    scores = randn(1, 2, 3, 3, seed=3)
    stated = {"n_iters": 8, "temperature": 0.75}
    for attend in (sinkhorn_attention, partial(sortcut_attention, n_kept=2)):
        assert torch.equal(attend(q, k, v, scores, n_iters=8), attend(q, k, v, scores, **stated))


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)])
@pytest.mark.parametrize("n", [12, 10])
def test_gradients_of_views_are_those_of_copies(b, axes, n):
    """A permuted view is dense, and what is made like it has its strides: rows of those cannot be
    flattened without a copy, to which a sum in place is lost."""
    q, k, v, scores = inputs(n, 4, b=b, h=2)
    views = [x.detach().transpose(*axes).contiguous().transpose(*axes) for x in (q, k, v)]
    views = [x.requires_grad_() for x in views]
    out = sinkhorn_attention(q, k, v, scores)
    again = sinkhorn_attention(*views, scores)
    assert torch.equal(again, out)
    expected = gradients(out, (q, k, v, scores))
    for ours, theirs in zip(gradients(again, (*views, scores)), expected, strict=True):
        assert_same(ours, theirs)
