"""The network that draws a graph edge by edge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import whole_numbers
from tinyattn.content.edges import Edges


@dataclass(frozen=True)
class Drawn:
    """A graph that was drawn, and how likely it was.

    Args:
        edges: the edges in the order in which they were drawn.
        log_p: of each edge, given those before it; their sum is that of the graph.
        entropy: how undecided each edge was, -Σ p log p over what it could have been.
    """

    edges: Edges
    log_p: Float[Tensor, "b g n_edges"]
    entropy: Float[Tensor, "b g n_edges"]


class EdgePredictor(nn.Module):
    """An LSTM that points at one token after another: at who reads, then at whom.

        state = LSTM(state, token pointed at last),  p(j) = softmax_j(state · node_j / √d_hidden)

    Two pointings make an edge. With `every_token` the first is given: token 0 reads, then token 1,
    and so on, and each has equally many edges, as far as there are keys left. An edge to oneself,
    one that is already there, one to padding, and in a causal graph one to a later token have
    probability zero, so that the budget buys as many different edges as there can be.

    n_edges edges take 2 * n_edges steps one after the other, each of which looks at all n tokens:
    O(n_edges * n), not less than the dense attention that the graph is to save.

    Args:
        d_node: width of the token vectors.
        d_hidden: width of the LSTM's state.
        every_token: whether each token reads equally many, or the network may choose.

    Raises:
        ValueError: if a size is below 1.

    Source:
        Li et al. 2020, "SAC", section 3 (arXiv:2003.09833), whose picks may repeat an edge.
        `every_token` is their variant in which all nodes are connected.

    Example:
        >>> predictor = EdgePredictor(d_node=8, d_hidden=16)
        >>> drawn = predictor(torch.randn(1, 1, 5, 8), 10, generator=torch.Generator())
        >>> drawn.edges.mask(5).sum(dim=-1).tolist()
        [[[2, 2, 2, 2, 2]]]
    """

    def __init__(self, d_node: int, d_hidden: int, *, every_token: bool = True) -> None:
        super().__init__()
        d_node, d_hidden = whole_numbers(d_node=d_node, d_hidden=d_hidden)
        if d_node < 1 or d_hidden < 1:
            raise ValueError(
                f"d_node and d_hidden must be 1 or more, got d_node={d_node}, d_hidden={d_hidden}"
            )
        self.every_token = every_token
        self.read = nn.Linear(d_node, d_hidden)
        self.cell = nn.LSTMCell(d_hidden, d_hidden)
        self.nodes = nn.Linear(d_node, d_hidden)

    def forward(
        self,
        x: Float[Tensor, "b g n d_node"],
        n_edges: int,
        *,
        causal: bool = False,
        real: Bool[Tensor, "b n"] | None = None,
        generator: torch.Generator | None = None,
        given: Edges | None = None,
    ) -> Drawn:
        """Draw g graphs for each sequence.

        Args:
            x: token vectors, from which the g graphs of a sequence are drawn independently.
            n_edges: the budget; with `every_token` a multiple of n.
            causal: whether edges lead to earlier tokens only.
            real: True where a token is no padding.
            generator: of the draw; without one, each pointing is at the likeliest token.
            given: edges to be drawn instead, to learn their probability: as many, and with
                `every_token` those of token 0 first, as they are drawn.

        Raises:
            ValueError: if the budget is negative, or not to be shared equally, or `given` holds
                other edges than could be drawn.
        """
        b, g, n, _ = x.shape
        (n_edges,) = whole_numbers(n_edges=n_edges)
        if n_edges < 0 or (self.every_token and n and n_edges % n):
            raise ValueError(
                f"n_edges must be 0 or more, and a multiple of n={n} if every token is to read "
                f"equally many, got {n_edges}"
            )
        if given is not None:
            self._check_given(given, (b, g, n_edges if n else 0), n)
        x = x.flatten(0, 1)
        free = _free(n, causal, real, b, x.device).repeat_interleave(g, 0)  # (b * g, n, n)
        taken = (
            None if given is None else [part.flatten(0, 1) for part in (given.queries, given.keys)]
        )
        draw = _Draw(self, x, generator)
        picks = []
        for edge in range(n_edges if n else 0):
            if self.every_token:
                source = x.new_full((b * g,), edge // (n_edges // n), dtype=torch.long)
                log_source = doubt = x.new_zeros(b * g)
            else:
                wanted = None if taken is None else taken[0][:, edge]
                source, log_source, doubt = draw.point(free.any(dim=2), wanted)
            draw.read(source)
            rows = torch.arange(b * g, device=x.device)
            wanted = None if taken is None else taken[1][:, edge]
            valid = free[rows, source].any(dim=1)
            target, log_target, more_doubt = draw.point(free[rows, source], wanted)
            draw.read(target)
            free[rows, source, target] = False
            picks.append((source, target, valid, log_source + log_target, doubt + more_doubt))
        return _stacked(picks, b, g, x)

    def _check_given(self, given: Edges, shape: tuple[int, int, int], n: int) -> None:
        if given.queries.shape != shape or given.keys.shape != shape:
            raise ValueError(
                f"given must hold {shape[2]} edges for each graph, (b, g, n_edges) = {shape}, "
                f"got {tuple(given.queries.shape)} and {tuple(given.keys.shape)}"
            )
        if self.every_token and shape[2]:
            each = torch.arange(n, device=given.queries.device).repeat_interleave(shape[2] // n)
            if not torch.equal(given.queries, each.expand(shape)):
                raise ValueError(
                    f"with every_token, given.queries must be {each.tolist()} in each graph"
                )


class _Draw:
    """The LSTM in the course of drawing."""

    def __init__(
        self, predictor: EdgePredictor, x: Tensor, generator: torch.Generator | None
    ) -> None:
        self.cell, self.generator = predictor.cell, generator
        self.inputs = predictor.read(x)  # (graphs, n, d_hidden)
        self.nodes = predictor.nodes(x) / math.sqrt(predictor.cell.hidden_size)
        zeros = x.new_zeros(len(x), predictor.cell.hidden_size)
        self.state = self.cell(zeros, (zeros, zeros))
        self.rows = torch.arange(len(x), device=x.device)

    def read(self, token: Tensor) -> None:
        """One step, with the token that was pointed at."""
        self.state = self.cell(self.inputs[self.rows, token], self.state)

    def point(self, free: Tensor, wanted: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """A free token, log p of it, and the entropy; token 0 and zeros where none is free."""
        scores = (self.nodes @ self.state[0][:, :, None]).squeeze(2)  # (graphs, n)
        some = free.any(dim=1, keepdim=True)
        log_p = scores.masked_fill(~free & some, -math.inf).log_softmax(dim=1)
        if wanted is not None:
            token = wanted
        elif self.generator is None:
            token = log_p.argmax(dim=1)
        else:
            token = torch.multinomial(log_p.detach().exp(), 1, generator=self.generator)[:, 0]
        token = token.where(some[:, 0], 0)
        entropy = -(log_p.exp() * log_p.where(free, 0.0)).sum(dim=1)
        return token, log_p[self.rows, token].where(some[:, 0], 0.0), entropy


def _free(n: int, causal: bool, real: Tensor | None, b: int, device: torch.device) -> Tensor:
    """Which pairs may become edges, (b, n, n)."""
    free = ~torch.eye(n, dtype=torch.bool, device=device).expand(b, n, n)
    if causal:
        free = free.tril()
    if real is not None:
        free = free & real[:, :, None] & real[:, None, :]
    return free.clone()


def _stacked(picks: list[tuple[Tensor, ...]], b: int, g: int, x: Tensor) -> Drawn:
    if not picks:
        none = x.new_zeros(b, g, 0)
        return Drawn(Edges(none.long(), none.long(), none.bool()), none, none)
    parts = [torch.stack(part, dim=1).unflatten(0, (b, g)) for part in zip(*picks, strict=True)]
    return Drawn(Edges(*parts[:3]), *parts[3:])
