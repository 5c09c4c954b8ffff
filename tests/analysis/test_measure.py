"""Clocks, bytes and fits, each against something known beforehand."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from tinyattn.analysis import measure
from tinyattn.analysis.measure import (
    CountBytes,
    counted_flops,
    fit_exponent,
    kept_bytes,
    medians,
    parameters,
    peak_memory,
    take_turns,
)
from tinyattn.transformer import Decoder, TransformerConfig

# -------------------------------------------------------------------------------------- fits


def test_a_fit_recovers_a_planted_exponent():
    lengths = [1024, 4096, 16_384, 65_536]
    fit = fit_exponent(lengths, [3e-6 * n**1.37 for n in lengths])
    assert fit.exponent == pytest.approx(1.37)
    assert fit.spread == pytest.approx(0, abs=1e-9)
    noisy = fit_exponent(lengths, [1.1 * 1024, 0.9 * 4096, 1.1 * 16_384, 0.9 * 65_536])
    assert abs(noisy.exponent - 1) < 2 * noisy.spread
    assert fit_exponent([1, 2], [1, 4]).spread is None


def test_the_spread_is_the_standard_error_of_a_regression():
    # by hand in logarithms to base e: x = 0, 1, 2 and y = 0, 2, 1
    e = 2.718281828459045
    fit = fit_exponent([1, e, e**2], [1, e**2, e])
    assert fit.exponent == pytest.approx(0.5)
    assert fit.spread == pytest.approx((1.5 / 1 / 2) ** 0.5)  # residuals ½, -1, ½: Σ² = 1.5


@pytest.mark.parametrize("length", [3, 6, 13])
def test_a_sum_of_powers_has_the_exponent_of_its_largest_far_out(length):
    far = [2**e for e in range(20, 20 + length)]
    fit = fit_exponent(far, [8 * n * 64**2 + 4 * n**2 * 64 for n in far])
    assert fit.exponent == pytest.approx(2, abs=0.001)
    near = fit_exponent([64, 128, 256], [8 * n * 64**2 + 4 * n**2 * 64 for n in (64, 128, 256)])
    assert 1.3 < near.exponent < 1.7


@pytest.mark.parametrize(
    ("n", "values"),
    [([5], [1]), ([5, 5], [1, 2]), ([1, 2], [0, 1]), ([1, 2], [1, 2, 3]), ([1, 2, 3], [1, 2])],
)
def test_a_fit_to_too_little_is_refused(n, values):
    with pytest.raises(ValueError, match="positive, finite values at two different n or more"):
        fit_exponent(n, values)


# -------------------------------------------------------------------------------------- time


def test_calls_take_turns():
    said = []
    taken = take_turns({name: lambda name=name: said.append(name) for name in "abc"}, 3)
    assert said == [*"abc", *"bca", *"cab"]
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 3, "b": 3, "c": 3}
    assert take_turns({}, 3) == {}


def test_slow_calls_get_fewer_turns():
    taken = take_turns({"slow": lambda: time.sleep(0.01)}, repeats=9, seconds=0)
    assert len(taken["slow"]) == 3


def test_a_median_forgets_the_first_call_and_one_slow_turn(monkeypatch):
    now = 0.0
    waits = {"a": iter([50.0, 1.0, 9.0, 2.0]), "b": iter([60.0, 3.0, 3.0, 3.0])}

    def call(name):
        nonlocal now
        now += next(waits[name])

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    assert medians({name: lambda name=name: call(name) for name in "ab"}, 3) == {"a": 2, "b": 3}


def test_a_median_of_nothing_is_refused():
    with pytest.raises(ValueError, match="1 or more repeats, got 0"):
        medians({}, 0)


# ------------------------------------------------------------------------------------- bytes


def test_bytes_are_counted_while_tensors_live():
    before = torch.zeros(500)
    with CountBytes() as counted:
        first = before + 1  # 2,000 bytes
        view = first[:100]
        second = torch.zeros(1000)
        del first
        assert counted.live == 6000  # the view holds all of it
        del view
        gc.collect()
        assert counted.live == 4000
        second.add_(1)
        third = before * 2
    assert (counted.live, counted.peak) == (6000, 6000)
    assert len(second) + len(third) == 1500


def test_bytes_that_were_there_before_do_not_count_when_they_go():
    before = torch.zeros(500)
    with CountBytes() as counted:
        after = before * 2
        del before
        assert counted.live == counted.peak == 2000
    del after
    assert counted.live == 0


def test_kept_bytes_are_those_of_the_backward_pass():
    x, w = torch.randn(5, 8), torch.randn(8, 3, requires_grad=True)
    assert kept_bytes(lambda: x @ w) == 4 * 40
    assert kept_bytes(lambda: (x @ w).relu()) == 4 * (40 + 15)
    assert kept_bytes(lambda: torch.tanh(x)) == 0  # no gradient is wanted
    layer = nn.Linear(3, 7)
    assert kept_bytes(lambda: layer(x @ w), layer.parameters()) == 4 * (40 + 15)
    assert kept_bytes(lambda: layer(x @ w)) == 4 * (40 + 15 + 21)


def test_parameters_that_are_shared_count_once():
    config = TransformerConfig(vocab_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    tied = Decoder(config)
    layer = 4 * 8**2 + 4 * 8 + 2 * 8 * 16 + 16 + 8 + 4 * 8
    assert parameters(tied) == 10 * 8 + layer + 2 * 8
    with torch.device("meta"):
        assert parameters(nn.Linear(10**6, 10**6, bias=False)) == 10**12


def test_products_are_counted_in_place_too():
    a, b = torch.zeros(2, 3, 4), torch.zeros(2, 4, 5)
    sums, flat = torch.zeros(2, 3, 5), torch.zeros(3, 5)
    assert counted_flops(lambda: a @ b) == 2 * 2 * 3 * 4 * 5
    assert counted_flops(lambda: sums.baddbmm_(a, b)) == 2 * 2 * 3 * 4 * 5
    assert counted_flops(lambda: flat.addmm_(a[0], b[0])) == 2 * 3 * 4 * 5
    assert counted_flops(lambda: sums + sums) == 0


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts peaks")
def test_a_peak_is_what_a_call_adds_for_a_while():
    fresh = """
import torch
from tinyattn.analysis.measure import peak_memory
torch.ones(2**10).sum()
print(peak_memory(lambda: torch.ones(2**24).sum()))
"""
    said = subprocess.run(
        [sys.executable, "-c", fresh],
        env={**os.environ, "PYTHONPATH": str(Path(measure.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 60 * 2**20 < int(said) < 80 * 2**20  # 64 MiB


def test_where_nobody_counts_peaks_that_is_said(monkeypatch):
    monkeypatch.setattr(measure.Path, "exists", lambda path: False)
    with pytest.raises(NotImplementedError, match="only Linux counts"):
        peak_memory(lambda: None)
