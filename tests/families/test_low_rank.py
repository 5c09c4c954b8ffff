"""Nyström attention: three thin matrices, exact with a landmark for every token."""

import math

import pytest
import torch

from tinyattn import attention
from tinyattn.families import nystrom_attention, pinv_by_products

from ..close import assert_same
from .heads_of import gradients, heads


def by_hand(q, k, v, segments):
    """One sequence, one head after the other, with segments given as lists of positions."""
    out = []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            q_mean, k_mean = (
                torch.stack([sum(x[b, h, i] for i in part) / len(part) for part in segments])
                for x in (q, k)
            )
            left, middle, right = (
                (x @ y.T / math.sqrt(q.shape[-1])).softmax(dim=-1)
                for x, y in ((q[b, h], k_mean), (q_mean, k_mean), (q_mean, k[b, h]))
            )
            out.append(left @ torch.linalg.pinv(middle) @ right @ v[b, h])
    return torch.stack(out).view(*q.shape[:2], q.shape[2], v.shape[3])


@pytest.mark.parametrize(
    ("n", "segments"),
    [
        (9, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        (8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (5, [[0, 1, 2, 3, 4]]),
        (3, [[0], [1], [2]]),
    ],
)
def test_outputs_and_gradients_are_those_of_the_three_matrices(n, segments):
    qkv = heads(n=n)
    found, expected = nystrom_attention(*qkv, n_landmarks=len(segments)), by_hand(*qkv, segments)
    assert_same(found, expected, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(gradients(found, qkv), gradients(expected, qkv), strict=True):
        assert_same(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("more", [0, 5])
def test_it_is_exact_with_a_landmark_for_every_token(n, more):
    qkv = heads(n=n, d=8)
    found = nystrom_attention(*qkv, n_landmarks=n + more)  # segments without a token are left out
    assert_same(found, attention(*qkv), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n_iters", [None, 1, 3])
def test_segments_without_a_token_are_left_out(n_iters):
    qkv = heads(n=6)
    each, more = (nystrom_attention(*qkv, n_landmarks=m, n_iters=n_iters) for m in (6, 11))
    assert_same(more, each, rtol=1e-7, atol=1e-7)


def test_it_is_exact_where_tokens_repeat_within_segments():
    q, k, v = (x.repeat_interleave(3, dim=2) for x in heads(n=4, d=8))
    assert_same(nystrom_attention(q, k, v, n_landmarks=4), attention(q, k, v), rtol=1e-8, atol=1e-8)
    apart = heads(n=12, d=8)
    error = nystrom_attention(*apart, n_landmarks=4) - attention(*apart)
    assert error.abs().max() > 0.01


@pytest.mark.parametrize("n_iters", [None, 6])
def test_padding_changes_nothing_wherever_and_whatever_it_is(n_iters):
    q, k, v = (x.detach() for x in heads(n=11))
    real = torch.ones(2, 11, dtype=torch.bool)
    real[1, [0, 4, 10]] = False
    for x in (q, k, v):
        x[1, :, [0, 4, 10]] = math.nan
    for n_landmarks in (3, 8, 11):
        sizes = {"n_landmarks": n_landmarks, "n_iters": n_iters}
        found = nystrom_attention(q, k, v, key_padding=real, **sizes)[1:, :, real[1]]
        short = nystrom_attention(*(x[1:, :, real[1]] for x in (q, k, v)), **sizes)
        assert_same(found, short, rtol=1e-6, atol=1e-6)


def test_a_sequence_without_tokens_gets_zeros():
    q, k, v = heads(n=4)
    real = torch.tensor([[True] * 4, [False] * 4])
    out = nystrom_attention(q, k, v, n_landmarks=2, key_padding=real)
    assert (out[1] == 0).all()
    assert nystrom_attention(*heads(n=0), n_landmarks=2).shape == (2, 2, 0, 3)


@pytest.mark.parametrize("n_iters", [None, 4])
def test_a_sequence_does_not_depend_on_its_batch(n_iters):
    q, k, v = (x.detach() for x in heads(b=3, n=8))
    q = q * torch.tensor([1.0, 5.0, 0.2])[:, None, None, None]  # other norms, other maxima
    together = nystrom_attention(q, k, v, n_landmarks=4, n_iters=n_iters)
    for b in range(3):
        alone = nystrom_attention(
            *(x[b : b + 1] for x in (q, k, v)), n_landmarks=4, n_iters=n_iters
        )
        assert_same(together[b : b + 1], alone, rtol=1e-8, atol=1e-8)


def test_products_approach_the_pseudoinverse():
    a = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a = (a + 2 * torch.eye(6)).softmax(dim=-1)
    exact = torch.linalg.pinv(a)
    errors = [(pinv_by_products(a, n) - exact).abs().max().item() for n in (2, 6, 12)]
    assert errors[0] > 10 * errors[1] > 0
    assert errors[2] < 1e-9
    z = pinv_by_products(a, 12)
    assert_same(a @ z @ a, a)
    assert (pinv_by_products(torch.zeros(2, 2), 3) == 0).all()
    close = nystrom_attention(*heads(n=12), n_landmarks=3, n_iters=20)
    assert_same(close, nystrom_attention(*heads(n=12), n_landmarks=3), rtol=1e-6, atol=1e-6)


def test_rows_sum_to_one_only_nearly():
    q, k, _ = heads(n=12, d=4)
    weights = nystrom_attention(q, k, torch.eye(12).double().expand(2, 2, 12, 12), n_landmarks=3)
    sums = weights.sum(dim=-1)
    assert_same(sums, torch.ones_like(sums), rtol=1e-6, atol=1e-6)  # with the pseudoinverse
    few = nystrom_attention(
        q, k, torch.eye(12).double().expand(2, 2, 12, 12), n_landmarks=3, n_iters=2
    )
    assert (few.sum(dim=-1) - 1).abs().max() > 1e-3


REFUSED = {
    "fewer queries than keys": (lambda q, k, v: nystrom_attention(q[:, :, :4], k, v, n_landmarks=2), ValueError, "as many queries as keys, got 4 and 9"),
    "no landmark": (lambda q, k, v: nystrom_attention(q, k, v, n_landmarks=0), ValueError, "n_landmarks must be 1 or more, got 0"),
    "no step": (lambda q, k, v: nystrom_attention(q, k, v, n_landmarks=2, n_iters=0), ValueError, "n_iters must be 1 or more, got 0"),
    "half a landmark": (lambda q, k, v: nystrom_attention(q, k, v, n_landmarks=2.5), TypeError, r"whole number, got 2\.5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(*heads())


def test_it_starts_from_the_transpose_over_the_largest_sums_of_columns_and_of_rows():
    a = torch.tensor([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.8, 0.0, 0.2]]).double()
    z = a.T / (a.sum(dim=0).max() * a.sum(dim=1).max())
    one = torch.eye(3).double()
    z = z @ (13 * one - a @ z @ (15 * one - a @ z @ (7 * one - a @ z))) / 4
    assert_same(pinv_by_products(a, 1), z)
