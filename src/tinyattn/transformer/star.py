"""Star-Transformer as its paper updates it: a ring of tokens around one relay."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tinyattn.checks import check_tokens, whole_numbers
from tinyattn.padding import check_padding, finite_padding
from tinyattn.transformer.attention import MultiHeadAttention


class StarTransformer(nn.Module):
    """Tokens in a ring read their neighbours and a relay; then the relay reads all tokens.

        h_i ← LayerNorm(ReLU(attend(h_i; h_{i-1}, h_i, h_{i+1}, e_i, s)))     every token, then
        s   ← LayerNorm(ReLU(attend(s; s, h_0, …, h_{n-1})))                 the relay

    e_i is the token's own embedding, s starts as the mean of the embeddings. A token reads five
    vectors and the relay n + 1, so a head takes 6 n + 1 scores in a layer. After one layer a token
    knows those outside its neighbourhood by their mean; after two, through the relay, it can tell
    them apart. There is no feed-forward layer.

    Args:
        d_model: width of a token vector.
        n_heads: heads of both attentions.
        n_layers: cycles of the two updates, each with its own parameters.

    Raises:
        ValueError: if n_layers is below 1, or the sizes are refused by `MultiHeadAttention`.

    Source:
        Guo et al. 2019, section 3 and algorithm 1 (arXiv:1902.09113). As a mask,
        `tinyattn.patterns.star_transformer` leaves out the ring's closing pair, e_i, and the
        order of the two updates. fastNLP's version pads with zero vectors that take part in the
        softmax instead of closing the ring.

    Example:
        >>> h, s = StarTransformer(8, n_heads=2, n_layers=2)(torch.randn(1, 5, 8))
        >>> h.shape, s.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 1, 8]))
    """

    def __init__(self, d_model: int, n_heads: int, n_layers: int) -> None:
        super().__init__()
        d_model, n_heads, n_layers = whole_numbers(
            d_model=d_model, n_heads=n_heads, n_layers=n_layers
        )
        if n_layers < 1:
            raise ValueError(f"n_layers must be 1 or more, got {n_layers}")
        layers = range(n_layers)
        self.around = nn.ModuleList(MultiHeadAttention(d_model, n_heads) for _ in layers)
        self.relay = nn.ModuleList(MultiHeadAttention(d_model, n_heads) for _ in layers)
        self.norm_tokens = nn.ModuleList(nn.LayerNorm(d_model) for _ in layers)
        self.norm_relay = nn.ModuleList(nn.LayerNorm(d_model) for _ in layers)

    def forward(
        self, e: Float[Tensor, "b n d_model"], *, key_padding: Bool[Tensor, "b n"] | None = None
    ) -> tuple[Float[Tensor, "b n d_model"], Float[Tensor, "b 1 d_model"]]:
        """Vectors of the tokens and of the relay, from the tokens' embeddings.

        Args:
            e: embeddings, positions included.
            key_padding: True where a token is real; real tokens come first, at least one.
                Nobody reads the others, NaN too.

        Raises:
            ValueError: if a sequence has no token, a real token follows padding, or shapes do
                not fit.
            TypeError: if key_padding is not bool.
        """
        check_tokens(e, self.norm_relay[0].normalized_shape[0], name="e")
        real = _checked(e, key_padding)
        before, after = _ring(real)
        e = finite_padding(e, key_padding)
        wide = torch.promote_types(e.dtype, torch.float32)  # a sum passes float16's largest number
        share = real[..., None].to(wide)
        h, s = e, (e * share).sum(dim=1, keepdim=True) / share.sum(dim=1, keepdim=True)
        s = s.to(e.dtype)
        relay_reads = torch.cat([real.new_ones(len(real), 1), real], dim=1)
        modules = zip(self.around, self.relay, self.norm_tokens, self.norm_relay, strict=True)
        for around, relay, norm_tokens, norm_relay in modules:
            read = [_pick(h, before), h, _pick(h, after), e, s.expand_as(h)]
            context = torch.stack(read, dim=2)  # (b, n, 5, d_model)
            update = around(h.flatten(0, 1)[:, None], context.flatten(0, 1)).view_as(h)
            h = norm_tokens(torch.relu(update))
            update = relay(s, torch.cat([s, h], dim=1), key_padding=relay_reads)
            s = norm_relay(torch.relu(update))
        return h, s


def _checked(e: Tensor, key_padding: Tensor | None) -> Tensor:
    if e.shape[1] == 0:
        raise ValueError(
            f"a star needs embeddings (b, n, d_model) of at least one token, got {tuple(e.shape)}"
        )
    if key_padding is None:
        return torch.ones(e.shape[:2], dtype=torch.bool, device=e.device)
    check_padding(key_padding, e.shape[:2], e.device)
    n_real = key_padding.sum(dim=1, keepdim=True)
    ordered = key_padding == (torch.arange(e.shape[1], device=e.device) < n_real)
    if not bool(ordered.all()) or not bool((n_real > 0).all()):
        raise ValueError("key_padding must be True for the first tokens of a sequence, one or more")
    return key_padding


def _ring(real: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of each token's neighbours; the last real token is next to the first."""
    at = torch.arange(real.shape[1], device=real.device)[None]
    n_real = real.sum(dim=1, keepdim=True)
    return (at - 1) % n_real, (at + 1) % n_real


def _pick(h: Tensor, at: Tensor) -> Tensor:
    return h.gather(1, at[..., None].expand_as(h))
