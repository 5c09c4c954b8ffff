"""A ledger that lets a wrong exponent pass would be worse than none."""

from dataclasses import FrozenInstanceError

import pytest

from tinyattn.analysis import attention_flops, complexity_claims, kept_pairs
from tinyattn.analysis.ledger import Claim, Ledger
from tinyattn.analysis.measure import Fit
from tinyattn.patterns import Window


def of_attention(claimed, **said):
    return Claim.of_count(
        "attention, operations", claimed, lambda n: attention_flops(n, 64), **said
    )


def test_the_right_exponent_passes():
    claim = of_attention(2, where="04_complexity")
    assert claim.holds is True
    Ledger([claim]).check()


@pytest.mark.parametrize("claimed", [1, 1.9, 2.1, 3])
def test_a_planted_wrong_exponent_fails_and_is_named(claimed):
    ledger = Ledger([of_attention(2), Claim("time of something", 1, measured=Fit(3.0, 0.1))])
    ledger.add(Claim.of_count("a rumour", claimed, lambda n: attention_flops(n, 64)))
    with pytest.raises(AssertionError, match=rf"1 of 3 .* is off: a rumour: claimed n\^{claimed}"):
        ledger.check()


def test_all_that_are_off_are_named():
    ledger = Ledger(Claim.of_count(name, 2, lambda n: n) for name in ("first", "second"))
    with pytest.raises(AssertionError, match=r"2 of 2 claims are off: first: .*; second: "):
        ledger.check()


def test_a_claim_does_not_change_once_it_is_made():
    claim = of_attention(2)
    assert hash(claim) == hash(of_attention(2))
    with pytest.raises(FrozenInstanceError):
        claim.claimed = 3


def test_a_time_decides_nothing():
    claim = Claim("attention, seconds", 2, measured=Fit(1.2, 0.05))
    assert claim.holds is None
    Ledger([claim]).check()
    assert Claim("both", 2, counted=Fit(2.0, 0.0), measured=Fit(1.2, 0.05)).holds is True
    assert Claim("both", 1, counted=Fit(2.0, 0.0), measured=Fit(1.0, 0.05)).holds is False


@pytest.mark.parametrize(
    ("counted", "holds"), [(2.01, True), (1.99, True), (2.02, False), (1.98, False)]
)
def test_the_tolerance_is_on_both_sides(counted, holds):
    assert Claim("a", 2, Fit(counted, None), tolerance=0.015).holds is holds


def test_a_count_can_be_taken_at_sizes_that_fit_it():
    pairs = Claim.of_count(
        "pairs of a window", 1, lambda n: kept_pairs(Window(2), n), at=[2**10, 2**12, 2**14], of="n"
    )
    assert pairs.holds is True
    in_width = Claim.of_count(
        "operations in d_model", 2, lambda d: attention_flops(8, d), of="d_model"
    )
    assert in_width.holds is True
    assert str(in_width).startswith("operations in d_model: claimed d_model^2, counted 2.00")


def test_the_table_shows_what_is_claimed_counted_measured_and_off():
    ledger = Ledger(
        [
            Claim("a", 2, Fit(2.0, 0.001), Fit(1.87, 0.04), where="04_complexity"),
            Claim("b", 3, Fit(2.0, None), of="d_model"),
            Claim("c", 0.5),
        ]
    )
    assert ledger.table().splitlines()[2:] == [
        "| a | $n^{2}$ | 2.00 | 1.87 ± 0.04 | 04_complexity |",
        r"| b | $d_\text{model}^{3}$ | 2.00 (off) | – | – |",
        "| c | $n^{0.5}$ | – | – | – |",
    ]
    assert "| [chapter 4](../04_complexity.ipynb) |" in ledger.table(up="../")


def test_the_first_power_has_no_exponent_and_the_zeroth_is_one():
    rows = Ledger([Claim("a", 1), Claim("b", 0)]).table().splitlines()[2:]
    assert rows == ["| a | $n$ | – | – | – |", "| b | 1 | – | – | – |"]


def test_two_claims_of_one_name_and_claims_without_are_refused():
    ledger = Ledger([of_attention(2)])
    with pytest.raises(ValueError, match="has a claim called 'attention, operations' already"):
        ledger.add(of_attention(3))
    with pytest.raises(ValueError, match="needs a name"):
        Claim("", 2)
    with pytest.raises(ValueError, match="tolerance must be 0 or more, got -1"):
        Claim("a", 2, tolerance=-1)


def test_every_claim_of_the_book_is_counted_and_holds():
    claims = complexity_claims()
    assert len(claims) > 10
    assert all(claim.holds and claim.where for claim in claims)
    ledger = Ledger(claims)
    ledger.check()
    for claim in claims:  # and none would hold with another exponent
        planted = Claim(claim.name, claim.claimed + 1, claim.counted, tolerance=claim.tolerance)
        assert planted.holds is False
