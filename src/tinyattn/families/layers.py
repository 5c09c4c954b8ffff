"""The layers that attention is compared with: each maps a sequence to one of the same shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tinyattn.families.shapes import check_sizes


class Convolution(nn.Module):
    """Each output is a linear map of `width` inputs around it, or before it.

        out_i = b + Σ_m x_{i + m * dilation} W_m

    with m from -(width - 1) / 2 to (width - 1) / 2, or from -(width - 1) to 0 if causal. Inputs
    beyond the ends are zero. Costs n * width * d_model² multiply-accumulates, dilated or not.

    Args:
        d_model: width of a token vector.
        width: tokens that an output sees; odd unless causal.
        dilation: step between them.
        causal: whether an output sees its own token and earlier ones only.
        bias: whether there is one.

    Raises:
        ValueError: if a size is below 1, or width is even and the layer not causal.
        TypeError: if a size is no whole number.

    Source:
        Lin et al. 2022, table 2 (arXiv:2106.04554). Its path length, log_width(n), needs a stack
        with dilations 1, width, width², …; a stack without dilation needs O(n / width) layers.

    Example:
        >>> Convolution(8, width=3, dilation=2)(torch.randn(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        width: int,
        *,
        dilation: int = 1,
        causal: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        d_model, width, dilation = check_sizes(d_model=d_model, width=width, dilation=dilation)
        if width % 2 == 0 and not causal:
            raise ValueError(f"width must be odd for a kernel around its token, got {width}")
        beyond = (width - 1) * dilation
        self.padding = (beyond, 0) if causal else (beyond // 2, beyond // 2)
        self.kernel = nn.Conv1d(d_model, d_model, width, dilation=dilation, bias=bias)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Raises ValueError unless x is (b, n, d_model)."""
        _check_input(x, self.kernel.in_channels)
        if x.shape[1] == 0:
            return x
        return self.kernel(F.pad(x.transpose(1, 2), self.padding)).transpose(1, 2)


class Recurrence(nn.Module):
    """A state that takes in one token after the other, and is the output at each.

        h_i = tanh(x_i W + h_{i-1} U + b),  h_{-1} = 0

    Costs 2 * n * d_model² multiply-accumulates, in n steps of which each waits for the last.

    Args:
        d_model: width of a token vector and of the state.
        bias: whether there is one.

    Source:
        Elman 1990, "Finding structure in time". `torch.nn.RNN` adds a second bias for the state,
        which changes nothing that the first cannot.

    Example:
        >>> Recurrence(8)(torch.randn(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        (d_model,) = check_sizes(d_model=d_model)
        self.from_token = nn.Linear(d_model, d_model, bias=bias)
        self.from_state = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Raises ValueError unless x is (b, n, d_model)."""
        _check_input(x, self.from_token.in_features)
        state, states = x.new_zeros(x.shape[0], x.shape[2]), []
        for token in self.from_token(x).unbind(dim=1):  # all tokens' part at once
            state = (token + self.from_state(state)).tanh()
            states.append(state)
        return torch.stack(states, dim=1) if states else x


class FullyConnected(nn.Module):
    """One linear map of the whole sequence: every number of the output sees every one of x.

    Costs n² * d_model² multiply-accumulates and as many parameters, and knows one length only.

    Args:
        n: tokens.
        d_model: width of a token vector.
        bias: whether there is one.

    Example:
        >>> FullyConnected(5, 8)(torch.randn(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    def __init__(self, n: int, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        n, d_model = check_sizes(n=n, d_model=d_model)
        self.n, self.d_model = n, d_model
        self.everything = nn.Linear(n * d_model, n * d_model, bias=bias)

    def forward(self, x: Float[Tensor, "b n d_model"]) -> Float[Tensor, "b n d_model"]:
        """Raises ValueError unless x is (b, n, d_model) with the n the layer was built for."""
        _check_input(x, self.d_model)
        if x.shape[1] != self.n:
            raise ValueError(f"this layer was built for {self.n} tokens, got {x.shape[1]}")
        return self.everything(x.flatten(1)).view(x.shape)


def _check_input(x: Tensor, d_model: int) -> None:
    if x.dim() != 3 or x.shape[-1] != d_model:
        raise ValueError(f"x must be (b, n, d_model={d_model}), got {tuple(x.shape)}")
