"""Linear attention: its three forms are one, and the sums are those of the definition."""

import math

import pytest
import torch
import torch.nn.functional as F

from tinyattn import attention
from tinyattn.analysis import fit_exponent
from tinyattn.analysis.measure import CountBytes
from tinyattn.families import (
    LinearState,
    elu_features,
    linear_attention,
    linear_attention_weights,
)

from ..close import assert_same
from .heads_of import by_loops, gradients, heads


def phi(x):
    return F.elu(x) + 1


def by_hand(q, k, v, causal=False, key_padding=None, phi=phi):
    def weight(b, h, i, j):
        real = key_padding is None or bool(key_padding[b, j])
        return phi(q[b, h, i]) @ phi(k[b, h, j]) * float(real and (j <= i or not causal))

    return by_loops(weight, v, q.shape[2])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("chunk_size", [1, 4, 64])
def test_outputs_and_gradients_are_those_of_the_sums(causal, n, chunk_size):
    qkv = heads(n=n)
    found = linear_attention(*qkv, causal=causal, chunk_size=chunk_size)
    expected = by_hand(*qkv, causal=causal)
    assert_same(found, expected)
    for ours, theirs in zip(gradients(found, qkv), gradients(expected, qkv), strict=True):
        assert_same(ours, theirs)


def test_other_sequences_can_be_read():
    q, k, v = heads(n=3, n_k=7)
    assert_same(linear_attention(q, k, v), by_hand(q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_parallel_recurrent_and_matrix_forms_are_one(causal):
    q, k, v = heads(n=70)  # more than a chunk
    matrix = linear_attention_weights(q, k, causal=causal) @ v
    assert_same(linear_attention(q, k, v, causal=causal), matrix)
    assert_same(
        linear_attention_weights(q, k, causal=causal).sum(-1), torch.ones(2, 2, 70).double()
    )
    if causal:
        state = LinearState()
        steps = [state.step(q[:, :, i], k[:, :, i], v[:, :, i]) for i in range(70)]
        assert_same(torch.stack(steps, dim=2), matrix)
        assert state.s.shape == (2, 2, 4, 3)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_read_by_nobody_whatever_stands_there(causal):
    q, k, v = (x.detach() for x in heads(n=9))
    real = torch.arange(9) < torch.tensor([[9], [6]])
    k[1, :, 6:], v[1, :, 6:] = math.nan, math.nan
    found = linear_attention(q, k, v, causal=causal, key_padding=real)
    short = linear_attention(q[1:, :, :6], k[1:, :, :6], v[1:, :, :6], causal=causal)
    assert_same(found[1:, :, :6], short)
    weights = linear_attention_weights(q, k, causal=causal, key_padding=real)
    assert (weights[1, :, :, 6:] == 0).all()
    assert_same(weights @ v.nan_to_num(), found)


def test_both_sides_are_read_if_nothing_else_is_said():
    q, k, v = heads()
    weights = linear_attention_weights(q, k)
    assert (weights > 0).all()
    assert_same(weights @ v, linear_attention(q, k, v))


def test_a_query_that_may_read_nothing_gets_zeros_and_finite_gradients():
    qkv = heads(n=5)
    real = torch.tensor([[True] * 5, [False] * 5])
    out = linear_attention(*qkv, key_padding=real)
    assert (out[1] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients(out, qkv))
    assert (linear_attention_weights(*qkv[:2], key_padding=real)[1] == 0).all()
    nothing = heads(n=4, n_k=0)
    assert (linear_attention(*nothing) == 0).all()
    assert linear_attention(*heads(n=0), causal=True).shape == (2, 2, 0, 3)


def test_it_equals_softmax_attention_where_all_keys_are_equal_and_not_elsewhere():
    q, k, v = heads()
    same = k[:, :, :1].expand_as(k)
    assert_same(linear_attention(q, same, v), attention(q, same, v))
    assert (linear_attention(q, k, v) - attention(q, k, v)).abs().max() > 0.01


def test_features_are_positive_where_elu_plus_one_has_rounded_to_zero():
    x = torch.tensor([-80.0, -20.0, -1.0, 0.0, 0.5, 3.0], requires_grad=True)
    assert_same(elu_features(x.double()), phi(x.double()), atol=1e-15)
    assert (elu_features(x) > 0).all()
    assert (phi(x) == 0).any()
    (slope,) = torch.autograd.grad(elu_features(x).sum(), x)
    assert_same(slope, x.clamp(max=0).exp(), rtol=1e-6)


def step_by_step(q, k, v, causal=True):
    state = LinearState()
    steps = [state.step(q[:, :, i], k[:, :, i], v[:, :, i]) for i in range(q.shape[2])]
    return torch.stack(steps, dim=2)


FORMS = {
    "keys first": lambda q, k, v, causal: linear_attention(q, k, v, causal=causal, chunk_size=4),
    "the matrix": lambda q, k, v, causal: linear_attention_weights(q, k, causal=causal) @ v,
}
FAR = [{"q": -92.0}, {"q": -150.0}, {"q": 30.0}, {"k": -92.0}, {"k": -400.0}, {"q": -92.0, "k": -92.0}]  # fmt: skip
ASKED = [(form, causal, moved) for form in FORMS.values() for causal in (False, True) for moved in FAR]  # fmt: skip
ASKED += [(step_by_step, True, moved) for moved in FAR[:3]]  # which keeps S and u as they are


def exp_below_zero(x):
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())  # elu + 1 rounds to zero at -37


def far_below(**moved: float):
    """Heads in float32 with all channels of q or k moved, and the same numbers in float64."""
    lower = [moved.get(name, 0.0) for name in "qkv"]
    wide = [(x + y).float().double() for x, y in zip(heads(n=9), lower, strict=True)]
    return [
        [x.detach().to(t).requires_grad_() for x in wide] for t in (torch.float32, torch.float64)
    ]


@pytest.mark.parametrize(("ask", "causal", "moved"), ASKED)
def test_channels_far_below_zero_have_the_gradients_of_float64(ask, causal, moved):
    ours, exact = far_below(**moved)
    out, expected = ask(*ours, causal), by_hand(*exact, causal=causal, phi=exp_below_zero)
    assert_same(out.double(), expected, rtol=1e-4, atol=1e-5)
    for found, wanted in zip(gradients(out, ours), gradients(expected, exact), strict=True):
        assert_same(found.double(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_keys_of_the_future_do_not_make_those_of_the_past_vanish(form):
    ours, exact = far_below(k=-150.0)
    for k in (ours[1], exact[1]):
        k.data[:, :, 3] += 60.0
        k.data[:, :, 6:] += 150.0
    out, expected = FORMS[form](*ours, True), by_hand(*exact, causal=True, phi=exp_below_zero)
    assert_same(out.double(), expected, rtol=1e-4, atol=1e-5)
    for found, wanted in zip(gradients(out, ours), gradients(expected, exact), strict=True):
        assert_same(found.double(), wanted, rtol=1e-3, atol=1e-4)
    past = [x[:, :, :6] for x in ours]
    assert_same(out[:, :, :6], FORMS[form](*past, True), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("filling", [0.0, 5.0, math.nan, -math.inf])
def test_padded_keys_far_above_the_others_do_not_make_them_vanish(filling, causal):
    (q, k, v), _ = far_below(k=-150.0)
    real = torch.arange(9) < torch.tensor([[9], [6]])
    absent = ~real[:, None, :, None]
    whole = linear_attention(q, k, v, causal=causal, key_padding=real, chunk_size=4)
    found = linear_attention(q, k.masked_fill(absent, filling), v, causal=causal, key_padding=real)
    assert_same(found, whole, rtol=1e-5, atol=1e-5)
    assert bool((found != 0).all())
    short = linear_attention(q[1:, :, :6], k[1:, :, :6], v[1:, :, :6], causal=causal)
    assert_same(found[1:, :, :6], short, rtol=1e-5, atol=1e-5)
    assert all(x.isfinite().all() for x in gradients(found, (q, k, v)))


def test_channels_of_minus_infinity_have_no_features():
    q, k, v = (x.detach() for x in heads())
    for one, other in ((torch.full_like(q, -math.inf), k), (q, torch.full_like(k, -math.inf))):
        for causal in (False, True):
            assert (linear_attention(one, other, v, causal=causal) == 0).all()


def test_the_future_leaves_no_trace_in_the_past():
    q, k, v = (x.detach().clone() for x in heads(n=9))
    before = linear_attention(q, k, v, causal=True, chunk_size=4)
    k[:, :, 6:], v[:, :, 6:] = 1e6, -1e6
    after = linear_attention(q, k, v, causal=True, chunk_size=4)
    assert torch.equal(before[:, :, :6], after[:, :, :6])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_in_float32(dtype):
    q, k, v = (x.detach().to(dtype) for x in heads(n=300))
    for causal in (False, True):
        found = linear_attention(q, k, v, causal=causal)
        exact = linear_attention(q.double(), k.double(), v.double(), causal=causal)
        assert found.dtype == dtype
        assert_same(found.double(), exact, rtol=1e-2, atol=1e-2)
    assert LinearState().step(q[:, :, 0], k[:, :, 0], v[:, :, 0]).dtype == dtype


def test_sums_that_float16_cannot_hold_are_taken_in_float32():
    q, k, v = (x.detach().half() for x in heads(n=1000))
    for causal in (False, True):
        found = linear_attention(q + 9, k + 30, v + 9, causal=causal)  # φ(q) · u is a million
        assert_same(found[:, :, -1].double(), v.double().mean(dim=2) + 9, rtol=0.01, atol=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_n_and_not_with_its_square(causal):
    peaks = []
    for n in (1024, 2048, 4096):
        q, k, v = torch.randn(3, 1, 1, n, 8, generator=torch.Generator().manual_seed(0))
        with CountBytes() as counted:
            linear_attention(q, k, v, causal=causal)
        peaks.append(counted.peak)
    assert fit_exponent([1024, 2048, 4096], peaks).exponent < 1.05


REFUSED = {
    "a causal rule between two sequences": (lambda q, k, v: linear_attention(q[:, :, :3], k, v, causal=True), ValueError, "n_q=3 and n_k=9"),
    "such weights": (lambda q, k, v: linear_attention_weights(q[:, :, :3], k, causal=True), ValueError, "n_q=3 and n_k=9"),
    "chunks of nothing": (lambda q, k, v: linear_attention(q, k, v, chunk_size=0), ValueError, "chunk_size must be 1 or more, got 0"),
    "values of other keys": (lambda q, k, v: linear_attention(q, k, v[:, :, 1:]), ValueError, "k and v n_k"),
    "three axes": (lambda q, k, v: linear_attention(q[0], k[0], v[0]), ValueError, r"must be \(b, h, n, d_head\)"),
    "two dtypes": (lambda q, k, v: linear_attention(q, k.float(), v), TypeError, "share one float dtype"),
    "padding in numbers": (lambda q, k, v: linear_attention(q, k, v, key_padding=torch.ones(2, 9)), TypeError, "must be bool"),
    "padding of queries": (lambda q, k, v: linear_attention(q, k, v, key_padding=torch.ones(2, 3) > 0), ValueError, r"= \(2, 9\), got \(2, 3\)"),
    "a whole sequence as a step": (lambda q, k, v: LinearState().step(q, k, v), ValueError, r"must be \(b, h, d_head\)"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(*heads())


def test_a_state_of_other_heads_is_refused():
    state, token = LinearState(), torch.zeros(1, 2, 4)
    state.step(token, token, token)
    with pytest.raises(ValueError, match="start another sequence with a new state"):
        state.step(token[:, :1], token[:, :1], token[:, :1])
