"""What all families refuse, with the shapes that came."""

import pytest
import torch

from tinyattn.families.shapes import check_causal, check_heads, check_sizes, widened


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
        ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)),  # other keys, and values of another width
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
        ((2, 3, 5, 4), (2, 3, 0, 4), (2, 3, 0, 6)),  # no key
        ((0, 3, 5, 4), (0, 3, 5, 4), (0, 3, 5, 0)),  # no sequence, and nothing in a value
    ],
)
def test_heads_that_fit_are_let_through_with_and_without_padding(q, k, v):
    q, k, v = zeros(*q), zeros(*k), zeros(*v)
    check_heads(q, k, v)
    check_heads(q.half(), k.half(), v.half(), torch.ones(len(k), k.shape[2]) > 0)


FOUR_AXES = r"must be \(b, h, n, d_head\) with d_head of 1 or more, got q "
SHARED = "must share b and h, q and k d_head, k and v n_k, got q "
FITTING = (2, 3, 5, 4)


@pytest.mark.parametrize(
    ("q", "k", "v", "sentence"),
    [
        ((3, 5, 4), FITTING, FITTING, FOUR_AXES),
        (FITTING, (3, 5, 4), FITTING, FOUR_AXES),
        (FITTING, FITTING, (3, 5, 4), FOUR_AXES),
        ((3, 5, 4), (3, 5, 4), (3, 5, 4), FOUR_AXES),
        ((3, 5, 4), (3, 5, 4), FITTING, FOUR_AXES),
        ((1, 2, 3, 5, 4), (1, 2, 3, 5, 4), (1, 2, 3, 5, 4), FOUR_AXES),
        (FITTING, FITTING, (1, 2, 3, 5, 4), FOUR_AXES),
        ((2, 3, 5, 0), (2, 3, 5, 0), (2, 3, 5, 4), FOUR_AXES),
        ((1, 3, 5, 4), FITTING, FITTING, SHARED),
        ((2, 1, 5, 4), FITTING, FITTING, SHARED),
        ((9, 3, 5, 4), FITTING, FITTING, SHARED),
        ((2, 9, 5, 4), FITTING, FITTING, SHARED),
        ((2, 3, 5, 8), FITTING, FITTING, SHARED),
        ((2, 3, 5, 1), FITTING, FITTING, SHARED),
        (FITTING, FITTING, (2, 3, 6, 4), SHARED),
        (FITTING, FITTING, (2, 1, 5, 4), SHARED),
        (FITTING, FITTING, (1, 3, 5, 4), SHARED),
        (FITTING, FITTING, (9, 9, 9, 4), SHARED),
    ],
)
def test_heads_that_do_not_fit_are_refused_with_their_shapes(q, k, v, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        check_heads(zeros(*q), zeros(*k), zeros(*v))
    assert str(refused.value).endswith(f"got q {q}, k {k}, v {v}")


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_one_float_dtype_is_shared(odd):
    heads = [zeros(2, 3, 5, 4) for _ in range(3)]
    heads[odd] = heads[odd].double()
    with pytest.raises(TypeError, match=r"must share one float dtype, got .*torch\.float64"):
        check_heads(*heads)
    with pytest.raises(TypeError, match=r"one float dtype, got torch\.int64, torch\.int64"):
        check_heads(*(x.long() for x in heads))


def test_padding_is_a_bool_for_each_key_of_each_sequence():
    q, k = zeros(2, 3, 5, 4), zeros(2, 3, 7, 4)
    with pytest.raises(TypeError, match=r"bool with True for a real token, got torch\.float32"):
        check_heads(q, k, k, zeros(2, 7))
    for shape in ((2, 5), (3, 7), (7, 2), (7,), (2, 7, 1)):
        with pytest.raises(ValueError, match=r"each key: \(b, n\) = \(2, 7\), got ") as refused:
            check_heads(q, k, k, zeros(*shape) > 0)
        assert str(refused.value).endswith(str(shape))


def test_a_causal_rule_needs_as_many_queries_as_keys_whatever_their_width():
    check_causal(zeros(2, 3, 5, 4), zeros(2, 3, 5, 6))
    with pytest.raises(ValueError, match="as many queries as keys, got n_q=5 and n_k=4"):
        check_causal(zeros(2, 3, 5, 4), zeros(2, 3, 4, 5))


@pytest.mark.usefixtures("refusals")
def test_sizes_are_whole_and_one_or_more():
    check_sizes(n=1, d_model=8)
    with pytest.raises(ValueError, match="d_model must be 1 or more, got 0"):
        check_sizes(n=1, d_model=0)
    with pytest.raises(TypeError, match=r"n must be a whole number, got 1\.5"):
        check_sizes(n=1.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_halves_are_widened_and_nothing_else(dtype):
    a, b = widened(zeros(2, dtype=dtype), zeros(3, dtype=dtype))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert (a.dtype, b.dtype, len(a), len(b)) == (wide, wide, 2, 3)
