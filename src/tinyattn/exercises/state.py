"""What torch remembers beside random numbers: gradients on or off, default dtype, default device.

An answer may set any of them and forget it. Whoever comes next must not be marked by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def kept_state() -> Iterator[None]:
    """Whatever is set inside is set back at the end, also after an error."""
    gradients, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    device = torch.get_default_device()
    try:
        yield
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(device)


@contextmanager
def first_state(seed: int) -> Iterator[None]:
    """Torch as it starts, with this seed; the caller's state comes back at the end."""
    with torch.random.fork_rng(devices=[]), kept_state():
        torch.manual_seed(seed)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        if torch.get_default_device() != torch.device("cpu"):
            torch.set_default_device("cpu")
        yield
