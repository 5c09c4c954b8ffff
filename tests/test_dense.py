"""The dense reference against its definition, its invariants, and what it refuses."""

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian

from tinyattn import attention, attention_weights
from tinyattn.dense import check_mask_of_heads, masked_softmax
from tinyattn.patterns import Causal

from . import reference
from .close import assert_same


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def qkv(n_q=5, n_k=7, d_head=4, d_v=3, *lead, seed=0, dtype=torch.float64):
    rng = seeded(seed)
    shapes = [(n_q, d_head), (n_k, d_head), (n_k, d_v)]
    return [torch.randn(*lead, *shape, generator=rng, dtype=dtype) for shape in shapes]


def random_mask(n_q: int, n_k: int, seed: int, share: float = 0.5) -> torch.Tensor:
    return torch.rand(n_q, n_k, generator=seeded(seed)) < share


SIZES = {"n_q": st.integers(0, 5), "n_k": st.integers(0, 6), "d_head": st.integers(1, 4)}
CASES = {**SIZES, "share": st.sampled_from([0.0, 0.3, 0.7, 1.0]), "seed": st.integers(0, 999)}


# --------------------------------------------------------------------------- the definition


@settings(max_examples=40)
@given(**CASES, d_v=st.integers(1, 3))
def test_outputs_and_weights_equal_the_loops(n_q, n_k, d_head, d_v, share, seed):
    q, k, v = qkv(n_q, n_k, d_head, d_v, seed=seed)
    mask = random_mask(n_q, n_k, seed + 1, share)
    out, weights = reference.attend(q.numpy(), k.numpy(), v.numpy(), mask.numpy())
    np.testing.assert_allclose(attention_weights(q, k, mask), weights, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(attention(q, k, v, mask), out, rtol=1e-12, atol=1e-14)


@settings(max_examples=25)
@given(**CASES)
def test_gradients_equal_the_chain_rule_on_paper(n_q, n_k, d_head, share, seed):
    q, k, v = (t.requires_grad_() for t in qkv(n_q, n_k, d_head, 3, seed=seed))
    mask = random_mask(n_q, n_k, seed + 1, share)
    pull = torch.randn(n_q, 3, generator=seeded(seed + 2), dtype=torch.float64)
    (attention(q, k, v, mask) * pull).sum().backward()
    arrays = [t.detach().numpy() for t in (q, k, v)]
    expected = reference.attend_gradients(*arrays, mask.numpy(), pull.numpy())
    for tensor, gradient in zip((q, k, v), expected, strict=True):
        np.testing.assert_allclose(tensor.grad, gradient, rtol=1e-10, atol=1e-13)


def test_gradients_pass_gradcheck_with_mask_and_bias():
    q, k, v = (t.requires_grad_() for t in qkv(3, 4, 2, 2))
    bias = torch.randn(3, 4, generator=seeded(3), dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda *t: attention(*t[:3], mask, bias=t[3]), (q, k, v, bias))


def test_scale_multiplies_the_products_and_bias_joins_after_it():
    q, k, v = qkv()
    bias = torch.randn(5, 7, generator=seeded(1), dtype=torch.float64)
    out, _ = reference.attend(q.numpy(), k.numpy(), v.numpy(), scale=0.3, bias=bias.numpy())
    np.testing.assert_allclose(attention(q, k, v, scale=0.3, bias=bias), out, rtol=1e-12)


def test_the_default_scale_is_one_over_the_root_of_d_head():
    q, k, v = qkv(d_head=16, d_v=2)
    assert_same(attention(q, k, v), attention(q, k, v, scale=0.25), rtol=1e-14)


def test_batch_and_heads_are_computed_apart():
    q, k, v = qkv(3, 4, 2, 2, 2, 3)
    mask = torch.rand(2, 3, 3, 4, generator=seeded(4)) < 0.6
    out = attention(q, k, v, mask)
    for b in range(2):
        for h in range(3):
            alone = attention(q[b, h], k[b, h], v[b, h], mask[b, h])
            assert_same(out[b, h], alone, rtol=1e-13)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 1), (3, 4), (2, 1, 3, 4), (1, 5, 1, 4), (1,)])
def test_a_mask_broadcasts_like_any_tensor(shape):
    q, k, v = qkv(3, 4, 2, 2, 2, 5)
    mask = torch.rand(shape, generator=seeded(5)) < 0.5
    whole = mask.expand(2, 5, 3, 4)
    assert torch.equal(attention(q, k, v, mask), attention(q, k, v, whole))


# -------------------------------------------------------------------------------- invariants


@settings(max_examples=25)
@given(**CASES)
def test_rows_sum_to_one_or_to_zero_where_nothing_may_be_read(n_q, n_k, d_head, share, seed):
    q, k, _ = qkv(n_q, n_k, d_head, seed=seed)
    mask = random_mask(n_q, n_k, seed + 1, share)
    weights = attention_weights(q, k, mask)
    assert (weights >= 0).all()
    assert torch.equal(weights > 0, mask)
    assert_same(weights.sum(-1), mask.any(-1).double(), atol=1e-14)


@settings(max_examples=25)
@given(**CASES)
def test_outputs_stay_between_the_smallest_and_largest_allowed_value(n_q, n_k, d_head, share, seed):
    q, k, v = qkv(n_q, n_k, d_head, 2, seed=seed)
    mask = random_mask(n_q, n_k, seed + 1, share)
    out = attention(q * 5, k, v, mask)
    for i in range(n_q):
        values = v[mask[i]]
        if len(values):
            assert (out[i] >= values.amin(0) - 1e-14).all()
            assert (out[i] <= values.amax(0) + 1e-14).all()


def test_a_constant_added_to_a_row_of_scores_changes_nothing():
    q, k, v = qkv()
    shift = torch.tensor([-50.0, -1, 0, 3, 200], dtype=torch.float64)[:, None]
    mask = random_mask(5, 7, 2)
    assert_same(attention(q, k, v, mask, bias=shift), attention(q, k, v, mask))


@settings(max_examples=15)
@given(order=st.permutations(range(7)), rows=st.permutations(range(5)))
def test_the_order_of_keys_is_lost_and_that_of_queries_kept(order, rows):
    q, k, v = qkv()
    mask = random_mask(5, 7, 2)
    shuffled = attention(q[rows], k[order], v[order], mask[rows][:, order])
    assert_same(shuffled, attention(q, k, v, mask)[rows], rtol=1e-13)


def test_equal_values_come_out_unchanged():
    q, k, v = qkv()
    same = v[:1].expand_as(v)
    assert_same(attention(q, k, same), same[:1].expand(5, 3), rtol=1e-14)


def test_large_scores_neither_overflow_nor_leak():
    q = torch.tensor([[1000.0, 0.0]], dtype=torch.float64)
    k = torch.tensor([[1000.0, 0.0], [-1000.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert attention_weights(q, k).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_gradients_reach_exactly_the_allowed_keys_and_values(share):
    q, k, v = qkv(5, 6, 3, 2)
    mask = random_mask(5, 6, 9, share)
    by_key = jacobian(lambda k: attention(q, k, v, mask), k)  # (n_q, d_v, n_k, d_head)
    by_value = jacobian(lambda v: attention(q, k, v, mask), v)
    assert torch.equal(by_value.abs().sum((1, 3)) > 0, mask)
    # a lone key has weight 1 wherever it points: its score has no gradient
    contested = mask & (mask.sum(-1, keepdim=True) > 1)
    assert torch.equal(by_key.abs().sum((1, 3)) > 1e-14, contested)


def test_no_query_depends_on_another():
    q, k, v = qkv(4, 6, 3, 2)
    by_query = jacobian(lambda q: attention(q, k, v), q).abs().sum((1, 3))
    assert torch.equal(by_query > 0, torch.eye(4, dtype=torch.bool))


# -------------------------------------------------------------------------------- empty rows


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_a_query_that_may_read_nothing_is_zero_both_ways_and_poisons_nobody():
    q, k, v = (t.requires_grad_() for t in qkv(3, 4, 2, 2, 2, 1))
    mask = torch.ones(2, 1, 3, 4, dtype=torch.bool)
    mask[0, :, 1] = False
    with torch.autograd.detect_anomaly(check_nan=True):
        out = attention(q, k, v, mask)
        out.pow(2).sum().backward()
    assert torch.equal(out[0, 0, 1], torch.zeros(2, dtype=torch.float64))
    assert torch.equal(q.grad[0, 0, 1], torch.zeros(2, dtype=torch.float64))
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
    alone = attention(q[1], k[1], v[1])
    assert_same(out[1], alone, rtol=1e-13)


def test_a_batch_with_nothing_to_read_at_all_has_zero_gradients():
    q, k, v = (t.requires_grad_() for t in qkv())
    out = attention(q, k, v, torch.zeros(5, 7, dtype=torch.bool))
    out.sum().backward()
    assert not out.any()
    assert not any(t.grad.any() for t in (q, k, v))


def test_a_row_forbidden_by_the_bias_is_zero_as_well():
    scores = torch.zeros(3, 2, dtype=torch.float64)
    scores[0], scores[1, 0] = -torch.inf, -torch.inf
    scores.requires_grad_()
    expected = torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    weights = masked_softmax(scores)
    assert torch.equal(weights, expected)
    weights.pow(2).sum().backward()
    assert scores.grad.isfinite().all()
    half = torch.tensor([[True, True], [True, False], [True, True]])
    assert not masked_softmax(scores, half)[1].any()


@pytest.mark.parametrize("others", [0.0, -torch.inf])
def test_a_score_that_is_nan_is_not_hidden(others):
    scores = torch.tensor([[others, torch.nan], [0.0, 0.0]])
    weights = masked_softmax(scores)
    assert weights[0].isnan().all()
    assert torch.equal(weights[1], torch.tensor([0.5, 0.5]))
    clear = torch.tensor([[True, False], [True, True]])
    assert masked_softmax(scores, clear)[0, 1] == 0.0


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_empty_and_single_sequences_work_in_both_directions(n_q, n_k, masked):
    q, k, v = (t.requires_grad_() for t in qkv(n_q, n_k, 2, 3, 2, 1))
    mask = torch.ones(n_q, n_k, dtype=torch.bool) if masked else None
    out = attention(q, k, v, mask)
    out.sum().backward()
    assert out.shape == (2, 1, n_q, 3)
    assert torch.equal(out, v.expand_as(out) if n_q == n_k == 1 else torch.zeros_like(out))


def test_an_empty_batch_stays_empty():
    q, k, v = qkv(3, 4, 2, 2, 0, 2)
    assert attention(q, k, v).shape == (0, 2, 3, 2)


# ------------------------------------------------------------------------ storage and dtypes


def test_the_layout_in_memory_does_not_matter():
    q, k, v = qkv(6, 6, 4, 4, 2, 3)
    mask = random_mask(6, 6, 1)
    out = attention(q, k, v, mask)
    other = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    assert not other[0].is_contiguous()
    assert_same(attention(*other, mask.T.contiguous().T), out, rtol=1e-14)
    every_second = [t.repeat_interleave(2, dim=-1)[..., ::2] for t in (q, k, v)]
    assert_same(attention(*every_second, mask), out, rtol=1e-14)


def test_inputs_are_left_as_they_were():
    tensors = [*qkv(), random_mask(5, 7, 1)]
    copies = [t.clone() for t in tensors]
    attention(*tensors, bias=torch.zeros(5, 7, dtype=torch.float64))
    assert all(torch.equal(t, copy) for t, copy in zip(tensors, copies, strict=True))


@pytest.mark.parametrize(("dtype", "atol"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_half_precision_is_close_to_float32(dtype, atol):
    q, k, v = (t.to(dtype) for t in qkv(9, 11, 8, 8, 2, 2))
    mask = random_mask(9, 11, 1)
    out = attention(q, k, v, mask)
    wide = attention(q.float(), k.float(), v.float(), mask)
    assert out.dtype == dtype
    assert_same(out.float(), wide, atol=atol)
    assert not out[:, :, ~mask.any(-1)].any()


def test_float32_is_close_to_float64():
    q, k, v = qkv(9, 11, 8, 8)
    out = attention(q.float(), k.float(), v.float())
    assert out.dtype == torch.float32
    assert_same(out.double(), attention(q, k, v), atol=1e-6)


def test_products_that_float16_cannot_hold_are_scaled_before_they_overflow():
    q = torch.full((1, 64), 40.0, dtype=torch.float16)
    k = torch.stack([q[0], -q[0]])  # products of ±102,400, scores of ±12,800
    assert attention_weights(q, k).tolist() == [[1.0, 0.0]]


def test_a_bias_of_another_precision_joins_the_scores():
    q, k, v = qkv(dtype=torch.float32)
    bias = torch.randn(5, 7, generator=seeded(1), dtype=torch.float64)
    out = attention(q, k, v, bias=bias)
    assert out.dtype == torch.float32
    assert torch.equal(out, attention(q, k, v, bias=bias.float()))


def test_attention_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    attention(*qkv(), random_mask(5, 7, 1))
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------------------------------- refusals


def z(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(*shape, dtype=dtype, device=device)


YES = torch.ones(5, 7, dtype=torch.bool)
WRONG_VALUES = {
    "q and k of different widths": (
        (z(5, 4), z(7, 3), z(7, 2)), {}, r"same d_head of 1 or more, got q of shape \(5, 4\) and k of shape \(7, 3\)",
    ),
    "no width at all": ((z(5, 0), z(7, 0), z(7, 2)), {}, r"d_head of 1 or more, got q of shape \(5, 0\)"),
    "a value missing": (
        (z(5, 4), z(7, 4), z(6, 2)), {}, r"one row for each key, got k of shape \(7, 4\) and v of shape \(6, 2\)",
    ),
    "vectors instead of matrices": (
        (z(4), z(7, 4), z(7, 2)), {}, r"two axes or more, \(..., n, d\), got q \(4,\), k \(7, 4\)",
    ),
    "batches of different sizes": (
        (z(2, 5, 4), z(3, 7, 4), z(3, 7, 2)), {}, r"leading axes of q, k, v must broadcast, got q \(2, 5, 4\), k \(3, 7, 4\)",
    ),
    "values of another batch": (
        (z(2, 5, 4), z(2, 7, 4), z(3, 7, 2)), {}, r"must broadcast, got .*v \(3, 7, 2\)",
    ),
    "a mask of another length": (
        (z(5, 4), z(7, 4), z(7, 2), YES[:, :6]), {}, r"mask must broadcast to .* = \(5, 7\), got \(5, 6\)",
    ),
    "a mask with more axes than the scores": (
        (z(5, 4), z(7, 4), z(7, 2), YES[None]), {}, r"= \(5, 7\), got \(1, 5, 7\)",
    ),
    "a bias of another length": (
        (z(5, 4), z(7, 4), z(7, 2)), {"bias": z(7, 5)}, r"bias must broadcast to .* = \(5, 7\), got \(7, 5\)",
    ),
    "a scale that is no number": ((z(5, 4), z(7, 4), z(7, 2)), {"scale": float("nan")}, "finite number, got nan"),
    "an infinite scale": ((z(5, 4), z(7, 4), z(7, 2)), {"scale": float("inf")}, "finite number, got inf"),
    "two devices": (
        (z(5, 4), z(7, 4, device="meta"), z(7, 2)), {}, "on one device, got q cpu, k meta, v cpu",
    ),
    "a mask elsewhere": (
        (z(5, 4), z(7, 4), z(7, 2), YES.to("meta")), {}, "mask must be on the device of q, cpu, got meta",
    ),
    "a bias elsewhere": (
        (z(5, 4), z(7, 4), z(7, 2)), {"bias": z(5, 7, device="meta")}, "bias must be on the device of q, cpu, got meta",
    ),
}  # fmt: skip
WRONG_TYPES = {
    "a float mask": (
        (z(5, 4), z(7, 4), z(7, 2), z(5, 7)), {},
        r"mask must be bool with True where a query may read, got torch.float32; .* mask == 0",
    ),
    "an integer mask": ((z(5, 4), z(7, 4), z(7, 2), YES.long()), {}, "must be bool .*, got torch.int64"),
    "a bool bias": ((z(5, 4), z(7, 4), z(7, 2)), {"bias": YES}, "got torch.bool; give it as the mask"),
    "integer queries": (
        tuple(z(*s, dtype=torch.long) for s in [(5, 4), (7, 4), (7, 2)]), {},
        "q, k, v must share one float dtype, got q torch.int64, k torch.int64, v torch.int64",
    ),
    "keys of another dtype": (
        (z(5, 4), z(7, 4, dtype=torch.float64), z(7, 2)), {}, "got q torch.float32, k torch.float64, v torch.float32",
    ),
    "values of another dtype": (
        (z(5, 4), z(7, 4), z(7, 2, dtype=torch.float64)), {}, "k torch.float32, v torch.float64",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "sentence"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_wrong_values_are_refused_with_a_sentence(args, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        attention(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "sentence"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types_are_refused_with_a_sentence(args, options, sentence):
    with pytest.raises(TypeError, match=sentence):
        attention(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"q": [[1.0]]}, "q must be a tensor, got list; torch.as_tensor makes one"),
        ({"k": np.zeros((7, 4))}, "k must be a tensor, got ndarray"),
        ({"mask": np.ones((5, 7), dtype=bool)}, "mask must be a bool tensor, got ndarray"),
        ({"mask": [[True]]}, "mask must be a bool tensor, got list"),
        ({"mask": Causal()}, r"got Causal; the matrix of a pattern is pattern\.mask\(n\)"),
        ({"bias": 1.0}, "bias must be a tensor, got float"),
        ({"scale": "1"}, "scale must be a number, got '1'"),
        ({"scale": torch.ones(2)}, r"scale must be a number, got tensor\(\[1\., 1\.\]\)"),
    ],
)
def test_what_only_looks_like_a_tensor_is_refused_by_its_name(options, sentence):
    with pytest.raises(TypeError, match=sentence):
        attention(**{"q": z(5, 4), "k": z(7, 4), "v": z(7, 2), **options})


@pytest.mark.usefixtures("refusals")
def test_dense_attention_learns_its_scale():
    q, k, v = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    scale = torch.tensor(0.5, requires_grad=True)
    attention(q, k, v, scale=scale).square().sum().backward()
    assert scale.grad.abs() > 1e-3


@pytest.mark.usefixtures("refusals")
def test_weights_alone_are_refused_like_attention():
    with pytest.raises(ValueError, match=r"leading axes of q, k must broadcast"):
        attention_weights(z(2, 5, 4), z(3, 7, 4))
    with pytest.raises(TypeError, match="q, k must share one float dtype"):
        attention_weights(z(5, 4), z(7, 4, dtype=torch.float64))


@pytest.mark.usefixtures("refusals")
def test_scores_must_be_floats():
    with pytest.raises(TypeError, match=r"scores must be floats, got torch.int64"):
        masked_softmax(torch.zeros(2, 2, dtype=torch.long))


@pytest.mark.usefixtures("refusals")
def test_what_is_not_always_given_is_given_by_name():
    with pytest.raises(TypeError, match="positional"):
        attention(z(5, 4), z(7, 4), z(7, 2), None, 0.5)
    with pytest.raises(TypeError, match="positional"):
        attention_weights(z(5, 4), z(7, 4), None, 0.5)


def test_shapes_are_checked_against_the_signatures_while_tests_run():
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(z(5, 4), z(7, 3), z(7, 2))


@pytest.mark.parametrize("axes", [0, 1, 2, 3, 4, 5])
def test_a_mask_of_heads_has_two_axes_or_four(axes):
    mask = torch.ones((1,) * axes, dtype=torch.bool)
    if axes in (2, 4):
        check_mask_of_heads(mask, torch.Size((2, 3, 5, 5)), mask.device)
    else:
        with pytest.raises(ValueError, match="needs a head axis of 1"):
            check_mask_of_heads(mask, torch.Size((2, 3, 5, 5)), mask.device)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_a_scale_that_is_learned_is_a_number_whatever_its_shape(shape, dtype, refusals):
    q, k, v = (t.to(dtype) for t in qkv())
    scale = torch.full(shape, 0.5, requires_grad=True)
    out = attention(q, k, v, scale=scale)
    assert out.dtype == dtype
    assert torch.equal(out, attention(q, k, v, scale=0.5))
    (d_scale,) = torch.autograd.grad(out.float().square().sum(), scale)
    assert d_scale.shape == shape
    assert d_scale.abs().sum() > 0


@pytest.mark.parametrize(
    ("scale", "error"),
    [(torch.tensor(True), TypeError), (torch.tensor(1j), TypeError), (torch.ones(2), TypeError),
     (10**310, ValueError), (torch.tensor(float("nan")), ValueError)],
    ids=["bool", "complex", "two", "too large", "nan"],
)  # fmt: skip
def test_a_scale_that_is_no_real_number_is_refused(scale, error, refusals):
    q, k, v = qkv()
    with pytest.raises(error, match="scale must be a"):
        attention(q, k, v, scale=scale)
