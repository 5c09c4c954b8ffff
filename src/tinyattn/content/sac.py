"""SAC: attention on a graph that a network draws."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.checks import whole_numbers, whole_seed
from tinyattn.content.edges import Edges, edge_attention
from tinyattn.content.predictor import Drawn, EdgePredictor
from tinyattn.content.router import Router
from tinyattn.engine import check_qkv
from tinyattn.padding import real_only


class SACRouter(Router):
    """Sparse adaptive connection: an LSTM draws at most edges_per_token * n edges, attention follows.

    Every token also reads itself, beyond the budget. In training mode the graph is drawn from the
    seed and the number of `update`s; otherwise each edge is the likeliest. The graph is no smooth
    function of the predictor's parameters, so that it learns from `policy_loss` with the
    logarithms in `last.log_p`, and nothing else.

    Args:
        n_heads: heads.
        d_head: their width.
        edges_per_token: the budget for each token.
        d_hidden: width of the LSTM's state.
        share_heads: whether all heads follow one graph, or each its own.
        every_token: whether each token has edges_per_token edges, or only their mean is bounded.
        causal: whether edges lead to earlier tokens only, and are drawn from those alone.
        seed: of the draws.

    Attributes:
        last: the graph of the last call and its probability.

    Source:
        Li et al. 2020 (arXiv:2003.09833); Lin et al. 2022, section 4.1.2. The paper's letter for
        edges_per_token is α.

    Example:
        >>> from tinyattn import MultiHeadAttention
        >>> layer = MultiHeadAttention(8, 2, pattern=SACRouter(2, 4, edges_per_token=1))
        >>> layer(torch.randn(1, 6, 8)).shape
        torch.Size([1, 6, 8])
        >>> int(layer.pattern.last.edges.valid.sum())
        6
    """

    def __init__(
        self,
        n_heads: int,
        d_head: int,
        *,
        edges_per_token: int,
        d_hidden: int = 32,
        share_heads: bool = True,
        every_token: bool = True,
        causal: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        n_heads, d_head, edges_per_token = whole_numbers(
            n_heads=n_heads, d_head=d_head, edges_per_token=edges_per_token
        )
        seed = whole_seed(seed)
        if edges_per_token < 0:
            raise ValueError(f"edges_per_token must be 0 or more, got {edges_per_token}")
        if causal and not every_token:
            raise ValueError(
                "a causal graph must be drawn with every_token=True: where the network chooses "
                "who reads, an early token's edges depend on later ones"
            )
        self.n_heads, self.d_head, self.edges_per_token = n_heads, d_head, edges_per_token
        self.share_heads, self.causal, self.seed = share_heads, causal, seed
        d_node = 2 * d_head * (n_heads if share_heads else 1)
        self.predictor = EdgePredictor(d_node, d_hidden, every_token=every_token)
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.long))
        self.last: Drawn | None = None
        self.drawn_for: tuple[int, int] | None = None

    def draw(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
    ) -> Drawn:
        """The graphs, (b, 1 or h), from queries and keys side by side."""
        check_qkv(q, k, k, key_padding, None)
        tokens = torch.cat([real_only(x, key_padding) for x in (q, k)], dim=-1)
        if self.share_heads:
            tokens = tokens.transpose(1, 2).flatten(2)[:, None]
        generator = None
        if self.training:
            generator = torch.Generator(q.device)
            generator.manual_seed((self.seed * 1_000_003 + int(self.n_updates)) % 2**64)
        return self.predictor(
            tokens,
            self.edges_per_token * q.shape[2],
            causal=self.causal,
            real=key_padding,
            generator=generator,
        )

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        self.last = self.draw(q, k, key_padding=key_padding)
        self.drawn_for = (len(q), q.shape[2])
        return _follow(self.last.edges, q, k, v, key_padding, scale)

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        """What `attend` multiplies each value by: its result for the unit vectors."""
        units = torch.eye(q.shape[2], dtype=q.dtype, device=q.device)
        units = units.expand(*q.shape[:2], -1, -1)
        edges = self.draw(q, k, key_padding=key_padding).edges
        return _follow(edges, q, k, units, key_padding, scale)

    def __getstate__(self) -> dict:
        """Without the last graph, which hangs on its gradient and cannot be copied."""
        return {**self.__dict__, "last": None}

    def update(self) -> None:
        """Another draw from now on."""
        self.n_updates += 1

    def check(self, n_heads: int, d_head: int) -> None:
        if (n_heads, d_head) != (self.n_heads, self.d_head):
            raise ValueError(
                f"this router is made for {self.n_heads} heads of {self.d_head}, "
                f"got {n_heads} of {d_head}"
            )


class SameGraph(Router):
    """Follows the graph that another layer's router drew last: layers that share one graph.

    Args:
        leader: the router of an earlier layer.

    Example:
        >>> leader = SACRouter(2, 4, edges_per_token=1)
        >>> in_layers = [leader, SameGraph(leader)]
    """

    def __init__(self, leader: SACRouter) -> None:
        super().__init__()
        if not isinstance(leader, SACRouter):
            raise TypeError(f"the router to follow must be a SACRouter, got {leader!r}")
        self._leader = (leader,)  # in a tuple: its parameters belong to the other layer
        self.causal = leader.causal

    def __deepcopy__(self, memo: dict) -> SameGraph:
        """Follows the copy of its leader if that is copied too, and else the leader itself."""
        (leader,) = self._leader
        memo[id(self)] = follower = SameGraph(memo.get(id(leader), leader)).train(self.training)
        return follower

    def weights(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n n"]:
        units = torch.eye(q.shape[2], dtype=q.dtype, device=q.device)
        units = units.expand(*q.shape[:2], -1, -1)
        return self.attend(q, k, units, key_padding=key_padding, scale=scale)

    def attend(
        self,
        q: Float[Tensor, "b h n d_head"],
        k: Float[Tensor, "b h n d_head"],
        v: Float[Tensor, "b h n d_v"],
        *,
        key_padding: Bool[Tensor, "b n"] | None = None,
        scale: float | None = None,
    ) -> Float[Tensor, "b h n d_v"]:
        (leader,) = self._leader
        if leader.last is None:
            raise ValueError("the router to follow has drawn no graph yet: it has to come first")
        if leader.drawn_for != (len(q), q.shape[2]):
            raise ValueError(
                f"the graph to follow was drawn for (b, n) = {leader.drawn_for}, "
                f"got {(len(q), q.shape[2])}"
            )
        return _follow(leader.last.edges, q, k, v, key_padding, scale)

    def check(self, n_heads: int, d_head: int) -> None:
        self._leader[0].check(n_heads, d_head)


def _follow(
    edges: Edges,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    scale: float | None,
) -> Tensor:
    scale = check_qkv(q, k, v, key_padding, scale)
    real = key_padding
    if real is None:
        real = torch.ones(len(q), q.shape[2], dtype=torch.bool, device=q.device)
    return edge_attention(q, k, v, edges.with_own(real), scale=scale)
