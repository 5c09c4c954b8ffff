"""A matrix as a rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from tinyattn.patterns.base import Pattern, keep


@dataclass(frozen=True)
class Painted(Pattern):
    """A bool matrix as a pattern: what was painted is allowed, and nothing outside the matrix.

    Args:
        mask: (n, n) bool, True where a query may read; it is copied.

    Raises:
        ValueError: if the matrix is not square.
        TypeError: if it is no bool tensor.

    Example:
        >>> from tinyattn.patterns import Causal
        >>> (Painted(torch.eye(3, dtype=torch.bool)) | Causal()).edges(3)
        6
    """

    painted: bytes
    n: int

    def __init__(self, mask: Bool[Tensor, "n n"]) -> None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(f"a painted mask must be a bool tensor, True = may read, got {kind}")
        if mask.dim() != 2 or mask.shape[0] != mask.shape[1]:
            raise ValueError(f"a painted mask must be (n, n), got {tuple(mask.shape)}")
        keep(self, painted=mask.cpu().contiguous().numpy().tobytes(), n=len(mask))

    def __repr__(self) -> str:
        return f"Painted(n={self.n}, edges={self.edges(self.n)})"

    def __getstate__(self) -> dict[str, object]:
        return {"painted": self.painted, "n": self.n}  # the matrix is the same once more

    @cached_property
    def _matrix(self) -> Bool[Tensor, "n n"]:
        """What was painted, copied once: a copy for each question would be n² each time."""
        return torch.frombuffer(bytearray(self.painted), dtype=torch.bool).view(self.n, self.n)

    def allowed(self, i: Integer[Tensor, "..."], j: Integer[Tensor, "..."]) -> Bool[Tensor, "..."]:
        inside = (i < self.n) & (j < self.n)
        if self.n == 0:
            return inside  # nothing is
        return self._matrix.to(i.device)[i.clamp(max=self.n - 1), j.clamp(max=self.n - 1)] & inside
