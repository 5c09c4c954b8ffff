"""What has no meaning gets no number."""

import math

import pytest

from tinyattn.analysis import (
    encoder_layer_cost,
    first_seen,
    fit_exponent,
)
from tinyattn.patterns import Causal, Random

pytestmark = pytest.mark.usefixtures("refusals")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 0.0, -1.0])
@pytest.mark.parametrize("at", range(4))
def test_a_fit_through_what_is_no_number_is_refused(wrong, at):
    numbers = [1.0, 2.0, 3.0, 4.0]
    numbers[at] = wrong
    with pytest.raises(ValueError, match="positive, finite values at two different n"):
        fit_exponent(numbers[:2], numbers[2:])


def test_a_negative_number_of_layers_costs_nothing_that_could_be_said():
    layer = encoder_layer_cost(4, 8)
    with pytest.raises(ValueError, match="n_layers must be 0 or more, got -1"):
        -1 * layer
    assert (0 * layer).macs == (0 * layer).parameters == 0


def test_positions_are_followed_only_where_the_rule_has_a_meaning():
    with pytest.raises(ValueError, match="8"):
        Random(8, 2, seed=0).mask(20)
    for rules in ([Random(8, 2, seed=0)], [Causal(), Random(8, 2, seed=0) & Causal()]):
        with pytest.raises(ValueError, match="8"):
            first_seen(rules, 0, 20)
