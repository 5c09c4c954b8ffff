"""Absolute positions: the table of sinusoids, and learned vectors that end somewhere."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn.transformer import Learned, Positions, Sinusoidal, sinusoidal_positions

from .. import reference
from ..close import assert_same
from .tiny import assert_begins_with, randn, small


@pytest.mark.parametrize("scheme", [Positions, Sinusoidal, Learned])
def test_a_scheme_builds_itself_at_the_sizes_of_a_model(scheme):
    it = scheme.from_config(small(max_len=9, d_model=8))
    assert type(it) is scheme
    assert [tuple(p.shape) for p in it.parameters()] == ([(9, 8)] if scheme is Learned else [])


def table(n, d_model, **options):
    return sinusoidal_positions(n, d_model, dtype=torch.float64, **options)


# --------------------------------------------------------------------------------- sinusoids


@settings(max_examples=30)
@given(
    n=st.integers(0, 6), d_model=st.integers(1, 9), start=st.integers(0, 700),
    base=st.sampled_from([10_000.0, 2.0, 0.5]),
)  # fmt: skip
def test_every_entry_equals_the_formula(n, d_model, start, base):
    expected = torch.tensor(
        [
            [reference.sinusoid(t, c, d_model, base) for c in range(d_model)]
            for t in range(start, start + n)
        ],
        dtype=torch.float64,
    ).view(n, d_model)
    ours = table(n, d_model, start=start, base=base)
    # an angle of a thousand carries an error of a thousand roundings of 1
    assert_same(ours, expected, rtol=0, atol=1e-12 * max(1, base**-0.9 * 1000))


@settings(max_examples=15)
@given(d_model=st.sampled_from([2, 6, 16]), distance=st.integers(-5, 5), where=st.integers(5, 400))
def test_products_depend_on_the_distance_alone(d_model, distance, where):
    pe = table(410, d_model)
    frequencies = [10_000 ** (-2 * m / d_model) for m in range(d_model // 2)]
    expected = sum(math.cos(frequency * distance) for frequency in frequencies)
    assert float(pe[where] @ pe[where + distance]) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("shift", [1, 7, 100])
def test_a_shift_is_a_rotation_that_does_not_depend_on_the_place(shift):
    d_model, pe = 8, table(200, 8)
    turn = torch.zeros(d_model, d_model, dtype=torch.float64)
    for m in range(d_model // 2):
        angle = shift * 10_000 ** (-2 * m / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        turn[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = turn.new_tensor([[cos, sin], [-sin, cos]])
    assert_same(pe[:-shift] @ turn.T, pe[shift:], atol=1e-11)


@pytest.mark.parametrize("d_model", [2, 8, 10])
def test_an_even_row_has_squared_norm_of_half_its_width(d_model):
    norms = table(50, d_model).pow(2).sum(-1)
    assert_same(norms, torch.full_like(norms, d_model / 2), rtol=1e-12)


@pytest.mark.parametrize("d_model", [1, 3, 7])
def test_an_odd_width_has_one_sine_more_than_cosines(d_model):
    pe = table(5, d_model)
    assert pe.shape == (5, d_model)
    assert not pe[0, 0::2].any()
    assert (pe[0, 1::2] == 1).all()
    assert len(pe[0, 0::2]) == len(pe[0, 1::2]) + 1


def test_a_later_start_is_a_slice():
    assert torch.equal(table(4, 6, start=3), table(7, 6)[3:])


def test_far_positions_keep_their_precision_in_float32():
    far = sinusoidal_positions(2, 4, start=1_000_000)
    assert far.dtype == torch.float32
    assert_same(far.double(), table(2, 4, start=1_000_000), atol=1e-7)


def test_the_dtype_is_torchs_default_or_the_one_given():
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert sinusoidal_positions(2, 4).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)
    assert sinusoidal_positions(2, 4, dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_sinusoids_are_added_in_the_precision_of_the_vectors(dtype):
    x = randn(2, 5, 6).to(dtype)
    out = Sinusoidal().embed(x, start=90)
    assert out.dtype == dtype
    assert torch.equal(out, x + table(5, 6, start=90).to(dtype))
    assert not list(Sinusoidal().parameters())


# ----------------------------------------------------------------------------------- learned


def test_learned_rows_are_added_from_the_start_on_and_only_they_get_gradients():
    it = Learned(max_len=9, d_model=4).double()
    x = randn(2, 3, 4)
    out = it.embed(x, start=5)
    assert torch.equal(out, x + it.table[5:8])
    out.sum().backward()
    used = torch.zeros(9, dtype=torch.bool)
    used[5:8] = True
    assert torch.equal(it.table.grad.abs().sum(-1) > 0, used)


def test_the_last_learned_position_can_be_used():
    it = Learned(max_len=4, d_model=2)
    assert it.embed(torch.zeros(1, 4, 2)).shape == (1, 4, 2)
    assert it.embed(torch.zeros(1, 1, 2), start=3).shape == (1, 1, 2)
    assert it.embed(torch.zeros(1, 0, 2), start=4).shape == (1, 0, 2)


@pytest.mark.parametrize(("n", "start", "last"), [(5, 0, 4), (1, 4, 4), (3, 3, 5)])
def test_positions_past_the_table_are_refused(n, start, last):
    sentence = f"learned positions end at max_len=4, got tokens up to position {last}; raise"
    with pytest.raises(ValueError, match=sentence):
        Learned(max_len=4, d_model=2).embed(torch.zeros(1, n, 2), start=start)


# ---------------------------------------------------------------------------------- no scheme


def test_without_a_scheme_every_place_does_nothing():
    it, x = Positions(), randn(1, 2, 3, 4)
    assert it.embed(x[0]) is x[0] or torch.equal(it.embed(x[0]), x[0])
    i = torch.arange(3)
    assert it.rotate(x, i) is x
    assert it.score_bias(x, i, i, 1.0) is None
    assert it.value_bias(x, i, torch.arange(4)) is None


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("args", "options", "error", "sentence"),
    [
        ((-1, 4), {}, ValueError, "n and start must be 0 or more, got n=-1 and start=0"),
        ((2, 4), {"start": -3}, ValueError, "n and start must be 0 or more, got n=2 and start=-3"),
        ((2, 0), {}, ValueError, "d_model must be 1 or more, got 0"),
        ((2, 4), {"base": 0.0}, ValueError, r"base must be above 0, got 0\.0"),
        ((2, 4), {"base": float("nan")}, ValueError, "base must be above 0, got nan"),
        ((2.5, 4), {}, TypeError, r"n must be a whole number, got 2\.5"),
        ((2, 4.0), {}, TypeError, r"d_model must be a whole number, got 4\.0"),
        ((2, 4), {"start": 0.5}, TypeError, r"start must be a whole number, got 0\.5"),
    ],
)
def test_a_table_that_cannot_be_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        sinusoidal_positions(*args, **options)


@pytest.mark.usefixtures("refusals")
def test_learned_positions_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="1 or more, got max_len=0, d_model=4"):
        Learned(0, 4)
    with pytest.raises(ValueError, match="1 or more, got max_len=4, d_model=-1"):
        Learned(4, -1)
    with pytest.raises(TypeError, match=r"max_len must be a whole number, got 4\.0"):
        Learned(4.0, 4)
    with pytest.raises(ValueError, match=r"d_model=1 and a start .*, got x of shape \(1, 2, 6\)"):
        Learned(4, 1).embed(torch.zeros(1, 2, 6))
    with pytest.raises(ValueError, match=r"a start of 0 or more, got .* and start=-2"):
        Learned(4, 6).embed(torch.zeros(1, 2, 6), start=-2)


def test_a_learned_table_begins_small():
    assert_begins_with(0.02, Learned(100, 64).table)
