"""Equality up to rounding."""

import torch
from torch import Tensor


def assert_same(ours: Tensor, theirs: Tensor, rtol: float = 1e-11, atol: float = 1e-11) -> None:
    """Same shape, same dtype, same numbers; `torch.allclose` alone forgives 1 in 100,000."""
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)
