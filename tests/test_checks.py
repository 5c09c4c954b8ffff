"""What passes for a whole number, and what comes of it."""

import re

import numpy as np
import pytest
import torch

from tinyattn.checks import whole_numbers


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint32(3), np.int64(3)])
def test_integers_of_any_kind_become_those_of_python(value):
    assert [type(x) for x in whole_numbers(n=value)] == [int]
    assert whole_numbers(n=value, w=-4) == (3, -4)


@pytest.mark.parametrize("value", [2.0, True, "2", None, np.bool_(True), torch.tensor(2), [2]])
def test_what_is_no_whole_number_is_refused_by_its_name(value):
    with pytest.raises(TypeError, match=f"w must be a whole number, got {re.escape(repr(value))}"):
        whole_numbers(n=1, w=value)
