"""What a real layer depends on: found from its derivatives, not from what it is said to do."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.functional import jacobian


def dependencies(
    layer: Callable[[Tensor], Tensor], x: Float[Tensor, "1 n d_model"]
) -> Bool[Tensor, "n_out n"]:
    """True where output i changes with input j: where the layer's Jacobian at x is not zero.

    The matrix is the layer's graph, which `path_lengths` and its neighbours take. Costs a
    backward pass for each number of the output.

    Args:
        layer: maps (1, n, d_model) to (1, n_out, any width).
        x: where the derivatives are taken. Nonlinearities cut edges at some points, as a ReLU
            does below zero; with random numbers in several channels no edge is lost in practice.

    Raises:
        ValueError: if x or what the layer makes of it is not one sequence of vectors.

    Source:
        Lin et al. 2022, table 2 (arXiv:2106.04554), speak of paths of signals; a derivative that
        is not zero is one.

    Example:
        >>> import torch
        >>> from tinyattn.families import Convolution
        >>> dependencies(Convolution(2, width=2, causal=True), torch.randn(1, 4, 2)).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    if x.dim() != 3 or len(x) != 1:
        raise ValueError(f"x must be one sequence, (1, n, d_model), got {tuple(x.shape)}")
    slopes = jacobian(layer, x)
    if slopes.dim() != 6 or len(slopes) != 1:
        raise ValueError(
            "the layer must make one sequence of one, (1, n_out, width), "
            f"got {tuple(slopes.shape[:-3])}"
        )
    return (slopes != 0).any(dim=5).any(dim=2)[0, :, 0]  # (1, n_out, width, 1, n, d_model)


def longest_chain(out: Tensor) -> int:
    """Operations of which each waits for the one before, on the longest way through a result.

    Counted in the graph that autograd keeps, from the leaves that need a gradient to `out`;
    views and copies count like any other operation. It does not depend on how fast or how
    parallel a machine is.

    Raises:
        ValueError: if no operation was recorded.

    Example:
        >>> import torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> longest_chain((x * 2).sum() + x.sum())
        3
    """
    if out.grad_fn is None:
        raise ValueError("out must be a result that gradients can be taken of, got one without")
    depth: dict[object, int] = {}
    waiting = [out.grad_fn]
    while waiting:
        operation = waiting[-1]
        before = [step for step, _ in operation.next_functions if hasattr(step, "next_functions")]
        unknown = [step for step in before if step not in depth]
        if unknown:
            waiting += unknown
            continue
        # a leaf, which only collects gradients, has no operation of its own
        own = 0 if hasattr(operation, "variable") and not before else 1
        depth[operation] = own + max((depth[step] for step in before), default=0)
        waiting.pop()
    return depth[out.grad_fn]
