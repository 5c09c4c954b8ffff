"""How a policy that draws graphs learns from what came of them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers


def policy_loss(
    log_p: Float[Tensor, "... n_edges"],
    reward: Float[Tensor, "..."],
    baseline: Float[Tensor, "..."] | float = 0.0,
) -> Float[Tensor, ""]:
    """A number whose gradient moves the policy towards graphs that were rewarded.

        loss = - mean over graphs of Σ_edges (reward - baseline) log p(edge)

    Its gradient is, on average over draws, minus that of the expected reward. A baseline that the
    draw does not change leaves the average as it is and makes single gradients less noisy.

    Args:
        log_p: of the edges, as drawn.
        reward: what came of each graph, (...,), or of each edge, (..., n_edges): then only what
            that edge could change, such as `reward_to_go`. No gradient flows into it.
        baseline: what was to be expected, known before the draw.

    Raises:
        ValueError: if there is not one reward for each graph, or for each edge, or the baseline is
            neither one number nor one for each reward.

    Source:
        Williams 1992, "Simple statistical gradient-following algorithms".
    """
    if reward.shape not in (log_p.shape[:-1], log_p.shape):
        raise ValueError(
            f"give a reward for each graph, {tuple(log_p.shape[:-1])}, or each edge, "
            f"{tuple(log_p.shape)}, got {tuple(reward.shape)}"
        )
    if isinstance(baseline, Tensor) and baseline.dim() and baseline.shape != reward.shape:
        raise ValueError(
            "baseline must be one number, or one for each reward, "
            f"{tuple(reward.shape)}, got {tuple(baseline.shape)}"
        )
    advantage = (reward - baseline).detach()
    if advantage.dim() < log_p.dim():
        advantage = advantage[..., None]
    return -(advantage * log_p).sum(dim=-1).mean()


def reward_to_go(
    reward: Float[Tensor, "... n"], edges_per_token: int
) -> Float[Tensor, "... n_edges"]:
    """For each edge the rewards of its token and of those after it, whose edges are drawn later.

    What earlier tokens earned was settled before the edge was drawn, if a token's reward depends
    on its own edges only. Leaving it out keeps the gradient's average and lowers its noise.

    Example:
        >>> reward_to_go(torch.tensor([1.0, 2.0, 4.0]), edges_per_token=2)
        tensor([7., 7., 6., 6., 4., 4.])
    """
    (edges_per_token,) = whole_numbers(edges_per_token=edges_per_token)
    to_go = reward.flip(-1).cumsum(dim=-1).flip(-1)
    return to_go.repeat_interleave(edges_per_token, dim=-1)


class RunningMean(nn.Module):
    """A baseline: the mean of earlier rewards, older ones counting less and less.

    Args:
        decay: share that the old mean keeps at each `update`.

    Example:
        >>> mean = RunningMean(decay=0.5)
        >>> for reward in (4.0, 2.0):
        ...     mean.update(torch.tensor(reward))
        >>> mean.value
        tensor(2.6667)
    """

    def __init__(self, decay: float = 0.9, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be from 0 to below 1, got {decay}")
        self.decay = decay
        self.register_buffer("total", torch.zeros(shape))
        self.register_buffer("count", torch.zeros(()))

    @property
    def value(self) -> Tensor:
        """The mean before the rewards at hand; 0 at first."""
        return self.total / self.count.clamp(min=1e-12)

    def update(self, reward: Tensor | float) -> None:
        """Take in rewards, after they were used: one number, or as many as the mean has.

        Raises:
            ValueError: if they are not of the shape that the mean was made with.
        """
        reward = torch.as_tensor(reward).detach()
        if reward.shape != self.total.shape:
            raise ValueError(
                f"the mean is of rewards of shape {tuple(self.total.shape)}, "
                f"got {tuple(reward.shape)}; average a batch first"
            )
        self.total.mul_(self.decay).add_((1 - self.decay) * reward)
        self.count.mul_(self.decay).add_(1 - self.decay)
